"""Collectors on made-up runs: every number of a document is that of its run, and stands in its place."""

import statistics
from itertools import pairwise

import pytest

from cophenet.data.cifar import cifar100_tree
from cophenet.paper import find_items
from cophenet.paper.charts import lines_figure
from cophenet.paper.collect_ablations import (
    backbone,
    flow_weights,
    memory,
    tree_depth,
    tree_weights,
    weight,
)
from cophenet.paper.collect_costs import data_sizes, epoch_time
from cophenet.paper.collect_features import orders
from cophenet.paper.collect_main import scatter
from cophenet.paper.document import read_runs
from cophenet.paper.plan import Settings, arm_runs

from .written import write_runs

ON_DIGITS = Settings("laptop", recipes=("digits",), seeds=(0,))
ON_CIFAR = Settings("laptop", recipes=("cifar100",), seeds=(0,))


class Made:
    """The document of an item, some of whose runs are there, and what stands in those runs."""

    def __init__(self, folder, name, collect, settings, there=lambda _arm: True):
        (item,) = find_items((name,))
        self.arms = arm_runs(item, settings)
        self.results = write_runs([found for found in self.arms if there(found.arm)], folder)
        self.parts = collect(read_runs(self.arms, folder))
        self.table = self.parts["tables"][0]
        self.rows = [dict(zip(self.table["columns"], row, strict=True)) for row in self.table["rows"]]

    def metric(self, key, objective, setting="", control=False):
        (name,) = {
            found.name
            for found in self.arms
            if (found.arm.objective, found.arm.setting, found.arm.control) == (objective, setting, control)
        }
        return self.results[f"{name}/seed0"]["metrics"][key]["mean"]


def test_curves_have_a_number_for_each_setting_and_its_control(tmp_path):
    made = Made(tmp_path, "weight", weight, ON_DIGITS)
    assert made.table["columns"] == ["objective", "0.01", "0.05", "0.1", "0.5", "1", "2"]
    labels = [("l2", "l2"), ("EMD", "emd"), ("FastFT", "fastft")]
    names = [label for label, _ in labels] + [f"{label}, shuffled tree" for label, _ in labels]
    assert [row["objective"] for row in made.rows] == names
    series = {line["name"]: line for line in made.parts["figures"]["weight"]["panels"][0]["series"]}
    for row in made.rows:
        label, _, control = row["objective"].partition(", ")
        objective = dict(labels)[label]
        expected = [
            made.metric(f"source/cpcc/{objective}", objective, setting, bool(control))
            for setting in made.table["columns"][1:]
        ]
        assert [row[setting]["mean"] for setting in made.table["columns"][1:]] == expected
        assert series[row["objective"]]["y"] == expected
        assert series[row["objective"]].get("of") == (label if control else None)
    # As in the recipe: not another run.
    assert (
        made.metric("source/cpcc/emd", "emd", "1")
        == made.results["digits-laptop-emd/seed0"]["metrics"]["source/cpcc/emd"]["mean"]
    )


def test_settings_keep_their_order_where_runs_are_missing(tmp_path):
    made = Made(
        tmp_path,
        "weight",
        weight,
        ON_DIGITS,
        lambda arm: not arm.control and not (arm.objective == "l2" and arm.setting == "0.01"),
    )
    drawn = made.parts["figures"]["weight"]
    assert [line["name"] for line in drawn["panels"][0]["series"]] == ["l2", "EMD", "FastFT"]
    l2 = drawn["panels"][0]["series"][0]
    assert made.rows[0]["0.01"] is None is l2["y"][made.table["columns"].index("0.01") - 1]
    axes = lines_figure(drawn).axes[0]
    axes.figure.draw_without_rendering()
    assert [tick.get_text() for tick in axes.get_xticklabels()] == made.table["columns"][1:]
    assert made.table["columns"][1:] == ["0.01", "0.05", "0.1", "0.5", "1", "2"]


def test_controls_are_drawn_in_the_colour_of_their_line():
    line = {"name": "l2", "x": ["a", "b"], "y": [0.1, 0.2], "std": None}
    control = {**line, "name": "l2, shuffled tree", "of": "l2"}
    other = {**line, "name": "EMD"}
    panel = {"title": "t", "x": "", "y": "", "series": [line, other, control]}
    first, second, dotted = lines_figure({"panels": [panel]}).axes[0].lines
    assert first.get_color() == dotted.get_color() != second.get_color()
    assert (first.get_linestyle(), dotted.get_linestyle()) == ("-", ":")


