"""Bottom-up matching: the paper's theorem, optimality in every tree metric, exact marginals."""

import time

import numpy as np
import ot
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cophenet.transport.bottom_up_flow import bottom_up_flow
from cophenet.transport.grouping import group_by_class
from cophenet.transport.plan import greedy_plan

SEEDS = st.integers(0, 2**32 - 1)


def random_parents(rng, nodes):
    return np.array([-1, *(int(rng.integers(i)) for i in range(1, nodes))])


def tree_metric(parents, weights):
    """Distances of all nodes, by walking up: parents come first, so a new node is its parent and one edge."""
    distance = np.zeros((len(parents), len(parents)))
    for node in range(1, len(parents)):
        distance[node, :node] = distance[:node, node] = distance[parents[node], :node] + weights[node]
    return distance


def dense(shape, i, j, mass):
    plan = np.zeros(shape)
    np.add.at(plan, (i, j), mass)
    return plan


def masses(rng, count, kind):
    if kind == "uniform":
        return np.full(count, 1 / count)
    raw = rng.random(count) * (rng.random(count) > 0.3 if kind == "gaps" else 1)
    raw[rng.integers(count)] += 0.1
    return raw / raw.sum()


@settings(deadline=None, max_examples=60)
@given(SEEDS, st.integers(1, 9), st.integers(1, 9), st.sampled_from(["uniform", "random", "gaps"]))
def test_theorem_algorithms_1_and_2_agree_on_the_augmented_tree(seed, m, n, kind):
    rng = np.random.default_rng(seed)
    label_tree = random_parents(rng, 12)
    leaves = np.setdiff1d(np.arange(12), label_tree)
    u, v = rng.choice(leaves, 2, replace=False) if len(leaves) > 1 else (0, leaves[0])
    parents = np.concatenate((label_tree, np.full(m, u), np.full(n, v)))
    a, b = masses(rng, m, kind), masses(rng, n, kind)
    i, j, mass = bottom_up_flow(parents, 12 + np.arange(m), 12 + m + np.arange(n), a, b)

    z = torch.tensor(rng.normal(size=(m + n, 3)))
    labels = torch.tensor([0] * m + [1] * n)
    weights = "uniform" if kind == "uniform" else torch.tensor(np.concatenate((a, b)))
    greedy = greedy_plan(group_by_class(z, labels, flow_weights=weights))
    expected = dense((m, n), greedy.source.numpy(), greedy.target.numpy() - m, greedy.mass.numpy())
    np.testing.assert_allclose(dense((m, n), i, j, mass), expected, atol=1e-12)
    cost = torch.cdist(z[:m], z[m:]).numpy()
    assert (cost[i, j] * mass).sum() == pytest.approx((cost * expected).sum(), rel=1e-12)


@settings(deadline=None, max_examples=60)
@given(SEEDS, st.integers(1, 25), st.integers(1, 8), st.integers(1, 8))
def test_optimal_for_the_metric_of_any_tree(seed, nodes, m, n):
    rng = np.random.default_rng(seed)
    parents = random_parents(rng, nodes)
    distance = tree_metric(parents, rng.exponential(size=nodes))
    at_a, at_b = rng.integers(nodes, size=m), rng.integers(nodes, size=n)
    a, b = masses(rng, m, "random"), masses(rng, n, "gaps")
    i, j, mass = bottom_up_flow(parents, at_a, at_b, a, b)
    cost = np.ascontiguousarray(distance[np.ix_(at_a, at_b)])
    assert (cost[i, j] * mass).sum() == pytest.approx(ot.emd2(a, b, cost), abs=1e-9)
    plan = dense((m, n), i, j, mass)
    np.testing.assert_allclose(plan.sum(1), a, atol=1e-15)
    np.testing.assert_allclose(plan.sum(0), b, atol=1e-15)
    assert (mass > 0).all()
    assert len(i) <= m + n - 1


@settings(deadline=None, max_examples=30)
@given(SEEDS, st.integers(1, 10), st.integers(1, 10))
def test_integer_masses_come_out_whole(seed, m, n):
    rng = np.random.default_rng(seed)
    a, b = np.full(m, n), np.full(n, m)
    parents = random_parents(rng, 15)
    i, j, mass = bottom_up_flow(parents, rng.integers(15, size=m), rng.integers(15, size=n), a, b)
    assert mass.dtype == np.int64
    plan = dense((m, n), i, j, mass)
    assert (plan.sum(1) == a).all()
    assert (plan.sum(0) == b).all()


def test_served_in_order_of_sample_numbers_not_of_arrival():
    # Sample 1 waits at the root already when sample 0 comes up from below.
    i, j, mass = bottom_up_flow([-1, 0, 1], [2, 0], [0], [1, 1], [2])
    assert (i.tolist(), j.tolist(), mass.tolist()) == ([0, 1], [0, 0], [1, 1])


def test_long_chain_with_many_samples_is_quick():
    count, nodes = 2000, 50_000
    parents = np.arange(-1, nodes - 1)
    begin = time.process_time()
    i, _, mass = bottom_up_flow(
        parents,
        np.full(count, nodes - 1),
        np.linspace(0, nodes - 1, count).astype(int),
        *np.ones((2, count), dtype=int),
    )
    assert time.process_time() - begin < 5
    assert len(i) == count
    assert mass.sum() == count


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"parents": [0, 0]}, "parents must start with -1"),
        ({"parents": [-1, 1]}, "parents must start with -1"),
        ({"parents": []}, "parents must be a non-empty integer vector"),
        ({"source_nodes": [2]}, r"source_nodes must lie in 0..1, got 2"),
        ({"target_nodes": [0, 1]}, r"target_nodes must be integers of shape \(1,\)"),
        ({"a": [-1.0]}, "a must be finite, not negative"),
        ({"b": [0.0]}, "b must be finite, not negative, and not all zero"),
        ({"b": ["x"]}, "b must be a vector of numbers"),
        ({"b": [2.0]}, "a and b must have the same sum, got 1.0 and 2.0"),
    ],
)
def test_wrong_arguments_are_named(change, match):
    right = {"parents": [-1, 0], "source_nodes": [0], "target_nodes": [1], "a": [1.0], "b": [1.0]}
    with pytest.raises(ValueError, match=match):
        bottom_up_flow(**{**right, **change})
