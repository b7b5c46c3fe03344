"""Published numbers: beside what means the same, and alone where nothing was measured."""

import csv
import json
import statistics
from dataclasses import replace

import pytest

from cophenet.paper import find_items
from cophenet.paper.documents import read_document
from cophenet.paper.figures import item_figures
from cophenet.paper.plan import Settings, plan_runs
from cophenet.paper.published import TRANSFER, printed
from cophenet.paper.tables import item_tables
from cophenet.paper.variants import BREEDS
from cophenet.recipes import load_recipe
from cophenet.report.published_numbers import published

from .written import Made, rows_of, write_items, write_runs


def tables(folder, name, settings, there=lambda _variant: True):
    """Rows of all tables of an item, by the names of their columns."""
    return [rows_of(table) for table in Made(folder, name, settings, there).tables.values()]


def nothing(_variant):
    return False


def emd(variant):
    return variant.objective == "emd" and not variant.control


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
    (rows,) = tables(tmp_path, "testcpcc", Settings("laptop", ("cifar100",), (0,), (override,)))
    papers = {row["objective"]: row["TestCPCC"].published for row in rows}
    assert len(papers) == 6
    assert all((paper is not None) == same for paper in papers.values())
    if same:
        assert papers["FastFT"].value == 0.9385


def test_a_recipe_of_the_user_is_compared_with_that_of_the_library(tmp_path):
    changed = load_recipe("cifar100", "laptop", ["tree.level_weights={1: 3.0}"])
    (tmp_path / "mine.yaml").write_text(changed.to_yaml())
    (tmp_path / "same.yaml").write_text(load_recipe("cifar100", "laptop").to_yaml())
    for name, expected in (("mine", None), ("same", 0.9385)):
        settings = Settings("laptop", (str(tmp_path / f"{name}.yaml"),), (0,))
        (rows,) = tables(tmp_path, "testcpcc", settings, lambda variant: variant.objective == "fastft")
        (row,) = (row for row in rows if row["objective"] == "FastFT")
        paper = row["TestCPCC"].published
        assert (paper and paper.value) == expected
        assert len(rows) == (1 if expected is None else 6)


@pytest.mark.parametrize(
    ("name", "override"),
    [
        ("tree-depth", "tree.level_weights={1: 5.0}"),
        ("flow-weights", "data.validation=0.2"),
        # It undoes what two of the three rows are about.
        ("flow-weights", "objective.cpcc.flow_weights=distance"),
    ],
)
def test_what_a_variant_changes_is_the_row_of_the_paper_and_nothing_beyond_it(tmp_path, name, override):
    (rows,) = tables(tmp_path / "a", name, Settings("laptop", seeds=(0,)), emd)
    assert len(rows) == 6
    assert all(row["CPCC"].published for row in rows)
    assert all((row["CPCC"].mean is None) == (row["objective"] != "EMD") for row in rows)
    made = Made(tmp_path / "b", name, Settings("laptop", seeds=(0,), overrides=(override,)), emd)
    shown = [row.get("weights") for row in made.rows if row["CPCC"].published]
    assert shown == (["distance"] * 2 if "flow" in override else [])
    assert any(note.startswith("No published number: cifar100: ") for note in made.table.notes)


def test_levels_of_what_was_not_measured_are_those_of_the_data(tmp_path):
    assert not any(tables(tmp_path, "coarse", Settings("paper", ("inat21-mini", "cifar10")), nothing))
    for objective in ("l2", "fastft"):
        paper = published("inat21-mini", objective, "source/accuracy/phylum")
        assert paper == printed("inat21-mini", objective, "source/accuracy/coarse")
    settings = Settings("laptop", ("cifar10",), (0,))
    summary, detail, breeds = tables(tmp_path, "coarse", settings, lambda v: v.objective == "flat")
    assert breeds == []
    assert len(detail) == len(summary) == 6
    for row in detail[1:]:
        for column, key in (("sAcc", "source/accuracy"), ("tMAP", "target/map")):
            assert (row["seeds"], row[column].mean) == (0, None)
            assert row[column].published == published("cifar10", row["objective"].lower(), f"{key}/coarse")
    assert summary[0]["sAcc"].published.std is None


