"""What one change touches: a distance, an objective or a backbone is one file, or an entry point.

The files are put into a copy of the library; the package is a real one, installed by pip, that adds a
distance, an objective, a metric, a data set, a backbone and a format of vectors. Every part then knows them
by their names.
"""

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from commands import Outcome, copy_library, run_commands

DISTANCE = '''
import torch

from cophenet.transport.base import ClassDistance, register_distance


@register_distance
class Chebyshev(ClassDistance):
    """Largest difference of the class means."""

    name = "chebyshev"

    def forward(self, batch):
        means = batch.means()
        table = torch.cdist(means, means, p=float("inf"))
        return table[batch.on_device(batch.first), batch.on_device(batch.second)].to(batch.features.dtype)
'''
OBJECTIVE = '''
from torch.nn.functional import cross_entropy

from cophenet.objectives.base import Objective
from cophenet.objectives.registry import register_objective


@register_objective
class Smooth(Objective):
    """Cross entropy with smoothed labels."""

    name = "smooth"

    def __init__(self, tree, amount: float = 0.1):
        super().__init__(tree)
        self.amount = amount

    def terms(self, step):
        logits = step.logits[self.finest]
        return {"smooth": cross_entropy(logits, step.labels, label_smoothing=self.amount)}
'''
BACKBONE = '''
from math import prod

from torch import nn

from cophenet.models.base import Backbone
from cophenet.models.registry import register_backbone


@register_backbone("linear")
class Linear(Backbone):
    """One linear layer."""

    def __init__(self, input_shape, /, features: int = 6):
        super().__init__()
        self.layer, self.num_features = nn.Linear(prod(input_shape), features), features

    def forward_features(self, inputs):
        return self.layer(inputs.flatten(1))
'''
METRIC = """
from cophenet.metrics.cards import Card, Group

norm = Card(
    key="toy-norm",
    title="mean norm",
    short="Norm",
    higher_is_better=False,
    percent=False,
    group=Group("Lengths", "How long feature vectors are."),
    measure=lambda data: {"toy-norm": data.test.features.norm(dim=1).mean()},
    headline="length of features",
)
"""
DATA = '''
import numpy as np
import torch

from cophenet.data.dataset import ArrayInputs, DataSet, Samples
from cophenet.data.registry import DataSource
from cophenet.tree import Hierarchy


class Points(DataSource):
    """Points on a line."""

    name = "toy-points"
    summary = "points on a line"

    def tree(self):
        return Hierarchy.from_paths(["low/a", "low/b", "high/c", "high/d"], sep="/")

    def requirements(self, data_dir):
        return []

    def load(self, data_dir):
        labels = np.arange(40) % 4
        noise = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
        inputs = ArrayInputs(torch.from_numpy(labels[:, None]).float() + noise)
        samples = Samples(inputs, np.arange(40), labels, self.tree())
        return DataSet(self.name, self.tree(), lambda part, domain: samples)
'''
FORMAT = """
import json

import numpy as np

from cophenet.vectors import VectorFormat


class JsonLines(VectorFormat):
    extension = ".toyl"

    def read(self, path, rows, labelled):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        labels = np.array([line["labels"] for line in lines]) if "labels" in lines[0] else None
        yield np.array([line["features"] for line in lines]), labels

    def write(self, path, parts):
        with path.open("w") as stream:
            for columns in parts:
                for row in zip(*(values.tolist() for values in columns.values())):
                    print(json.dumps(dict(zip(columns, row))), file=stream)
"""
PROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "toy-members"
version = "1.0"

[project.entry-points."cophenet.distances"]
toy-chebyshev = "toy_members.distance:Chebyshev"
broken = "toy_members.no_such_module:Broken"

[project.entry-points."cophenet.objectives"]
toy-smooth = "toy_members.objective:Smooth"

[project.entry-points."cophenet.metrics"]
toy-norm = "toy_members.metric:norm"

[project.entry-points."cophenet.data"]
toy-points = "toy_members.data:Points"

[project.entry-points."cophenet.backbones"]
toy-linear = "toy_members.backbone:Linear"

[project.entry-points."cophenet.vectors"]
".toyl" = "toy_members.vectors:JsonLines"
".toym" = "toy_members.vectors:JsonLines"
"toyn" = "toy_members.vectors:JsonLines"

