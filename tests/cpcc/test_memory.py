"""The cross-batch memory against a plain list of what was seen."""

import copy
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cophenet import CPCCLoss
from cophenet.cpcc.memory import FeatureMemory
from cophenet.objectives import create_objective
from cophenet.transport import distance_names
from distributed_cases import TREE
from support import DEVICE, random_weights


def batches(count, size=12, dtype=torch.float64, width=5):
    steps = []
    for seed in range(count):
        generator = torch.Generator().manual_seed(seed)
        y = torch.randint(9, (size,), generator=generator).to(DEVICE)
        z = torch.randn(size, width, generator=generator, dtype=torch.float64).to(DEVICE, dtype)
        steps.append((z + 2 * torch.eye(9, width, device=DEVICE, dtype=dtype)[y], y))
    return steps


class SlowMemory:
    """Lists of (step, features, weight) by class; the newest `places`, in the order of their places."""

    def __init__(self, places, max_age):
        self.places, self.max_age, self.step = places, max_age, 0
        self.slots = [[None] * places for _ in range(9)]
        self.written = [0] * 9

    def recall(self):
        return [
            (c, z, w)
            for c, row in enumerate(self.slots)
            for entry in row
            if entry is not None
            for step, z, w in [entry]
            if self.step - step <= self.max_age
        ]

    def store(self, z, y, weights):
        for row, c, w in zip(z, y.tolist(), weights, strict=True):
            self.slots[c][self.written[c] % self.places] = (self.step, row.detach().clone(), w)
            self.written[c] += 1
        self.step += 1


@given(st.integers(0, 999), st.integers(1, 4), st.integers(1, 5))
@settings(max_examples=40, deadline=None)
def test_holds_the_newest_of_every_class(seed, places, max_age):
    generator = torch.Generator().manual_seed(seed)
    memory, slow = FeatureMemory(9, 9 * places + 3, max_age), SlowMemory(places, max_age)
    for _ in range(6):
        size = int(torch.randint(1, 25, (), generator=generator))
        y = torch.randint(9, (size,), generator=generator)
        z, w = torch.randn(size, 3, generator=generator), torch.rand(size, generator=generator)
        memory.store(z, y.numpy(), w)
        slow.store(z, y, w)
        recalled = memory.recall(z)
        expected = slow.recall()
        assert recalled.classes.tolist() == [c for c, *_ in expected]
        rows = recalled.features[recalled.rows]
        torch.testing.assert_close(rows, torch.stack([row for _, row, _ in expected]))
        assert recalled.weights[recalled.rows].tolist() == pytest.approx([float(v) for *_, v in expected])


def batch_shares(y, labels, mass, old_mass):
    """The batch's share of the mass of the class, for every sample of the batch."""
    own = torch.ones(len(y), dtype=torch.float64, device=DEVICE) if mass is None else mass
    every = torch.cat((own, torch.ones_like(old_mass) if mass is None else old_mass))
    shares = [own[y == c].sum() / every[labels == c].sum() for c in y.tolist()]
    return torch.stack(shares)


@pytest.mark.parametrize("weights", ["uniform", "distance", "given"])
@pytest.mark.parametrize("name", distance_names())
def test_loss_is_that_of_batch_and_memory(name, weights):
    scheme = "uniform" if weights == "given" else weights
    criterion = CPCCLoss(TREE, name, flow_weights=scheme, memory=20, memory_age=2)
    plain, slow = CPCCLoss(TREE, name, flow_weights=scheme), SlowMemory(2, 2)
    for step, (z, y) in enumerate(batches(5)):
        mass = random_weights(step, len(y)) if weights == "given" else None
        z.requires_grad_()
        criterion(z, y, mass).backward()
        old = slow.recall()
        both = z.detach().clone().requires_grad_()
        rows = torch.cat((both, *(row[None] for _, row, _ in old)))
        labels = torch.cat((y, torch.tensor([c for c, *_ in old], dtype=torch.int64, device=DEVICE)))
        old_mass = torch.tensor([float(w) for *_, w in old], dtype=torch.float64, device=DEVICE)
        expected = plain(rows, labels, None if mass is None else torch.cat((mass, old_mass)))
        expected.backward()
        assert z.grad.norm() > 0
        share = batch_shares(y, labels, mass, old_mass)
        torch.testing.assert_close(z.grad, both.grad / share[:, None], rtol=1e-8, atol=1e-12)
        slow.store(z, y, torch.ones(len(y)) if mass is None else mass)


