"""The command, on runs that were really trained and on what is none."""

import errno
import json
import re

import pytest
from safetensors.torch import load_file

from cophenet.cli import main
from cophenet.evaluation import evaluate
from cophenet.recipes import load_recipe
from cophenet.runs import Run, train
from data.pictures import fill
from evaluation.runs import ONE_SHOT, TINY, make_run


@pytest.fixture
def command(capsys):
    """Run the command line; gives the exit code, and what it printed on both streams."""

    def run(*arguments):
        with pytest.raises(SystemExit) as ended:
            main(["evaluate", *map(str, arguments)])
        printed = capsys.readouterr()
        return ended.value.code, printed.out, printed.err

    return run


def test_trained_runs_of_one_seed_and_of_several(tmp_path, command):
    overrides = ("epochs=2", "model.options={hidden: [32]}", "one_shot.epochs=3")
    one = train(load_recipe("digits", None, overrides), tmp_path / "one", progress=False)
    two = train(load_recipe("digits", None, (*overrides, "seeds=[1, 2]")), tmp_path / "two", progress=False)
    code, out, err = command(one.path, two.path)
    assert code == 0
    assert "one: fastft on digits, seed 0\n" in out
    assert "two: fastft on digits, mean (std) of seeds 1, 2\n" in out
    assert err.splitlines()[0] == "one: features of source-test 316/316"
    accuracy = one.results["metrics"]["source/accuracy/digit"]["mean"]
    assert re.search(rf"^digit accuracy, source test +{100 * accuracy:.2f} +%$", out, re.MULTILINE)
    distance = one.results["metrics"]["source/hierarchical-distance@1"]["mean"]
    assert re.search(rf"^hierarchical distance@1, source test +{distance:.3f}$", out, re.MULTILINE)
    both = two.results["metrics"]["source/accuracy/digit"]
    cell = re.escape(f"{100 * both['mean']:.2f} ({100 * both['std']:.2f})")
    assert re.search(rf"^digit accuracy, source test +{cell} +%$", out, re.MULTILINE)
    assert re.search(r"hierarchical distance@20, source test +- +there are only 7 classes", out)
    for part in (one, *two.parts):
        results = part.results
        # Training measured the same network on the same samples.
        assert results["metrics"]["source/accuracy/digit"]["mean"] == part.metrics[-1]["test/accuracy"]
        assert results["epochs"] == 2
        assert results["versions"]["torch"]
    files = (two.path / "results.json").read_bytes(), (two.path / "seed1" / "details.json").read_bytes()
    assert command(two.path)[0] == 0
    again = (two.path / "results.json").read_bytes(), (two.path / "seed1" / "details.json").read_bytes()
    assert again == files


def test_features_saved_while_training_and_after_it_are_the_same_at_the_end(tmp_path):
    overrides = ("epochs=2", "model.options={hidden: [16]}", "save_features_every=2", "one_shot.epochs=2")
    run = train(load_recipe("digits", None, overrides), tmp_path / "run", progress=False)
    evaluate(run, device="cpu")
    during, after = (
        load_file(run.features_path("source-test", 2)),
        load_file(run.features_path("source-test")),
    )
    assert set(during) == set(after)
    for name in during:
        assert during[name].equal(after[name])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere",), "error: no run folder at nowhere: it does not exist"),
        (("unfinished",), "error: run unfinished is not finished: finish it with cophenet train --resume"),
        (("empty",), "error: no run folder at empty: recipe.yaml and run.json missing there"),
        (("finished", "nowhere"), "error: no run folder at nowhere: it does not exist"),
        (("broken",), "error: run broken has no checkpoint to load: all 1 are damaged"),
    ],
)
def test_wrong_runs_are_one_line_and_exit_2(tmp_path, monkeypatch, command, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    make_run(tmp_path / "unfinished", (*TINY, ONE_SHOT), finished=False)
    make_run(tmp_path / "finished")
    broken = make_run(tmp_path / "broken").checkpoint()
    broken.write_bytes(broken.read_bytes()[:-1])
    code, out, err = command(*arguments)
    assert code == 2
    assert out == ""
    assert err.startswith(message)
    assert err.count("\n") == 1
    assert not (tmp_path / "finished" / "results.json").exists()


def test_data_that_is_not_there_is_wrong_input(tmp_path, command):
    for name in ("pet/cat", "pet/dog", "car/bus"):
        fill(tmp_path / "data" / "train" / name)
        fill(tmp_path / "data" / "test" / name)
    settings = ("data.image_size=8", "data.workers=0", "model={backbone: mlp, options: {hidden: [4]}}")
    run = make_run(tmp_path / "run", settings, recipe="folder", data_dir=tmp_path / "data")
    code, out, err = command(run.path, "--data-dir", tmp_path / "nowhere")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "nowhere" in err


def test_a_file_that_is_not_there_is_named_first(tmp_path, command, monkeypatch):
    def lost(*_, **__):
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", "lost.npz")

    monkeypatch.setattr("cophenet.evaluation.evaluate", lost)
    code, _, err = command(make_run(tmp_path / "run").path)
    assert (code, err) == (2, "error: lost.npz: No such file or directory\n")


def test_a_folder_that_is_not_read_is_said(tmp_path, command):
    run = make_run(tmp_path / "run")
    message = "run: --data-dir is not read, data synthetic needs none\n"
    assert command(run.path, "--data-dir", tmp_path)[2].startswith(message)
    assert message not in command(run.path)[2]


def test_an_unknown_device(tmp_path, command):
    code, _, err = command(make_run(tmp_path / "run").path, "--device", "abacus")
    assert code == 2
    assert "'abacus' is not one of 'auto', 'cpu', 'cuda'" in err


def test_results_are_json_of_numbers_and_nulls(tmp_path, command):
    run = make_run(tmp_path / "run")
    assert command(run.path, "--device", "cpu")[0] == 0

    def refuse(name):
        raise AssertionError(f"{name} is no JSON")

    for name in ("results.json", "details.json"):
        json.loads((run.path / name).read_text(), parse_constant=refuse)
    assert Run.open(run.path).results["metrics"]["source/hierarchical-distance@20"]["values"] == [None]
