"""Checks of paths before writing: only to regular files and real folders, never through a link.

A run folder may come from somebody else, and links in it may point anywhere. Files that are replaced as a
whole (`files`) replace a link; files that are written in place, and folders, are checked here. Incomplete
files are written in the same folder under a temporary name; leftovers of killed processes are removed.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = [
    "check_file_place",
    "check_real_folder",
    "is_temporary",
    "make_real_folder",
    "open_in_place",
    "temporary_beside",
]

_FLAGS = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))


def check_file_place(path: Path, *, links: bool = False) -> None:
    """Raise if a path exists and is not a regular file.

    Args:
        path: The path.
        links: Whether to allow links and hard links, for files that are replaced as a whole.

    Raises:
        ValueError: If it is a link, a hard link, a device, a pipe or a socket. Folders pass: opening one for
            writing fails anyway.

    Example:
        >>> check_file_place(Path("/dev/null"))
        Traceback (most recent call last):
        ValueError: /dev/null is a device or a pipe, and is not written to: remove it, or choose another place
    """
    try:
        status = path.stat() if links else path.lstat()
    except OSError:  # nothing is there, or a broken link
        if links or not os.path.lexists(path):
            return
        raise
    _check(path, status, second_name=not links)


def _check(path: Path, status: os.stat_result, *, second_name: bool) -> None:
    kind = ""
    if stat.S_ISLNK(status.st_mode):
        kind = "a link"
    elif not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        kind = "a device or a pipe"
    elif second_name and stat.S_ISREG(status.st_mode) and status.st_nlink > 1:
        kind = "another name of a file elsewhere (a hard link)"
    if kind:
        raise ValueError(f"{path} is {kind}, and is not written to: remove it, or choose another place")


def open_in_place(path: Path, flags: int) -> int:
    """Open a regular file for writing in place, and create it if missing; the caller closes the descriptor.

    Args:
        path: The file.
        flags: Flags of `os.open`, such as `os.O_RDWR`; the file is not truncated.

    Raises:
        ValueError: If it is a link, a hard link to another file, a device or a pipe.
        OSError: If it cannot be opened.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp(), "log.txt")
        >>> with os.fdopen(open_in_place(path, os.O_WRONLY | os.O_APPEND), "a") as file:
        ...     _ = file.write("begin")
        >>> path.read_text()
        'begin'
    """
    check_file_place(path)
    descriptor = os.open(path, flags | os.O_CREAT | _FLAGS, 0o666)
    try:
        # Again, because it may have been replaced after the first check.
        _check(path, os.fstat(descriptor), second_name=True)
    except ValueError:
        os.close(descriptor)
        raise
    return descriptor


def check_real_folder(path: Path) -> None:
    """Raise if a path exists and is not a folder, or is a link to one.

    Raises:
        ValueError: If it is.

    Example:
        >>> check_real_folder(Path(os.devnull))
        Traceback (most recent call last):
        ValueError: /dev/null is no folder of its own (a link or a file), and nothing is written there: ...
    """
    if os.path.lexists(path) and not stat.S_ISDIR(path.lstat().st_mode):
        raise ValueError(
            f"{path} is no folder of its own (a link or a file), and nothing is written there: "
            "put the folder itself in its place"
        )


def make_real_folder(path: Path, *, parents: bool = False) -> Path:
    """Create a folder if it does not exist, and return it.

    Args:
        path: The folder.
        parents: Whether to create missing parents, too.

    Raises:
        ValueError: If the path is a link, or exists and is not a folder.

    Example:
        >>> import tempfile
        >>> make_real_folder(Path(tempfile.mkdtemp(), "features")).name
        'features'
    """
    check_real_folder(path)
    path.mkdir(parents=parents, exist_ok=True)
    return path


_NAME = re.compile(r"\.(.+)\.[0-9a-f]{32}\.tmp")


def is_temporary(name: str) -> bool:
    """Whether a name is a temporary name given by `temporary_beside`.

    Example:
        >>> is_temporary(f".run.json.{uuid.uuid4().hex}.tmp"), is_temporary("my.tmp")
        (True, False)
    """
    return _NAME.fullmatch(name) is not None


@contextmanager
def temporary_beside(path: Path, *, folder: bool = False) -> Iterator[Path]:
    """Context manager: yield a new empty file or folder beside `path`, removed at the end if it still exists.

    It is locked until the end, or until its process ends. Leftovers of killed processes for the same `path`
    are removed first.

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
        # Before it was locked, another process removed it as a leftover.
        if lock is not None:
            os.close(lock)


def _remove_left_over(path: Path) -> None:
    """Remove leftovers of killed processes, where locks are available and permissions allow it."""
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
    """A descriptor that locks a file or folder until it is closed, or its process ends; None without a lock.

    Uses flock, which is not released when the file is opened and closed elsewhere.
    """
    if sys.platform == "win32":  # has no such call, and does not move open files
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