[tool.setuptools]
packages = ["toy_members"]
"""
RECIPE = """
summary: Points on a line.
laptop:
  data: {name: toy-points, domain: full}
  model: {backbone: toy-linear, options: {features: 5}}
  objective: {name: toy-chebyshev, options: {toy-smooth: {amount: 0.2}}}
  optimizer: {name: sgd, lr: 0.1}
  batch_size: 20
  epochs: 1
"""
VECTORS = """
summary: Vectors in a file.
laptop:
  data: {name: vectors, domain: full, options: {train: points.toyl, tree_file: tree.yaml}}
  model: {backbone: identity}
  optimizer: {name: sgd, lr: 0.1}
  batch_size: 16
  epochs: 1
"""
# Asks the library itself, after the commands.
ASK = """
import numpy as np
from cophenet import HierarchicalEmbedder, Hierarchy
from cophenet.cli.train import complete_objectives
features = np.random.default_rng(0).normal(size=(24, 3)).astype(np.float32)
labels = np.array(["a", "b", "c", "d"] * 6)
tree = Hierarchy.from_paths(["low/a", "low/b", "high/c", "high/d"], sep="/")
embedded = {}
for name in arguments:
    estimator = HierarchicalEmbedder(tree=tree, objective=name, max_iter=1).fit(features, labels)
    embedded[name] = bool(np.isfinite(estimator.transform(features)).all())
