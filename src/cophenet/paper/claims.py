"""Claims of the paper that are measured, and some beyond it, as data.

A claim asks for expressions over the observations of an item (`expressions`), which the judge decides on
every data set and at every scale (`judge`). Thresholds are ours, as the paper has none. Claims that are
proved are in `proofs`.
"""

from __future__ import annotations

from cophenet.paper.cost_claims import COST_CLAIMS
from cophenet.paper.expressions import Claim
from cophenet.paper.setting_claims import SETTING_CLAIMS
from cophenet.paper.training_claims import TRAINING_CLAIMS

__all__ = ["CLAIMS", "Claim"]

CLAIMS: tuple[Claim, ...] = (*COST_CLAIMS, *TRAINING_CLAIMS, *SETTING_CLAIMS)
