"""Published numbers: beside what means the same, and alone where nothing was measured."""

import csv
import json
import statistics
from pathlib import Path

import pytest

from cophenet.paper import collect_main, find_items
from cophenet.paper.collect_ablations import flow_weights, tree_depth
from cophenet.paper.collect_features import modes
from cophenet.paper.document import read_runs
from cophenet.paper.plan import Settings, arm_runs
from cophenet.paper.variants import BREEDS
from cophenet.recipes import load_recipe
from cophenet.report.published_numbers import published

from .written import write_items, write_runs


def rows_of(collect, name, settings, folder=None, there=lambda _arm: True):
    """Rows of all tables, by the names of their columns; runs are written if there is a folder."""
    (item,) = find_items((name,))
    arms = arm_runs(item, settings)
    if folder is not None:
        write_runs([found for found in arms if there(found.arm)], folder)
    parts = collect(read_runs(arms, folder or Path("nowhere")))
    return [
        [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]] for table in parts["tables"]
    ]


@pytest.mark.parametrize(
    ("override", "same"),
    [
        ("epochs=2", True),
        ("batch_size=64", True),
        ("tree.shuffle_seed=3", False),
        ("data.validation=0.2", False),
        ("objective.cpcc.weight=3.0", False),
    ],
)
def test_another_tree_objective_or_data_has_no_published_number(tmp_path, override, same):
    settings = Settings("laptop", ("cifar100",), (0,), (override,))
    (rows,) = rows_of(collect_main.testcpcc, "testcpcc", settings, tmp_path)
    papers = {row["objective"]: row["TestCPCC"]["paper"] for row in rows}
    assert len(papers) == 6
    assert all((paper is not None) == same for paper in papers.values())
    if same:
        assert papers["FastFT"]["value"] == 0.9385


def test_a_recipe_of_the_user_is_compared_with_that_of_the_library(tmp_path):
    changed = load_recipe("cifar100", "laptop", ["tree.level_weights={1: 3.0}"])
    (tmp_path / "mine.yaml").write_text(changed.to_yaml())
    (tmp_path / "same.yaml").write_text(load_recipe("cifar100", "laptop").to_yaml())
    for name, expected in (("mine", None), ("same", 0.9385)):
        settings = Settings("laptop", (str(tmp_path / f"{name}.yaml"),), (0,))
        (rows,) = rows_of(
            collect_main.testcpcc, "testcpcc", settings, tmp_path, lambda arm: arm.objective == "fastft"
        )
        (row,) = (row for row in rows if row["objective"] == "FastFT")
        assert (row["TestCPCC"]["paper"] or {}).get("value") == expected
        assert len(rows) == (1 if expected is None else 6)


@pytest.mark.parametrize(
    ("name", "collect", "override"),
    [
        ("tree-depth", tree_depth, "tree.level_weights={1: 5.0}"),
        ("flow-weights", flow_weights, "data.validation=0.2"),
        # It undoes what two of the three rows are about.
        ("flow-weights", flow_weights, "objective.cpcc.flow_weights=distance"),
    ],
)
def test_what_an_arm_changes_is_the_row_of_the_paper_and_nothing_beyond_it(name, collect, override):
    (rows,) = rows_of(collect, name, Settings("laptop", seeds=(0,)))
    assert len(rows) == 6
    assert all(row["CPCC"]["paper"] and row["CPCC"]["mean"] is None for row in rows)
    (rows,) = rows_of(collect, name, Settings("laptop", seeds=(0,), overrides=(override,)))
    assert [row.get("weights") for row in rows] == (["distance"] * 2 if "flow" in override else [])


def test_levels_of_what_was_not_measured_are_those_of_the_data():
    settings = Settings("paper", ("inat21-mini", "cifar10"))
    summary, detail, breeds = rows_of(collect_main.coarse, "coarse", settings)
    assert breeds == []
    assert len(detail) == len(summary) > 10
    for row in detail:
        level = {"inat21-mini": "phylum", "cifar10": "coarse"}[row["data"]]
        objective = row["objective"].lower()
        for column, key in (("sAcc", "source/accuracy"), ("tMAP", "target/map")):
            paper = published(row["data"], objective, f"{key}/{level}")
            assert (row["seeds"], row[column]["mean"]) == (0, None)
            assert (row[column]["paper"]["value"], row[column]["paper"]["std"]) == (paper.value, paper.std)
    assert summary[0]["sAcc"]["paper"]["std"] is None


def test_rows_of_which_nothing_is_known_are_left_out():
    for name, collect in (("fine", collect_main.fine), ("rank", collect_main.rank)):
        assert not any(rows_of(collect, name, Settings("laptop", ("folder", "digits"))))


