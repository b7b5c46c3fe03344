"""Lazy imports, so that importing a package is cheap: its names, names that have moved, and torch."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import TYPE_CHECKING

__all__ = ["lazy_names", "moved_names", "torch"]


def lazy_names(
    package: str, homes: Mapping[str, Sequence[str]], *, rooms: bool = False, also: Sequence[str] = ()
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package whose names are defined in its submodules.

    Replaces a dependency on `lazy_loader`, which does the same.

    Args:
        package: The `__name__` of the package.
        homes: Submodule -> the names it defines.
        rooms: Whether its submodules without a leading underscore are attributes of the package, too.
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
        if name in submodules():
            return import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    @cache
    def submodules() -> tuple[str, ...]:
        folders = import_module(package).__path__ if rooms else ()
        return tuple(module.name for module in iter_modules(folders) if not module.name.startswith("_"))

    return load, lambda: sorted({*home, *submodules(), *also})


class _LazyModule(ModuleType):
    """A module that is imported when an attribute is first accessed."""

    def __getattr__(self, name: str) -> object:
        return getattr(import_module(self.__name__), name)


# For modules that are imported only for metadata, by compare or shell completion, where torch is not needed.
if TYPE_CHECKING:
    import torch as torch
else:
    torch = _LazyModule("torch")


def moved_names(
    module: str,
    homes: Mapping[str, Sequence[str] | Mapping[str, str]],
    load_others: Callable[[str], object] | None = None,
) -> Callable[[str], object]:
    """The `__getattr__` of a module whose names have moved to other modules, or have changed.

    Args:
        module: The `__name__` of the old module.
        homes: New module -> the names that it defines now; as a mapping, old name -> new name.
        load_others: The `__getattr__` for all other names; None if there are none.

    Example:
        >>> load = moved_names("old", {"cophenet.recipes": ["load_recipe"]})
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     load("load_recipe").__name__, str(caught[0].message)
        ('load_recipe', 'old.load_recipe is now cophenet.recipes.load_recipe')
    """
    home = {
        name: (place, names[name] if isinstance(names, Mapping) else name)
        for place, names in homes.items()
        for name in names
    }

    def load(name: str) -> object:
        if name == "__all__":
            return list(home)
        if name not in home:
            if load_others is not None:
                return load_others(name)
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        place, new_name = home[name]
        warnings.warn(f"{module}.{name} is now {place}.{new_name}", DeprecationWarning, stacklevel=2)
        return getattr(import_module(place), new_name)

    return load
