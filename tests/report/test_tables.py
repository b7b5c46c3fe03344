"""Comparisons of runs: what is in the table."""

import json
import os
import re
from types import SimpleNamespace

import pytest

from cophenet.cli import main
from cophenet.cli.compare import complete_metrics
from cophenet.recipes.load import load_recipe, recipe_names
from cophenet.report import compare, make_table, published_tables
from cophenet.report.comparability import Setup, compare_setup
from cophenet.tree import Hierarchy

from .made_runs import DIGITS, accuracies, make_run, result

ACC, SEV = "source/accuracy/fine", "source/severity"


def marks(table):
    return [[cell.best for cell in row.cells] for row in table.rows]


def test_best_follows_the_direction_of_the_metric():
    runs = [
        result(seeds=(0, 1), source_accuracy_fine=(0.9, None), source_severity=(1.5, None)),
        result(seeds=(0, 1), source_accuracy_fine=(0.8, None), source_severity=(1.4, None)),
    ]
    table = make_table(["a", "b"], runs)
    assert [column.key for column in table.columns] == [ACC, SEV]
    assert marks(table) == [[True, False], [False, True]]


def with_values(*values):
    metric = {"mean": sum(values) / len(values), "std": 0.1, "values": list(values)}
    return {**result(seeds=range(len(values))), "metrics": {ACC: metric}}


def test_best_is_more_than_noise_over_seeds():
    steady = with_values(0.9, 0.5, 0.7), with_values(0.8, 0.4, 0.61)  # seeds vary together
    assert marks(make_table("ab", steady)) == [[True], [False]]
    assert not any(map(any, marks(make_table("ab", (with_values(0.5, 0.7), with_values(0.4, 0.6))))))
    varying = with_values(0.9, 0.5, 0.7), with_values(0.5, 0.7, 0.6)
    assert marks(make_table("ab", varying)) == [[False], [False]]
    # The best of three must differ from each of the others.
    assert marks(make_table("abc", (*steady, with_values(0.9, 0.49, 0.7)))) == [[False], [False], [False]]


def test_a_lone_value_and_a_single_seed_without_samples_are_not_best():
    assert marks(make_table("a", accuracies(0.9))) == [[False]]
    assert marks(make_table("ab", accuracies(0.9, 0.1, seeds=(0,)))) == [[False], [False]]


def test_the_difference_to_flat_has_an_interval():
    flat, tree = with_values(0.5, 0.6, 0.7), with_values(0.6, 0.7, 0.81)
    table = make_table("ab", [{**flat, "objective": "flat"}, tree])
    gap = table.rows[1].cells[0].against
    assert table.rows[0].cells[0].against is None
    assert gap.mean == pytest.approx(0.31 / 3)
    # By hand: differences 0.1, 0.1, 0.11, t(0.975, 2) = 4.3027.
    assert gap.high - gap.mean == pytest.approx(4.3027 * 0.0057735 / 3**0.5, rel=1e-3)


def test_one_seed_is_judged_by_its_test_samples(tmp_path):
    runs = [make_run(tmp_path / name, objective=name, samples=420) for name in ("flat", "fastft")]
    table = compare(runs, ["source/accuracy/shape", "source/map/digit"])
    accuracy, retrieval = table.rows[1].cells
    gap = table.rows[1].cells[0].mean - table.rows[0].cells[0].mean
    assert accuracy.against.mean == pytest.approx(gap)
    assert accuracy.against.low < gap < accuracy.against.high
    assert accuracy.best == (accuracy.against.low > 0)
    assert retrieval.against is None  # no mean over samples
    assert json.loads(table.to_json())["runs"][1]["metrics"]["source/accuracy/shape"]["against_flat"][
        "mean"
    ] == (pytest.approx(gap))


