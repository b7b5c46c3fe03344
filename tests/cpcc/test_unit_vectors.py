"""CPCC of unit vectors: `normalize=True`."""

import pytest
import torch

from cophenet import CPCCLoss, Hierarchy
from cophenet.metrics import CPCC
from cophenet.transport import distance_names
from cophenet.transport.grouping import unit_rows
from support import DEVICE, random_batch

TREE = Hierarchy.from_paths([(f"group{c // 3}", f"class{c}") for c in range(9)])
COUNTS = [2, 3, 1, 2, 2, 3, 1, 2, 4]


def batch(dtype=torch.float64):
    return random_batch(0, COUNTS, width=6, dtype=dtype)


@pytest.mark.filterwarnings("ignore:sinkhorn did not converge")
@pytest.mark.parametrize("distance", sorted(distance_names()))
def test_the_loss_is_that_of_rows_divided_by_their_norm(distance):
    z, y = batch()
    z.requires_grad_()
    other = z.detach().clone().requires_grad_()
    loss = CPCCLoss(TREE, distance, weight=0.5, normalize=True)(z, y)
    expected = CPCCLoss(TREE, distance, weight=0.5)(other / other.norm(dim=1, keepdim=True), y)
    torch.testing.assert_close(loss, expected)
    loss.backward()
    expected.backward()
    torch.testing.assert_close(z.grad, other.grad)


def test_the_length_of_a_vector_does_not_matter():
    z, y = batch()
    criterion, metric = CPCCLoss(TREE, "fastft", normalize=True), CPCC(TREE, "fastft", normalize=True)
    stretched = z * torch.linspace(0.1, 50, len(z), device=DEVICE, dtype=z.dtype)[:, None]
    torch.testing.assert_close(criterion(stretched, y), criterion(z, y))
    metric.update(stretched, y)
    torch.testing.assert_close(1 - criterion(z, y), metric.compute())
    assert not torch.isclose(CPCCLoss(TREE, "fastft")(stretched, y), criterion(z, y))


@pytest.mark.parametrize("scale", [1e-38, 1e-20, 1.0, 1e20, 1e37])
def test_rows_of_any_scale_become_unit_rows(scale):
    z = torch.randn(7, 5, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    torch.testing.assert_close(unit_rows(z * scale), unit_rows(z), rtol=1e-5, atol=1e-6)


def test_a_row_of_zeros_has_no_direction_and_a_bounded_gradient():
    z, y = batch(torch.float32)
    z[3] = 0
    z.requires_grad_()
    CPCCLoss(TREE, "l2", normalize=True)(z, y).backward()
    assert not unit_rows(z)[3].any()
    assert z.grad[3].norm() < 10 * z.grad.norm()
    assert z.grad.isfinite().all()


@pytest.mark.parametrize("row", [[0.0, 0.0, 0.0], [0.1, 0.2, 0.3]])
def test_collapsed_features_have_the_weight_as_loss(row):
    z = torch.tensor(row, device=DEVICE).repeat(18, 1) * torch.arange(1.0, 19, device=DEVICE)[:, None]
    z.requires_grad_()
    loss = CPCCLoss(TREE, "l2", weight=0.3, normalize=True)(z, torch.arange(18, device=DEVICE) % 9)
    loss.backward()
    assert loss == torch.tensor(0.3)
    assert not z.grad.any()


def test_what_is_not_finite_is_refused():
    z, y = batch()
    z[2, 1] = torch.inf
    with pytest.raises(ValueError, match=r"features must be finite, got NaN or inf in 1 of 20 .*sample 2"):
        CPCCLoss(TREE, "l2", normalize=True)(z, y)


def test_what_is_remembered_has_norm_one():
    z, y = batch()
    criterion = CPCCLoss(TREE, "l2", normalize=True, memory=90)
    criterion(z * 9, y)
    assert criterion.memory is not None
    norms = criterion.memory.recall(z).features.norm(dim=1)
    assert torch.isclose(norms[norms > 0], torch.ones_like(norms[norms > 0])).all()
    assert (norms > 0).sum() == len(z)


def test_other_values_are_refused():
    with pytest.raises(ValueError, match="normalize must be True or False, got 'yes'"):
        CPCCLoss(TREE, normalize="yes")
