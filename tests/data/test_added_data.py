"""A data set is one file in `data/` and its recipe; or an entry point of another package."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import cophenet

SOURCE = '''
"""Points on a line."""

import numpy as np
import torch

from cophenet.data.dataset import ArrayInputs, DataSet, Samples
from cophenet.data.source import DataSource, register_source
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
# Runs commands one after the other, each with its exit code and what it prints.
RUN = """
import contextlib, io, json, sys
from cophenet.cli import main
outcomes = []
for command in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as text, contextlib.redirect_stderr(text):
        try:
            main(command)
        except SystemExit as end:
            outcomes.append((end.code, text.getvalue()))
print(json.dumps(outcomes))
"""


def run(path: Path, *commands: str) -> list[tuple[int, str]]:
    """Commands with the packages of a folder."""
    given = json.dumps([command.split() for command in commands])
    environment = {"PYTHONPATH": str(path), "PATH": "", "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, "-c", RUN, given], capture_output=True, text=True, check=True, env=environment
    )
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> Path:
    """A copy of the library with one more data set and its recipe."""
    folder = tmp_path_factory.mktemp("library")
    package = Path(cophenet.__file__).parent
    shutil.copytree(package, folder / "cophenet", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "cophenet/data/points.py").write_text(SOURCE)
    (folder / "cophenet/recipes/files/points.yaml").write_text(RECIPE)
    return folder


def test_a_file_and_a_recipe_are_all_that_a_data_set_needs(library, tmp_path):
    out = tmp_path / "run"
    listed, wrong, checked, recipes, option, trained, evaluated = run(
        library,
        "data list",
        "data check point",
        "data check points --set step=2.0",
        "recipes",
        "recipes points --set data.options.stp=1",
        f"train points --objective l2 -o {out}",
        f"evaluate {out}",
    )
    assert listed[0] == 0
    assert "points on a line; needs no files" in listed[1]
    assert wrong[0] == 2
    assert "nonliving26, points, synthetic" in wrong[1]
    assert "got 'point'; did you mean 'points'?" in wrong[1]
    assert checked[0] == 0
    assert "data 'points' needs no files" in checked[1]
    assert "high" in checked[1]
    assert "Points on a line." in recipes[1]
    assert option[0] == 2
    assert "has no option 'stp'; its options are step" in option[1]
    assert trained[0] == 0, trained[1]
    assert evaluated[0] == 0, evaluated[1]
    assert json.loads((out / "results.json").read_text())["data"] == "points"


def test_other_packages_add_data_sets_by_entry_points(tmp_path):
    (tmp_path / "toy_points.py").write_text(SOURCE.replace("@register_source\n", ""))
    info = tmp_path / "toy_points-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-points\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[cophenet.data]\npoints = toy_points:Points\n")
    (tmp_path / "cophenet").symlink_to(Path(cophenet.__file__).parent)
    listed, checked = run(tmp_path, "data list", "data check points")
    assert "points on a line; needs no files" in listed[1]
    assert checked[0] == 0
    assert "40" in checked[1]
