"""Items beyond the paper: every number is that of its run, and every objective has as many trials."""

import json
from collections import Counter

import pytest

from cophenet.paper.figures import item_figures
from cophenet.paper.items import ITEMS, find_items
from cophenet.paper.plan import Settings, wanted

from .written import Made

ON_DIGITS = Settings("laptop", recipes=("digits",), seeds=(0,))
DIGITS = {"fine": "digit", "coarse": "shape"}


def test_every_purpose_stands_beside_its_control(tmp_path):
    made = Made(tmp_path, "objectives", ON_DIGITS)
    assert list(made.tables) == ["objectives-digits"]
    rows = {row["trained with"]: row for row in made.rows}
    assert len(rows) == 16
    for label, objective in (("FastFT", "fastft"), ("Cosine", "cosine"), ("MTL", "mtl")):
        for level in ("fine", "coarse"):
            for name in ("accuracy", "MAP"):
                key = f"source/{name.lower()}/{DIGITS[level]}"
                assert rows[label][f"{level} {name}"].mean == made.metric(key, objective)
    map_of_control = made.metric("source/map/shape", "cosine", control=True)
    assert rows["Cosine"]["shuffled: coarse MAP"].mean == map_of_control
    assert rows["MTL"]["shuffled: coarse MAP"] is None
    panel = item_figures(made.document)["objectives"]["panels"][0]
    (point,) = [point for point in panel["points"] if point["name"] == "FastFT"]
    assert (point["x"], point["y"]) == (rows["FastFT"]["fine MAP"].mean, rows["FastFT"]["coarse MAP"].mean)


def test_yardsticks_leave_out_what_nothing_was_measured_by(tmp_path):
    made = Made(tmp_path, "yardsticks", ON_DIGITS)
    assert made.columns == ["trained with", "seeds", "by l2", "by emd", "by fastft"]
    rows = {row["trained with"]: row for row in made.rows}
    assert rows["EMD"]["by emd"].mean == made.metric("source/cpcc/emd", "emd")
    assert rows["EMD"]["by fastft"] is None


def test_the_best_trial_of_every_objective_is_marked(tmp_path):
    made = Made(tmp_path, "tuning", ON_DIGITS)
    trials = {}
    for row in made.rows:
        trials.setdefault(row["objective"], []).append((row["mean"].mean, row[""]))
    assert {len(group) for group in trials.values()} == {4}
    for group in trials.values():
        assert [mark for _, mark in sorted(group)] == ["", "", "", "best"]
    assert all(runs.recipe.data.validation == 0.2 for runs in made.planned)
    numbers = [
        made.rows[0][name].mean for name in ("fine accuracy", "coarse accuracy", "fine MAP", "coarse MAP")
    ]
    assert made.rows[0]["mean"].mean == pytest.approx(sum(numbers) / 4)


def test_a_trial_that_lacks_a_number_has_no_mean_and_is_not_the_best(tmp_path):
    made = Made(tmp_path, "tuning", ON_DIGITS)
    rows = [row for row in made.rows if row["objective"] == made.rows[0]["objective"]]
    best = next(place for place, row in enumerate(rows) if row[""] == "best")
    for place in (best, *range(len(rows))):
        results = made.planned[place].path(tmp_path, 0) / "results.json"
        content = json.loads(results.read_text())
        content["metrics"].pop("source/map/digit", None)
        results.write_text(json.dumps(content))
        made.read("tuning")
        row = made.rows[place]
        assert (row["mean"].text, row[""], row["coarse MAP"].text != "-") == ("-", "", True)
    # None of the first objective is left.
    marks = [row["objective"] for row in made.rows if row[""]]
    assert sorted(marks) == sorted({row["objective"] for row in made.rows[len(rows) :]})


def test_controls_have_the_seeds_of_what_they_control():
    for item in ITEMS:
        counts = Counter()
        for recipe, variant, seeds in wanted(item, Settings("laptop")):
            setting = tuple(variant.setting.items())
            counts[recipe, variant.objective, setting, seeds] += 1 if variant.control else 100
        assert all(count in (1 + 100, 100) for count in counts.values())


def test_all_leaves_out_what_is_made_alone():
    names = {item.name for item in find_items(("all",))}
    assert not names & {
        "tuning",
        "objectives",
        "yardsticks",
        "pareto",
        "several-modes",
        "equal-steps",
        "fine-tuning",
    }
    assert names | {item.name for item in ITEMS if item.alone} == {item.name for item in ITEMS}


def test_equal_steps_are_equal():
    (item,) = find_items(("equal-steps",))
    for variant in item.variants("cifar100", "laptop"):
        settings = dict(text.split("=") for text in variant.overrides)
        assert 256 * int(settings["epochs"]) / int(settings["batch_size"]) == pytest.approx(15, abs=1.1)
