"""What a page shows of `details.json`: accuracy at every node of the tree, and the path of each mistake."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cophenet.tree import Hierarchy

__all__ = ["Mistake", "Node", "details_tree", "mistake_paths", "node_list"]

_MOST_OPEN = 80


@dataclass(frozen=True)
class Node:
    """A node of the tree in a nested list.

    Attributes:
        name: Its name.
        accuracy: Share of the samples below it that were predicted below it; None without samples.
        samples: How many samples are below it.
        classes: How many classes are below it; 1 for a class itself.
        leaf: Whether it is a class.
        open: Whether what is below it is shown at first.
        closes: How many lists end after it.
    """

    name: str
    accuracy: float | None
    samples: int
    classes: int
    leaf: bool
    open: bool
    closes: int


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
    """

    index: int
    true: str
    predicted: str
    up: tuple[str, ...]
    meeting: str
    down: tuple[str, ...]
    distance: float
    probability: float


def details_tree(details: Mapping[str, Any]) -> Hierarchy:
    """The tree in `details.json`; its nodes have the numbers that are used there."""
    tree = details["tree"]
    return Hierarchy.from_parents(
        tree["parents"], tree["names"], classes=details["classes"], level_names=details["levels"]
    )


def node_list(details: Mapping[str, Any]) -> Iterator[Node]:
    """All nodes, depth first; a large tree is shown down to the first level."""
    tree = details_tree(details)
    depths = [*tree.depths.tolist(), 0]
    rates = details["node_accuracy"]
    classes = [0] * tree.num_nodes
    for node in range(tree.num_nodes - 1, -1, -1):
        classes[node] += tree.heights[node] == 0
        if node:
            classes[int(tree.parents[node])] += classes[node]
    for node in range(tree.num_nodes):
        rate = rates[str(node)]
        yield Node(
            name=tree.names[node],
            accuracy=rate["accuracy"],
            samples=rate["samples"],
            classes=int(classes[node]),
            leaf=bool(tree.heights[node] == 0),
            open=tree.num_nodes <= _MOST_OPEN or node == 0,
            closes=max(0, depths[node] - depths[node + 1]),
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
            )
        )
    return mistakes
