"""Compilation of kernels; Numba's cache checks only the file of the called kernel for changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import config, njit
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = ["borrowed", "inlined", "kernel", "summing_kernel"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def kernel(function: _Function) -> _Function:
    """Compile to run without the interpreter lock, and cache the machine code on disk."""
    return cast(_Function, njit(nogil=True, cache=True)(function))


def summing_kernel(function: _Function) -> _Function:
    """As `kernel`, where sums may be added up in any order, so that they are computed on vectors."""
    order = {"reassoc", "contract", "nsz"}
    return cast(_Function, njit(nogil=True, cache=True, fastmath=order)(function))


def inlined(function: _Function) -> _Function:
    """Inline into the calling kernel, which avoids reference counting of array arguments."""
    return cast(_Function, njit(nogil=True, inline="always")(function))


def _without_owner(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    kinds = getattr(kind, "types", None)
    if kinds is not None:
        values: Any = cgutils.unpack_tuple(builder, value)  # type: ignore[no-untyped-call]
        parts = [_without_owner(context, builder, *part) for part in zip(kinds, values, strict=True)]
        return context.make_tuple(builder, kind, parts)
    array = context.make_array(kind)(context, builder, value)
    array.meminfo, array.parent = array.meminfo.type(None), array.parent.type(None)
    return array._getvalue()


def _borrow(_: Any, arrays: Any) -> Any:
    """Return the type of an array or of a tuple of arrays, and what generates their code."""

    def generate(context: Any, builder: Any, __: Any, values: Any) -> Any:
        return _without_owner(context, builder, arrays, values[0])

    return arrays(arrays), generate


def _same(arrays: Any) -> Any:
    return arrays


# Arrays, or tuples of them, whose references are not counted; their owner must outlive them, as the caller of
# a kernel does for its arguments. Numba counts references to every view, by atomic operations: without this
# they take half of the time in loops over small problems.
borrowed: Any = _same if getattr(config, "DISABLE_JIT", False) else intrinsic(_borrow)
