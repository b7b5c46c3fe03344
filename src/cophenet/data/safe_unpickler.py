"""A safe unpickler: reads the pickles of CIFAR without running anything that a pickle may ask for."""

from __future__ import annotations

import io
import pickle
import reprlib
from typing import IO, Any, ClassVar

import numpy as np

from cophenet._common.limits import UNPACKED_BYTES, read_stream, size_text
from cophenet._common.pickles import LimitedUnpickler, RefusedPickleError

__all__ = ["read_plain_pickle"]


def read_plain_pickle(stream: IO[bytes], where: str) -> Any:
    """Read a pickle that holds only dicts, lists, tuples, numbers, strings and arrays of uint8.

    No class or function that the pickle names is ever imported: the names of numpy's arrays, old and new,
    are replaced by small classes of this module, and every other name is refused. Memory is taken only for
    bytes that are there, whatever sizes the pickle declares, and only text and numbers can be keys.

    Args:
        stream: The opened file.
        where: What the file is called in errors.

    Returns:
        The content; strings of Python 2 as bytes.

    Raises:
        ValueError: If it is truncated, no pickle, or asks for anything else.

    Example:
        >>> import io
        >>> read_plain_pickle(io.BytesIO(pickle.dumps({"labels": [3, 1]})), "batch")
        {'labels': [3, 1]}
        >>> read_plain_pickle(io.BytesIO(pickle.dumps(print)), "batch")
        Traceback (most recent call last):
        ValueError: batch: refused, the pickle asks for builtins.print; only plain values and arrays are read
    """
    most = UNPACKED_BYTES.value
    content = read_stream(stream, most + 1)
    if len(content) > most:
        raise ValueError(f"{where}: larger than {size_text(most)} {UNPACKED_BYTES.note}")
    try:
        return _unwrap(_PlainUnpickler(io.BytesIO(content), encoding="bytes").load())
    except MemoryError:
        raise
    except RefusedPickleError as error:
        raise ValueError(f"{where}: refused, {error}") from None
    except Exception as error:  # a damaged pickle can fail in any way
        reason = f"{type(error).__name__}: {error!s:.200}"
        raise ValueError(f"{where}: truncated, damaged or not a pickle of arrays ({reason})") from None


class _Dtype:
    """In place of numpy.dtype: only unsigned bytes."""

    def __init__(self, code: object = None, *_: object) -> None:
        if code not in (b"u1", "u1"):
            raise RefusedPickleError(
                f"it holds an array of {reprlib.repr(code)}; only u1 (unsigned bytes) is read"
            )

    def __setstate__(self, state: object) -> None:
        """Byte order and the like, which bytes do not have."""


class _Array:
    """In place of an array that numpy's pickles make empty first and fill then."""

    values: np.ndarray[Any, Any]

    def __init__(self, *_: object) -> None:
        """The arguments (class, shape, type of the empty array) say nothing about the content."""

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, fortran, content = state
        if not isinstance(dtype, _Dtype) or not isinstance(content, bytes):
            raise RefusedPickleError("it holds an array that is not made of plain bytes")
        self.values = np.frombuffer(content, np.uint8).reshape(shape, order="F" if fortran else "C")


class _FilledArray(_Array):
    """In place of an array that numpy's newer pickles make at once."""

    def __init__(self, content: object, dtype: object, shape: object, order: object) -> None:
        if not isinstance(dtype, _Dtype) or not isinstance(content, (bytes, bytearray)):
            raise RefusedPickleError("it holds an array that is not made of plain bytes")
        whole = isinstance(shape, tuple) and all(type(size) is int and size >= 0 for size in shape)
        if not whole or order not in ("C", "F"):
            raise RefusedPickleError(
                f"it holds an array of shape {reprlib.repr(shape)} and order {reprlib.repr(order)}"
            )
        super().__setstate__((1, shape, dtype, order == "F", bytes(content)))

    def __setstate__(self, state: Any) -> None:
        raise RefusedPickleError("it fills an array twice")


class _Encoded:
    """In place of _codecs.encode, with which Python 3 writes bytes in old protocols: only latin-1.

    A class and no function, for a pickle can set attributes of what has no __setstate__.
    """

    def __new__(cls, text: object = None, encoding: object = None) -> bytes:  # type: ignore[misc]
        if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
            raise RefusedPickleError(f"it encodes text as {reprlib.repr(encoding)}; only latin1 is read")
        return text.encode("latin-1")

    def __setstate__(self, state: object) -> None:
        """Never reached: there are no instances."""


_REPLACEMENTS: dict[tuple[str, str], type] = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("numpy.core.numeric", "_frombuffer"): _FilledArray,
    ("numpy._core.numeric", "_frombuffer"): _FilledArray,
    ("_codecs", "encode"): _Encoded,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
}


def _load_build(unpickler: Any) -> None:
    if not isinstance(unpickler.stack[-2], (_Array, _Dtype)):
        raise TypeError("only arrays are built in two steps")
    LimitedUnpickler.dispatch[pickle.BUILD[0]](unpickler)


class _PlainUnpickler(LimitedUnpickler):
    dispatch: ClassVar[dict[int, Any]] = {**LimitedUnpickler.dispatch, pickle.BUILD[0]: _load_build}

    def find_class(self, module: str, name: str) -> Any:
        replacement = _REPLACEMENTS.get((module, name))
        if replacement is None:
            asked = f"the pickle asks for {module}.{name}"
            raise RefusedPickleError(f"{asked:.200}; only plain values and arrays are read")
        return replacement


def _unwrap(content: Any) -> Any:
    """Put the arrays in the place of their replacements, at the top of a dict and alone."""
    if isinstance(content, dict):
        return {key: _array(value) for key, value in content.items()}
    return _array(content)


def _array(value: Any) -> Any:
    return value.values if isinstance(value, _Array) else value
