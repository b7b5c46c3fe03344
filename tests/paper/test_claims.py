"""The page of claims: verdicts in words, from documents that items left."""

import json

import pytest

from cophenet.paper import StudySettings, synthetic_study
from cophenet.paper.claims import CLAIMS, claims_page
from cophenet.paper.collect_costs import batch_time, synthetic
from cophenet.paper.items import ITEMS, item_names
from cophenet.paper.verdicts import ALL_CPCC

from .tables import cells, document, table

FLAT_ROW = ["cifar100", "Flat", cells(0.2, 0.21), cells(0.2, 0.21)]


def written(folder, name, parts):
    (folder / name).mkdir(exist_ok=True)
    (folder / name / f"{name}.json").write_text(json.dumps(document(name, **parts)))


def verdict(folder, start):
    (line,) = (line for line in claims_page(folder).splitlines() if line.startswith(f"| {start}"))
    return line.split(" | ")[3], line.split(" | ")[4].removesuffix(" |")


def test_every_measured_claim_names_an_item_and_every_proof_a_test():
    for claim in CLAIMS:
        assert (claim.check is None) != (claim.proved is None)
        assert claim.source in item_names() or claim.source.startswith("tests/")
    assert len({claim.text for claim in CLAIMS}) == len(CLAIMS)


def test_every_item_is_about_a_claim():
    assert {item.name for item in ITEMS} == {claim.source for claim in CLAIMS if claim.check}


def test_verdicts_follow_the_numbers(tmp_path):
    study = synthetic_study(StudySettings(width=64, repeats=2, sizes=(8, 16), error_sizes=(64,)))
    for name, power in (("FastFT", 1.02), ("EMD", 1.5)):
        study["times"][name]["exponent"] = power
    written(tmp_path, "synthetic", synthetic(study))
    measured, word = verdict(tmp_path, "FastFT takes time linear")
    assert measured == "n to the power 1.02; 0.75 to 1.25 counts as linear (laptop scale)"
    assert word == "holds"
    assert verdict(tmp_path, "EMD takes more than quadratic")[1] == "does not"
    # In random order greedy plans are worse than Sinkhorn's; the paper's order is a lucky one.
    assert verdict(tmp_path, "FastFT approximates EMD better")[1].startswith("does not")
    seconds = {"l2": [0.001], "emd": [0.01], "bures": [0.02], "bures, dense": [100.0]}
    settings = {"batch_size": 128, "classes": 100, "width": 512, "dense_pairs": 2}
    written(tmp_path, "batch-time", batch_time({"seconds": seconds, "settings": settings}))
    measured, word = verdict(tmp_path, "Bures is prohibitively")
    assert measured.startswith("20 times l2 by the nuclear norm, which decides, 100,000 times")
    assert word == "does not"
    assert verdict(tmp_path, "A batch takes longer with Bures")[1] == "holds"


@pytest.mark.parametrize(
    ("l2", "fastft", "word"),
    [
        ((0.5, 0.52, 0.54), (0.9, 0.91, 0.92), "holds"),
        ((0.3, 0.31, 0.32), (0.9, 0.91, 0.92), "holds, within noise,"),
        ((0.28, 0.3, 0.32), (0.9, 0.91, 0.92), "does not, within noise,"),
        ((0.22, 0.23, 0.24), (0.9, 0.91, 0.92), "does not"),
    ],
)
def test_far_above_flat_is_by_the_same_distance_and_says_how_sure(tmp_path, l2, fastft, word):
    columns = ("data", "objective", "TestCPCC", "by l2")
    rows = [FLAT_ROW, *(["cifar100", name, cells(*fastft), cells(*l2)] for name in ALL_CPCC)]
    runs = {"runs": ["cifar100-laptop-flat/seed0"], "settings": ["epochs=6"]}
    written(tmp_path, "testcpcc", {**table(columns, rows), **runs})
    measured, found = verdict(tmp_path, "CPCC training embeds the tree")
    assert found == f"{word} on 1 of 7 data sets; cifar10 not run yet; the rest needs a GPU"
    assert "Flat 20.5 ± 0.7" in measured
    assert f"lowest CPCC objective l2 {100 * l2[1]:.1f}" in measured
    assert "by their own distances the lowest is l2 91.0 ± 1.0" in measured
    assert f"ten points more count as far above, as in {5 * word.startswith('holds')} of 5" in measured
    assert measured.endswith("(cifar100, laptop scale, epochs=6)")


def test_other_data_is_named_and_one_seed_is_said(tmp_path):
    rows = [["digits", *FLAT_ROW[1:]], ["digits", "EMD", cells(0.9), cells(0.8)]]
    columns = ("data", "objective", "TestCPCC", "by l2")
    written(tmp_path, "testcpcc", table(columns, rows))
    measured, word = verdict(tmp_path, "CPCC training embeds the tree")
    assert word == "holds so far, 1 of 5 objectives, on digits"
    assert "some of one seed" in measured


def test_what_was_not_measured_is_said_and_contradictions_are_listed(tmp_path):
    assert verdict(tmp_path, "OT-CPCC is better than l2") == ("`cophenet reproduce fine`", "not run yet")
    assert verdict(tmp_path, "Classes of BREEDS have the fewest") == ("-", "needs a GPU")
    page = claims_page(tmp_path)
    assert "tab:comparison_colored_normalized: The fine cells of uniform" in page
    assert "two standard errors" in page
    assert "noise is not judged" in page
    assert "settled after first pilots of the time study were seen" in page
    # Documents that items leave when no run is there.
    written(tmp_path, "fine", {"tables": [table((), ())["tables"][0]] * 3})
    assert verdict(tmp_path, "OT-CPCC is better than l2") == ("`cophenet reproduce fine`", "not run yet")
    # Some are there, but not those that are compared.
    parts = {"tables": [table((), ())["tables"][0]] * 3, "runs": ["cifar100-laptop-flat/seed0"]}
    written(tmp_path, "fine", parts)
    measured, word = verdict(tmp_path, "OT-CPCC is better than l2")
    assert (measured, word) == ("`cophenet reproduce fine`; runs are missing", "not run yet")


def test_a_part_of_the_data_decides_nothing(tmp_path):
    printed = {"value": 50_000, "std": None, "note": None}
    row = ["cifar100", *({**cells(n, unit="count"), "paper": printed} for n in (15_000, 50_000))]
    written(tmp_path, "data", table(("data", "train", "test"), [row]))
    measured, word = verdict(tmp_path, "The data sets have the sizes")
    assert "a part of the data is here (train 15,000 of 50,000)" in measured
    assert word == "not run yet: whole data is needed"


def test_backbones_of_the_paper_need_a_gpu(tmp_path):
    rows = [[name, cells(value)] for name, value in (("FastFT", 0.9), ("EMD", 0.8), ("l2", 0.7))]
    written(tmp_path, "backbone", table(("objective", "resnet10-w16"), rows))
    word = verdict(tmp_path, "FastFT > EMD > l2 with every backbone")[1]
    assert word == "holds; the rest (ResNet18 to 50 and the vision transformers) needs a GPU"