def test_backbones_at_laptop_scale(tmp_path):
    made = Made(tmp_path, "backbone", backbone, ON_CIFAR)
    assert made.table["columns"][1:] == ["resnet10-w16", "as in the recipe", "resnet18-w16"]
    row = next(row for row in made.rows if row["objective"] == "FastFT")
    assert row["as in the recipe"]["values"] == [
        made.results["cifar100-laptop-fastft/seed0"]["metrics"]["source/cpcc/fastft"]["mean"]
    ]
    assert row["resnet18-w16"]["mean"] == made.metric("source/cpcc/fastft", "fastft", "resnet18-w16")


def test_memory_by_batch_size_with_seconds_and_control(tmp_path):
    made = Made(tmp_path, "memory", memory, ON_DIGITS)
    columns = ["objective", "batch size", "memory", "TestCPCC", "shuffled tree", "s per epoch"]
    assert made.table["columns"] == columns
    assert len(made.rows) == 12
    row = next(
        row
        for row in made.rows
        if (row["objective"], row["batch size"], row["memory"]) == ("EMD", "512", "4096")
    )
    setting = "batch 512, memory 4096"
    assert row["TestCPCC"]["mean"] == made.metric("source/cpcc/emd", "emd", setting)
    assert row["shuffled tree"]["mean"] == made.metric("source/cpcc/emd", "emd", setting, control=True)
    (name,) = (
        found.name
        for found in made.arms
        if (found.arm.objective, found.arm.setting, found.arm.control) == ("emd", setting, False)
    )
    assert row["s per epoch"]["mean"] == made.results[f"{name}/seed0"]["seconds_per_epoch"]
    assert row["s per epoch"]["unit"] == "seconds"
    series = {line["name"]: line for line in made.parts["figures"]["memory"]["panels"][0]["series"]}
    assert len(series) == 8
    assert series["EMD, memory 4096"]["x"] == ["64", "128", "512"]
    assert series["EMD, memory 4096"]["y"][2] == row["TestCPCC"]["mean"]
    control = series["EMD, memory 4096, shuffled tree"]
    assert (control["of"], control["y"][2]) == ("EMD, memory 4096", row["shuffled tree"]["mean"])


def test_seconds_per_epoch_stand_beside_those_of_the_same_batch_size(tmp_path):
    settings = Settings("laptop", recipes=("cifar10",), seeds=(0, 1))
    made = Made(tmp_path / "a", "epoch-time", epoch_time, settings)
    row = next(row for row in made.rows if row["objective"] == "FastFT")
    (name,) = (found.name for found in made.arms if found.arm.objective == "fastft")
    seconds = [made.results[f"{name}/seed{seed}"]["seconds_per_epoch"] for seed in (0, 1)]
    number = row["s per epoch"]
    assert (row["data"], row["batch size"], row["seeds"]) == ("cifar10", 128, 2)
    assert number["values"] == seconds
    assert number["mean"] == pytest.approx(statistics.fmean(seconds))
    assert number["std"] == pytest.approx(statistics.stdev(seconds))
    assert (number["paper"]["value"], number["paper"]["std"]) == (85.21, 4.26)
    (panel,) = made.parts["figures"]["epoch-time"]["panels"]
    assert [line["name"] for line in panel["series"]] == ["measured", "paper"]
    assert number["mean"] in panel["series"][0]["values"]

    other = Settings("laptop", recipes=("cifar10",), seeds=(0,), overrides=("batch_size=64",))
    (first, *_) = Made(tmp_path / "b", "epoch-time", epoch_time, other).rows
    assert (first["batch size"], first["s per epoch"]["paper"]) == (64, None)


@pytest.mark.parametrize(
    ("name", "collect", "domain"),
    [
        ("tree-depth", tree_depth, "full"),
        ("tree-weights", tree_weights, "full"),
        ("flow-weights", flow_weights, "source"),
    ],
)
def test_tables_of_settings_have_the_control_after_the_cpcc(tmp_path, name, collect, domain):
    made = Made(tmp_path, name, collect, Settings("laptop", seeds=(0,)))
    assert made.table["columns"][2:4] == ["CPCC", "shuffled tree"]
    assert len(made.rows) == 6
    place = made.table["columns"][1]
    for row in made.rows:
        objective = {"EMD": "emd", "FastFT": "fastft"}[row["objective"]]
        key = f"{domain}/cpcc/{objective}"
        assert row["CPCC"]["mean"] == made.metric(key, objective, row[place])
        assert row["CPCC"]["paper"] is not None
        assert row["shuffled tree"]["mean"] == made.metric(key, objective, row[place], control=True)
        assert row["shuffled tree"]["paper"] is None
    if name == "flow-weights":
        heat = made.parts["figures"]["flow-weights"]
        assert heat["columns"] == made.table["columns"][2:]
        assert heat["values"][0][:2] == [made.rows[0]["CPCC"]["mean"], made.rows[0]["shuffled tree"]["mean"]]
        assert len(heat["rows"]) == 6
    else:
        matrices = made.parts["figures"][f"{name}-matrices"]["rows"]
        assert [len(row["panels"]) for row in matrices] == [3, 3]


