"""Compiled loops of small steps: the same bits as torch's operations, and used only where they help."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.utils.checkpoint import checkpoint

pytest.importorskip("numba")

from cophenet.cpcc import CPCCLoss
from cophenet.transport import grouping
from cophenet.transport.base import class_distances, create_distance
from cophenet.transport.centroid import L2
from cophenet.transport.class_layout import ClassLayout
from cophenet.transport.ground import planned_cost
from cophenet.transport.grouping import group_by_class
from cophenet.transport.means import ClassShares, class_means
from cophenet.transport.plan import uniform_plan
from cophenet.transport.solvers import difference_loops, host_loops, machine_code
from cophenet.transport.solvers.flowtree_kernel import match_pairs
from cophenet.transport.warm_up import warm_up
from cophenet.tree import Hierarchy
from support import random_batch, random_weights

SIZES = [4, 1, 6, 4, 9, 2]
SHAPES = {
    "spread": lambda z, _: z,
    "tight": lambda z, labels: 1e-3 * z + 3.0 * labels[:, None],
    "far": lambda z, _: z + 1e4,
    "two on one spot": lambda z, labels: torch.where(labels[:, None] < 2, z[:1], z),
    "huge": lambda z, _: 1e30 * z,
    "tiny": lambda z, _: 1e-30 * z,
    "all alike": lambda z, _: torch.zeros_like(z),
}


@pytest.fixture(autouse=True)
def compiled():
    warm_up()


def states(monkeypatch):
    """By torch's operations, then by the loops."""
    for cold_calls in (math.inf, 0):
        monkeypatch.setattr(machine_code, "_COLD_CALLS", cold_calls)
        yield


def value_and_gradient(features, labels, distance, **options):
    z = features.clone().requires_grad_()
    rho = class_distances(z, labels, distance, **options)[1]
    (rho * torch.linspace(1, 2, len(rho), dtype=rho.dtype)).sum().backward()
    return rho.detach(), z.grad


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("name", "options"),
    [
        *((name, {}) for name in ("l2", "l1", "swd", "bures", "fastft", "ft", "emd")),
        ("fastft", {"order": "principal", "n_orders": 2}),
    ],
)
def test_the_same_bits_at_any_time(monkeypatch, name, options, shape, weighted, dtype):
    z, labels = random_batch(3, SIZES, 37)
    z = SHAPES[shape](z.cpu(), labels.cpu()).to(dtype)
    weights = random_weights(3, len(labels)).cpu().to(dtype) if weighted else "uniform"
    results = [
        value_and_gradient(z, labels.cpu(), create_distance(name, **options), flow_weights=weights)
        for _ in states(monkeypatch)
    ]
    torch.testing.assert_close(*results, rtol=0, atol=0, equal_nan=True)


def test_the_same_bits_with_a_memory(monkeypatch):
    tree = Hierarchy.from_paths([(f"g{i // 2}", f"c{i}") for i in range(6)])
    losses = []
    for _ in states(monkeypatch):
        criterion = CPCCLoss(tree, distance="l2", memory=12)
        for seed in range(3):
            z, labels = random_batch(seed, [*[3, 1, 2][seed:], 2], 5)
            z = z.cpu().requires_grad_()
            loss = criterion(z, labels.cpu())
            loss.backward()
        losses.append((loss.detach(), z.grad))
    torch.testing.assert_close(*losses, rtol=0, atol=0)


@pytest.mark.parametrize(
    "labels",
    [[3, 1, 3, 7], [-5, 2, -5], [0], [9, 9], [0, 1 << 16], [-(1 << 62), 1 << 62], list(range(40, 0, -3))],
    ids=str,
)
def test_labels_are_counted_alike(monkeypatch, labels):
    found = []
    for _ in states(monkeypatch):
        layout, rows = ClassLayout.of(np.array(labels))
        found.append([layout.classes, layout.counts, rows.owner])
    for own, other in zip(*found, strict=True):
        np.testing.assert_array_equal(own, other)


