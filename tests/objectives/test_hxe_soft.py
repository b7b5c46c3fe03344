"""Hierarchical cross entropy, soft labels and the sum loss."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from torch.nn.functional import cross_entropy

from cophenet import Hierarchy
from cophenet.objectives import StepOutput, soft_label_loss
from support import DEVICE, double, golden

from ..tree.trees import line_up, slow_ancestor, trees
from .steps import DEEP, FLAT_TREE, make, make_features, total

CASES = golden("hxe_soft.json")


def step_of(tree, logits, labels):
    return StepOutput(logits[:, :1].detach(), {tree.level_names[-1]: logits}, labels)


def golden_parts(case):
    given_ = case["inputs"]
    tree = Hierarchy.from_edges(given_["tree_edges_parent_child"], given_["classes"])
    logits = double(given_["logits"]).requires_grad_()
    return tree, logits, torch.tensor(given_["target"], device=DEVICE), given_, case["expected"]


@pytest.mark.parametrize("case", [c for c in CASES if c["inputs"]["loss"] == "hxe"], ids=lambda c: c["name"])
def test_published_hxe(case):
    tree, logits, labels, inputs, expected = golden_parts(case)
    objective = make("hxe", tree, alpha=inputs["alpha"], normalize=inputs["normalize_weights"])
    loss = total(objective(step_of(tree, logits, labels)))
    loss.backward()
    torch.testing.assert_close(loss, double(expected["loss"]))
    torch.testing.assert_close(logits.grad, double(expected["grad_logits"]))


@pytest.mark.parametrize("case", [c for c in CASES if c["inputs"]["loss"] != "hxe"], ids=lambda c: c["name"])
def test_published_soft_labels(case):
    tree, logits, labels, inputs, expected = golden_parts(case)
    objective = make("soft", tree, beta=inputs["beta"])
    distances = objective.paths.shared(objective.heights, torch.arange(tree.num_classes, device=DEVICE))
    assert distances.tolist() == inputs["class_distances_lca_height"]
    # The published matrix has the distribution of class c in column c.
    targets = (-inputs["beta"] * distances / objective.largest).softmax(1)
    torch.testing.assert_close(
        targets.T.double(), double(expected["soft_label_matrix_column_per_class"]), atol=1e-7, rtol=1e-5
    )
    loss = total(objective(step_of(tree, logits, labels)))
    loss.backward()
    torch.testing.assert_close(loss, double(expected["kl_batchmean"]))
    torch.testing.assert_close(logits.grad, double(expected["grad_logits_kl_batchmean"]))


def slow_hxe(tree, logits, labels, alpha):
    p = logits.softmax(1)
    loss = 0.0
    for row, label in enumerate(labels.tolist()):
        for node in line_up(tree, int(tree.leaves[label]))[:-1]:
            below, above = (
                sum(p[row, c] for c, leaf in enumerate(tree.leaves) if top in line_up(tree, int(leaf)))
                for top in (node, int(tree.parents[node]))
            )
            loss = loss - torch.exp(torch.tensor(-alpha * tree.depths[node])) * (below / above).log()
    return loss / len(labels)


def slow_sum_loss(tree, logits, labels):
    p = logits.softmax(1)
    loss = 0.0
    for depth in range(1, tree.height + 1):
        coarse, places = tree.cut(depth)
        sums = torch.stack([p[:, places == c].sum(1) for c in range(coarse.num_classes)], dim=1)
        loss = loss - sums[torch.arange(len(labels)), torch.tensor(places)[labels]].log().mean()
    return loss


def slow_soft(tree, logits, labels, beta):
    height = [[tree.heights[slow_ancestor(tree, int(a), int(b))] for b in tree.leaves] for a in tree.leaves]
    height = torch.tensor(height, dtype=logits.dtype)
    target = (-beta * height / height.max()).softmax(1)[labels]
    return (target * (target.log() - logits.log_softmax(1))).sum(1).mean()


@given(trees(max_nodes=18))
@settings(max_examples=15, deadline=None)
def test_against_loops_on_any_tree(tree):
    if tree.num_classes == 1 or tree.height == 1:
        return
    logits = torch.randn(5, tree.num_classes, dtype=torch.float64)
    labels = torch.randint(tree.num_classes, (5,))
    step = step_of(tree, logits.to(DEVICE), labels.to(DEVICE))
    for name, slow in (
        ("hxe", slow_hxe(tree, logits, labels, 0.4)),
        ("sumloss", slow_sum_loss(tree, logits, labels)),
        ("soft", slow_soft(tree, logits, labels, 10.0)),
    ):
        torch.testing.assert_close(total(make(name, tree)(step)).cpu(), slow)


def test_numbers_by_hand():
    """Uniform predictions: -log p is the log of a ratio of class counts."""
    tree = Hierarchy.from_paths([("pet", "cat"), ("pet", "dog"), ("pet", "owl"), ("bus",)])
    logits, labels = (
        torch.zeros(2, 4, dtype=torch.float64, device=DEVICE),
        torch.tensor([1, 3], device=DEVICE),
    )
    hxe = total(make("hxe", tree, alpha=0.0)(step_of(tree, logits, labels)))
    assert hxe.item() == pytest.approx(torch.tensor(4.0).log())
    terms = make("sumloss", tree)(step_of(tree, logits, labels))
    assert terms["cross_entropy"].item() == pytest.approx(torch.tensor(4.0).log())
    assert terms["cross_entropy/level1"].item() == pytest.approx((torch.tensor([4 / 3, 4.0])).log().mean())


def test_on_a_tree_of_one_level_hxe_is_scaled_cross_entropy():
    logits = make_features(4)[:, :3]
    labels = torch.tensor([0, 1, 2, 2], device=DEVICE)
    loss = total(make("hxe", FLAT_TREE, alpha=0.0)(step_of(FLAT_TREE, logits, labels)))
    torch.testing.assert_close(loss, cross_entropy(logits, labels))


@pytest.mark.parametrize("name", ["hxe", "soft", "sumloss"])
def test_saturated_logits_and_a_class_below_the_root_stay_finite(name):
    """A conditional probability of 0 / 0 in plain arithmetic: the published code gives -inf or NaN."""
    logits = torch.full((2, 9), -500.0, device=DEVICE)
    logits[:, 3] = 500.0
    logits.requires_grad_()
    loss = total(make(name)(step_of(DEEP, logits, torch.tensor([3, 0], device=DEVICE))))
    loss.backward()
    assert torch.isfinite(loss)
    assert loss > 100
    assert torch.isfinite(logits.grad).all()
    assert logits.grad[1, 0] < 0 < logits.grad[1, 3]


def test_sharp_targets_are_cross_entropy():
    logits, labels = make_features(4)[:, :3], torch.tensor([0, 1, 2, 2], device=DEVICE)
    loss = total(make("soft", FLAT_TREE, beta=1e4)(step_of(FLAT_TREE, logits, labels)))
    torch.testing.assert_close(loss, cross_entropy(logits, labels))
    assert soft_label_loss(logits, torch.zeros(4, 3, device=DEVICE), 1.0) > 0


@pytest.mark.parametrize(("name", "option"), [("hxe", "alpha"), ("soft", "beta")])
@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), "1", True])
def test_wrong_options(name, option, value):
    with pytest.raises(ValueError, match=rf"{option} must be finite and at least 0.0, got"):
        make(name, **{option: value})
    make(name, **{option: np.float32(0.5)})
