"""Links and other things in place of the files of a run: nothing is written through them, or outside."""

import json
import os
import shutil
import signal

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from cophenet.cli import main
from cophenet.evaluation import evaluate
from cophenet.paper.items import find_items
from cophenet.paper.plan import Settings, plan_runs
from cophenet.paper.queue import Queue
from cophenet.recipes import load_recipe
from cophenet.report import embedding
from cophenet.runs import Run, resume, train
from cophenet.runs.callbacks import RunLog
from forked import HANGS

SMALL = ("epochs=1", "batch_size=256", "model.options.hidden=[8]", "one_shot.epochs=2")
FILES = [
    "lock",
    "log.txt",
    "metrics.csv",
    "run.json",
    "recipe.yaml",
    "tree.json",
    "results.json",
    "details.json",
    "modes.json",
    "features/source-test.safetensors",
    "features/tsne-source-test.safetensors",
    "tensorboard/hparams.yaml",
]
FOLDERS = ["checkpoints", "features", "tensorboard", "wandb", ".wandb"]
COMMANDS = {
    "resume": ["train", "--resume", "run"],
    "evaluate": ["evaluate", "run"],
    "report": ["report", "run", "-o", "report.html"],
}
# What is written in place, so that a link is refused; all else takes the place of the link.
IN_PLACE = {"lock", "log.txt", "tensorboard/hparams.yaml", *FOLDERS}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("links") / "run"
    evaluate(train(load_recipe("digits", overrides=SMALL), folder, progress=False))
    return folder


