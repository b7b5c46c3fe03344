"""Safe reading of pickles: no code is run, and no memory or time is spent on what they only declare.

Torch files are checked before torch reads them (`load_torch`); plain values and arrays of bytes, as in the
files of CIFAR, are read here (`read_plain_pickle`).
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
    """The pickle requires something that is not allowed."""


def _check_keys(keys: Iterable[object]) -> None:
    """Raise if a key of a dictionary is not str, bytes or int."""
    for key in keys:
        # Hashing nested tuples, each of which contains the next one twice, takes exponential time.
        if type(key) not in (str, bytes, int):
            problem = f"it has a key of type {type(key).__name__}"
            raise RefusedPickleError(f"{problem}; only text and numbers are read")


def _with_checked_keys(opcode: bytes, keys: slice) -> Callable[[Any], None]:
    """Python's handler of an opcode, preceded by a check of the keys on the stack."""

    def load(unpickler: Any) -> None:
        _check_keys(unpickler.stack[keys])
        _LOAD[opcode[0]](unpickler)

    return load


def _load_bytearray(unpickler: Any) -> None:
    """Load BYTEARRAY8 without allocating the declared size in advance, as Python's handler does."""
    size = int.from_bytes(unpickler.read(8), "little")
    content = unpickler.read(size)
    if len(content) < size:
        raise EOFError(f"{size} bytes declared, {len(content)} there")
    unpickler.append(bytearray(content))


def _refuse(unpickler: Any) -> NoReturn:
    _ = unpickler
    raise RefusedPickleError("it holds something else than dicts, lists, tuples, numbers, text and arrays")


