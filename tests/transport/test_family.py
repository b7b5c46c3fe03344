"""Invariants that every registered distance must satisfy, and what each one adds."""

import copy
import itertools
import pickle
import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cophenet import Hierarchy
from cophenet.transport import class_distances, create_distance, distance_names, group_by_class
from support import DEVICE, random_batch, random_weights

CLASSES = 12
TREE = Hierarchy.from_paths([(f"group{c // 3}", f"class{c}") for c in range(CLASSES)])
NAMES = sorted(distance_names())
PLANS = ["emd", "sinkhorn", "ft", "fastft"]
SIZES = [3, 1, 5, 2, 4]
# "through" is what a gradient check of sinkhorn can check; its default holds the plan constant.
EXACT_GRADIENT = {"sinkhorn": {"reg": 1.0, "differentiate": "through", "tolerance": 1e-13}}


def rho_of(name, z, y, **options):
    """Distances by a fresh object, so that the random ones draw alike."""
    return class_distances(z, y, name, tree=TREE, **options)[1]


def test_the_whole_family_is_here():
    assert set(NAMES) == {"l1", "l2", "poincare", "emd", "sinkhorn", "swd", "twd", "ft", "fastft", "bures"}


@pytest.mark.parametrize("weights", ["uniform", "distance", "inverse", "given"])
@pytest.mark.parametrize("name", NAMES)
def test_shapes_signs_and_gradients(name, weights):
    z, y = random_batch(0, SIZES)
    flow = random_weights(0, len(y)) if weights == "given" else weights
    z.requires_grad_()
    classes, rho = class_distances(z, y, name, flow_weights=flow, tree=TREE)
    assert classes.tolist() == list(range(5))
    assert rho.shape == (10,)
    assert (rho > 0).all()
    rho.square().sum().backward()
    assert torch.isfinite(z.grad).all()
    assert z.grad.abs().sum() > 0


@pytest.mark.parametrize("name", NAMES)
def test_no_pair_gives_no_distance_but_a_graph(name):
    z, y = random_batch(0, [3])
    z.requires_grad_()
    _, rho = class_distances(z, y, name, tree=TREE)
    assert rho.shape == (0,)
    rho.sum().backward()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("name", NAMES)
def test_lower_precision_input(name, dtype):
    z, y = random_batch(0, SIZES, dtype=dtype)
    z.requires_grad_()
    rho = rho_of(name, z, y)
    assert rho.dtype == torch.float32
    torch.testing.assert_close(rho.double(), rho_of(name, z.detach().double(), y), rtol=1e-3, atol=1e-4)
    rho.sum().backward()
    assert z.grad.dtype == dtype


@pytest.mark.parametrize("name", NAMES)
def test_features_may_be_changed_in_place_afterwards(name):
    z, y = random_batch(0, [3, 2, 4])  # few samples, and many below
    more, labels = random_batch(1, [20] * CLASSES)
    for features, classes in ((z, y), (z.repeat(2, 1), y.repeat(2)), (more, labels)):
        gradients = []
        for change in (torch.relu, torch.relu_):
            leaf = features.clone().requires_grad_()
            hidden = leaf * 2
            rho = rho_of(name, hidden, classes)
            (rho.sum() + change(hidden).sum()).backward()
            gradients.append(leaf.grad)
        torch.testing.assert_close(*gradients, rtol=0, atol=0)


@pytest.mark.parametrize("name", NAMES)
def test_a_distance_of_a_batch_is_the_same_under_autocast(name):
    z, y = random_batch(0, [8] * 5, dtype=torch.float32)
    distance, batch = create_distance(name, TREE), group_by_class(z, y)
    expected = copy.deepcopy(distance)(batch)
    with torch.autocast(DEVICE.type, dtype=torch.bfloat16):
        torch.testing.assert_close(distance(batch), expected, rtol=0, atol=0)


@pytest.mark.parametrize("name", NAMES)
def test_autocast_changes_nothing(name):
    z, y = random_batch(0, SIZES, dtype=torch.float32)
    plain, mixed = z.clone().requires_grad_(), z.clone().requires_grad_()
    rho = rho_of(name, plain, y)
    rho.sum().backward()
    with torch.autocast(DEVICE.type, dtype=torch.bfloat16):
        same = rho_of(name, mixed, y)
        same.sum().backward()
    assert torch.equal(rho, same)
    assert torch.equal(plain.grad, mixed.grad)


