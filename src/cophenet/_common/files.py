"""Atomic writing of files and folders, and reading and writing of JSON."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import re
import shutil
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from cophenet._common.limits import DEPTH, NODES, TooDeepError, read_text
from cophenet._common.safe_paths import check_file_place, temporary_beside

__all__ = [
    "old_or_new_folder",
    "parse_json",
    "read_json",
    "replaced_file",
    "replaced_files",
    "replaced_folder",
    "write_bytes",
    "write_json",
    "write_text",
]

# A quoted string, which may contain structural characters or be unterminated; or a structural character.
_STRUCTURE = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[\[\]{},]', re.DOTALL)
# A list of numbers over several lines; it cannot match inside a string, as JSON strings have no line breaks.
_NUMBERS = re.compile(r"\[\n\s*[-0-9][-+.0-9eE,\s]*\]")


@contextmanager
def replaced_file(path: Path) -> Iterator[Path]:
    """Context manager: yield a temporary path in the same folder; at the end that file replaces `path`.

    A reader sees the old file or the new one, even after a system crash. After an error, such as a full disk,
    the old file is untouched and the temporary one is removed. If `path` is a link, the link is replaced and
    its target is not changed.

    Raises:
        OSError: If it cannot be written; names `path`, not the temporary file.
        ValueError: If `path` is a device or a pipe.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp(), "tree.txt")
        >>> with replaced_file(path) as part:
        ...     _ = part.write_text("animal cat")
        ...     path.exists()
        False
        >>> path.read_text(), len(list(path.parent.iterdir()))
        ('animal cat', 1)
    """
    with replaced_files(path) as (part,):
        yield part


@contextmanager
def replaced_files(*paths: Path) -> Iterator[list[Path]]:
    """Like `replaced_file`, for files that belong together: an old one must not be read with a new one.

    The first is deleted before the others are replaced, and its new version is put in place last. If the
    process is killed in between, the first is missing, which every reader notices.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> with replaced_files(folder / "features", folder / "labels") as parts:
        ...     _ = [part.write_text("new") for part in parts]
        >>> sorted(path.name for path in folder.iterdir())
        ['features', 'labels']
    """
    for path in paths:
        check_file_place(path, links=True)
    with ExitStack() as stack:
        parts = [stack.enter_context(temporary_beside(path)) for path in paths]
        yield parts
        for part in parts:
            _write_out(part)
        if len(paths) > 1:
            paths[0].unlink(missing_ok=True)
        for part, path in reversed([*zip(parts, paths, strict=True)]):
            part.replace(path)


@contextmanager
def replaced_folder(path: Path) -> Iterator[Path]:
    """Context manager: yield a temporary folder, which replaces the folder `path` at the end.

    The old or the new folder exists at every moment, even if the process is killed: one system call swaps
    them. Where there is no such call (Windows, some network file systems), the old folder is renamed to
    `.name.<hex digits>.old` for a moment; `old_or_new_folder` finds it there.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp(), "model")
        >>> with replaced_folder(path) as part:
        ...     _ = (part / "config.json").write_text("{}")
        >>> [file.name for file in path.iterdir()], len(list(path.parent.iterdir()))
        (['config.json'], 1)
    """
    with temporary_beside(path, folder=True) as part:
        yield part
        for file in part.rglob("*"):
            if file.is_file():
                _write_out(file)
        if not path.exists():
            part.replace(path)
        elif not _exchange(part, path):
            _move_away_and_replace(part, path)
        for old in _old_folders(path):
            shutil.rmtree(old, ignore_errors=True)


def _write_out(path: Path) -> None:
    """Flush a file to disk."""
    with path.open("r+b") as file:
        os.fsync(file.fileno())


def old_or_new_folder(path: Path) -> Path:
    """Where to read a folder written by `replaced_folder`: `path`, or the old one after an interruption.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> (folder / f".model.{uuid.uuid4().hex}.old").mkdir()
        >>> old_or_new_folder(folder / "model").suffix
        '.old'
    """
    if not path.exists():
        for old in _old_folders(path):
            return old
    return path


def _old_folders(path: Path) -> list[Path]:
    """Previous versions of a folder that `_move_away_and_replace` has renamed, the newest first."""
    name = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{32}}\.old")
    if not path.parent.is_dir():
        return []
    old = [other for other in path.parent.iterdir() if name.fullmatch(other.name)]
    return sorted(old, key=lambda other: other.stat().st_mtime, reverse=True)


def _move_away_and_replace(part: Path, path: Path) -> None:
    old = path.with_name(f".{path.name}.{uuid.uuid4().hex}.old")
    path.replace(old)
    try:
        part.replace(path)
    except BaseException:
        old.replace(path)
        raise


def _exchange(one: Path, other: Path) -> bool:
    """Swap two folders atomically; return False if the system or the file system cannot."""
    paths = os.fsencode(one), os.fsencode(other)
    here, swap = -100, 2  # AT_FDCWD; RENAME_EXCHANGE of Linux, RENAME_SWAP of macOS
    calls: dict[str, tuple[str, tuple[Any, ...]]] = {
        "linux": ("renameat2", (here, paths[0], here, paths[1], swap)),
        "darwin": ("renamex_np", (*paths, swap)),
    }
    if sys.platform not in calls:
        return False
    name, arguments = calls[sys.platform]
    try:
        function = getattr(ctypes.CDLL(None, use_errno=True), name)
    except (AttributeError, OSError):  # an older system
        return False
    if function(*arguments) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP):
        return False
    raise OSError(number, os.strerror(number), str(other))


def write_bytes(path: Path, data: bytes) -> None:
    """Replace a file atomically, see `replaced_file`.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp(), "run.json")
        >>> write_bytes(path, b"{}")
        >>> path.read_bytes(), len(list(path.parent.iterdir()))
        (b'{}', 1)
    """
    with replaced_file(path) as part:
        part.write_bytes(data)


def write_text(path: Path, text: str) -> None:
    """Replace a text file atomically, in UTF-8; line ends are not converted."""
    write_bytes(path, text.encode())


def write_json(path: Path, document: Any) -> None:
    """Replace a JSON file atomically; a list of numbers is written on one line."""
    text = json.dumps(document, indent=1, allow_nan=False)
    write_text(path, _NUMBERS.sub(lambda found: " ".join(found[0].split()), text) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON file that holds a mapping.

    Raises:
        ValueError: If it holds anything else.
    """
    text = read_text(path)
    try:
        document = parse_json(text)
    except ValueError as error:
        raise ValueError(f"{path} is no JSON: {error}") from error
    if not isinstance(document, dict):
        raise ValueError(f"{path} must hold a mapping, got {type(document).__name__}")
    return document


