"""All settings of an experiment as data: the models of a recipe, reading and overriding, the YAML files."""

from __future__ import annotations

try:
    from cophenet.recipes.load import RecipeLine, list_recipes, load_recipe, recipe_names
    from cophenet.recipes.recipe import Recipe
    from cophenet.recipes.trees import shaped_tree
except ModuleNotFoundError as error:
    if error.name not in ("pydantic", "yaml"):
        raise
    raise ImportError(f"recipes are read with {error.name}: pip install 'cophenet[cli]'") from error

__all__ = ["Recipe", "RecipeLine", "list_recipes", "load_recipe", "recipe_names", "shaped_tree"]
