"""Run folders and models of somebody else: whatever they name, nothing of it is imported or called."""

import importlib
import itertools
import json
import os
import pickle
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

from cophenet import HierarchicalEmbedder
from cophenet._common.trust import TrustError
from cophenet.cli import main
from cophenet.data.registry import SOURCES, DataSource, register_source
from cophenet.evaluation import evaluate
from cophenet.objectives import Flat
from cophenet.objectives.registry import OBJECTIVES, register_objective
from cophenet.paper.items import find_items
from cophenet.paper.plan import Settings, plan_runs
from cophenet.paper.queue import Queue
from cophenet.recipes import load_recipe
from cophenet.runs import Run, load_experiment, load_network, resume, train
from cophenet.runs.checkpoints import list_checkpoints, read_checkpoint
from cophenet.transport import L2
from cophenet.transport.base import DISTANCES

SMALL = ("epochs=1", "batch_size=256", "model.options.hidden=[8]", "one_shot.epochs=2", "seeds=[0]")
MARKER = "marker"
# Leaves the marker when it is imported, when it is made, and when it is unpickled.
EVIL = f"""
import os
from pathlib import Path
from torch import nn
Path({MARKER!r}).touch()
class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(64, 8))
        Path({MARKER!r}).touch()
    @staticmethod
    def make(**_):
        Path({MARKER!r}).touch()
"""
TIMM = """
import torch
def list_models():
    return ["resnet18"]
def create_model(name, num_classes, in_chans, checkpoint_path=None, pretrained_cfg=None, cache_dir=None):
    torch.load(checkpoint_path or cache_dir or pretrained_cfg["file"], weights_only=False)
"""


