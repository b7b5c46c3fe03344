"""The package as it is imported: lazily, quickly, with every public name."""

import io
import subprocess
import sys
from contextlib import redirect_stdout

import pytest
import torch

import cophenet
from forked import call_forked


def fresh(code: str) -> str:
    """Run code in a new interpreter."""
    return subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.mark.parametrize("name", cophenet.__all__)
def test_public_names_exist(name):
    assert getattr(cophenet, name) is not None
    assert name in dir(cophenet)


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = cophenet.nothing


def test_import_loads_no_torch():
    heavy = "[m for m in ('torch', 'numpy', 'scipy', 'ot', 'numba') if m in sys.modules]"
    assert fresh(f"import cophenet, sys; print({heavy})") == "[]"


def test_trees_need_no_torch():
    code = "import sys; from cophenet import Hierarchy; print('torch' in sys.modules, 'scipy' in sys.modules)"
    assert fresh(code) == "False False"


# Code -> what it prints in a process that has imported torch and nothing else.
BESIDE_TORCH = {
    "the core loads nothing heavy": (
        """
from cophenet import CPCCLoss, Hierarchy
tree = Hierarchy.from_paths([("a", "1"), ("a", "2"), ("b", "3")])
y = torch.tensor([0, 1, 2])
for distance in ("fastft", "l2", "swd", "sinkhorn", "emd"):
    loss = CPCCLoss(tree, distance)
CPCCLoss(tree, "fastft")(torch.eye(3), y)
print([m for m in ("scipy", "ot", "numba", "yaml", "torch._dynamo") if m in set(sys.modules) - before])
""",
        "[]\n",
    ),
    "objectives load nothing heavy": (
        """
import cophenet.objectives
print([m for m in ("scipy", "ot", "numba", "torchmetrics") if m in set(sys.modules) - before])
""",
        "[]\n",
    ),
    "the estimator loads no reports": (
        """
import cophenet.estimator.comparison, cophenet.estimator.embedder
print([m for m in ("cophenet.report", "cophenet.evaluation") if m in sys.modules])
""",
        "[]\n",
    ),
    "emd loads no solver": (
        """
import cophenet.transport.emd as emd
emd.EMD()
print([m for m in ("numba", "scipy", "ot") if m in sys.modules])
""",
        "[]\n",
    ),
    "the function cpcc is not hidden by the room of its name": (
        """
import cophenet.cpcc.pearson, cophenet
print(cophenet.cpcc.__name__, cophenet.cpcc.__module__, callable(cophenet.cpcc))
""",
        "cpcc cophenet.cpcc.pearson True\n",
    ),
    "metrics as functions need no torchmetrics, and classes say what is missing": (
        """
sys.modules["torchmetrics"] = None
from cophenet import Hierarchy, metrics
tree = Hierarchy.from_paths(["pet/cat", "pet/dog"], sep="/")
print(metrics.mistake_severity(torch.eye(2), torch.tensor([1, 0]), tree).item())
try:
    metrics.LevelAccuracy
except ImportError as error:
    print(error)
""",
        "1.0\ncophenet.metrics.LevelAccuracy needs torchmetrics: pip install 'cophenet[metrics]'\n",
    ),
}


def printed(code):
    """What some code prints in a process that has imported torch and nothing else; that takes seconds."""
    for name in list(sys.modules):
        first, second = [*name.split("."), ""][:2]
        if first not in {"torch", "numpy", *sys.stdlib_module_names} or second == "_dynamo":
            del sys.modules[name]
    vars(torch).pop("_dynamo", None)
    with redirect_stdout(io.StringIO()) as out:
        exec(code, {"torch": torch, "sys": sys, "before": set(sys.modules)})
    return out.getvalue()


@pytest.mark.parametrize("case", BESIDE_TORCH)
def test_in_a_process_with_torch(case):
    code, output = BESIDE_TORCH[case]
    assert call_forked(printed, code) == output
