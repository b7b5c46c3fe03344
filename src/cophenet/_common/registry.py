"""Registries of named members: registered by a decorator, in a subpackage's modules or in other packages."""

from __future__ import annotations

import ast
import pkgutil
import warnings
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from threading import RLock
from typing import Generic, TypeVar

from cophenet._common.checks import check_choice

__all__ = ["Registry", "declared_names"]

T = TypeVar("T")


class Registry(Generic[T]):
    """The members of a subpackage by name, such as all distances.

    A member registers itself where it is defined. The first look-up imports every module of the subpackage,
    so a new member only needs a file there. Other packages add members by entry points, loaded on demand.

    Args:
        kind: What a member is, as the name of the argument in messages: "distance".
        room: The package whose modules define members: "cophenet.transport".
        group: The entry point group for other packages: "cophenet.distances".
        check: Called with the name and the object of a new member; raises a `ValueError` if it is invalid.

    Example:
        >>> shapes = Registry("shape", "cophenet.tree", "cophenet.shapes")
        >>> @shapes.register("square")
        ... class Square: ...
        >>> shapes.names(), shapes.get("square").__name__
        (('square',), 'Square')
        >>> shapes.get("sqare")
        Traceback (most recent call last):
        ValueError: shape must be one of square, got 'sqare'; did you mean 'square'?
    """

    def __init__(
        self, kind: str, room: str, group: str, check: Callable[[str, object], None] | None = None
    ) -> None:
        self.kind, self.room, self.group, self.check = kind, room, group, check
        self._members: dict[str, T] = {}
        self._imported = False
        self._lock = RLock()

    def register(self, name: str) -> Callable[[T], T]:
        """Decorator: make a class or function available under a name.

        Raises:
            ValueError: If a member with that name exists, or the object is not a valid member.
        """

        def add(member: T) -> T:
            if name in self._members:
                article = "an" if self.kind[0] in "aeiou" else "a"
                raise ValueError(f"{article} {self.kind} named {name!r} exists already")
            if self.check is not None:
                self.check(name, member)
            self._members[name] = member
            return member

        return add

    def names(self) -> tuple[str, ...]:
        """Names of all members: the registered ones, then those of other packages, without loading them."""
        self._import_room()
        return (*self._members, *(name for name in self._others if name not in self._members))

    def loaded(self) -> dict[str, T]:
        """The members of this package by name, and those of others that were loaded before.

        Example:
            >>> Registry("shape", "cophenet.tree", "cophenet.shapes").loaded()
            {}
        """
        self._import_room()
        return dict(self._members)

    def get(self, name: str) -> T:
        """Return the member with a name.

        Raises:
            ValueError: If there is none (the message names the nearest), or the package that declares it
                fails to load (the message names the package and the error).
        """
        self._import_room()
        if name not in self._members:
            check_choice(self.kind, name, self.names())
            self._load(self._others[name])
        return self._members[name]

    def added(self) -> tuple[str, ...]:
        """Names registered by the running program: not from this package, and not declared by another.

        Example:
            >>> shapes = Registry("shape", "cophenet.tree", "cophenet.shapes")
            >>> _ = shapes.register("square")(type("Square", (), {"__module__": "my_program"}))
            >>> shapes.added()
            ('square',)
        """
        own = f"{self.room.partition('.')[0]}."
        others = (item for item in self._members.items() if item[0] not in self._others)
        return tuple(name for name, member in others if not f"{_module_of(member)}.".startswith(own))

    def members(self) -> dict[str, T]:
        """All members by name; those of other packages that fail to load are skipped with a warning each."""
        for name in self.names():
            try:
                self.get(name)
            except ValueError as error:  # noqa: PERF203
                warnings.warn(str(error), stacklevel=2)
        return dict(self._members)

    def _import_room(self) -> None:
        with self._lock:
            if self._imported:
                return
            self._imported = True  # first, because the modules may look names up themselves
            for module in pkgutil.iter_modules(import_module(self.room).__path__):
                if not module.ispkg:
                    import_module(f"{self.room}.{module.name}")
            # In the order of the files, even if one of them was imported before.
            self._members = dict(sorted(self._members.items(), key=lambda item: _module_of(item[1])))

    @cached_property
    def _others(self) -> dict[str, EntryPoint]:
        """Entry points of other packages by name; registered members and the first package win."""
        others: dict[str, EntryPoint] = {}
        for entry in sorted(entry_points(group=self.group), key=lambda entry: (entry.name, entry.value)):
            if entry.name in self._members or others.get(entry.name, entry) != entry:
                warnings.warn(f"{self._describe(entry)} is ignored: the name is in use", stacklevel=2)
            else:
                others[entry.name] = entry
        return others

    def _load(self, entry: EntryPoint) -> None:
        try:
            member = entry.load()  # may register it, too
            if entry.name not in self._members:
                self.register(entry.name)(member)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise ValueError(f"{self._describe(entry)} cannot be loaded: {reason}") from error

    def _describe(self, entry: EntryPoint) -> str:
        package = entry.dist.name if entry.dist is not None else "an unknown package"
        return f"{self.kind} {entry.name!r} of {package} ({entry.value})"


def _module_of(member: object) -> str:
    made_by = member.func if isinstance(member, partial) else member
    return str(getattr(made_by, "__module__", ""))


def declared_names(room: str, group: str) -> list[str]:
    """Names of a subpackage's members, read from its files and entry points without importing any of them.

    For shell completion, for which importing torch is too slow. Finds classes with a decorator `register...`
    and a constant `name`.

    Example:
        >>> "emd" in declared_names("cophenet.transport", "cophenet.distances")
        True
    """
    spec = find_spec(room)
    folders = [] if spec is None else spec.submodule_search_locations or []
    files = sorted(file for folder in folders for file in Path(folder).glob("*.py"))
    names = [name for file in files for name in _names_in(ast.parse(file.read_text("utf-8")))]
    return [*names, *sorted({entry.name for entry in entry_points(group=group)} - set(names))]


def _names_in(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if not isinstance(node, ast.ClassDef):
            continue
        if any(isinstance(d, ast.Name) and d.id.startswith("register") for d in node.decorator_list):
            for line in node.body:
                if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "name":
                    yield ast.literal_eval(line.value)
