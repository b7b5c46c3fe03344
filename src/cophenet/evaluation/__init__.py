"""The paper's protocol: from a finished run to every number, in `results.json` beside it.

Which numbers there are, what they mean and how they are computed is in `cophenet.metrics`, one card for each
metric. `keys` and the cards load without torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cophenet._common.lazy import lazy_names
from cophenet.evaluation.keys import MetricInfo, describe

if TYPE_CHECKING:
    from cophenet.evaluation.protocol import evaluate

__all__ = ["MetricInfo", "describe", "evaluate"]


__getattr__, __dir__ = lazy_names(__name__, {"protocol": ["evaluate"]}, also=__all__)
