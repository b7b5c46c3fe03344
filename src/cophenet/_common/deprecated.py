"""Old names of what has moved: they work, and say where it is now."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module

__all__ = ["moved_names"]


def moved_names(module: str, homes: Mapping[str, Sequence[str]]) -> Callable[[str], object]:
    """The `__getattr__` of a module whose names have moved to others.

    Args:
        module: Its `__name__`.
        homes: Module -> the names that are there now.

    Example:
        >>> load = moved_names("old", {"cophenet.recipes": ["load_recipe"]})
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     load("load_recipe").__name__, str(caught[0].message)
        ('load_recipe', 'old.load_recipe is now cophenet.recipes.load_recipe')
    """
    home = {name: place for place, names in homes.items() for name in names}

    def load(name: str) -> object:
        if name == "__all__":
            return list(home)
        if name not in home:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        warnings.warn(f"{module}.{name} is now {home[name]}.{name}", DeprecationWarning, stacklevel=2)
        return getattr(import_module(home[name]), name)

    return load
