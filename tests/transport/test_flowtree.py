"""FlowTree: against a slow recursive QuadTree, invariants, gradients, seeds."""

import copy
import itertools
from dataclasses import replace

import numpy as np
import ot
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cophenet.transport import flowtree
from cophenet.transport.base import create_distance
from cophenet.transport.bottom_up_flow import bottom_up_flow
from cophenet.transport.centroid import L2
from cophenet.transport.flowtree import FlowTree
from cophenet.transport.grouping import group_by_class
from cophenet.transport.quadtree import quadtree_cells
from support import DEVICE, double, pair_loop, random_batch, random_weights

SIZES = st.lists(st.integers(1, 7), min_size=2, max_size=5)
SEEDS = st.integers(0, 2**32 - 1)


def slow_quadtree(points, shift):
    """Parents of a QuadTree's nodes and the leaf of every point, made by recursion, one cell at a time."""
    low = points.min(0)
    side = 2 * np.ptp(points, axis=0).sum()
    parents, leaf = [], np.zeros(len(points), dtype=int)

    def grow(rows, corner, width, parent):
        node = len(parents)
        parents.append(parent)
        if (points[rows] == points[rows[0]]).all():
            leaf[rows] = node
            return
        upper = points[rows] >= corner + width / 2
        for part in sorted({tuple(bits) for bits in upper}):
            inside = rows[(upper == part).all(1)]
            grow(inside, corner + np.array(part) * width / 2, width / 2, node)

    grow(np.arange(len(points)), low - shift * side / 2, side, -1)
    return parents, leaf


def slow_flowtree(features, labels, weights, shift):
    z = features.cpu().numpy()
    parents, leaf = slow_quadtree(z, shift)
    out = []
    for u, v in itertools.combinations(np.unique(labels.cpu()), 2):
        rows, columns = (np.flatnonzero(labels.cpu() == c) for c in (u, v))
        a, b = (weights.cpu().numpy()[own] for own in (rows, columns))
        i, j, mass = bottom_up_flow(parents, leaf[rows], leaf[columns], a / a.sum(), b / b.sum())
        out.append((np.linalg.norm(z[rows[i]] - z[columns[j]], axis=1) * mass).sum())
    return np.array(out)


@settings(deadline=None, max_examples=40)
@given(SEEDS, SIZES, st.sampled_from([1, 2, 5, 40]), st.booleans(), st.booleans())
def test_equals_a_slow_recursive_quadtree(seed, sizes, width, weighted, repeated):
    features, labels = random_batch(seed, sizes, width)
    if repeated:
        features = features.round(decimals=0)
    weights = random_weights(seed, len(labels)) if weighted else torch.ones_like(features[:, 0])
    batch = group_by_class(features, labels, flow_weights=weights if weighted else "uniform")
    shift = torch.rand(width, generator=torch.Generator().manual_seed(0), dtype=torch.float64).numpy()
    expected = slow_flowtree(features, labels, weights, shift)
    np.testing.assert_allclose(FlowTree()(batch).cpu(), expected, rtol=1e-9, atol=1e-12)


@settings(deadline=None, max_examples=40)
@given(SEEDS, SIZES, st.sampled_from([1, 3, 40]), st.booleans(), st.booleans())
def test_the_kernel_matches_as_numpy_does(seed, sizes, width, weighted, repeated):
    pytest.importorskip("numba")
    features, labels = random_batch(seed, sizes, width)
    weights = random_weights(seed, len(labels)) if weighted else "uniform"
    batch = group_by_class(features, labels, flow_weights=weights)
    points = batch.features.cpu().numpy()
    cells = quadtree_cells(points.round(0) if repeated else points, np.full(width, 0.3))
    by_row = None if batch.weights is None else batch.weights.double().cpu().numpy()
    units = flowtree.whole_units(batch, by_row)
    for own, other in zip(
        flowtree.match_by_kernel(batch, cells, units),
        flowtree._match_by_level(batch, cells, units),
        strict=True,
    ):
        np.testing.assert_array_equal(own, other)


def test_numpy_plans_until_the_kernel_is_compiled(monkeypatch):
    features, labels = random_batch(3, [4, 1, 6], 5)
    batch = group_by_class(features, labels)
    expected = FlowTree().with_plan(batch)
    monkeypatch.setattr(flowtree.machine_code, "is_compiled_meanwhile", lambda: False)
    monkeypatch.setattr(flowtree, "match_by_kernel", None)
    cost, plan = FlowTree().with_plan(batch)
    assert torch.equal(cost, expected[0])
    assert torch.equal(plan.mass, expected[1].mass)


@settings(deadline=None, max_examples=40)
@given(SEEDS, SIZES, st.booleans())
def test_plan_has_exact_marginals_and_costs_at_least_emd(seed, sizes, weighted):
    features, labels = random_batch(seed, sizes, 3)
    weights = random_weights(seed, len(labels)) if weighted else torch.ones_like(features[:, 0])
    batch = group_by_class(features, labels, flow_weights=weights if weighted else "uniform")
    rho, plan = FlowTree().with_plan(batch)
    for p, (u, v) in enumerate(zip(batch.first, batch.second, strict=True)):
        own = slice(plan.offsets[p], plan.offsets[p + 1])
        for side, c in ((plan.source, u), (plan.target, v)):
            sent = torch.zeros_like(batch.mass).index_add(0, side[own], plan.mass[own])
            expected = torch.where(batch.segments == c, batch.mass, 0)
            torch.testing.assert_close(sent, expected, rtol=0, atol=1e-11)
        assert plan.offsets[p + 1] - plan.offsets[p] < sizes[u] + sizes[v]
    exact = pair_loop(features, labels, lambda x, y, a, b: ot.emd2(a, b, torch.cdist(x, y)), weights)
    assert (rho >= exact - 1e-9).all()
    assert (exact >= L2()(batch) - 1e-9).all()