def test_orders_after_training(tmp_path):
    made = Made(tmp_path, "orders", orders, ON_DIGITS)
    rows = {row["trained with"]: row for row in made.rows}
    assert list(rows) == ["FastFT, batch order", "FastFT, principal", "FastFT, three principal", "EMD"]
    row, key = rows["FastFT, principal"], "source/cpcc/fastft"
    assert row["TestCPCC"]["mean"] == made.metric(key, "fastft", "principal")
    assert row["shuffled tree"]["mean"] == made.metric(key, "fastft", "principal", control=True)
    assert row["its spread over orders"]["mean"] == made.metric(
        "source/cpcc-orders/fastft", "fastft", "principal"
    )
    assert rows["EMD"]["its spread over orders"] is None
    assert made.parts["studies"] == {}


def test_scatter_fits_means_without_controls_and_rank(tmp_path):
    made = Made(tmp_path, "scatter", scatter, ON_DIGITS)
    assert len(made.rows) == 15
    row = next(row for row in made.rows if row["objective"] == "SWD")
    assert row["shuffled tree"]["mean"] == made.metric("source/cpcc/swd", "swd", control=True)
    keys = [f"{side}/{metric}/digit" for side in ("source", "target") for metric in ("accuracy", "map")]
    assert row["mean fine"]["mean"] == pytest.approx(
        statistics.fmean(made.metric(key, "swd") for key in keys)
    )
    panels = {panel["title"]: panel for panel in made.parts["figures"]["scatter"]["panels"]}
    ways = ("own distance", "by l2")
    assert list(panels) == [f"{level} metrics, {how}" for how in ways for level in ("coarse", "fine")]
    for title, panel in panels.items():
        x, y = zip(*((point["x"], point["y"]) for point in panel["points"]), strict=True)
        assert made.parts["fits"][title] == panel["fit"]
        assert panel["fit"]["points"] == len(x) == 14
        assert panel["fit"]["correlation"] == pytest.approx(statistics.correlation(x, y))
    for how, distance in zip(ways, ("swd", "l2"), strict=True):
        (point,) = (p for p in panels[f"fine metrics, {how}"]["points"] if p["name"] == "SWD")
        assert point["x"] == made.metric(f"source/cpcc/{distance}", "swd")
        assert row[{"own distance": "TestCPCC", "by l2": "by l2"}[how]]["mean"] == point["x"]
    # One axis, one distance: objectives without one are the same in both.
    points = ({p["name"]: p for p in panels[f"coarse metrics, {how}"]["points"]} for how in ways)
    own, l2 = points
    assert own["Flat"] == l2["Flat"]


def test_threads_are_a_note_or_a_column(tmp_path):
    settings = Settings("laptop", recipes=("cifar10",), seeds=(0,))
    made = Made(tmp_path, "epoch-time", epoch_time, settings)
    assert "threads" not in made.table["columns"]
    assert "Threads of the CPU for each run: 1." in made.table["notes"]
    assert any("quiet machine" in note for note in made.table["notes"])
    (name,) = (found.name for found in made.arms if found.arm.objective == "emd")
    path = tmp_path / name / "seed0" / "results.json"
    path.write_text(path.read_text().replace('"threads": 1', '"threads": 4'))
    table = epoch_time(read_runs(made.arms, tmp_path))["tables"][0]
    rows = {row[2]: dict(zip(table["columns"], row, strict=True)) for row in table["rows"]}
    assert (rows["EMD"]["threads"], rows["l2"]["threads"]) == ("4", "1")
    assert not any("Threads" in note for note in table["notes"])


def test_groups_of_every_level_of_a_tree_are_told(tmp_path):
    made = Made(tmp_path, "tree-depth", tree_depth, Settings("laptop", seeds=(0,)))
    assert "Distance matrices are of the first seed." in made.table["notes"]
    for row in made.parts["figures"]["tree-depth-matrices"]["rows"]:
        for panel, depth in zip(row["panels"], (3, 4, 5), strict=True):
            tree = cifar100_tree(depth)
            sizes = [len(set(tree.ancestors(level).tolist())) for level in range(1, depth - 1)]
            assert [len(cuts) + 1 for cuts in panel["levels"]] == sizes
            assert panel["cuts"] == panel["levels"][0]
            # Groups are inside those of the next higher level.
            for higher, lower in pairwise(panel["levels"]):
                assert set(higher) < set(lower)


def test_missing_data_is_told_without_the_folder(tmp_path):
    told = []
    parts = data_sizes(("cifar10",), "laptop", tmp_path, told.append)
    assert told == ["left out: data 'cifar10' is missing: cifar-10-batches-py"]
    assert parts["tables"][0]["rows"][0][1]["mean"] is None
