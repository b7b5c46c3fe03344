import itertools

import pytest
import torch

from cophenet.transport import Poincare, class_distances
from support import DEVICE, pair_loop, random_batch, random_weights


@pytest.mark.parametrize(("name", "order"), [("l2", 2), ("l1", 1)])
@pytest.mark.parametrize("weighted", [False, True])
def test_distance_of_weighted_means(name, order, weighted):
    z, y = random_batch(0, [3, 1, 5, 2])
    weights = random_weights(1, len(y)) if weighted else None
    _, rho = class_distances(z, y, name, flow_weights="uniform" if weights is None else weights)
    expected = pair_loop(z, y, lambda x, t, a, b: (a @ x - b @ t).norm(p=order), weights)
    torch.testing.assert_close(rho, expected)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
@pytest.mark.parametrize("sizes", [[3, 1, 5], [4]])
def test_means_show_features_that_are_not_finite(sizes, wrong):
    z, y = random_batch(0, sizes, dtype=torch.float32)
    z[2, 1], z[3, 1] = wrong, -wrong
    with pytest.raises(ValueError, match=r"features must be finite, .* in 2 of . samples .first: sample 2"):
        class_distances(z, y, "l2")


def test_labels_that_change_after_the_call_do_not_change_the_gradient():
    z, y = random_batch(0, [3, 1, 5], dtype=torch.float32)
    z.requires_grad_()
    (expected,) = torch.autograd.grad(class_distances(z, y, "l2")[1].sum(), z)
    rho = class_distances(z, y, "l2")[1]
    y.zero_()
    torch.testing.assert_close(torch.autograd.grad(rho.sum(), z)[0], expected, rtol=0, atol=0)


def test_poincare_by_its_textbook_formula():
    z, y = random_batch(0, [3, 1, 5])
    _, rho = class_distances(z, y, "poincare", norm=0.8)
    means = torch.stack([z[y == c].mean(0) for c in range(3)])
    points = 0.8 * means / means.norm(dim=1, keepdim=True)
    expected = [
        torch.acosh(1 + 2 * (points[u] - points[v]).square().sum() / (1 - 0.8**2) ** 2)
        for u, v in itertools.combinations(range(3), 2)
    ]
    torch.testing.assert_close(rho, torch.stack(expected))


def test_poincare_of_a_mean_at_the_origin_is_finite():
    z = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [3.0, 3.0], [3.0, 3.0]], device=DEVICE, requires_grad=True)
    _, rho = class_distances(z, torch.tensor([0, 0, 1, 2], device=DEVICE), "poincare")
    rho.sum().backward()
    assert rho[2] == 0
    assert torch.isfinite(rho).all()
    assert torch.isfinite(z.grad).all()


@pytest.mark.parametrize("norm", [0.0, 1.0, float("nan")])
def test_poincare_norm_is_checked(norm):
    with pytest.raises(ValueError, match="norm must be"):
        Poincare(norm=norm)


@pytest.mark.parametrize("name", ["l2", "l1", "poincare"])
def test_centroids_in_float32_close_together_and_far_out(name):
    generator = torch.Generator().manual_seed(0)
    base = torch.randn(1, 64, generator=generator)
    z = 100 * base / base.norm() + 1e-5 * torch.randn(12, 64, generator=generator)
    z[4:8] += 1e-3 * torch.randn(64, generator=generator) / 8
    z[8:] -= 1e-3 * torch.randn(64, generator=generator) / 8
    z, y = z.to(DEVICE), torch.arange(12, device=DEVICE) // 4
    exact = class_distances(z.double(), y, name)[1]
    torch.testing.assert_close(class_distances(z, y, name)[1].double(), exact, rtol=1e-4, atol=0)