def test_the_mean_of_breeds_needs_all_four(tmp_path):
    settings = Settings("laptop", BREEDS, (0,))
    _, detail, each = rows_of(
        collect_main.fine, "fine", settings, tmp_path, lambda arm: arm.objective in ("l2", "swd")
    )
    rows = {row["objective"]: row for row in detail}
    measured = [row["sAcc"]["mean"] for row in each if row["objective"] == "SWD"]
    assert rows["SWD"]["sAcc"]["mean"] == pytest.approx(sum(measured) / 4)
    assert rows["SWD"]["sAcc"]["paper"]["value"] == published("breeds", "swd", "source/accuracy/fine").value
    assert (rows["Flat"]["sAcc"]["mean"], rows["Flat"]["seeds"], rows["SWD"]["seeds"]) == (None, 0, 1)
    assert rows["Flat"]["sAcc"]["paper"] is not None
    assert len(each) == 4 * 5
    next(tmp_path.glob("living17-laptop-swd/seed0/results.json")).unlink()
    _, detail, _ = rows_of(collect_main.fine, "fine", settings, tmp_path, lambda _arm: False)
    (row,) = (row for row in detail if row["objective"] == "SWD")
    assert (row["sAcc"]["mean"], row["seeds"]) == (None, 0)


def test_the_spread_of_the_mean_of_breeds_is_over_seeds(tmp_path):
    settings = Settings("laptop", BREEDS, (0, 1, 2))
    _, detail, each = rows_of(
        collect_main.fine, "fine", settings, tmp_path, lambda arm: arm.objective == "swd"
    )
    (row,) = (row for row in detail if row["objective"] == "SWD")
    by_seed = zip(*(r["sAcc"]["values"] for r in each if r["objective"] == "SWD"), strict=True)
    means = [statistics.fmean(values) for values in by_seed]
    assert row["sAcc"]["values"] == pytest.approx(means)
    assert row["sAcc"]["std"] == pytest.approx(statistics.stdev(means))
    assert row["seeds"] == 3
    # A seed that one setting lacks is in no mean.
    next(tmp_path.glob("living17-laptop-swd/seed1/results.json")).unlink()
    _, detail, _ = rows_of(collect_main.fine, "fine", settings, tmp_path, lambda _arm: False)
    (row,) = (row for row in detail if row["objective"] == "SWD")
    assert row["sAcc"]["values"] == pytest.approx([means[0], means[2]])
    assert row["seeds"] == 2


def test_modes_published_without_a_run():
    (rows,) = rows_of(modes, "modes", Settings("laptop", ("cifar100", "living17")))
    assert [(row["data"], row["objective"]) for row in rows] == [("cifar100", "l2"), ("living17", "l2")]
    assert [row["diagonal"]["paper"]["value"] for row in rows] == [3.07, 1.25]
    assert [row["diagonal"]["mean"] for row in rows] == [None, None]


@pytest.mark.parametrize("there", [("flat",), ()])
def test_tables_figures_and_claims_of_what_is_only_published(tmp_path, there):
    settings = Settings("laptop", seeds=(0,))
    for name in ("rank", "baselines"):
        (item,) = find_items((name,))
        arms = [found for found in arm_runs(item, settings) if found.arm.objective in there]
        write_runs(arms, tmp_path / "runs")
    write_items(["rank", "baselines"], tmp_path, settings)
    folder = tmp_path / "out"
    heading, flat, rank = csv.reader((folder / "rank/rank.csv").read_text().splitlines())
    assert heading[:4] == ["objective", "fine sAcc", "fine sAcc std", "fine sAcc paper"]
    assert (rank[:2], rank[3]) == (["Rank", ""], "0.7789")
    assert bool(flat[1]) == bool(there)
    assert "| Rank | - | 77.89 |" in (folder / "rank/rank.md").read_text()
    assert "Rank & - & 77.89 &" in (folder / "rank/rank.tex").read_text()
    (panel,) = json.loads((folder / "rank/rank.json").read_text())["figures"]["rank"]["panels"]
    names = [line["name"] for line in panel["series"]]
    assert names == (["Flat", "Rank", "Flat, paper", "Rank, paper"] if there else [])
    rows = json.loads((folder / "baselines/baselines.json").read_text())["tables"][0]["rows"]
    assert len(rows) == 15
    assert {row[0]: row[1] for row in rows}["Flat"] == len(there)
    assert {row[0]: row[2]["paper"]["value"] for row in rows}["l2"] == 0.8308
    assert (folder / "baselines/baselines.svg").stat().st_size > 1000
    line = next(x for x in (folder / "claims.md").read_text().splitlines() if "/rank/" in x or "| rank" in x)
    assert "holds" not in line


def test_a_run_with_other_settings_counts_as_not_there(tmp_path):
    settings = Settings("laptop", ("digits",), (0,))
    (rows,) = rows_of(collect_main.testcpcc, "testcpcc", settings, tmp_path)
    assert len(rows) == 6
    path = tmp_path / "digits-laptop-swd/seed0/recipe.yaml"
    path.write_text(path.read_text().replace("lr: 0.05", "lr: 0.07"))
    (rows,) = rows_of(collect_main.testcpcc, "testcpcc", settings, tmp_path, lambda _arm: False)
    assert [row["objective"] for row in rows] == ["Flat", "l2", "FastFT", "EMD", "Sinkhorn"]
