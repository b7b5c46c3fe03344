"""cophenet: teach networks the shape of a label tree.

Importing this package is cheap: every public name is loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cophenet.correlation import CPCCLoss, cpcc
    from cophenet.estimator import HierarchicalEmbedder
    from cophenet.transport import ClassDistance, TransportPlan, class_distances, tree_wasserstein
    from cophenet.tree import Hierarchy

__all__ = [
    "CPCCLoss",
    "ClassDistance",
    "HierarchicalEmbedder",
    "Hierarchy",
    "TransportPlan",
    "__version__",
    "class_distances",
    "cpcc",
    "tree_wasserstein",
]

_HOME = {
    "CPCCLoss": "correlation",
    "ClassDistance": "transport",
    "HierarchicalEmbedder": "estimator",
    "Hierarchy": "tree",
    "TransportPlan": "transport",
    "class_distances": "transport",
    "cpcc": "correlation",
    "tree_wasserstein": "transport",
}

_ROOMS = (
    "data",
    "estimator",
    "evaluation",
    "metrics",
    "models",
    "objectives",
    "training",
    "transport",
    "tree",
)


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("cophenet")
    if name in _ROOMS:
        return import_module(f"cophenet.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'cophenet' has no attribute {name!r}")
    return getattr(import_module(f"cophenet.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted((*__all__, *_ROOMS))