@pytest.mark.parametrize("name", ["fastft", "emd"])
def test_gradients_by_difference_leave_out_what_is_constant(name, monkeypatch):
    (old, labels), (z, y) = batches(2)
    found = []
    for gram in (True, False):
        monkeypatch.setattr("cophenet.transport.ground._use_gram", lambda *_, gram=gram: gram)
        criterion, fresh = CPCCLoss(TREE, name, memory=90), z.clone().requires_grad_()
        criterion(old, labels)
        criterion(fresh, y).backward()
        found.append(fresh.grad)
    assert found[0].norm() > 0
    torch.testing.assert_close(*found)


def test_level_remembers_groups():
    criterion = CPCCLoss(TREE, "l2", level=1, memory=7)
    assert (criterion.memory.num_classes, criterion.memory.places) == (3, 2)
    (z, y), (later, labels) = batches(2)
    criterion(z, y)
    kept = [row for g in range(3) for row in reversed((z[y // 3 == g])[-2:])]
    classes = [3 * g for g in range(3) for _ in (z[y // 3 == g])[-2:]]
    rows = torch.cat((later, torch.stack(kept)))
    expected = CPCCLoss(TREE, "l2", level=1)(rows, torch.cat((labels, torch.tensor(classes, device=DEVICE))))
    torch.testing.assert_close(criterion(later, labels), expected)


def test_evaluation_uses_and_stores_nothing():
    criterion = CPCCLoss(TREE, "fastft", memory=90)
    (z, y), other = batches(2)
    criterion(z, y)
    before = copy.deepcopy(criterion.state_dict())
    value = criterion.eval()(*other)
    torch.testing.assert_close(value, CPCCLoss(TREE, "fastft")(*other))
    after = criterion.state_dict()["memory._extra_state"]
    assert all(torch.equal(after[key], part) for key, part in before["memory._extra_state"].items())


def test_a_wrong_batch_leaves_no_trace():
    criterion = CPCCLoss(TREE, "fastft", memory=90)
    (z, y), (later, labels) = batches(2)
    wide = torch.zeros(3, 8, dtype=torch.float64, device=DEVICE)
    with pytest.raises(ValueError, match=r"labels must lie in 0\.\.8, the classes of the tree, got 11"):
        criterion(wide, torch.tensor([0, 11, 2], device=DEVICE))
    criterion(z, y)
    before = copy.deepcopy(criterion.state_dict()["memory._extra_state"])
    with pytest.raises(ValueError, match=r"NaN or inf in 12 of 12 samples \(first: sample 0\)"):
        criterion(z * torch.nan, y)
    with pytest.raises(ValueError, match=r"got -1"):
        criterion(z, y * 0 - 1)
    with pytest.raises(ValueError, match=f"got {2**63 - 1}"):
        criterion(z, y * 0 + 2**63 - 1)
    with pytest.raises(ValueError, match="features must have the width 5 of those in memory, got 8"):
        criterion(wide, torch.tensor([0, 1, 2], device=DEVICE))
    after = criterion.state_dict()["memory._extra_state"]
    assert all(torch.equal(after[key], part) for key, part in before.items())
    assert torch.isfinite(criterion(later, labels))


@pytest.mark.parametrize("name", ["fastft", "swd"])
@pytest.mark.parametrize("way", ["state_dict", "pickle", "deepcopy", "file"])
def test_resumed_is_bitwise_the_same(name, way, tmp_path):
    steps = batches(6)
    criterion = CPCCLoss(TREE, name, memory=40, memory_age=3)
    for z, y in steps[:3]:
        criterion(z, y)
    if way == "pickle":
        twin = pickle.loads(pickle.dumps(criterion))
    elif way == "deepcopy":
        twin = copy.deepcopy(criterion)
    else:
        state = criterion.state_dict()
        if way == "file":
            torch.save(state, tmp_path / "state.pt")
            state = torch.load(tmp_path / "state.pt", weights_only=True)
        twin = CPCCLoss(TREE, name, memory=40, memory_age=3)
        twin.load_state_dict(state)
    for z, y in steps[3:]:
        assert torch.equal(twin(z, y), criterion(z, y))


def test_memories_of_other_sizes_are_refused():
    state = CPCCLoss(TREE, "l2", memory=40).state_dict()
    with pytest.raises(ValueError, match="memory of 45 weights cannot be loaded from one of 36"):
        CPCCLoss(TREE, "l2", memory=45).load_state_dict(state)
    with pytest.raises(ValueError, match="without features, weights, stored, written, step"):
        CPCCLoss(TREE, "l2", memory=45).memory.set_extra_state({})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"memory": 8}, "memory must have a place for each of 9 classes, got 8; 0 for none"),
        ({"memory": -1}, "memory must be a whole number of at least 0, got -1"),
        ({"memory": 2.5}, "memory must be a whole number of at least 0, got 2.5"),
        ({"memory": 90, "memory_age": 0}, "memory_age must be a whole number of at least 1, got 0"),
        ({"gather": "some"}, "gather must be one of all, none, got 'some'"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        CPCCLoss(TREE, "l2", **options)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_half_precision_and_casts(dtype):
    criterion, steps = CPCCLoss(TREE, "fastft", memory=90), batches(3, dtype=dtype)
    exact = CPCCLoss(TREE, "fastft", memory=90)
    for z, y in steps:
        criterion.half()
        loss = criterion(z, y)
        assert loss.dtype == torch.float32
        assert torch.equal(loss, exact(z.float(), y))
    assert criterion.memory.features.dtype == torch.float32


def test_objectives_and_recipes_take_it():
    objective = create_objective("fastft", TREE, memory=90, memory_age=7, gather="none")
    assert (objective.criterion.memory.places, objective.criterion.memory.max_age) == (10, 7)
    assert objective.gather == objective.criterion.gather == "none"
    added = create_objective("rank", TREE, cpcc={"distance": "l2", "memory": 90}, gather="none")
    assert (added.gather, added.criterion.gather, added.criterion.memory.places) == ("none", "none", 10)
    assert create_objective("rank", TREE, gather="none").gather == "none"
    with pytest.raises(ValueError, match="gather must be one of all, none, got 'no'"):
        create_objective("rank", TREE, gather="no")


def test_one_transfer_with_memory(monkeypatch):
    from test_transfers import READERS

    seen = []
    for name in READERS:
        original = getattr(torch.Tensor, name)
        monkeypatch.setattr(
            torch.Tensor,
            name,
            lambda self, *a, _n=name, _o=original, **k: (seen.append(_n), _o(self, *a, **k))[1],
        )
    for module in ("batch", "grouping", "ground"):
        monkeypatch.setattr(f"cophenet.transport.{module}.is_host", lambda _: False)
    criterion = CPCCLoss(TREE, "fastft", memory=40)
    for z, y in batches(3):
        seen.clear()
        criterion(z.requires_grad_(), y).backward()
        assert seen.count("cpu") == 1
        assert set(seen) <= {"cpu", "__bool__"}


@pytest.mark.parametrize("name", ["l2", "fastft"])
def test_a_memory_of_the_batch_itself_changes_no_gradient(name):
    """Every sample twice: the same clouds, so the same distances and the same gradient as without memory."""
    z, y = batches(1)[0]
    one, other = z.clone().requires_grad_(), z.clone().requires_grad_()
    CPCCLoss(TREE, name)(one, y).backward()
    criterion = CPCCLoss(TREE, name, memory=900)
    criterion(z, y)
    criterion(other, y).backward()
    if name == "l2":
        torch.testing.assert_close(other.grad, one.grad)
    assert other.grad.norm() / one.grad.norm() == pytest.approx(1, abs=0.2)
