"""Run folders: not mixed, not trained twice, repaired and completed by resume."""

import json
import re
import shutil
import threading
import time
import uuid

import numpy as np
import pytest
import torch
from PIL import Image

from cophenet import HierarchicalEmbedder
from cophenet._common import packages as packages_module
from cophenet._common.files import write_json
from cophenet._common.locks import locked
from cophenet._common.processes import is_first_process
from cophenet.recipes import load_recipe
from cophenet.runs import Run, lightning_trainer, load_experiment, load_network, resume
from cophenet.runs import training as training_module
from cophenet.runs.callbacks import EpochRecorder
from cophenet.runs.checkpoints import list_checkpoints, read_checkpoint
from cophenet.runs.folder import check_same_data, describe_data, wait_for_run
from evaluation.runs import make_run

from .small_runs import assert_same, quick, weights


def unstarted(output, *settings, **options):
    """A run whose training ends before the first step."""

    def end(*_):
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training_module, "train_seeds", end)
        with pytest.raises(KeyboardInterrupt):
            quick(output, *settings, **options)
    return Run.open(output)


def content(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_run_in_the_place_of_a_seed_is_refused(tmp_path):
    quick(tmp_path / "out" / "seed0")
    before = content(tmp_path / "out")
    for seeds in ("[0, 1]", "[0]"):
        with pytest.raises(ValueError, match=r"holds (other files|a run with other settings|this run)"):
            quick(tmp_path / "out", "objective.name=l2", f"seeds={seeds}")
        with pytest.raises(ValueError, match=r"holds other files \((checkpoints|seed0)\)"):
            quick(tmp_path / "out", f"seeds={seeds}")
    after = content(tmp_path / "out")
    assert {path: after[path] for path in before} == before


def test_features_of_epochs_are_found_where_they_are_saved(tmp_path):
    run = Run(tmp_path)
    assert run.epoch_features("source-test") == {}
    epochs = [2, 10_000, 30]
    names = ["epochs-source-test", "epoch0004-target-test", "source-test"]
    for path in (
        *(run.features_path("source-test", epoch) for epoch in epochs),
        *map(run.features_path, names),
    ):
        path.parent.mkdir(exist_ok=True)
        path.touch()
    found = run.epoch_features("source-test")
    assert list(found.items()) == [(n, run.features_path("source-test", n)) for n in sorted(epochs)]


@pytest.mark.parametrize("name", ["run.json", "tree.json", "seed0", "notes.tmp"])
def test_files_of_ones_own_are_refused_though_named_as_a_runs(name, tmp_path):
    (tmp_path / name).write_text("{}")
    with pytest.raises(ValueError, match=name):
        quick(tmp_path, "seeds=[0, 1]")
    assert (tmp_path / name).read_text() == "{}"


@pytest.mark.parametrize("seeds", ["[0]", "[0, 1]"])
def test_a_folder_half_made_may_be_used(seeds, tmp_path):
    run = unstarted(tmp_path / "run", f"seeds={seeds}")
    (run.path / "recipe.yaml").unlink()
    rest = run.path / f".run.json.{uuid.uuid4().hex}.tmp"
    rest.write_text("")
    if seeds == "[0, 1]":
        (run.path / "seed1" / "recipe.yaml").unlink()
    assert quick(run.path, f"seeds={seeds}").finished
    assert not rest.exists()


def test_a_seed_with_other_settings_below_an_equal_recipe_is_refused(tmp_path):
    run = unstarted(tmp_path / "run", "seeds=[0, 1]")
    other = unstarted(tmp_path / "other", "optimizer.lr=0.7")
    shutil.copytree(other.path, run.path / "seed0", dirs_exist_ok=True)
    with pytest.raises(ValueError, match=r"optimizer.lr is 0.7 there"):
        quick(run.path, "seeds=[0, 1]")


def test_a_run_made_while_data_was_read_is_not_written_over(tmp_path, monkeypatch):
    original = training_module.load_experiment

    def meanwhile(*given, **options):
        monkeypatch.setattr(training_module, "load_experiment", original)
        quick(tmp_path / "run")
        return original(*given, **options)

    monkeypatch.setattr(training_module, "load_experiment", meanwhile)
    with pytest.raises(ValueError, match="holds this run already, finished"):
        quick(tmp_path / "run")
    assert Run.open(tmp_path / "run").finished


def test_threads_exclude_each_other_too(tmp_path):
    messages = []

    def other():
        try:
            with locked(tmp_path):
                messages.append("")
        except ValueError as error:
            messages.append(str(error))

    with locked(tmp_path):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    other()
    assert "in use by another thread" in messages[0]
    assert messages[1:] == [""]


def test_resume_makes_the_damaged_checkpoint_of_a_finished_run_again(tmp_path):
    run = quick(tmp_path / "run")
    expected = weights(run)
    newest = list_checkpoints(run.path / "checkpoints")[0]
    newest.write_bytes(newest.read_bytes()[:-7])
    assert run.damaged
    for read in (run.checkpoint, lambda: load_network(run)):
        with pytest.raises(ValueError, match=f"damaged checkpoint, {newest.name}: .*--resume {run.path}"):
            read()
    resume(run.path, loggers=(), progress=False)
    assert run.finished
    assert not run.damaged
    assert_same(weights(run), expected)
    assert len(run.metrics) == 2


def test_a_kill_after_the_damage_was_found_loses_nothing(tmp_path, monkeypatch):
    run = quick(tmp_path / "run")
    newest = list_checkpoints(run.path / "checkpoints")[0]
    newest.write_bytes(b"")

    def killed(*_, **__):
        raise SystemError

    with monkeypatch.context() as patch:
        patch.setattr(lightning_trainer, "build_module", killed)
        with pytest.raises(SystemError):
            resume(run.path, loggers=(), progress=False)
    assert not run.finished
    resume(run.path, loggers=(), progress=False)
    assert [row["epoch"] for row in run.metrics] == [1, 2]
    assert run.finished


def test_a_lost_seed_is_trained_again(tmp_path):
    run = quick(tmp_path / "run", "seeds=[0, 1]")
    expected = weights(run.parts[1])
    shutil.rmtree(run.path / "seed1")
    with pytest.raises(ValueError, match=rf"has lost its folder seed1: .*train --resume {run.path}"):
        _ = Run.open(run.path).parts
    with pytest.raises(ValueError, match="unfinished: continue it"):
        quick(run.path, "seeds=[0, 1]")
    assert_same(weights(resume(run.path, loggers=(), progress=False).parts[1]), expected)


def test_rests_of_killed_writers_are_removed(tmp_path):
    run = unstarted(tmp_path / "run")
    (run.path / "checkpoints").mkdir()
    rests = [run.path / place / f".x.{uuid.uuid4().hex}.tmp" for place in ("", "checkpoints")]
    mine = run.path / ".mine.tmp"
    for path in (*rests, mine):
        path.write_text("")
    resume(run.path, loggers=(), progress=False)
    assert [path.exists() for path in (*rests, mine)] == [False, False, True]


def test_data_that_moved_is_recorded_with_its_weights(tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    new.mkdir()
    backbone = load_network(quick(tmp_path / "first")).backbone.state_dict()
    torch.save(backbone, new / "net.pth")
    shutil.copytree(new, old)
    run = unstarted(tmp_path / "run", "model.weights=net.pth", "seeds=[0, 1]", data_dir=old)
    shutil.rmtree(old)
    resume(run.path, data_dir=new, loggers=(), progress=False)
    assert run.finished
    assert [part.info["data_dir"] for part in (run, *run.parts)] == [str(new)] * 3


def test_a_finished_run_is_told_where_its_data_is_now(tmp_path):
    old, new, other = (tmp_path / name for name in ("old", "new", "other"))
    for folder, value in ((old, 0.0), (other, 1.0)):
        folder.mkdir()
        (folder / "tree.yaml").write_text("animal: [cat, dog]\nthing: [cup, pen]\n")
        labels = ["cat", "dog", "cup", "pen"] * 5
        np.savez(folder / "vectors.npz", features=np.full((20, 3), value), labels=labels)
    run = make_run(tmp_path / "run", (), recipe="vectors", data_dir=old)
    old.rename(new)
    moved = re.escape(f"if the data of the run has moved: cophenet train --resume {run.path} --data-dir DIR")
    with pytest.raises(FileNotFoundError, match=moved):
        HierarchicalEmbedder.from_run(run.path)
    with pytest.raises(ValueError, match="train has other files or values"):
        resume(run.path, data_dir=other)
    assert run.info["data_dir"] == str(old)
    resume(run.path, data_dir=new)
    assert run.info["data_dir"] == str(new)
    assert HierarchicalEmbedder.from_run(run.path).n_features_in_ == 3


def test_several_seeds_are_refused_as_a_model_before_data_is_read(tmp_path, monkeypatch):
    run = make_run(tmp_path / "run", ["seeds=[0, 1]", "model.options={hidden: [4]}"])
    write_json(run.path / "run.json", {**run.info, "data_dir": None})
    monkeypatch.setattr("cophenet.runs.load_experiment", lambda *_: pytest.fail("has begun"))
    with pytest.raises(ValueError, match=r"has several seeds \(0, 1\)"):
        HierarchicalEmbedder.from_run(run.path)


def test_files_that_changed_are_other_data_and_a_moved_folder_is_not(tmp_path):
    for number, place in enumerate(("animal/cat", "animal/dog", "thing/cup", "thing/pen")):
        (tmp_path / "data" / place).mkdir(parents=True)
        for index in range(3):
            image = Image.fromarray(np.full((9, 9, 3), number * 40 + index, dtype=np.uint8))
            image.save(tmp_path / "data" / place / f"{index}.bmp")
    recipe = load_recipe("folder", "scratch", ["data.image_size=32", "data.workers=0"])
    run = tmp_path / "run"
    run.mkdir()
    experiment = load_experiment(recipe, tmp_path / "data")
    write_json(run / "run.json", {"samples": describe_data(experiment)})
    experiment.tree.write(run / "tree.json")
    (tmp_path / "data").rename(tmp_path / "moved")
    check_same_data(Run(run), load_experiment(recipe, tmp_path / "moved"))
    for image in (tmp_path / "moved/animal/cat").iterdir():
        image.write_bytes(image.read_bytes() + b"\0")
    with pytest.raises(ValueError, match="train has other files or values"):
        check_same_data(Run(run), load_experiment(recipe, tmp_path / "moved"))


def test_values_that_changed_are_other_data(tmp_path):
    run = unstarted(tmp_path / "run")
    info = run.info
    info["samples"]["test"]["inputs"] = "0" * 16
    write_json(run.path / "run.json", info)
    with pytest.raises(ValueError, match="test has other files or values"):
        resume(run.path)
    del info["samples"]["test"]["inputs"]
    write_json(run.path / "run.json", info)
    check_same_data(run, load_experiment(run.recipe))


@pytest.mark.parametrize(
    ("package", "message"),
    [
        ("lightning", "training needs lightning: pip install 'cophenet\\[train\\]'"),
        ("tensorboard", "logger 'tensorboard' needs tensorboard: pip install 'cophenet\\[train\\]'"),
    ],
)
def test_packages_are_looked_for_before_anything_is_written(package, message, tmp_path, monkeypatch):
    monkeypatch.setattr(
        packages_module.importlib.util, "find_spec", lambda name: None if name == package else name
    )
    with pytest.raises(ImportError, match=message):
        quick(tmp_path / "run", loggers=("csv", "tensorboard"))
    assert not (tmp_path / "run").exists()


def test_waiting_for_the_first_process_is_said(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("RANK", "1")
    began = time.monotonic()
    with pytest.raises(ValueError, match=r"no run folder .*\(RANK=1 in the environment"):
        wait_for_run(tmp_path / "run", load_recipe("digits"), seconds=0.2, notice_after=0.1)
    assert time.monotonic() - began < 5
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "RANK=1" in err
    assert "unset it" in err


def test_a_process_does_not_wait_where_the_first_one_refuses_to_write(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "thesis.tex").write_text("")
    quick(tmp_path / "other")
    for name, message in (
        ("file", "is a file"),
        ("used", "holds other files"),
        ("other", "run with other settings"),
    ):
        with pytest.raises(ValueError, match=message):
            wait_for_run(tmp_path / name, load_recipe("digits"), seconds=60)


def test_a_rank_that_is_no_number_is_named(monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "one")
    with pytest.raises(ValueError, match="environment variable LOCAL_RANK must be a whole number, got 'one'"):
        is_first_process()


def test_checkpoints_say_where_they_stand_after_a_resume(tmp_path):
    run = quick(tmp_path / "run", "epochs=3")
    for path in list_checkpoints(run.path / "checkpoints")[:1]:
        path.unlink()
    write_json(run.path / "run.json", {**run.info, "finished": False})
    resume(run.path, loggers=(), progress=False)
    found = read_checkpoint(run.checkpoint())
    steps = len(load_experiment(run.recipe).training_loader(0))
    assert (found["epoch"], found["global_step"]) == (3, 3 * steps)
    assert json.loads((run.path / "run.json").read_text())["finished"]


def test_a_training_killed_in_its_first_epoch_leaves_no_empty_table(tmp_path, monkeypatch):
    class Killed(BaseException):
        """As a process that ends: nothing is tidied up."""

    def kill(*_):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(EpochRecorder, "on_train_epoch_start", kill)
        with pytest.raises(Killed):
            quick(tmp_path / "run")
    assert not (tmp_path / "run" / "metrics.csv").exists()
    run = resume(tmp_path / "run", loggers=(), progress=False)
    assert [row["epoch"] for row in run.metrics] == [1, 2]


def vector_folder(folder, offset=0.0):
    folder.mkdir()
    rows = np.repeat(np.eye(4, dtype=np.float32), 10, axis=0) + offset
    np.savez(folder / "vectors.npz", features=rows, labels=np.repeat(["cat", "dog", "bus", "van"], 10))
    (folder / "tree.yaml").write_text("{pet: [cat, dog], car: [bus, van]}")
    return folder


def test_a_run_on_other_data_is_another_run(tmp_path):
    one, other = vector_folder(tmp_path / "one"), vector_folder(tmp_path / "other", 1.0)
    settings = ["epochs=1", "batch_size=16"]
    options = {"loggers": (), "progress": False}
    recipe = load_recipe("vectors", overrides=settings)
    training_module.train(recipe, tmp_path / "run", data_dir=one, **options)
    with pytest.raises(ValueError, match=r"holds this run already, finished"):
        training_module.train(recipe, tmp_path / "run", data_dir=one, **options)
    with pytest.raises(ValueError, match=r"holds a run on other data \(in .*one, not in .*other\): give ano"):
        training_module.train(recipe, tmp_path / "run", data_dir=other, **options)


def test_a_start_that_fails_leaves_no_folder(tmp_path, monkeypatch):
    with pytest.raises(Exception, match=r"(?i)gpu|cuda|accelerator"):
        quick(tmp_path / "runs" / "new", accelerator="cuda")
    assert not (tmp_path / "runs" / "new").exists()

    def fail(*_, **__):
        raise ValueError("no room")

    monkeypatch.setattr(lightning_trainer, "build_module", fail)
    for seeds in ("[0]", "[0, 1]"):
        with pytest.raises(ValueError, match="no room"):
            quick(tmp_path / "new", f"seeds={seeds}")
        assert not (tmp_path / "new").exists()
    (tmp_path / "mine").mkdir()
    with pytest.raises(ValueError, match="no room"):
        quick(tmp_path / "mine")
    assert (tmp_path / "mine").is_dir()


def test_networks_are_loaded_by_folder(tmp_path):
    run = quick(tmp_path / "run", "epochs=1")
    by_run, by_folder = load_network(run), load_network(str(run.path))
    assert_same(by_run.state_dict(), by_folder.state_dict())
    with pytest.raises(ValueError, match="path must be the name of a run folder, got Run, which is open"):
        Run.open(run)
    with pytest.raises(ValueError, match="path must be the name of a run folder, got NoneType"):
        load_network(None)
    with pytest.raises(ValueError, match=r"no run folder at .*: recipe.yaml and run.json missing there"):
        load_network(run.path / "checkpoints")
