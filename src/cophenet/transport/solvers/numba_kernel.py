"""How kernels are compiled; Numba looks for changes only in the file of the kernel that is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

__all__ = ["inlined", "kernel"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def kernel(function: _Function) -> _Function:
    """Compile without the interpreter lock, and keep the machine code on disk."""
    return cast(_Function, njit(nogil=True, cache=True)(function))


def inlined(function: _Function) -> _Function:
    """Copy into the calling kernel, which spares counting references to the arrays that are passed."""
    return cast(_Function, njit(nogil=True, inline="always")(function))
