"""IDX files, the format of the MNIST family, plain or gzipped."""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

__all__ = ["read_idx"]

_UNSIGNED_BYTES = 0x08


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Read an IDX file of unsigned bytes.

    Args:
        path: The file; gzipped if it starts like a gzip file, whatever it is called.

    Returns:
        The array, in the shape that the file states.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the file is truncated, damaged or of another kind.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "labels-idx1-ubyte"
        >>> _ = path.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 3, 5, 0, 4]))
        >>> read_idx(path)
        array([5, 0, 4], dtype=uint8)
    """
    content = path.read_bytes()
    if content[:2] == b"\x1f\x8b":
        try:
            content = gzip.decompress(content)
        except (EOFError, zlib.error, OSError) as error:
            raise ValueError(f"{path}: the gzip file is truncated or damaged ({error})") from error
    if len(content) < 4 or content[:2] != b"\0\0":
        raise ValueError(f"{path}: not an IDX file, it starts with {content[:4]!r}")
    if content[2] != _UNSIGNED_BYTES:
        raise ValueError(f"{path}: holds values of IDX type {content[2]:#04x}; only unsigned bytes are read")
    start = 4 + 4 * content[3]
    shape: list[int] = np.frombuffer(content[4:start], ">u4").tolist() if len(content) >= start else []
    if len(content) != start + math.prod(shape):
        raise ValueError(
            f"{path}: {len(content)} bytes do not fit the stated shape {tuple(shape)}; "
            "the file is truncated or damaged"
        )
    values: NDArray[np.uint8] = np.frombuffer(content, np.uint8, offset=start).copy().reshape(shape)
    return values
