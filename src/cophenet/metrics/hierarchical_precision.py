"""Hierarchical precision of retrieval: HP@k and its average AHP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from cophenet._common.checks import check_choice
from cophenet._common.lazy import torch
from cophenet.metrics._base import SampleMetric
from cophenet.metrics._blocks import row_blocks
from cophenet.metrics._checks import check_k, check_tree, ratio
from cophenet.metrics.retrieval import Gallery, Search, make_search
from cophenet.tree.lookup_tables import TreeTables, tree_tables

if TYPE_CHECKING:
    from torch import Tensor

    from cophenet.tree import Hierarchy

__all__ = [
    "AverageHierarchicalPrecision",
    "HierarchicalPrecisionAtK",
    "average_hierarchical_precision",
    "hierarchical_precision_at_k",
]

Similarity = Literal["lca-height", "wu-palmer"]


def _class_similarity(one: Tensor, other: Tensor, tables: TreeTables, kind: Similarity) -> Tensor:
    """Similarity in [0, 1] of pairs of classes, 1 only for a class and itself."""
    shared = tables.class_ancestors(one, other)
    if kind == "lca-height":
        return 1 - tables.heights[shared].double() / tables.heights[0]
    own, its = (tables.depths[tables.leaves[classes]] + 1 for classes in (one, other))
    return 2 * (tables.depths[shared] + 1).double() / (own + its)


def _best_sums(
    labels: Tensor, counts: Tensor, size: int, itself: int, tables: TreeTables, kind: Similarity
) -> Tensor:
    """Sums of similarities along the best possible ranking, for each query class. (n,), (C,) -> (n, size)."""
    everyone = torch.arange(len(counts), device=labels.device)
    ordered, by_similarity = _class_similarity(labels[:, None], everyone, tables, kind).sort(
        1, descending=True
    )
    available = counts.expand(len(labels), -1).clone()
    available[torch.arange(len(labels), device=labels.device), labels] -= itself
    ends = available.gather(1, by_similarity).cumsum(1)
    ranks = torch.arange(size, device=labels.device).expand(len(labels), -1).contiguous()
    return ordered.gather(1, torch.searchsorted(ends, ranks, right=True)).cumsum(1)


def precision_curve(
    ranked: Tensor, labels: Tensor, counts: Tensor, itself: int, tree: Hierarchy, kind: Similarity
) -> Tensor:
    """Hierarchical precision at every rank: summed similarity of the results over the largest possible sum.

    Args:
        ranked: (n, K) classes of the results, best first.
        labels: (n,) classes of the queries.
        counts: (C,) samples of each class in the gallery.
        itself: 1 if the counts include the query itself, which is never a result, else 0.
        tree: The label tree.
        kind: Similarity of two classes.

    Returns:
        (n, K), 1 where the gallery has nothing similar.
    """
    tables = tree_tables(tree, labels.device)
    reached = _class_similarity(labels[:, None], ranked, tables, kind).cumsum(1)
    classes, place = torch.unique(labels, return_inverse=True)
    best = [
        _best_sums(classes[rows], counts, ranked.shape[1], itself, tables, kind)
        for rows in row_blocks(len(classes), 8 * tree.num_classes)
    ]
    most = torch.cat(best)[place]
    return torch.where(most > 0, reached / most, torch.ones_like(most))


def _check_precision_options(tree: Hierarchy, k: int | None, similarity: str, average: bool) -> None:
    """Raise if an option is invalid; `k` is compared with the size of the gallery later, when it is known."""
    check_tree(tree)
    check_choice("similarity", similarity, ("lca-height", "wu-palmer"))
    if k is not None or not average:
        check_k("k", k, 2**31, 1 + average)


def _precision_compute(
    search: Search, tree: Hierarchy, k: int | None, similarity: Similarity, average: bool
) -> Tensor:
    """HP@k, or its average up to k, over all queries."""
    name = "AHP" if average else "HP@k"
    total = torch.zeros((), dtype=torch.float64, device=search.labels.device)
    if not len(search.labels) or not search.gallery_size:
        return ratio(total, 0, name, "there is no query or nothing to find")
    size = search.gallery_size if k is None else k
    check_k("k", size, search.gallery_size, 1 + average)
    counts = torch.bincount(search.answer_labels, minlength=tree.num_classes)
    for chosen, cosines in search.cosines(search.labels.argsort(), 8 * size):
        ranked = search.answer_labels[cosines.topk(size, dim=1).indices]
        curve = precision_curve(ranked, search.labels[chosen], counts, search.itself, tree, similarity)
        total += torch.trapezoid(curve).sum() / size if average else curve[:, -1].sum()
    return ratio(total, len(search.labels), name)


def hierarchical_precision_at_k(
    features: Tensor,
    labels: Tensor,
    tree: Hierarchy,
    k: int,
    similarity: Similarity = "lca-height",
    gallery: Gallery | None = None,
) -> Tensor:
    r"""HP@k: summed similarity of the k nearest samples to the query's class, over the largest possible sum.

    .. math::

        \mathrm{HP@}k = \frac{1}{Q} \sum_q
        \frac{\sum_{i=1}^k s(y_q, y_i)}{\text{the largest such sum}}

    Samples are ranked by cosine, ties in any order. If the gallery has nothing similar to the query, every
    ranking is optimal and the value is 1. Without queries or with an empty gallery it is NaN, with a
    warning. Deng, Berg and Fei-Fei 2011, Hierarchical Semantic Indexing for Large Scale Image Retrieval;
    Barz and Denzler 2019, arXiv:1809.09924, with the similarity "lca-height". "wu-palmer": Wu and Palmer
    1994, doi:10.3115/981732.981751.

    Args:
        features: (N, d).
        labels: (N,) classes.
        tree: The label tree.
        k: How many samples to retrieve, at most the size of the gallery.
        similarity: Similarity of two classes: "lca-height", one minus the height of the lowest common
            ancestor over the height of the root; or "wu-palmer", as in `tree.distances`.
        gallery: Features (M, d) and labels (M,) to search in; None for all other samples.

    Returns:
        A float64 scalar in [0, 1].

    Raises:
        ValueError: If an argument has a wrong shape, type or value.

    Example:
        >>> from cophenet import Hierarchy
        >>> tree = Hierarchy.from_paths(["pet/cat", "pet/dog", "car/bus"], sep="/")
        >>> features = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.6, 0.5]])
        >>> hierarchical_precision_at_k(features, torch.tensor([0, 0, 2, 1]), tree, k=1).item()
        1.0
    """
    _check_precision_options(tree, k, similarity, average=False)
    search = make_search(features, labels, gallery, tree.num_classes)
    return _precision_compute(search, tree, k, similarity, average=False)


def average_hierarchical_precision(
    features: Tensor,
    labels: Tensor,
    tree: Hierarchy,
    k: int | None = None,
    similarity: Similarity = "lca-height",
    gallery: Gallery | None = None,
) -> Tensor:
    r"""AHP: the area under hierarchical precision at 1 to k, as a trapezoid sum with step 1 / k.

    .. math::

        \mathrm{AHP@}k = \frac{1}{k} \sum_{i=1}^{k-1} \frac{\mathrm{HP@}i + \mathrm{HP@}(i+1)}{2}

    A perfect ranking scores (k - 1) / k. Ties and undefined values as for `hierarchical_precision_at_k`.
    Barz and Denzler 2019, arXiv:1809.09924.

    Args:
        features: (N, d).
        labels: (N,) classes.
        tree: The label tree.
        k: The last rank, from 2 to the size of the gallery; None for all of it.
        similarity: "lca-height" or "wu-palmer".
        gallery: Features (M, d) and labels (M,) to search in; None for all other samples.

    Returns:
        A float64 scalar in [0, 1).

    Raises:
        ValueError: If an argument has a wrong shape, type or value.

    Example:
        >>> from cophenet import Hierarchy
        >>> tree = Hierarchy.from_paths(["pet/cat", "pet/dog", "car/bus"], sep="/")
        >>> features = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.6, 0.5]])
        >>> average_hierarchical_precision(features, torch.tensor([0, 0, 2, 1]), tree, k=2).item()
        0.5
    """
    _check_precision_options(tree, k, similarity, average=True)
    search = make_search(features, labels, gallery, tree.num_classes)
    return _precision_compute(search, tree, k, similarity, average=True)


class _PrecisionMetric(SampleMetric):
    """HP@k with every sample as a query for the others, or its average up to k."""

    higher_is_better = True
    average: bool

    def __init__(
        self, tree: Hierarchy, k: int | None, similarity: Similarity = "lca-height", **kwargs: Any
    ) -> None:
        _check_precision_options(tree, k, similarity, self.average)
        super().__init__(tree.num_classes, **kwargs)
        self.tree, self.k, self.similarity = tree, k, similarity

    def compute(self) -> Tensor:
        """A scalar in [0, 1], below 1 for the average."""
        search = make_search(*self.collected(), None, self.num_classes)
        return _precision_compute(search, self.tree, self.k, self.similarity, self.average)


class HierarchicalPrecisionAtK(_PrecisionMetric):
    r"""HP@k with every sample as a query for the others, as `hierarchical_precision_at_k`.

    .. math::

        \mathrm{HP@}k = \frac{1}{Q} \sum_q
        \frac{\sum_{i=1}^k s(y_q, y_i)}{\text{the largest such sum}}

    Barz and Denzler 2019, arXiv:1809.09924.

    Args:
        tree: The label tree.
        k: How many samples to retrieve, less than the number of samples.
        similarity: "lca-height" or "wu-palmer".
        **kwargs: Options of `torchmetrics.Metric`.

    Example:
        >>> from cophenet import Hierarchy
        >>> from cophenet.metrics import HierarchicalPrecisionAtK
        >>> tree = Hierarchy.from_paths(["pet/cat", "pet/dog", "car/bus"], sep="/")
        >>> metric = HierarchicalPrecisionAtK(tree, k=1)
        >>> features = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.6, 0.5]])
        >>> metric(features, torch.tensor([0, 0, 2, 1])).item()
        1.0
    """

    average = False


class AverageHierarchicalPrecision(_PrecisionMetric):
    r"""AHP with every sample as a query for the others, as `average_hierarchical_precision`.

    .. math::

        \mathrm{AHP@}k = \frac{1}{k} \sum_{i=1}^{k-1} \frac{\mathrm{HP@}i + \mathrm{HP@}(i+1)}{2}

    Barz and Denzler 2019, arXiv:1809.09924.

    Args:
        tree: The label tree.
        k: The last rank, at least 2 and less than the number of samples; None for all.
        similarity: "lca-height" or "wu-palmer".
        **kwargs: Options of `torchmetrics.Metric`.

    Example:
        >>> from cophenet import Hierarchy
        >>> from cophenet.metrics import AverageHierarchicalPrecision
        >>> tree = Hierarchy.from_paths(["pet/cat", "pet/dog", "car/bus"], sep="/")
        >>> metric = AverageHierarchicalPrecision(tree, k=2)
        >>> features = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.6, 0.5]])
        >>> metric(features, torch.tensor([0, 0, 2, 1])).item()
        0.5
    """

    average = True

    def __init__(
        self, tree: Hierarchy, k: int | None = None, similarity: Similarity = "lca-height", **kwargs: Any
    ) -> None:
        super().__init__(tree, k, similarity, **kwargs)
