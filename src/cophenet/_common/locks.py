"""Folders that one process, and one thread of it, has to itself."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cophenet._common.places import check_file_place, open_in_place

__all__ = ["InUseError", "locked"]

# The system's locks are between processes; these are between the threads of this one.
_held: set[Path] = set()
_holding = threading.Lock()


class InUseError(ValueError):
    """Another process or thread is at work in a folder."""


@contextmanager
def locked(folder: Path, name: str = "lock", *, what: str = "folder") -> Iterator[None]:
    """Keep a folder to this thread of this process; the system frees it when the process ends in any way.

    Args:
        folder: The folder.
        name: The file in it that is locked; what has another name is locked apart.
        what: What the folder is, or what is locked in it, for the message.

    Raises:
        InUseError: If another process or thread has it.
        ValueError: If the file is a link or no plain file.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, locked(Path(folder)):
        ...     with locked(Path(folder)):
        ...         pass
        Traceback (most recent call last):
        cophenet._common.locks.InUseError: folder ... is in use by another thread: wait for it, or ...
    """
    subject = f"{what} {folder}"
    place = folder.resolve() / name
    with _holding:
        # Before the file is opened: closing it a second time would free the lock of this process.
        if place in _held:
            raise _in_use(subject, "thread")
        _held.add(place)
    try:
        with _filelock(place, subject) if sys.platform == "win32" else _lockf(place, subject):
            yield
    finally:
        with _holding:
            _held.discard(place)


def _in_use(subject: str, holder: str) -> InUseError:
    return InUseError(f"{subject} is in use by another {holder}: wait for it, or give another output")


@contextmanager
def _lockf(place: Path, subject: str) -> Iterator[None]:
    """A lock of POSIX; not flock, which the workers of a killed process would hold on to for seconds."""
    import fcntl

    with os.fdopen(open_in_place(place, os.O_RDWR), "r+b") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError) as error:
            raise _in_use(subject, "process") from error
        yield


@contextmanager
def _filelock(place: Path, subject: str) -> Iterator[None]:
    """A lock of Windows, which has no `fcntl`."""
    import filelock

    check_file_place(place)
    lock = filelock.FileLock(place, timeout=0)
    try:
        lock.acquire()
    except filelock.Timeout as error:
        raise _in_use(subject, "process") from error
    try:
        yield
    finally:
        lock.release()
