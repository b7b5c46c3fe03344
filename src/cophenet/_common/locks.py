"""Exclusive locks on folders, between processes and between threads."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cophenet._common.safe_paths import check_file_place, open_in_place

__all__ = ["InUseError", "locked"]

# The system's locks work between processes; these work between the threads of this process.
_held: set[Path] = set()
_holding = threading.Lock()


class InUseError(ValueError):
    """A folder is locked by another process or thread."""


@contextmanager
def locked(folder: Path, name: str = "lock", *, what: str = "folder") -> Iterator[None]:
    """Lock a folder for this thread; the system releases the lock however the process ends.

    Args:
        folder: The folder.
        name: The lock file in it; locks with different names are independent.
        what: What the folder is, or what is locked in it, for the message.

    Raises:
        InUseError: If another process or thread holds the lock.
        ValueError: If the lock file is a link or not a regular file.

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
        # Before the file is opened: closing a second descriptor would release the lock of this process.
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
    """A POSIX lock; not flock, which the worker processes of a killed process would hold for seconds."""
    import fcntl

    with os.fdopen(open_in_place(place, os.O_RDWR), "r+b") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError) as error:
            raise _in_use(subject, "process") from error
        yield


@contextmanager
def _filelock(place: Path, subject: str) -> Iterator[None]:
    """A lock for Windows, which has no `fcntl`."""
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
