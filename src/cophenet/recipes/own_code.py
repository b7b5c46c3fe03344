"""User code that a recipe names: neither part of the library nor of another installed package."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from cophenet._common.trust import refused_code

if TYPE_CHECKING:
    from cophenet.recipes.recipe import Recipe

__all__ = ["added_member", "check_trust", "own_code"]


def check_trust(recipe: Recipe, *, network: bool = True) -> None:
    """Raise if a recipe from somebody else's folder names user code.

    Args:
        recipe: The recipe.
        network: Whether its backbone will be created too.

    Raises:
        TrustError: If the recipe is not trusted and names user code.
    """
    if recipe.untrusted is not None:
        code = own_code(recipe) if network else added_member(recipe)
        if code is not None:
            raise refused_code(recipe.untrusted, code)


def own_code(recipe: Recipe) -> str | None:
    """Name the part of a recipe that is user code; None if there is none.

    Example:
        >>> from cophenet.recipes import load_recipe
        >>> own_code(load_recipe("digits", overrides=["model={backbone: 'my_net:Net'}"]))
        "backbone 'my_net:Net'"
    """
    from cophenet.models.other_packages import code_named

    return code_named(recipe.model.backbone, recipe.model.options) or added_member(recipe)


def added_member(recipe: Recipe) -> str | None:
    """The first data set, backbone, objective or distance of a recipe that the running program registered.

    All texts in options are checked, because an option may name a member, such as the distance of CPCC.

    Example:
        >>> from cophenet.recipes import load_recipe
        >>> added_member(load_recipe("digits"))
    """
    from cophenet.data.registry import SOURCES
    from cophenet.models.registry import BACKBONES
    from cophenet.objectives.registry import OBJECTIVES
    from cophenet.transport.base import DISTANCES

    objective = recipe.objective
    named = [recipe.data.name, recipe.data.options, recipe.model.backbone, objective.name, objective.options]
    texts = set(_texts(named))
    for registry in (SOURCES, BACKBONES, OBJECTIVES, DISTANCES):
        for name in registry.added():
            if name in texts:
                return f"{registry.kind} {name!r}, which this program has registered"
    return None


def _texts(values: object) -> Iterator[str]:
    """Yield all texts in nested lists and mappings."""
    if isinstance(values, str):
        yield values
    elif isinstance(values, Mapping):
        yield from _texts([*values, *values.values()])
    elif isinstance(values, list | tuple):
        for value in values:
            yield from _texts(value)
