"""The quadruplet loss against its authors' numbers and a loop over anchors."""

import pytest
import torch
from torch.autograd import gradcheck
from torch.nn.functional import cross_entropy, normalize

from cophenet import Hierarchy
from cophenet.objectives import create_objective, quadruplet_loss
from support import DEVICE, double, golden

from .steps import DEEP, FLAT_TREE, make, make_features, make_step


def slow_quadruplet(features, labels, groups, margins):
    count, violating, loss = len(labels), 0, 0.0
    apart = (features[:, None] - features).square().sum(2)
    for a in range(count):
        own = [i for i in range(count) if i != a and labels[i] == labels[a]]
        siblings = [apart[a, i] for i in range(count) if labels[i] != labels[a] and groups[i] == groups[a]]
        others = [apart[a, i] for i in range(count) if groups[i] != groups[a]]
        if not (own and siblings and others):
            continue
        closer = apart[a, own[0]] - min(siblings) + margins[0] - margins[1]
        farther = min(siblings) - min(others) + margins[1]
        if closer > 0 and farther > 0:
            violating += 1
            loss = loss + closer + farther
    return loss / (2 * max(violating, 1)), violating


@pytest.mark.parametrize("case", golden("quadruplet.json"), ids=lambda c: c["name"])
def test_published(case):
    inputs, expected = case["inputs"], case["expected"]
    features = double(inputs["features"]).requires_grad_()
    labels = torch.tensor(inputs["fine_labels"], device=DEVICE)
    groups = torch.tensor(inputs["coarse_map"], device=DEVICE)[labels]
    loss = quadruplet_loss(features, labels, groups, (inputs["m1"], inputs["m2"]))
    loss.backward()
    torch.testing.assert_close(loss, double(expected["loss"]))
    # Without a valid anchor the published code answers with the integer 0; ours is a zero with a graph.
    gradient = expected["grad_features"]
    torch.testing.assert_close(features.grad, double(gradient) if gradient else torch.zeros_like(features))


@pytest.mark.parametrize("seed", range(4))
def test_against_a_loop(seed):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 9, (40,), generator=generator).to(DEVICE)
    groups = labels // 3
    features = (0.4 * make_features(40, seed)).detach().requires_grad_()
    expected, violating = slow_quadruplet(features, labels, groups, (0.25, 0.15))
    assert violating > 2
    torch.testing.assert_close(quadruplet_loss(features, labels, groups), expected)
    assert gradcheck(lambda z: quadruplet_loss(z, labels, groups), features, fast_mode=True)


def test_shares_and_norm_one():
    objective = make("quadruplet")
    step = make_step(objective, [0, 2, 0, 1, 5, 4, 7, 3, 8, 6])
    terms = objective(step)
    groups = torch.tensor(DEEP.cut(2)[1], device=DEVICE)[step.labels]
    expected = quadruplet_loss(normalize(step.features), step.labels, groups)
    torch.testing.assert_close(terms["quadruplet"], 0.2 * expected)
    torch.testing.assert_close(terms["cross_entropy"], 0.8 * cross_entropy(step.logits["kind"], step.labels))


def test_the_level_of_the_groups():
    step = make_step(make("quadruplet"), [0, 2, 0, 4, 6, 1, 5])
    by_kingdom = make("quadruplet", level="kingdom")(step)["quadruplet"]
    groups = torch.tensor(DEEP.cut(1)[1], device=DEVICE)[step.labels]
    expected = quadruplet_loss(normalize(step.features), step.labels, groups)
    torch.testing.assert_close(by_kingdom, 0.2 * expected)


def test_siblings_are_below_the_same_parent_at_any_depth():
    """In a tree of uneven depth; the class right below the root has none, so is no anchor."""
    paths = [("animal", "cat"), ("animal", "dog"), ("thing", "car", "bus"), ("thing", "car", "van"), ("sky",)]
    tree = Hierarchy.from_paths(paths)
    objective = create_objective("quadruplet", tree)
    place = [tree.classes.index(name) for name in ("cat", "dog", "bus", "van", "sky")]
    cat, dog, bus, van, sky = objective.groups[place].tolist()
    assert cat == dog != bus == van != sky != cat
    with pytest.raises(ValueError, match="2 groups of 2 classes, so no siblings or no others"):
        create_objective("quadruplet", Hierarchy.from_paths([("a", "cat"), ("b", "c", "dog")]))


def test_numbers_by_hand():
    """One anchor counts: own class at 0.25, sibling and other group at 0.25 as well."""
    features = double([[0.0], [0.5], [0.5], [0.5]])
    loss = quadruplet_loss(
        features, torch.tensor([0, 0, 1, 2], device=DEVICE), torch.tensor([0, 0, 0, 1], device=DEVICE)
    )
    # Anchor 0: 0.1 + 0.15; anchor 1: 0.25 + 0.1 and 0.15; half the mean of the two.
    assert loss.item() == pytest.approx((0.25 + 0.5) / 4)


def test_not_finite_features_are_refused():
    objective = make("quadruplet")
    step = make_step(objective, [0, 2, 0, 1])
    step.features.data[2, 1] = torch.nan
    with pytest.raises(ValueError, match="features must be finite, got NaN or inf in 1 of 4 samples"):
        objective(step)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weight": 1.5}, "weight must be at most 1"),
        ({"weight": -0.1}, "weight must be finite and at least 0.0"),
        ({"margins": (0.1,)}, "margins must be two numbers"),
        ({"margins": 0.2}, "margins must be two numbers, got 0.2"),
        ({"margins": (0.1, -0.1)}, "margins must be finite and at least 0.0, got -0.1"),
        ({"level": "kind"}, "cannot use level 'kind': there are 9 groups of 9 classes"),
        ({"level": "species"}, "level must be one of"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(ValueError, match=message):
        make("quadruplet", **options)


def test_a_tree_without_siblings_is_refused():
    with pytest.raises(ValueError, match="cannot use a tree of one level: without groups"):
        make("quadruplet", FLAT_TREE)


@pytest.mark.parametrize("count", [24, 60])
def test_tight_features_find_their_nearest_in_float32(count):
    """Above 25 rows a distance by matrix product would be all rounding here."""
    generator = torch.Generator().manual_seed(0)
    labels = (torch.arange(count) % 6).to(DEVICE)
    features = (3 + 1e-3 * torch.randn(count, 6, generator=generator)).to(DEVICE)
    single = quadruplet_loss(features, labels, labels // 2, (1e-6, 5e-7))
    exact = quadruplet_loss(features.double(), labels, labels // 2, (1e-6, 5e-7))
    assert exact > 0
    torch.testing.assert_close(single.double(), exact, rtol=1e-3, atol=0)
