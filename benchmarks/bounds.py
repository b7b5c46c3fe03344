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
from cophenet.transport import bures, emd, flowtree, ground, plan, swd, twd
from cophenet.transport.batch import ClassBatch
from cophenet.transport.blocks import pair_strips
from cophenet.transport.grouping import group_by_class
from cophenet.transport.quadtree import quadtree_cells
from cophenet.transport.solvers import dispatch, host_loops
from cophenet.transport.solvers.problem import PairProblems
from cophenet.transport.tree_fit import TreeFit, fit_edges, label_splits
from timing import best_ms, show_ms

Parts = dict[str, Callable[[], object]]
_ROUNDS = 15


def _pull(z: Tensor) -> Parts:
    square = torch.randn(len(z), len(z), dtype=z.dtype)
    return {"the product for gradients": partial(torch.mm, square, z)}


def _gram(z: Tensor) -> Parts:
    return {"the product for distances, above the diagonal": partial(ground._products, z), **_pull(z)}


def of_fastft(batch: ClassBatch) -> Parts:
    """Two products, and the loop that plans and computes lengths and costs."""
    z = batch.given
    arguments = batch.rows.order, batch.counts, batch.first, batch.second, np.float32(ground.CANCELS)
    table = (z @ z.T).numpy()
    return {**_gram(z), "plan, lengths and costs": partial(host_loops.greedy_costs, table, *arguments)}


def of_emd(batch: ClassBatch) -> Parts:
    """Two products, and the linear programs."""
    z, pairs = batch.features, (batch.first, batch.second)
    problems = PairProblems.empty(batch.offsets, *pairs, None, np.dtype(np.float32))
    strips = list(emd._strips(z, problems))

    def solve() -> None:
        for strip, own in strips:
            dispatch.solve(problems, strip, own, None)

    return {
        "distances above the diagonal": lambda: list(emd._strips(z, problems)),
        **_pull(z),
        f"{batch.num_pairs:,} linear programs": solve,
    }


def of_ft(batch: ClassBatch) -> Parts:
    """Two products, the QuadTree and the matching on it."""
    z, shift = batch.features, torch.rand(WIDTH, dtype=torch.float64).numpy()
    points = z.double().numpy()
    cells, units = quadtree_cells(points, shift), flowtree.whole_units(batch, None)
    return {
        **_gram(z),
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

    def back() -> None:
        for strip, gram, (a, b) in zip(strips, grams, sides, strict=True):
            torch.mm(gram, b)
            if strip.rows is not strip.columns:
                torch.mm(gram.T, a)

    sizes = sorted(square.shape[1] for square in squares)
    return {
        "products for matrices in float64": lambda: [a @ b.T for a, b in sides],
        "products for gradients in float64": back,
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
