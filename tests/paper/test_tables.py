"""Tables and figures of made-up runs: every number is that of its run, and stands in its place."""

import json
import shutil
import statistics
from itertools import pairwise

import numpy as np
import pytest

from cophenet.data.cifar import cifar100_tree
from cophenet.paper import find_items, measurements
from cophenet.paper.charts import lines_figure
from cophenet.paper.documents import Document
from cophenet.paper.figures import item_figures
from cophenet.paper.measurements import data_sizes
from cophenet.paper.mixture_modes import ModeCounts
from cophenet.paper.pipeline import observe
from cophenet.paper.plan import Settings
from cophenet.paper.run_observations import mean_of_level_metrics, read_runs
from cophenet.paper.tables import item_tables
from cophenet.report.embedding import Embedding

from .written import Made, rows_of, write_features

ON_DIGITS = Settings("laptop", recipes=("digits",), seeds=(0,))
ON_CIFAR = Settings("laptop", recipes=("cifar100",), seeds=(0,))


def lines(made, name):
    """Series of a figure of one panel by name."""
    return {line["name"]: line for line in item_figures(made.document)[name]["panels"][0]["series"]}


def test_curves_have_a_number_for_each_setting_and_its_control(tmp_path):
    made = Made(tmp_path, "weight", ON_DIGITS)
    assert made.columns == ["objective", "0.01", "0.05", "0.1", "0.5", "1", "2"]
    labels = [("l2", "l2"), ("EMD", "emd"), ("FastFT", "fastft")]
    names = [label for label, _ in labels] + [f"{label}, shuffled tree" for label, _ in labels]
    assert [row["objective"] for row in made.rows] == names
    series = lines(made, "weight")
    for row in made.rows:
        label, _, control = row["objective"].partition(", ")
        objective = dict(labels)[label]
        expected = [
            made.metric(f"source/cpcc/{objective}", objective, {"lambda": float(setting)}, bool(control))
            for setting in made.columns[1:]
        ]
        assert [row[setting].mean for setting in made.columns[1:]] == expected
        assert series[row["objective"]]["y"] == expected
        assert series[row["objective"]].get("of") == (label if control else None)
    # As in the recipe: not another run.
    assert (
        made.metric("source/cpcc/emd", "emd", {"lambda": 1.0})
        == made.results["digits-laptop-emd/seed0"]["metrics"]["source/cpcc/emd"]["mean"]
    )


def test_a_seed_that_lacks_a_metric_has_no_mean_over_the_others(tmp_path):
    settings = Settings("laptop", recipes=("digits",), seeds=(0, 1, 2))
    made = Made(tmp_path, "rank", settings, lambda variant: variant.objective == "flat")
    path = made.planned[0].path(tmp_path, 1) / "results.json"
    results = json.loads(path.read_text())
    del results["metrics"]["target/accuracy/digit"]
    path.write_text(json.dumps(results))
    observations = read_runs(made.planned, tmp_path)
    flat = observations.find("digits", "flat")
    for mean, seeds in {"fine": [0, 2], "target": [0, 2], "coarse": [0, 1, 2], "source": [0, 1, 2]}.items():
        assert list(observations.values(flat, f"mean/{mean}")) == seeds
    runs = [
        json.loads((made.planned[0].path(tmp_path, seed) / "results.json").read_text()) for seed in range(3)
    ]
    found = mean_of_level_metrics(runs, "digit")
    assert found["mean"] is found["values"][1] is None
    wanted = [f"{side}/{name}/digit" for side in ("source", "target") for name in ("accuracy", "map")]
    assert found["values"][2] == pytest.approx(
        statistics.fmean(runs[2]["metrics"][key]["mean"] for key in wanted)
    )


def test_settings_keep_their_order_where_runs_are_missing(tmp_path):
    made = Made(
        tmp_path,
        "weight",
        ON_DIGITS,
        lambda v: not v.control and not (v.objective == "l2" and v.setting == {"lambda": 0.01}),
    )
    assert list(lines(made, "weight")) == ["l2", "EMD", "FastFT"]
    l2 = lines(made, "weight")["l2"]
    assert made.rows[0]["0.01"] is None is l2["y"][made.columns.index("0.01") - 1]
    axes = lines_figure(item_figures(made.document)["weight"]).axes[0]
    axes.figure.draw_without_rendering()
    assert [tick.get_text() for tick in axes.get_xticklabels()] == made.columns[1:]
    assert made.columns[1:] == ["0.01", "0.05", "0.1", "0.5", "1", "2"]


