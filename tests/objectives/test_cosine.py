"""Cosine heads at every level with CPCC of unit vectors."""

import pytest
import torch
from torch.nn.functional import cross_entropy, normalize

from cophenet import CPCCLoss, Hierarchy
from cophenet.models import build_heads
from cophenet.objectives import StepOutput, create_objective
from support import DEVICE

TREE = Hierarchy.from_paths(
    [(f"k{c // 4}", f"g{c // 2}", f"c{c}") for c in range(8)], level_names=["kingdom", "group", "kind"]
)


def step_of(objective, count=24, width=6):
    torch.manual_seed(0)
    heads = build_heads(objective.heads, width).to(DEVICE)
    features = torch.randn(count, width, device=DEVICE)
    return StepOutput(features, heads(features), torch.arange(count, device=DEVICE) % 8, heads)


def test_the_loss_by_hand():
    objective = create_objective("cosine", TREE, scale=10.0, coarse_weight=0.6)
    step = step_of(objective)
    terms = objective(step)
    levels = {"kingdom": step.labels // 4, "group": step.labels // 2, "kind": step.labels}
    expected = {}
    for name, labels in levels.items():
        weight = step.heads[name].weight
        loss = cross_entropy(10 * normalize(step.features) @ normalize(weight).T, labels)
        expected["cross_entropy" if name == "kind" else f"cross_entropy/{name}"] = (
            loss if name == "kind" else 0.3 * loss
        )
    expected["cpcc"] = CPCCLoss(TREE, "fastft", 0.1, normalize=True)(step.features, step.labels)
    assert set(terms) == set(expected)
    for name, value in expected.items():
        torch.testing.assert_close(terms[name], value)
    assert objective.name == "cosine"


@pytest.mark.parametrize(
    ("cpcc", "name", "distance", "weight"),
    [
        (None, "cosine", "fastft", 0.1),
        ("l2", "cosine+l2", "l2", 0.1),
        ({"weight": 0.3}, "cosine", "fastft", 0.3),
        ({"weight": 0}, "cosine", "fastft", 0),
    ],
)
def test_cpcc_of_unit_vectors_unless_other_options_are_given(cpcc, name, distance, weight):
    objective = create_objective("cosine", TREE, cpcc=cpcc)
    criterion = objective.cpcc
    assert (objective.name, criterion.distance.name, criterion.weight) == (name, distance, weight)
    assert criterion.normalize


def test_heads_give_cosines():
    head = build_heads(create_objective("cosine", TREE, scale=3.0).heads, 5)["kind"]
    assert head.bias is None
    features = torch.randn(4, 5)
    torch.testing.assert_close(head(features * 7), head(features))
    assert head(features).abs().max() <= 3


def test_a_tree_of_one_level_has_no_coarse_term():
    tree = Hierarchy.from_paths([("a",), ("b",), ("c",)])
    objective = create_objective("cosine", tree)
    terms = objective(step_of_classes(objective))
    assert set(terms) == {"cross_entropy", "cpcc"}


def step_of_classes(objective):
    heads = build_heads(objective.heads, 4).to(DEVICE)
    features = torch.randn(6, 4, device=DEVICE)
    return StepOutput(features, heads(features), torch.arange(6, device=DEVICE) % 3, heads)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scale": 0}, "scale must be positive, or all logits are equal, got 0"),
        ({"scale": -1}, "scale must be .* got -1"),
        ({"coarse_weight": -0.5}, "coarse_weight must be .* got -0.5"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(ValueError, match=message):
        create_objective("cosine", TREE, **options)
