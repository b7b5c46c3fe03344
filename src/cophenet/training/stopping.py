"""Ends of a training that are no mistakes in the program: a loss that diverges, and a wish to stop."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["DivergenceError", "InterruptionError", "StopRequest", "stop_on_signals"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class DivergenceError(ArithmeticError):
    """The loss is not a number, or not finite."""


class InterruptionError(Exception):
    """The training was asked to stop, and has saved where it stands."""


class StopRequest:
    """Whether somebody asked to stop.

    Attributes:
        wanted: True from the first signal on.
    """

    wanted: bool = False


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """Turn Ctrl-C and a polite kill into a request; a second one acts at once, as always.

    In other threads than the main one, which get no signals, nothing is changed.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    before = {number: signal.getsignal(number) for number in _SIGNALS}

    def ask(number: int, frame: FrameType | None) -> None:
        _ = number, frame
        request.wanted = True
        for known, handler in before.items():
            signal.signal(known, handler)

    for number in _SIGNALS:
        signal.signal(number, ask)
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
