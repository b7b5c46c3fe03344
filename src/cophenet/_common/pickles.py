"""Pickles read without running anything, or taking memory or time for what they only declare.

Files of torch are gone through before torch reads them (`load_torch`); plain values and arrays of bytes, as
in the files of CIFAR, are read here (`read_plain_pickle`).
"""

from __future__ import annotations

import io
import math
import pickle
import reprlib
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, Any, BinaryIO, ClassVar, NoReturn

import numpy as np

from cophenet._common.limits import UNPACKED_BYTES, check_unpacked, check_zip, read_stream, size_text

__all__ = ["LimitedUnpickler", "RefusedPickleError", "load_torch", "read_plain_pickle"]

_LOAD: dict[int, Any] = dict(pickle._Unpickler.dispatch)


class RefusedPickleError(Exception):
    """The pickle asks for something that is not allowed."""


def _check_keys(keys: Iterable[object]) -> None:
    """Refuse keys of a dictionary that are neither text nor numbers."""
    for key in keys:
        # To hash a tuple of tuples, each of them twice in the next, takes years.
        if type(key) not in (str, bytes, int):
            problem = f"it has a key of type {type(key).__name__}"
            raise RefusedPickleError(f"{problem}; only text and numbers are read")


def _with_checked_keys(opcode: bytes, keys: slice) -> Callable[[Any], None]:
    """How Python's loads an opcode, after a look at the keys on its stack."""

    def load(unpickler: Any) -> None:
        _check_keys(unpickler.stack[keys])
        _LOAD[opcode[0]](unpickler)

    return load


def _load_bytearray(unpickler: Any) -> None:
    """What Python's takes memory for before it reads."""
    size = int.from_bytes(unpickler.read(8), "little")
    content = unpickler.read(size)
    if len(content) < size:
        raise EOFError(f"{size} bytes declared, {len(content)} there")
    unpickler.append(bytearray(content))


def _refuse(unpickler: Any) -> NoReturn:
    _ = unpickler
    raise RefusedPickleError("it holds something else than dicts, lists, tuples, numbers, text and arrays")


class LimitedUnpickler(pickle._Unpickler):
    """Python's unpickler in Python: that in C takes the memory that a pickle declares before it reads.

    It must be given a stream whose `read` takes no memory for bytes that are not there. Nothing is looked up
    unless `find_class` of a subclass does so.
    """

    dispatch: ClassVar[dict[int, Any]] = {
        **_LOAD,
        pickle.SETITEM[0]: _with_checked_keys(pickle.SETITEM, slice(-2, -1)),
        pickle.SETITEMS[0]: _with_checked_keys(pickle.SETITEMS, slice(None, None, 2)),
        pickle.DICT[0]: _with_checked_keys(pickle.DICT, slice(None, None, 2)),
        pickle.BYTEARRAY8[0]: _load_bytearray,
        pickle.EMPTY_SET[0]: _refuse,
        pickle.ADDITEMS[0]: _refuse,
        pickle.FROZENSET[0]: _refuse,
    }

    def find_class(self, module: str, name: str) -> Any:
        """Refuse every class and function."""
        raise RefusedPickleError(f"the pickle asks for {f'{module}.{name}':.100}")


# Of a class or function; torch searches names that it does not know in a time that grows as their square.
_LETTERS = 200
# A magic number, a version, sizes of types, the content, and the names of the tensors.
_OLD_PICKLES = 5
# Of an element, at most.
_BYTES = 8


def load_torch(path: Path, *, old_format: bool = True) -> Any:
    """What `torch.save` wrote: tensors, on the CPU, and plain values.

    Args:
        path: The file.
        old_format: Whether files of before torch 1.6 are read too.

    Raises:
        Exception: Anything, if the file is damaged or something else; `TooLargeError` if it unpacks to much
            more than it is.
    """
    import torch

    size = path.stat().st_size
    with path.open("rb") as file:
        if file.read(4) == b"PK\x03\x04":  # as torch tells its two formats apart
            check_zip(path)
            archive = torch._C.PyTorchFileReader(str(path))
            if "constants.pkl" in archive.get_all_records():  # a program, which some versions of torch load
                raise ValueError("a TorchScript archive")
            _Checker(io.BytesIO(archive.get_record("data.pkl")), size).load()
            return torch.load(path, map_location="cpu", weights_only=True)
        # Before 2.6, torch itself can be made to run code by a file in its oldest format.
        if not old_format or tarfile.is_tarfile(path):
            raise ValueError("not in the format that torch writes")
        file.seek(0)
        stream: Any = _Stream(file)
        for _ in range(_OLD_PICKLES):
            _Checker(stream, size).load()
        file.seek(0)
        return torch.load(stream, map_location="cpu", weights_only=True)


