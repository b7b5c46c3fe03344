"""The page of claims: every claim with its verdict, by the observations of items."""

import re
import runpy
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from cophenet.paper import claims, isolated, timing
from cophenet.paper.claims import CLAIMS, Claim
from cophenet.paper.documents import Document, write_document
from cophenet.paper.expressions import Comparison, value
from cophenet.paper.items import ITEMS
from cophenet.paper.page import claims_page
from cophenet.paper.plan import Settings, wanted
from cophenet.paper.proofs import PROOFS
from cophenet.paper.synthetic import synthetic_observations
from cophenet.paper.variants import BACKBONES, DISTANCES

from .written import observed

FLAT = ("cifar100", "flat", "cpcc/l2", (0.2, 0.21, 0.22))


def verdict(folder, start):
    (line,) = (line for line in claims_page(folder).splitlines() if line.startswith(f"| {start}"))
    return line.split(" | ")[3], line.split(" | ")[4].removesuffix(" |")


@pytest.fixture
def judged(tmp_path, monkeypatch):
    """What the page says of a claim by made-up observations of its item."""
    documents = {}

    def read(folder, name):
        return documents.get(name) if folder == tmp_path else None

    monkeypatch.setattr("cophenet.paper.page.read_document", read)

    def call(start, item, *entries, **parts):
        documents[item] = Document(item, observations=observed(*entries), **parts)
        return verdict(tmp_path, start)

    call.documents = documents
    return call


def comparisons(requirement):
    if isinstance(requirement, Comparison):
        return [requirement]
    return [one for part in requirement.parts for one in comparisons(part)]


def test_every_claim_is_of_an_item_and_on_the_page():
    assert {item.name for item in ITEMS} >= {claim.item for claim in CLAIMS}
    texts = [claim.text for claim in (*CLAIMS, *PROOFS)]
    assert len(set(texts)) == len(texts) == 83
    page = claims_page(Path("/nowhere"))
    assert all(f"| {text} |" in page for text in texts)


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.text)
def test_claims_compare_what_their_items_train(claim):
    """A name or setting that no item has would never be judged."""
    item = next(item for item in ITEMS if item.name == claim.item)
    trained = {
        (variant.objective, tuple(sorted(variant.setting.items())), variant.control)
        for scale in ("laptop", "scratch", "paper")
        for _, variant, _ in wanted(item, Settings(scale))
    }
    for _, term in (pair for one in comparisons(claim.requires) for pair in one.terms):
        for name in term.objectives:
            if trained and name:
                assert (name, tuple(sorted(term.setting)), term.control) in trained


@pytest.mark.parametrize(
    ("emd", "numbers", "expected"),
    [
        (0.5, "EMD: 50.0 against Flat: 21.0; +29.0 [+26.5, +31.5]", "holds"),
        (0.1, "EMD: 10.0 against Flat: 21.0; -11.0 [-13.5, -8.5]", "does not hold"),
        (0.2, "EMD: 20.0 against Flat: 21.0; -1.0 [-3.5, +1.5]", "cannot be told: within noise"),
    ],
)
def test_one_entry_in_one_file_adds_a_claim_with_its_verdict(
    judged, tmp_path, monkeypatch, emd, numbers, expected
):
    start = "_OBJECTIVES: tuple[Claim, ...] = ("
    added = (
        'Claim("EMD beats Flat.", "here", "testcpcc", value("emd", "cpcc/l2") > value("flat", "cpcc/l2")),'
    )
    file = Path(claims.__file__)
    shutil.copy(file.with_suffix(".md"), tmp_path)
    before, _, after = file.read_text().partition(start)
    (tmp_path / "claims.py").write_text("".join((before, start, added, after)))
    with_one_more = SimpleNamespace(**runpy.run_path(str(tmp_path / "claims.py")))
    monkeypatch.setattr("cophenet.paper.page.claims", with_one_more)
    measured, word = judged("EMD beats Flat.", "testcpcc", FLAT, ("cifar100", "emd", "cpcc/l2", (emd,) * 3))
    assert measured == f"cpcc/l2, {numbers} (cifar100, laptop scale)"
    assert word == expected
    assert len(with_one_more.CLAIMS) == len(CLAIMS) + 1


def test_a_bar_in_a_claim_does_not_end_its_cell(tmp_path, monkeypatch):
    added = Claim("The sign of |r| is `a | b`.", "here", "fine", value("emd", "x") > value("flat", "x"))
    monkeypatch.setattr(claims, "CLAIMS", (added,))
    (line,) = (line for line in claims_page(tmp_path).splitlines() if line.startswith("| The sign"))
    cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
    assert cells[:3] == [r"The sign of \|r\| is `a \| b`.", "here", "fine"]
    assert len(cells) == 5


