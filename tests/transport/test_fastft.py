import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cophenet.transport import FastFlowTree, class_distances
from cophenet.transport.fastft import principal_directions
from support import DEVICE, greedy_cost, pair_loop, random_batch, random_weights

sizes = st.lists(st.integers(1, 7), min_size=2, max_size=4)


@given(sizes, st.integers(0, 1000), st.booleans())
@settings(max_examples=40, deadline=None)
def test_equals_algorithm_1_pair_by_pair(counts, seed, weighted):
    z, y = random_batch(seed, counts)
    weights = random_weights(seed, len(y)) if weighted else None
    _, rho = class_distances(z, y, "fastft", flow_weights="uniform" if weights is None else weights)
    torch.testing.assert_close(rho, pair_loop(z, y, greedy_cost, weights))


@pytest.mark.parametrize("options", [{"order": "principal"}, {"order": "principal", "n_orders": 3}])
@pytest.mark.parametrize("weighted", [False, True])
def test_principal_orders_do_not_see_the_order_of_samples(options, weighted):
    z, y = random_batch(5, [6, 9, 4], width=8)
    weights = random_weights(0, len(y)) if weighted else torch.ones(len(y), dtype=z.dtype, device=DEVICE)
    shuffle = torch.randperm(len(y), generator=torch.Generator().manual_seed(1)).to(DEVICE)
    rho = [
        class_distances(z[rows], y[rows], "fastft", flow_weights=weights[rows], **options)[1]
        for rows in (slice(None), shuffle)
    ]
    torch.testing.assert_close(*rho)


def test_more_orders_are_never_dearer_and_never_below_emd():
    ot = pytest.importorskip("ot")
    z, y = random_batch(7, [12, 9, 10], width=6)

    def exact(x, t, a, b):
        return torch.as_tensor(ot.emd2(a.numpy(), b.numpy(), torch.cdist(x, t).numpy()))

    lower = pair_loop(z.cpu(), y.cpu(), exact).to(DEVICE)
    last = torch.full_like(lower, torch.inf)
    for n_orders in (1, 2, 4):
        _, rho = class_distances(z, y, "fastft", order="principal", n_orders=n_orders)
        assert (rho <= last + 1e-12).all()
        assert (rho >= lower - 1e-12).all()
        last = rho


def test_principal_order_finds_the_optimal_plan_on_a_line():
    z, y = random_batch(0, [9, 6], width=1)
    line = torch.cat((z, torch.zeros_like(z)), dim=1)
    _, rho = class_distances(line, y, "fastft", order="principal")
    _, sliced = class_distances(z, y, "swd", p=1, directions=torch.ones(1, 1, device=DEVICE))
    torch.testing.assert_close(rho, sliced)


def test_principal_directions_are_leading_eigenvectors():
    rng = np.random.default_rng(0)
    spread = np.diag([9.0, 4.0, 1.0, 0.5]) @ np.linalg.qr(rng.normal(size=(4, 4)))[0]
    labels = np.repeat(np.arange(4), 50)
    z = rng.normal(size=(200, 4)) @ spread + 20 * rng.normal(size=(4, 4))[labels]
    residual = z - np.stack([z[labels == c].mean(0) for c in range(4)])[labels]
    expected = np.linalg.svd(residual, full_matrices=False)[2][:2].T
    overlap = (principal_directions(torch.tensor(residual, device=DEVICE), 2).cpu().numpy() * expected).sum(0)
    np.testing.assert_allclose(np.abs(overlap), 1, atol=1e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"order": "random"}, "order must be one of batch, principal, got 'random'"),
        ({"n_orders": 2}, "n_orders must be 1 with order='batch', got 2"),
        ({"order": "principal", "n_orders": 0}, "got 0"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        FastFlowTree(**options)


def test_more_orders_than_dimensions_is_all_of_them():
    z, y = random_batch(3, [4, 4], width=2)
    two, many = (class_distances(z, y, "fastft", order="principal", n_orders=n)[1] for n in (2, 50))
    assert torch.equal(two, many)
