"""Imports that the first edition offered or its documentation showed."""

import importlib
import json
from pathlib import Path

import pytest

from cophenet.tree import Hierarchy

# All that the packages of the first edition listed in their `__all__`.
NAMES = json.loads(Path(__file__).with_name("first_edition").joinpath("public_names.json").read_text())
MOVED = {"cophenet.training", "cophenet.reproduce", "cophenet.analysis"}
RENAMED = {
    "cophenet.objectives.create": "create_objective",
    "cophenet.objectives.register": "register_objective",
    "cophenet.evaluation.describe": "metric_info",
    "cophenet.analysis.mean_metric": "mean_over_seeds",
    "cophenet.analysis.metric_average": "mean_of_level_metrics",
}


@pytest.mark.parametrize("module", sorted(NAMES))
def test_every_public_name_of_the_first_edition_is_where_it_was(module: str) -> None:
    package = importlib.import_module(module)
    for name in NAMES[module]:
        new_name = RENAMED.get(f"{module}.{name}", name)
        if module not in MOVED and new_name == name:
            assert getattr(package, name) is not None
            continue
        with pytest.warns(DeprecationWarning, match=rf"{module}\.{name} is now cophenet\.\w+\.{new_name}$"):
            assert getattr(package, name) is not None


@pytest.mark.parametrize("module", sorted(MOVED))
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_all_names_of_a_moved_package_at_once(module: str) -> None:
    names: dict[str, object] = {}
    exec(f"from {module} import *", names)
    assert {*NAMES[module]} <= {*names}


@pytest.mark.parametrize(
    ("name", "new_name"), [("mean_metric", "mean_over_seeds"), ("metric_average", "mean_of_level_metrics")]
)
def test_means_of_runs_keep_their_former_names_with_a_warning(name: str, new_name: str) -> None:
    from cophenet import paper

    with pytest.warns(
        DeprecationWarning, match=rf"cophenet\.paper\.{name} is now cophenet\.paper\.{new_name}$"
    ):
        assert getattr(paper, name) is getattr(paper, new_name)


def test_pictures_are_where_the_documentation_had_them() -> None:
    from cophenet.report.matrices import tree_order

    tree = Hierarchy.from_paths([("pet", "cat"), ("car", "van"), ("pet", "dog")])
    with pytest.warns(DeprecationWarning, match=r"tree_order is now cophenet\.tree\.Hierarchy\.class_order"):
        assert tree_order(tree).tolist() == tree.class_order.tolist()


def test_a_name_that_never_was_is_refused() -> None:
    with pytest.raises(AttributeError, match=r"module 'cophenet\.training' has no attribute 'trian'"):
        importlib.import_module("cophenet.training").trian  # noqa: B018
