"""Retrieval of samples by samples: who searches where, and MAP@R.

The MAP of the paper, where prototypes of classes search, is in `mean_average_precision`.
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
        labels: (N,) their classes.
        answers: (M, d) of norm 1.
        answer_labels: (M,) their classes.
        itself: 1 if the queries are the gallery, where no query may find itself, else 0.
    """

    queries: Tensor
    labels: Tensor
    answers: Tensor
    answer_labels: Tensor
    itself: int

    @property
    def gallery_size(self) -> int:
        """How many answers a query can find."""
        return max(0, len(self.answers) - self.itself)

    def cosines(self, order: Tensor, extra: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
        """Blocks of queries, in a given order, and their cosines to the gallery: (n,), (n, M).

        A query's cosine to itself is minus infinity. With `extra` entries of work space for each query.
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
    """Check and normalise; without a gallery the samples search each other."""
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
    """MAP@R of each query from its best answers, scores descending. (n, K), (n, K), (n,) -> (n,).

    Equal scores are retrieved together, at the rank of the last of them; those reaching beyond rank R are
    not retrieved at all.
    """
    ranks = torch.arange(1, scores.shape[1] + 1, device=scores.device)
    last = torch.ones_like(relevant)
    last[:, :-1] = scores[:, 1:] != scores[:, :-1]
    ends = torch.where(last, ranks, len(ranks)).flip(1).cummin(1).values.flip(1)
    right = relevant.cumsum(1).gather(1, ends - 1)
    counted = relevant & (ends <= wanted[:, None])
    return (right.double() / ends * counted).sum(1) / wanted


def _map_at_r_compute(search: Search) -> Tensor:
    """Mean over the queries that have an answer."""
    labels, answers = search.labels, search.answer_labels
    place = torch.unique(torch.cat((labels, answers)), return_inverse=True)[1]
    counts = torch.bincount(place[len(labels) :], minlength=len(place))
    wanted = counts[place[: len(labels)]] - search.itself
    # Queries that want as many answers come together, so that few more are sorted than needed.
    wants, order = wanted.sort()
    order = order[wants > 0]
    total = torch.zeros((), dtype=torch.float64, device=labels.device)
    for chosen, cosines in search.cosines(order):
        size = min(int(wanted[chosen].max()) + 1, search.gallery_size)
        scores, best = cosines.topk(size, dim=1)
        total += _precision_up_to(answers[best] == labels[chosen, None], scores, wanted[chosen]).sum()
    return ratio(total, len(order), "MAP@R", "no sample has another of its class to find")


def map_at_r(features: Tensor, labels: Tensor, gallery: Gallery | None = None) -> Tensor:
    r"""MAP@R: every sample searches its class among the others by cosine.

    With R the number of right answers for a query:

    .. math::

        \mathrm{MAP@R} = \frac{1}{R} \sum_{i=1}^R [\text{answer } i \text{ is right}] \; \mathrm{precision@}i

    and its mean over queries. Equal scores are retrieved together. Queries without a right answer are left
    out; if there is no other the value is NaN, with a warning. Musgrave et al. 2020, A Metric Learning
    Reality Check, arXiv:2003.08505.

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
    """MAP@R of samples searching each other, as `map_at_r`.

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