def test_the_same_bits_in_one_dimension(monkeypatch):
    z = torch.randn(24, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    results = [value_and_gradient(z, torch.arange(24) % 8, "l2") for _ in states(monkeypatch)]
    torch.testing.assert_close(*results, rtol=0, atol=0)


@pytest.mark.parametrize("pairs", [([0, 0, 1], [2, 2, 3]), ([0, 2], [2, 0]), ([3, 1], [0, 0])])
def test_pairs_may_come_in_any_way(monkeypatch, pairs):
    gradients = []
    for _ in states(monkeypatch):
        z, labels = random_batch(3, SIZES, 5)
        z = z.cpu().requires_grad_()
        batch = group_by_class(z, labels.cpu())
        rho = L2()(replace(batch, first=np.array(pairs[0]), second=np.array(pairs[1])))
        rho.square().sum().backward()
        gradients.append((rho.detach(), z.grad))
    torch.testing.assert_close(*gradients, rtol=0, atol=0)


@pytest.mark.parametrize("pairs", [([0, 7], [1, 2]), ([-1, 0], [1, 2])])
def test_pairs_of_no_class_are_refused(monkeypatch, pairs):
    for _ in states(monkeypatch):
        z, labels = random_batch(3, SIZES, 5)
        batch = group_by_class(z.cpu(), labels.cpu())
        with pytest.raises(IndexError):
            L2()(replace(batch, first=np.array(pairs[0]), second=np.array(pairs[1])))


@pytest.mark.parametrize("owner", [[0, 1, 0], [0, 1, 2, 0, 0], [0, -1, 0, 0, 0]])
def test_rows_of_other_classes_are_refused(monkeypatch, owner):
    for _ in states(monkeypatch):
        with pytest.raises((IndexError, RuntimeError)):
            class_means(torch.randn(5, 3), ClassShares(torch.tensor(owner), torch.tensor([[2], [1]])))


def test_the_result_may_be_changed_and_computed_again(monkeypatch):
    monkeypatch.setattr(machine_code, "_COLD_CALLS", 6)
    monkeypatch.setattr(machine_code, "_calls", 0)
    z, labels = random_batch(3, SIZES, 5)
    z, labels = z.cpu().requires_grad_(), labels.cpu()

    def step(features):
        rho = class_distances(features, labels, "l2")[1]
        rho[0] = 0
        return rho.mul_(2).sum()

    gradients = []
    for again in (False, True, True, False):  # the loops take over between two passes of the same step
        z.grad = None
        (checkpoint(step, z, use_reentrant=False) if again else step(z)).backward()
        gradients.append(z.grad)
    for gradient in gradients[1:]:
        torch.testing.assert_close(gradient, gradients[0], rtol=0, atol=0)


def test_groups_of_another_type(monkeypatch):
    z, labels = torch.eye(4), torch.tensor([0, 1, 2, 3])
    for _ in states(monkeypatch):
        batch = group_by_class(z, labels, num_classes=4, regroup=np.array([0, 0, 1, 1], dtype=np.int32))
        assert batch.counts.tolist() == [2, 2]


def test_every_kernel_is_compiled_ahead(monkeypatch):
    monkeypatch.setattr(machine_code, "_COLD_CALLS", 0)
    for dtype, weighted in itertools.product((torch.float32, torch.float64), (False, True)):
        z, labels = random_batch(3, SIZES, 5)
        weights = random_weights(3, len(labels)).cpu().to(dtype) if weighted else "uniform"
        for name in ("l2", "l1", "swd", "ft", "fastft", "emd"):
            value_and_gradient(z.cpu().to(dtype), labels.cpu(), name, flow_weights=weights)
    modules = (host_loops, difference_loops)
    kernels = [getattr(module, name) for module in modules for name in module.__all__]
    for kernel in (*kernels, match_pairs):
        types = [str(signature) for signature in kernel.signatures]
        assert len(types) <= 2, (kernel, types)
        assert "readonly" not in str(types)


def test_they_are_used_when_asked_for_often(monkeypatch):
    calls = []
    monkeypatch.setattr(machine_code, "_calls", 0)
    monkeypatch.setattr(host_loops, "centered_means", lambda *arrays: calls.append(arrays))
    z, labels = random_batch(0, [2, 3], 4)
    steps = 0
    while not calls:
        class_distances(z.cpu(), labels.cpu(), "l2")
        steps += 1
    assert steps > 10
    assert machine_code._calls == machine_code._COLD_CALLS


@pytest.mark.parametrize(
    "values",
    [torch.ones(3, 2).T, torch.nn.Parameter(torch.ones(2)), torch.ones(2, device="meta")],
    ids=["strided", "another type", "elsewhere"],
)
def test_what_they_cannot_read_is_left_to_torch(monkeypatch, values):
    monkeypatch.setattr(machine_code, "_COLD_CALLS", 0)
    assert machine_code.loops_when_hot(torch.ones(2)) is host_loops
    assert machine_code.loops_when_hot(values) is None


def test_they_are_not_used_before_they_are_compiled(monkeypatch, tmp_path):
    monkeypatch.setattr(machine_code, "_COLD_CALLS", 0)
    monkeypatch.setattr(machine_code, "_loops", machine_code._loops.__wrapped__)
    monkeypatch.setattr(machine_code, "_marker", lambda: tmp_path / "compiled")
    assert machine_code.loops_when_hot(torch.ones(2)) is None
    (tmp_path / "compiled").touch()
    assert machine_code.loops_when_hot(torch.ones(2)) is host_loops
    monkeypatch.setattr(machine_code, "_marker", lambda: None)  # Numba runs Python
    assert machine_code.loops_when_hot(torch.ones(2)) is None


@pytest.mark.parametrize("sample", [-1, 9])
def test_plans_of_no_sample_are_refused(monkeypatch, sample):
    for _ in states(monkeypatch):
        batch = group_by_class(torch.randn(4, 3), torch.tensor([0, 0, 1, 1]))
        plan = replace(uniform_plan(batch), source=torch.tensor([0, sample]))
        with pytest.raises(IndexError):
            planned_cost(batch, plan)


def test_plans_are_the_same(monkeypatch):
    sizes = np.random.default_rng(0).integers(1, 50, 30)
    plans = []
    for _ in states(monkeypatch):
        labels = torch.from_numpy(np.repeat(np.arange(len(sizes)), sizes))
        plan = uniform_plan(group_by_class(torch.zeros(len(labels), 1), labels))
        plans.append((plan.source, plan.target, plan.mass, plan.bounds, plan.pair))
    torch.testing.assert_close(*plans, rtol=0, atol=0)


@pytest.mark.parametrize("change", ["mass", "source", "offsets"])
def test_plans_that_are_not_whole_are_refused(monkeypatch, change):
    for _ in states(monkeypatch):
        batch = group_by_class(torch.randn(256, 3, requires_grad=True), torch.arange(256) % 64)
        plan = uniform_plan(batch)
        plan = replace(plan, **{change: getattr(plan, change)[:1024]})
        with pytest.raises((RuntimeError, IndexError)):
            planned_cost(batch, plan).sum().backward()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("value", [0.0, -0.0, 1e-42, -3.0, 1e30, -math.inf, math.inf, math.nan, -math.nan])
def test_the_largest_feature(monkeypatch, value, dtype):
    z = torch.full((3, 5), 1e-44, dtype=dtype)
    z[1, 2] = value
    results = [grouping._largest(z) for _ in states(monkeypatch)]
    expected = z.abs().max().item()
    assert results == pytest.approx([expected, expected], rel=0, abs=0, nan_ok=True)


@pytest.mark.parametrize("value", [math.nan, -math.inf])
@pytest.mark.parametrize("name", ["l2", "fastft", "swd", "emd"])
def test_values_that_are_not_finite_are_refused(monkeypatch, name, value):
    z = torch.randn(8, 3)
    z[5, 1] = value
    for _ in states(monkeypatch):
        with pytest.raises(ValueError, match=r"finite, got NaN or inf in 1 of 8 samples \(first: sample 5\)"):
            class_distances(z, torch.arange(8) % 4, name)


def test_fastft_plans_and_sums_in_one_loop(monkeypatch):
    calls = []
    monkeypatch.setattr(machine_code, "_COLD_CALLS", 0)
    one_loop = host_loops.greedy_costs
    monkeypatch.setattr(host_loops, "greedy_costs", lambda *arrays: calls.append(1) or one_loop(*arrays))
    z, labels = random_batch(3, SIZES, 5)
    batch = group_by_class(z.cpu(), labels.cpu())
    whole = create_distance("fastft")(batch)
    assert len(calls) == 1
    some = slice(3, 9)
    part = replace(batch, first=batch.first[some], second=batch.second[some])
    torch.testing.assert_close(create_distance("fastft")(part), whole[some], rtol=0, atol=0)
    assert len(calls) == 1
