"""Does my tree help? From data to answer, on tiny runs."""

import json
import shlex
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import cophenet.study
from cophenet._common.checks import DivergenceError
from cophenet.cli import main
from cophenet.cli.study import _print_answer
from cophenet.estimator import comparison
from cophenet.paper.queue import Queue
from cophenet.recipes import load_recipe
from cophenet.recipes.load import Override
from cophenet.report import Command, Detail
from cophenet.report.noise import Measured
from cophenet.runs import Run
from cophenet.study import StudyResult, find_data, pipeline, plan, run_study
from cophenet.study.plan import CANDIDATES, FLAT, stage_runs, train_command
from cophenet.tree import Hierarchy


@pytest.fixture
def vectors(tmp_path):
    """Vectors of six classes in two clear groups."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(6), 20)
    groups = 8.0 * np.eye(4)[labels // 3] + 2.0 * np.eye(4)[2 + labels % 2] * (labels % 3 > 0)[:, None]
    features = groups + 0.1 * rng.normal(size=(120, 4))
    np.savez(tmp_path / "birds.npz", features=features.astype("f4"), labels=[f"c{label}" for label in labels])
    return tmp_path / "birds.npz"


def test_data_is_found_by_what_it_is(tmp_path, vectors):
    assert find_data("digits").recipe == "digits"
    folder = find_data(tmp_path)
    assert (folder.recipe, folder.data_dir, folder.overrides) == ("folder", tmp_path, ())
    file = find_data(vectors)
    assert (file.recipe, file.name) == ("vectors", "birds")
    assert file.load().data.options["tree_file"] is None
    Hierarchy.from_paths([("g", f"c{i}") for i in range(6)]).write(tmp_path / "tree.json")
    assert find_data(vectors).load().data.options["tree_file"] == str(tmp_path / "tree.json")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["nothing"], "DATA must be a folder of images, a file of vectors, or one of"),
        (["digits", "--tree", "t.yaml"], "--tree is for folders of images and files of vectors"),
        (["{file}", "--tree", "t.yaml"], "--tree must be a file that exists, got 't.yaml'"),
        (["{folder}", "--test", "{file}"], "--test is for files of vectors"),
        (["{file}", "--data-dir", "there"], "--data-dir there is for recipes by name"),
        (["digits", "--set", "seeds=[4]"], "--set seeds=[4] would not be used: give --seeds"),
        (["digits", "--set", "objective.name=l2"], "--set objective.name=l2 would not be used"),
        (["{file}", "--tree", "{folder}/other.yaml"], "6 labels are not in the tree"),
    ],
)
def test_wrong_calls_are_one_line(vectors, capsys, monkeypatch, arguments, problem):
    words = [word.format(file=vectors, folder=vectors.parent) for word in arguments]
    Hierarchy.from_paths(["a/b", "a/c"], sep="/").write(vectors.parent / "other.yaml")
    monkeypatch.chdir(vectors.parent)
    with pytest.raises(SystemExit) as stopped:
        main(["study", *words])
    err = capsys.readouterr().err
    assert (stopped.value.code, err.count("\n")) == (2, 1)
    assert problem in err
    assert not list(vectors.parent.glob("runs*"))


def test_a_diverging_loss_is_one_line(capsys, monkeypatch, tmp_path):
    def diverging(*_arguments, **_options):
        raise DivergenceError("loss term 'cpcc' became nan in step 3")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cophenet.study, "run_study", diverging)
    with pytest.raises(SystemExit) as stopped:
        main(["study", "digits"])
    assert stopped.value.code == 1
    assert capsys.readouterr().err == "error: loss term 'cpcc' became nan in step 3\n"


def test_stages_differ_in_what_they_look_at():
    data = find_data("digits")
    (choose,) = stage_runs(data, "choose", CANDIDATES[2:3], (0,))
    assert (choose.name, choose.recipe.data.validation) == ("choose-fastft-1", 0.2)
    flat, control = stage_runs(data, "final", (FLAT, CANDIDATES[1].shuffled()), (0, 1))
    assert (flat.name, flat.recipe.data.validation, flat.recipe.objective.name) == ("flat", 0, "flat")
    assert (control.name, control.recipe.tree.shuffle_seed) == ("fastft-0.3-shuffled", 0)
    assert control.recipe.objective.cpcc.weight == 0.3


def test_new_classes_of_own_data_are_measured_from_a_few_examples(tmp_path, vectors):
    Hierarchy.from_paths([(f"g{i // 3}", f"c{i}") for i in range(6)]).write(tmp_path / "tree.json")
    (runs,) = stage_runs(find_data(vectors), "transfer", (FLAT,), (0,))
    assert runs.recipe.data.domain == "source"
    assert runs.recipe.one_shot.shots == 1


def test_the_command_for_good_is_complete(vectors):
    file = vectors.parent / "Photos #2: \U0001f426" / "x\\.npz"
    file.parent.mkdir()
    vectors.rename(file)
    data = find_data(file)
    line = train_command(data, CANDIDATES[1])
    assert line.startswith("cophenet train vectors --objective fastft --data-dir")
    words = shlex.split(line)
    given = [after for word, after in pairwise(words) if word == "--set"]
    assert "objective.cpcc.weight=0.3" in given
    read = load_recipe("vectors", None, given).data.options
    assert read == data.load().data.options
    assert (read["train"], read["test"]) == (str(file), None)


def test_a_tree_is_inferred_where_there_is_none(tmp_path, vectors):
    said = []
    data, notes, train, _ = pipeline._prepared(find_data(vectors), tmp_path, said.append)
    groups = train.tree.ancestors(1)
    assert len(set(groups[:3])) == len(set(groups[3:])) == 1
    assert groups[0] != groups[3]
    assert "was inferred" in notes[0]
    assert data.load().data.options["tree_file"] == str(tmp_path / "inferred-tree.json")


@pytest.mark.parametrize("other", ["features", "labels", "tree"])
def test_runs_of_other_data_are_not_used(tmp_path, vectors, other):
    output, arrays = tmp_path / "study", dict(np.load(vectors))
    paths = {
        "then": [(f"g{i // 3}", f"c{i}") for i in range(6)],
        "now": [(f"g{i % 2}", f"c{i}") for i in range(6)],
    }
    if other == "tree":
        Hierarchy.from_paths(paths["then"]).write(tmp_path / "tree.json")
    for _ in range(2):  # the same call goes on
        pipeline._prepared(find_data(vectors), output, str)
    before = {path: path.read_bytes() for path in output.iterdir()}
    if other == "tree":
        Hierarchy.from_paths(paths["now"]).write(tmp_path / "tree.json")
    else:
        np.savez(vectors, **{**arrays, other: arrays[other][::-1]})
    with pytest.raises(ValueError, match="study holds a study of other data: give another folder with -o"):
        pipeline._prepared(find_data(vectors), output, str)
    assert {path: path.read_bytes() for path in output.iterdir()} == before


def test_large_images_have_a_word_why_there_is_no_estimator(tmp_path):
    images = SimpleNamespace(inputs=SimpleNamespace(shape=(3, 64, 64)))
    assert pipeline._vectors(images) is None
    assert pipeline._estimator(images, images, tmp_path, (0,), str) == []
    (note,) = pipeline._misplaced(None, images)
    assert "images (3 x 64 x 64), not vectors, so that the estimator was not fitted" in note


def test_numbers_of_the_estimator_are_kept_for_their_data_only(tmp_path, vectors, monkeypatch):
    Hierarchy.from_paths([(f"g{i // 3}", f"c{i}") for i in range(6)]).write(tmp_path / "tree.json")
    _, _, train, test = pipeline._prepared(find_data(vectors), tmp_path, str)
    fitted = []
    methods = dict.fromkeys(comparison.METHODS, lambda *given: fitted.append(given))
    monkeypatch.setattr(comparison, "METHODS", methods)
    half, levels = comparison.Score(0.5, "percent"), train.tree.level_names
    scores = {f"{name} {level}": half for name in ("accuracy", "MAP") for level in levels}
    scores["CPCC"] = comparison.Score(float("nan"), "percent")  # undefined, as for two classes
    monkeypatch.setattr(comparison, "measure_method", lambda *_: scores)

    def fits(samples):
        fitted.clear()
        (sentence,) = pipeline._estimator(samples, test, tmp_path, (0, 1), str)
        assert "reaches 50.0% accuracy of classes" in sentence
        return len(fitted)

    assert [fits(train), fits(train)] == [4, 0]
    assert fits(replace(train, labels=train.labels[::-1].copy())) == 4
    other = Hierarchy.from_paths(
        [(f"g{i % 2}", f"c{i}") for i in range(6)], level_names=train.tree.level_names
    )
    assert [fits(replace(train, tree=other)), fits(train)] == [4, 4]
    (tmp_path / "estimator-seed0.json").write_text("[")
    with pytest.raises(ValueError, match=r"estimator-seed0\.json is no JSON"):
        fits(train)


def test_details_of_a_sentence_are_indented(capsys):
    sentences = ("cophenet has notes:", Detail(f"one {'word ' * 40}"), " Another.")
    _print_answer(StudyResult("helps", sentences, "flat", Command("cophenet train"), Path("page.html")))
    lines = capsys.readouterr().out.splitlines()
    assert [len(line) - len(line.lstrip()) for line in lines] == [0, 0, 2, 4, 4, 1, 2, 0]
    assert lines[-2:] == ["  cophenet train", "wrote page.html"]


def test_only_runs_that_are_begun_are_counted(tmp_path, monkeypatch):
    """Ten seconds for a run; lines about others, such as one that fails, are passed on as they are."""
    clock, lines = [0.0], []

    def make(_queue, runs, *_rest):
        if runs.name == "choose-flat":
            raise OSError("the disk is full")
        clock[0] += 10

    monkeypatch.setattr(pipeline.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(Queue, "_make", make)
    work = pipeline._Work(find_data("digits"), tmp_path, 1, lines.append)
    work.planned = 5
    with pytest.raises(ValueError, match="choose-flat/seed0: the disk is full"):
        work.make("choose", (FLAT, *CANDIDATES[:3]), (0,))
    assert lines == [
        "1/5 choose-flat/seed0: train",
        "choose-flat/seed0 failed: the disk is full",
        "1/5 choose-mtl/seed0: train",
        "2/5 choose-fastft-0.3/seed0: train, about 40 s left",
        "3/5 choose-fastft-1/seed0: train, about 30 s left",
    ]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A study of digits with one candidate, after one epoch each."""
    folder = tmp_path_factory.mktemp("study") / "digits"
    short = [Override(("epochs",), 1, "epochs=1"), Override(("one_shot", "epochs"), 2, "one_shot.epochs=2")]
    data, lines = find_data("digits", overrides=short), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "CANDIDATES", plan.CANDIDATES[2:3])
        patch.setitem(sys.modules, "sklearn.manifold", None)  # maps take their time
        result = run_study(data, folder, seeds=(0, 1), threads=1, estimator=False, tell=lines.append)
        again = []
        second = run_study(data, folder, seeds=(0, 1), threads=1, estimator=False, tell=again.append)
    return folder, result, lines, second, again


