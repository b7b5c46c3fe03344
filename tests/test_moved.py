"""Imports that the documentation of earlier versions showed."""

import importlib
import subprocess
import sys

import pytest

from cophenet import cpcc

MOVED = {
    "cophenet.training": ["Run", "load_experiment", "load_network", "load_recipe", "resume", "train"],
    "cophenet.reproduce": ["find_items", "reproduce"],
    "cophenet.analysis": ["count_modes", "order_study", "synthetic_study", "time_steps"],
}


@pytest.mark.parametrize(("module", "name"), [(m, name) for m, names in MOVED.items() for name in names])
def test_old_imports_work_and_say_where_the_name_is_now(module: str, name: str) -> None:
    with pytest.warns(DeprecationWarning, match=rf"{module}\.{name} is now cophenet\.\w+\.{name}"):
        assert callable(getattr(importlib.import_module(module), name))


def test_a_name_that_never_was_is_refused() -> None:
    with pytest.raises(AttributeError, match=r"module 'cophenet\.training' has no attribute 'trian'"):
        importlib.import_module("cophenet.training").trian  # noqa: B018


def test_the_function_cpcc_is_not_hidden_by_the_room_of_its_name() -> None:
    code = "import cophenet.cpcc.pearson, cophenet; print(cophenet.cpcc.__name__, callable(cophenet.cpcc))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["cpcc", "True"]
    assert cpcc.__module__ == "cophenet.cpcc.loss"
