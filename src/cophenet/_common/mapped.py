"""Files mapped into memory, which keep no more of it than is being read."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["release_pages"]


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
