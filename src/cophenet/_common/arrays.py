"""Arrays in files: maps that keep no more memory than is being read, and checksums of what was written."""

from __future__ import annotations

import hashlib
import json
import mmap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["check_arrays", "file_checksum", "recorded_checksum", "release_pages", "with_checksum"]


def release_pages(array: NDArray[Any]) -> None:
    """Give back the memory of what was read of a mapped file; it is read again where it is needed again.

    Nothing happens to other arrays, and to maps that may have been written to.

    Args:
        array: An array, or a part of one, that `numpy.memmap` made with mode "r".

    Example:
        >>> release_pages(np.eye(2))
    """
    base: Any = array
    while base is not None and not isinstance(base, np.memmap):
        base = getattr(base, "base", None)
    if base is not None and base.mode == "r" and hasattr(mmap, "MADV_DONTNEED"):
        vars(base)["_mmap"].madvise(mmap.MADV_DONTNEED)


_KEY = "checksum"
_BLOCK = 1 << 24


def with_checksum(arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> dict[str, str]:
    """The metadata of a file with the checksum of its arrays and of the metadata.

    Args:
        arrays: All arrays of the file, by name.
        metadata: What is written beside them.

    Example:
        >>> list(with_checksum({"features": np.eye(2)}, {"part": "test"}))
        ['part', 'checksum']
    """
    return {**metadata, _KEY: _checksum(arrays, metadata)}


def recorded_checksum(metadata: Mapping[str, str]) -> str | None:
    """What `with_checksum` wrote, which `check_arrays` compares with; None if there is none."""
    return metadata.get(_KEY)


def file_checksum(path: Path) -> str:
    """SHA-256 of the bytes of a file, of which no more than a block is in memory."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while part := stream.read(_BLOCK):
            digest.update(part)
    return digest.hexdigest()


def check_arrays(arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> None:
    """Refuse arrays that are not those which `with_checksum` saw; files without a checksum are not looked at.

    Raises:
        ValueError: If a byte of the arrays or of the metadata is another.

    Example:
        >>> metadata = with_checksum({"features": np.eye(2)}, {})
        >>> check_arrays({"features": np.ones((2, 2))}, metadata)
        Traceback (most recent call last):
        ValueError: bytes have changed since it was written: the checksum is ..., not ...
    """
    written = recorded_checksum(metadata)
    if written is None:
        return
    now = _checksum(arrays, {name: text for name, text in metadata.items() if name != _KEY})
    if now != written:
        raise ValueError(f"bytes have changed since it was written: the checksum is {now}, not {written}")


def _checksum(arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> str:
    digest = hashlib.sha256(json.dumps(dict(metadata), sort_keys=True).encode())
    for name, values in sorted(arrays.items()):
        digest.update(f"{name} {values.dtype.str} {values.shape} ".encode())
        data = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        for start in range(0, len(data), _BLOCK):
            digest.update(data[start : start + _BLOCK].data)
            release_pages(values)
    return digest.hexdigest()[:16]
