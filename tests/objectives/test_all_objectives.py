"""What every objective must satisfy, whoever wrote it."""

import copy
import pickle
from collections import Counter
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck

from cophenet.objectives import objective_names
from support import DEVICE

from ..tree.trees import trees
from .steps import DEEP, make, make_features, make_heads, make_step, permute, relabel, run_heads, total

LABELS = [0, 2, 1, 0, 4, 3, 2, 5, 6, 7, 1, 8, 0, 4, 7, 5]
VARIANTS = {
    "hxe normalized": ("hxe", {"normalize": True}),
    "hxe with cpcc": ("hxe", {"cpcc": "fastft"}),
    "curriculum with cpcc": ("curriculum", {"cpcc": {"distance": "l2", "weight": 0.5}}),
    "shc haf": ("shc", {"variant": "haf"}),
    "gc haf": ("gc", {"variant": "haf", "cpcc": "swd"}),
    "rank published": ("rank", {"target": "published"}),
    "quadruplet coarse": ("quadruplet", {"level": "kingdom"}),
}
CASES = {**{name: (name, {}) for name in objective_names()}, **VARIANTS}
# Where the backward pass is not that of the value, and why.
OTHER_GRADIENT = {
    "sinkhorn": "its plan is constant in the backward pass",
    "rank": "its targets are constant in the backward pass",
    "ft": "its tree moves with the features, so the value jumps",
}

everyone = pytest.mark.parametrize("case", CASES)


def build(case, tree=DEEP):
    name, options = CASES[case]
    return make(name, tree, **options)


def every_phase(objective, step):
    return [replace(step, phase=phase) for phase in range(len(objective.phases))]


def assert_finite_gradients(objective, step):
    for one in every_phase(objective, step):
        inputs = [step.features, *(p for head in step.heads.values() for p in head.parameters())]
        terms = objective(one)
        assert all(term.shape == () and torch.isfinite(term) for term in terms.values())
        gradients = torch.autograd.grad(total(terms), inputs, retain_graph=True, allow_unused=True)
        assert all(g is None or torch.isfinite(g).all() for g in gradients)


def test_every_method_of_the_comparison_is_here():
    family = {"flat", "l1", "l2", "emd", "sinkhorn", "swd", "twd", "ft", "fastft", "bures", "poincare"}
    baselines = {"mtl", "curriculum", "sumloss", "hxe", "soft", "quadruplet", "shc", "gc", "rank"}
    assert family | baselines <= set(objective_names())


@everyone
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_terms_and_gradients(case, dtype):
    objective = build(case)
    step = make_step(objective, LABELS, dtype=dtype)
    assert_finite_gradients(objective, step)
    for one in every_phase(objective, step):
        terms = objective(one)
        assert all(term.dtype == dtype and term.device.type == DEVICE.type for term in terms.values())
        (gradient,) = torch.autograd.grad(total(terms), step.features, retain_graph=True)
        assert gradient.abs().sum() > 0


@everyone
def test_declares_heads_and_phases(case):
    objective = build(case)
    for head in objective.heads:
        assert head.name == DEEP.level_names[head.level - 1]
        assert head.num_outputs == DEEP.cut(head.level)[0].num_classes
    assert objective.heads[-1].num_outputs == DEEP.num_classes
    assert {name for phase in objective.phases for name in phase.heads} == {h.name for h in objective.heads}
    assert objective.phases[-1].heads[-1] == objective.finest


@everyone
def test_float32_agrees_with_float64(case):
    objective = build(case)
    step = make_step(objective, LABELS, dtype=torch.float32)
    heads = {name: copy.deepcopy(head).double() for name, head in step.heads.items()}
    exact = run_heads(objective, step.features.detach().double(), step.labels, heads)
    for one, other in zip(every_phase(objective, step), every_phase(objective, exact), strict=True):
        torch.testing.assert_close(
            total(build(case)(one)).double(), total(build(case)(other)), rtol=1e-4, atol=1e-5
        )


@everyone
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_under_autocast(case, dtype):
    """The network runs in half precision; the loss of what it gives is computed in float32."""
    objective = build(case)
    features = make_features(len(LABELS), dtype=torch.float32)
    heads = make_heads(objective, dtype=torch.float32)
    with torch.autocast(DEVICE.type, dtype=dtype):
        step = run_heads(objective, features * 1.0, torch.tensor(LABELS, device=DEVICE), heads)
        step = replace(step, features=step.features.to(dtype))
        mixed = [objective(one) for one in every_phase(objective, step)]
    full = {name: values.float() for name, values in step.logits.items()}
    plain = replace(step, features=step.features.float(), logits=full)
    objective = build(case)
    for terms, one in zip(mixed, every_phase(objective, plain), strict=True):
        assert all(term.dtype == torch.float32 for term in terms.values())
        torch.testing.assert_close(total(terms), total(objective(one)))
    total(mixed[0]).backward()
    assert torch.isfinite(features.grad).all()


@everyone
def test_single_class_and_single_sample_batches(case):
    objective = build(case)
    for labels in ([2] * 5, [3]):
        assert_finite_gradients(objective, make_step(objective, labels))


