"""Recipes: every setting of an experiment as data, checked before anything is computed."""

from cophenet.training.recipe import Recipe, RecipeLine, list_recipes, load_recipe, recipe_names
from cophenet.training.trees import shaped_tree

__all__ = ["Recipe", "RecipeLine", "list_recipes", "load_recipe", "recipe_names", "shaped_tree"]
