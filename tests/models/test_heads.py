"""Heads by any name, and the network that an objective reads."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch

from cophenet import Hierarchy
from cophenet.models import Heads, Network, build_heads, create_backbone
from cophenet.objectives import HeadSpec, StepOutput, create_objective, objective_names

NAMES = ("sp.", "sp%2E", "a.b", "type", "training", "", "keys", "forward", "_modules", "Überfamilie 1")


def specs(*names: str) -> list[HeadSpec]:
    return [HeadSpec(name, 1, 2 + i) for i, name in enumerate(names)]


def test_any_level_name() -> None:
    heads = build_heads(specs(*NAMES), 4)
    assert tuple(heads) == NAMES
    assert len(heads) == len(NAMES) == len(list(heads.children()))
    logits = heads(torch.zeros(3, 4))
    assert {name: values.shape[1] for name, values in logits.items()} == {
        n: 2 + i for i, n in enumerate(NAMES)
    }
    assert "sp." in heads
    assert "sp" not in heads
    assert not any(name.count(".") > 1 for name in heads.state_dict())


def test_heads_survive_copies_and_files() -> None:
    heads = build_heads(specs(*NAMES), 4)
    other = build_heads(specs(*NAMES), 4)
    other.load_state_dict(heads.state_dict())
    for again in (copy.deepcopy(heads), pickle.loads(pickle.dumps(heads)), other):
        features = torch.randn(2, 4)
        for name, logits in again(features).items():
            assert torch.equal(logits, heads[name](features))


def test_heads_are_modules_first() -> None:
    heads, other = build_heads(specs("a"), 4), Heads({})
    assert heads != copy.deepcopy(heads)
    assert {heads, heads, other} == {other, heads}
    assert len(other) == 0


def test_normalized_rows() -> None:
    (head,) = build_heads([HeadSpec("kind", 1, 5, normalize_rows=True)], 3).values()
    features = torch.randn(7, 3, dtype=torch.float32)
    rows = head.weight / head.weight.norm(dim=1, keepdim=True)
    torch.testing.assert_close(head(features), features @ rows.T + head.bias)
    before = head(features)
    with torch.no_grad():
        head.weight.mul_(10)
    torch.testing.assert_close(head(features), before)


def test_two_heads_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="got 'a' twice"):
        build_heads(specs("a", "a"), 4)


def test_heads_must_fit_the_backbone() -> None:
    backbone = create_backbone("identity", input_shape=(4,))
    with pytest.raises(ValueError, match="'a' takes 5 features, the backbone gives 4"):
        Network(backbone, build_heads(specs("a"), 5))


@pytest.mark.parametrize("name", objective_names())
def test_every_objective_trains_a_network(name: str) -> None:
    torch.manual_seed(0)
    paths = [("pet", "cat"), ("pet", "dog"), ("car", "bus"), ("car", "van")]
    tree = Hierarchy.from_paths(paths, level_names=["gr.oup", "kind"])
    objective = create_objective(name, tree)
    backbone = create_backbone("resnet10-w8", input_shape=(1, 8, 8), stem="cifar")
    network = Network(backbone, build_heads(objective.heads, backbone.num_features))
    labels = torch.arange(12) % 4
    phase = len(objective.phases) - 1
    step = StepOutput(*network(torch.randn(12, 1, 8, 8)), labels, network.heads, phase)
    sum(objective(step).values(), torch.zeros(())).backward()  # type: ignore[no-untyped-call]
    assert all(parameter.grad is not None for parameter in backbone.parameters())
