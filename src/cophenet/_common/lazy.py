"""Names of a package that load on first use, so that importing the package is cheap."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module

__all__ = ["lazy_names"]


def lazy_names(
    package: str, homes: Mapping[str, Sequence[str]], rooms: Sequence[str] = (), also: Sequence[str] = ()
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package whose names live in its submodules.

    Written out because it is shorter than the dependency that does the same (`lazy_loader`).

    Args:
        package: Its `__name__`.
        homes: Submodule -> the names it defines.
        rooms: Submodules that are themselves attributes of the package.
        also: Names that the package defines itself, for `dir`.

    Example:
        >>> load, names = lazy_names("cophenet.tree", {"hierarchy": ["Hierarchy"]})
        >>> load("Hierarchy").__name__, names()
        ('Hierarchy', ['Hierarchy'])
        >>> load("Hierachy")
        Traceback (most recent call last):
        AttributeError: module 'cophenet.tree' has no attribute 'Hierachy'
    """
    home = {name: module for module, names in homes.items() for name in names}

    def load(name: str) -> object:
        if name in home:
            return getattr(import_module(f"{package}.{home[name]}"), name)
        if name in rooms:
            return import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return load, lambda: sorted({*home, *rooms, *also})