@pytest.mark.parametrize("name", [n for n in NAMES if n not in ("ft", "poincare")])
@given(seed=st.integers(0, 99), scale=st.floats(0.1, 10), shift=st.floats(-5, 5))
@settings(max_examples=8, deadline=None)
def test_scaling_and_translation(name, seed, scale, shift):
    z, y = random_batch(seed, [2, 3, 4])
    options = {"reg": 0.5, "relative": True} if name == "sinkhorn" else {}
    expected = rho_of(name, z, y, **options)
    torch.testing.assert_close(
        rho_of(name, scale * z + shift, y, **options), scale * expected, rtol=1e-6, atol=1e-8
    )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_relabelling_permutes_the_pairs(name, weighted):
    """Classes in another order: the same clouds, so the same distances."""
    z, y = random_batch(1, SIZES)
    weights = random_weights(1, len(y)) if weighted else torch.ones(len(y), dtype=z.dtype, device=DEVICE)
    table = torch.zeros(5, 5, dtype=z.dtype, device=DEVICE)
    # Siblings stay siblings, because twd sees the tree: classes 0-2 and 3-4 are two groups.
    new_names = torch.tensor([2, 0, 1, 4, 3], device=DEVICE)
    swapped = torch.zeros_like(table)
    for target, labels in ((table, y), (swapped, new_names[y])):
        rho = rho_of(name, z, labels, flow_weights=weights)
        for (u, v), value in zip(itertools.combinations(range(5), 2), rho, strict=True):
            target[u, v] = target[v, u] = value
    torch.testing.assert_close(swapped[new_names][:, new_names], table, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", NAMES)
def test_order_of_samples(name):
    """Between classes the order never matters; within them only where the distance says so."""
    z, y = random_batch(2, SIZES)
    rho = rho_of(name, z, y)
    by_class = y.argsort(stable=True)
    torch.testing.assert_close(rho_of(name, z[by_class], y[by_class]), rho)
    shuffle = torch.randperm(len(y), generator=torch.Generator().manual_seed(0)).to(DEVICE)
    if not create_distance(name, TREE).order_dependent:
        torch.testing.assert_close(rho_of(name, z[shuffle], y[shuffle]), rho)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ["emd", "sinkhorn", "ft", "fastft", "bures"])
def test_singleton_classes_equal_l2(name, weighted):
    z, y = random_batch(3, [1, 1, 1, 1])
    weights = random_weights(0, 4) if weighted else "uniform"
    torch.testing.assert_close(rho_of(name, z, y, flow_weights=weights), rho_of("l2", z, y))


@pytest.mark.parametrize("name", ["l2", "emd", "bures"])
@given(st.integers(0, 99))
@settings(max_examples=10, deadline=None)
def test_a_cloud_and_its_translate_are_the_shift_apart(name, seed):
    x, _ = random_batch(seed, [6])
    shift = torch.randn(5, generator=torch.Generator().manual_seed(seed), dtype=x.dtype).to(DEVICE)
    y = torch.arange(12, device=DEVICE) // 6
    rho = rho_of(name, torch.cat((x, x.flip(0) + shift)), y)
    torch.testing.assert_close(rho, shift.norm()[None], rtol=1e-6, atol=1e-6)


@given(st.integers(0, 99), st.booleans())
@settings(max_examples=15, deadline=None)
def test_plans_lie_between_weighted_l2_and_each_other(seed, weighted):
    z, y = random_batch(seed, [4, 2, 5])
    weights = random_weights(seed, len(y)) if weighted else "uniform"
    lower, exact = (rho_of(name, z, y, flow_weights=weights) for name in ("l2", "emd"))
    assert (lower <= exact + 1e-9).all()
    for name, options in (("sinkhorn", {}), ("ft", {}), ("fastft", {}), ("fastft", {"order": "principal"})):
        assert (exact <= rho_of(name, z, y, flow_weights=weights, **options) + 1e-9).all()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", PLANS)
