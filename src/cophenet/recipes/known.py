"""What is known of a data set before its files are read, and what in a recipe cannot go with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cophenet._common.checks import check_choice
from cophenet.recipes.trees import shaped_tree

if TYPE_CHECKING:
    from cophenet.data.registry import DataSource
    from cophenet.recipes.recipe import Recipe
    from cophenet.tree import Hierarchy

__all__ = ["check_combinations", "check_domain", "known_tree", "shares_classes"]


def known_tree(source: DataSource) -> Hierarchy | None:
    """The tree of all classes; None where it is in files.

    Example:
        >>> from cophenet.data.registry import create_source
        >>> known_tree(create_source("cifar100", depth=4)).level_names
        ('coarse', 'mid', 'fine')
        >>> known_tree(create_source("folder")) is None
        True
    """
    from cophenet.data.breeds import Breeds
    from cophenet.data.cifar import Cifar100
    from cophenet.data.cifar_names import cifar10_tree
    from cophenet.data.digits import digits_tree
    from cophenet.data.fashion_mnist import fashion_mnist_tree
    from cophenet.data.synthetic import Synthetic

    if isinstance(source, (Breeds, Cifar100)):
        return source.tree
    if isinstance(source, Synthetic):
        return source.regular_tree if source.tree_file is None else None
    trees = {"cifar10": cifar10_tree, "digits": digits_tree, "fashion-mnist": fashion_mnist_tree}
    return trees[source.name]() if source.name in trees else None


def shares_classes(source: DataSource) -> bool:
    """Whether source and target have the same classes, so that there are no new ones to transfer to."""
    from cophenet.data.breeds import Breeds

    return isinstance(source, Breeds)


def check_domain(source: DataSource, domain: str) -> None:
    """Refuse a domain that the data cannot have."""
    from cophenet.data.synthetic import Synthetic
    from cophenet.data.vectors import Vectors

    if domain != "full" and isinstance(source, Synthetic) and source.tree_file is None:
        try:
            source.regular_tree.source_target_split(0.4)
        except ValueError as error:
            raise ValueError(f"data.domain must be full, got {domain!r}: {error}") from error
    if domain != "full" and isinstance(source, Vectors) and source.tree_file is None:
        raise ValueError(
            f"data.domain must be full for data {source.name!r} without data.options.tree_file, "
            f"because nothing else says how classes are split, got {domain!r}"
        )


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
    if recipe.one_shot is not None and (recipe.data.domain == "full" or shares_classes(source)):
        has = "data.domain 'full' has none"
        if shares_classes(source):
            has = f"source and target of data {source.name!r} have the same classes"
        raise ValueError(f"one_shot needs target classes, {has}: set one_shot to null")
    tree = known_tree(source)
    if tree is None:
        return
    tree = shaped_tree(tree, recipe.tree)
    name = recipe.objective.name
    level = recipe.objective.options.get(name, {}).get("level")
    if isinstance(level, str):
        check_choice(f"objective.options.{name}.level", level, tree.level_names)
    recipe.create_objective(tree)
