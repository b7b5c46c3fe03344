import copy
import itertools
import pickle
import sys
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cophenet import CPCCLoss, Hierarchy, cpcc
from cophenet.transport import L2
from support import DEVICE, double, random_batch, random_weights

TREE = Hierarchy.from_paths([(group, f"{group}{i}") for group in "abc" for i in range(3)])
floats = st.lists(st.floats(0, 10), min_size=3, max_size=20)


def pearson(rho, t):
    return torch.corrcoef(torch.stack((rho, t.to(rho))))[0, 1]


def batch_of_nine(seed=0, dtype=torch.float64):
    return random_batch(seed, [2, 3, 1, 2, 2, 3, 1, 2, 4], width=6, dtype=dtype)


@given(floats, st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_cpcc_is_pearsons_correlation(values, seed):
    rho = double(values).requires_grad_()
    t = double(np.random.default_rng(seed).choice([2.0, 4.0, 6.0], len(values)))
    if t.unique().numel() < 2 or rho.detach().std() < 1e-3:
        return
    r = cpcc(rho, t)
    reference = double(values).requires_grad_()
    expected = pearson(reference, t)
    torch.testing.assert_close(r, expected)
    r.backward()
    expected.backward()
    torch.testing.assert_close(rho.grad, reference.grad, atol=1e-9, rtol=1e-7)


@given(st.floats(1e-30, 1e30), st.floats(1e-6, 1e6))
@settings(max_examples=30, deadline=None)
def test_cpcc_does_not_see_scale(scale, stretch):
    rho = torch.tensor([1.0, 2.0, 2.5, 4.0], device=DEVICE)
    t = torch.tensor([2.0, 2.0, 4.0, 4.0], device=DEVICE)
    torch.testing.assert_close(cpcc(rho * scale, t * stretch), cpcc(rho, t))


@pytest.mark.parametrize(
    ("rho", "t", "reason"),
    [
        ([], [], "at least two class pairs, got 0"),
        ([1.0], [2.0], "at least two class pairs, got 1"),
        ([1.0, 1.0, 1.0], [2.0, 4.0, 4.0], "one side is constant"),
        ([1.0, 1.0 + 1e-13, 1.0], [2.0, 4.0, 4.0], "one side is constant"),
        ([1.0, 2.0, 3.0], [2.0, 2.0, 2.0], "one side is constant"),
        ([0.0, 0.0, 0.0], [2.0, 4.0, 4.0], "one side is constant"),
    ],
)
def test_undefined_cpcc_is_nan_and_says_so(rho, t, reason):
    with pytest.warns(RuntimeWarning, match=reason):
        assert cpcc(double(rho), double(t)).isnan()


@pytest.mark.parametrize(
    ("rho", "t", "message"),
    [
        (torch.ones(3), torch.ones(2), r"one shape \(P,\), got \(3,\) and \(2,\)"),
        (torch.ones(3, 3), torch.ones(3, 3), r"one shape \(P,\)"),
        (torch.ones(3).long(), torch.ones(3), "rho must be a floating-point tensor"),
        (torch.tensor([1.0, torch.nan, 2.0]), torch.ones(3), "rho must be finite"),
        (torch.ones(3), torch.tensor([1.0, torch.inf, 2.0]), "t must be finite"),
    ],
)
def test_bad_distances_are_named(rho, t, message):
    with pytest.raises(ValueError, match=message):
        cpcc(rho, t)


def test_loss_is_weight_times_one_minus_cpcc_on_any_subset_of_classes():
    z, y = batch_of_nine()
    for keep in (range(9), [7, 2, 5, 3], [0, 1, 8]):
        rows = torch.isin(y, torch.tensor(list(keep), device=DEVICE))
        means = [z[y == c].mean(0) for c in sorted(keep)]
        rho = torch.stack([(a - b).norm() for a, b in itertools.combinations(means, 2)])
        t = double(TREE.condensed(sorted(keep)))
        loss = CPCCLoss(TREE, "l2", weight=0.3)(z[rows], y[rows])
        torch.testing.assert_close(loss, 0.3 * (1 - pearson(rho, t)))


def test_level_regroups_samples_by_their_ancestor():
    tree = Hierarchy.from_paths(
        [("x", "a", "a1"), ("x", "a", "a2"), ("x", "b", "b1"), ("y", "c", "c1"), ("y", "d")]
    )
    z, y = random_batch(0, [2, 3, 2, 1, 4])
    loss = CPCCLoss(tree, "l2", level=2)(z, y)
    groups = torch.tensor([0, 0, 1, 2, 3], device=DEVICE)[y]
    means = [z[groups == g].mean(0) for g in range(4)]
    rho = torch.stack([(a - b).norm() for a, b in itertools.combinations(means, 2)])
    torch.testing.assert_close(loss, 1 - pearson(rho, double([2, 4, 4, 4, 4, 2])))
    with pytest.raises(ValueError, match=r"labels must lie in 0\.\.4"):
        CPCCLoss(tree, "l2", level=2)(z, y + 3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize(
    "classes",
    [[4], [0, 3], [0, 1, 2], [0, 3, 6]],
    ids=["one class", "one pair", "tree constant: siblings", "tree constant: strangers"],
)
@pytest.mark.parametrize("distance", ["l2", "fastft", "swd"])
def test_undefined_loss_is_exactly_the_weight_with_attached_zero_gradients(dtype, classes, distance):
    y = torch.tensor(classes, device=DEVICE).repeat(2)
    z = torch.randn(len(y), 4, generator=torch.Generator().manual_seed(0)).to(DEVICE, dtype).requires_grad_()
    loss = CPCCLoss(TREE, distance, weight=0.7)(z, y)
    assert loss.item() == pytest.approx(0.7, abs=1e-7)
    loss.backward()
    assert z.grad.dtype == dtype
    assert not z.grad.any()


def test_all_features_equal_is_undefined_not_nan():
    z = torch.ones(9, 4, device=DEVICE, requires_grad=True)
    loss = CPCCLoss(TREE, "fastft")(z, torch.arange(9, device=DEVICE))
    loss.backward()
    assert loss == 1
    assert not z.grad.any()


def test_weights_of_a_batch_go_to_forward():
    z, y = batch_of_nine()
    weights = random_weights(0, len(y))
    loss = CPCCLoss(TREE, "l2")(z, y, flow_weights=weights)
    means = [(weights[y == c] @ z[y == c]) / weights[y == c].sum() for c in range(9)]
    rho = torch.stack([(a - b).norm() for a, b in itertools.combinations(means, 2)])
    torch.testing.assert_close(loss, 1 - pearson(rho, double(TREE.condensed())))


def test_a_tree_too_large_for_a_table(monkeypatch):
    z, y = batch_of_nine()
    expected = CPCCLoss(TREE, "l2")(z, y)
    monkeypatch.setattr(sys.modules["cophenet.cpcc.loss"], "_TABLE_CLASSES", 4)
    torch.testing.assert_close(CPCCLoss(TREE, "l2")(z, y), expected)


def test_ten_thousand_classes_need_no_table():
    tree = Hierarchy.from_paths([(f"group{i // 100}", f"class{i}") for i in range(10_000)])
    loss = CPCCLoss(tree, "fastft")
    z, y = random_batch(0, [2] * 40, dtype=torch.float32)
    assert torch.isfinite(loss(z, y * 250))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weight": -1.0}, "weight must be finite and at least 0.0, got -1.0"),
        ({"weight": float("nan")}, "got nan"),
        ({"flow_weights": "even"}, "flow_weights must be one of uniform, distance, inverse, got 'even'"),
        ({"flow_weights": torch.ones(3)}, "masses of a batch go to forward"),
        ({"distance": "emdd"}, "got 'emdd'; did you mean 'emd'"),
        ({"distance": "sinkhorn", "rag": 1}, "distance 'sinkhorn' has no option 'rag'; its options are reg"),
        ({"distance": "l2", "p": 1}, "distance 'l2' has no option 'p'; it has none, beside distance, weight"),
        ({"distance": L2(), "p": 1}, "go with a distance given by name"),
    ],
)
def test_bad_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        CPCCLoss(TREE, **options)