def test_singleton_classes_are_l2_and_classes_on_one_spot_too():
    features, labels = random_batch(0, [1, 1, 1, 1])
    batch = group_by_class(features, labels)
    torch.testing.assert_close(FlowTree()(batch), L2()(batch))
    diracs = group_by_class(double([[0.0, 0.0]] * 3 + [[3.0, 4.0]] * 2), torch.tensor([0] * 3 + [1] * 2))
    torch.testing.assert_close(FlowTree()(diracs), double([5.0]))


@settings(deadline=None, max_examples=20)
@given(SEEDS, SIZES)
def test_symmetric_scales_and_relabels(seed, sizes):
    features, labels = random_batch(seed, sizes)
    rho = FlowTree()(group_by_class(features, labels))
    torch.testing.assert_close(FlowTree()(group_by_class(4 * features, labels)), 4 * rho)
    flipped = FlowTree()(group_by_class(features, -labels))
    # Labels negated list the pairs backwards, each with its sides exchanged.
    first, second = np.triu_indices(len(sizes), 1)
    square = torch.zeros(len(sizes), len(sizes), dtype=rho.dtype, device=DEVICE)
    square[first, second] = rho
    expected = square.flip(0, 1).T[first, second]
    torch.testing.assert_close(flipped, expected)


def test_chosen_pairs_get_the_values_they_have_among_all():
    batch = group_by_class(*random_batch(1, [4, 2, 5, 3]))
    some = replace(batch, first=batch.first[[4, 1]], second=batch.second[[4, 1]])
    torch.testing.assert_close(FlowTree()(some), FlowTree()(batch)[[4, 1]])


def test_finds_matching_modes_that_batch_order_misses():
    modes = torch.tensor([0.0, 10.0, 10.0, 0.0], dtype=torch.float64, device=DEVICE)[:, None]
    batch = group_by_class(modes, torch.tensor([0, 0, 1, 1], device=DEVICE))
    assert create_distance("fastft")(batch) == pytest.approx(10)
    assert FlowTree()(batch) == pytest.approx(0)


@pytest.mark.parametrize("weighted", [False, True])
def test_gradient_is_that_of_the_value(weighted):
    features, labels = random_batch(2, [3, 1, 4, 2], 3)
    weights = random_weights(2, len(labels)) if weighted else "uniform"

    def value(z):
        return FlowTree()(group_by_class(z, labels, flow_weights=weights))

    assert torch.autograd.gradcheck(value, features.requires_grad_())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_coincident_samples_cost_nothing_and_pull_nothing(dtype):
    features = torch.zeros(5, 3, dtype=dtype, device=DEVICE, requires_grad=True)
    rho = FlowTree()(group_by_class(features, torch.tensor([0, 1, 0, 1, 2], device=DEVICE)))
    rho.sum().backward()
    assert (rho == 0).all()
    assert (features.grad == 0).all()


def test_one_class_gives_no_pairs():
    features, labels = random_batch(3, [4])
    assert FlowTree()(group_by_class(features.requires_grad_(), labels)).shape == (0,)


def test_every_call_draws_its_own_tree_and_a_resumed_run_the_same_ones():
    batch = group_by_class(*random_batch(4, [30, 30, 30], 2))
    distance = FlowTree(torch.Generator().manual_seed(7))
    first = distance(batch)
    state, copied = distance.state_dict(), copy.deepcopy(distance)
    second = distance(batch)
    assert not torch.equal(first, second)
    resumed = FlowTree()
    resumed.load_state_dict(state)
    for same in (resumed, copied):
        torch.testing.assert_close(same(batch), second, rtol=0, atol=0)
    torch.testing.assert_close(
        create_distance("ft", generator=torch.Generator().manual_seed(7))(batch), first
    )


def test_quadtree_levels_nest_and_end_in_distinct_points():
    rng = np.random.default_rng(5)
    points = rng.normal(size=(40, 3)).round(1)[rng.integers(40, size=60)]
    cells = quadtree_cells(points, rng.random(3))
    assert (cells[0] == 0).all()
    for coarse, fine in itertools.pairwise(cells):
        assert (
            len(np.unique(np.stack((coarse, fine)), axis=1).T)
            == len(np.unique(fine))
            > len(np.unique(coarse))
        )
    same = (points[:, None] == points).all(2)
    assert ((cells[-1][:, None] == cells[-1]) == same).all()


def test_quadtree_of_points_that_coincide_late():
    points = np.array([[1.0], [1 + 1e-6], [5.0], [1.0], [1 + 1e-12], [1 + 1e-6]])
    assert quadtree_cells(points, np.array([0.3]))[-1].tolist() == [0, 1, 2, 0, 4, 1]


def test_quadtree_tells_float32_neighbours_apart_in_many_dimensions():
    points = np.ones((3, 600))
    points[1, 17] = np.nextafter(np.float32(1), np.float32(2))
    points[2] = -5
    assert len(np.unique(quadtree_cells(points, np.full(600, 0.3))[-1])) == 3
