"""Checkpoint files: whole or absent, with their checksum in the name; only the two newest stay."""

from __future__ import annotations

import hashlib
import io
import re
from pathlib import Path
from typing import Any

from cophenet._common.arrays import file_checksum
from cophenet._common.files import write_bytes
from cophenet._common.limits import TooLargeError
from cophenet._common.pickles import load_torch
from cophenet._common.places import make_real_folder

__all__ = ["is_good", "list_checkpoints", "newest_good", "read_checkpoint", "write_checkpoint"]

_COUNT = 2
_NAME = re.compile(r"step(\d+)-([0-9a-f]{16})\.ckpt")


def list_checkpoints(folder: Path) -> list[Path]:
    """The checkpoints of a folder, the newest first; damaged ones too."""
    named = [(path, _NAME.fullmatch(path.name)) for path in folder.glob("*.ckpt") if path.is_file()]
    steps = {path: int(match[1]) for path, match in named if match is not None}
    return sorted(steps, key=steps.__getitem__, reverse=True)


def is_good(path: Path) -> bool:
    """Whether the bytes of a checkpoint are those that were written."""
    match = _NAME.fullmatch(path.name)
    return match is not None and file_checksum(path)[:16] == match[2]


def newest_good(folder: Path) -> tuple[Path | None, list[Path]]:
    """The newest checkpoint that is whole, and the damaged ones that are newer."""
    damaged: list[Path] = []
    for path in list_checkpoints(folder):
        if is_good(path):
            return path, damaged
        damaged.append(path)
    return None, damaged


def write_checkpoint(folder: Path, step: int, content: dict[str, Any]) -> Path:
    """Write a checkpoint, then remove all but the two newest.

    Args:
        folder: Where they lie.
        step: How many steps it has seen.
        content: Tensors and plain values.

    Raises:
        OSError: If it cannot be written; the older ones are then untouched.
    """
    import torch

    # In memory first: torch's own writer can end the process when the disk is full.
    buffer = io.BytesIO()
    torch.save(content, buffer)
    data = buffer.getvalue()
    make_real_folder(folder)
    path = folder / f"step{step:08d}-{hashlib.sha256(data).hexdigest()[:16]}.ckpt"
    write_bytes(path, data)
    for old in list_checkpoints(folder)[_COUNT:]:
        old.unlink()
    return path


def read_checkpoint(path: Path) -> dict[str, Any]:
    """What a checkpoint holds; nothing in it is executed.

    Raises:
        ValueError: If it holds anything but tensors and plain values, or is no checkpoint.
    """
    try:
        content = load_torch(path, old_format=False)
        if not isinstance(content, dict):
            raise ValueError("not a mapping")
    except (FileNotFoundError, MemoryError):
        raise
    except TooLargeError as error:
        raise ValueError(f"checkpoint {path}: {error}") from error
    except Exception:  # damaged files fail in any way
        # Without torch's words, which advise to read such a file with less care.
        raise ValueError(
            f"checkpoint {path} is damaged, or asks for more than tensors and plain values: "
            "it was not loaded, and nothing in it was run"
        ) from None
    return content
