"""Whether what is asked for can be made: the items on the recipes, with the settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from cophenet.paper.items import Item
from cophenet.paper.plan import Settings, recipes_of
from cophenet.paper.variants import Arm
from cophenet.recipes import load_recipe
from cophenet.recipes.load import parse_override

__all__ = ["check_settings", "possible_items"]


def possible_items(
    items: Sequence[Item], settings: Settings, tell: Callable[[str], None]
) -> tuple[Item, ...]:
    """Items without those that make sense on other recipes only, which is told.

    Raises:
        ValueError: If none is left.

    Example:
        >>> from cophenet.paper.items import find_items
        >>> items = possible_items(find_items(("rank", "tree-depth")), Settings("laptop", ("digits",)), print)
        tree-depth: only on cifar100
        >>> [item.name for item in items]
        ['rank']
    """
    left = tuple(item for item in items if not item.fixed or recipes_of(item, settings))
    lines = [f"{item.name}: only on {', '.join(item.recipes)}" for item in items if item not in left]
    if not left:
        raise ValueError(f"{'; '.join(lines)}: leave out --recipe")
    for line in lines:
        tell(line)
    return left


def check_settings(items: Iterable[Item], settings: Settings) -> None:
    """Refuse what is wrong in the settings by itself, or is what an item varies.

    Args:
        items: What is to be reproduced.
        settings: How.

    Raises:
        FileNotFoundError: If a recipe is no file.
        ValueError: If a recipe or setting is wrong, or an item would say one value of it and have another.

    Example:
        >>> from cophenet.paper.items import find_items
        >>> check_settings(find_items(("batch-size",)), Settings("laptop", overrides=("epochs=6",)))
        >>> check_settings(find_items(("batch-size",)), Settings("laptop", overrides=("batch_size=256",)))
        Traceback (most recent call last):
        ValueError: --set batch_size=256: batch-size varies batch_size itself, leave out one of the two
    """
    used = {item: recipes_of(item, settings) for item in items}
    for recipe in dict.fromkeys((*settings.recipes, *(name for names in used.values() for name in names))):
        load_recipe(recipe, settings.scale, settings.overrides)
    given = {text: parse_override(text)[0] for text in settings.overrides}
    for text, keys in given.items():
        if keys == ("seeds",):
            raise ValueError(f"--set {text}: give --seeds instead")
        for item, recipes in used.items():
            varied = {key for name in recipes for key in _varied(item.arms(name, settings.scale))}
            for key in sorted(varied):
                # Also a whole group of settings in which something is varied, or something in such a group.
                if key[: len(keys)] == keys[: len(key)]:
                    raise ValueError(
                        f"--set {text}: {item.name} varies {'.'.join(key)} itself, leave out one of the two"
                    )


def _varied(arms: Iterable[Arm]) -> set[tuple[str, ...]]:
    """Keys of the settings in which arms differ, whose values rows are named after."""
    found = [dict(parse_override(text) for text in arm.overrides) for arm in arms]
    keys = {key for settings in found for key in settings}
    different = {key for key in keys if len({repr(settings.get(key)) for settings in found}) > 1}
    return {("objective", "name"), *different} if found else set()
