"""The package as it is imported: lazily, quickly, with every public name."""

import subprocess
import sys

import pytest

import cophenet


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


def test_the_core_loads_nothing_heavy_beside_torch():
    code = """
import sys, torch
before = set(sys.modules)
from cophenet import CPCCLoss, Hierarchy
tree = Hierarchy.from_paths([("a", "1"), ("a", "2"), ("b", "3")])
y = torch.tensor([0, 1, 2])
for distance in ("fastft", "l2", "swd", "sinkhorn", "emd"):
    loss = CPCCLoss(tree, distance)
CPCCLoss(tree, "fastft")(torch.eye(3), y)
print([m for m in ("scipy", "ot", "numba", "yaml", "torch._dynamo") if m in set(sys.modules) - before])
"""
    assert fresh(code) == "[]"