def test_plans_have_their_marginals_and_their_cost(name, weighted):
    z, y = random_batch(4, SIZES)
    weights = random_weights(0, len(y)) if weighted else torch.ones(len(y), dtype=z.dtype, device=DEVICE)
    _, rho, plan = class_distances(z, y, name, flow_weights=weights, tree=TREE, return_plan=True)
    tolerance = 1e-6 if name == "sinkhorn" else 1e-12
    for pair, (u, v) in enumerate(itertools.combinations(range(5), 2)):
        part = slice(plan.offsets[pair], plan.offsets[pair + 1])
        source, target, mass = plan.source[part], plan.target[part], plan.mass[part]
        assert (y[source] == u).all()
        assert (y[target] == v).all()
        if name != "sinkhorn":
            assert len(mass) <= SIZES[u] + SIZES[v] - 1
        for index, c in ((source, u), (target, v)):
            marginal = torch.zeros(len(y), dtype=z.dtype, device=DEVICE).index_add(0, index, mass)[y == c]
            torch.testing.assert_close(
                marginal, weights[y == c] / weights[y == c].sum(), rtol=0, atol=tolerance
            )
        cost = (mass * (z[source] - z[target]).norm(dim=1)).sum()
        torch.testing.assert_close(rho[pair], cost, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", sorted(set(NAMES) - set(PLANS)))
def test_the_others_have_no_plan(name):
    z, y = random_batch(0, [2, 2])
    with pytest.raises(ValueError, match=f"distance '{name}' has no transport plan"):
        class_distances(z, y, name, tree=TREE, return_plan=True)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_gradient_is_that_of_the_value(name, weighted):
    z, y = random_batch(5, [2, 3, 1, 2], width=3)
    weights = random_weights(2, len(y)) if weighted else "uniform"
    options = EXACT_GRADIENT.get(name, {})

    def value(features):
        return rho_of(name, features, y, flow_weights=weights, **options)

    assert torch.autograd.gradcheck(value, z.requires_grad_(), atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_coincident_samples_have_finite_gradients(name):
    z = torch.ones(8, 3, dtype=torch.float64, device=DEVICE)
    z[5:] = 2.0
    z.requires_grad_()
    y = torch.tensor([0, 0, 1, 1, 2, 2, 3, 3], device=DEVICE)
    rho = rho_of(name, z, y)
    assert torch.isfinite(rho).all()
    rho.sum().backward()
    assert torch.isfinite(z.grad).all()


@pytest.mark.parametrize("name", NAMES)
def test_pickle_and_copy(name):
    batch = group_by_class(*random_batch(0, SIZES))
    distance = create_distance(name, TREE)
    for twin in (copy.deepcopy(distance), pickle.loads(pickle.dumps(distance))):
        torch.testing.assert_close(twin(batch), copy.deepcopy(distance)(batch), rtol=0, atol=0)


@pytest.mark.parametrize("name", NAMES)
def test_float32_on_tight_classes_far_from_the_centre(name):
    """Values against float64 on the same numbers; plans may flip at near-ties, costs hardly move."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(24, device=DEVICE) // 6
    centres = torch.randn(4, 32, generator=generator)
    for spread, offset in ((1.0, 1e3), (1e-4, 100.0)):
        cloud = offset * torch.ones(32) / 32**0.5 + 10 * spread * centres.repeat_interleave(6, 0)
        z = (cloud + spread * torch.randn(24, 32, generator=generator)).to(DEVICE)
        options = {"reg": 0.5, "relative": True} if name == "sinkhorn" else {}
        exact = rho_of(name, z.double(), y, **options)
        torch.testing.assert_close(rho_of(name, z, y, **options).double(), exact, rtol=1e-4, atol=0)


@pytest.mark.parametrize("name", NAMES)
def test_the_docstring_has_a_formula_and_a_source(name):
    text = type(create_distance(name, TREE)).__doc__
    assert "rho(u, v)" in text
    assert re.search(r"arXiv:\d{4}\.\d{4,5}|doi:10\.", text)


@pytest.mark.parametrize("name", NAMES)
def test_only_what_calls_leave_as_it_is_serves_all_of_them(name):
    distance = create_distance(name, TREE)
    before = {key: repr(value) for key, value in vars(distance).items()}
    for seed in range(2):
        distance(group_by_class(*random_batch(seed, [3, 1, 4], 6)))
    if distance.stateless:
        assert {key: repr(value) for key, value in vars(distance).items()} == before
        assert not hasattr(distance, "generator")
