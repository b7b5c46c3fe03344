"""Writing files as a whole or not at all, and keeping a folder to oneself."""

from __future__ import annotations

import fcntl
import json
import os
import re
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = [
    "InUseError",
    "is_first_process",
    "is_temporary",
    "locked",
    "rank_variables",
    "read_json",
    "write_bytes",
    "write_json",
]

_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{32}\.tmp")
_RANKS = ("LOCAL_RANK", "NODE_RANK", "RANK")
# The system's locks are between processes; these are between the threads of this one.
_held: set[Path] = set()
_holding = threading.Lock()


def write_bytes(path: Path, data: bytes) -> None:
    """Replace a file: a reader sees the old or the new one, also after the machine was lost.

    The temporary file lies in the same folder, and is removed if the disk is full.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp(), "run.json")
        >>> write_bytes(path, b"{}")
        >>> path.read_bytes(), len(list(path.parent.iterdir()))
        (b'{}', 1)
    """
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        # Named after what was wanted, not after the temporary file.
        raise type(error)(error.errno, error.strerror, str(path)) from error
    finally:
        temporary.unlink(missing_ok=True)


def is_temporary(name: str) -> bool:
    """Whether a file name is one that `write_bytes` gives to a file which is not yet whole.

    Example:
        >>> is_temporary(f".run.json.{uuid.uuid4().hex}.tmp"), is_temporary("my.tmp")
        (True, False)
    """
    return _TEMPORARY.fullmatch(name) is not None


def write_json(path: Path, document: Any) -> None:
    """Replace a JSON file."""
    write_bytes(path, (json.dumps(document, indent=1, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> dict[str, Any]:
    """A JSON file that holds a mapping.

    Raises:
        ValueError: If it holds anything else.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is no JSON: {error}") from error
    if not isinstance(document, dict):
        raise ValueError(f"{path} must hold a mapping, got {type(document).__name__}")
    return document


class InUseError(ValueError):
    """Another process or thread is at work in a folder."""


@contextmanager
def locked(folder: Path, name: str = "lock") -> Iterator[None]:
    """Keep a run folder to this thread of this process; the system frees it when the process ends in any way.

    Args:
        folder: The folder.
        name: The file in it that is locked; what has another name is locked apart.

    Raises:
        InUseError: If another process or thread has it.
    """
    refusal = f"run folder {folder} is in use by another process: wait for it, or give another output"
    place = folder.resolve() / name
    with _holding:
        # Before the file is opened: closing it a second time would free the lock of this process.
        if place in _held:
            raise InUseError(refusal.replace("process", "thread"))
        _held.add(place)
    try:
        with place.open("w") as file:
            try:
                # Not flock, which the workers of a killed process would hold on to for seconds.
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError) as error:
                raise InUseError(refusal) from error
            yield
    finally:
        with _holding:
            _held.discard(place)


def is_first_process() -> bool:
    """Whether this process is the one that writes; others are started by Lightning or a cluster.

    Raises:
        ValueError: If the environment has a rank that is no number.
    """
    return not any(_rank(name) for name in _RANKS)


def rank_variables() -> str:
    """What the environment says of the place of this process among others, such as "RANK=1"."""
    return " ".join(f"{name}={os.environ[name]}" for name in _RANKS if os.environ.get(name))


def _rank(name: str) -> int:
    text = os.environ.get(name, "0")
    if not text.strip().isdecimal():
        raise ValueError(f"environment variable {name} must be a whole number, got {text!r}: set or unset it")
    return int(text)
