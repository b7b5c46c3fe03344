"""The distances that studies compare, with the settings they are compared at."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from cophenet.paper.dense import dense_bures
from cophenet.transport import class_distances
from cophenet.tree import Hierarchy

__all__ = ["VARIANTS", "Variant"]


@dataclass(frozen=True)
class Variant:
    """A distance with its settings.

    Attributes:
        label: What to call it.
        distance: Its registered name; "" for the dense form of Bures, which is no distance of the library.
        options: Its own options.
        largest: Samples per class beyond which it is not tried, for its memory grows as their square.
        complexity: What the paper's table says of it, for k classes of n samples; "" if nothing.
    """

    label: str
    distance: str
    options: dict[str, Any] = field(default_factory=dict)
    largest: int = 1 << 12
    complexity: str = ""

    def measure(self, features: Tensor, labels: Tensor, tree: Hierarchy) -> Tensor:
        """(P,) distances of all pairs of classes.

        Args:
            features: (B, d) floating point.
            labels: (B,) positions in the tree's classes.
            tree: The label tree, for distances that need it.
        """
        if not self.distance:
            return dense_bures(features, labels)
        rho: Tensor = class_distances(features, labels, self.distance, tree=tree, **self.options)[1]
        return rho


_LINEAR = 1 << 17

VARIANTS: tuple[Variant, ...] = (
    Variant("l2", "l2", largest=_LINEAR, complexity="(nk + k^2) d"),
    Variant("FastFT", "fastft", largest=_LINEAR, complexity="k^2 n d"),
    Variant("FastFT, principal order", "fastft", {"order": "principal"}, largest=_LINEAR),
    Variant("SWD", "swd", largest=_LINEAR, complexity="k^2 n p (d + log n)"),
    Variant("FT", "ft", largest=1 << 13, complexity="k^2 n d log(d Phi)"),
    Variant("TWD", "twd", complexity="k^2 n^2 d I"),
    Variant("Sinkhorn, reg 10", "sinkhorn", complexity="k^2 n^2 (d + I)"),
    Variant("EMD", "emd", complexity="k^2 n (d + n^2 log n)"),
    Variant("EMD by POT", "emd", {"solver": "pot"}),
    Variant("Bures", "bures", largest=1 << 11),
    Variant("Bures, dense", "", largest=1 << 13),
)