def parse_json(
    text: str, pairs: Callable[[list[tuple[str, Any]]], Any] | None = None, values: int | None = None
) -> Any:
    """Parse a JSON document.

    Args:
        text: The document.
        pairs: Creates the mappings from lists of keys and values, in place of dict.
        values: Maximum number of values; None for no limit.

    Raises:
        ValueError: If it is not JSON (json.JSONDecodeError), is nested more deeply than `DEPTH` levels, or
            has too many values.

    Example:
        >>> parse_json('{"a": [1, 2]}')
        {'a': [1, 2]}
        >>> parse_json("[" * 40_000)
        Traceback (most recent call last):
        cophenet._common.limits.TooDeepError: nested deeper than 500 levels (limit)
    """
    opened = text.count("[") + text.count("{")
    if opened > DEPTH or (values is not None and opened + text.count(",") > values):
        _check_structure(text, values)
    try:
        return json.loads(text, object_pairs_hook=pairs)
    except RecursionError:  # the call stack was already deep
        raise TooDeepError from None


def _check_structure(text: str, most: int | None) -> None:
    """Raise if a document is nested too deeply or has too many values, before it is parsed."""
    depth = values = 0
    for match in _STRUCTURE.finditer(text):
        sign = match[0]
        values += sign in "[{,"
        if most is not None and values > most:
            raise ValueError(f"more than {most:,} values {NODES.note}")
        if sign in "[{":
            depth += 1
            if depth > DEPTH:
                raise TooDeepError
        elif sign in "]}":
            depth -= 1