def test_autocast_does_not_reach_inside():
    z, y = batch_of_nine(dtype=torch.float32)
    plain, mixed = z.clone().requires_grad_(), z.clone().requires_grad_()
    CPCCLoss(TREE, "fastft")(plain, y).backward()
    with torch.autocast(DEVICE.type, dtype=torch.bfloat16):
        loss = CPCCLoss(TREE, "fastft")(mixed, y)
        assert loss.dtype == torch.float32
        loss.backward()
    assert torch.equal(plain.grad, mixed.grad)


@pytest.mark.parametrize("distance", ["fastft", "swd"])
def test_pickle_copy_and_state_dict(distance):
    z, y = batch_of_nine()
    loss = CPCCLoss(TREE, distance, weight=0.5, level=None)
    loss(z, y)
    twins = [pickle.loads(pickle.dumps(loss)), copy.deepcopy(loss), CPCCLoss(TREE, distance, weight=0.5)]
    twins[2].load_state_dict(loss.state_dict())
    values = {criterion(z, y).item() for criterion in (*twins, loss)}
    assert len(values) == 1


def test_compiled_model_trains():
    z, y = batch_of_nine(dtype=torch.float32)
    layer = torch.nn.Linear(6, 6).to(DEVICE)
    criterion = CPCCLoss(TREE, "fastft")

    def step(x):
        return criterion(layer(x).relu(), y)

    expected = step(z)
    torch.compiler.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loss = torch.compile(step, backend="eager")(z)
    torch.testing.assert_close(loss, expected)
    loss.backward()
    assert layer.weight.grad.abs().sum() > 0


def test_the_loss_prints_what_it_is():
    text = repr(CPCCLoss(TREE, "fastft", weight=0.1, level=1))
    assert "classes=9, weight=0.1, flow_weights='uniform', level=1" in text


def test_a_weight_of_0_computes_no_distances():
    z, y = batch_of_nine()
    criterion = CPCCLoss(TREE, weight=0.0)
    criterion.distance.forward = None  # nothing that could be called
    z.requires_grad_()
    loss = criterion(z, y)
    loss.backward()
    assert loss.item() == 0
    assert not z.grad.any()
