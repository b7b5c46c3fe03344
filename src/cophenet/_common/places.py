"""Places to write to: plain files and real folders, never what a link leads to.

A run folder may come from somebody else, with links in it that lead anywhere. Files that are replaced as a
whole (`files`) take the place of a link; what is written in place, and folders, are checked here.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

__all__ = ["check_file_place", "check_real_folder", "make_real_folder", "open_in_place"]

_FLAGS = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))


def check_file_place(path: Path, *, links: bool = False) -> None:
    """Refuse a place where something else is than a plain file, or nothing.

    Args:
        path: The place.
        links: Whether there may be a link, or a second name of a file: for what is replaced as a whole.

    Raises:
        ValueError: If there is a link, or a device, a pipe or a socket; a folder is for the system to refuse.

    Example:
        >>> check_file_place(Path("/dev/null"))
        Traceback (most recent call last):
        ValueError: /dev/null is a device or a pipe, and is not written to: remove it, or choose another place
    """
    try:
        status = path.stat() if links else path.lstat()
    except OSError:  # nothing is there, or a link leads nowhere
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
    """Open a plain file for writing in place, made if there is none; the caller closes the descriptor.

    Args:
        path: The file.
        flags: Of `os.open`, such as `os.O_RDWR`; nothing is cut off.

    Raises:
        ValueError: If there is a link, a second name of another file, a device or a pipe.
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
        # Again, as something may have taken its place.
        _check(path, os.fstat(descriptor), second_name=True)
    except ValueError:
        os.close(descriptor)
        raise
    return descriptor


def check_real_folder(path: Path) -> None:
    """Refuse a link, or anything else, in the place of a folder; nothing there is fine.

    Raises:
        ValueError: If there is.

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
    """A folder, made if there is none.

    Args:
        path: The folder.
        parents: Whether to make those above it, too.

    Raises:
        ValueError: If there is a link in its place, or anything else.

    Example:
        >>> import tempfile
        >>> make_real_folder(Path(tempfile.mkdtemp(), "features")).name
        'features'
    """
    check_real_folder(path)
    path.mkdir(parents=parents, exist_ok=True)
    return path
