"""Entropic transport against POT, the published numbers, closed forms and its own slow loop."""

import math
import warnings
from dataclasses import replace

import numpy as np
import ot
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cophenet.transport import blocks, class_distances, ground, sinkhorn
from cophenet.transport.base import create_distance
from cophenet.transport.grouping import group_by_class
from cophenet.transport.sinkhorn import Sinkhorn
from cophenet.transport.solvers.entropic import _SAFE_RANGE
from support import DEVICE, double, golden, pair_loop, random_batch, random_weights

SIZES = [3, 1, 6, 2, 4]
KEPT = {0.1: 1.7284491570758302, 1.0: 1.8030788541870273, 10.0: 1.8137370320698143}
CPCC = [case for case in golden("cpcc.json") if case["inputs"]["metric"] == "sk"]
POT_CASES = [case for case in golden("sliced.json") if case["name"].startswith("sinkhorn")]


def rho_of(z, y, weights="uniform", **options):
    return Sinkhorn(**options)(group_by_class(z, y, flow_weights=weights))


def pot_loop(z, y, reg, weights=None):
    def cost(x, y, a, b):
        distance = torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist")
        plan = ot.sinkhorn(
            *(t.detach().cpu().numpy() for t in (a, b, distance)),
            reg,
            method="sinkhorn_log",
            stopThr=1e-13,
            numItermax=20000,
        )
        return (double(plan) * distance).sum()

    return pair_loop(z, y, cost, weights)


def two_clouds(x, y, a, b):
    """A batch of two classes with given masses."""
    labels = torch.tensor([0] * len(x) + [1] * len(y), device=DEVICE)
    return group_by_class(
        torch.cat((double(x), double(y))), labels, flow_weights=torch.cat((double(a), double(b)))
    )


@pytest.mark.parametrize("case", CPCC, ids=lambda case: case["name"])
def test_published_loss_and_gradient(case):
    z = double(case["inputs"]["features"]).requires_grad_()
    y = torch.tensor(case["inputs"]["fine_labels"], device=DEVICE)
    rho = rho_of(z, y, reg=case["inputs"]["reg"])
    want = case["expected"]
    assert rho.tolist() == pytest.approx(want["pairwise_class_distances"], abs=1e-9)
    loss = 1 - torch.corrcoef(torch.stack((rho, double(want["tree_distances"]))))[0, 1]
    loss.backward()
    torch.testing.assert_close(z.grad, double(want["grad_features"]), rtol=0, atol=1e-7)


@pytest.mark.parametrize("case", POT_CASES, ids=lambda case: case["name"])
def test_published_costs_and_plan(case):
    given, want = case["inputs"], case["expected"]
    batch = two_clouds(given["X"], given["Y"], given["a"], given["b"])
    for reg, expected in want["by_reg"].items():
        value = float(Sinkhorn(reg=float(reg))(batch))
        assert value == pytest.approx(expected["plan_cost"], abs=1e-9)
        assert value == pytest.approx(expected["plan_cost_default_stopThr_1e_9"], abs=3e-9)
    _, plan = Sinkhorn(reg=1.0).with_plan(batch)
    assert plan.mass.tolist() == pytest.approx(np.ravel(want["plan_reg_1"]).tolist(), abs=1e-9)


def test_kept_numbers_of_pot():
    batch = two_clouds(
        [[0.0, 0.0], [1.0, 2.0]], [[3.0, 1.0], [0.0, 2.0], [1.0, 1.0]], [0.25, 0.75], [0.5, 0.2, 0.3]
    )
    got = [float(Sinkhorn(reg=reg)(batch)) for reg in (0.1, 1.0, 10.0)]
    assert got == pytest.approx([KEPT[reg] for reg in (0.1, 1.0, 10.0)], abs=1e-9)


@settings(deadline=None, max_examples=25)
@given(
    st.integers(0, 10**6),
    st.lists(st.integers(1, 7), min_size=2, max_size=5),
    st.sampled_from([0.3, 1.0, 10.0, 100.0]),
    st.booleans(),
)
def test_equals_pot_pair_by_pair(seed, sizes, reg, weighted):
    z, y = random_batch(seed, sizes)
    weights = random_weights(seed, len(y)) if weighted else None
    mine, theirs = z.clone().requires_grad_(), z.clone().requires_grad_()
    rho = rho_of(mine, y, "uniform" if weights is None else weights, reg=reg, max_iterations=20000)
    want = pot_loop(theirs, y, reg, weights)
    torch.testing.assert_close(rho, want, rtol=1e-8, atol=1e-9)
    slope = double(np.linspace(-1, 2, len(rho)))
    (rho * slope).sum().backward()
    (want * slope).sum().backward()
    torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reg", [0.05, 1.0, 10.0])
