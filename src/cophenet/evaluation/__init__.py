"""The paper's protocol: computes all metrics of a finished run, and writes `results.json` to its folder.

Metrics are defined in `cophenet.metrics`, with one card for each. `keys` and the cards load without torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cophenet._common.lazy import lazy_names, moved_names
from cophenet.evaluation.keys import MetricInfo, metric_info

if TYPE_CHECKING:
    from cophenet.evaluation.protocol import evaluate

__all__ = ["MetricInfo", "evaluate", "metric_info"]


_load, __dir__ = lazy_names(__name__, {"protocol": ["evaluate"]}, also=__all__)
__getattr__ = moved_names(__name__, {__name__: {"describe": "metric_info"}}, _load)
