"""Documents, tables and figures of items, from run folders with made-up numbers."""

import csv
import statistics

import pytest
from PIL import Image

from cophenet.paper import ITEMS, find_items
from cophenet.paper.documents import read_document
from cophenet.paper.figures import checksum, item_figures
from cophenet.paper.plan import Settings, plan_runs, wanted
from cophenet.paper.tables import item_tables
from cophenet.paper.variants import DISTANCES

from .written import rows_of, write_features, write_items, write_runs

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


def _key(variant):
    return variant.objective, tuple(variant.setting.items()), variant.control


def made(tmp_path, name, settings=SETTINGS):
    """The document of an item whose runs are all there, those runs, and its folder."""
    (item,) = find_items((name,))
    results = write_runs(plan_runs(item, settings), tmp_path / "runs")
    write_items([name], tmp_path, settings)
    return read_document(tmp_path / "out", name), results, tmp_path / "out" / name


@pytest.fixture(scope="module")
def on_digits(tmp_path_factory):
    """Items whose runs are all there, written at once; results.json contents by run, for each item."""
    folder = tmp_path_factory.mktemp("digits")
    results = {
        item.name: write_runs(plan_runs(item, SETTINGS), folder / "runs") for item in find_items(ON_DIGITS)
    }
    write_items(ON_DIGITS, folder, SETTINGS)
    return folder / "out", results


@pytest.mark.parametrize("name", ON_DIGITS)
def test_every_file_is_written_and_says_something(on_digits, name):
    document, folder = read_document(on_digits[0], name), on_digits[0] / name
    assert set(document.runs) == set(on_digits[1][name])
    assert document.missing == {}
    files = {folder / f"{name}.json", folder / "README.md"}
    for stem, table in item_tables(document).items():
        paths = {ending: folder / f"{stem}.{ending}" for ending in ("csv", "md", "tex")}
        rows = list(csv.reader(paths["csv"].read_text().splitlines()))
        assert len(rows) == len(table.rows) + 1
        assert table.title in paths["md"].read_text().replace("\\", "")
        assert r"\toprule" in paths["tex"].read_text()
        files |= set(paths.values())
    for stem, figure in item_figures(document).items():
        svg, png = (folder / f"{stem}.{ending}" for ending in ("svg", "png"))
        drawn = svg.read_text()
        assert "<svg" in drawn
        # Not the bytes of the drawing: another version of matplotlib may draw otherwise.
        assert f"<dc:description>{checksum(figure)}</dc:description>" in "".join(drawn.split())
        with Image.open(png) as picture:
            assert picture.info["Description"] == checksum(figure)
            grey = picture.convert("L")
        assert min(grey.size) > 150
        assert len(grey.getcolors(1 << 16)) > 20
        files |= {svg, png}
    assert set(folder.iterdir()) == files


def test_numbers_of_tables_are_those_of_results(on_digits):
    document, results = read_document(on_digits[0], "testcpcc"), on_digits[1]["testcpcc"]
    rows = {row["objective"]: row for row in rows_of(item_tables(document)["testcpcc"])}
    for label, objective in (("Flat", "flat"), ("FastFT", "fastft"), ("SWD", "swd")):
        key = "source/cpcc/l2" if objective == "flat" else f"source/cpcc/{objective}"
        values = [results[f"digits-laptop-{objective}/seed{s}"]["metrics"][key]["mean"] for s in (0, 1)]
        condition = document.observations.find("digits", objective)
        assert list(document.observations.values(condition, "cpcc/own").values()) == values
        assert rows[label]["TestCPCC"].mean == pytest.approx(statistics.fmean(values))
        assert rows[label]["TestCPCC"].std == pytest.approx(statistics.stdev(values))
    # Seeds were asked for, so the control has both.
    controls = [name for name in results if name.startswith("digits-laptop-fastft-shuffled")]
    values = [results[name]["metrics"]["source/cpcc/fastft"]["mean"] for name in controls]
    assert rows["FastFT"]["shuffled tree"].mean == pytest.approx(statistics.fmean(values))


def test_published_numbers_stand_beside_and_wrong_ones_are_noted(tmp_path):
    document, _, folder = made(tmp_path, "flow-weights", Settings("laptop", seeds=(0,)))
    first = rows_of(item_tables(document)["flow-weights"])[0]
    assert (first["objective"], first["weights"]) == ("FastFT", "uniform")
    assert first["CPCC"].published.value == 0.9385
    text = (folder / "flow-weights.md").read_text()
    assert "93.85" in text
    assert "other rows" in text


@pytest.mark.parametrize("name", ["tree-depth", "tree-weights"])
def test_matrices_of_trees(tmp_path, name):
    document, _, folder = made(tmp_path, name, Settings("laptop", seeds=(0,)))
    rows = item_figures(document)[f"{name}-matrices"]["rows"]
    assert [row["name"] for row in rows] == ["EMD", "FastFT"]
    assert [len(row["panels"]) for row in rows] == [3, 3]
    matrix = rows[0]["panels"][0]["matrix"]
    assert len(matrix) == 100
    assert matrix[3][7] == matrix[7][3] > 0 == matrix[5][5]
    assert rows_of(item_tables(document)[name])[0]["CPCC"].published is not None
    assert (folder / f"{name}-matrices.png").stat().st_size > 10_000


