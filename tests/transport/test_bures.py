"""The Gaussian distance against its dense formula, closed forms and finite differences."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cophenet.transport import blocks, bures
from cophenet.transport.base import create_distance
from cophenet.transport.bures import Bures
from cophenet.transport.grouping import group_by_class
from support import DEVICE, double, pair_loop, random_batch, random_weights


def rho_of(z, y, weights="uniform"):
    return Bures()(group_by_class(z, y, flow_weights=weights))


def _root(matrix):
    values, vectors = torch.linalg.eigh(matrix)
    return vectors @ (values.clamp(min=0).sqrt()[:, None] * vectors.T)


def dense(x, y, a, b):
    """The textbook form, with (d, d) covariances and their square roots."""
    mu, nu = a @ x, b @ y
    s = (x - mu).T @ (a[:, None] * (x - mu))
    t = (y - nu).T @ (b[:, None] * (y - nu))
    root = _root(s)
    cross = _root(root @ t @ root)
    return ((mu - nu).square().sum() + (s + t - 2 * cross).trace()).clamp(min=0).sqrt()


@settings(deadline=None, max_examples=25)
@given(
    st.integers(0, 10**6),
    st.lists(st.integers(1, 8), min_size=2, max_size=5),
    st.integers(1, 6),
    st.booleans(),
)
def test_equals_the_dense_formula(seed, sizes, width, weighted):
    z, y = random_batch(seed, sizes, width)
    weights = random_weights(seed, len(y)) if weighted else None
    want = pair_loop(z, y, dense, weights)
    torch.testing.assert_close(
        rho_of(z, y, "uniform" if weights is None else weights), want, rtol=1e-6, atol=1e-7
    )


def test_kept_number():
    z = double([[0, 0], [2, 0], [1, 3], [5, 1], [5, 3]])
    y = torch.tensor([0, 0, 0, 1, 1], device=DEVICE)
    # Means (1, 1) and (5, 2); covariances diag(2/3, 2) and diag(0, 1).
    assert float(rho_of(z, y)) == pytest.approx((16 + 1 + 2 / 3 + (2**0.5 - 1) ** 2) ** 0.5)


def test_translates_and_singletons():
    z, _ = random_batch(0, [7], width=4)
    step = double([1e-3, 0, 2e-3, 0])
    y = torch.tensor([0] * 7 + [1] * 7 + [2], device=DEVICE)
    rho = rho_of(torch.cat((z, z + step, z[:1])), y)
    assert float(rho[0]) == pytest.approx(float(step.norm()), rel=1e-9)
    z, y = random_batch(1, [1, 1, 1])
    torch.testing.assert_close(rho_of(z, y), torch.pdist(z[y.argsort()]))


@pytest.mark.parametrize("width", [2, 3, 9])
def test_gradient_is_that_of_the_value(width):
    z, y = random_batch(3, [4, 1, 6, 3], width)
    weights = random_weights(3, len(y))
    weights[(y == 2).nonzero()[0]] = 0
    assert torch.autograd.gradcheck(lambda x: rho_of(x, y, weights), z.requires_grad_())


def test_equal_and_coincident_classes_have_zero_gradient():
    z, _ = random_batch(0, [4], width=3)
    x = torch.cat((z, z, z[:1], z[:1], z[:1])).requires_grad_()
    y = torch.tensor([0] * 4 + [1] * 4 + [2, 3, 3], device=DEVICE)
    rho = rho_of(x, y)
    same = rho[[0, 5]]
    assert (same == 0).all()
    (grad,) = torch.autograd.grad(same.sum(), x)
    assert (grad == 0).all()
    (grad,) = torch.autograd.grad(rho_of(x, y).sum(), x)
    assert torch.isfinite(grad).all()


@pytest.mark.parametrize(("scale", "offset"), [(1.0, 1e3), (1e-3, 1e2)])
def test_float32_far_from_the_origin(scale, offset):
    z, y = random_batch(6, [5, 4, 7], width=64)
    z = (z * scale + offset).float()
    results = []
    for dtype in (torch.float32, torch.float64):
        x = z.clone().to(dtype).requires_grad_()
        rho = rho_of(x, y)
        assert rho.dtype == dtype
        rho.sum().backward()
        results.append((rho.detach().double(), x.grad.double()))
    (low, low_grad), (high, high_grad) = results
    torch.testing.assert_close(low, high, rtol=1e-4, atol=0)
    torch.testing.assert_close(low_grad, high_grad, rtol=0, atol=1e-4 * float(high_grad.abs().max()))


def test_strips_and_subsets_change_nothing(monkeypatch):
    z, y = random_batch(8, [2, 9, 1, 5, 30, 3])
    batch = group_by_class(z.requires_grad_(), y, flow_weights=random_weights(0, len(y)))
    rho = Bures()(batch)
    slope = double(np.linspace(-1, 2, batch.num_pairs))
    (grad,) = torch.autograd.grad(rho, batch.features, slope)
    chosen = np.array([14, 3, 7])
    subset = replace(batch, first=batch.first[chosen], second=batch.second[chosen])
    torch.testing.assert_close(Bures()(subset), rho[chosen])
    monkeypatch.setattr(blocks, "_SMALL", 1)
    monkeypatch.setattr(blocks.pair_strips, "__defaults__", (60,))
    small = Bures()(batch)
    torch.testing.assert_close(small, rho)
    torch.testing.assert_close(torch.autograd.grad(small, batch.features, slope)[0], grad)


def test_has_no_plan():
    z, y = random_batch(0, [2, 2])
    with pytest.raises(ValueError, match="'bures' has no transport plan"):
        create_distance("bures").with_plan(group_by_class(z, y))


def by_squares(blocks):
    return bures._by_squares(blocks, torch.linalg.eigh(blocks @ blocks.mT)[1])


@pytest.mark.parametrize("weighted", [False, True])
def test_classes_larger_than_the_width_give_the_same_gradients(weighted, monkeypatch):
    """By (d, d) matrices and by cross-Gram matrices; so do matrices by squares and by values."""
    z, y = random_batch(5, [9, 3, 20, 8, 1], width=4)
    scheme = random_weights(0, len(y)) if weighted else "uniform"
    slope = double(np.linspace(-1, 2, 10))
    results = []
    for form in ("smaller", "cross-Gram", "squares"):
        if form == "cross-Gram":
            monkeypatch.setattr(bures, "_triangles", lambda rows, batch: (rows, batch, {}))
        if form == "squares":
            monkeypatch.setattr(bures, "_by_values", by_squares)
        x = z.clone().requires_grad_()
        rho = rho_of(x, y, scheme)
        results.append((rho.detach(), *torch.autograd.grad(rho, x, slope)))
    for other in results[1:]:
        for one, two in zip(results[0], other, strict=True):
            torch.testing.assert_close(one, two, rtol=1e-8, atol=1e-9)


def test_squares_lost_to_rounding_are_not_used():
    singular = torch.tensor([[1.0, 0.5, 1e-7, 0.0], [1.0, 0.5, 0.1, 0.0]], dtype=torch.float64)
    rotations = [torch.linalg.qr(torch.randn(2, 4, 4, dtype=torch.float64)).Q for _ in "uv"]
    blocks = rotations[0] @ (singular[:, :, None] * rotations[1])
    norms, factors = by_squares(blocks)
    torch.testing.assert_close(norms, singular.sum(1), rtol=0, atol=1e-13)
    torch.testing.assert_close(factors, bures._by_values(blocks)[1], rtol=0, atol=1e-7)


def test_threads_change_no_bit(monkeypatch):
    monkeypatch.setattr(bures, "_SERIAL", 64)
    z, y = random_batch(0, [5] * 8, dtype=torch.float32)
    results, before = [], torch.get_num_threads()
    for threads in (1, 2):
        torch.set_num_threads(threads)
        x = z.clone().requires_grad_()
        rho = rho_of(x, y)
        results.append((rho.detach(), *torch.autograd.grad(rho.sum(), x)))
    torch.set_num_threads(before)
    torch.testing.assert_close(results[1], results[0], rtol=0, atol=0)