class LimitedUnpickler(pickle._Unpickler):
    """The standard library's unpickler in Python; the one in C allocates declared sizes before reading.

    The `read` of its stream must not allocate memory for bytes that are not there. No name is looked up
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


# Maximum length of a qualified name; torch takes quadratic time in the length of names it does not know.
_LETTERS = 200
# Pickles in a file of the old format: magic number, version, sizes of types, content, storage keys.
_OLD_PICKLES = 5
# Bytes assumed per element, and the only type that has more.
_BYTES, _LARGE_BYTES, _LARGE_STORAGE = 8, 16, "torch.ComplexDoubleStorage"


def load_torch(path: Path, *, old_format: bool = True) -> Any:
    """Load a file written by `torch.save`: tensors, onto the CPU, and plain values.

    Args:
        path: The file.
        old_format: Whether to read the format of torch before 1.6 too.

    Raises:
        Exception: Any exception, if the file is damaged or of another kind; `TooLargeError` if it unpacks to
            much more than its size.
    """
    import torch

    size = path.stat().st_size
    with path.open("rb") as file:
        if file.read(4) == b"PK\x03\x04":  # the test by which torch distinguishes its two formats
            check_zip(path)
            archive = torch._C.PyTorchFileReader(str(path))
            if "constants.pkl" in archive.get_all_records():  # code, which some versions of torch load
                raise ValueError("a TorchScript archive")
            _Checker(io.BytesIO(archive.get_record("data.pkl")), size).load()
            return torch.load(path, map_location="cpu", weights_only=True)
        # Before torch 2.6, a file in its oldest format (tar) can make torch run code.
        if not old_format or tarfile.is_tarfile(path):
            raise ValueError("not in the format that torch writes")
        file.seek(0)
        stream: Any = _Stream(file)
        for _ in range(_OLD_PICKLES):
            _Checker(stream, size).load()
        file.seek(0)
        return torch.load(stream, map_location="cpu", weights_only=True)


class _Stream:
    """A file whose `read` allocates memory for existing bytes only, not for sizes that a pickle declares."""

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
    """Placeholder for anything that the pickle names, and for objects that it would create and fill."""

    def __init__(self, name: str = "") -> None:
        self.name = name

    def __setitem__(self, key: object, value: object) -> None: ...


def _load_reduce(unpickler: Any) -> None:
    arguments = unpickler.stack.pop()
    called = unpickler.stack[-1]
    if not isinstance(called, _Named) or not isinstance(arguments, tuple):
        raise RefusedPickleError("it calls what is no class")  # torch would write that out in its error
    if called.name in ("torch._utils._rebuild_tensor_v2", "torch._utils._rebuild_tensor"):
        unpickler.count_elements(arguments[0].name, arguments[2])
    elif called.name == "collections.OrderedDict":
        for pairs in arguments:
            _check_keys(key for key, _ in pairs)
    elif called.name == "_codecs.encode":
        if arguments[1:] != ("latin1",):
            raise RefusedPickleError("it encodes text")
    elif called.name not in _CALLED:
        raise RefusedPickleError(f"it calls {called.name}")
    unpickler.stack[-1] = _Named(f"{called.name}()")


# Allowed without a check of the arguments. All other functions that torch would call can allocate any amount
# of memory, or take unlimited time.
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
    """Interprets a pickle as torch does, but creates only containers of placeholders."""

    dispatch: ClassVar[dict[int, Any]] = {
        **LimitedUnpickler.dispatch,
        pickle.REDUCE[0]: _load_reduce,
        pickle.NEWOBJ[0]: _load_reduce,
        pickle.BUILD[0]: _load_build,
    }

    def __init__(self, file: Any, size: int) -> None:
        super().__init__(file)
        self._size, self._unpacked = size, 0

    def count_elements(self, storage: str, shape: Any) -> None:
        """Raise if all tensors are much larger than the file, by zero strides or missing storage."""
        self._unpacked += math.prod(shape) * (_LARGE_BYTES if storage == _LARGE_STORAGE else _BYTES)
        check_unpacked(self._size, self._unpacked)

    def find_class(self, module: str, name: str) -> Any:
        if len(module) + len(name) > _LETTERS:
            raise RefusedPickleError(f"a name of more than {_LETTERS} letters (limit)")
        return _Named(f"{module}.{name}")

    def persistent_load(self, pid: Any) -> Any:
        self.count_elements(pid[1].name, pid[4:5])
        return _Named(pid[1].name)


def read_plain_pickle(stream: IO[bytes], where: str) -> Any:
    """Read a pickle that holds only dicts, lists, tuples, numbers, strings and arrays of uint8.

    No class or function that the pickle names is ever imported: the names used for numpy arrays, old and new,
    are replaced by small classes of this module, and every other name is refused. Memory is allocated only
    for existing bytes, whatever sizes the pickle declares, and only text and numbers can be keys.

    Args:
        stream: The opened file.
        where: Name of the file in errors.

    Returns:
        The content; strings of Python 2 as bytes.

    Raises:
        ValueError: If it is truncated, not a pickle, or contains anything else.

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
    """Replaces numpy.dtype; only unsigned bytes."""

    def __init__(self, code: object = None, *_: object) -> None:
        if code not in (b"u1", "u1"):
            raise RefusedPickleError(
                f"it holds an array of {reprlib.repr(code)}; only u1 (unsigned bytes) is read"
            )

    def __setstate__(self, state: object) -> None:
        """Ignore the byte order and the like, which bytes do not have."""


class _Array:
    """Replaces an array that numpy's pickles create empty and then fill."""

    values: np.ndarray[Any, Any]

    def __init__(self, *_: object) -> None:
        """Ignore the arguments (class, shape, type of the empty array), which do not describe the content."""

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, fortran, content = state
        if not isinstance(dtype, _Dtype) or not isinstance(content, bytes):
            raise RefusedPickleError("it holds an array that is not made of plain bytes")
        self.values = np.frombuffer(content, np.uint8).reshape(shape, order="F" if fortran else "C")


class _FilledArray(_Array):
    """Replaces an array that numpy's newer pickles create in one step."""

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
    """Replaces _codecs.encode, by which Python 3 writes bytes in old protocols; only latin-1.

    A class instead of a function, because a pickle can set attributes of objects without __setstate__.
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
    """Convert replacements to arrays: the content itself, or the values of a dict at the top level."""
    if isinstance(content, dict):
        return {key: _array(value) for key, value in content.items()}
    return _array(content)


def _array(value: Any) -> Any:
    return value.values if isinstance(value, _Array) else value
