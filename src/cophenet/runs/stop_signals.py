"""Treat SIGINT (Ctrl-C) and SIGTERM as requests to stop, after which the training saves and stops."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

__all__ = ["InterruptionError", "StopRequest"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class InterruptionError(Exception):
    """The training was stopped by a signal, after writing a checkpoint."""


class StopRequest:
    """Context manager that records SIGINT and SIGTERM as a request to stop.

    Attributes:
        wanted: Whether a signal has been received.
    """

    def __init__(self) -> None:
        self.wanted = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> StopRequest:
        """Install the signal handlers."""
        self.listen()
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the previous signal handlers."""
        self.ignore()

    def listen(self) -> None:
        """Install handlers for SIGINT and SIGTERM; after the first signal the previous handlers are restored.

        Does nothing in threads other than the main one, which cannot handle signals.
        """
        if self.wanted or threading.current_thread() is not threading.main_thread():
            return
        for number in _SIGNALS:
            self._before.setdefault(number, signal.getsignal(number))
            signal.signal(number, self._ask)

    def ignore(self) -> None:
        """Restore the previous signal handlers."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        _ = number, frame
        self.wanted = True
        self.ignore()
