"""Files that are written whole or not at all: the one atomic writer, and JSON."""

from __future__ import annotations

import json
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cophenet._common.limits import DEPTH, NODES, TooDeepError, read_text

__all__ = [
    "is_temporary",
    "parse_json",
    "read_json",
    "replaced_file",
    "replaced_folder",
    "write_bytes",
    "write_json",
    "write_text",
]

# Text in quotes, which may hold such signs too and may lack its end, or a sign of structure.
_STRUCTURE = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[\[\]{},]', re.DOTALL)
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{32}\.tmp")


@contextmanager
def replaced_file(path: Path) -> Iterator[Path]:
    """A temporary path to write to, in the same folder; at the end the file there takes the place of `path`.

    A reader sees the old file or the new one, also after the machine was lost. After an error, such as a full
    disk, the old file is untouched and the temporary one is removed.

    Raises:
        OSError: If it cannot be written; names `path`, not the temporary file.

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
    part = _beside(path, "tmp")
    try:
        yield part
        with part.open("r+b") as file:
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        if error.errno is None or error.filename not in (None, part, str(part)):
            raise
        raise type(error)(error.errno, error.strerror, str(path)) from error
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def replaced_folder(path: Path) -> Iterator[Path]:
    """A temporary folder to write to, which takes the place of the folder `path` at the end.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp(), "model")
        >>> with replaced_folder(path) as part:
        ...     _ = (part / "config.json").write_text("{}")
        >>> [file.name for file in path.iterdir()], len(list(path.parent.iterdir()))
        (['config.json'], 1)
    """
    part, old = _beside(path, "tmp"), _beside(path, "old")
    part.mkdir()
    try:
        yield part
        if path.exists():
            path.replace(old)
        part.replace(path)
    finally:
        for folder in (part, old):
            shutil.rmtree(folder, ignore_errors=True)


def write_bytes(path: Path, data: bytes) -> None:
    """Replace a file, see `replaced_file`.

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
    """Replace a file of text, in UTF-8 and with the line ends that the text has."""
    write_bytes(path, text.encode())


def write_json(path: Path, document: Any) -> None:
    """Replace a JSON file."""
    write_text(path, json.dumps(document, indent=1, allow_nan=False) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """A JSON file that holds a mapping.

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
    """A JSON document.

    Args:
        text: The document.
        pairs: Makes the mappings from keys and values, in place of dict.
        values: How many values it may have; None for any number.

    Raises:
        ValueError: If it is no JSON (json.JSONDecodeError), is nested more deeply than `DEPTH` levels, or has
            too many values.

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
    except RecursionError:  # where the call itself is deep in others
        raise TooDeepError from None


def _check_structure(text: str, most: int | None) -> None:
    """Refuse what is nested too deeply or has too many values, before anything is made of it."""
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


def is_temporary(name: str) -> bool:
    """Whether a file name is one that `replaced_file` gives to a file which is not yet whole.

    Example:
        >>> is_temporary(f".run.json.{uuid.uuid4().hex}.tmp"), is_temporary("my.tmp")
        (True, False)
    """
    return _TEMPORARY.fullmatch(name) is not None


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(f".{path.name}.{uuid.uuid4().hex}.{ending}")