@pytest.mark.parametrize(
    ("l2", "word"),
    [
        ((0.5, 0.51, 0.52), "holds"),
        ((0.3, 0.33, 0.36), "cannot be told: within noise"),
        ((0.22, 0.23, 0.24), "does not hold"),
        ((0.5, 0.52), "cannot be told: 2 seeds, 3 are needed"),
    ],
)
def test_far_above_flat_is_by_the_same_distance_and_says_how_sure(judged, l2, word):
    rows = [("cifar100", name, "cpcc/l2", l2) for name in DISTANCES]
    rows += [("cifar100", name, "cpcc/own", (0.9, 0.91, 0.92)) for name in DISTANCES]
    rows += [FLAT, ("cifar100", "flat", "cpcc/own", FLAT[3])]
    measured, found = judged("CPCC training embeds the tree", "testcpcc", *rows, settings=("epochs=6",))
    assert found == f"{word} (on 1 of 7 data sets; cifar10 not run yet; the rest needs a GPU)"
    count = {"holds": "hold", "does not hold": "do not hold"}.get(word, "cannot be told")
    assert measured.startswith(f"of 5 comparisons 5 {count}; cpcc/l2, l2: ")
    assert "against Flat + 10.0: 31.0" in measured or len(l2) == 2
    assert "beside, each by its own distance: of 5 comparisons 5 hold" in measured
    assert measured.endswith("(cifar100, laptop scale, epochs=6)")


def test_other_data_is_named_and_missing_objectives_are_said(judged):
    rows = [
        ("digits", *FLAT[1:]),
        ("digits", "emd", "cpcc/l2", (0.8, 0.81, 0.82)),
        ("digits", "swd", "x", ()),
    ]
    _, word = judged("CPCC training embeds the tree", "testcpcc", *rows)
    assert word == "cannot be told: SWD not run (on digits)"


@pytest.mark.parametrize(("lost", "word"), [(0.002, "holds"), (0.02, "does not hold")])
def test_cosine_may_cost_a_point_on_the_classes_that_were_trained(judged, lost, word):
    rows = []
    for data, domain in (("cifar100", "source"), ("glosses", "full")):
        for metric in ("accuracy/fine", "accuracy/coarse", "map/fine"):
            flat = [0.70, 0.71, 0.72]
            rows.append((data, "flat", f"{domain}/{metric}", flat))
            less = lost if domain == "full" else 0.0
            values = [number - less + seed / 10_000 for seed, number in enumerate(flat)]
            rows.append((data, "cosine", f"{domain}/{metric}", values))
    measured, found = judged("(Beyond the paper) Cosine costs nothing", "objectives", *rows)
    assert found == word
    assert measured.startswith("of 6 comparisons ")


def test_most_data_sets_are_enough_for_a_claim_about_most(judged):
    rows = []
    for place, data in enumerate(("cifar10", "cifar100", "living17")):
        rows.append((data, "l2", "cpcc/own", (0.5, 0.51, 0.52)))
        rows.append((data, "emd", "cpcc/own", (0.6, 0.61, 0.62) if place else (0.4, 0.41, 0.42)))
    measured, word = judged("On most data sets", "testcpcc", *rows)
    assert word == "holds (on 3 of 7 data sets; the rest needs a GPU)"
    assert "cifar10: cpcc/own, EMD" in measured or "cifar10: cpcc/own, best of" in measured


def test_what_was_not_measured_is_said_and_contradictions_are_listed(tmp_path):
    not_run = ("`cophenet reproduce fine`", "cannot be told: not run yet")
    assert verdict(tmp_path, "OT-CPCC is better than l2") == not_run
    assert verdict(tmp_path, "Classes of BREEDS have the fewest") == ("-", "cannot be told: needs a GPU")
    page = claims_page(tmp_path)
    assert "tab:comparison_colored_normalized: The fine cells of uniform" in page
    assert "paired over seeds" in page
    assert "settled after first pilots of the time study were seen" in page
    # A document that an item leaves when no run is there.
    write_document(Document("rank"), tmp_path)
    assert verdict(tmp_path, "Rank is worse")[1] == "cannot be told: not run yet"


