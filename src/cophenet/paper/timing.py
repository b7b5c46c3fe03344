"""The distances of the timing studies, and the cost of each in a training step."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, islice
from typing import Any

import torch
from torch import Tensor

from cophenet._common.checks import check_whole
from cophenet._common.processes import torch_threads
from cophenet.cpcc.loss import CPCCLoss
from cophenet.paper.observations import STEADY, Condition, Observation, Observations
from cophenet.paper.variants import label_of
from cophenet.transport import class_distances
from cophenet.tree import Hierarchy

__all__ = [
    "VARIANTS",
    "DistanceVariant",
    "best_seconds",
    "busy",
    "dense_bures",
    "step_observations",
    "time_steps",
]


@dataclass(frozen=True)
class DistanceVariant:
    """A distance with its settings.

    Attributes:
        distance: Its registered name; "" for the dense form of Bures, which is not a distance of the library.
        options: Its options.
        largest: Largest number of samples per class to try, as memory may grow with its square.
        complexity: Its complexity in the paper's table, for k classes of n samples; "" if it has none.
        note: Addition to the name in its label.
    """

    distance: str
    options: dict[str, Any] = field(default_factory=dict)
    largest: int = 1 << 12
    complexity: str = ""
    note: str = ""

    @property
    def label(self) -> str:
        """Its name in results."""
        return ", ".join(filter(None, (label_of(self.name), self.note)))

    @property
    def name(self) -> str:
        """Its name in observations: the distance, with the options that distinguish its variants.

        Example:
            >>> [variant.name for variant in VARIANTS[-4:]]
            ['emd', 'emd-pot', 'bures', 'bures-dense']
        """
        if not self.distance:
            return "bures-dense"
        return "-".join([self.distance, *(str(value) for value in self.options.values())])

    def measure(self, features: Tensor, labels: Tensor, tree: Hierarchy) -> Tensor:
        """(P,) distances of all pairs of classes.

        Args:
            features: (B, d) floating point.
            labels: (B,) class indices of the tree.
            tree: The label tree, for distances that need it.
        """
        if not self.distance:
            return dense_bures(features, labels)
        rho: Tensor = class_distances(features, labels, self.distance, tree=tree, **self.options)[1]
        return rho


_LINEAR = 1 << 17

VARIANTS: tuple[DistanceVariant, ...] = (
    DistanceVariant("l2", largest=_LINEAR, complexity="(nk + k^2) d"),
    DistanceVariant("fastft", largest=_LINEAR, complexity="k^2 n d"),
    DistanceVariant("fastft", {"order": "principal"}, largest=_LINEAR),
    DistanceVariant("swd", largest=_LINEAR, complexity="k^2 n p (d + log n)"),
    DistanceVariant("ft", largest=1 << 13, complexity="k^2 n d log(d Phi)"),
    DistanceVariant("twd", complexity="k^2 n^2 d I"),
    DistanceVariant("sinkhorn", complexity="k^2 n^2 (d + I)", note="reg 10"),
    DistanceVariant("emd", complexity="k^2 n (d + n^2 log n)"),
    DistanceVariant("emd", {"solver": "pot"}),
    DistanceVariant("bures", largest=1 << 11),
    DistanceVariant("", largest=1 << 13),
)


def _root(matrix: Tensor) -> Tensor:
    """Square root of a positive semidefinite matrix; negative eigenvalues due to rounding become zero."""
    values, vectors = torch.linalg.eigh(matrix)
    root: Tensor = (vectors * values.clamp(min=0).sqrt()) @ vectors.T
    return root


def dense_bures(features: Tensor, labels: Tensor, pairs: int | None = None, ridge: float = 0.0) -> Tensor:
    """Bures-Wasserstein distances by covariance matrices and their square roots, as the paper describes.

    Only to measure its cost, O(n d^2 + d^3) for each pair of classes: `cophenet.transport.Bures` computes the
    same without any (d, d) matrix.

    Args:
        features: (B, d) floating point.
        labels: (B,) integers.
        pairs: Number of pairs to compute, in the order of `itertools.combinations`; None for all.
        ridge: Added to the diagonals of the covariances: without it the gradient of a root of a singular
            matrix is not finite.

    Returns:
        (P,) distances.

    Example:
        >>> z = torch.tensor([[0.0], [2.0], [3.0], [7.0]])
        >>> dense_bures(z, torch.tensor([0, 0, 1, 1]))  # means 1, 5; deviations 1, 2
        tensor([4.1231])
    """
    clouds = [features[labels == label] for label in torch.unique(labels).tolist()]
    chosen = list(islice(combinations(range(len(clouds)), 2), pairs))
    moments = {c: _moments(clouds[c], ridge) for c in sorted({c for pair in chosen for c in pair})}
    distances = []
    for u, v in chosen:
        (mean_u, cov_u), (mean_v, cov_v) = moments[u], moments[v]
        root = _root(cov_u)
        spread = cov_u.trace() + cov_v.trace() - 2 * _root(root @ cov_v @ root).trace()
        distances.append(((mean_u - mean_v).square().sum() + spread.clamp(min=0)).sqrt())
    return torch.stack(distances) if distances else features.new_zeros(0)


def _moments(rows: Tensor, ridge: float) -> tuple[Tensor, Tensor]:
    """Mean (d,) and covariance (d, d) of a class."""
    mean = rows.mean(0)
    centred = rows - mean
    return mean, centred.T @ centred / len(rows) + ridge * torch.eye(rows.shape[1]).to(rows)


# Name of the dense form of Bures in a study of steps.
_DENSE = "bures, dense"
_RIDGE = 1e-3
# Largest number of calls of which the best time counts, and seconds after which no new call begins.
_CALLS, _CALLS_SECONDS = 5, 0.2


def time_steps(
    batch_size: int = 128,
    classes: int = 100,
    width: int = 512,
    distances: Sequence[str] = ("l2", "fastft", "swd", "sinkhorn", "emd", "bures"),
    repeats: int = 3,
    dense_pairs: int = 8,
    tell: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Measure seconds of the loss `1 - CPCC` and its gradient on random features, by class distance.

    The time of a network is not included. The dense form of Bures, with d x d square roots, is timed on a few
    pairs of classes and scaled to all pairs.

    Args:
        batch_size: Number of samples, B.
        classes: Number of classes that labels are drawn from, in groups of five.
        width: Dimension of the features, d.
        distances: Names of class distances.
        repeats: Number of batches for every distance.
        dense_pairs: Number of pairs that the dense form is timed on; 0 to leave it out.
        tell: Called with a line about every distance.

    Returns:
        The settings, and under "seconds" the times of every repeat by distance; "bures, dense" is scaled.

    Example:
        >>> study = time_steps(16, 10, 4, ["l2", "fastft"], repeats=2, dense_pairs=1)
        >>> {name: len(values) for name, values in study["seconds"].items()}
        {'l2': 2, 'fastft': 2, 'bures, dense': 2}
    """
    check_whole("repeats", repeats, 1)
    check_whole("dense_pairs", dense_pairs, 0)
    tree = Hierarchy.from_paths([(f"g{c // 5}", f"c{c}") for c in range(classes)])
    generator = torch.Generator().manual_seed(0)
    batches = [
        (
            torch.randn(batch_size, width, generator=generator),
            torch.randint(0, classes, (batch_size,), generator=generator),
        )
        for _ in range(repeats)
    ]
    seconds: dict[str, list[float]] = {}
    with torch_threads(1):
        for name in distances:
            criterion = CPCCLoss(tree, name)
            _timed(criterion, *batches[0])
            seconds[name] = [_timed(criterion, *batch) for batch in batches]
            tell(f"step with {name}: {min(seconds[name]):.2g} s")
        if dense_pairs:
            seconds[_DENSE] = [_projected(*batch, dense_pairs) for batch in batches]
            tell(f"step with dense Bures, projected: {min(seconds[_DENSE]):.2g} s")
    settings = {"batch_size": batch_size, "classes": classes, "width": width, "dense_pairs": dense_pairs}
    return {"settings": settings, "seconds": seconds}