def test_plan_has_its_marginals_and_its_cost(reg, weighted):
    z, y = random_batch(3, SIZES)
    weights = random_weights(1, len(y)) if weighted else "uniform"
    if weighted:
        weights[(y == 2).nonzero()[0]] = 0
    batch = group_by_class(z, y, flow_weights=weights)
    rho, plan = Sinkhorn(reg=reg, max_iterations=20000).with_plan(batch)
    distance = (z[batch.order][plan.source] - z[batch.order][plan.target]).norm(dim=1)
    torch.testing.assert_close(plan.total(plan.mass * distance), rho)
    for p, (u, v) in enumerate(zip(batch.first, batch.second, strict=True)):
        part = slice(plan.offsets[p], plan.offsets[p + 1])
        assert plan.offsets[p + 1] - plan.offsets[p] == batch.counts[u] * batch.counts[v]
        for samples, own in ((plan.source[part], u), (plan.target[part], v)):
            sums = torch.zeros_like(batch.mass).index_add(0, samples, plan.mass[part])
            rows = slice(batch.offsets[own], batch.offsets[own + 1])
            torch.testing.assert_close(sums[rows], batch.mass[rows], rtol=0, atol=1e-11)


def test_limits_of_reg():
    z, y = random_batch(5, SIZES)
    weights = random_weights(2, len(y))

    def product(x, y, a, b):
        return (a[:, None] * b * torch.cdist(x, y)).sum()

    torch.testing.assert_close(
        rho_of(z, y, weights, reg=1e9), pair_loop(z, y, product, weights), rtol=1e-7, atol=0
    )
    near_emd = rho_of(z, y, reg=0.02, max_iterations=50000)

    def exact(x, y, a, b):
        return double(ot.emd2(a.cpu().numpy(), b.cpu().numpy(), torch.cdist(x, y).cpu().numpy()))

    emd = pair_loop(z, y, exact)
    assert (near_emd >= emd - 1e-9).all()
    torch.testing.assert_close(near_emd, emd, rtol=0.01, atol=0)


def test_singletons_are_l2():
    z, y = random_batch(0, [1, 1, 1, 1])
    order = y.argsort()
    torch.testing.assert_close(rho_of(z, y), torch.pdist(z[order]))


@pytest.mark.parametrize("differentiate", ["plan-constant", "through"])
def test_relative_reg_scales_with_the_features(differentiate):
    z, y = random_batch(1, SIZES)
    options = {"reg": 0.1, "relative": True, "differentiate": differentiate, "max_iterations": 20000}
    torch.testing.assert_close(rho_of(7 * z, y, **options), 7 * rho_of(z, y, **options))
    a, b, reg = z[y == 0], z[y == 1], 0.1 * torch.cdist(z[y == 0], z[y == 1]).mean().item()
    pair = torch.cat((a, b)), torch.tensor([0] * len(a) + [1] * len(b), device=DEVICE)
    torch.testing.assert_close(rho_of(*pair, **options), rho_of(*pair, reg=reg, max_iterations=20000))


@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize("reg", [0.3, 10.0])
def test_through_is_the_gradient_of_the_value(reg, relative):
    z, y = random_batch(2, [3, 1, 4, 2], width=3)
    weights = random_weights(4, len(y))
    weights[(y == 2).nonzero()[1]] = 0
    options = {"reg": reg, "relative": relative, "differentiate": "through", "max_iterations": 20000}
    assert torch.autograd.gradcheck(lambda x: rho_of(x, y, weights, **options), z.requires_grad_())


@pytest.mark.parametrize("differentiate", ["plan-constant", "through"])
def test_strips_subsets_and_accelerators_change_nothing(monkeypatch, differentiate):
    z, y = random_batch(8, [2, 9, 1, 5, 30, 3])
    batch = group_by_class(z.requires_grad_(), y, flow_weights=random_weights(0, len(y)))
    options = {"reg": 2.0, "differentiate": differentiate}
    slope = double(np.linspace(-1, 2, batch.num_pairs))
    rho = Sinkhorn(**options)(batch)
    (grad,) = torch.autograd.grad(rho, batch.features, slope)
    chosen = np.array([14, 3, 7])
    subset = replace(batch, first=batch.first[chosen], second=batch.second[chosen])
    torch.testing.assert_close(Sinkhorn(**options)(subset), rho[chosen])
    monkeypatch.setattr(blocks, "_SMALL", 1)
    monkeypatch.setattr(blocks.pair_strips, "__defaults__", (60,))
    assert len(list(blocks.pair_strips(batch))) > 5
    small = Sinkhorn(**options)(batch)
    torch.testing.assert_close(small, rho)
    torch.testing.assert_close(torch.autograd.grad(small, batch.features, slope)[0], grad)
    for module in (ground, sinkhorn):
        monkeypatch.setattr(module, "is_host", lambda _: False)
    apart = Sinkhorn(**options, max_iterations=300)(batch)
    torch.testing.assert_close(apart, rho)
    torch.testing.assert_close(torch.autograd.grad(apart, batch.features, slope)[0], grad)