def test_the_studies_of_time(judged, tmp_path):
    sizes = {"sizes": [8, 16, 32], "error_sizes": [64], "widths": [4, 8], "classes": [2, 4]}
    told: list[str] = []
    study = isolated._RUNNERS["synthetic"]({"width": 64, "repeats": 3, **sizes}, told.append)
    assert study["times"]["fastft"]["sizes"] == [8, 16, 32]
    assert any(line.startswith("time of FastFT") for line in told)
    for name, power in (("fastft", 1.0), ("emd", 1.5)):
        entry = study["times"][name]
        entry["seconds"] = [[1e-3 * n**power * (1 + r / 1000) for r in range(3)] for n in entry["sizes"]]
    judged.documents["synthetic"] = Document(
        "synthetic", study=study, observations=synthetic_observations(study)
    )
    measured, word = verdict(tmp_path, "FastFT takes time linear in n")
    assert measured.startswith("power, FastFT: 1 against 0.75; +0.25 [")
    assert word == "holds"
    assert verdict(tmp_path, "EMD takes more than quadratic")[1] == "does not hold"
    assert verdict(tmp_path, "FastFT takes no more than linear time in d")[0].startswith("power-d, ")
    assert "power-k, " in verdict(tmp_path, "No distance grows faster with the number of classes")[0]
    assert verdict(tmp_path, "The bottleneck of FlowTree")[0].startswith("build-share, FT: ")
    # In random order greedy plans are worse than Sinkhorn's; the paper's order is a lucky one.
    assert verdict(tmp_path, "FastFT approximates EMD better")[1].startswith("does not hold")
    assert verdict(tmp_path, "On mixtures the OT distances differ")[1] == "holds"
    assert verdict(tmp_path, "On mixtures SWD is close to l2")[1] == "holds"
    seconds = {"l2": [0.001] * 3, "emd": [0.01] * 3, "bures": [0.02] * 3, "bures, dense": [100.0] * 3}
    times = timing.step_observations({"seconds": seconds})
    judged.documents["batch-time"] = Document("batch-time", observations=times)
    measured, word = verdict(tmp_path, "Bures is prohibitively")
    assert measured.startswith("times-l2, Bures: 20 against 100; -80")
    assert "beside, by square roots of matrices: times-l2, Bures, dense: 1e+05 against 100" in measured
    assert word == "does not hold"
    assert verdict(tmp_path, "A batch takes longer with Bures")[1] == "holds"


def test_agreement_on_gaussians_is_with_l2(judged):
    def rows(**values):
        return [("", name, "from-l2/gaussian", (v, v + 1e-4, v)) for name, v in values.items()]

    for swd, fastft, word in (
        (0.93, 0.08, "holds"),
        (0.93, 0.105, "does not hold"),
        (0.05, 0.08, "does not hold"),
    ):
        assert judged("On Gaussians", "synthetic", *rows(swd=swd, fastft=fastft))[1] == word


def test_a_part_of_the_data_decides_nothing(judged):
    part = {"doubt": "a part of the data is here (samples/train 15,000 of 50,000)"}
    _, word = judged(
        "The data sets have the sizes", "data", ("cifar100", "", "samples/train/of-printed", (0.3,), part)
    )
    assert word.startswith("cannot be told: a part of the data is here (samples/train 15,000 of 50,000)")


def test_backbones_of_the_paper_need_a_gpu(judged):
    rows = [
        ("cifar100", name, "cpcc/own", (v, v, v), {"setting": {"backbone": BACKBONES["laptop"][0]}})
        for name, v in (("fastft", 0.9), ("emd", 0.8), ("l2", 0.7))
    ]
    _, word = judged("FastFT > EMD > l2 with every backbone", "backbone", *rows)
    assert word == "holds; the rest (ResNet18 to 50 and the vision transformers) needs a GPU"


def numbers(objective, metric, values, **setting):
    """Three seeds close to each value, at a setting each."""
    return [
        ("cifar100", objective, metric, (v, v + 1e-4, v - 1e-4), {"setting": {**setting, name: at}})
        for name, at, v in values
    ]


