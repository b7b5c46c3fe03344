"""The loss against numbers that the authors' own code gives."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from cophenet import CPCCLoss, Hierarchy, class_distances
from support import DEVICE, double, golden, needs_shared

PUBLISHED = json.loads((Path(__file__).parent / "published.json").read_text())
NAMES = {"sk": "sinkhorn", "fft": "fastft"}
FLOW = {0: "uniform", 1: "distance", 2: "inverse"}


def check(criterion, features, labels, rho, loss, gradient):
    z = double(features).requires_grad_()
    y = torch.tensor(labels, device=DEVICE)
    value = criterion(z, y)
    assert value.item() == pytest.approx(loss, abs=1e-9)
    value.backward()
    # Where the published code returns a constant without a graph, ours has zero gradients.
    expected = torch.zeros_like(z) if gradient is None else double(gradient)
    torch.testing.assert_close(z.grad, expected, rtol=0, atol=1e-7)
    if rho is not None:
        distances = class_distances(
            z.detach(), y, criterion.distance, flow_weights=criterion.flow_weights, tree=criterion.tree
        )[1]
        torch.testing.assert_close(distances, double(rho), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("case", PUBLISHED["cases"], ids=lambda c: f"{c['distance']}-{c['flow_weights']}")
def test_published_numbers_kept_here(case):
    batch = PUBLISHED["batch"]
    tree = Hierarchy.from_paths([(f"group{g}", f"class{c}") for c, g in enumerate(batch["parents"])])
    options = {k: double(v) if k == "directions" else v for k, v in case["options"].items()}
    criterion = CPCCLoss(tree, case["distance"], flow_weights=case["flow_weights"], **options)
    features, labels = (case.get(key, batch[key]) for key in ("features", "labels"))
    check(criterion, features, labels, case["rho"], case["loss"], case["gradient"])


def golden_tree(given):
    """The tree behind a golden case: levels above the classes, and edge weights by what the case says."""
    levels = [given[key] for key in ("coarsest_map", "coarse_map", "mid_map") if key in given]
    if given.get("height") == 3:
        levels = levels[1:]
    paths = [
        (*(f"{depth}.{level[c]}" for depth, level in enumerate(levels)), f"class{c}")
        for c in range(len(levels[0]))
    ]
    tree = Hierarchy.from_paths(paths)
    if "dist_weights" in given:
        # Distances inside one group shrink, those across stay: shorter below, longer above.
        share = given["dist_weights"]
        weights = np.where(tree.parents == tree.node("0.0"), share, tree.edge_weights)
        weights[tree.node("0.0")] = 2 - share
        return Hierarchy.from_parents(tree.parents, tree.names, weights, tree.classes)
    if "tree_distance_same_coarse" in given:
        same, other = given["tree_distance_same_coarse"], given["tree_distance_other"]
        tree = tree.with_level_weights({1: (other - same) / 2, 2: same / 2})
    return tree


@needs_shared
@pytest.mark.parametrize("case", golden("cpcc.json"), ids=lambda c: c["name"])
def test_every_published_case(case):
    given, expected = case["inputs"], case["expected"]
    tree = golden_tree(given)
    if "tree_distances" in expected:
        present = sorted(set(given["fine_labels"]))
        np.testing.assert_array_equal(tree.condensed(present), expected["tree_distances"])
    options = {}
    if given["metric"] == "swd":
        options = {"p": given["p"], "directions": double(given["projections_d_by_n"])}
    if given["metric"] == "sk":
        options = {"reg": given["reg"]}
    criterion = CPCCLoss(
        tree,
        NAMES.get(given["metric"], given["metric"]),
        flow_weights=FLOW[given.get("emd_weights", 0)],
        **options,
    )
    check(
        criterion,
        given["features"],
        given["fine_labels"],
        expected.get("pairwise_class_distances"),
        expected["loss"],
        expected["grad_features"],
    )


def test_one_dimension_is_sorting():
    """In one dimension all of emd, principal order and sliced transport are the sorted matching."""
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(12, 1, generator=generator, dtype=torch.float64).to(DEVICE)
    y = (torch.arange(12) % 2).to(DEVICE)
    expected = (z[y == 0].sort(0).values - z[y == 1].sort(0).values).abs().mean()[None]
    for name, options in (
        ("emd", {}),
        ("fastft", {"order": "principal"}),
        ("swd", {"p": 1, "directions": torch.ones(1, 1, device=DEVICE)}),
    ):
        torch.testing.assert_close(class_distances(z, y, name, **options)[1], expected)


@needs_shared
@pytest.mark.parametrize(
    "case",
    [c for c in golden("sliced.json") if c["name"].startswith(("fft", "oned", "emd2"))],
    ids=lambda c: c["name"],
)
def test_published_pairs(case):
    given, expected = case["inputs"], case["expected"]
    oned = case["name"].startswith("oned")
    x, y = (double(given[key]) for key in (("x", "y") if oned else ("X", "Y")))
    z = torch.cat((x, y)).reshape(len(x) + len(y), -1).requires_grad_()
    labels = torch.tensor([0] * len(x) + [1] * len(y), device=DEVICE)
    weights = double(given["a"] + given["b"]) if "a" in given else "uniform"
    if oned:
        for p, key in ((1, "wasserstein_1d_p1"), (2, "wasserstein_1d_p2")):
            line = torch.ones(1, 1, dtype=torch.float64, device=DEVICE)
            _, rho = class_distances(z, labels, "swd", p=p, directions=line, flow_weights=weights)
            assert rho.item() ** p == pytest.approx(expected[key], abs=1e-9)
        return
    name = "emd" if "emd2" in case["name"] else "fastft"
    _, rho = class_distances(z, labels, name, flow_weights=weights)
    assert rho.item() == pytest.approx(expected["value"], abs=1e-9)
    if "grad_X" in expected:
        rho.sum().backward()
        torch.testing.assert_close(z.grad, double(expected["grad_X"] + expected["grad_Y"]), rtol=0, atol=1e-7)
