import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cophenet.transport import class_distances, group_by_class
from cophenet.transport.plan import greedy_plan, uniform_plan, weighted_plan
from support import DEVICE, random_batch, random_weights

# Beyond 32 plans are made for the batch, up to it they are kept.
sizes = st.lists(st.integers(1, 9) | st.sampled_from([32, 40, 48]), min_size=2, max_size=5)


def entries(plan, pair):
    part = slice(plan.offsets[pair], plan.offsets[pair + 1])
    return plan.source[part].tolist(), plan.target[part].tolist(), plan.mass[part].tolist()


@given(sizes, st.integers(0, 10))
@settings(max_examples=60, deadline=None)
def test_uniform_plan_is_the_exact_cut_of_the_unit_interval(counts, seed):
    batch = group_by_class(*random_batch(seed, counts))
    plan = uniform_plan(batch)
    for pair, (u, v) in enumerate(itertools.combinations(range(len(counts)), 2)):
        m, n = counts[u], counts[v]
        cuts = sorted({Fraction(i, m) for i in range(m + 1)} | {Fraction(j, n) for j in range(n + 1)})
        source, target, mass = entries(plan, pair)
        assert len(mass) == m + n - math.gcd(m, n)
        for left, right, i, j, share in zip(cuts[:-1], cuts[1:], source, target, mass, strict=True):
            assert i - batch.offsets[u] == left * m // 1
            assert j - batch.offsets[v] == left * n // 1
            assert share == pytest.approx(float(right - left), rel=1e-15)


@given(sizes, st.integers(0, 1000), st.booleans())
@settings(max_examples=60, deadline=None)
def test_weighted_plan_loses_no_mass(counts, seed, with_zeros):
    z, y = random_batch(seed, counts)
    weights = random_weights(seed, len(y)) ** 8
    if with_zeros:
        weights[1:] *= torch.rand(len(y) - 1, device=DEVICE) > 0.4
        for c in range(len(counts)):
            weights[(y == c).nonzero()[0]] = 1.0
    batch = group_by_class(z, y, flow_weights=weights)
    plan = weighted_plan(batch, batch.weights)
    assert (plan.mass >= 0).all()
    for pair, (u, v) in enumerate(itertools.combinations(range(len(counts)), 2)):
        source, target, mass = (np.array(x) for x in entries(plan, pair))
        assert len(mass) == counts[u] + counts[v] - 1
        for index, c in ((source, u), (target, v)):
            marginal = np.bincount(index - batch.offsets[c], mass, minlength=counts[c])
            np.testing.assert_allclose(marginal, batch.weights[batch.segments == c].cpu(), atol=1e-14)
        assert (np.diff(source) >= 0).all()
        assert (np.diff(target) >= 0).all()


@given(sizes, st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_equal_weights_give_the_uniform_plan(counts, seed):
    z, y = random_batch(seed, counts)
    ones = torch.ones(len(y), dtype=torch.float64, device=DEVICE)
    *_, exact = class_distances(z, y, "fastft", return_plan=True)
    *_, merged = class_distances(z, y, "fastft", flow_weights=ones, return_plan=True)
    dense = [torch.zeros(len(y), len(y), dtype=torch.float64, device=DEVICE) for _ in range(2)]
    for table, plan in zip(dense, (exact, merged), strict=True):
        table[plan.source, plan.target] = plan.mass
    torch.testing.assert_close(*dense, rtol=0, atol=1e-14)


def test_an_arrangement_changes_who_is_served_first():
    z, y = random_batch(0, [2, 2])
    batch = group_by_class(z, y)
    swapped = torch.tensor([1, 0, 2, 3], device=DEVICE)
    plan = greedy_plan(batch, swapped)
    assert plan.source.tolist() == [1, 0]
    assert plan.target.tolist() == [2, 3]


def test_returned_plan_is_in_batch_order_without_empty_entries():
    z = torch.arange(4.0, device=DEVICE)[:, None]
    y = torch.tensor([5, 3, 5, 3], device=DEVICE)
    weights = torch.tensor([1.0, 1.0, 1.0, 0.0], device=DEVICE)
    _, rho, plan = class_distances(z, y, "fastft", flow_weights=weights, return_plan=True)
    assert plan.source.tolist() == [1, 1]
    assert plan.target.tolist() == [0, 2]
    assert plan.mass.tolist() == [0.5, 0.5]
    assert plan.offsets.tolist() == [0, 2]
    assert rho.tolist() == [1.0]