@pytest.mark.parametrize(
    ("start", "item", "metric", "name", "settings", "good", "bad"),
    [
        (
            "Larger batches give",
            "batch-size",
            "cpcc/own",
            "batch_size",
            (64, 1024),
            (0.72, 0.85),
            (0.72, 0.71),
        ),
        ("A subtree of weight 4", "tree-weights", "cpcc/own", "weight", (1, 4), (0.9, 0.8), (0.8, 0.9)),
        (
            "The block of the subtree",
            "tree-weights",
            "block-share",
            "weight",
            (1, 2, 4),
            (0.8, 0.9, 1.0),
            (0.8, 0.9, 0.85),
        ),
        (
            "With distance flow",
            "flow-weights",
            "cpcc/own",
            "flow_weights",
            ("uniform", "distance"),
            (0.9, 0.1),
            (0.9, 0.5),
        ),
    ],
)
def test_studies_of_settings(judged, start, item, metric, name, settings, good, bad):
    for values, word in ((good, "holds"), (bad, "does not hold")):
        rows = [
            row
            for o in ("emd", "fastft")
            for row in numbers(o, metric, [(name, s, v) for s, v in zip(settings, values, strict=True)])
        ]
        rows += numbers("l2", metric, [(name, s, 0.7) for s in settings])
        assert judged(start, item, *rows)[1] == word


def test_steady_trees(judged):
    for accuracy, word in (((0.5, 0.5, 0.505), "holds"), ((0.5, 0.55, 0.5), "does not hold")):
        rows = []
        for objective in ("emd", "fastft"):
            rows += numbers(
                objective,
                "cpcc/own",
                [("depth", d, v) for d, v in zip((3, 4, 5), (0.9, 0.88, 0.85), strict=True)],
            )
            rows += numbers(
                objective,
                "full/accuracy/fine",
                [("depth", d, v) for d, v in zip((3, 4, 5), accuracy, strict=True)],
            )
        # Accuracies of half of the paper's and more, so that they count.
        assert judged("Deeper trees are learned", "tree-depth", *rows)[1] == word


def test_blocks_at_every_level(judged):
    for deep, word in ((0.5, "holds"), (0.9, "does not hold")):
        rows = []
        for objective in ("emd", "fastft"):
            for depth in (3, 4, 5):
                for level in range(1, depth - 1):
                    ratio = deep if level == 3 else 0.4
                    rows += numbers(objective, f"blocks/{level}", [("depth", depth, ratio)])
        assert judged("Distance matrices show", "tree-depth", *rows)[1] == word


def test_flow_weights_trade_target_for_source(judged):
    def rows(target, source):
        made = []
        for objective in ("fastft", "emd"):
            for metric, changed in (("mean/target", target), ("mean/source", source)):
                made += numbers(
                    objective,
                    metric,
                    [("flow_weights", "uniform", 0.5), ("flow_weights", "inverse", changed)],
                )
        return made

    start = "Flow weights can improve"
    assert judged(start, "flow-weights", *rows(0.6, 0.4))[1] == "holds"
    assert judged(start, "flow-weights", *rows(0.4, 0.6))[1] == "does not hold"


def test_trends_need_objectives_enough(judged):
    def rows(coarse, fine, **more):
        return [
            ("digits", "", f"correlation/cpcc/l2/{level}", (r, r + 0.01, r - 0.01), dict(more))
            for level, r in (("coarse", coarse), ("fine", fine))
        ]

    start = "Higher CPCC goes with"
    assert judged(start, "scatter", *rows(0.8, -0.6))[1] == "holds"
    # Two over the root of 14 is 0.53.
    assert judged(start, "scatter", *rows(0.8, -0.5))[1] == "cannot be told: within noise"
    assert judged(start, "scatter", *rows(-0.6, -0.6))[1] == "does not hold"
    word = judged(start, "scatter", *rows(0.9, -0.9, doubt="4 of 14 objectives were run"))[1]
    assert word == "cannot be told: 4 of 14 objectives were run"


def test_times_of_epochs_need_no_trained_network(judged):
    seconds = {"l2": 10.0, "fastft": 10.8, "emd": 20.0, "sinkhorn": 12.0, "swd": 10.5}
    rows = [("cifar10", n, "seconds_per_epoch", (s, s + 0.01, s - 0.01)) for n, s in seconds.items()]
    rows += [("cifar10", name, "source/accuracy/fine", (0.1,) * 3) for name in seconds]
    on = " (on 1 of 2 data sets; the rest needs a GPU)"
    measured, word = judged("An epoch with FastFT is faster than with EMD", "epoch-time", *rows)
    assert word == f"holds{on}"
    assert measured.startswith("seconds_per_epoch, EMD: 20 against FastFT: 10.8; +9.2 [")
    assert (
        judged("An epoch with FastFT is faster than with Sinkhorn", "epoch-time", *rows)[1]
        == f"does not hold{on}"
    )
    assert judged("An epoch with FastFT is not much slower", "epoch-time", *rows)[1] == f"holds{on}"