answer = {"embedded": embedded, "completed": complete_objectives("")}
"""


def ask(folder: Path, commands: list[str], objectives: list[str]) -> tuple[list[Outcome], dict[str, Any]]:
    """Run commands in a folder, with what lies in it importable, and fit estimators with some objectives."""
    return run_commands(folder, [shlex.split(command) for command in commands], ASK, objectives)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """A copy of the library with one more file in each of three rooms."""
    folder = tmp_path_factory.mktemp("library")
    package = copy_library(folder)
    (package / "transport/chebyshev.py").write_text(DISTANCE)
    (package / "objectives/smooth.py").write_text(OBJECTIVE)
    (package / "models/linear.py").write_text(BACKBONE)
    return folder


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Where pip has installed a package with a member for each of six rooms."""
    project, target = tmp_path_factory.mktemp("toy"), tmp_path_factory.mktemp("installed")
    (project / "pyproject.toml").write_text(PROJECT)
    (project / "toy_members").mkdir()
    distance = DISTANCE.replace("@register_distance\n", "").replace(", register_distance", "")
    objective = OBJECTIVE.replace("@register_objective\n", "").replace(
        "from cophenet.objectives.registry import register_objective\n", ""
    )
    backbone = BACKBONE.replace('@register_backbone("linear")\n', "").replace(
        "from cophenet.models.registry import register_backbone\n", ""
    )
    files = {
        "__init__": "",
        "distance": distance.replace('"chebyshev"', '"toy-chebyshev"'),
        "objective": objective.replace('name = "smooth"', 'name = "toy-smooth"'),
        "metric": METRIC,
        "data": DATA,
        "backbone": backbone,
        "vectors": FORMAT,
    }
    for name, text in files.items():
        (project / "toy_members" / f"{name}.py").write_text(text)
    options = ["--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(target), str(project)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (target / "toy.yaml").write_text(RECIPE)
    return target


def test_a_file_is_all_that_a_distance_an_objective_or_a_backbone_needs(library):
    digits = "train digits --set epochs=1 --set batch_size=512 --threads 1"
    commands = [
        "recipes digits --set objective.name=chebishev",
        "recipes digits --set objective.name=smooth --set objective.options.smooth.amont=0.2",
        "recipes digits --set 'model={backbone: linaer}'",
        "recipes digits --set 'model={backbone: linear, options: {featurs: 3}}'",
        f"{digits} --objective chebyshev --set 'model={{backbone: linear}}' -o near",
        f"{digits} --objective smooth --set objective.options.smooth.amount=0.2 -o smooth",
        "evaluate near",
        "compare near -m source/cpcc/chebyshev",
    ]
    outcomes, answer = ask(library, commands, ["chebyshev", "smooth"])
    texts = [text for _, text in outcomes]
    assert [code for code, _ in outcomes] == [2, 2, 2, 2, 0, 0, 0, 0], texts
    assert "did you mean 'chebyshev'" in texts[0]
    assert "smooth" in texts[0]
    assert "has no option 'amont'; its options are amount" in texts[1]
    assert "did you mean 'linear'" in texts[2]
    assert "has no option 'featurs'; its options are features" in texts[3]
    assert "cpcc/chebyshev" in "".join(json.loads((library / "near/results.json").read_text())["metrics"])
    assert "chebyshev" in texts[7]
    assert answer["embedded"] == {"chebyshev": True, "smooth": True}
    assert {"chebyshev", "smooth"} <= set(answer["completed"])


def test_an_installed_package_adds_to_all_rooms(installed):
    commands = [
        "data list",
        "data check toy-point",
        "recipes toy.yaml --set objective.name=toy-chebishev",
        "recipes toy.yaml --set model.backbone=toy-liner",
        "train toy.yaml --threads 1 -o near",
        "train toy.yaml --objective toy-smooth --threads 1 -o smooth",
        "evaluate near",
        "evaluate smooth",
        "compare near smooth -m full/toy-norm",
        "report near smooth -o page.html",
        "train digits --objective broken -o never",
    ]
    outcomes, answer = ask(installed, commands, ["toy-chebyshev", "toy-smooth"])
    texts = [text for _, text in outcomes]
    assert [code for code, _ in outcomes] == [0, 2, 2, 2, 0, 0, 0, 0, 0, 0, 2], texts
    assert "points on a line" in texts[0]
    assert "did you mean 'toy-points'" in texts[1]
    assert "did you mean 'toy-chebyshev'" in texts[2]
    assert "toy-smooth" in texts[2]
    assert "did you mean 'toy-linear'" in texts[3]
    metrics = json.loads((installed / "near/results.json").read_text())["metrics"]
    assert {"full/toy-norm", "full/cpcc/toy-chebyshev"} <= set(metrics)
    assert "full/toy-norm" in json.loads((installed / "smooth/results.json").read_text())["metrics"]
    assert "Norm" in texts[8]
    assert (
        "distance 'broken' of toy-members (toy_members.no_such_module:Broken) cannot be loaded" in texts[-1]
    )
    page = (installed / "page.html").read_text()
    assert all(words in page for words in ("<h2>toy-points</h2>", "length of features ↓", "toy-smooth"))
    assert not (installed / "never").exists()
    assert answer["embedded"] == {"toy-chebyshev": True, "toy-smooth": True}
    assert {"toy-chebyshev", "toy-smooth", "broken"} <= set(answer["completed"])


def test_an_installed_format_of_vectors_is_read_and_written_everywhere(installed):
    rows = [{"features": [i % 4, i % 3, 0.5], "labels": "abcd"[i % 4]} for i in range(40)]
    (installed / "points.toyl").write_text("\n".join(map(json.dumps, rows)))
    (installed / "tree.yaml").write_text("{low: [a, b], high: [c, d]}")
    (installed / "vectors.yaml").write_text(VECTORS)
    commands = [
        "embed --help",
        "measure --help",
        "data list",
        "embed points.toyl --tree tree.yaml --save model -o own.toyl",
        "predict points.toyl --model model -o answers.toyl",
        "measure own.toyl --tree tree.yaml",
        "train vectors.yaml --data-dir . --threads 1 -o trained",
        "embed points.toym --tree tree.yaml -o never.npz",
    ]
    outcomes, _ = ask(installed, commands, [])
    texts = [text for _, text in outcomes]
    assert [code for code, _ in outcomes] == [0, 0, 0, 0, 0, 0, 0, 2], texts
    assert all(
        "npz, npy, safetensors, parquet, csv, toyl or toym" in " ".join(text.split()) for text in texts[:3]
    ), texts[:3]
    written = (installed / "own.toyl").read_text().splitlines()
    assert [json.loads(line)["labels"] for line in written] == [*"abcd"] * 10
    assert len((installed / "answers.toyl").read_text().splitlines()) == 40
    assert "CPCC" in texts[5]
    assert "the name of a format must be its extension '.toyl', got '.toym'" in texts[7]
