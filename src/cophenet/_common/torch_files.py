"""Files that torch writes, read without running anything and without taking memory for what they declare."""

from __future__ import annotations

import io
import pickle
import tarfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar

from cophenet._common.limits import check_zip, read_stream
from cophenet._common.pickles import LimitedUnpickler, RefusedPickleError

if TYPE_CHECKING:
    from torch import device as Device

__all__ = ["load_torch"]

# Of a class or function; torch searches names that it does not know in a time that grows as their square.
_LETTERS = 200


def load_torch(path: Path, device: str | Device = "cpu", *, old_format: bool = True) -> Any:
    """What `torch.save` wrote: tensors and plain values.

    Args:
        path: The file.
        device: Where the tensors shall be.
        old_format: Whether files of before torch 1.6 are read too.

    Raises:
        Exception: Anything, if the file is damaged or something else; `TooLargeError` if it unpacks to much
            more than it is.
    """
    import torch

    if zipfile.is_zipfile(path):
        check_zip(path)
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                if name.endswith(".pkl"):
                    _Checker(io.BytesIO(archive.read(name))).load()
        return torch.load(path, map_location=device, weights_only=True)
    # Before 2.6, torch itself can be made to run code by a file in its oldest format.
    if not old_format or tarfile.is_tarfile(path):
        raise ValueError("not in the format that torch writes")
    with path.open("rb") as file:
        stream: Any = _Stream(file)
        for _ in range(_OLD_PICKLES):
            _Checker(stream).load()
        file.seek(0)
        return torch.load(stream, map_location=device, weights_only=True)


# A magic number, a version, sizes of types, the content, and the names of the tensors.
_OLD_PICKLES = 5


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

    def __setitem__(self, key: object, value: object) -> None: ...

    def append(self, value: object) -> None: ...

    def extend(self, values: object) -> None: ...


def _load_reduce(unpickler: Any) -> None:
    _ = unpickler.stack.pop()
    if not isinstance(unpickler.stack[-1], _Named):
        raise RefusedPickleError("it calls what is no class")  # torch would write that out in its error
    unpickler.stack[-1] = _Named()


def _load_build(unpickler: Any) -> None:
    _ = unpickler.stack.pop()


class _Checker(LimitedUnpickler):
    """Goes through a pickle as torch does, and makes nothing but containers of placeholders."""

    dispatch: ClassVar[dict[int, Any]] = {
        **LimitedUnpickler.dispatch,
        pickle.REDUCE[0]: _load_reduce,
        pickle.NEWOBJ[0]: _load_reduce,
        pickle.BUILD[0]: _load_build,
    }

    def find_class(self, module: str, name: str) -> Any:
        if len(module) + len(name) > _LETTERS:
            raise RefusedPickleError(f"a name of more than {_LETTERS} letters (limit)")
        return _Named()

    def persistent_load(self, pid: Any) -> Any:
        _ = pid
        return _Named()
