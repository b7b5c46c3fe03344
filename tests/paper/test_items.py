"""Documents, tables and figures of items, from run folders with made-up numbers."""

import csv
import json
import statistics

import pytest
from PIL import Image

from cophenet.paper import ITEMS, find_items
from cophenet.paper.plan import Settings, arm_runs, wanted
from cophenet.paper.variants import DISTANCES

from .written import write_features, write_items, write_runs

ON_DIGITS = (
    "testcpcc",
    "fine",
    "coarse",
    "baselines",
    "scatter",
    "shuffled",
    "batch-size",
    "flow-weights",
    "memory",
)
SETTINGS = Settings("laptop", recipes=("digits",), seeds=(0, 1))


def made(tmp_path, name, settings=SETTINGS):
    """The document of an item whose runs are all there, those runs, and its folder."""
    (item,) = find_items((name,))
    results = write_runs(arm_runs(item, settings), tmp_path / "runs")
    write_items([name], tmp_path, settings)
    folder = tmp_path / "out" / name
    return json.loads((folder / f"{name}.json").read_text()), results, folder


@pytest.mark.parametrize("name", ON_DIGITS)
def test_every_file_is_written_and_says_something(tmp_path, name):
    document, results, folder = made(tmp_path, name)
    assert set(document["runs"]) == set(results)
    assert document["missing"] == {}
    for table in document["tables"]:
        rows = list(csv.reader((folder / f"{table['name']}.csv").read_text().splitlines()))
        assert len(rows) == len(table["rows"]) + 1
        assert table["title"] in (folder / f"{table['name']}.md").read_text().replace("\\", "")
        assert r"\toprule" in (folder / f"{table['name']}.tex").read_text()
    for figure in document["figures"]:
        assert "<svg" in (folder / f"{figure}.svg").read_text()
        picture = Image.open(folder / f"{figure}.png").convert("L")
        assert min(picture.size) > 150
        assert len(picture.getcolors(1 << 16)) > 20
        assert "nothing measured" not in (folder / f"{figure}.svg").read_text()


def test_numbers_of_tables_are_those_of_results(tmp_path):
    document, results, _ = made(tmp_path, "testcpcc")
    rows = {row[1]: row for row in document["tables"][0]["rows"]}
    for label, objective in (("Flat", "flat"), ("FastFT", "fastft"), ("SWD", "swd")):
        key = "source/cpcc/l2" if objective == "flat" else f"source/cpcc/{objective}"
        values = [results[f"digits-laptop-{objective}/seed{s}"]["metrics"][key]["mean"] for s in (0, 1)]
        number = rows[label][3]
        assert number["values"] == values
        assert number["mean"] == pytest.approx(statistics.fmean(values))
        assert number["std"] == pytest.approx(statistics.stdev(values))
    control = next(name for name in results if name.startswith("digits-laptop-fastft-shuffled"))
    assert results[control]["metrics"]["source/cpcc/fastft"]["mean"] == rows["FastFT"][5]["values"][0]


def test_published_numbers_stand_beside_and_wrong_ones_are_noted(tmp_path):
    document, _, folder = made(tmp_path, "flow-weights", Settings("laptop", seeds=(0,)))
    first = document["tables"][0]["rows"][0]
    assert first[:2] == ["FastFT", "uniform"]
    assert first[2]["paper"]["value"] == 0.9385
    text = (folder / "flow-weights.md").read_text()
    assert "93.85" in text
    assert "other rows" in text


@pytest.mark.parametrize("name", ["tree-depth", "tree-weights"])
def test_matrices_of_trees(tmp_path, name):
    document, _, folder = made(tmp_path, name, Settings("laptop", seeds=(0,)))
    rows = document["figures"][f"{name}-matrices"]["rows"]
    assert [row["name"] for row in rows] == ["EMD", "FastFT"]
    assert [len(row["panels"]) for row in rows] == [3, 3]
    matrix = rows[0]["panels"][0]["matrix"]
    assert len(matrix) == 100
    assert matrix[3][7] == matrix[7][3] > 0 == matrix[5][5]
    assert document["tables"][0]["rows"][0][2]["paper"] is not None
    assert (folder / f"{name}-matrices.png").stat().st_size > 10_000