def test_levels_of_different_trees_have_columns_of_their_own(tmp_path):
    other = Hierarchy.from_paths(
        [("odd" if i % 2 else "even", name) for i, name in enumerate(DIGITS.classes)],
        level_names=DIGITS.level_names,
    )
    runs = [make_run(tmp_path / "a"), make_run(tmp_path / "b", tree=other), make_run(tmp_path / "c")]
    table = compare(runs, ["source/accuracy/shape", "source/accuracy/digit"])
    assert [(column.key, column.tree) for column in table.columns] == [
        ("source/accuracy/shape", "tree 1"),
        ("source/accuracy/shape", "tree 2"),
        ("source/accuracy/digit", ""),
    ]
    assert [[cell.mean is None for cell in row.cells] for row in table.rows] == [
        [False, True, False],
        [True, False, False],
        [False, True, False],
    ]
    assert "(tree 1): levels of the tree of a, c" in table.notes
    assert "source/accuracy/shape (tree 2) mean" in table.to_csv()


def test_best_is_sought_among_runs_on_the_same_data():
    runs = accuracies(0.9, 0.8) + accuracies(0.4, 0.3, data="cifar10")
    assert marks(make_table("abcd", runs)) == [[True], [False], [True], [False]]


def test_folders_of_images_are_data_sets_of_their_own():
    def on(folder, key, *means):
        return [{**run, "data_dir": folder, "data_id": key} for run in accuracies(*means, data="folder")]

    pets, cars = on("/pets", "1a", 0.9, 0.8), on("/cars", "2b", 0.4, 0.3)
    table = make_table("abcd", pets + cars)
    assert marks(table) == [[True], [False], [True], [False]]
    assert [row.data for row in table.rows] == ["folder in /pets"] * 2 + ["folder in /cars"] * 2
    assert table.notes == ("a, b: data folder in /pets", "c, d: data folder in /cars")
    assert "folder in /cars" in table.to_csv()
    # The same data that was moved is the same data, other data in the same place is not.
    moved = make_table("ab", on("/pets", "1a", 0.9) + on("/moved", "1a", 0.8))
    assert (marks(moved), moved.notes) == ([[True], [False]], ())
    replaced = make_table("ab", on("/pets", "1a", 0.9) + on("/pets", "2b", 0.8))
    assert [row.data for row in replaced.rows] == ["folder #1a in /pets", "folder #2b in /pets"]
    assert marks(replaced) == [[False], [False]]


def test_runs_on_other_samples_are_told_apart(tmp_path):
    runs = [
        make_run(tmp_path / name, data_dir=f"/{name}", checksum=name[0], objective=objective, samples=420)
        for name, objective in (("a1", "fastft"), ("a2", "flat"), ("b1", "flat"))
    ]
    table = compare(runs)
    assert [row.data for row in table.rows] == ["digits in /a1", "digits in /a1", "digits in /b1"]
    assert "b1: data digits in /b1" in table.notes
    assert not any(cell.best for cell in table.rows[2].cells)
    assert any(cell.best for cell in table.rows[0].cells)


@pytest.mark.parametrize(
    ("override", "note"),
    [
        ("tree.shuffle_seed=3", "the paper has no such numbers, tree.shuffle_seed is 3, not null"),
        ("data.validation=0.5", "the paper has no such numbers, data.validation is 0.5, not 0.0"),
        ("objective.cpcc.weight=3.0", "the paper has no such numbers, objective.cpcc.weight is 3.0, not 2.0"),
        (
            "objective.options.fastft={order: principal}",
            'the paper has no such numbers, objective.options.fastft.order is "principal", not null',
        ),
        ("epochs=3", "not as in the recipe of its scale, epochs is 3, not 20"),
        (
            "model.backbone=resnet18-w16",
            'not as in the recipe of its scale, model.backbone is "resnet18-w16", not "resnet10-w24"',
        ),
        ("seeds=[5]", None),
        ("objective.options.soft={beta: 3}", None),
    ],
)
def test_the_paper_stands_beside_its_own_setup(override, note):
    run = result("fastft", "cifar100", source_accuracy_fine=(0.5, None))
    run["scale"] = "scratch"
    recipe = load_recipe("cifar100", "scratch", [override])
    run["recipe"] = json.loads(json.dumps(recipe.model_dump(mode="json")))
    table = make_table(["a"], [run])
    assert table.notes == (() if note is None else (f"a: {note}",))
    assert table.has_published == (note is None or note.startswith("not as"))


