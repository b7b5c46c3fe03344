"""On an accelerator a step reads from the device once. Shown on the host, by counting what reads."""

import copy
import math
import pickle
import sys

import pytest
import torch
from benchmarks.pretend_device import PretendDevice

from cophenet import CPCCLoss, Hierarchy
from cophenet.objectives import StepOutput, create_objective, objective_names
from cophenet.runs.loss_meter import Meter
from cophenet.transport import distance_names
from support import random_batch, random_weights

TREE = Hierarchy.from_paths([(f"group{c // 3}", f"class{c}") for c in range(6)])
READERS = ("cpu", "item", "tolist", "nonzero", "unique", "__bool__", "__int__", "__float__", "__index__")
# numpy() of a host tensor is a view, so it is not counted: on a device it cannot be called at all.
CASES = [
    (name, {}) for name in ("l2", "l1", "poincare", "fastft", "swd", "twd", "ft", "sinkhorn", "bures")
] + [("fastft", {"order": "principal", "n_orders": 2}), ("twd", {"fit": "pair"})]


@pytest.fixture
def reads(monkeypatch):
    """Names of the reading calls made while the code believes its tensors are on a device."""
    seen = []
    for name in READERS:
        original = getattr(torch.Tensor, name)

        def counted(self, *args, _name=name, _original=original, **kwargs):
            seen.append(_name)
            return _original(self, *args, **kwargs)

        monkeypatch.setattr(torch.Tensor, name, counted)
    for name, module in list(sys.modules.items()):
        if name.startswith("cophenet.transport") and hasattr(module, "is_host"):
            monkeypatch.setattr(module, "is_host", lambda _: False)
    return seen


@pytest.mark.parametrize("weights", ["uniform", "distance", "given"])
@pytest.mark.parametrize(("name", "options"), CASES, ids=[f"{n}-{'-'.join(map(str, o))}" for n, o in CASES])
def test_one_transfer_and_the_same_loss(reads, name, options, weights, monkeypatch):
    z, y = random_batch(0, [3, 2, 4, 1, 3, 2])
    given = random_weights(0, len(y)) if weights == "given" else None
    scheme = "uniform" if weights == "given" else weights
    z.requires_grad_()
    criterion = CPCCLoss(TREE, name, flow_weights=scheme, **options)
    reads.clear()
    loss = criterion(z, y, given)
    loss.backward()
    # Checking the flags that came with the transfer reads host memory.
    assert reads.count("cpu") == 1
    assert set(reads) <= {"cpu", "__bool__"}
    assert reads.count("__bool__") <= 2
    monkeypatch.undo()
    other = z.detach().clone().requires_grad_()
    expected = CPCCLoss(TREE, name, flow_weights=scheme, **options)(other, y, given)
    expected.backward()
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(z.grad, other.grad)


@pytest.mark.parametrize("name", sorted(set(objective_names()) - {"emd"}))
def test_one_transfer_per_objective(reads, name):
    objective = create_objective(
        name, TREE, **({} if name in ("flat", *distance_names()) else {"cpcc": "fastft"})
    )
    z, y = random_batch(0, [3, 2, 4, 1, 3, 2])
    z.requires_grad_()
    heads = {spec.name: torch.nn.Linear(5, spec.num_outputs, dtype=z.dtype) for spec in objective.heads}
    step = StepOutput(z, {key: head(z) for key, head in heads.items()}, y, heads)
    reads.clear()
    sum(objective(step).values()).backward()
    assert len([read for read in reads if read != "__bool__"]) <= 1


def step_on_a_device(criterion, z, labels, weights=None, on_host=True, plan=False):
    """Loss and gradient of a step on a device that is none, and what it counted."""
    with PretendDevice() as device:
        features = device.upload(z)
        given = None if weights is None else device.upload(weights)
        one = device.upload(torch.ones((), dtype=z.dtype))
        labels = criterion.prepare(labels) if plan else labels if on_host else device.upload(labels)
        loss = criterion(features, labels, given)
        (grad,) = torch.autograd.grad(loss, features, one)
    return loss.held.detach(), grad.held, device.counts


