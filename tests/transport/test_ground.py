import numpy as np
import pytest
import torch

from cophenet.transport import differences, ground
from cophenet.transport.ground import distance_strip, planned_cost, sample_distances
from cophenet.transport.grouping import group_by_class
from cophenet.transport.plan import TransportPlan
from cophenet.transport.warm_up import warm_up
from support import DEVICE, random_batch

PATHS = ["gram", "direct", "direct, by compiled loops"]


@pytest.fixture(params=PATHS)
def path(request, monkeypatch):
    """Force one of the ways to compute distances."""
    monkeypatch.setattr(ground, "_use_gram", lambda z, _: request.param == "gram" and z.device.type == "cpu")
    monkeypatch.setattr(differences, "_HOST_ELEMENTS", 64)
    by_loops = "loops" in request.param
    if by_loops:
        pytest.importorskip("numba")
        warm_up()
    monkeypatch.setattr(differences, "_LOOP_ELEMENTS", 0)
    monkeypatch.setattr(differences, "compiled_at_first_use", lambda: by_loops)
    return request.param


def all_pairs(count):
    first, second = np.triu_indices(count, 1)
    return torch.from_numpy(first).to(DEVICE), torch.from_numpy(second).to(DEVICE)


def as_batch(z):
    return group_by_class(z, torch.zeros(len(z), dtype=torch.int64, device=z.device))


def cost_and_gradient(z, source, target):
    z = z.detach().requires_grad_()
    mass = torch.linspace(0.5, 1.5, len(source), device=DEVICE, dtype=z.dtype)
    plan = TransportPlan(source, target, mass, np.array([0, len(source) // 2, len(source)]))
    cost = planned_cost(as_batch(z), plan)
    (cost * torch.tensor([1.0, -2.0], device=DEVICE)).sum().backward()
    return cost.detach(), z.grad


@pytest.mark.usefixtures("path")
def test_distances_and_gradients():
    z, _ = random_batch(0, [6, 7])
    source, target = all_pairs(13)
    torch.testing.assert_close(sample_distances(z, source, target), (z[source] - z[target]).norm(dim=1))
    cost, grad = cost_and_gradient(z, source, target)
    reference = z.clone().requires_grad_()
    mass = torch.linspace(0.5, 1.5, len(source), device=DEVICE, dtype=z.dtype)
    terms = mass * (reference[source] - reference[target]).norm(dim=1)
    expected = torch.stack([terms[: len(terms) // 2].sum(), terms[len(terms) // 2 :].sum()])
    (expected[0] - 2 * expected[1]).backward()
    torch.testing.assert_close(cost, expected)
    torch.testing.assert_close(grad, reference.grad)


def hard_batches():
    rng = np.random.default_rng(0)
    offset = rng.normal(size=(24, 64)) + 1e3 * rng.normal(size=64)
    direction = rng.normal(size=64)
    tight = np.repeat(100 * direction[None] / np.linalg.norm(direction), 24, 0)
    tight[12:] += 1e-3 * rng.normal(size=64) / 8
    tight += 1e-5 * rng.normal(size=tight.shape)
    mixed = np.concatenate((tight, 50 * rng.normal(size=(24, 64))))
    return {"offset of 1e3 spreads": offset, "1e-3 apart at norm 1e2": tight, "near and far pairs": mixed}


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("name", hard_batches())
def test_float32_holds_on_tight_classes_far_from_the_centre(name):
    z = torch.tensor(hard_batches()[name], dtype=torch.float32, device=DEVICE)
    source, target = all_pairs(len(z))
    cross = (source < 12) & (target >= 12)
    source, target = source[cross], target[cross]
    exact = (z[source].double() - z[target].double()).norm(dim=1)
    torch.testing.assert_close(sample_distances(z, source, target).double(), exact, rtol=1e-5, atol=0)
    cost, grad = cost_and_gradient(z, source, target)
    cost64, grad64 = cost_and_gradient(z.double(), source, target)
    torch.testing.assert_close(cost.double(), cost64, rtol=1e-5, atol=0)
    assert (grad.double() - grad64).norm() <= 1e-4 * grad64.norm()


@pytest.mark.parametrize("name", hard_batches())
def test_strips_hold_on_tight_classes_too(name):
    z = torch.tensor(hard_batches()[name], dtype=torch.float32, device=DEVICE)
    strip = distance_strip(z, slice(0, 12), slice(12, len(z)))
    exact = torch.cdist(z[:12].double(), z[12:].double(), compute_mode="donot_use_mm_for_euclid_dist")
    torch.testing.assert_close(strip.double(), exact, rtol=1e-5, atol=0)


@pytest.mark.usefixtures("path")
def test_coincident_samples_are_at_zero_and_pull_nothing():
    z = torch.tensor([[100.0, 1.0], [100.0, 1.0], [-3.0, 4.0]], device=DEVICE)
    source, target = all_pairs(3)
    assert sample_distances(z, source, target)[0] == 0
    _, grad = cost_and_gradient(z, source[:2], target[:2])
    assert torch.isfinite(grad).all()
    plan = TransportPlan(source[:1], target[:1], torch.ones(1, device=DEVICE), np.array([0, 1]))
    z.requires_grad_()
    planned_cost(as_batch(z), plan).sum().backward()
    assert not z.grad.any()


def test_products_above_the_diagonal_will_do(monkeypatch):
    z = torch.tensor(np.random.default_rng(0).normal(size=(21, 3)), dtype=torch.float32, device=DEVICE)
    source, target = all_pairs(len(z))
    expected = (z[source].double() - z[target].double()).norm(dim=1).float()
    monkeypatch.setattr(ground, "_STEP", 4)
    torch.testing.assert_close(sample_distances(z, source, target), expected)
    turned = sample_distances(z, torch.cat((source, target)), torch.cat((target, source)))
    torch.testing.assert_close(turned, expected.repeat(2))
