"""Two processes train as one does, step by step, and go on after an interruption as if it had not been."""

import importlib.util
import json
import os
import sys
from pathlib import Path

import pytest
import torch

from cophenet.models import create_backbone
from cophenet.runs import Run
from cophenet.runs.checkpoints import read_checkpoint
from forked import as_a_user, call_forked

SCRIPT = Path(__file__).with_name("two_processes.py")
_spec = importlib.util.spec_from_file_location("two_processes", SCRIPT)
script = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(script)


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    """All cases, trained by two processes; the folder and the losses of every step."""
    folder = tmp_path_factory.mktemp("together")
    with torch.random.fork_rng():
        torch.save(
            create_backbone("mlp", input_shape=(1, 8, 8), hidden=(16,)).state_dict(), folder / "trunk.pth"
        )
    log = folder / "log.txt"
    try:
        call_forked(train_together, folder, log)
    finally:
        text = log.read_text()
        print(text)
    # Once per training, and not once per process.
    assert text.count("next:") == len(script.CASES) + len(script.STOPPED)
    return folder, json.loads((folder / "losses.json").read_text())


def train_together(folder, log):
    """Be the first of the two processes, as if the script had been started."""
    as_a_user(log)
    os.chdir(folder)
    sys.modules["__main__"].__spec__ = None  # Lightning starts what was started, by its file or as a module
    sys.argv = [str(SCRIPT), str(folder)]
    script.train_all(folder)


def checkpoint(folder):
    return read_checkpoint(Run.open(folder).checkpoint())


def rows(folder):
    return [{**row, "seconds": 0} for row in Run.open(folder).metrics]


def leaves(state, place=""):
    """The tensors and values of nested states, by place."""
    if isinstance(state, dict | list | tuple):
        items = state.items() if isinstance(state, dict) else enumerate(state)
        return {key: value for name, part in items for key, value in leaves(part, f"{place}.{name}").items()}
    return {place: state}


@pytest.mark.parametrize("name", script.CASES)
def test_losses_weights_and_rows_are_those_of_one_process(name, together, tmp_path, monkeypatch):
    folder, losses = together
    monkeypatch.chdir(folder)
    alone = script.train(tmp_path / "one", script.CASES[name])
    assert len(alone) >= 10
    assert losses[name][:10] == pytest.approx(alone[:10], rel=1e-5)
    for row, other in zip(rows(tmp_path / "one"), rows(folder / name), strict=True):
        assert other["train/loss"] == pytest.approx(row["train/loss"], rel=1e-4)
        assert other["lr"] == row["lr"]
        if row["test/accuracy"] is not None:
            assert other["test/accuracy"] == pytest.approx(row["test/accuracy"], abs=0.01)
    log = (folder / name / "log.txt").read_text().splitlines()
    assert len(log) == 1 + ("curriculum" in name) + len(rows(folder / name))


@pytest.mark.parametrize("name", script.STOPPED)
def test_a_stopped_run_of_two_processes_ends_bitwise_the_same(name, together):
    folder, losses = together
    assert losses[f"{name}-stopped"] == losses[name]
    assert rows(folder / f"{name}-stopped") == rows(folder / name)
    one, other = (leaves(checkpoint(folder / end)) for end in (name, f"{name}-stopped"))
    assert one.keys() == other.keys()
    for place in one:
        if isinstance(one[place], torch.Tensor):
            assert torch.equal(one[place], other[place]), place
    if name == "memory":
        assert any("memory" in place and place.endswith("features") for place in one)


@pytest.mark.parametrize("name", [name for name, given in script.CASES.items() if "chunk_size" in str(given)])
def test_chunks_on_two_processes_give_the_weights_of_the_plain_step(name, together, tmp_path):
    folder, _ = together
    plain = tuple(setting for setting in script.CASES[name] if "chunk_size" not in setting)
    script.train(tmp_path / "plain", plain)
    one, other = (checkpoint(path)["state_dict"] for path in (tmp_path / "plain", folder / name))
    for key in (key for key in one if key.startswith("network.")):
        torch.testing.assert_close(other[key], one[key], rtol=0, atol=1e-6)
