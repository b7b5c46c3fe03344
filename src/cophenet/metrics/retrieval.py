"""Retrieval of samples by samples: queries and their gallery, and MAP@R.

The MAP of the paper, whose queries are class prototypes, is in `mean_average_precision`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cophenet._common.lazy import torch
from cophenet.metrics._base import SampleMetric
from cophenet.metrics._blocks import full_precision, product, row_blocks
from cophenet.metrics._checks import check_features, ratio

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["MAPAtR", "map_at_r"]

Gallery = tuple["Tensor", "Tensor"]


@dataclass(frozen=True, eq=False)
class Search:
    """Queries and the gallery they search.

    Attributes:
        queries: (N, d) of norm 1.
        labels: (N,) classes of the queries.
        answers: (M, d) the gallery, of norm 1.
        answer_labels: (M,) classes of the gallery.
        itself: 1 if the queries are the gallery, where a query must not retrieve itself, else 0.
    """

    queries: Tensor
    labels: Tensor
    answers: Tensor
    answer_labels: Tensor
    itself: int

    @property
    def gallery_size(self) -> int:
        """Number of gallery samples that a query can retrieve."""
        return max(0, len(self.answers) - self.itself)

    def cosines(self, order: Tensor, extra: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield blocks of queries, in a given order, and their cosines to the gallery: (n,), (n, M).

        A query's cosine to itself is minus infinity. The block size leaves memory for `extra` more values per
        query.
        """
        for rows in row_blocks(len(order), len(self.answers) + extra):
            chosen = order[rows]
            cosines = product(self.queries[chosen], self.answers.T)
            if self.itself:
                cosines[torch.arange(len(chosen), device=chosen.device), chosen] = -torch.inf
            yield chosen, cosines


def make_search(
    features: Tensor, labels: Tensor, gallery: Gallery | None, num_classes: int | None = None
) -> Search:
    """Check and normalise features; without a gallery, each sample searches all others."""
    labels = check_features(features, labels, num_classes)
    queries = torch.nn.functional.normalize(full_precision(features))
    if gallery is None:
        return Search(queries, labels, queries, labels, itself=1)
    others, other_labels = gallery
    other_labels = check_features(others, other_labels, num_classes)
    if others.shape[1:] != features.shape[1:] or others.device != features.device:
        given = f"{tuple(others.shape)} on {others.device}"
        raise ValueError(
            f"gallery features must have shape (M, {features.shape[1]}) on {features.device}, got {given}"
        )
    answers = torch.nn.functional.normalize(full_precision(others).to(queries))
    return Search(queries, labels, answers, other_labels, itself=0)


def _precision_up_to(relevant: Tensor, scores: Tensor, wanted: Tensor) -> Tensor:
    """MAP@R of each query from its K best results, scores descending. (n, K), (n, K), (n,) -> (n,).

    Equal scores are retrieved together, at the rank of the last of them; if that is beyond rank R, none of
    them counts.
    """
    ranks = torch.arange(1, scores.shape[1] + 1, device=scores.device)
    last = torch.ones_like(relevant)
    last[:, :-1] = scores[:, 1:] != scores[:, :-1]
    ends = torch.where(last, ranks, len(ranks)).flip(1).cummin(1).values.flip(1)
    right = relevant.cumsum(1).gather(1, ends - 1)
    counted = relevant & (ends <= wanted[:, None])
    return (right.double() / ends * counted).sum(1) / wanted


def _map_at_r_compute(search: Search) -> Tensor:
    """Mean over the queries that have a sample of their class in the gallery."""
    labels, answers = search.labels, search.answer_labels
    place = torch.unique(torch.cat((labels, answers)), return_inverse=True)[1]
    counts = torch.bincount(place[len(labels) :], minlength=len(place))
    wanted = counts[place[: len(labels)]] - search.itself
    # Queries with similar R share a block, because `topk` uses the largest R of its block for all of them.
    wants, order = wanted.sort()
    order = order[wants > 0]
    total = torch.zeros((), dtype=torch.float64, device=labels.device)
    for chosen, cosines in search.cosines(order):
        size = min(int(wanted[chosen].max()) + 1, search.gallery_size)
        scores, best = cosines.topk(size, dim=1)
        total += _precision_up_to(answers[best] == labels[chosen, None], scores, wanted[chosen]).sum()
    return ratio(total, len(order), "MAP@R", "no sample has another of its class to find")


def map_at_r(features: Tensor, labels: Tensor, gallery: Gallery | None = None) -> Tensor:
    r"""MAP@R: with every sample as a query, retrieve the samples of its class by cosine.

    With R the number of right answers for a query, which are the gallery samples of its class:

    .. math::

        \mathrm{MAP@R} = \frac{1}{R} \sum_{i=1}^R [\text{answer } i \text{ is right}] \; \mathrm{precision@}i

    averaged over queries. Equal scores are retrieved together. Queries without a right answer are left out;
    if that leaves none, the value is NaN, with a warning. Musgrave et al. 2020, A Metric Learning Reality
    Check, arXiv:2003.08505.

    Args:
        features: (N, d).
        labels: (N,) integers; for a level of a tree give `level_labels` of them.
        gallery: Features (M, d) and labels (M,) to search in; None for all other samples.

    Returns:
        A float64 scalar in [0, 1].

    Raises:
        ValueError: If an argument has a wrong shape, type or value.

    Example:
        >>> features = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.6, 0.5]])
        >>> map_at_r(features, torch.tensor([0, 0, 1, 1])).item()
        0.75
    """
    return _map_at_r_compute(make_search(features, labels, gallery))


class MAPAtR(SampleMetric):
    r"""MAP@R with every sample as a query for the others, as `map_at_r`.

    .. math::

        \mathrm{MAP@R} = \frac{1}{R} \sum_{i=1}^R [\text{answer } i \text{ is right}] \; \mathrm{precision@}i

    averaged over queries. Musgrave et al. 2020, arXiv:2003.08505.

    Args:
        **kwargs: Options of `torchmetrics.Metric`.

    Example:
        >>> from cophenet.metrics import MAPAtR
        >>> metric = MAPAtR()
        >>> features = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.6, 0.5]])
        >>> metric(features, torch.tensor([0, 0, 1, 1])).item()
        0.75
    """

    higher_is_better = True

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(None, **kwargs)

    def compute(self) -> Tensor:
        """A scalar in [0, 1]."""
        return _map_at_r_compute(make_search(*self.collected(), None))
