"""The paper's protocol: from a finished run to every number, in `results.json` beside it.

One file per step: features out of the network, numbers out of features, the one-shot head, and what is
written. What the metrics compute is in `cophenet.metrics`; what their keys mean is in `keys`, which loads
without torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from cophenet.evaluation.keys import MetricInfo, describe

if TYPE_CHECKING:
    from cophenet.evaluation.protocol import evaluate

__all__ = ["MetricInfo", "describe", "evaluate"]


def __getattr__(name: str) -> object:
    if name != "evaluate":
        raise AttributeError(f"module 'cophenet.evaluation' has no attribute {name!r}")
    return import_module("cophenet.evaluation.protocol").evaluate
