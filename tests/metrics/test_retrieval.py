"""Metrics of retrieval against scikit-learn and loops over queries."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score
from torch.nn.functional import normalize

from cophenet import Hierarchy, metrics
from cophenet.metrics import _blocks
from metrics.cases import TREE
from support import DEVICE, random_batch

SIZES = [4, 1, 6, 3, 2]


def cosines(x, y):
    return (normalize(x) @ normalize(y).T).cpu().numpy()


def slow_prototype_map(features, labels, prototypes, classes):
    scores, y = cosines(prototypes, features), labels.cpu().numpy()
    present = [i for i, c in enumerate(classes.tolist()) if (y == c).any()]
    return np.mean([average_precision_score(y == int(classes[i]), scores[i]) for i in present])


def slow_map_at_r(scores, y, gallery_labels, itself):
    values = []
    for query, row in enumerate(scores):
        right = gallery_labels == y[query]
        keep = np.arange(len(row)) != query if itself else np.full(len(row), True)
        right, row = right[keep], row[keep]
        if right.any():
            hits = right[np.argsort(-row)][: right.sum()]
            values.append((np.cumsum(hits) / np.arange(1, len(hits) + 1) * hits).sum() / right.sum())
    return np.mean(values)


@given(st.integers(0, 99))
@settings(max_examples=15, deadline=None)
def test_prototype_map_is_scikit_learns(seed):
    z, y = random_batch(seed, SIZES)
    prototypes = torch.randn(4, 5, dtype=z.dtype, generator=torch.Generator().manual_seed(seed)).to(DEVICE)
    classes = torch.tensor([4, 0, 9, 2], device=DEVICE)  # 9 has no samples; 1 and 3 no prototype
    value = metrics.prototype_map(z, y, prototypes, classes).item()
    assert value == pytest.approx(slow_prototype_map(z, y, prototypes, classes))


@given(st.integers(0, 99))
@settings(max_examples=15, deadline=None)
def test_ties_are_scikit_learns(seed):
    """Few distinct directions with exact cosines, so that many scores are equal."""
    rng = np.random.default_rng(seed)
    corners = torch.tensor([[1.0, 0, 0, 0], [0, 1, 0, 0], [0.5, 0.5, 0.5, 0.5], [-1, 0, 0, 0]])
    z = corners[rng.integers(0, 4, 30)].double().to(DEVICE)
    y = torch.tensor(rng.permutation(np.arange(30) % 3), device=DEVICE)
    value = metrics.prototype_map(z, y, corners[:3].double().to(DEVICE)).item()
    classes = torch.arange(3)
    assert value == pytest.approx(slow_prototype_map(z, y, corners[:3].to(z), classes))


@pytest.mark.parametrize("function", ["prototype_map", "map_at_r", "hierarchical_precision_at_k"])
def test_blocks_change_nothing(function, monkeypatch):
    z, y = random_batch(0, [5, 3, 6, 4, 2, 3, 4])
    call = {
        "prototype_map": lambda: metrics.prototype_map(z, y, z[:7]),
        "map_at_r": lambda: metrics.map_at_r(z, y),
        "hierarchical_precision_at_k": lambda: metrics.hierarchical_precision_at_k(z, y, TREE, 6),
    }[function]
    whole = call()
    monkeypatch.setattr(_blocks, "BLOCK", 100)
    torch.testing.assert_close(call(), whole)


def test_class_prototypes_and_levels():
    z, y = random_batch(1, SIZES)
    coarse = metrics.level_labels(y, TREE, 1)
    groups = TREE.cut(1)[1]
    assert coarse.tolist() == [groups[label] for label in y.tolist()]
    classes, means = metrics.class_prototypes(z, coarse)
    for label, mean in zip(classes.tolist(), means, strict=True):
        torch.testing.assert_close(mean, z[coarse == label].mean(0))
    metric = metrics.PrototypeMAP(means, classes, TREE, level=1)
    metric.update(z, y)
    torch.testing.assert_close(metric.compute(), metrics.prototype_map(z, coarse, means, classes))


@given(st.integers(0, 99), st.booleans())
@settings(max_examples=15, deadline=None)
def test_map_at_r_is_the_loop(seed, itself):
    z, y = random_batch(seed, SIZES)
    other, other_y = (z, y) if itself else random_batch(seed + 100, [3, 0, 5, 1])
    value = metrics.map_at_r(z, y, None if itself else (other, other_y)).item()
    expected = slow_map_at_r(cosines(z, other), y.cpu().numpy(), other_y.cpu().numpy(), itself)
    assert value == pytest.approx(expected)


def test_equal_scores_are_retrieved_together():
    same = torch.ones(4, 2, device=DEVICE)
    y = torch.tensor([0, 0, 1, 1], device=DEVICE)
    assert metrics.map_at_r(same, y).item() == 0
    assert metrics.map_at_r(same, y * 0).item() == 1


@pytest.mark.parametrize("kind", ["lca-height", "wu-palmer"])
@given(st.integers(0, 99), st.booleans())
@settings(max_examples=8, deadline=None)
def test_hierarchical_precision_is_the_loop(kind, seed, itself):
    z, y = random_batch(seed, SIZES)
    other, other_y = (z, y) if itself else random_batch(seed + 100, [3, 0, 5, 1])
    similarity = TREE.distances(kind=kind)
    similarity = similarity if kind == "wu-palmer" else 1 - similarity / TREE.height
    curves = []
    for query, row in enumerate(cosines(z, other)):
        keep = np.arange(len(row)) != query if itself else np.full(len(row), True)
        values = similarity[int(y[query]), other_y.cpu().numpy()[keep]]
        reached, most = np.cumsum(values[np.argsort(-row[keep])]), np.cumsum(np.sort(values)[::-1])
        curves.append(np.where(most > 0, reached / np.where(most > 0, most, 1), 1))
    curves = np.array(curves)
    gallery = None if itself else (other, other_y)
    for k in (1, 3, 8):
        value = metrics.hierarchical_precision_at_k(z, y, TREE, k, kind, gallery).item()
        assert value == pytest.approx(curves[:, k - 1].mean())
    for k in (2, 8, None):
        size = curves.shape[1] if k is None else k
        value = metrics.average_hierarchical_precision(z, y, TREE, k, kind, gallery).item()
        assert value == pytest.approx(np.trapezoid(curves[:, :size]).mean() / size)


def test_a_perfect_ranking_has_area_one_less_step():
    z = torch.eye(3, device=DEVICE).repeat_interleave(2, 0)
    y = torch.arange(3, device=DEVICE).repeat_interleave(2)
    flat = Hierarchy.from_paths([("a",), ("b",), ("c",)])
    assert metrics.hierarchical_precision_at_k(z, y, flat, 5).item() == pytest.approx(1)
    assert metrics.average_hierarchical_precision(z, y, flat, 5).item() == pytest.approx(4 / 5)


def test_undefined_is_said():
    z, y = random_batch(0, [1, 1, 1])
    with pytest.warns(RuntimeWarning, match=r"MAP@R is undefined, returning NaN: no sample has another"):
        assert metrics.map_at_r(z, y).isnan()
    with pytest.warns(RuntimeWarning, match="prototype MAP is undefined, returning NaN: no class has"):
        assert metrics.prototype_map(z, y + 5, z).isnan()
    # Nothing of a similar class can be found: every answer is as good as the best.
    far = torch.full_like(y[:1], 6)
    assert metrics.hierarchical_precision_at_k(z[:1], far, TREE, 2, gallery=(z[1:], y[1:])).item() == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda z, y: metrics.hierarchical_precision_at_k(z, y, TREE, 99), r"k must be an integer in 1..15"),
        (lambda z, y: metrics.average_hierarchical_precision(z, y, TREE, 1), "k must be an integer in 2.."),
        (lambda z, y: metrics.map_at_r(z, y, (z[:, 1:], y)), r"gallery features must have shape \(M, 5\)"),
        (lambda z, y: metrics.prototype_map(z, y, z[:2], y[:2] * 0), "classes must be at least one and all"),
        (lambda z, y: metrics.prototype_map(z, y, z[:2] / 0), "prototypes must be finite"),
        (
            lambda z, y: metrics.prototype_map(z, y, z[:2, 1:]),
            r"prototypes must have shape \(k, 5\), got \(2, 4\)",
        ),
        (lambda z, _: metrics.PrototypeMAP(z, level=1), "tree and level go together"),
        (lambda _, __: metrics.HierarchicalPrecisionAtK(TREE, 3, "cosine"), "similarity must be one of"),
    ],
)
def test_wrong_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call(*random_batch(0, SIZES))


def test_prototypes_must_be_unpacked():
    z, y = random_batch(0, SIZES)
    both = metrics.class_prototypes(z, y)
    message = (
        r"prototypes must be a torch tensor, got tuple; unpack .*: classes, prototypes = class_prototypes"
    )
    for call in (lambda: metrics.prototype_map(z, y, both), lambda: metrics.PrototypeMAP(both)):
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(ValueError, match=r"prototypes must be a torch tensor, got list$"):
        metrics.prototype_map(z, y, both[1].tolist())
    classes, prototypes = both
    assert 0 < metrics.prototype_map(z, y, prototypes, classes) <= 1