def test_a_study_ends_with_an_answer_and_a_page(finished):
    folder, result, lines, *_ = finished
    assert result.verdict in ("helps", "does not help")
    assert result.page == folder / "report.html"
    page = result.page.read_text()
    assert "<h1>Does the tree of digits help?</h1>" in page
    assert (
        page.index(result.sentences[0]) < page.index(f"<pre>{result.command}</pre>") < page.index("All runs")
    )
    assert "choose-" not in page.partition('id="data"')[0]
    assert result.command.startswith("cophenet train digits --objective ")
    assert (folder / "answer.txt").read_text().splitlines()[-1] == result.command
    assert sum(": train" in line for line in lines) == 2 + 3 * 2
    assert any("left" in line for line in lines)


def test_seeds_of_a_study_are_one_run(finished):
    run = Run.open(finished[0] / "flat")
    assert [part.seed for part in run.parts] == [0, 1]
    metric = run.results["metrics"]["source/accuracy/digit"]
    each = [json.loads((part.path / "results.json").read_text()) for part in run.parts]
    assert metric["values"] == [one["metrics"]["source/accuracy/digit"]["mean"] for one in each]


def test_the_same_call_goes_on_and_trains_nothing_again(finished):
    _, result, _, second, again = finished
    assert not any(": train" in line for line in again)
    assert second == result


