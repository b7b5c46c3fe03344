"""Temporary files and folders beside those they become, and what killed processes left of them."""

from __future__ import annotations

import os
import re
import shutil
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["is_temporary", "temporary_beside"]

_NAME = re.compile(r"\.(.+)\.[0-9a-f]{32}\.tmp")


def is_temporary(name: str) -> bool:
    """Whether a name is one that `temporary_beside` gives to what is not yet whole.

    Example:
        >>> is_temporary(f".run.json.{uuid.uuid4().hex}.tmp"), is_temporary("my.tmp")
        (True, False)
    """
    return _NAME.fullmatch(name) is not None


@contextmanager
def temporary_beside(path: Path, *, folder: bool = False) -> Iterator[Path]:
    """An empty file or folder beside `path`, removed at the end if it was not moved.

    It is locked as long as its process lives. Those of the same name that killed processes left are removed
    before.

    Raises:
        OSError: If it cannot be written; names `path`, not the temporary file.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp(), "tree.txt")
        >>> with temporary_beside(path) as part:
        ...     is_temporary(part.name), part.parent == path.parent
        (True, True)
        >>> list(path.parent.iterdir())
        []
    """
    part = lock = None
    try:
        part, lock = _new_and_locked(path, folder)
        yield part
    except OSError as error:
        other = error.filename is not None and not _is_of(path, Path(os.fsdecode(error.filename)).name)
        if error.errno is None or other:
            raise
        raise type(error)(error.errno, error.strerror, str(path)) from error
    finally:
        if part is not None:
            _remove(part)
        if lock is not None:
            os.close(lock)


def _is_of(path: Path, name: str) -> bool:
    match = _NAME.fullmatch(name)
    return match is not None and match[1] == path.name


def _new_and_locked(path: Path, folder: bool) -> tuple[Path, int | None]:
    _remove_left_over(path)
    while True:
        part = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
        if folder:
            part.mkdir()
        else:
            part.touch(exist_ok=False)
        lock = _lock(part, wait=True)
        if part.exists():
            return part, lock
        # Another process took it for one left over, before it was locked.
        if lock is not None:
            os.close(lock)


def _remove_left_over(path: Path) -> None:
    """Remove what killed processes left, where the system tells, and the user may."""
    with suppress(OSError):
        for part in path.parent.iterdir():
            lock = _lock(part, wait=False) if _is_of(path, part.name) else None
            if lock is not None:
                with suppress(OSError):
                    _remove(part)
                os.close(lock)


def _remove(part: Path) -> None:
    if part.is_dir():
        shutil.rmtree(part, ignore_errors=True)
    else:
        part.unlink(missing_ok=True)


def _lock(path: Path, *, wait: bool) -> int | None:
    """A descriptor that holds a file or folder until it is closed, or its process ends; None without a lock.

    By flock, which does not mind that others open and close the file.
    """
    if sys.platform == "win32":  # has no such call, and moves no open file
        return None
    import fcntl

    descriptor = None
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:  # it is locked, gone or a link, or the file system has no locks
        if descriptor is not None:
            os.close(descriptor)
        return None
    return descriptor
