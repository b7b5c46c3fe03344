"""Metrics of predictions against loops over samples, scikit-learn and torchmetrics."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, top_k_accuracy_score
from torchmetrics.functional.classification import multiclass_calibration_error

from cophenet import Hierarchy, metrics
from cophenet.tree.lookup_tables import tree_tables
from support import DEVICE

FLAT = Hierarchy.from_paths([(f"class{c}",) for c in range(7)])
CHAIN = Hierarchy.from_parents([-1, 0, 0, 2, 2, 4, 4, 6, 6])


def random_tree(seed, classes=12):
    """Uneven depths, single children, weights, labels out of tree order."""
    rng = np.random.default_rng(seed)
    paths = [
        [*(f"n{x}" for x in rng.integers(0, 2, rng.integers(0, 5))), f"class{c}"] for c in range(classes)
    ]
    tree = Hierarchy.from_paths(paths)
    weights = np.append(0.0, rng.uniform(0.5, 2, tree.num_nodes - 1))
    return Hierarchy.from_parents(tree.parents, weights=weights, classes=[str(leaf) for leaf in tree.leaves])


def random_predictions(seed, tree, samples=40):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(tree.num_classes, (samples,), generator=generator)
    logits = 2 * torch.randn(samples, tree.num_classes, generator=generator, dtype=torch.float64)
    logits[torch.arange(samples), labels] += 1
    return logits.softmax(1).to(DEVICE), labels.to(DEVICE)


def path_of(tree, node):
    steps = []
    while node > 0:
        steps.append(node)
        node = int(tree.parents[node])
    return steps[::-1]


def slow_levels(tree, level):
    """Class -> group at a level, by walking the paths."""
    return [path_of(tree, leaf)[:level][-1] for leaf in tree.leaves.tolist()]


trees = st.integers(0, 30).map(random_tree) | st.sampled_from([FLAT, CHAIN])


@given(trees)
@settings(max_examples=20, deadline=None)
def test_common_ancestors_of_all_pairs_of_nodes(tree):
    tables = tree_tables(tree, DEVICE)
    nodes = torch.arange(tree.num_nodes, device=DEVICE)
    ancestors = tables.common_ancestors(nodes[:, None], nodes).tolist()
    for one in range(tree.num_nodes):
        for other in range(tree.num_nodes):
            shared = set(path_of(tree, one)) & set(path_of(tree, other))
            assert ancestors[one][other] == max(shared, default=0)


@given(trees, st.integers(0, 99), st.integers(1, 4))
@settings(max_examples=20, deadline=None)
def test_level_accuracy_and_full_path(tree, seed, k):
    p, y = random_predictions(seed, tree)
    by_sum = metrics.level_accuracy(p, y, tree, top_k=k)
    by_argmax = metrics.level_accuracy(p, y, tree, by="argmax", top_k=k)
    whole = np.ones(len(y), dtype=bool)
    for level, name in enumerate(tree.level_names, start=1):
        groups = slow_levels(tree, level)
        names = sorted(set(groups))
        sums = np.array([[row[np.equal(groups, g)].sum() for g in names] for row in p.cpu().numpy()])
        truth = np.array([names.index(groups[label]) for label in y.tolist()])
        best = np.argsort(-sums, axis=1)[:, :k]
        assert by_sum[name].item() == pytest.approx(np.mean((best == truth[:, None]).any(1)))
        guesses = [{groups[c] for c in row} for row in p.topk(k).indices.tolist()]
        assert by_argmax[name].item() == pytest.approx(
            np.mean([groups[label] in guess for label, guess in zip(y.tolist(), guesses, strict=True)])
        )
        whole &= best[:, 0] == truth
    assert metrics.full_path_accuracy(p, y, tree).item() == pytest.approx(whole.mean())


def test_fine_accuracy_is_scikit_learns():
    p, y = random_predictions(0, FLAT)
    name = FLAT.level_names[-1]
    for k in (1, 2, 5):
        expected = top_k_accuracy_score(y.tolist(), p.cpu().numpy(), k=k, labels=range(7))
        assert metrics.level_accuracy(p, y, FLAT, top_k=k)[name].item() == pytest.approx(expected)
    argmax = metrics.level_accuracy(p, y, FLAT, by="argmax")[name].item()
    assert argmax == pytest.approx(accuracy_score(y.tolist(), p.argmax(1).tolist()))


@given(trees, st.integers(0, 99), st.integers(1, 5))
@settings(max_examples=20, deadline=None)
def test_distance_and_severity(tree, seed, k):
    p, y = random_predictions(seed, tree)
    table = tree.distances(kind="lca-height")
    best = p.topk(k).indices.tolist()
    values = np.array([table[label, row] for label, row in zip(y.tolist(), best, strict=True)])
    wrong = p.argmax(1).cpu().numpy() != y.cpu().numpy()
    assert metrics.hierarchical_distance(p, y, tree, k).item() == pytest.approx(values.mean())
    assert metrics.hierarchical_distance(p, y, tree, k, best=True).item() == pytest.approx(
        values.min(1).mean()
    )
    assert metrics.mistake_severity(p, y, tree, k).item() == pytest.approx(values[wrong].mean())


def test_severity_without_mistakes_is_zero():
    y = torch.arange(7, device=DEVICE)
    assert metrics.mistake_severity(torch.eye(7, device=DEVICE), y, FLAT).item() == 0


@given(trees, st.integers(0, 99))
@settings(max_examples=20, deadline=None)
def test_precision_and_recall_of_paths(tree, seed):
    rng = np.random.default_rng(seed)
    nodes = rng.integers(0, tree.num_nodes, 30)
    labels = rng.integers(0, tree.num_classes, 30)
    shared, guessed, true = [], [], []
    for node, label in zip(nodes, labels, strict=True):
        one, other = set(path_of(tree, node)), set(path_of(tree, int(tree.leaves[label])))
        shared.append(len(one & other))
        guessed.append(len(one))
        true.append(len(other))
    shared, guessed, true = np.array(shared), np.array(guessed), np.array(true)
    given_nodes = torch.tensor(nodes, device=DEVICE), torch.tensor(labels, device=DEVICE)
    micro = metrics.hierarchical_precision_recall(*given_nodes, tree, "micro", nodes=True)
    macro = metrics.hierarchical_precision_recall(*given_nodes, tree, "macro", nodes=True)
    assert micro["precision"].item() == pytest.approx(shared.sum() / guessed.sum())
    assert micro["recall"].item() == pytest.approx(shared.sum() / true.sum())
    assert micro["f1"].item() == pytest.approx(2 * shared.sum() / (guessed.sum() + true.sum()))
    assert macro["precision"].item() == pytest.approx(np.mean(shared / np.maximum(guessed, 1)))
    assert macro["recall"].item() == pytest.approx(np.mean(shared / true))
    assert macro["f1"].item() == pytest.approx(np.mean(2 * shared / (guessed + true)))


def test_a_prediction_of_the_root_scores_zero():
    root, label = torch.tensor([0], device=DEVICE), torch.tensor([2], device=DEVICE)
    for average in ("micro", "macro"):
        values = metrics.hierarchical_precision_recall(root, label, CHAIN, average, nodes=True)
        assert [value.item() for value in values.values()] == [0, 0, 0]


@given(trees, st.integers(0, 99), st.integers(1, 20))
@settings(max_examples=15, deadline=None)
def test_calibration_is_torchmetrics_on_the_sums(tree, seed, bins):
    p, y = random_predictions(seed, tree)
    errors = metrics.level_calibration_error(p, y, tree, bins)
    for level, name in enumerate(tree.level_names, start=1):
        groups = slow_levels(tree, level)
        names = sorted(set(groups))
        if len(names) < 2:
            assert errors[name].item() == pytest.approx(0, abs=1e-9)
            continue
        place = torch.tensor([names.index(group) for group in groups], device=DEVICE)
        sums = torch.zeros(len(y), len(names), dtype=p.dtype, device=DEVICE).index_add_(1, place, p)
        expected = multiclass_calibration_error(sums, place[y], len(names), n_bins=bins)
        assert errors[name].item() == pytest.approx(expected.item(), abs=1e-6)


@pytest.mark.parametrize("kind", ["lca-height", "path"])
@given(trees, st.integers(0, 99))
@settings(max_examples=15, deadline=None)
def test_expected_cost_is_the_product_with_the_table(kind, tree, seed):
    p, y = random_predictions(seed, tree)
    table = torch.tensor(tree.distances(kind=kind), device=DEVICE)
    costs = metrics.expected_cost(p, tree, kind)
    torch.testing.assert_close(costs, p @ table, rtol=1e-9, atol=1e-9)
    paid = table[y, costs.argmin(1)].mean()
    assert metrics.decision_cost(p, y, tree, kind).item() == pytest.approx(paid.item())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p, y: metrics.level_accuracy(p.log(), y, FLAT), "probabilities must be at least 0"),
        (
            lambda p, y: metrics.level_accuracy(p, y, FLAT, by="max"),
            "by must be one of sum, argmax, got 'max'",
        ),
        (
            lambda p, y: metrics.level_accuracy(p, y, FLAT, top_k=8),
            r"top_k must be an integer in 1..7, got 8",
        ),
        (lambda p, y: metrics.hierarchical_distance(p, y, FLAT, k=0), r"k must be an integer in 1..7, got 0"),
        (
            lambda p, y: metrics.mistake_severity(p[:, 1:], y, FLAT),
            r"scores .* shape \(N, 7\), got \(40, 6\)",
        ),
        (lambda p, y: metrics.mistake_severity(p[0], y, FLAT), r"scores must be a floating-point tensor"),
        (
            lambda p, y: metrics.mistake_severity(p.tolist(), y, FLAT),
            "scores must be a torch tensor, got list",
        ),
        (lambda p, y: metrics.full_path_accuracy(p[:, 1:], y, FLAT), r"probabilities .* shape \(N, 7\), got"),
        (lambda p, _: metrics.expected_cost(p, FLAT, "depth"), "kind must be one of lca-height, path"),
        (
            lambda p, y: metrics.level_calibration_error(p, y, FLAT, bins=0),
            "bins must be an integer in 1..10000",
        ),
        (
            lambda _, y: metrics.hierarchical_precision_recall(y, y, FLAT, "both"),
            "average must be one of micro",
        ),
        (lambda _, y: metrics.hierarchical_precision_recall(y + 9, y, FLAT), r"predictions must lie in 0..6"),
    ],
)
def test_wrong_arguments_are_named(call, message):
    p, y = random_predictions(0, FLAT)
    with pytest.raises(ValueError, match=message):
        call(p, y)
