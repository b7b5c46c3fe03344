"""The paper's protocol: from a finished run to every number, in `results.json` beside it.

One file per step: features out of the network, numbers out of features, the one-shot head, and what is
written. What the metrics compute is in `cophenet.metrics`; what their keys mean is in `keys`, which loads
without torch.
"""

from cophenet.evaluation.keys import MetricInfo, describe

__all__ = ["MetricInfo", "describe"]
