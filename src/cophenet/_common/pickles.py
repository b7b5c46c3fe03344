"""Pickles read without taking memory or time for what they only declare."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from typing import Any, ClassVar, NoReturn

__all__ = ["LimitedUnpickler", "RefusedPickleError", "check_keys"]

_LOAD: dict[int, Any] = dict(pickle._Unpickler.dispatch)


class RefusedPickleError(Exception):
    """The pickle asks for something that is not allowed."""


def check_keys(keys: Iterable[object]) -> None:
    """Refuse keys of a dictionary that are neither text nor numbers."""
    for key in keys:
        # To hash a tuple of tuples, each of them twice in the next, takes years.
        if type(key) not in (str, bytes, int):
            problem = f"it has a key of type {type(key).__name__}"
            raise RefusedPickleError(f"{problem}; only text and numbers are read")


def _load_item(unpickler: Any) -> None:
    check_keys(unpickler.stack[-2:-1])
    _LOAD[pickle.SETITEM[0]](unpickler)


def _load_items(unpickler: Any) -> None:
    check_keys(unpickler.stack[::2])
    _LOAD[pickle.SETITEMS[0]](unpickler)


def _load_dict(unpickler: Any) -> None:
    check_keys(unpickler.stack[::2])
    _LOAD[pickle.DICT[0]](unpickler)


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
        pickle.SETITEM[0]: _load_item,
        pickle.SETITEMS[0]: _load_items,
        pickle.DICT[0]: _load_dict,
        pickle.BYTEARRAY8[0]: _load_bytearray,
        pickle.EMPTY_SET[0]: _refuse,
        pickle.ADDITEMS[0]: _refuse,
        pickle.FROZENSET[0]: _refuse,
    }

    def find_class(self, module: str, name: str) -> Any:
        """Refuse every class and function."""
        raise RefusedPickleError(f"the pickle asks for {f'{module}.{name}':.100}")