class _Stream:
    """A file that takes memory for the bytes that are there, not for those that a pickle declares."""

    def __init__(self, file: BinaryIO) -> None:
        self.seek, self.tell = file.seek, file.tell
        self._file = file

    def read(self, size: int = -1) -> bytes:
        return self._file.read() if size < 0 else read_stream(self._file, size)

    def readline(self) -> bytes:
        line = self._file.readline(_LETTERS + 1)
        if len(line) > _LETTERS:
            raise RefusedPickleError(f"a name of more than {_LETTERS} letters (limit)")
        return line


class _Named:
    """In place of anything that the pickle names, and of what that would make and could be filled with."""

    def __init__(self, name: str = "") -> None:
        self.name = name

    def __setitem__(self, key: object, value: object) -> None: ...


def _load_reduce(unpickler: Any) -> None:
    arguments = unpickler.stack.pop()
    called = unpickler.stack[-1]
    if not isinstance(called, _Named) or not isinstance(arguments, tuple):
        raise RefusedPickleError("it calls what is no class")  # torch would write that out in its error
    if called.name in ("torch._utils._rebuild_tensor_v2", "torch._utils._rebuild_tensor"):
        unpickler.count_elements(arguments[2])
    elif called.name == "collections.OrderedDict":
        for pairs in arguments:
            _check_keys(key for key, _ in pairs)
    elif called.name == "_codecs.encode":
        if arguments[1:] != ("latin1",):
            raise RefusedPickleError("it encodes text")
    elif called.name not in _CALLED:
        raise RefusedPickleError(f"it calls {called.name}")
    unpickler.stack[-1] = _Named(f"{called.name}()")


# Beside what is looked at more closely; all else that torch would call takes as much memory as it is told to,
# or time without end.
_CALLED = (
    "torch.Size",
    "torch.device",
    "torch._utils._rebuild_parameter",
    "torch._utils._rebuild_parameter_with_state",
)


def _load_build(unpickler: Any) -> None:
    _ = unpickler.stack.pop()
    made = unpickler.stack[-1]
    if not isinstance(made, _Named) or made.name != "collections.OrderedDict()":
        raise RefusedPickleError("it changes what is no dictionary")


class _Checker(LimitedUnpickler):
    """Goes through a pickle as torch does, and makes nothing but containers of placeholders."""

    dispatch: ClassVar[dict[int, Any]] = {
        **LimitedUnpickler.dispatch,
        pickle.REDUCE[0]: _load_reduce,
        pickle.NEWOBJ[0]: _load_reduce,
        pickle.BUILD[0]: _load_build,
    }

    def __init__(self, file: Any, size: int) -> None:
        super().__init__(file)
        self._size, self._elements = size, 0

    def count_elements(self, shape: Any) -> None:
        """Refuse tensors that are larger than the file, by strides of zero or in memory that is not there."""
        self._elements += math.prod(shape)
        check_unpacked(self._size, _BYTES * self._elements)

    def find_class(self, module: str, name: str) -> Any:
        if len(module) + len(name) > _LETTERS:
            raise RefusedPickleError(f"a name of more than {_LETTERS} letters (limit)")
        return _Named(f"{module}.{name}")

    def persistent_load(self, pid: Any) -> Any:
        self.count_elements(pid[4:5])
        return _Named()


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


def _load_array_state(unpickler: Any) -> None:
    if not isinstance(unpickler.stack[-2], (_Array, _Dtype)):
        raise TypeError("only arrays are built in two steps")
    LimitedUnpickler.dispatch[pickle.BUILD[0]](unpickler)


class _PlainUnpickler(LimitedUnpickler):
    dispatch: ClassVar[dict[int, Any]] = {**LimitedUnpickler.dispatch, pickle.BUILD[0]: _load_array_state}

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
