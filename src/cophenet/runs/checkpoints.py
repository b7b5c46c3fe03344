"""Checkpoint files: written atomically, with a checksum in the name; only the two newest are retained."""

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
from cophenet._common.safe_paths import make_real_folder

__all__ = ["is_good", "list_checkpoints", "newest_good", "read_checkpoint", "write_checkpoint"]

_COUNT = 2
_NAME = re.compile(r"step(\d+)-([0-9a-f]{16})\.ckpt")


def list_checkpoints(folder: Path) -> list[Path]:
    """List the checkpoints of a folder, newest first, including damaged ones."""
    named = [(path, _NAME.fullmatch(path.name)) for path in folder.glob("*.ckpt") if path.is_file()]
    steps = {path: int(match[1]) for path, match in named if match is not None}
    return sorted(steps, key=steps.__getitem__, reverse=True)


def is_good(path: Path) -> bool:
    """Return whether the content of a checkpoint matches its checksum."""
    match = _NAME.fullmatch(path.name)
    return match is not None and file_checksum(path)[:16] == match[2]


def newest_good(folder: Path) -> tuple[Path | None, list[Path]]:
    """Return the newest intact checkpoint, and the damaged ones that are newer."""
    damaged: list[Path] = []
    for path in list_checkpoints(folder):
        if is_good(path):
            return path, damaged
        damaged.append(path)
    return None, damaged


def write_checkpoint(folder: Path, step: int, content: dict[str, Any]) -> Path:
    """Write a checkpoint, then remove all but the two newest.

    Args:
        folder: Folder of the checkpoints.
        step: Number of completed steps.
        content: Tensors and plain values.

    Raises:
        OSError: If it cannot be written; the older ones are then left untouched.
    """
    import torch

    # Serialize in memory first: torch's file writer can abort the process when the disk is full.
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
    """Load a checkpoint without executing any code in it.

    Raises:
        ValueError: If it is not a checkpoint, or holds anything but tensors and plain values.
    """
    try:
        content = load_torch(path, old_format=False)
        if not isinstance(content, dict):
            raise ValueError("not a mapping")
    except (FileNotFoundError, MemoryError):
        raise
    except TooLargeError as error:
        raise ValueError(f"checkpoint {path}: {error}") from error
    except Exception:  # damaged files can raise anything
        # Hide torch's message, which suggests loading the file with weights_only=False.
        raise ValueError(
            f"checkpoint {path} is damaged, or asks for more than tensors and plain values: "
            "it was not loaded, and nothing in it was run"
        ) from None
    return content