def test_every_data_set_of_the_paper_has_its_own_setup():
    names = {row.data for one in published_tables().values() for row in one.rows} & set(recipe_names())
    assert len(names) >= 6
    for name in names:
        for scale in ("paper", "scratch", "laptop"):
            recipe = load_recipe(name, scale, ["objective.name=l2"])
            run = {"data": name, "objective": "l2", "scale": scale, "recipe": recipe.model_dump(mode="json")}
            assert compare_setup(json.loads(json.dumps(run))) == Setup()


def test_columns_come_by_metric_and_domain():
    keys = ["source/cpcc/l2", "target/accuracy/coarse", "source/accuracy/coarse", "source/accuracy/fine"]
    run = result()
    run["metrics"] = {key: {"mean": 0.5, "std": None, "values": [0.5]} for key in keys}
    table = make_table(["a"], [run])
    assert [column.key for column in table.columns] == [keys[2], keys[3], keys[1], keys[0]]
    chosen = make_table(["a"], [run], ["source/cpcc/l2", "source/accuracy/fine"])
    assert [column.key for column in chosen.columns] == ["source/cpcc/l2", "source/accuracy/fine"]
    with pytest.raises(ValueError, match=r"metric must be one of .* got 'source/accurcy/fine'; did you mean"):
        make_table(["a"], [run], ["source/accurcy/fine"])


def test_runs_of_one_seed_and_of_several(tmp_path):
    one = make_run(tmp_path / "one", objective="flat")
    many = make_run(tmp_path / "many", seeds=(0, 1, 2))
    table = compare([one, str(many)])
    assert [row.name for row in table.rows] == ["one", "many"]
    assert [row.seeds for row in table.rows] == [(0,), (0, 1, 2)]
    at = [column.key for column in table.columns].index("source/accuracy/digit")
    values = [json.loads((many / f"seed{s}" / "results.json").read_text()) for s in range(3)]
    values = [v["metrics"]["source/accuracy/digit"]["mean"] for v in values]
    assert table.rows[1].cells[at].mean == pytest.approx(sum(values) / 3)
    assert table.rows[0].cells[at].std is None


def test_runs_of_the_same_name_are_told_by_path(tmp_path):
    runs = [make_run(tmp_path / where / "run") for where in ("x", "y")]
    assert [row.name for row in compare(runs).rows] == [str(run) for run in runs]


def test_runs_that_cannot_be_compared(tmp_path):
    run = make_run(tmp_path / "fresh", evaluated=False)
    with pytest.raises(ValueError, match=f"was not evaluated: first run `cophenet evaluate {run}`"):
        compare([run])
    with pytest.raises(ValueError, match="no run folder"):
        compare([tmp_path])


@pytest.mark.parametrize("name", ["a\x1b[2Jb", "a\nb", "a\u202eb", os.fsdecode(b"a\xffb")])
def test_names_of_folders_that_cannot_be_shown_are_escaped(name, tmp_path, capsys):
    runs = [make_run(tmp_path / "run").rename(tmp_path / name)]
    assert compare(runs).rows[0].name == name.encode("unicode_escape").decode()
    for folders in (runs, [*runs, runs[0] / "missing"]):
        with pytest.raises(SystemExit):
            main(["compare", *map(str, folders)])
        assert name not in "".join(capsys.readouterr())


def test_completion_gives_a_shell_only_keys(tmp_path):
    """A shell may evaluate what completion prints."""
    folder = tmp_path / "sent"
    folder.mkdir()
    context = SimpleNamespace(params={"runs": [folder]}, args=[])
    for metrics in ({"source/map/fine": 1, "'; touch here; '": 1, "$(id)": 1}, ["source/map/fine", 3], 3):
        (folder / "results.json").write_text(json.dumps({"metrics": metrics}))
        assert all(re.fullmatch("[a-z0-9@/-]+", key) for key in complete_metrics(context, ""))
    (folder / "results.json").write_text("[" * 100_000)
    assert "source/accuracy" in complete_metrics(context, "")
