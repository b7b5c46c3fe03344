"""Agreement with the numbers of the original authors' code."""

import json

import pytest
import torch
from sklearn.metrics import precision_score, recall_score
from torch.nn.functional import normalize

from cophenet import Hierarchy
from cophenet.metrics import (
    class_prototypes,
    decision_cost,
    expected_cost,
    hierarchical_distance,
    hierarchical_precision_recall,
    level_accuracy,
    mistake_severity,
    prototype_map,
)
from cophenet.metrics.hierarchical_precision import precision_curve
from cophenet.metrics.mean_average_precision import _precision_sums
from support import DEVICE, SHARED, double, golden, needs_shared

pytestmark = needs_shared
CASES = golden("metrics.json")
UNEVEN = [c for c in CASES if c["name"] == "mbm_uneven"]
TWO_LEVEL = [c for c in CASES if c["name"] == "mbm_two_level"]


def cases(prefix):
    chosen = [case for case in CASES if case["name"].startswith(prefix)]
    return pytest.mark.parametrize("case", chosen, ids=[case["name"] for case in chosen])


def tree_of(inputs):
    if "class_paths_below_root" in inputs:
        return Hierarchy.from_paths(inputs["class_paths_below_root"])
    return Hierarchy.from_edges(inputs["tree_edges_parent_child"], inputs.get("classes"))


def close(value, expected):
    assert float(value) == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_every_golden_case_is_tested_here():
    known = ("hiclass", "mbm", "crm", "semantic", "retrieval")
    names = [case["name"] for case in json.loads((SHARED / "golden" / "metrics.json").read_text())["cases"]]
    assert all(name.startswith(known) for name in names)


@cases("hiclass")
def test_hierarchical_precision_recall(case):
    tree = tree_of(UNEVEN[0]["inputs"])
    labels = torch.tensor([tree.index(path[-1]) for path in case["inputs"]["y_true"]], device=DEVICE)
    guesses = torch.tensor([tree.node(path) for path in case["inputs"]["y_pred"]], device=DEVICE)
    for average in ("micro", "macro"):
        values = hierarchical_precision_recall(guesses, labels, tree, average, nodes=True)
        for name, value in values.items():
            close(value, case["expected"][f"{name}_{average}"])


@cases("mbm")
def test_hierarchical_distance(case):
    tree = tree_of(case["inputs"])
    scores = double(case["inputs"]["scores"])
    labels = torch.tensor(case["inputs"]["target"], device=DEVICE)
    expected = case["expected"]
    for k in case["inputs"]["ks"]:
        accuracy = level_accuracy(scores, labels, tree, by="argmax", top_k=k)
        close(accuracy[tree.level_names[-1]], expected[f"accuracy_top/{k:02}"])
        close(hierarchical_distance(scores, labels, tree, k), expected[f"ilsvrc_dist_avg/{k:02}"])
        close(hierarchical_distance(scores, labels, tree, k, best=True), expected[f"ilsvrc_dist_top/{k:02}"])
        close(mistake_severity(scores, labels, tree, k), expected[f"ilsvrc_dist_mistakes/avg{k:02}"])


@cases("crm")
def test_expected_cost(case):
    inputs, expected = case["inputs"], case["expected"]
    tree = tree_of((TWO_LEVEL if case["name"] == "crm_two_level" else UNEVEN)[0]["inputs"])
    assert tree.distances(kind="lca-height").tolist() == inputs["class_distances_lca_height"]
    p, labels = double(inputs["probabilities"]), torch.tensor(inputs["target"], device=DEVICE)
    costs = expected_cost(p, tree)
    torch.testing.assert_close(costs, double(expected["expected_cost"]), rtol=1e-12, atol=1e-12)
    assert costs.argmin(1).tolist() == expected["argmin"]
    assert p.argmax(1).tolist() == expected["plain_argmax"]
    close(decision_cost(p, labels, tree), expected["metrics_crm"]["hdist1"])
    for scores, values in ((p, expected["metrics_plain"]), (-costs, expected["metrics_crm"])):
        close(level_accuracy(scores, labels, tree, by="argmax")[tree.level_names[-1]], values["top1"])
        close(mistake_severity(scores, labels, tree), values["mistake_severity"])
        for k in (1, 5):
            close(hierarchical_distance(scores, labels, tree, k), values[f"hdist{k}"])


@cases("semantic")
def test_hierarchical_precision(case):
    """Rankings are given, so the curve behind HP@k and AHP is what is compared."""
    inputs, expected = case["inputs"], case["expected"]["per_query"]
    tree = tree_of(inputs)
    gallery = torch.tensor([tree.index(name) for name in inputs["gallery_classes"]], device=DEVICE)
    rankings = torch.tensor(inputs["rankings"], device=DEVICE)
    itself = int("query_classes" not in inputs)
    if itself:
        labels, rankings = gallery[: len(rankings)], rankings[:, 1:]
    else:
        labels = torch.tensor([tree.index(name) for name in inputs["query_classes"]], device=DEVICE)
    ranked, counts = gallery[rankings], torch.bincount(gallery, minlength=tree.num_classes)
    for kind, name in (("wu-palmer", "WUP"), ("lca-height", "LCS_HEIGHT")):
        curve = precision_curve(ranked, labels, counts, itself, tree, kind)
        for k in inputs["ks"]:
            torch.testing.assert_close(curve[:, k - 1], double(expected[f"P@{k} ({name})"]))
        area = torch.trapezoid(curve) / curve.shape[1]
        torch.testing.assert_close(area, double(expected[f"AHP ({name})"]))
        if not itself:
            torch.testing.assert_close(torch.trapezoid(curve[:, :8]) / 8, double(expected[f"AHP@8 ({name})"]))
    right = ranked == labels[:, None]
    scores = -torch.arange(ranked.shape[1], device=DEVICE).double().repeat(len(ranked), 1)
    row, sample = right.nonzero().T
    sums = _precision_sums(scores, row, sample, right.cumsum(1)[row, sample] - 1)
    torch.testing.assert_close(sums / right.sum(1).clamp(min=1), double(expected["AP"]))


@cases("retrieval")
@pytest.mark.parametrize("level", ["fine", "coarse"])
def test_prototype_retrieval(case, level):
    inputs, expected = case["inputs"], case["expected"][level]
    groups = torch.tensor(inputs["coarse_map"], device=DEVICE)
    train_labels, labels = (
        torch.tensor(inputs[f"{part}_fine_labels"], device=DEVICE) for part in ("train", "test")
    )
    if level == "coarse":
        train_labels, labels = groups[train_labels], groups[labels]
    classes, prototypes = class_prototypes(double(inputs["train_features"]), train_labels)
    features = double(inputs["test_features"])
    close(prototype_map(features, labels, prototypes, classes), expected["mAP"])
    nearest = classes[(normalize(features) @ normalize(prototypes).T).argmax(1)].tolist()
    for score, name in ((precision_score, "precision_macro"), (recall_score, "recall_macro")):
        close(score(labels.tolist(), nearest, average="macro", zero_division=0), expected[name])