def test_controls_are_drawn_in_the_colour_of_their_line():
    line = {"name": "l2", "x": ["a", "b"], "y": [0.1, 0.2], "std": None}
    control = {**line, "name": "l2, shuffled tree", "of": "l2"}
    other = {**line, "name": "EMD"}
    panel = {"title": "t", "x": "", "y": "", "series": [line, other, control]}
    first, second, dotted = lines_figure({"panels": [panel]}).axes[0].lines
    assert first.get_color() == dotted.get_color() != second.get_color()
    assert (first.get_linestyle(), dotted.get_linestyle()) == ("-", ":")


def test_backbones_at_laptop_scale(tmp_path):
    made = Made(tmp_path, "backbone", ON_CIFAR)
    assert made.columns[1:] == ["as in the recipe", "efficientnet-lite1", "efficientnet-lite2"]
    row = next(row for row in made.rows if row["objective"] == "FastFT")
    assert (
        row["as in the recipe"].mean
        == made.results["cifar100-laptop-fastft/seed0"]["metrics"]["source/cpcc/fastft"]["mean"]
    )
    setting = {"backbone": "efficientnet-lite2"}
    assert row["efficientnet-lite2"].mean == made.metric("source/cpcc/fastft", "fastft", setting)


def test_memory_by_batch_size_with_seconds_and_control(tmp_path):
    made = Made(tmp_path, "memory", ON_DIGITS)
    columns = ["objective", "batch size", "memory", "TestCPCC", "shuffled tree", "s per epoch"]
    assert made.columns == columns
    assert len(made.rows) == 12
    row = next(
        row
        for row in made.rows
        if (row["objective"], row["batch size"], row["memory"]) == ("EMD", "512", "4096")
    )
    setting = {"batch_size": 512, "memory": 4096}
    assert row["TestCPCC"].mean == made.metric("source/cpcc/emd", "emd", setting)
    assert row["shuffled tree"].mean == made.metric("source/cpcc/emd", "emd", setting, control=True)
    (name,) = (
        runs.name
        for runs in made.planned
        if (runs.variant.objective, runs.variant.setting, runs.variant.control) == ("emd", setting, False)
    )
    assert row["s per epoch"].mean == made.results[f"{name}/seed0"]["seconds_per_epoch"]
    assert row["s per epoch"].unit == "seconds"
    series = lines(made, "memory")
    assert len(series) == 8
    assert series["EMD, memory 4096"]["x"] == ["64", "128", "512"]
    assert series["EMD, memory 4096"]["y"][2] == row["TestCPCC"].mean
    control = series["EMD, memory 4096, shuffled tree"]
    assert (control["of"], control["y"][2]) == ("EMD, memory 4096", row["shuffled tree"].mean)


def test_seconds_per_epoch_stand_beside_those_of_the_same_batch_size(tmp_path):
    made = Made(tmp_path / "a", "epoch-time", Settings("laptop", recipes=("cifar10",), seeds=(0, 1)))
    row = next(row for row in made.rows if row["objective"] == "FastFT")
    (name,) = (runs.name for runs in made.planned if runs.variant.objective == "fastft")
    seconds = [made.results[f"{name}/seed{seed}"]["seconds_per_epoch"] for seed in (0, 1)]
    number = row["s per epoch"]
    assert (row["data"], row["batch size"], row["seeds"]) == ("cifar10", 128, 2)
    assert number.mean == pytest.approx(statistics.fmean(seconds))
    assert number.std == pytest.approx(statistics.stdev(seconds))
    assert (number.published.value, number.published.std) == (85.21, 4.26)
    (panel,) = item_figures(made.document)["epoch-time"]["panels"]
    assert [line["name"] for line in panel["series"]] == ["measured", "paper"]
    assert number.mean in panel["series"][0]["values"]

    other = Settings("laptop", recipes=("cifar10",), seeds=(0,), overrides=("batch_size=64",))
    (first, *_) = Made(tmp_path / "b", "epoch-time", other).rows
    assert (first["batch size"], first["s per epoch"].published) == (64, None)


@pytest.mark.parametrize(
    ("name", "key", "domain"),
    [
        ("tree-depth", "depth", "full"),
        ("tree-weights", "weight", "full"),
        ("flow-weights", "flow_weights", "source"),
    ],
)
def test_tables_of_settings_have_the_control_after_the_cpcc(tmp_path, name, key, domain):
    made = Made(tmp_path, name, Settings("laptop", seeds=(0,)))
    assert made.columns[2:4] == ["CPCC", "shuffled tree"]
    assert len(made.rows) == 6
    settings = {"depth": (3, 4, 5), "weight": (1, 2, 4), "flow_weights": ("uniform", "distance", "inverse")}
    for place, row in enumerate(made.rows):
        objective = {"EMD": "emd", "FastFT": "fastft"}[row["objective"]]
        setting = {key: settings[key][place % 3]}
        metric = f"{domain}/cpcc/{objective}"
        assert row["CPCC"].mean == made.metric(metric, objective, setting)
        assert row["CPCC"].published is not None
        assert row["shuffled tree"].mean == made.metric(metric, objective, setting, control=True)
        assert row["shuffled tree"].published is None
    figures = item_figures(made.document)
    if name == "flow-weights":
        heat = figures["flow-weights"]
        assert heat["columns"] == made.columns[2:]
        first = made.rows[0]
        assert heat["values"][0][:2] == [first["CPCC"].mean, first["shuffled tree"].mean]
        assert len(heat["rows"]) == 6
    else:
        assert [len(row["panels"]) for row in figures[f"{name}-matrices"]["rows"]] == [3, 3]


