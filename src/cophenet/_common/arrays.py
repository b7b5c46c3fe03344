"""Arrays in files: releasing the memory of memory-mapped arrays, and checksums of file contents."""

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
    """Release the memory of the pages read from a memory-mapped file; they are read again when accessed.

    Has no effect on other arrays, or on maps opened with a mode other than "r".

    Args:
        array: An array created by `numpy.memmap` with mode "r", or a view of one.

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
    """The metadata of a file, plus a checksum of its arrays and metadata.

    Args:
        arrays: All arrays of the file, by name.
        metadata: Metadata that is written to the same file.

    Example:
        >>> list(with_checksum({"features": np.eye(2)}, {"part": "test"}))
        ['part', 'checksum']
    """
    return {**metadata, _KEY: _checksum(arrays, metadata)}


def recorded_checksum(metadata: Mapping[str, str]) -> str | None:
    """The checksum added by `with_checksum`; None if there is none."""
    return metadata.get(_KEY)


def file_checksum(path: Path) -> str:
    """SHA-256 of the bytes of a file, read in blocks."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while part := stream.read(_BLOCK):
            digest.update(part)
    return digest.hexdigest()


def check_arrays(arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> None:
    """Compare the checksum in the metadata with the contents; do nothing if there is no checksum.

    Raises:
        ValueError: If a byte of the arrays or of the metadata has changed.

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
