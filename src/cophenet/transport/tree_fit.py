"""Edge lengths of an augmented label tree fitted to sample distances, by non-negative least squares.

An edge of the tree splits the samples in two, and the tree distance of two samples is the sum of
the edges that separate them. Edges with the same split cannot be distinguished (single-child
chains, the two edges below a root with two children, a class of one sample and that sample), so the fit
is over distinct splits: one per sample and the columns of `label_splits`. Those are linearly
independent, hence the fit is unique.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cophenet.transport.batch import is_host

if TYPE_CHECKING:
    from cophenet.tree import Hierarchy

__all__ = ["TreeFit", "fit_edges", "label_splits"]

_MAX_PIVOTS = 1000
# Pivots of all infeasible variables at once that may fail to help before single variables are pivoted.
_PATIENCE = 3
# Pivots on an accelerator, where convergence is not read; five were enough in the hardest cases tried.
_BLIND_PIVOTS = 16
_TOLERANCE = 1e-10


def label_splits(
    tree: Hierarchy, classes: NDArray[np.int64], counts: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Distinct splits of the samples by the edges of the label tree, except splits of a single sample.

    Args:
        tree: The label tree.
        classes: (k,) labels present.
        counts: (k,) samples of every class.

    Returns:
        (k, E) 1 where a class is on the first side of a split, else 0.

    Example:
        >>> from cophenet.tree import Hierarchy
        >>> tree = Hierarchy.from_paths(["a/x", "a/y", "b/z", "b/w"], sep="/")
        >>> label_splits(tree, np.array([0, 1, 2]), np.array([2, 2, 2]))
        array([[1., 1., 0.],
               [0., 1., 1.],
               [0., 0., 0.]])
    """
    leaves = tree.leaves[classes]
    order = np.argsort(leaves)
    nodes = np.arange(len(tree.parents))
    # Nodes are numbered depth first: the classes below a node are a run of the ordered leaves.
    start = np.searchsorted(leaves[order], nodes)
    end = np.searchsorted(leaves[order], nodes + tree.sizes)
    # Represented by the side without the last class, every split is unique.
    at_end = (end == len(leaves)) & (start > 0)
    start, end = np.where(at_end, 0, start), np.where(at_end, start, end)
    runs = np.unique(np.stack((start, end), axis=1)[end > start], axis=0)
    place = np.argsort(order)[:, None]
    member = (runs[:, 0] <= place) & (place < runs[:, 1])
    size = counts @ member
    return member[:, (size > 1) & (size < counts.sum() - 1)].astype(np.float64)