@pytest.fixture
def run(tmp_path, finished, monkeypatch):
    """A run whose last row is not yet written, in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(embedding, "_tsne", lambda rows: np.ascontiguousarray(rows[:, :2]))
    shutil.copytree(finished, tmp_path / "run")
    (tmp_path / "outside").mkdir()
    return tmp_path / "run"


@pytest.fixture(autouse=True)
def _ends():
    """Waiting for a pipe would never end."""

    def end(*_):
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(HANGS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def unfinish(run):
    info = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**info, "finished": False}))


def run_command(name):
    with pytest.raises(SystemExit) as ended:
        main(COMMANDS[name])
    return ended.value.code


def content(folder):
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def put_outside(path, outside):
    """Move a file or folder of a run away, and leave a link to it."""
    target = outside / path.name
    if path.exists():
        path.rename(target)
    elif path.name in FOLDERS:
        target.mkdir()
    else:
        target.write_text("mine\n")
    path.symlink_to(target)


@pytest.mark.parametrize("command", ["resume", "evaluate"])
@pytest.mark.parametrize("name", FILES + FOLDERS)
def test_nothing_is_written_through_a_link(run, name, command, capsys):
    outside = run.parent / "outside"
    if command == "resume":
        unfinish(run)
    if name != "features/source-test.safetensors" and command == "evaluate":
        shutil.rmtree(run / "features")
        (run / "features").mkdir()
    put_outside(run / name, outside)
    before = content(outside)
    code = run_command(command)
    assert content(outside) == before
    err = capsys.readouterr().err
    if command == "resume" and name in IN_PLACE:
        assert code == 2
        kind = "no folder of its own" if name in FOLDERS else "a link"
        assert f"run/{name} is {kind}" in err
        assert len(err.splitlines()) == 1
    elif name == "features" and command == "evaluate":
        assert (code, "run/features is no folder of its own" in err) == (2, True)
    else:
        assert code == 0, err


@pytest.mark.parametrize("names", [FILES, FOLDERS], ids=["files", "folders"])
def test_a_report_writes_through_none_of_the_links(run, names, capsys):
    outside = run.parent / "outside"
    for name in names:
        put_outside(run / name, outside)
    before = content(outside)
    assert run_command("report") == 0, capsys.readouterr().err
    assert content(outside) == before


@pytest.mark.parametrize("kind", ["dangling", "hard link", "pipe"])
@pytest.mark.parametrize("name", ["lock", "log.txt", "tensorboard/hparams.yaml"])
def test_other_things_than_files_are_refused(run, name, kind, capsys):
    unfinish(run)
    place, target = run / name, run.parent / "outside" / "target"
    place.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "dangling":
        place.symlink_to(target)
    else:
        target.write_text("mine\n")
        place.hardlink_to(target)
    assert run_command("resume") == 2
    err = capsys.readouterr().err
    words = {"dangling": "a link", "hard link": "another name of a file", "pipe": "a device or a pipe"}
    assert f"{name} is {words[kind]}" in err
    assert not target.exists() if kind != "hard link" else target.read_text() == "mine\n"


@pytest.mark.parametrize("name", ["metrics.csv", "results.json", "run.json", "recipe.yaml", "tree.json"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_pipe_in_place_of_a_file_is_neither_read_nor_waited_for(run, name, command, capsys):
    unfinish(run) if command == "resume" else None
    (run / name).unlink()
    os.mkfifo(run / name)
    code = run_command(command)
    err = capsys.readouterr().err
    assert (code, len(err.splitlines())) in ((0, 0), (2, 1)), err


def test_a_pipe_in_place_of_a_checkpoint_is_none(run):
    os.mkfifo(run / "checkpoints" / "step99999999-0123456789abcdef.ckpt")
    assert Run.open(run).checkpoint().name.startswith("step0000")


@pytest.mark.parametrize("command", COMMANDS)
def test_folders_of_seeds_are_no_links(run, command, capsys):
    info = json.loads((run / "run.json").read_text())
    several = run.parent / "several"
    several.mkdir()
    (several / "seed0").symlink_to(run)
    for name in ("recipe.yaml", "results.json"):
        shutil.copy(run / name, several)
    del info["seed"]
    (several / "run.json").write_text(json.dumps({**info, "seeds": [0]}))
    before = content(run)
    with pytest.raises(SystemExit) as ended:
        main([argument.replace("run", "several", 1) for argument in COMMANDS[command]])
    assert ended.value.code == 2
    assert "several/seed0 is no folder of its own" in capsys.readouterr().err
    assert content(run) == before


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("seeds", ["../../outside"]),
        ("seeds", "0"),
        ("seeds", []),
        ("seeds", [0, 0]),
        ("seeds", [True]),
        ("seed", "../0"),
        ("strategy", "ddp; touch marker"),
        ("strategy", {"class_path": "os.system"}),
        ("accelerator", "module:Class"),
        ("accelerator", "../gpu"),
        ("devices", "0 && touch marker"),
        ("devices", 10**9),
        ("devices", "0,1; 2"),
        ("num_nodes", 0),
        ("threads", 10**6),
        ("threads", "4"),
        ("data_dir", ["/etc"]),
        ("data_dir", "/data\x1b[2J"),
        ("input_shape", ["1", 8]),
        ("finished", "yes"),
    ],
)
@pytest.mark.parametrize("command", ["resume"])
def test_run_json_holds_what_training_writes_there_and_nothing_else(run, key, value, command, capsys):
    info = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**info, key: value}))
    assert run_command(command) == 2
    err = capsys.readouterr().err
    assert f"error: run/run.json: {key}" in err
    assert len(err.splitlines()) == 1
    assert "\x1b" not in err


@pytest.mark.parametrize("name", ["a\nb", "a\x1b[2Jb", "a\0b", "a\u2028b", "a\u202eb"])
def test_names_with_control_characters_are_refused(name, run, capsys):
    recipe = (run / "recipe.yaml").read_text()
    (run / "recipe.yaml").write_text(recipe.replace("name: digits", f"name: {json.dumps(name)}", 1))
    unfinish(run)
    assert run_command("resume") == 2
    err = capsys.readouterr().err
    assert "name must be text without control characters" in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("name", ["../away", "/tmp/away", "a/b", "..", "C:away", "a\\b"])
def test_the_name_of_a_recipe_leads_nowhere_else(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["train", "--set", f"name={json.dumps(name)}", "--set", "epochs=1"])
    if name == "..":  # becomes part of a name
        assert ended.value.code == 0
        return
    assert ended.value.code == 2
    assert "is no name of a folder: give one with -o" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_training_anew_in_a_folder_with_a_link(tmp_path):
    target = tmp_path / "target"
    target.write_text("mine\n")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "lock").symlink_to(target)
    with pytest.raises(ValueError, match="lock is a link, and is not written to"):
        train(load_recipe("digits", overrides=SMALL), tmp_path / "run", loggers=(), progress=False)
    (tmp_path / "run" / "lock").unlink()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run" / "seed1").symlink_to(tmp_path / "elsewhere")
    recipe = load_recipe("digits", overrides=[*SMALL, "seeds=[0, 1]"])
    with pytest.raises(ValueError, match="seed1 is no folder of its own"):
        train(recipe, tmp_path / "run", loggers=(), progress=False)
    assert target.read_text() == "mine\n"
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_run_may_itself_be_behind_a_link(run):
    """The user named it, and nothing is written beside it."""
    (run.parent / "latest").symlink_to(run)
    unfinish(run)
    assert resume(run.parent / "latest", loggers=(), progress=False).finished
    assert evaluate(run.parent / "latest")["epochs"] == 1


def test_a_log_grows(tmp_path):
    log = RunLog(tmp_path / "log.txt", shown=False)
    log.record("one")
    log.record("zwölf")
    assert (tmp_path / "log.txt").read_bytes() == "one\nzwölf\n".encode()


@pytest.mark.parametrize("linked", ["run", "variant", "modes.json"])
def test_reproducing_writes_into_no_link(linked, run):
    outside = run.parent / "outside"
    settings = Settings("laptop", ("digits",), (0,), SMALL)
    (item,) = find_items(("modes",))
    runs = plan_runs(item, settings)[0]
    path = runs.path(run.parent / "runs", 0)
    path.parent.parent.mkdir(parents=True)
    if linked == "variant":
        (outside / "variant").mkdir()
        path.parent.symlink_to(outside / "variant")
        run.rename(outside / "variant" / path.name)
    else:
        path.parent.mkdir()
        run.rename(outside / "run" if linked == "run" else path)
        if linked == "run":
            path.symlink_to(outside / "run")
    (path / "recipe.yaml").write_text(runs.of_seed(0).to_yaml())
    if linked == "modes.json":
        put_outside(path / "modes.json", outside)
        (outside / "modes.json").write_text("{}")
    before = content(outside)
    lines = []
    queue = Queue(run.parent / "runs", only_finished=True, tell=lines.append)
    assert queue.advance([runs])
    if linked == "modes.json":
        from cophenet.paper.pipeline import observe

        # Few samples, for mixtures take their time.
        features = path / "features/source-test.safetensors"
        save_file({name: values[:40].copy() for name, values in load_file(features).items()}, features)
        observe(item, [runs], run.parent / "runs")
        assert not (path / "modes.json").is_symlink()
        assert json.loads((path / "modes.json").read_text())
    else:
        assert "is no folder of its own" in lines[0]
    assert content(outside) == before