@pytest.mark.parametrize("weights", ["uniform", "distance", "given"])
@pytest.mark.parametrize(("name", "options"), CASES, ids=[f"{n}-{'-'.join(map(str, o))}" for n, o in CASES])
def test_labels_on_the_host_need_no_wait_and_give_the_same_bits(name, options, weights):
    z, y = random_batch(0, [3, 2, 4, 1, 3, 2])
    z = z.float().requires_grad_()
    given = random_weights(0, len(y)).float() if weights == "given" else None
    scheme = "uniform" if weights == "given" else weights
    results, waits = [], []
    for way in ({"on_host": False}, {}, {"plan": True}):
        criterion = CPCCLoss(TREE, name, flow_weights=scheme, **options)
        *result, counts = step_on_a_device(criterion, z, y, given, **way)
        results.append(result)
        waits.append([wait for wait in counts.waits if not wait.startswith("_linalg")])
    assert waits == [["download"], *([["download"]] * 2 if name == "ft" else [[]] * 2)]
    for result in results[1:]:
        torch.testing.assert_close(result, results[0], rtol=0, atol=0)
    expected = CPCCLoss(TREE, name, flow_weights=scheme, **options)(z, y, given)
    torch.testing.assert_close(results[0][0], expected.detach(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(results[0][1], torch.autograd.grad(expected, z)[0], rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize(("name", "most"), [("l2", 40), ("fastft", 60)])
def test_few_operations_are_dispatched_and_one_transfer_goes_each_way(name, most):
    z, y = random_batch(0, [3, 2, 4, 1, 3, 2])
    *_, counts = step_on_a_device(CPCCLoss(TREE, name), z.float().requires_grad_(), y)
    assert len(counts.operations) <= most
    assert len(counts.uploads) == len(counts.downloads) == 1
    assert counts.downloads[0] == 4


@pytest.mark.parametrize(("name", "waits"), [("bures", 1), ("sinkhorn", 0)])
def test_uneven_classes_cost_a_device_no_more_operations_and_waits(name, waits):
    tree = Hierarchy.from_paths([(f"group{c // 5}", f"class{c}") for c in range(60)])
    counted = []
    for sizes in ([8] * 60, [1 + c % 16 for c in range(60)]):
        z, y = random_batch(0, sizes, 32)
        *_, counts = step_on_a_device(CPCCLoss(tree, name), z.float().requires_grad_(), y)
        counted.append((len(counts.operations), len(counts.waits)))
    assert counted == [(counted[0][0], waits)] * 2


@pytest.mark.parametrize("name", ["l2", "l1", "poincare", "fastft", "swd", "twd", "sinkhorn"])
@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_what_is_not_finite_is_told_in_the_next_step(name, wrong):
    z, y = random_batch(0, [3, 2, 4, 1, 3, 2])
    criterion, bad = CPCCLoss(TREE, name), z.clone().requires_grad_()
    step_on_a_device(criterion, z.requires_grad_(), y)
    with torch.no_grad():
        bad[4, 1] = wrong
    assert step_on_a_device(criterion, bad, y)[0].isnan()
    match = r"features must be finite, got NaN or inf in step 2 of this loss, as read .* in step 3"
    with pytest.raises(ValueError, match=match):
        step_on_a_device(criterion, z, y)
    assert step_on_a_device(criterion, z, y)[0].isfinite()  # told once


def test_flow_weights_that_are_wrong_are_told_in_the_next_step():
    z, y = random_batch(0, [3, 2, 4, 1, 3, 2])
    criterion, z = CPCCLoss(TREE, "l2"), z.requires_grad_()
    step_on_a_device(criterion, z, y, torch.full((len(y),), -1.0))
    for same in (copy.deepcopy(criterion), pickle.loads(pickle.dumps(criterion)), criterion):
        with pytest.raises(ValueError, match=r"flow_weights must be finite, not negative.*in step 1 of"):
            step_on_a_device(same, z, y)


@pytest.mark.parametrize("name", ["l2", "fastft", "swd", "sinkhorn"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("share", [-0.999, 0.0, 0.98])
def test_features_of_any_size_without_a_look_at_them(name, dtype, share):
    z, y = random_batch(0, [3, 2, 4, 1, 3, 2])
    scale = 2.0 ** round(share * (126 if dtype == torch.float32 else 1022))
    options = {"relative": True} if name == "sinkhorn" else {}
    big = (z.to(dtype) * scale).requires_grad_()
    loss, grad, counts = step_on_a_device(CPCCLoss(TREE, name, **options), big, y)
    near = z.to(dtype).requires_grad_()
    expected = CPCCLoss(TREE, name, **options)(near, y)
    assert not counts.waits
    torch.testing.assert_close(loss, expected.detach(), rtol=1e-5, atol=1e-6)
    slope = torch.autograd.grad(expected, near)[0].double() / scale
    largest = torch.finfo(dtype).max
    torch.testing.assert_close(
        grad.double(), slope.clamp(-largest, largest), rtol=1e-3, atol=1e-4 * slope.abs().max().item()
    )


@pytest.mark.parametrize("name", ["l2", "fastft"])
def test_collapsed_features_and_one_class_cost_the_weight(name):
    y = torch.tensor([0, 1, 2, 3, 3])
    for z, labels in ((torch.ones(5, 4), y), (torch.zeros(5, 4), y), (torch.rand(5, 4), torch.ones_like(y))):
        loss, grad, counts = step_on_a_device(CPCCLoss(TREE, name, weight=0.5), z.requires_grad_(), labels)
        assert loss == 0.5
        assert not grad.any()
        assert not counts.waits


@pytest.mark.parametrize("name", ["l2", "fastft", "swd"])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_memory_needs_no_wait_with_labels_on_the_host(name, weighted):
    results = []
    for way, waits in (({"on_host": False}, ["download"]), ({}, []), ({"plan": True}, [])):
        criterion, seen = CPCCLoss(TREE, name, memory=24, memory_age=2, level=None), []
        for step in range(4):
            z, y = random_batch(step, [3, 2, 4, 1, 3, 2])
            weights = random_weights(step, len(y)).float() if weighted else None
            *result, counts = step_on_a_device(criterion, z.float().requires_grad_(), y, weights, **way)
            seen.append(result)
            assert step == 0 or counts.waits == waits  # at first the memory itself goes to the device
        results.append(seen)
    assert results[0][3][1].any()
    for other in results[1:]:
        torch.testing.assert_close(other, results[0], rtol=0, atol=0)


def test_a_memory_forgets_what_turns_out_to_be_wrong():
    z, y = random_batch(0, [3, 2, 4, 1, 3, 2])
    criterion, z = CPCCLoss(TREE, "fastft", memory=60), z.requires_grad_()
    step_on_a_device(criterion, z, y)
    step_on_a_device(criterion, (z.detach() * math.nan).requires_grad_(), y)
    with pytest.raises(ValueError, match="got NaN or inf in step 2 of this loss"):
        step_on_a_device(criterion, z, y)
    for _ in range(2):
        assert step_on_a_device(criterion, z, y)[0].isfinite()


def objective_on_a_device(objective, z, y, on_host):
    """Terms of an objective, and the gradient of their sum, on a device that is none; and its waits."""
    torch.manual_seed(0)
    weights = {spec.name: torch.randn(spec.num_outputs, z.shape[1]) for spec in objective.heads}
    with PretendDevice() as device:
        for module in objective.modules():
            for name, buffer in list(module._buffers.items()):
                module._buffers[name] = buffer if buffer is None else device.upload(buffer)
        features, one = device.upload(z), device.upload(torch.ones(()))
        heads = {}
        for name, weight in weights.items():
            heads[name] = torch.nn.Module()
            heads[name].weight = device.upload(weight)
        logits = {name: features @ head.weight.T for name, head in heads.items()}
        terms = objective(StepOutput(features, logits, y if on_host else device.upload(y), heads))
        total = sum(terms.values())
        (grad,) = torch.autograd.grad(total, features, one.to(total.dtype))
    return {name: term.held.detach() for name, term in terms.items()}, grad.held, device.counts.waits


@pytest.mark.parametrize("name", objective_names())
def test_objectives_need_no_wait_with_labels_on_the_host(name):
    z, y = random_batch(0, [3, 2, 4, 1, 3, 2])
    z, options = z.float().requires_grad_(), {} if name in ("flat", *distance_names()) else {"cpcc": "fastft"}
    results = [
        objective_on_a_device(create_objective(name, TREE, **options), z, y, way) for way in (False, True)
    ]
    torch.testing.assert_close(results[1][:2], results[0][:2], rtol=0, atol=0)
    expected = ["download"] if name in ("emd", "ft") else []
    assert [wait for wait in results[1][2] if not wait.startswith("_linalg")] == expected
    assert "download" in results[0][2]


def test_an_objective_tells_in_the_next_step_of_features_that_are_not_finite():
    objective, (z, y) = create_objective("rank", TREE), random_batch(0, [3, 2, 4, 1, 3, 2])
    objective_on_a_device(objective, (z.float() * math.inf).requires_grad_(), y, True)
    with pytest.raises(ValueError, match="features must be finite, got NaN or inf in step 1 of"):
        objective_on_a_device(objective, z.float().requires_grad_(), y, True)


def test_the_meter_of_a_training_waits_for_nothing():
    meter = Meter()
    with PretendDevice() as device:
        for step, loss in enumerate((1.0, 3.0, math.nan)):
            meter.add(step, {"cross_entropy": device.upload(torch.tensor(loss))}, samples=8)
    assert not device.counts.waits
    assert meter.latest == {"cross_entropy": 3.0}
    with pytest.raises(ArithmeticError, match="'cross_entropy' became nan in step 2"):
        meter.check()


def test_prepared_labels_are_for_one_loss_and_one_size():
    z, y = random_batch(0, [3, 2, 4, 1, 3, 2])
    criterion = CPCCLoss(TREE, "fastft", level=1)
    plan = criterion.prepare(y)
    assert criterion(z, plan) == criterion(z, y)
    with pytest.raises(ValueError, match=r"labels must have shape \(14,\), got \(15,\)"):
        criterion(z[1:], plan)
    with pytest.raises(ValueError, match=r"prepared by the loss that is to use them.* another loss"):
        CPCCLoss(TREE, "fastft", level=1)(z, plan)
    criterion.weight = 2.0
    with pytest.raises(ValueError, match=r"weight 1\.0, now 2\.0"):
        criterion(z, plan)
    with pytest.raises(ValueError, match=r"labels must lie in 0\.\.5, the classes of the tree, got 6"):
        criterion.prepare(y + 1)
    with pytest.raises(ValueError, match="labels must be integers of shape"):
        criterion.prepare(y.float())
