"""Decorators that compile kernels; Numba's cache checks only the file of the called kernel for changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

__all__ = ["inlined", "kernel"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def kernel(function: _Function) -> _Function:
    """Compile to run without the interpreter lock, and cache the machine code on disk."""
    return cast(_Function, njit(nogil=True, cache=True)(function))


def inlined(function: _Function) -> _Function:
    """Inline into the calling kernel, which avoids reference counting of array arguments."""
    return cast(_Function, njit(nogil=True, inline="always")(function))
