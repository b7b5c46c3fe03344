"""What a page shows of `details.json`: the tree, and the path of each mistake."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cophenet.tree import Hierarchy

__all__ = ["details_tree", "mistake_paths"]


def details_tree(details: Mapping[str, Any]) -> Hierarchy:
    """The tree in `details.json`; its nodes have the numbers that are used there."""
    tree = details["tree"]
    return Hierarchy.from_parents(
        tree["parents"], tree["names"], classes=details["classes"], level_names=details["levels"]
    )


def mistake_paths(details: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The mistakes of `details.json` with names of classes, and the groups between them.

    Returns:
        Each as it is there, with "true" and "predicted" as names and, if it has none, an empty "file" and
        "image". "up" are the groups from its class up to, without, the lowest common ancestor, which is
        "meeting"; "down" those from there down to the predicted class; "way" is all of it with every name.
    """
    tree = details_tree(details)
    mistakes = []
    for mistake in details["worst_mistakes"]:
        true, predicted = (tree.path(int(tree.leaves[mistake[name]])) for name in ("true", "predicted"))
        shared = next(i for i, (a, b) in enumerate(zip(true, predicted, strict=False)) if a != b)
        up, down = true[shared:-1][::-1], predicted[shared:-1]
        meeting = true[shared - 1] if shared else tree.names[0]
        way = f"{' ↑ '.join((true[-1], *up))} ↑ {meeting} ↓ {' ↓ '.join((*down, predicted[-1]))}"
        named = {"true": true[-1], "predicted": predicted[-1]}
        route = {"up": up, "meeting": meeting, "down": down, "way": way}
        mistakes.append({"file": "", "image": "", **mistake, **named, **route})
    return mistakes