def best_seconds(call: Callable[[], object]) -> float:
    """Seconds of a call: the best of at most five calls, of which none begins after a fifth of a second.

    Example:
        >>> best_seconds(lambda: time.sleep(0.01)) >= 0.01
        True
    """
    best, begun = math.inf, time.perf_counter()
    for _ in range(_CALLS):
        start = time.perf_counter()
        call()
        end = time.perf_counter()
        best = min(best, end - start)
        if end - begun > _CALLS_SECONDS:
            break
    return best


def _timed(loss: Callable[[Tensor, Tensor], Tensor], features: Tensor, labels: Tensor) -> float:
    leaf = features.clone().requires_grad_()

    def step() -> None:
        loss(leaf, labels).backward()  # type: ignore[no-untyped-call]
        leaf.grad = None

    return best_seconds(step)


def _projected(features: Tensor, labels: Tensor, pairs: int) -> float:
    """Time of the dense form on some pairs, scaled to all pairs; without the correlation of distances."""
    present = len(torch.unique(labels))
    total = present * (present - 1) // 2
    pairs = min(pairs, total)

    def loss(z: Tensor, y: Tensor) -> Tensor:
        return dense_bures(z, y, pairs, _RIDGE).sum()

    return _timed(loss, features, labels) * total / pairs


def busy(times: Sequence[Sequence[float]]) -> str:
    """Why growth exponents and ratios of times cannot be used: the load changed during the measurements.

    Args:
        times: Seconds of the repeats, at each of some sizes.

    Returns:
        The reason; "" if the repeats agree at half of the sizes or more.

    Example:
        >>> busy([[1.0, 1.0, 1.01]]), busy([[1.0, 1.5, 1.0]])
        ('', 'times vary by 25 %: the machine was busy')
    """
    spreads = [statistics.stdev(each) / statistics.fmean(each) for each in times if len(each) > 1]
    spread = statistics.median(spreads) if spreads else 0.0
    return f"times vary by {100 * spread:.0f} %: the machine was busy" if spread > STEADY else ""


def step_observations(study: Mapping[str, Any]) -> Observations:
    """Observations of `time_steps`: "seconds_per_batch", and "times-l2", the time divided by that with l2."""
    conditions, rows = [], []
    l2 = study["seconds"].get("l2")
    for name, seconds in study["seconds"].items():
        # The paper timed updates on CIFAR-100.
        distance = "bures-dense" if name == _DENSE else name
        condition = Condition("", "cifar100", distance, comparable=True)
        conditions.append(condition)
        rows += [Observation(condition, seed, "seconds_per_batch", s) for seed, s in enumerate(seconds)]
        if l2:
            ratios = (own / other for own, other in zip(seconds, l2, strict=True))
            doubt = busy([seconds]) or busy([l2])
            rows += [Observation(condition, seed, "times-l2", r, doubt) for seed, r in enumerate(ratios)]
    return Observations(tuple(conditions), tuple(rows))