def test_rows_of_which_nothing_is_known_are_left_out(tmp_path):
    for name in ("fine", "rank"):
        assert not any(tables(tmp_path, name, Settings("laptop", ("folder", "digits")), nothing))


def test_the_mean_of_breeds_needs_all_four(tmp_path):
    settings = Settings("laptop", BREEDS, (0,))
    _, detail, each = tables(tmp_path, "fine", settings, lambda variant: variant.objective in ("l2", "swd"))
    rows = {row["objective"]: row for row in detail}
    measured = [row["sAcc"].mean for row in each if row["objective"] == "SWD"]
    assert rows["SWD"]["sAcc"].mean == pytest.approx(sum(measured) / 4)
    assert rows["SWD"]["sAcc"].published == published("breeds", "swd", "source/accuracy/fine")
    assert (rows["Flat"]["sAcc"].mean, rows["Flat"]["seeds"], rows["SWD"]["seeds"]) == (None, 0, 1)
    assert rows["Flat"]["sAcc"].published is not None
    assert len(each) == 4 * 5
    next(tmp_path.glob("living17-laptop-swd/seed0/results.json")).unlink()
    _, detail, _ = tables(tmp_path, "fine", settings, nothing)
    (row,) = (row for row in detail if row["objective"] == "SWD")
    assert (row["sAcc"].mean, row["seeds"]) == (None, 0)


def test_the_spread_of_the_mean_of_breeds_is_over_seeds(tmp_path):
    settings = Settings("laptop", BREEDS, (0, 1, 2))
    made = Made(tmp_path, "fine", settings, lambda variant: variant.objective == "swd")
    (row,) = (row for row in rows_of(made.tables["fine-detail"]) if row["objective"] == "SWD")
    results = made.results.items()
    by_seed = [
        statistics.fmean(r["metrics"]["source/accuracy/fine"]["mean"] for n, r in results if n.endswith(s))
        for s in ("seed0", "seed1", "seed2")
    ]
    assert row["sAcc"].mean == pytest.approx(statistics.fmean(by_seed))
    assert row["sAcc"].std == pytest.approx(statistics.stdev(by_seed))
    assert row["seeds"] == 3
    # A seed that one setting lacks is in no mean.
    next(tmp_path.glob("living17-laptop-swd/seed1/results.json")).unlink()
    made.read("fine")
    (row,) = (row for row in rows_of(made.tables["fine-detail"]) if row["objective"] == "SWD")
    assert row["sAcc"].mean == pytest.approx((by_seed[0] + by_seed[2]) / 2)
    assert row["seeds"] == 2


def test_modes_published_and_what_is_said_of_other_data(tmp_path):
    settings = Settings("laptop", ("cifar100", "living17"), (0,))
    made = Made(tmp_path, "modes", settings, lambda variant: variant.objective == "l2")
    shown = [(row["data"], row["objective"], row["diagonal"].published.value) for row in made.rows]
    assert shown == [("cifar100", "l2", 3.07), ("living17", "l2", 1.25)]
    assert [row["diagonal"].mean for row in made.rows] == [None, None]
    assert "Published for BREEDS: one number for its four settings." in made.table.notes
    for path in tmp_path.glob("living17-*/seed0/results.json"):
        path.unlink()
    made.read("modes")
    assert [row["data"] for row in made.rows] == ["cifar100"]
    assert not any("BREEDS" in note for note in made.table.notes)


def test_items_without_a_run_have_no_rows_and_no_figures(tmp_path):
    write_items(["rank", "baselines"], tmp_path, Settings("laptop", seeds=(0,)))
    for name in ("rank", "baselines"):
        document = read_document(tmp_path / "out", name)
        assert not any(table.rows for table in item_tables(document).values())
        assert item_figures(document) == {}
    assert "Not run: " in (tmp_path / "out/README.md").read_text()
    line = next(x for x in (tmp_path / "out/claims.md").read_text().splitlines() if "| rank |" in x)
    assert line.split(" | ")[4].startswith("cannot be told: not run")