def test_orders_after_training(tmp_path):
    made = Made(tmp_path, "orders", ON_DIGITS)
    rows = {row["trained with"]: row for row in made.rows}
    assert list(rows) == ["FastFT, batch order", "FastFT, principal", "FastFT, three principal", "EMD"]
    row, key, setting = rows["FastFT, principal"], "source/cpcc/fastft", {"order": "principal"}
    assert row["TestCPCC"].mean == made.metric(key, "fastft", setting)
    assert row["shuffled tree"].mean == made.metric(key, "fastft", setting, control=True)
    spread = made.metric("source/cpcc-orders/fastft", "fastft", setting)
    assert row["its spread over orders"].mean == spread
    assert rows["EMD"]["its spread over orders"] is None
    assert rows_of(made.tables["orders-features"]) == []


def test_scatter_fits_means_without_controls_and_rank(tmp_path):
    made = Made(tmp_path, "scatter", ON_DIGITS)
    assert len(made.rows) == 15
    row = next(row for row in made.rows if row["objective"] == "SWD")
    assert row["shuffled tree"].mean == made.metric("source/cpcc/swd", "swd", control=True)
    keys = [f"{side}/{metric}/digit" for side in ("source", "target") for metric in ("accuracy", "map")]
    mean = statistics.fmean(made.metric(key, "swd") for key in keys)
    assert row["mean fine"].mean == pytest.approx(mean)
    panels = {panel["title"]: panel for panel in item_figures(made.document)["scatter"]["panels"]}
    ways = {"own distance": "cpcc/own", "by l2": "cpcc/l2"}
    assert list(panels) == [f"{level} metrics, {how}" for how in ways for level in ("coarse", "fine")]
    found = made.document.observations
    correlations = found.find("digits", "")
    for how, cpcc in ways.items():
        for level in ("coarse", "fine"):
            panel = panels[f"{level} metrics, {how}"]
            x, y = zip(*((point["x"], point["y"]) for point in panel["points"]), strict=True)
            assert panel["fit"]["points"] == len(x) == 14
            assert panel["fit"]["correlation"] == pytest.approx(statistics.correlation(x, y))
            r = found.values(correlations, f"correlation/{cpcc}/{level}")
            assert r == {0: pytest.approx(statistics.correlation(x, y))}
    for how, distance in zip(ways, ("swd", "l2"), strict=True):
        (point,) = (p for p in panels[f"fine metrics, {how}"]["points"] if p["name"] == "SWD")
        assert point["x"] == made.metric(f"source/cpcc/{distance}", "swd")
        assert row[{"own distance": "TestCPCC", "by l2": "by l2"}[how]].mean == point["x"]
    # One axis, one distance: objectives without one are the same in both.
    own, l2 = ({p["name"]: p for p in panels[f"coarse metrics, {how}"]["points"]} for how in ways)
    assert own["Flat"] == l2["Flat"]


def test_threads_are_a_note_or_a_column(tmp_path):
    made = Made(tmp_path, "epoch-time", Settings("laptop", recipes=("cifar10",), seeds=(0,)))
    assert "threads" not in made.columns
    assert "Threads of the CPU for each run: 1." in made.table.notes
    assert any("quiet machine" in note for note in made.table.notes)
    (name,) = (runs.name for runs in made.planned if runs.variant.objective == "emd")
    path = tmp_path / name / "seed0" / "results.json"
    path.write_text(path.read_text().replace('"threads": 1', '"threads": 4'))
    made.read("epoch-time")
    rows = {row["objective"]: row for row in made.rows}
    assert (rows["EMD"]["threads"], rows["l2"]["threads"]) == ("4", "1")
    assert not any("Threads" in note for note in made.table.notes)


