"""Recipes, and training by them: every setting of an experiment as data, and the run folder it leaves.

What needs torch loads on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

try:
    from cophenet.training.recipe import Recipe, RecipeLine, list_recipes, load_recipe, recipe_names
    from cophenet.training.run import Run
    from cophenet.training.trees import shaped_tree
except ModuleNotFoundError as error:
    if error.name not in ("pydantic", "yaml"):
        raise
    raise ImportError(f"recipes are read with {error.name}: pip install 'cophenet[cli]'") from error

if TYPE_CHECKING:
    from cophenet.training.engine import resume, train
    from cophenet.training.experiment import Experiment, load_experiment, load_network

__all__ = [
    "Experiment",
    "Recipe",
    "RecipeLine",
    "Run",
    "list_recipes",
    "load_experiment",
    "load_network",
    "load_recipe",
    "recipe_names",
    "resume",
    "shaped_tree",
    "train",
]

_HOME = {
    "Experiment": "experiment",
    "load_experiment": "experiment",
    "load_network": "experiment",
    "resume": "engine",
    "train": "engine",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'cophenet.training' has no attribute {name!r}")
    return getattr(import_module(f"cophenet.training.{_HOME[name]}"), name)
