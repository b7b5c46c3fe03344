"""Decisions that minimize the expected cost of mistakes (conditional risk minimization, CRM)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from cophenet._common.checks import check_choice
from cophenet._common.lazy import torch
from cophenet.metrics._base import SumMetric
from cophenet.metrics._blocks import full_precision, product, row_blocks
from cophenet.metrics._checks import check_probabilities, check_scores, ratio
from cophenet.tree.lookup_tables import TreeTables, add_columns, tree_tables

if TYPE_CHECKING:
    from torch import Tensor

    from cophenet.tree import Hierarchy

__all__ = ["DecisionCost", "decision_cost", "expected_cost"]

Kind = Literal["lca-height", "path"]
KINDS = ("lca-height", "path")


def _node_costs(tree: Hierarchy, tables: TreeTables, kind: Kind) -> tuple[Tensor, Tensor]:
    """(nodes,) u and (C,) v such that cost(j, k) = v_j + v_k + u(lowest common ancestor of j and k)."""
    if kind == "lca-height":
        return tables.heights.double(), torch.zeros_like(tables.leaves, dtype=torch.float64)
    depths = torch.tensor(tree.weighted_depths, device=tables.depths.device)
    return -2 * depths, depths[tables.leaves]


def _block_costs(probabilities: Tensor, tables: TreeTables, nodes: Tensor, classes: Tensor) -> Tensor:
    """Expected cost of every class, by one pass up the tree and one down. (n, C) -> (n, C).

    The lowest common ancestor is a with probability P(a) - P(child of a on the path to the class), so the
    expected cost is u(root) P(root) + sum over the other nodes a on the path of P(a) (u(a) - u(parent)).
    """
    way = list(tables.lifts())
    masses = [probabilities]
    for _, place in way:
        masses.append(add_columns(masses[-1], place))
    total = masses.pop()
    costs = total * nodes[0]
    down = zip(reversed(way), reversed(masses), strict=True)
    for depth, ((at, place), mass) in enumerate(down, start=1):
        # A class above this level repeats in deeper levels; its term was added at its own depth.
        steps = torch.where(tables.depths[at] == depth, nodes[at] - nodes[tables.parents[at]], 0.0)
        costs = costs.index_select(1, place).addcmul_(mass, steps.to(mass))
    base = product(probabilities, classes.to(probabilities))
    return costs.add_(base[:, None]).addcmul_(total, classes.to(total))


def expected_cost(probabilities: Tensor, tree: Hierarchy, kind: Kind = "lca-height") -> Tensor:
    r"""Expected cost of predicting each class.

    .. math::

        R(k) = \sum_j p_j \, \mathrm{cost}(j, k)

    Computed from sums over the nodes of the tree, O(nodes) per sample, without the full cost matrix. The
    least-cost decision, conditional risk minimization (CRM), is `expected_cost(p, tree).argmin(1)`; the
    negative cost can be used as a score in the other metrics. Karthik et al. 2021, No Cost Likelihood
    Manipulation at Test Time, arXiv:2104.00795.

    Args:
        probabilities: (N, C), at least 0, rows summing to 1.
        tree: The label tree.
        kind: "lca-height", the height of the lowest common ancestor in edges; or "path", the weighted path.

    Returns:
        (N, C), float64 for float64 probabilities, else float32.

    Raises:
        ValueError: If an argument has a wrong shape, type or value.

    Example:
        >>> from cophenet import Hierarchy
        >>> tree = Hierarchy.from_paths(["pet/cat", "pet/dog", "car/bus"], sep="/")
        >>> p = torch.tensor([[0.35, 0.25, 0.4]])
        >>> expected_cost(p, tree)
        tensor([[1.0500, 1.1500, 1.2000]])
        >>> p.argmax(1).item(), expected_cost(p, tree).argmin(1).item()
        (2, 0)
    """
    check_choice("kind", kind, KINDS)
    check_probabilities(probabilities, tree)
    values = full_precision(probabilities)
    tables = tree_tables(tree, values.device)
    nodes, classes = _node_costs(tree, tables, kind)
    costs = torch.empty_like(values)
    for rows in row_blocks(len(values), tables.width):
        costs[rows] = _block_costs(values[rows], tables, nodes, classes)
    return costs


def _decision_update(
    probabilities: Tensor, labels: Tensor, tree: Hierarchy, kind: Kind
) -> tuple[Tensor, int]:
    """Sum over samples of the cost of the least-cost decision, and the number of samples."""
    check_probabilities(probabilities, tree)
    labels = check_scores(probabilities, labels, tree)
    tables = tree_tables(tree, labels.device)
    nodes, classes = _node_costs(tree, tables, kind)
    total = torch.zeros((), dtype=torch.float64, device=labels.device)
    for rows in row_blocks(len(labels), tables.width):
        decided = expected_cost(probabilities[rows], tree, kind).argmin(1)
        shared = tables.class_ancestors(labels[rows], decided)
        total += (nodes[shared] + classes[labels[rows]] + classes[decided]).sum()
    return total, len(labels)


def decision_cost(
    probabilities: Tensor, labels: Tensor, tree: Hierarchy, kind: Kind = "lca-height"
) -> Tensor:
    r"""Mean cost if every sample is assigned the class of least expected cost (CRM).

    .. math::

        \frac{1}{N} \sum_i \mathrm{cost}\left(y_i, \operatorname{argmin}_k R_i(k)\right)

    R_i is the expected cost of sample i, as `expected_cost` computes it.

    Without samples the value is NaN, with a warning. Karthik et al. 2021, arXiv:2104.00795.

    Args:
        probabilities: (N, C), at least 0, rows summing to 1.
        labels: (N,) classes.
        tree: The label tree.
        kind: The cost, as for `expected_cost`: "lca-height" or "path".

    Returns:
        A float64 scalar, at least 0.

    Raises:
        ValueError: If an argument has a wrong shape, type or value.

    Example:
        >>> from cophenet import Hierarchy
        >>> tree = Hierarchy.from_paths(["pet/cat", "pet/dog", "car/bus"], sep="/")
        >>> decision_cost(torch.tensor([[0.35, 0.25, 0.4]]), torch.tensor([1]), tree).item()
        1.0
    """
    check_choice("kind", kind, KINDS)
    return ratio(*_decision_update(probabilities, labels, tree, kind), DecisionCost.quantity)


class DecisionCost(SumMetric):
    r"""Mean cost of the least-expected-cost decisions, as `decision_cost`.

    .. math::

        \frac{1}{N} \sum_i \mathrm{cost}\left(y_i, \operatorname{argmin}_k R_i(k)\right),
        \qquad R_i(k) = \sum_j p_{ij} \, \mathrm{cost}(j, k)

    Karthik et al. 2021, arXiv:2104.00795.

    Args:
        tree: The label tree.
        kind: "lca-height" or "path".
        **kwargs: Options of `torchmetrics.Metric`.

    Example:
        >>> from cophenet import Hierarchy
        >>> from cophenet.metrics import DecisionCost
        >>> tree = Hierarchy.from_paths(["pet/cat", "pet/dog", "car/bus"], sep="/")
        >>> metric = DecisionCost(tree)
        >>> metric(torch.tensor([[0.35, 0.25, 0.4]]), torch.tensor([1])).item()
        1.0
    """

    higher_is_better = False
    quantity = "decision cost"

    def __init__(self, tree: Hierarchy, kind: Kind = "lca-height", **kwargs: Any) -> None:
        super().__init__(tree, **kwargs)
        check_choice("kind", kind, KINDS)
        self.kind = kind

    def update(self, probabilities: Tensor, labels: Tensor) -> None:
        """Add a batch: probabilities (B, C) and labels (B,)."""
        self.add(*_decision_update(probabilities, labels, self.tree, self.kind))
