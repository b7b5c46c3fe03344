"""Checksums of named arrays, by which a reader notices bytes that are not those which were written."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cophenet._common.mapped import release_pages

__all__ = ["check_arrays", "has_checksum", "with_checksum"]

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


def has_checksum(metadata: Mapping[str, str]) -> bool:
    """Whether `check_arrays` has something to compare with."""
    return _KEY in metadata


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
    if not has_checksum(metadata):
        return
    written = metadata[_KEY]
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
