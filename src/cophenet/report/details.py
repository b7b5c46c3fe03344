"""What a page shows of `details.json`: the tree, and the path of each mistake."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cophenet.tree import Hierarchy

__all__ = ["Mistake", "details_tree", "mistake_paths"]


@dataclass(frozen=True)
class Mistake:
    """A sample whose predicted class is wrong.

    Attributes:
        index: Its place in the test set.
        true: Name of its class.
        predicted: Name of the predicted class.
        up: Groups from its class up to, without, the lowest common ancestor.
        meeting: Name of the lowest common ancestor.
        down: Groups from there down to the predicted class.
        distance: Tree distance of the two classes.
        probability: Of the predicted class.
        file: Name of its file; empty if it has none.
        image: A small PNG of it as base64; empty if it is no image.
    """

    index: int
    true: str
    predicted: str
    up: tuple[str, ...]
    meeting: str
    down: tuple[str, ...]
    distance: float
    probability: float
    file: str = ""
    image: str = ""

    @property
    def way(self) -> str:
        """The whole way from the true class to the predicted one, with all names."""
        up, down = " ↑ ".join((self.true, *self.up)), " ↓ ".join((*self.down, self.predicted))
        return f"{up} ↑ {self.meeting} ↓ {down}"


def details_tree(details: Mapping[str, Any]) -> Hierarchy:
    """The tree in `details.json`; its nodes have the numbers that are used there."""
    tree = details["tree"]
    return Hierarchy.from_parents(
        tree["parents"], tree["names"], classes=details["classes"], level_names=details["levels"]
    )


def mistake_paths(details: Mapping[str, Any]) -> list[Mistake]:
    """The mistakes of `details.json`, with the groups between the two classes."""
    tree = details_tree(details)
    mistakes = []
    for mistake in details["worst_mistakes"]:
        true, predicted = (tree.path(int(tree.leaves[mistake[name]])) for name in ("true", "predicted"))
        shared = next(i for i, (a, b) in enumerate(zip(true, predicted, strict=False)) if a != b)
        mistakes.append(
            Mistake(
                index=mistake["index"],
                true=true[-1],
                predicted=predicted[-1],
                up=true[shared:-1][::-1],
                meeting=true[shared - 1] if shared else tree.names[0],
                down=predicted[shared:-1],
                distance=mistake["tree_distance"],
                probability=mistake["probability"],
                file=mistake.get("file", ""),
                image=mistake.get("image", ""),
            )
        )
    return mistakes