def test_tables_figures_and_claims_of_what_is_only_published(tmp_path):
    settings, there = Settings("laptop", seeds=(0,)), ("flat",)
    for name in ("rank", "baselines"):
        (item,) = find_items((name,))
        runs = [runs for runs in plan_runs(item, settings) if runs.variant.objective in there]
        write_runs(runs, tmp_path / "runs")
    write_items(["rank", "baselines"], tmp_path, settings)
    folder = tmp_path / "out"
    heading, flat, rank, *_ = csv.reader((folder / "rank/rank.csv").read_text().splitlines())
    assert heading[:4] == ["trained with", "fine sAcc", "fine sAcc std", "fine sAcc paper"]
    assert (rank[:2], rank[3]) == (["Rank", ""], "0.7789")
    assert flat[1]
    assert "| Rank | - | 77.89 |" in (folder / "rank/rank.md").read_text()
    assert "Rank & - & 77.89 &" in (folder / "rank/rank.tex").read_text()
    (panel,) = item_figures(read_document(folder, "rank"))["rank"]["panels"]
    names = [line["name"] for line in panel["series"]]
    assert names == ["Flat", "Rank", "Flat, paper", "Rank, paper"]
    rows = {
        row["objective"]: row for row in rows_of(item_tables(read_document(folder, "baselines"))["baselines"])
    }
    assert len(rows) == 15
    assert rows["Flat"]["seeds"] == len(there)
    assert rows["l2"]["TestCPCC"].published.value == 0.8308
    assert json.loads((folder / "rank/rank.json").read_text())["format"] == 3
    assert (folder / "baselines/baselines.svg").stat().st_size > 1000
    line = next(x for x in (folder / "claims.md").read_text().splitlines() if "| rank |" in x)
    assert line.split(" | ")[4].startswith("cannot be told: Rank not run")


def test_a_run_with_other_settings_counts_as_not_there(tmp_path):
    settings = Settings("laptop", ("digits",), (0,))
    (rows,) = tables(tmp_path, "testcpcc", settings)
    assert len(rows) == 6
    path = tmp_path / "digits-laptop-swd/seed0/recipe.yaml"
    path.write_text(path.read_text().replace("lr: 0.05", "lr: 0.07"))
    (rows,) = tables(tmp_path, "testcpcc", settings, nothing)
    assert [row["objective"] for row in rows] == ["Flat", "l2", "FastFT", "EMD", "Sinkhorn"]


def test_notes_are_about_the_data_of_their_table(tmp_path):
    settings = Settings("laptop", ("cifar100", *BREEDS), (0,))
    made = Made(tmp_path, "coarse", settings, lambda variant: variant.objective in ("flat", "l2"))
    setup = {name: f"{name}: trained." for name in ("cifar100", *BREEDS)}
    tables = item_tables(replace(made.document, setup=setup))
    assert set(setup.values()) <= set(tables["coarse-detail"].notes)
    assert setup["cifar100"] not in tables["coarse-breeds"].notes
    assert setup["living17"] in tables["coarse-breeds"].notes
    # The laptop's networks have a backbone from ImageNet, and the table has target classes.
    assert all(TRANSFER in table.notes for table in tables.values())


def test_why_no_published_number_stands_beside(tmp_path):
    made = Made(tmp_path, "testcpcc", Settings("laptop", ("digits",), (0,)))
    assert "No published number: digits: the paper has no digits." in made.table.notes
    assert TRANSFER not in made.table.notes
    made = Made(tmp_path, "batch-size", Settings("laptop", ("digits",), (0,)))
    assert "The paper shows this as a picture, without numbers (fig:cpcc_ablation)." in made.table.notes