@dataclass(frozen=True, eq=False)
class TreeFit:
    """The normal equations of the fit to all sample pairs, from counts alone: no design matrix.

    Attributes:
        segments: (B,) class of every sample.
        counts: (k,) samples of every class.
        shared: (k, E) how many of the pairs that contain a given sample of a class are separated by an edge.
        both: (E, E) how many pairs are separated by both of two edges.
    """

    segments: Tensor
    counts: Tensor
    shared: Tensor
    both: Tensor

    @classmethod
    def of(cls, segments: Tensor, counts: Tensor, member: Tensor) -> TreeFit:
        """Count separated pairs for splits (k, E) of classes of the given sizes (k,)."""
        total, size = counts.sum(), counts @ member
        overlap = (member * counts[:, None]).T @ member
        outside = total - size[:, None] - size[None, :] + overlap
        both = overlap * outside + (size[:, None] - overlap) * (size[None, :] - overlap)
        return cls(segments, counts, size + member * (total - 2 * size), both)

    def class_sums(self, values: Tensor) -> Tensor:
        """(B,) -> (k,)."""
        return torch.zeros_like(self.counts).index_add(0, self.segments, values)

    def solve(self, rows: Tensor, cuts: Tensor, samples: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
        """Least squares over the free variables, the others being 0; differentiable.

        The sample edges are eliminated by hand, the label edges (E) by one linear system.

        Args:
            rows: (B,) right-hand side of the sample edges: the distances of a sample, summed.
            cuts: (E,) right-hand side of the label edges: the distances an edge separates, summed.
            samples: (B,) 1 for free sample edges, else 0.
            edges: (E,) 1 for free label edges, else 0.

        Returns:
            (B,) lengths of the free sample edges; for the others a value <= 0 if length 0 is optimal.
            (E,) lengths of the label edges.
        """
        diagonal = len(rows) - 2
        free, sums = self.class_sums(samples), self.class_sums(samples * rows)
        spread = self.shared.T @ free
        scale = 1 / (diagonal * (diagonal + free.sum()))
        system = self.both - (self.shared * free[:, None]).T @ self.shared / diagonal
        system = (system + spread[:, None] * spread * scale) * edges[:, None] * edges
        right = (cuts - self.shared.T @ sums / diagonal + spread * sums.sum() * scale) * edges
        lengths = torch.linalg.solve_ex(system + torch.diag(1 - edges), right)[0]
        mean = (sums.sum() - spread @ lengths) / (diagonal + free.sum())
        return (rows - mean - (self.shared @ lengths)[self.segments]) / diagonal, lengths

    def slack(self, cuts: Tensor, samples: Tensor, lengths: Tensor) -> Tensor:
        """(E,) gradient of half the squared error by the label edges, per separated pair."""
        gradient = self.both @ lengths + self.shared.T @ self.class_sums(samples) - cuts
        return gradient / self.both.diagonal()


def _wrong(fit: TreeFit, rows: Tensor, cuts: Tensor, free: Tensor) -> Tensor:
    """(B + E,) which edges violate optimality: free and negative, or 0 although longer would fit better."""
    samples, edges = free[: len(rows)], free[len(rows) :]
    sample, label = fit.solve(rows, cuts, samples, edges)
    slack = fit.slack(cuts, sample * samples, label)
    own = torch.cat((sample, torch.where(edges > 0, label, -slack)))
    tolerance = _TOLERANCE * rows.abs().mean() / len(rows)
    return torch.where(free > 0, own < -tolerance, own > tolerance)


def _free_variables(fit: TreeFit, rows: Tensor, cuts: Tensor) -> Tensor:
    """(B + E,) which edges are not 0 in the fit: block principal pivoting (Kim and Park 2011)."""
    free = rows.new_ones(len(rows) + len(cuts))
    if not is_host(rows):
        # Reading whether it has converged would need a transfer.
        for _ in range(_BLIND_PIVOTS):
            free = torch.where(_wrong(fit, rows, cuts, free), 1 - free, free)
        return free
    fewest, patience = len(free) + 1, _PATIENCE
    for _ in range(_MAX_PIVOTS):
        wrong = _wrong(fit, rows, cuts, free)
        count = int(wrong.sum())
        if not count:
            return free
        patience = _PATIENCE if count < fewest else patience - 1
        fewest = min(count, fewest)
        if patience < 0:  # single pivots cannot cycle
            wrong[: int(wrong.nonzero()[-1])] = False
        free = torch.where(wrong, 1 - free, free)
    warnings.warn(f"the tree fit did not settle in {_MAX_PIVOTS} pivots", RuntimeWarning, stacklevel=2)
    return free


def fit_edges(fit: TreeFit, rows: Tensor, cuts: Tensor) -> tuple[Tensor, Tensor]:
    """Non-negative least squares over all edges; for a fixed set of free edges linear in its inputs.

    Args:
        fit: The normal equations of at least three samples, on the device of the distances.
        rows: (B,) float64 right-hand side of the sample edges.
        cuts: (E,) float64 right-hand side of the label edges.

    Returns:
        (B,) and (E,) lengths, differentiable in `rows` and `cuts`.

    Example:
        Three samples of three classes in a star: the lengths are exact.

        >>> one = torch.ones(3, dtype=torch.float64)
        >>> fit = TreeFit.of(torch.arange(3), one, one.new_zeros(3, 0))
        >>> fit_edges(fit, rows=torch.tensor([7.0, 8.0, 9.0]).double(), cuts=one.new_zeros(0))[0]
        tensor([1., 2., 3.], dtype=torch.float64)
    """
    free = _free_variables(fit, rows.detach(), cuts.detach())
    samples, edges = free[: len(rows)], free[len(rows) :]
    sample, label = fit.solve(rows, cuts, samples, edges)
    # A free edge may be negative by rounding.
    return (sample * samples).clamp(min=0), label.clamp(min=0)