def test_features_give_modes_and_orders(tmp_path):
    settings = Settings("laptop", recipes=("digits",), seeds=(0,))
    for name in ("modes", "orders"):
        (item,) = find_items((name,))
        planned = plan_runs(item, settings)
        write_runs(planned, tmp_path / "runs")
        # One run with features of four classes is enough, for mixtures take their time.
        for runs in (runs for runs in planned if runs.variant.objective == "emd"):
            path = runs.path(tmp_path / "runs", 0)
            write_features(path, "source-test", 4)
            write_features(path, "epoch0001-source-test", 4, seed=1)
    write_items(["modes", "orders"], tmp_path, settings)
    modes = read_document(tmp_path / "out", "modes")
    series = {entry["name"]: entry for entry in item_figures(modes)["modes"]["panels"][0]["series"]}
    assert series["EMD"]["x"] == [1]
    rows = {row["objective"]: row for row in rows_of(item_tables(modes)["modes"])}
    assert 1 <= rows["EMD"]["diagonal"].mean <= 10
    assert rows["l2"]["diagonal"] is None
    orders = read_document(tmp_path / "out", "orders")
    rows = rows_of(item_tables(orders)["orders-features"])
    errors = {row["order"]: row["error against EMD"].mean for row in rows if row["features of"] == "EMD"}
    assert errors["batch order"] > errors["principal order"] > 0
    claims = (tmp_path / "out/claims.md").read_text()
    line = next(line for line in claims.splitlines() if "Principal order" in line)
    # One run has features.
    assert line.endswith("| cannot be told: 1 seed, 3 are needed |")


def test_variants_share_runs_and_repeated_settings_make_no_new_ones():
    items = find_items(("testcpcc", "batch-size", "weight"))
    settings = Settings("paper", recipes=("cifar100",))
    core, sizes, weights = ({_key(runs.variant): runs.name for runs in plan_runs(i, settings)} for i in items)
    for control, name in ((False, "cifar100-paper-fastft"), (True, "cifar100-paper-fastft-shuffled-22d11b")):
        shared = {
            core["fastft", (), control],
            sizes["fastft", (("batch_size", 128),), control],
            weights["fastft", (("lambda", 1.0),), control],
        }
        assert shared == {name}
    assert len({*sizes.values(), *weights.values()}) == 2 * 3 * (4 + 6 - 1)


@pytest.mark.parametrize("scale", ["laptop", "paper"])
def test_every_cpcc_result_has_its_control(scale):
    without = {"data", "coarse", "fine", "modes", "umap", "rank", "synthetic", "epoch-time", "batch-time"}
    without |= {"tuning", "yardsticks", "pareto"}
    for item in ITEMS:
        entries = [variant for _, variant, _ in wanted(item, Settings(scale, ("cifar100",)))]
        plain, controls = (
            {
                _key(variant)[:2]: variant
                for variant in entries
                if variant.control == control and variant.objective in DISTANCES
            }
            for control in (False, True)
        )
        assert set(controls) == (set() if item.name in without else set(plain))
        for key, control in controls.items():
            assert control.overrides == (*plain[key].overrides, "tree.shuffle_seed=0")
            assert control.seeds == plain[key].seeds


def test_items_name_the_tables_and_figures_of_the_paper():
    labels = {label for item in ITEMS for label in item.labels}
    assert {"tab:testcpcc", "tab:coarse", "tab:fine", "fig:umap", "fig:synthetic", "tab:rank"} <= labels
    baselines = next(item for item in ITEMS if item.name == "baselines")
    entries = wanted(baselines, Settings("laptop"))
    assert len({variant.objective for _, variant, _ in entries if not variant.control}) == 15
    with pytest.raises(ValueError, match="item must be one of"):
        find_items(("tables",))


def test_studies_share_the_runs_that_are_the_same():
    """Whatever an item calls a setting: batch size 64 is a run of the memory's study too."""
    settings = Settings("scratch", overrides=("epochs=6",))
    found = {
        (item.name, *runs.variant.setting.values()): runs.name
        for item in find_items(("batch-size", "memory", "weight", "flow-weights"))
        for runs in plan_runs(item, settings)
        if runs.variant.objective == "fastft" and not runs.variant.control
    }
    assert found["batch-size", 64] == found["memory", 64, 0]
    assert found["batch-size", 64].startswith("cifar100-scratch-fastft-batch_size-64-epochs-6-")
    assert found["batch-size", 128] == found["weight", 2.0] == found["flow-weights", "uniform"]
    assert found["weight", 0.05].startswith("cifar100-scratch-fastft-epochs-6-weight-0.05-")
    assert len(set(found.values())) == 4 + 5 + 2 + 3