@everyone
def test_coincident_features_and_saturated_logits(case):
    objective = build(case)
    heads, labels = make_heads(objective), torch.tensor(LABELS, device=DEVICE)
    for features in (torch.zeros(16, 6), torch.ones(16, 6)):
        z = features.to(DEVICE, torch.float64).requires_grad_()
        assert_finite_gradients(objective, run_heads(objective, z, labels, heads))
    step = run_heads(objective, make_features(16), labels, heads)
    saturated = {name: 1e4 * values for name, values in step.logits.items()}
    assert_finite_gradients(objective, replace(step, logits=saturated))


@everyone
def test_wrong_batches_are_refused(case):
    objective = build(case)
    step = make_step(objective, LABELS)
    with pytest.raises(ValueError, match="batch is empty"):
        objective(permute(step, step.labels[:0]))
    for label in (-1, -100, DEEP.num_classes):
        labels = step.labels.clone()
        labels[3] = label
        with pytest.raises(
            ValueError, match=rf"labels must lie in 0..8, the classes of the tree, got {label}"
        ):
            objective(replace(step, labels=labels))
    with pytest.raises(ValueError, match="labels must be integers"):
        objective(replace(step, labels=step.labels.double()))
    with pytest.raises(ValueError, match=r"labels must have shape \(16,\)"):
        objective(replace(step, labels=step.labels[:3]))
    with pytest.raises(ValueError, match=r"features must be a floating-point tensor of shape \(B, d\)"):
        objective(replace(step, features=step.features[0]))
    with pytest.raises(ValueError, match="logits must hold head"):
        objective(replace(step, logits={}))
    with pytest.raises(ValueError, match="must be floats of shape"):
        objective(replace(step, logits={name: values[:, 1:] for name, values in step.logits.items()}))
    with pytest.raises(ValueError, match="phase must be from 0"):
        objective(replace(step, phase=7))


@everyone
def test_pickle_and_copy(case):
    objective = build(case)
    step = make_step(objective, LABELS)
    twins = copy.deepcopy(objective), pickle.loads(pickle.dumps(objective))
    expected = total(objective(step))
    for twin in twins:
        assert torch.equal(total(twin(step)), expected)
        assert (twin.heads, twin.phases) == (objective.heads, objective.phases)


@everyone
def test_renaming_classes_changes_nothing(case):
    objective = build(case)
    order = torch.randperm(DEEP.num_classes, generator=torch.Generator().manual_seed(3)).tolist()
    other = build(case, DEEP.reorder([DEEP.classes[c] for c in order]))
    step = make_step(objective, LABELS)
    renamed = relabel(step, objective, other)
    for one, two in zip(every_phase(objective, step), every_phase(other, renamed), strict=True):
        torch.testing.assert_close(
            total(build(case)(one)), total(build(case, other.tree)(two)), rtol=1e-6, atol=1e-9
        )


@everyone
def test_order_of_samples(case):
    """Between classes it never matters; within them only where the objective says so."""
    objective = build(case)
    step = make_step(objective, LABELS)
    order = step.labels.argsort(stable=True)
    if not objective.order_dependent:
        order = torch.randperm(len(LABELS), generator=torch.Generator().manual_seed(0)).to(DEVICE)
    for one in every_phase(objective, step):
        torch.testing.assert_close(total(build(case)(permute(one, order))), total(build(case)(one)))


@everyone
def test_gradient_is_that_of_the_value(case):
    if case in OTHER_GRADIENT:
        pytest.skip(OTHER_GRADIENT[case])
    objective = build(case)
    step = make_step(objective, LABELS)

    def value(features, *logits):
        named = dict(zip(step.logits, logits, strict=True))
        changed = replace(step, features=features, logits=named)
        fresh = copy.deepcopy(objective)
        return total({i: total(fresh(one)) for i, one in enumerate(every_phase(objective, changed))})

    inputs = [step.features, *(v.detach().requires_grad_() for v in step.logits.values())]
    assert gradcheck(value, inputs, atol=1e-5, fast_mode=True)


def needs_more(case, tree):
    """Why an objective may refuse a tree."""
    name, options = CASES[case]
    if name in ("mtl", "curriculum", "sumloss", "quadruplet", "shc", "gc") and tree.height == 1:
        return "cannot use a tree of one level"
    if name == "soft" and tree.num_classes == 1:
        return "cannot use a tree of one class"
    if name == "quadruplet":
        below = Counter(parent for parent in tree.parents[tree.leaves].tolist() if tree.parents[parent] >= 0)
        siblings = [count for count in below.values() if count > 1]
        if not siblings or siblings == [tree.num_classes]:
            return "cannot use the parents of the classes: .* no siblings or no others"
    if options.get("target") == "published" and (tree.edge_weights % 1).any():
        return "cannot use a tree whose edge weights"
    return None


@pytest.mark.parametrize("case", sorted(set(CASES) - {"quadruplet coarse"}))
@given(tree=trees(), seed=st.integers(0, 9))
@settings(max_examples=4, deadline=None)
def test_any_tree_is_used_or_refused_with_a_reason(case, tree, seed):
    reason = needs_more(case, tree)
    if reason is not None:
        with pytest.raises(ValueError, match=reason):
            build(case, tree)
        return
    objective = build(case, tree)
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(tree.num_classes, (7,), generator=generator).tolist()
    assert_finite_gradients(objective, make_step(objective, labels, seed))
