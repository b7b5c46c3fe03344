"""Optional packages, looked for before anything is written."""

from __future__ import annotations

import importlib.util

__all__ = ["require"]


def require(package: str, purpose: str, install: str) -> None:
    """Refuse to go on without a package.

    Args:
        package: The name it is imported by.
        purpose: What needs it, for the message.
        install: What to give to pip.

    Raises:
        ImportError: If it is not installed; says how to install it.

    Example:
        >>> require("no_such_package", "training", "cophenet[train]")
        Traceback (most recent call last):
        ImportError: training needs no_such_package: pip install 'cophenet[train]'
    """
    if importlib.util.find_spec(package) is None:
        raise ImportError(f"{purpose} needs {package}: pip install '{install}'")
