"""Deprecated: recipes are in `cophenet.recipes`, runs in `cophenet.runs`."""

from __future__ import annotations

from cophenet._common.lazy import moved_names

_RECIPES = ("Recipe", "RecipeLine", "list_recipes", "load_recipe", "recipe_names", "shaped_tree")
_RUNS = ("Experiment", "Run", "load_experiment", "load_network", "resume", "train")

__getattr__ = moved_names(__name__, {"cophenet.recipes": _RECIPES, "cophenet.runs": _RUNS})
