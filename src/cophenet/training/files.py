"""Writing files as a whole or not at all, and keeping a folder to oneself."""

from __future__ import annotations

import fcntl
import json
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["is_first_process", "locked", "read_json", "write_bytes", "write_json"]


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


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep a run folder to this process; the system frees it when the process ends in any way.

    Raises:
        ValueError: If another process has it.
    """
    with (folder / "lock").open("w") as file:
        try:
            # Not flock, which the workers of a killed process would hold on to for seconds.
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError) as error:
            raise ValueError(
                f"run folder {folder} is in use by another process: wait for it, or give another output"
            ) from error
        yield


def is_first_process() -> bool:
    """Whether this process is the one that writes; others are started by Lightning or a cluster."""
    return all(int(os.environ.get(name, 0)) == 0 for name in ("LOCAL_RANK", "NODE_RANK", "RANK"))