class Payload:
    """Unpickled, it leaves the marker."""

    def __reduce__(self):
        """What unpickling calls."""
        return os.system, (f"touch {MARKER}",)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run that is trained and evaluated."""
    folder = tmp_path_factory.mktemp("trust") / "run"
    run = train(load_recipe("digits", overrides=SMALL), folder, loggers=(), progress=False)
    evaluate(run)
    return folder


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An empty folder to work in, beside modules that a hostile run names."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "evil_net.py").write_text(EVIL)
    (tmp_path / "payload.pth").write_bytes(pickle.dumps(Payload()))
    importlib.invalidate_caches()
    yield tmp_path
    sys.modules.pop("evil_net", None)


def change_yaml(path, change):
    document = yaml.safe_load(path.read_text())
    change(document)
    path.write_text(yaml.safe_dump(document))


def change_json(path, **values):
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def backbone(name, **options):
    def change(run):
        model = {"backbone": name, "options": options, "weights": None}
        change_yaml(run / "recipe.yaml", lambda recipe: recipe.update(model=model))

    return change


def checkpoint(write):
    """In place of the newest checkpoint a file of other content, with the right checksum."""

    def change(run):
        import hashlib

        old = list_checkpoints(run / "checkpoints")[0]
        new = run / "checkpoints" / "new"
        write(new, old)
        name = f"step99999999-{hashlib.sha256(new.read_bytes()).hexdigest()[:16]}.ckpt"
        new.rename(run / "checkpoints" / name)

    return change


def weights_of_a_fresh_run(run):
    shutil.rmtree(run / "checkpoints")
    change_yaml(run / "recipe.yaml", lambda recipe: recipe["model"].update(weights="payload.pth"))


def yaml_tag(run):
    with (run / "recipe.yaml").open("a") as file:
        file.write(f"summary: !!python/object/apply:os.system ['touch {MARKER}']\n")


def features_as_pickle(run):
    (run / "features").mkdir(exist_ok=True)
    for part in ("train", "test"):
        (run / f"features/source-{part}.safetensors").write_bytes(pickle.dumps(Payload()))


def hidden_seed(run):
    """The recipe of the folder is harmless, that of its only seed is not."""
    inner = run.with_name("inner")
    run.rename(inner)
    backbone("evil_net:Net")(inner)
    run.mkdir()
    inner.rename(run / "seed0")
    shutil.copy(run / "seed0" / "run.json", run)
    shutil.copy(run / "seed0" / "results.json", run)
    info = json.loads((run / "run.json").read_text())
    del info["seed"]
    (run / "run.json").write_text(json.dumps({**info, "seeds": [0]}))
    (run / "recipe.yaml").write_text(load_recipe("digits", overrides=SMALL).to_yaml())


HOSTILE = {
    "a shell": backbone("os:system", command=f"touch {MARKER}"),
    "a process": backbone("subprocess:Popen", args=["touch", MARKER]),
    "a class of the standard library": backbone("pathlib:Path"),
    "a module in the current folder": backbone("evil_net:Net"),
    "an attribute of a class": backbone("evil_net:Net.make"),
    "a checkpoint of timm": backbone("timm:resnet18", checkpoint_path="payload.pth"),
    "a configuration of timm": backbone("timm:resnet18", pretrained_cfg={"file": "payload.pth"}),
    "a cache of timm": backbone("timm:resnet18", cache_dir="payload.pth"),
    "a tag in YAML": yaml_tag,
    "a seed below a harmless recipe": hidden_seed,
    "a pickled checkpoint": checkpoint(lambda new, _: new.write_bytes(pickle.dumps(Payload()))),
    "a checkpoint of torch": checkpoint(lambda new, _: torch.save({"state_dict": Payload()}, new)),
    "hyper-parameters in a checkpoint": checkpoint(
        lambda new, old: torch.save({**read_checkpoint(old), "hyper_parameters": Payload()}, new)
    ),
    "a checkpoint in torch's oldest format": checkpoint(
        lambda new, _: torch.save({"state_dict": Payload()}, new, _use_new_zipfile_serialization=False)
    ),
    "weights to begin with": weights_of_a_fresh_run,
    "pickled features": features_as_pickle,
}
# Of these the commands that need no network read something.
READ = (
    "a shell",
    "a module in the current folder",
    "a tag in YAML",
    "a seed below a harmless recipe",
    "pickled features",
)
COMMANDS = {
    "evaluate": ["evaluate", "sent"],
    "resume": ["train", "--resume", "sent"],
    "predict": ["predict", "vectors.npy", "--model", "sent", "-o", "out.csv"],
    "embed": ["embed", "vectors.npy", "--model", "sent", "-o", "out.npz"],
    "search": ["search", "vectors.npy", "--model", "sent"],
    "report": ["report", "sent", "-o", "report.html"],
    "compare": ["compare", "sent"],
}


def run_command(*arguments):
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return ended.value.code


@pytest.fixture
def sent(place, finished, request):
    """A hostile run folder, neither evaluated nor quite finished."""
    (place / "timm.py").write_text(TIMM)
    sys.path.append(str(place / "installed"))
    (place / "installed").mkdir()
    (place / "timm.py").rename(place / "installed" / "timm.py")
    np.save(place / "vectors.npy", np.zeros((2, 64), dtype=np.float32))
    shutil.copytree(finished, place / "sent")
    shutil.rmtree(place / "sent" / "features")
    change_json(place / "sent" / "run.json", finished=False)
    HOSTILE[request.param](place / "sent")
    yield place / "sent"
    sys.modules.pop("timm", None)


@pytest.mark.parametrize(
    ("command", "sent"),
    [
        *itertools.product(["evaluate", "resume", "predict"], HOSTILE),
        *itertools.product(["report", "compare"], READ),
    ],
    indirect=["sent"],
)
def test_no_command_runs_what_a_folder_names(sent, command, capfd):
    if command != "resume":
        for info in sent.rglob("run.json"):
            change_json(info, finished=True)
    code = run_command(*COMMANDS[command])
    assert not Path(MARKER).exists()
    assert "evil_net" not in sys.modules
    err = capfd.readouterr().err
    assert code in (0, 2), err
    if code:
        assert err.startswith("error: ")
        assert len(err.splitlines()) == 1
        assert "weights_only" not in err  # torch's advice to load it with less care


@pytest.mark.parametrize("command", ["evaluate", "resume", "predict", "embed", "search"])
@pytest.mark.parametrize("sent", ["a shell"], indirect=True)
def test_the_refusal_says_what_was_wanted_and_how_to_allow_it(sent, command, capsys):
    if command == "evaluate":
        change_json(sent / "run.json", finished=True)
    before = {path: path.stat().st_mtime_ns for path in sent.rglob("*")}
    assert run_command(*COMMANDS[command]) == 2
    assert capsys.readouterr().err == (
        "error: sent wants to run backbone 'os:system', which was refused because a folder is data: "
        "if you know and trust that code, allow it with --trust (in Python trust=True)\n"
    )
    assert {path: path.stat().st_mtime_ns for path in sent.rglob("*")} == before


@pytest.mark.parametrize("sent", ["a shell", "a process"], indirect=True)
@pytest.mark.usefixtures("sent")
def test_with_trust_too_only_modules_are_called(capsys):
    assert run_command(*COMMANDS["resume"], "--trust") == 2
    assert "must be a subclass of torch.nn.Module" in capsys.readouterr().err
    assert not Path(MARKER).exists()


@pytest.mark.parametrize("sent", ["a module in the current folder"], indirect=True)
def test_python_refuses_as_the_commands_do(sent):
    run = Run.open(sent)
    for call in (
        lambda: load_network(run),
        lambda: resume(sent),
        lambda: HierarchicalEmbedder.from_run(sent),
        lambda: train(run.recipe, sent.with_name("new"), progress=False),
    ):
        with pytest.raises(TrustError, match="sent wants to run backbone 'evil_net:Net', which was refused"):
            call()
    change_json(sent / "run.json", finished=True)
    with pytest.raises(TrustError):
        evaluate(sent)
    assert run.recipe.model_copy(update={"epochs": 2}).untrusted == sent
    assert not Path(MARKER).exists()
    assert load_experiment(run.recipe).tree.num_classes == 7  # needs no backbone


NET = """
from torch import nn
class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(64, 8))
"""


def test_a_backbone_in_the_current_folder_works_with_every_command(place, capsys):
    """Those that open the run need the word that it is trusted."""
    (place / "own_net.py").write_text(NET)
    np.save(place / "vectors.npy", np.zeros((2, 64), dtype=np.float32))
    settings = [f"--set={text}" for text in (*SMALL[:2], *SMALL[3:], "model={backbone: 'own_net:Net'}")]

    def fresh(*arguments):
        """As in a process of its own."""
        sys.modules.pop("own_net", None)
        sys.path[:] = [folder for folder in sys.path if folder != str(place)]
        return run_command(*arguments)

    assert fresh("train", *settings, "-o", "run") == 0
    assert "next: cophenet evaluate run --trust\n" in capsys.readouterr().out
    assert fresh("report", "run", "-o", "report.html") == 0
    assert fresh("evaluate", "run") == 2
    assert fresh("evaluate", "run", "--trust") == 0
    assert fresh("evaluate", "run") == 0  # features are saved: nothing is run
    assert fresh("predict", "vectors.npy", "--model", "run", "-o", "out.csv", "--trust") == 0
    assert fresh("compare", "run") == 0
    assert "own_net" not in sys.modules
    change_json(place / "run" / "run.json", finished=False)
    assert fresh("train", "--resume", "run") == 2
    assert fresh("train", "--resume", "run", "--trust") == 0
    assert fresh("train", *settings, "-o", "run2", "--trust") == 2
    sys.modules.pop("own_net", None)


def test_what_train_returns_is_trusted(place):
    (place / "own_net.py").write_text(NET)
    recipe = load_recipe("digits", overrides=(*SMALL[:2], "one_shot=null", "model={backbone: 'own_net:Net'}"))
    run = train(recipe, place / "run", loggers=(), progress=False)
    assert evaluate(run)["epochs"] == 1
    opened = Run.open(place / "run")
    assert opened.recipe == run.recipe == recipe
    assert load_network(opened, trust=True).backbone.num_features == 8
    assert load_network(Run.open(place / "run", trust=True)).backbone.num_features == 8
    assert HierarchicalEmbedder.from_run(place / "run", trust=True).n_features_in_ == 64
    shutil.rmtree(place / "run" / "features")
    assert evaluate(opened, trust=True)["epochs"] == 1
    del sys.modules["own_net"]


@pytest.fixture
def registered(monkeypatch):
    """A data set, an objective and a distance of the running program, and what was made of them."""
    for registry in (SOURCES, OBJECTIVES, DISTANCES):
        registry.names()
        monkeypatch.setattr(registry, "_members", dict(registry._members))
    made = []

    class Mine(Flat):
        name = "mine"

        def __init__(self, tree, note: str = ""):
            made.append(note)
            super().__init__(tree)

    class Far(L2):
        name = "far"

        def __init__(self):
            made.append("far")
            super().__init__()

    class Rows(DataSource):
        name = "rows"

        def __init__(self, note: str = ""):
            made.append(note)

        def requirements(self, _):
            return []

        def load(self, _):
            raise AssertionError

    register_objective(Mine)
    DISTANCES.register("far")(Far)
    register_source(Rows)
    return made


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"objective": {"name": "mine", "options": {"mine": {"note": "x"}}}}, "objective 'mine'"),
        ({"objective": {"name": "far"}}, "distance 'far'"),
        (
            {"objective": {"name": "flat", "options": {"flat": {"cpcc": {"distance": "far"}}}}},
            "distance 'far'",
        ),
        ({"data": {"name": "rows", "options": {"note": "x"}}}, "data set 'rows'"),
    ],
)
def test_what_the_program_registered_runs_for_folders_that_are_trusted(
    change, what, place, finished, registered
):
    shutil.copytree(finished, place / "sent")
    shutil.rmtree(place / "sent" / "features")
    change_yaml(place / "sent" / "recipe.yaml", lambda recipe: recipe.update(change))
    assert run_command("compare", "sent") == 0
    run = Run.open(place / "sent")
    for call in (
        lambda: evaluate(run),
        lambda: load_network(run),
        lambda: load_experiment(run.recipe),
        lambda: run.recipe.create_objective(run.tree),
        lambda: HierarchicalEmbedder.from_run(run.path),
    ):
        with pytest.raises(TrustError, match=f"{what}, which this program has registered, which was refused"):
            call()
    assert registered == []
    if "objective" in change:
        assert load_experiment(run.recipe, trust=True).recipe == run.recipe
        assert registered


def test_reproducing_reads_a_hostile_run_as_data(place, finished, capsys):
    settings = Settings("laptop", ("digits",), (0,), SMALL[:4])
    planned = plan_runs(find_items(("rank",))[0], settings)
    for number, runs in enumerate(planned):
        path = runs.path(place / "runs", 0)
        path.parent.mkdir(parents=True)
        shutil.copytree(finished, path)
        list(HOSTILE.values())[number % 4](path)
    options = [f"--set={text}" for text in SMALL[:4]]
    common = ["rank", "--recipe", "digits", "--seeds", "0,", "--runs", "runs", "-o", "out", *options]
    assert run_command("reproduce", "--only-finished", *common) == 1
    assert "has other settings (model.backbone" in capsys.readouterr().err
    assert not Path(MARKER).exists()
    assert "evil_net" not in sys.modules


def test_reproducing_goes_on_with_no_recipe_but_its_own(place, finished):
    """Also if the recipe of the folder is the right one, and that of a seed below it is another."""
    settings = Settings("laptop", ("digits",), (0,), SMALL[:4])
    runs = plan_runs(find_items(("rank",))[0], settings)[0]
    path = runs.path(place / "runs", 0)
    path.parent.mkdir(parents=True)
    shutil.copytree(finished, path)
    change_json(path / "run.json", finished=False)
    hidden_seed(path)
    (path / "results.json").unlink()
    (path / "recipe.yaml").write_text(runs.of_seed(0).to_yaml())
    queue = Queue(place / "runs", progress=False, tell=lambda _: None)
    assert queue.advance([runs])
    assert "has other settings (seeds)" in queue.report.failed[f"{runs.name}/seed0"]
    assert not Path(MARKER).exists()


@pytest.mark.parametrize(
    "change",
    [
        {"params": {"objective": "os:system"}},
        {"params": {"objective_options": {"command": f"touch {MARKER}"}, "objective": "evil_net"}},
        {"backend": "evil_net"},
        {"classes_dtype": "evil_net"},
        {"network": "evil_net:Net"},
    ],
)
def test_a_saved_model_runs_nothing_that_it_names(change, place):
    model = Path(__file__).parent / "first_edition" / "embedder"
    shutil.copytree(model, place / "model")
    config = json.loads((place / "model" / "config.json").read_text())
    params = {**config["params"], **change.pop("params", {})}
    change_json(place / "model" / "config.json", params=params, **change)
    with suppress(ValueError):
        HierarchicalEmbedder.load(place / "model")
    assert not Path(MARKER).exists()
    assert "evil_net" not in sys.modules


def test_studies_do_not_import_from_the_current_folder(place, monkeypatch):
    from cophenet.paper import run_isolated

    for name in ("json", "torch", "cophenet", "subprocess"):
        (place / f"{name}.py").write_text(EVIL)
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if folder not in ("", str(place))])
    with pytest.raises(RuntimeError, match="unexpected keyword argument 'none'"):
        run_isolated("synthetic", {"none": 1})
    assert not Path(MARKER).exists()


def test_the_command_does_not_import_from_the_current_folder(place):
    for name in ("typer", "torch", "json", "yaml", "umap"):
        (place / f"{name}.py").write_text(EVIL)
    ended = subprocess.run(
        [sys.executable, "-m", "cophenet", "recipes", "digits"], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert not Path(MARKER).exists()
