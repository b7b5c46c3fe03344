"""Metrics of classification, retrieval and geometry on a label tree, one module per family.

A module holds the function on tensors (`level_accuracy`), the equivalent torchmetrics class
(`LevelAccuracy`), which only accumulates sums or samples over batches and processes, and the metadata that
reports need (`cards`). The functions need only torch, the classes `pip install cophenet[metrics]`.

All names in `__all__` of the modules here, except modules whose name begins with an underscore, are exported
by this package; they are imported on first use.
"""

# ruff: noqa: F403, F405 - the names are listed in `__all__` of each module

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cophenet.metrics.accuracy import *
    from cophenet.metrics.calibration import *
    from cophenet.metrics.cards import *
    from cophenet.metrics.cophenetic_correlation import *
    from cophenet.metrics.decisions import *
    from cophenet.metrics.geometry import *
    from cophenet.metrics.hierarchical_precision import *
    from cophenet.metrics.mean_average_precision import *
    from cophenet.metrics.mistakes import *
    from cophenet.metrics.retrieval import *


def metric_names() -> tuple[str, ...]:
    """Names of all metric classes."""
    return tuple(sorted(name for name, module in _homes().items() if _is_class(getattr(module, name))))


@cache
def _homes() -> dict[str, ModuleType]:
    """Exported name -> the module that defines it."""
    files = [module.name for module in pkgutil.iter_modules(__path__) if not module.ispkg]
    modules = [import_module(f"{__name__}.{name}") for name in files if not name.startswith("_")]
    return {name: module for module in modules for name in module.__all__}


def _is_class(member: object) -> bool:
    from cophenet.metrics._base import MetricClass

    return isinstance(member, type) and issubclass(member, MetricClass)


def __getattr__(name: str) -> object:
    if name == "__all__":
        return __dir__()
    if name.startswith("_") or name not in _homes():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from cophenet.metrics._base import with_torchmetrics

    member = getattr(_homes()[name], name)
    return with_torchmetrics(member) if _is_class(member) else member


def __dir__() -> list[str]:
    return sorted([*_homes(), "metric_names"])
