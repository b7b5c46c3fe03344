"""SIGINT (Ctrl-C) and SIGTERM as a request to stop, which a training follows after it has saved."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

__all__ = ["InterruptionError", "StopRequest"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class InterruptionError(Exception):
    """The training was asked to stop, and has written a checkpoint."""


class StopRequest:
    """Whether somebody asked to stop, by a signal while it is needed: a context.

    Attributes:
        wanted: True from the first signal on.
    """

    def __init__(self) -> None:
        self.wanted = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> StopRequest:
        """Begin to listen."""
        self.listen()
        return self

    def __exit__(self, *_: object) -> None:
        """Let signals do what they did before."""
        self.ignore()

    def listen(self) -> None:
        """Let SIGINT and SIGTERM become the request; a second one acts at once, as always.

        In other threads than the main one, which get no signals, nothing is changed.
        """
        if self.wanted or threading.current_thread() is not threading.main_thread():
            return
        for number in _SIGNALS:
            self._before.setdefault(number, signal.getsignal(number))
            signal.signal(number, self._ask)

    def ignore(self) -> None:
        """Let signals do what they did before."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        _ = number, frame
        self.wanted = True
        self.ignore()
