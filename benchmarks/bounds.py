"""What bounds a step: a distance's forward and backward pass beside its largest parts, each measured alone.

Parts are the package's own functions on the batch of the step, and products of the same sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import repeat
from typing import Any

import numpy as np
import torch
from torch import Tensor

from against_peers import WIDTH, flat_tree, our_step
from cophenet.transport import bures, differences, emd, flowtree, plan, swd, twd
from cophenet.transport.batch import ClassBatch
from cophenet.transport.blocks import Strip, pair_strips
from cophenet.transport.grouping import group_by_class
from cophenet.transport.quadtree import quadtree_cells
from cophenet.transport.solvers import dispatch
from cophenet.transport.solvers.entropic import entropic_plan
from cophenet.transport.solvers.problem import PairProblems
from cophenet.transport.tree_fit import TreeFit, fit_edges, label_splits
from timing import best_ms, show_ms

Parts = dict[str, Callable[[], object]]
_ROUNDS = 15


def _pull(z: Tensor) -> Parts:
    square = torch.randn(len(z), len(z), dtype=z.dtype)
    return {"the product for gradients": partial(torch.mm, square, z)}


def _along(z: Tensor, planned: plan.TransportPlan) -> Parts:
    """What moves the samples of planned pairs."""
    sides = z, planned.source, planned.target
    name = f"forces along {len(planned.mass):,} planned pairs"
    return {name: partial(differences.pull_pairs, torch.zeros_like(z), *sides, planned.mass)}


def _lengths(z: Tensor, planned: plan.TransportPlan) -> Parts:
    sides = z, planned.source, planned.target
    return {"lengths of planned pairs": partial(differences.lengths_of_pairs, *sides), **_along(z, planned)}


def of_fastft(batch: ClassBatch) -> Parts:
    """The plan, the lengths of its pairs, and forces along them."""
    planned = plan.uniform_plan(batch)
    return {"the plan": partial(plan.uniform_plan, batch), **_lengths(batch.features, planned)}


def of_emd(batch: ClassBatch) -> Parts:
    """A product for distances, the linear programs, and forces along planned pairs."""
    z, pairs = batch.features, (batch.first, batch.second)
    problems = PairProblems.empty(batch.offsets, *pairs, None, np.dtype(np.float32))
    strips = list(emd._strips(z, problems))

    def solve() -> None:
        for strip, own in strips:
            dispatch.solve(problems, strip, own, None)

    return {
        "distances above the diagonal": lambda: list(emd._strips(z, problems)),
        f"{batch.num_pairs:,} linear programs": solve,
        **_along(z, emd.EMD().plan(batch)),
    }


def of_ft(batch: ClassBatch) -> Parts:
    """The QuadTree, the matching on it, lengths of matched pairs and forces along them."""
    z, shift = batch.features, torch.rand(WIDTH, dtype=torch.float64).numpy()
    points = z.double().numpy()
    cells, units = quadtree_cells(points, shift), flowtree.whole_units(batch, None)
    return {
        **_lengths(z, flowtree.FlowTree().plan(batch)),
        "the QuadTree": partial(quadtree_cells, points, shift),
        f"matching in {len(cells)} levels": partial(flowtree.match_by_kernel, batch, cells, units),
    }


def of_swd(batch: ClassBatch) -> Parts:
    """Projections, sorting, the plan, and the passes over planned pairs."""
    directions = swd.SlicedWasserstein().draw(WIDTH)
    scores = swd._Projected.apply(batch.features, directions)  # type: ignore[no-untyped-call]
    narrow = plan.uniform_plan(batch)
    exact = replace(narrow, mass=narrow.mass.double())
    x = scores.contiguous().requires_grad_()

    def passes() -> None:
        cost = swd._SlicedCost.apply(x, exact, 2.0)  # type: ignore[no-untyped-call]
        torch.autograd.grad(cost.sum(), x)

    return {
        f"{len(scores)} passes over {len(exact.mass):,} planned pairs, forward and back": passes,
        "sorting": partial(batch.sort_within_classes, scores),
        "the plan": partial(plan.uniform_plan, batch),
    }


def of_twd(batch: ClassBatch) -> Parts:
    """All distances with their sums, what they pull, and the fit of the tree to them."""
    z, ones = batch.features, torch.ones(len(batch.given), dtype=torch.float64)
    tree = flat_tree(int(batch.classes[-1]) + 1)
    member = torch.from_numpy(label_splits(tree, batch.classes, batch.counts))
    fit = TreeFit.of(batch.segments, torch.from_numpy(batch.counts).double(), member)
    sums = twd.distance_sums(batch, ones)
    cuts = ((batch.class_sums(sums) @ (1 - member)) * member).sum(0)
    return {
        "all distances, by a product, rooted, checked and summed by class": partial(
            twd.distance_sums, batch, ones
        ),
        **_pull(z),
        f"the fit of {len(cuts)} edges": partial(fit_edges, fit, sums.sum(1), cuts),
    }


def of_sinkhorn(batch: ClassBatch) -> Parts:
    """Products for distances and gradients, the iterations, and cutting all distances into those of pairs."""
    z = batch.features
    strips = list(pair_strips(batch))
    sides = [(z[strip.rows.rows], z[strip.columns.rows]) for strip in strips]
    tables = [torch.cdist(a, b) for a, b in sides]
    costs = [strip.take(table) for strip, table in zip(strips, tables, strict=True)]
    reg = [torch.full((len(cost),), 10.0, dtype=torch.float64) for cost in costs]

    def iterations() -> None:
        for strip, cost, one in zip(strips, costs, reg, strict=True):
            entropic_plan(cost, strip.row_mass, strip.column_mass, one, 1e-6, 1000)

    return {
        "products for distances": lambda: [a @ b.T for a, b in sides],
        "products for gradients": partial(_both_ways, strips, tables, sides),
        f"iterations for {batch.num_pairs:,} plans": iterations,
        "distances of pairs cut out and laid back": lambda: [
            strip.put(strip.take(table)) for strip, table in zip(strips, tables, strict=True)
        ],
    }


def _both_ways(strips: list[Strip], tables: list[Tensor], sides: list[tuple[Tensor, Tensor]]) -> None:
    """Products of strips that give the gradients of their rows and, if these are others, of their columns."""
    for strip, table, (a, b) in zip(strips, tables, sides, strict=True):
        torch.mm(table, b)
        if strip.rows is not strip.columns:
            torch.mm(table.T, a)


def of_bures(batch: ClassBatch) -> Parts:
    """Products in float64 and eigendecompositions of the matrices of all pairs."""
    rows, roots = batch.features.double(), batch.exact_mass.sqrt()
    fewer = bures._Reflections.of(batch, roots)
    z = fewer.apply(rows * roots[:, None])
    strips = list(pair_strips(replace(batch, given=z, counts=fewer.counts, weights=None)))
    sides = [(z[strip.rows.rows], z[strip.columns.rows]) for strip in strips]
    grams = [a @ b.T for a, b in sides]
    blocks = [strip.take(gram) * strip.filled for strip, gram in zip(strips, grams, strict=True)]
    squares = [block @ block.mT for block in blocks]

    sizes = sorted(square.shape[1] for square in squares)
    return {
        "products for matrices in float64": lambda: [a @ b.T for a, b in sides],
        "products for gradients in float64": partial(_both_ways, strips, grams, sides),
        f"{batch.num_pairs:,} eigendecompositions of {sizes[0]} to {sizes[-1]} rows": partial(
            bures._eigenvectors, squares
        ),
    }


PARTS: dict[str, Callable[[ClassBatch], Parts]] = {
    "fastft": of_fastft,
    "emd": of_emd,
    "twd": of_twd,
    "ft": of_ft,
    "swd": of_swd,
    "sinkhorn": of_sinkhorn,
    "bures": of_bures,
}


def measure(distance: str, size: int, classes: int) -> dict[str, Any]:
    """Milliseconds of a step, forward and backward, and of its parts, taking turns."""
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(size, WIDTH, generator=generator, requires_grad=True)
    labels = torch.randint(0, classes, (size,), generator=generator)
    parts = PARTS[distance](group_by_class(features.detach(), labels))
    step = our_step(distance, features, repeat(labels), flat_tree(classes))
    times = best_ms({"step": step, **parts}, _ROUNDS)
    return {"step": times.pop("step"), "parts": times}


def lines(distances: dict[str, dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Header and rows of the table, the largest part first."""
    rows = []
    for distance, found in distances.items():
        parts = sorted(found["parts"].items(), key=lambda part: -part[1])
        together = 100 * sum(found["parts"].values()) / found["step"]
        named = "; ".join(f"{name}, {show_ms(ms)}" for name, ms in parts)
        rows.append([distance, show_ms(found["step"]), named, f"{together:.0f} %"])
    return ["distance", "step", "its largest parts, each alone", "together"], rows
