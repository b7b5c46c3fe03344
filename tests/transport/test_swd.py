import copy
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cophenet.transport import SlicedWasserstein, class_distances, group_by_class
from support import DEVICE, double, golden, needs_shared, pair_loop, random_batch, random_weights


def pot_cost(p, directions):
    import ot

    def cost(x, y, a, b):
        return ot.sliced_wasserstein_distance(x, y, a, b, p=p, projections=directions)

    return cost


@given(
    st.lists(st.integers(1, 6), min_size=2, max_size=4),
    st.integers(0, 99),
    st.sampled_from([1, 2, 3]),
    st.booleans(),
)
@settings(max_examples=30, deadline=None)
def test_equals_pot_pair_by_pair(sizes, seed, p, weighted):
    z, y = random_batch(seed, sizes)
    directions = torch.randn(5, 4, generator=torch.Generator().manual_seed(seed), dtype=z.dtype).to(DEVICE)
    weights = random_weights(seed, len(y)) if weighted else None
    mine, other = z.clone().requires_grad_(), z.clone().requires_grad_()
    _, rho = class_distances(
        mine, y, "swd", p=p, directions=directions, flow_weights="uniform" if weights is None else weights
    )
    expected = pair_loop(other, y, pot_cost(p, directions), weights)
    torch.testing.assert_close(rho, expected, rtol=1e-9, atol=1e-9)
    rho.square().sum().backward()
    expected.square().sum().backward()
    torch.testing.assert_close(mine.grad, other.grad, rtol=1e-7, atol=1e-7)


@needs_shared
@pytest.mark.parametrize(
    "case", [c for c in golden("sliced.json") if c["name"].startswith("sliced")], ids=lambda c: c["name"]
)
def test_published_sliced_values(case):
    given_, expected = case["inputs"], case["expected"]
    x, y = double(given_["X"]).requires_grad_(), double(given_["Y"]).requires_grad_()
    labels = torch.tensor([0] * len(x) + [1] * len(y), device=DEVICE)
    _, rho = class_distances(
        torch.cat((x, y)),
        labels,
        "swd",
        p=given_["p"],
        directions=double(given_["projections_d_by_n"]),
        flow_weights=double(given_["a"] + given_["b"]),
    )
    assert rho.item() == pytest.approx(expected["value"], abs=1e-9)
    rho.sum().backward()
    torch.testing.assert_close(x.grad, double(expected["grad_X"]), rtol=0, atol=1e-7)
    torch.testing.assert_close(y.grad, double(expected["grad_Y"]), rtol=0, atol=1e-7)


def test_directions_are_drawn_anew_and_reproducibly():
    batch = group_by_class(*random_batch(0, [3, 4, 2]))
    one, two = SlicedWasserstein(), SlicedWasserstein()
    first, second = one(batch), one(batch)
    assert not torch.equal(first, second)
    assert torch.equal(first, two(batch))
    two.load_state_dict(one.state_dict())
    third = one(batch)
    assert torch.equal(two(batch), third)
    for twin in (copy.deepcopy(two), pickle.loads(pickle.dumps(two))):
        assert torch.equal(twin(batch), SlicedWasserstein.forward(copy.deepcopy(two), batch))
    seeded = [SlicedWasserstein(generator=torch.Generator().manual_seed(7))(batch) for _ in range(2)]
    assert torch.equal(*seeded)
    assert not torch.equal(seeded[0], first)


def test_many_projections_approach_a_constant_times_the_shift():
    z, y = random_batch(0, [6, 6], width=3)
    z[y == 1] = z[y == 0] + torch.tensor([3.0, 0, 0], dtype=z.dtype, device=DEVICE)
    _, rho = class_distances(z, y, "swd", n_projections=20000)
    assert rho.item() == pytest.approx(3 / 3**0.5, rel=0.02)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_projections": 0}, "n_projections must be a whole number of at least 1, got 0"),
        ({"p": 0.5}, "p must be finite and at least 1.0, got 0.5"),
        ({"p": float("nan")}, "p must be finite and at least 1.0, got nan"),
        (
            {"directions": torch.ones(3)},
            r"directions must be a finite floating-point tensor \(d, n_projections\), got shape \(3,\)",
        ),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        SlicedWasserstein(**options)


def test_directions_of_another_width_are_refused():
    z, y = random_batch(0, [2, 2])
    with pytest.raises(ValueError, match="directions are for features of width 3, got width 5"):
        class_distances(z, y, "swd", directions=torch.ones(3, 2, device=DEVICE))
