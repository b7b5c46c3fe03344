"""cophenet: train networks whose features follow a label tree.

Importing this package is cheap: every public name is loaded on first use.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

from cophenet._common.lazy import lazy_names

if TYPE_CHECKING:
    from cophenet.cpcc.loss import CPCCLoss
    from cophenet.cpcc.pearson import cpcc
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

_load, __dir__ = lazy_names(
    __name__,
    {
        "cpcc.loss": ["CPCCLoss"],
        "estimator": ["HierarchicalEmbedder"],
        "transport": ["ClassDistance", "TransportPlan", "class_distances", "tree_wasserstein"],
        "tree": ["Hierarchy"],
    },
    rooms=True,
    also=__all__,
)


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        globals()[name] = version("cophenet")
        return globals()[name]
    return _load(name)


class _Package(ModuleType):
    """Make `cophenet.cpcc` always the function: importing the subpackage `cpcc` would replace it."""

    @property
    def cpcc(self) -> object:
        from cophenet.cpcc.pearson import cpcc

        return cpcc

    @cpcc.setter
    def cpcc(self, room: ModuleType) -> None:
        """Ignore the assignment that the import system makes after loading the subpackage."""


if not TYPE_CHECKING:
    sys.modules[__name__].__class__ = _Package
