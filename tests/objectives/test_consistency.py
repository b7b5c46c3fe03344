"""Soft and geometric consistency against their authors' numbers and plain loops."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy, linear, normalize

from cophenet import Hierarchy
from cophenet.objectives import StepOutput, geometric_consistency, soft_consistency
from support import DEVICE, double, golden

from .steps import DEEP, FLAT_TREE, make, make_step, total

CASES = golden("shc_gc.json")
FIVE_LEVELS = [c for c in CASES if c["name"].startswith("five")]
TWO_LEVELS = [c for c in CASES if c["name"].startswith("shc_two")]
# The published code keeps log m above log 1e-7, which moves the divergence by less than this.
CLAMP = 1e-6


def tree_of(parent_maps):
    """The tree of maps from one level to the next, the finest first."""
    paths = []
    for label in range(len(parent_maps[0])):
        way = [label]
        for parents in parent_maps:
            way.append(parents[way[-1]])
        paths.append([f"{len(way) - i}-{node}" for i, node in enumerate(way)][::-1])
    return Hierarchy.from_paths(paths)


def five_level_step(case, objective):
    inputs = case["inputs"]
    features = double(inputs["features"]).requires_grad_()
    heads, logits = {}, {}
    pairs = zip(inputs["weights_fine_to_coarse"], inputs["biases_fine_to_coarse"], strict=True)
    for spec, (weight, bias) in zip(reversed(objective.heads), pairs, strict=True):
        head = heads[spec.name] = nn.Linear(features.shape[1], spec.num_outputs, dtype=torch.float64)
        head.to(DEVICE)
        head.weight.data, head.bias.data = double(weight), double(bias)
        logits[spec.name] = linear(features, normalize(head.weight), head.bias)
    return StepOutput(features, logits, torch.tensor(inputs["target"], device=DEVICE), heads)


@pytest.mark.parametrize("case", FIVE_LEVELS, ids=lambda c: c["name"])
def test_published_soft_consistency_on_five_levels(case):
    objective = make("shc", tree_of(case["inputs"]["parent_maps_fine_to_coarse"]), variant="haf")
    assert all(head.normalize_rows for head in objective.heads)
    step, expected = five_level_step(case, objective), case["expected"]
    terms = objective(step)
    torch.testing.assert_close(terms["cross_entropy"], double(expected["cross_entropy"]))
    torch.testing.assert_close(terms["shc"], double(sum(expected["shc_per_pair"])), rtol=0, atol=CLAMP)
    terms["shc"].backward()
    finest, following = (step.heads[objective.heads[i].name].weight.grad for i in (-1, -2))
    for ours, theirs in (
        (step.features.grad, "features"),
        (finest, "weight_finest"),
        (following, "weight_next"),
    ):
        torch.testing.assert_close(ours, double(expected[f"shc_grad_{theirs}"]), rtol=0, atol=CLAMP)


@pytest.mark.parametrize("case", FIVE_LEVELS, ids=lambda c: c["name"])
def test_published_geometric_consistency_on_five_levels(case):
    objective = make("gc", tree_of(case["inputs"]["parent_maps_fine_to_coarse"]), variant="haf")
    step, expected = five_level_step(case, objective), case["expected"]
    loss = objective(step)["gc"]
    # The published loss is minus the cosines; ours, as printed, one minus them, so that 0 is perfect.
    cosines = expected["gc_cosine_per_pair"]
    torch.testing.assert_close(loss, double(len(cosines) - sum(cosines)))
    loss.backward()
    for spec, gradient in zip(
        reversed(objective.heads), expected["gc_grad_weights_of_minus_sum"], strict=True
    ):
        torch.testing.assert_close(step.heads[spec.name].weight.grad, double(gradient))


@pytest.mark.parametrize("case", TWO_LEVELS, ids=lambda c: c["name"])
def test_published_soft_consistency_on_two_levels(case):
    inputs, expected = case["inputs"], case["expected"]
    fine, coarse = (double(inputs[f"{name}_logits"]).requires_grad_() for name in ("fine", "coarse"))
    loss = soft_consistency(coarse, fine, torch.tensor(inputs["coarse_map"], device=DEVICE))
    loss.backward()
    torch.testing.assert_close(loss, double(expected["shc"]), rtol=0, atol=CLAMP)
    torch.testing.assert_close(fine.grad, double(expected["grad_fine_logits"]), rtol=0, atol=CLAMP)
    torch.testing.assert_close(coarse.grad, double(expected["grad_coarse_logits"]), rtol=0, atol=CLAMP)


def slow_divergence(p, q):
    middle = (p + q) / 2
    return 0.5 * sum((x * (x / middle).log()).sum(1).mean() for x in (p, q))


def test_soft_consistency_against_a_loop_on_an_uneven_tree():
    objective = make("shc", weight=2.0)
    step = make_step(objective, [0, 3, 6, 8, 5])
    expected = 0.0
    for coarse, fine in ((1, 2), (2, 3)):
        maps = [torch.tensor(DEEP.cut(depth)[1]) for depth in (coarse, fine)]
        p, q = (step.logits[DEEP.level_names[depth - 1]].softmax(1) for depth in (coarse, fine))
        summed = torch.zeros_like(p)
        for child, parent in {(int(f), int(c)) for c, f in zip(*maps, strict=True)}:
            summed[:, parent] += q[:, child]
        expected = expected + slow_divergence(p, summed)
    terms = objective(step)
    torch.testing.assert_close(terms["shc"], 2 * expected)
    torch.testing.assert_close(terms["cross_entropy"], cross_entropy(step.logits["kind"], step.labels))


@pytest.mark.parametrize("variant", ["paper", "haf"])
def test_geometric_consistency_against_a_loop_on_an_uneven_tree(variant):
    objective = make("gc", variant=variant)
    step = make_step(objective, [0, 3, 6, 8, 5])
    expected = 0.0
    for coarse, fine in ((1, 2), (2, 3)):
        maps = [DEEP.cut(depth)[1] for depth in (coarse, fine)]
        upper, lower = (step.heads[DEEP.level_names[depth - 1]].weight for depth in (coarse, fine))
        gaps = []
        for node in range(len(upper)):
            rows = [lower[c] for c in sorted({int(f) for c, f in zip(*maps, strict=True) if c == node})]
            summed = sum(row / row.norm() if variant == "haf" else row for row in rows)
            gaps.append(1 - (upper[node] @ summed) / (upper[node].norm() * summed.norm()))
        expected = expected + (sum(gaps) / len(gaps) if variant == "haf" else sum(gaps))
    torch.testing.assert_close(objective(step)["gc"], expected)
    assert all(head.normalize_rows == (variant == "haf") for head in objective.heads)


def test_numbers_by_hand():
    parents = torch.tensor([0, 0, 1], device=DEVICE)
    coarse = double([[1.0, 0.0], [0.0, 2.0]])
    fine = double([[3.0, 4.0], [3.0, -4.0], [2.0, 0.0]])
    # The first node agrees with its children's sum, the second is at a right angle.
    assert geometric_consistency(coarse, fine, parents).item() == pytest.approx(1.0)
    assert geometric_consistency(coarse, fine, parents, "haf").item() == pytest.approx(0.5)
    sure = double([[1e3, 0.0]])
    against = double([[0.0, 0.0, 1e3]])
    assert soft_consistency(sure, against, parents).item() == pytest.approx(torch.tensor(2.0).log())


def test_weights_of_zero_have_bounded_gradients():
    coarse, fine = double([[0.0, 0.0]]).requires_grad_(), double([[1.0, 0.0], [-1.0, 0.0]]).requires_grad_()
    for variant in ("paper", "haf"):
        loss = geometric_consistency(coarse, fine, torch.tensor([0, 0], device=DEVICE), variant)
        loss.backward()
    assert coarse.grad.abs().max() <= 1
    assert fine.grad.abs().max() <= 2


def test_heads_without_weights_are_refused():
    objective = make("gc")
    step = make_step(objective, [0, 1])
    for heads in ({}, {name: nn.Identity() for name in step.heads}):
        with pytest.raises(ValueError, match="heads must hold a module with a weight for 'kingdom'"):
            objective(StepOutput(step.features, step.logits, step.labels, heads))


@pytest.mark.parametrize("name", ["shc", "gc"])
def test_wrong_options(name):
    with pytest.raises(ValueError, match="variant must be one of paper, haf, got 'hafs'; did you mean 'haf'"):
        make(name, variant="hafs")
    with pytest.raises(ValueError, match="weight must be finite"):
        make(name, weight=float("nan"))
    with pytest.raises(ValueError, match="cannot use a tree of one level: there are no two levels"):
        make(name, FLAT_TREE)
    assert total(make(name)(make_step(make(name), [0, 1]))) > 0


def test_heads_of_the_wrong_shape_are_named():
    objective = make("gc")
    step = make_step(objective, [0, 1, 2])
    heads = dict(step.heads)
    for size in ((6, 5), (5, 9)):
        heads["kind"] = nn.Linear(*size, dtype=torch.float64, device=DEVICE)
        given = rf"got \({size[1]}, {size[0]}\)"
        with pytest.raises(ValueError, match=rf"weight of head 'kind' must have shape \(9, 6\), {given}"):
            objective(replace(step, heads=heads))
    with pytest.raises(ValueError, match="heads must be modules by head name, got Linear"):
        objective(replace(step, heads=heads["kind"]))
    with pytest.raises(ValueError, match="heads must hold a module with a weight for 'kingdom', got None"):
        objective(replace(step, heads={}))
    modules = nn.ModuleDict(step.heads)
    torch.testing.assert_close(objective(replace(step, heads=modules)), objective(step))
