"""On an accelerator a step reads from the device once. Shown on the host, by counting what reads."""

import sys

import pytest
import torch

from cophenet import CPCCLoss, Hierarchy
from cophenet.objectives import StepOutput, create, objective_names
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
    objective = create(name, TREE, **({} if name in ("flat", *distance_names()) else {"cpcc": "fastft"}))
    z, y = random_batch(0, [3, 2, 4, 1, 3, 2])
    z.requires_grad_()
    heads = {spec.name: torch.nn.Linear(5, spec.num_outputs, dtype=z.dtype) for spec in objective.heads}
    step = StepOutput(z, {key: head(z) for key, head in heads.items()}, y, heads)
    reads.clear()
    sum(objective(step).values()).backward()
    assert len([read for read in reads if read != "__bool__"]) <= 1
