"""Claims: those that are proofs, by example; those that are measured, from documents."""

import json

import numpy as np
import pytest
import torch

from cophenet import Hierarchy, class_distances, cpcc
from cophenet.analysis import StudySettings, synthetic_study
from cophenet.reproduce.claims import CLAIMS, claims_page
from cophenet.reproduce.collect_costs import batch_time, synthetic
from cophenet.reproduce.items import item_names
from support import random_batch, random_weights


def test_emd_is_at_least_the_distance_of_the_weighted_means():
    features, labels = random_batch(3, [5, 7, 9])
    weights = random_weights(1, len(labels))
    for masses in (torch.ones_like(weights), weights):
        means = []
        for c in range(3):
            share = masses[labels == c] / masses[labels == c].sum()
            means.append(share @ features[labels == c])
        low = torch.stack([(means[u] - means[v]).norm() for u, v in ((0, 1), (0, 2), (1, 2))])
        assert (class_distances(features, labels, "emd", flow_weights=masses)[1] >= low - 1e-9).all()


def test_sliced_distances_can_be_below_l2():
    features, labels = random_batch(0, [20, 20], width=30)
    swd, l2 = (class_distances(features, labels, name)[1] for name in ("swd", "l2"))
    assert (swd < l2).all()


def test_centroids_reach_the_tree_where_leaves_have_equal_depth():
    tree = Hierarchy.from_paths([(f"g{c // 3}", f"c{c}") for c in range(9)])
    squared = tree.distances() ** 2
    centre = np.eye(9) - 1 / 9
    values, vectors = np.linalg.eigh(-centre @ squared @ centre / 2)
    assert values.min() > -1e-9
    points = torch.from_numpy(vectors * np.sqrt(values.clip(0)))
    rho = class_distances(points, torch.arange(9), "l2")[1]
    assert cpcc(rho, tree.condensed()).item() == pytest.approx(1.0)


def test_every_measured_claim_names_an_item_and_every_proof_a_test():
    for claim in CLAIMS:
        assert (claim.check is None) != (claim.proved is None)
        assert claim.source in item_names() or claim.source.startswith("tests/")


def written(folder, name, parts):
    (folder / name).mkdir()
    document = {"item": name, "scale": "laptop", **parts}
    (folder / name / f"{name}.json").write_text(json.dumps(document))


def verdict(folder, start):
    line = next(line for line in claims_page(folder).splitlines() if line.startswith(f"| {start}"))
    return line.split(" | ")[3], line.split(" | ")[4].removesuffix(" |")


def test_verdicts_follow_the_numbers(tmp_path):
    study = synthetic_study(StudySettings(width=64, repeats=2, sizes=(8, 16), error_sizes=(64,)))
    for name, power in (("FastFT", 1.02), ("EMD", 1.5)):
        study["times"][name]["exponent"] = power
    written(tmp_path, "synthetic", synthetic(study))
    assert verdict(tmp_path, "FastFT takes time linear") == ("n to the power 1.02 (laptop scale)", "holds")
    assert verdict(tmp_path, "EMD takes more than quadratic")[1] == "does not"
    # In random order greedy plans are worse than Sinkhorn's; the paper's order is a lucky one.
    assert verdict(tmp_path, "FastFT approximates EMD better")[1] == "does not"
    seconds = {"l2": [0.001], "bures": [0.02], "bures, dense": [100.0]}
    settings = {"batch_size": 128, "classes": 100, "width": 512, "dense_pairs": 2}
    written(tmp_path, "batch-time", batch_time({"seconds": seconds, "settings": settings}))
    measured, holds = verdict(tmp_path, "Bures is prohibitively")
    assert measured.startswith("20 times l2 by the nuclear norm, 100,000 times")
    assert holds == "does not"


def test_what_was_not_measured_is_said_and_contradictions_are_listed(tmp_path):
    assert verdict(tmp_path, "OT-CPCC is better than l2")[1].startswith("needs a GPU")
    assert "tab:comparison_colored_normalized: The fine cells of uniform" in claims_page(tmp_path)