def test_features_give_modes_and_orders(tmp_path):
    settings = Settings("laptop", recipes=("digits",), seeds=(0,))
    for name in ("modes", "orders"):
        (item,) = find_items((name,))
        arms = arm_runs(item, settings)
        write_runs(arms, tmp_path / "runs")
        # One run with features is enough, for mixtures take their time.
        for arm in (arm for arm in arms if arm.arm.objective == "emd"):
            path = arm.path(tmp_path / "runs", 0)
            write_features(path, "source-test", 7)
            write_features(path, "epoch0001-source-test", 7, seed=1)
    write_items(["modes", "orders"], tmp_path, settings)
    modes = json.loads((tmp_path / "out/modes/modes.json").read_text())
    series = {entry["name"]: entry for entry in modes["figures"]["modes"]["panels"][0]["series"]}
    assert series["EMD"]["x"] == [1]
    rows = {row[1]: row for row in modes["tables"][0]["rows"]}
    assert 1 <= rows["EMD"][2]["mean"] <= 10
    assert rows["l2"][2] is None
    orders = json.loads((tmp_path / "out/orders/orders.json").read_text())
    study = orders["studies"]["EMD"]
    assert study["batch order"]["error"] > study["principal order"]["error"] > 0
    claims = (tmp_path / "out/claims.md").read_text()
    line = next(line for line in claims.splitlines() if "Principal order" in line)
    # One seed, and less than two points apart.
    assert line.endswith("holds, within noise |")


def test_arms_share_runs_and_repeated_settings_make_no_new_ones():
    items = find_items(("testcpcc", "batch-size", "weight"))
    settings = Settings("paper", recipes=("cifar100",))
    core, sizes, weights = (
        {(a.arm.objective, a.arm.setting, a.arm.control): a.name for a in arm_runs(i, settings)}
        for i in items
    )
    for control, name in ((False, "cifar100-paper-fastft"), (True, "cifar100-paper-fastft-shuffled-22d11b")):
        shared = {
            core["fastft", "", control],
            sizes["fastft", "128", control],
            weights["fastft", "1", control],
        }
        assert shared == {name}
    assert len({*sizes.values(), *weights.values()}) == 2 * 3 * (4 + 6 - 1)


@pytest.mark.parametrize("scale", ["laptop", "paper"])
def test_every_cpcc_result_has_its_control(scale):
    without = {"data", "coarse", "fine", "modes", "umap", "rank", "synthetic", "epoch-time", "batch-time"}
    for item in ITEMS:
        entries = [arm for _, arm, _ in wanted(item, Settings(scale, ("cifar100",)))]
        plain, controls = (
            {
                (a.objective, a.setting): a
                for a in entries
                if a.control == control and a.objective in DISTANCES
            }
            for control in (False, True)
        )
        assert set(controls) == (set() if item.name in without else set(plain))
        for key, arm in controls.items():
            assert arm.overrides == (*plain[key].overrides, "tree.shuffle_seed=0")
            assert arm.seeds == 1


def test_items_name_the_tables_and_figures_of_the_paper():
    labels = {label for item in ITEMS for label in item.labels}
    assert {"tab:testcpcc", "tab:coarse", "tab:fine", "fig:umap", "fig:synthetic", "tab:rank"} <= labels
    baselines = next(item for item in ITEMS if item.name == "baselines")
    entries = wanted(baselines, Settings("laptop"))
    assert len({arm.objective for _, arm, _ in entries if not arm.control}) == 15
    with pytest.raises(ValueError, match="item must be one of"):
        find_items(("tables",))


def test_studies_share_the_runs_that_are_the_same():
    """Whatever an item calls a setting: batch size 64 is a run of the memory's study too."""
    settings = Settings("laptop", overrides=("epochs=6",))
    found = {
        (item.name, arm.arm.setting): arm.name
        for item in find_items(("batch-size", "memory", "weight", "flow-weights"))
        for arm in arm_runs(item, settings)
        if arm.arm.objective == "fastft" and not arm.arm.control
    }
    assert found["batch-size", "64"] == found["memory", "batch 64, memory 0"]
    assert found["batch-size", "64"].startswith("cifar100-laptop-fastft-batch_size-64-epochs-6-")
    assert found["batch-size", "128"] == found["weight", "2"] == found["flow-weights", "uniform"]
    assert found["weight", "0.05"].startswith("cifar100-laptop-fastft-epochs-6-weight-0.05-")
    assert len(set(found.values())) == 4 + 5 + 2 + 3
