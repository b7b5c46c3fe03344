"""A data set is one file in `data/` and its recipe; or an entry point of another package."""

import json
from pathlib import Path

import pytest

from commands import copy_library, run_commands

SOURCE = '''
"""Points on a line."""

import numpy as np
import torch

from cophenet.data.dataset import ArrayInputs, DataSet, Samples
from cophenet.data.registry import DataSource, register_source
from cophenet.tree import Hierarchy


@register_source
class Points(DataSource):
    """Points on a line."""

    name = "points"
    summary = "points on a line; needs no files"

    def __init__(self, step: float = 1.0):
        self.step = step

    def tree(self):
        return Hierarchy.from_paths(["low/a", "low/b", "high/c", "high/d"], sep="/")

    def requirements(self, data_dir):
        return []

    def load(self, data_dir):
        labels = np.arange(40) % 4
        inputs = ArrayInputs(torch.from_numpy(labels[:, None] * self.step + 0.1).float())
        samples = Samples(inputs, np.arange(40), labels, self.tree())
        return DataSet(self.name, self.tree(), lambda part, domain: samples)
'''
RECIPE = """
summary: Points on a line.
laptop:
  data: {name: points, domain: full}
  model: {backbone: mlp, options: {hidden: [8]}}
  optimizer: {name: sgd, lr: 0.1}
  batch_size: 20
  epochs: 1
"""

OUT = "run"
COMMANDS = {
    "list": "data list",
    "wrong name": "data check point",
    "check": "data check points --set step=2.0",
    "check foreign": "data check foreign",
    "recipes": "recipes",
    "wrong option": "recipes points --set data.options.stp=1",
    "train": f"train points --objective l2 -o {OUT}",
    "evaluate": f"evaluate {OUT}",
    "compare": f"compare {OUT}",
    "report": f"report {OUT} -o page.html",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A copy of the library with one more data set and its recipe, and a package installed beside it."""
    folder = tmp_path_factory.mktemp("library")
    package = copy_library(folder)
    (package / "data/points.py").write_text(SOURCE)
    (package / "recipes/files/points.yaml").write_text(RECIPE)
    foreign = SOURCE.replace("@register_source\n", "").replace('"points"', '"foreign"')
    (folder / "toy_points.py").write_text(foreign.replace("points on", "foreign points on"))
    info = folder / "toy_points-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-points\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[cophenet.data]\nforeign = toy_points:Points\n")
    return folder


@pytest.fixture(scope="module")
def outcomes(folder) -> dict[str, tuple[int, str]]:
    """Exit code and text of every command."""
    outcomes, _ = run_commands(folder, [command.split() for command in COMMANDS.values()])
    return dict(zip(COMMANDS, outcomes, strict=True))


def test_a_file_and_a_recipe_are_all_that_a_data_set_needs(outcomes, folder):
    codes = {command: code for command, (code, _) in outcomes.items()}
    assert [command for command, code in codes.items() if code != 0] == ["wrong name", "wrong option"]
    texts = {command: text for command, (_, text) in outcomes.items()}
    assert "points on a line; needs no files" in texts["list"]
    assert codes["wrong name"] == codes["wrong option"] == 2
    assert "nonliving26, points, synthetic" in texts["wrong name"]
    assert "got 'point'; did you mean 'points'?" in texts["wrong name"]
    assert "data 'points' needs no files" in texts["check"]
    assert "high" in texts["check"]
    assert "Points on a line." in texts["recipes"]
    assert "has no option 'stp'; its options are step" in texts["wrong option"]
    assert json.loads((folder / OUT / "results.json").read_text())["data"] == "points"
    assert "level1 Acc ↑" in texts["compare"]
    page = (folder / "page.html").read_text()
    assert "<h2>points</h2>" in page
    assert "<dd>4 in a tree of height 2</dd>" in page


def test_other_packages_add_data_sets_by_entry_points(outcomes):
    assert "foreign points on a line; needs no files" in outcomes["list"][1]
    assert "foreign" in outcomes["wrong name"][1]
    code, text = outcomes["check foreign"]
    assert (code, "40" in text) == (0, True)