def test_groups_of_every_level_of_a_tree_are_found(tmp_path):
    made = Made(tmp_path, "tree-depth", Settings("laptop", seeds=(0,)))
    assert "Distance matrices are of the first seed." in made.table.notes
    for one in made.document.arrays:
        depth = one["setting"]["depth"]
        tree = cifar100_tree(depth)
        sizes = [len(set(tree.ancestors(level).tolist())) for level in range(1, depth - 1)]
        assert [len(cuts) + 1 for cuts in one["levels"]] == sizes
        # Groups are inside those of the next higher level.
        for higher, lower in pairwise(one["levels"]):
            assert set(higher) < set(lower)
    (row, *_) = item_figures(made.document)["tree-depth-matrices"]["rows"]
    assert row["panels"][0]["cuts"] == made.document.arrays[0]["levels"][0]
    found = made.document.observations
    deepest = found.find("cifar100", "emd", {"depth": 5})
    assert all(found.values(deepest, f"blocks/{level}") for level in (1, 2, 3))


def test_missing_data_is_said_without_the_folder(tmp_path):
    lines = []
    found = data_sizes(("cifar10",), "laptop", tmp_path, lines.append)
    assert lines == ["left out: data 'cifar10' is missing: cifar-10-batches-py"]
    table = item_tables(Document("data", observations=found))["data"]
    assert (table.rows, table.notes) == ((), ("Published sizes are rounded.", "Not here: cifar10."))


@pytest.fixture
def with_features(tmp_path):
    """L2 runs of seeds 3 and 4 with features at the end, the first also after an epoch."""
    settings = Settings("laptop", recipes=("digits",), seeds=(3, 4))
    made = Made(tmp_path, "umap", settings, lambda variant: variant.objective == "l2")
    for seed in (3, 4):
        for name in ("epoch0001-source-test", "source-test"):
            write_features(made.planned[0].path(tmp_path, seed), name, 6)
    return made


def test_modes_are_saved_file_by_file(with_features, monkeypatch):
    (item,) = find_items(("modes",))
    planned, folder = with_features.planned[:1], with_features.folder
    calls = []

    def count(*_args, **options):
        calls.append(options)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return ModeCounts((2,), 2.0, 1.0, 0)

    monkeypatch.setattr(measurements, "count_modes", count)
    with pytest.raises(KeyboardInterrupt):
        observe(item, planned, folder)
    saved = planned[0].path(folder, 3) / "modes.json"
    assert list(json.loads(saved.read_text())) == ["0001", "features"]
    document = Document("modes", observations=observe(item, planned, folder)[0])
    # Over the epochs of the first seed, at the end of both; two ways each, one of them interrupted.
    assert len(calls) == 1 + 3 * 2
    (row,) = rows_of(item_tables(document)["modes"])
    assert row["diagonal"].mean == 2.0
    assert "Over epochs: of the first seed." in item_tables(document)["modes"].notes


@pytest.mark.parametrize("name", ["modes", "orders"])
def test_what_was_measured_on_other_features_is_measured_again(with_features, monkeypatch, name):
    (item,) = find_items((name,))
    planned, folder = with_features.planned[:1], with_features.folder
    calls = []
    count, study = ModeCounts((2,), 2.0, 1.0, 0), {"emd": {"cpcc": 0.5}}
    monkeypatch.setattr(measurements, "MODES", {"diagonal": {}})
    monkeypatch.setattr(measurements, "count_modes", lambda *_, **__: calls.append(1) or count)
    monkeypatch.setattr(measurements, "order_study", lambda *_: calls.append(1) or study)

    def measured():
        calls.clear()
        observe(item, planned, folder)
        return len(calls)

    path = planned[0].path(folder, 3)
    files = {"modes": 3, "orders": 2}[name]
    assert [measured(), measured()] == [files, 0]
    write_features(path, "source-test", 6, seed=1)
    assert [measured(), measured()] == [1, 0]
    # What an earlier version wrote stays, and so do numbers whose features were removed.
    saved = path / f"{name}.json"
    content = json.loads(saved.read_text())
    saved.write_text(json.dumps({key: value for key, value in content.items() if key != "features"}))
    write_features(path, "source-test", 6, seed=2)
    assert measured() == 0
    shutil.rmtree(path / "features")
    rows = observe(item, planned, folder)[0].rows
    assert {row.seed for row in rows if row.metric.startswith(("components", "order-"))} == {3, 4}


def test_maps_name_their_seed_and_all_seeds_are_measured(with_features, monkeypatch):
    points = np.array([[0.0, 0.0], [0.0, 1.0], [9.0, 0.0], [9.0, 1.0]])
    placed = Embedding(points, np.array([0, 1, 4, 5]), 4, "PCA", "")
    monkeypatch.setattr(measurements, "embed", lambda _path, _classes: placed)
    with_features.read("umap")
    (panel,) = item_figures(with_features.document)["umap"]["panels"]
    assert panel["title"] == "l2-CPCC, PCA, seed 3"
    found = with_features.document.observations
    assert list(found.values(found.find("digits", "l2"), "map/between-groups")) == [3, 4]