class FlatRun(str):
    """A name with what is asked of the run without a tree."""

    recipe = SimpleNamespace(data=SimpleNamespace(domain="full"))
    parts = (SimpleNamespace(details={}),)


def test_new_classes_of_own_runs_count_in_the_answer(monkeypatch):
    runs, new = ({name: f"{kind}{name}" for name in ("flat", "mtl")} for kind in ("", "new-"))

    def measured(run):
        keys = ("target/accuracy/b",) if run.startswith("new-") else ("full/accuracy/b", "target/map/b")
        gain = 0.1 * run.endswith("mtl") * run.startswith("new-")
        values = [0.5 + gain + (0.01 + 1e-4 * gain) * seed for seed in range(3)]
        metrics = {key: {"mean": 0.5, "values": values} for key in keys}
        return Measured({"objective": run.removeprefix("new-"), "seeds": [0, 1, 2], "metrics": metrics})

    tree = Hierarchy.from_paths(["x/1", "y/2"], sep="/", level_names=("a", "b"))
    monkeypatch.setattr(pipeline, "_measured", measured)
    monkeypatch.setattr(pipeline, "_tree", lambda _: tree)
    monkeypatch.setattr(pipeline, "level_chances", lambda *_: [{"chance": 0.5, "majority": 0.5}])
    runs["flat"] = FlatRun("flat")
    said = pipeline._answer(runs, new, (FLAT, CANDIDATES[0]))
    assert said.verdict == "helps"
    gained = "new classes from one example each +10.0 points [+10.0, +10.0]"
    assert said.sentences[1] == f"mtl against Flat is better at: {gained}."
