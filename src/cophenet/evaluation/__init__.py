"""The paper's protocol: from a finished run to every number, in `results.json` beside it.

One file per step: features out of the network, numbers out of features, the one-shot head, and what is
written. What the metrics compute is in `cophenet.metrics`; what their keys mean is in `keys`, which loads
without torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cophenet._common.lazy import lazy_names
from cophenet.evaluation.keys import MetricInfo, describe

if TYPE_CHECKING:
    from cophenet.evaluation.protocol import evaluate

__all__ = ["MetricInfo", "describe", "evaluate"]


__getattr__, __dir__ = lazy_names(__name__, {"protocol": ["evaluate"]}, also=__all__)
