"""Progress display: a bar with the time left on a terminal, plain lines elsewhere, or nothing."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from typing import TextIO

__all__ = ["Progress", "as_percent", "format_time"]

_BAR, _SHORT_BAR = 30, 10
_SECONDS_BETWEEN = 0.2


def _as_parts(done: int, total: int | None) -> str:
    """How much is done, such as "3/12"."""
    return f"{done}" if total is None else f"{done}/{total}"


def as_percent(done: int, total: int | None) -> str:
    """How much is done, such as " 25%"."""
    return f"{done / total:4.0%}" if total else ""


class Progress:
    """Shows the progress of a task.

    Args:
        label: Name of the task, in front of the bar.
        total: Total number of steps; None if it is not known.
        done: Number of steps done before.
        show: None for a bar on a terminal and lines elsewhere, True for the bar, False for nothing.
        count: Formats the number of steps done and the total.
        every: Number of steps between lines, if not on a terminal; None for one line at the end.
        stream: Where to write; None for standard error.
        transient: Whether the bar disappears at the end.

    Attributes:
        is_bar: Whether a bar is drawn.

    Example:
        >>> with Progress("features", 20, stream=sys.stdout) as progress:
        ...     progress.update(10)
        ...     progress.update(20)
        features 20/20
    """

    def __init__(
        self,
        label: str,
        total: int | None,
        *,
        done: int = 0,
        show: bool | None = None,
        count: Callable[[int, int | None], str] = _as_parts,
        every: int | None = None,
        stream: TextIO | None = None,
        transient: bool = False,
    ) -> None:
        self.label, self.total, self.done = label, total, done
        self.stream = stream or sys.stderr
        terminal = self.stream.isatty()
        self.is_bar = terminal if show is None else show
        self._has_lines = show is None and not terminal
        self._count, self._every, self._transient = count, every, transient
        self._values: tuple[str, ...] = ()
        self._began, self._first = time.monotonic(), done
        self._drawn, self._drawn_at = "", -_SECONDS_BETWEEN
        self._last_line = -1

    def __enter__(self) -> Progress:
        """The display itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the line of the bar, or remove the bar."""
        self.close()

    def update(self, done: int, *values: str, label: str | None = None) -> None:
        """Show the current progress.

        Args:
            done: Total number of steps done, not the increment.
            values: Texts to show beside the bar, as many as fit.
            label: New label; None keeps the previous one.
        """
        self.done, self._values = done, values
        self.label = self.label if label is None else label
        if self.is_bar:
            if time.monotonic() - self._drawn_at >= _SECONDS_BETWEEN or done == self.total:
                self._draw()
        elif self._has_lines:
            self._write_line()

    def print(self, line: str) -> None:
        """Write a line above the bar."""
        drawn = self._drawn
        self._erase()
        self.stream.write(f"{line}\n")
        if drawn:
            self._draw()
        self.stream.flush()

    def time_left(self, done: int | None = None) -> str:
        """The time left at the average rate since the start.

        Args:
            done: Number of steps done; None for the last number shown.
        """
        done = self.done if done is None else done
        if self.total is None or done == self._first:
            return "?"
        rate = (time.monotonic() - self._began) / (done - self._first)
        return format_time(rate * (self.total - done))

    def close(self) -> None:
        """Show the last state and end the line of the bar, or remove the bar."""
        if not self._drawn:
            return
        if self._transient:
            self._erase()
        else:
            self._draw()
            self.stream.write("\n")
            self._drawn = ""
        self.stream.flush()

    def _draw(self) -> None:
        text = self._text(shutil.get_terminal_size().columns)
        if text != self._drawn:
            self.stream.write(f"\r{text:{len(self._drawn)}}")
            self.stream.flush()
        self._drawn, self._drawn_at = text, time.monotonic()

    def _erase(self) -> None:
        if self._drawn:
            self.stream.write(f"\r{' ' * len(self._drawn)}\r")
        self._drawn = ""

    def _text(self, width: int) -> str:
        """The line with the bar, with as many values and as long a bar as fit."""
        count, left = self._count(self.done, self.total), f"{self.time_left()} left "
        if self.total is None:
            return f"{self.label} {count} "
        values = list(self._values)
        while True:
            after = ", ".join(part for part in (count, "  ".join(values), left) if part)
            room = width - 1 - len(f"{self.label} [] {after}")
            if room >= _SHORT_BAR or not values:
                break
            values.pop()
        size = min(max(room, 1), _BAR)
        return f"{self.label} [{'#' * (size * self.done // max(self.total, 1)):{size}}] {after}"

    def _write_line(self) -> None:
        number = -1 if self._every is None else self.done // self._every
        if number > self._last_line or self.done == self.total:
            self._last_line = number
            count = self._count(self.done, self.total)
            self.stream.write(" ".join(part for part in (self.label, count, *self._values) if part) + "\n")
            self.stream.flush()


def format_time(seconds: float) -> str:
    """A duration in readable units.

    Example:
        >>> format_time(9.6), format_time(754), format_time(7260)
        ('10 s', '12:34 min', '2:01 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d} min" if minutes < 100 else f"{minutes // 60}:{minutes % 60:02d} h"