def test_an_accelerator_grows_its_budget_before_it_warns(monkeypatch):
    z, y = random_batch(8, SIZES)
    batch = group_by_class(z, y)
    for module in (ground, sinkhorn):
        monkeypatch.setattr(module, "is_host", lambda _: False)
    distance = Sinkhorn(reg=0.01, max_iterations=100)
    distance.lazy_checks = True
    for _ in range(2):
        distance(batch)
    assert distance._budget == 100
    with pytest.warns(RuntimeWarning, match="did not converge within 100 iterations"):
        distance(batch)
    distance(batch)


def test_one_call_on_an_accelerator_warns_at_once(monkeypatch):
    z, y = random_batch(8, SIZES)
    for module in (ground, sinkhorn):
        monkeypatch.setattr(module, "is_host", lambda _: False)
    with pytest.warns(RuntimeWarning, match="did not converge within 100 iterations"):
        class_distances(z, y, "sinkhorn", reg=0.01, max_iterations=100)


def test_a_solve_that_does_not_converge_warns_once():
    z, y = random_batch(8, SIZES)
    batch = group_by_class(z, y)
    distance = Sinkhorn(reg=0.1, max_iterations=3)
    with pytest.warns(RuntimeWarning, match="did not converge within 3 iterations"):
        value = distance(batch)
    assert torch.isfinite(value).all()
    distance(batch)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("differentiate", ["plan-constant", "through"])
@pytest.mark.parametrize("reg", [1e-30, 1e-4, 0.1, 10.0])
def test_never_nan(dtype, differentiate, reg):
    z, y = random_batch(4, SIZES, dtype=dtype)
    z = (z * 100 + 1e4).requires_grad_()
    weights = random_weights(0, len(y))
    weights[(y == 4).nonzero()[:3]] = 1e-300
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        rho = rho_of(z, y, weights, reg=reg, differentiate=differentiate, max_iterations=50)
    rho.sum().backward()
    assert torch.isfinite(rho).all()
    assert torch.isfinite(z.grad).all()


@pytest.mark.parametrize("differentiate", ["plan-constant", "through"])
@pytest.mark.parametrize("relative", [False, True])
def test_coincident_samples_pull_nothing(differentiate, relative):
    z = torch.zeros(6, 3, dtype=torch.float64, device=DEVICE)
    z[5] = 1
    z.requires_grad_()
    y = torch.tensor([0, 0, 1, 1, 2, 2], device=DEVICE)
    rho = rho_of(z, y, relative=relative, differentiate=differentiate)
    rho.sum().backward()
    torch.testing.assert_close(rho, double([0, math.sqrt(3) / 2, math.sqrt(3) / 2]))
    assert torch.isfinite(z.grad).all()
    (only,) = torch.autograd.grad(rho_of(z, y, relative=relative)[0], z)
    assert (only == 0).all()


@pytest.mark.parametrize(("scale", "offset"), [(1.0, 1e3), (1e-3, 1e2)])
def test_float32_far_from_the_origin(scale, offset):
    z, y = random_batch(6, [5, 4, 7], width=64)
    z = (z * scale + offset).float()
    results = []
    for dtype in (torch.float32, torch.float64):
        x = z.clone().to(dtype).requires_grad_()
        rho = rho_of(x, y, reg=scale)
        rho.sum().backward()
        results.append((rho.detach().double(), x.grad.double()))
    (low, low_grad), (high, high_grad) = results
    torch.testing.assert_close(low, high, rtol=1e-4, atol=0)
    torch.testing.assert_close(low_grad, high_grad, rtol=0, atol=1e-4 * float(high_grad.abs().max()))


def test_both_domains_agree(monkeypatch):
    z, y = random_batch(6, SIZES)
    scaled = rho_of(z, y, reg=1.0)
    monkeypatch.setitem(_SAFE_RANGE, torch.float64, -1.0)
    torch.testing.assert_close(rho_of(z, y, reg=1.0), scaled, rtol=1e-10, atol=0)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"reg": 0.0}, "reg must be finite and above 0.0, got 0.0"),
        ({"reg": math.nan}, "reg"),
        ({"differentiate": "no"}, "differentiate must be one of plan-constant, through, got 'no'"),
        ({"tolerance": -1.0}, "tolerance must be finite and above 0.0, got -1.0"),
        ({"max_iterations": 0}, "max_iterations must be a whole number of at least 1, got 0"),
    ],
)
def test_wrong_options_are_named(options, named):
    with pytest.raises(ValueError, match=named):
        create_distance("sinkhorn", **options)
