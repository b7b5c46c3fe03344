"""Settings of a recipe that cannot go together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cophenet._common.checks import check_choice
from cophenet.recipes.trees import shaped_tree

if TYPE_CHECKING:
    from cophenet.recipes.load import Recipe

__all__ = ["check_combinations"]


def check_combinations(recipe: Recipe) -> None:
    """Refuse what does not fit together; and, where the tree is known, what does not fit it."""
    sampler = recipe.data.sampler
    if sampler is not None and sampler.batch_size != recipe.batch_size:
        raise ValueError(
            f"batch_size must be {sampler.batch_size} with data.sampler, its classes_per_batch "
            f"{sampler.classes_per_batch} x samples_per_class {sampler.samples_per_class}, "
            f"got {recipe.batch_size}"
        )
    source = recipe.data.create_source()
    if recipe.one_shot is not None and (recipe.data.domain == "full" or source.shares_classes):
        has = "data.domain 'full' has none"
        if source.shares_classes:
            has = f"source and target of data {source.name!r} have the same classes"
        raise ValueError(f"one_shot needs target classes, {has}: set one_shot to null")
    tree = source.tree()
    if tree is None:
        return
    tree = shaped_tree(tree, recipe.tree)
    name = recipe.objective.name
    level = recipe.objective.options.get(name, {}).get("level")
    if isinstance(level, str):
        check_choice(f"objective.options.{name}.level", level, tree.level_names)
    recipe.create_objective(tree)
