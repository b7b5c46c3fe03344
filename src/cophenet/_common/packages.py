"""Optional packages: checked before anything is written, and imported where they are needed."""

from __future__ import annotations

import importlib.util
from types import ModuleType

__all__ = ["import_optional", "require"]


def require(package: str, purpose: str, install: str) -> None:
    """Raise if a package is not installed; it is not imported.

    Args:
        package: The name it is imported by.
        purpose: What needs it, with the verb, for the message.
        install: Argument of `pip install`.

    Raises:
        ImportError: If it is not installed; says how to install it.

    Example:
        >>> require("no_such_package", "training needs", "cophenet[train]")
        Traceback (most recent call last):
        ImportError: training needs no_such_package: pip install 'cophenet[train]'
    """
    if importlib.util.find_spec(package) is None:
        raise ImportError(_message(package, purpose, install))


def import_optional(package: str, purpose: str, install: str, *, called: str = "") -> ModuleType:
    """Import a package that may be missing, and return what `import` binds: for "a.b" the package `a`.

    Args:
        package: The module to import, such as "pyarrow.parquet".
        purpose: What needs it, with the verb, for the message.
        install: Argument of `pip install`.
        called: Name of the package in the message, if it is not the first part of `package`.

    Raises:
        ImportError: If it is not installed; says how to install it.

    Example:
        >>> import_optional("no_such_package.files", "such files need", "cophenet[data]")
        Traceback (most recent call last):
        ImportError: such files need no_such_package: pip install 'cophenet[data]'
    """
    try:
        importlib.import_module(package)
        return importlib.import_module(package.partition(".")[0])
    except ImportError as error:
        raise ImportError(_message(called or package.partition(".")[0], purpose, install)) from error


def _message(package: str, purpose: str, install: str) -> str:
    return f"{purpose} {package}: pip install '{install}'"
