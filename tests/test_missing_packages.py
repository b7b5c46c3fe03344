"""A missing optional package is one sentence with the command that installs it, wherever it is needed."""

import io
import os
import re
import shutil
import sys
import warnings
from pathlib import Path

import numpy
import pytest

from forked import call_forked

EARLIER = Path(__file__).parent / "first_edition"

# Package -> what a user may do without it.
NEEDED = {
    "typer": ["main()"],
    "pydantic": [
        "from cophenet.recipes import load_recipe",
        "from cophenet.runs import Run",
        "from cophenet.evaluation import evaluate",
    ],
    "yaml": ["from cophenet.recipes import load_recipe", "Hierarchy.read('tree.yaml')"],
    "PIL": [
        "from cophenet.data import create_source\n"
        "create_source('folder').load('pictures').samples('train').inputs.take(numpy.array([0]))"
    ],
    "safetensors": [
        "from cophenet.models.weights import read_state; read_state('x.safetensors')",
        "from cophenet import HierarchicalEmbedder; HierarchicalEmbedder.load(EARLIER / 'embedder')",
    ],
    "pyarrow": ["from cophenet.vectors import read_vectors; read_vectors('x.parquet')"],
    "sklearn": [
        "from cophenet import HierarchicalEmbedder",
        "from cophenet.data import create_source; create_source('digits').load(None)",
        "from cophenet.paper import best_components; best_components(numpy.eye(9), 'full', most=2)",
    ],
    "torchmetrics": ["from cophenet.metrics import CPCC"],
    "lightning": [
        "from cophenet.integrations import CPCCCallback",
        "from cophenet.runs import train; from cophenet.recipes import load_recipe\n"
        "train(load_recipe('digits'), 'run')",
    ],
    "jinja2": ["from cophenet.report import write_report; write_report([EARLIER / 'run'], 'x.html')"],
    "numba": ["from cophenet.transport import EMD; EMD(solver='numba')"],
    "rdflib": ["Hierarchy.read('x.ttl')"],
    "ray": ["from cophenet.integrations import map_files; map_files(print, [])"],
    "networkx": ["Hierarchy.imagenet([1, 2]).to_networkx()"],
    "onnx": [
        "from cophenet import HierarchicalEmbedder\n"
        "HierarchicalEmbedder.load(EARLIER / 'embedder').to_onnx('x.onnx')"
    ],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("missing")
    (folder / "tree.yaml").write_text("a: [b, c]")
    (folder / "x.safetensors").write_bytes(bytes(16))
    (folder / "x.ttl").write_text("")
    (folder / "x.parquet").write_bytes(b"PAR1")
    for name in ("cat", "dog"):
        (folder / "pictures" / name).mkdir(parents=True)
        for number in range(3):
            (folder / "pictures" / name / f"{number}.png").write_bytes(b"")
    shutil.copytree(EARLIER, folder / "earlier")
    return folder


def message_without(package, code, folder):
    """What a user reads for some code where a package is missing; cophenet is imported anew."""
    os.chdir(folder)
    warnings.simplefilter("ignore")
    for name in [package, *sys.modules]:
        if name.split(".")[0] == package:
            sys.modules[name] = None
        elif name.split(".")[0] == "cophenet":
            del sys.modules[name]
    from cophenet import Hierarchy
    from cophenet.__main__ import main

    sys.argv, sys.stderr = ["cophenet", "--help"], io.StringIO()
    try:
        exec(code, {"EARLIER": Path("earlier"), "Hierarchy": Hierarchy, "main": main, "numpy": numpy})
    except SystemExit:
        return sys.stderr.getvalue().strip()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


@pytest.mark.parametrize(("package", "code"), [(p, code) for p, codes in NEEDED.items() for code in codes])
def test_the_sentence_has_the_command(folder, package, code):
    message = call_forked(message_without, package, code, folder)
    names = {"sklearn": "scikit-learn", "yaml": "yaml", "PIL": "pillow"}
    assert re.fullmatch(r"(ImportError|error): [^\n]+: pip install '?[\w-]+(\[\w+\])?'?", message), message
    assert names.get(package, package) in message.lower() or package in message
