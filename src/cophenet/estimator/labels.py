"""Convert labels as given by users to classes and inner nodes, with the tree of these classes."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from cophenet.estimator.samples import to_host
from cophenet.tree import AmbiguousNameError, Hierarchy
from cophenet.vectors.formats import is_whole

__all__ = [
    "Labels",
    "class_positions",
    "classes_below",
    "encode",
    "find_known",
    "find_nodes",
    "label_text",
    "node_ancestors",
    "node_labels",
    "nodes_by_name",
    "to_tree",
]

Array = NDArray[Any]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Labels:
    """Encoded labels.

    Attributes:
        classes: (C,) the classes as given by the user, ascending.
        targets: (n,) index of the class; or C + index in `inner` if the label is an inner node.
        inner: (m,) inner nodes of the tree that occur as labels.
        tree: The tree of the classes, in their order; None if it is yet to be inferred.
    """

    classes: Array
    targets: Ints
    inner: Ints
    tree: Hierarchy | None


def to_tree(given: Any) -> Hierarchy:
    """A tree from a Hierarchy, nested dict, paths or the name of a file.

    Paths are sequences of names, or strings with ``/`` between the names.

    Example:
        >>> to_tree(["animal/cat", "animal/dog", "car"]).classes
        ('cat', 'dog', 'car')
    """
    if isinstance(given, Hierarchy):
        return given
    if isinstance(given, Mapping):
        return Hierarchy.from_nested(given)
    if isinstance(given, (str, os.PathLike)):
        return Hierarchy.read(given)
    if not isinstance(given, Sequence):
        kinds = "a Hierarchy, a nested dict, a list of paths, the name of a tree file or None"
        raise ValueError(f"tree must be {kinds}, got {type(given).__name__}")
    return Hierarchy.from_paths([path.split("/") if isinstance(path, str) else path for path in given])


def encode(labels: Array, tree: Hierarchy | None, kind: str) -> Labels:
    """Find every label in the tree, and restrict the tree to the classes that are, or lie below, labels.

    Args:
        labels: (n,) as given by the user.
        tree: The tree; None if the labels are the classes of a tree to be inferred.
        kind: "names" of nodes, or "positions" in the classes of the tree.

    Raises:
        ValueError: If labels are not class labels, are all of one class, or are not in the tree.
    """
    check_classification_targets(labels)
    present, inverse = np.unique(labels, return_inverse=True)
    if tree is None:
        if kind == "positions":
            raise ValueError("labels='positions' counts the classes of a tree: give tree")
        encoded = Labels(present, inverse.astype(np.int64), np.zeros(0, np.int64), None)
    else:
        encoded = _in_tree(present, inverse, tree, kind, labels.dtype)
    if len(encoded.classes) < 2:
        raise ValueError(f"y must hold at least two classes, got one class: {encoded.classes.tolist()[0]!r}")
    if len(labels) < len(encoded.classes):
        raise ValueError(f"n_samples={len(labels)} should be >= n_classes={len(encoded.classes)}.")
    return encoded


def _in_tree(present: Array, inverse: Ints, tree: Hierarchy, kind: str, dtype: np.dtype[Any]) -> Labels:
    nodes, missing = find_nodes(present, tree, kind)
    if missing:
        if kind != "positions":
            for label in missing:
                _refuse_ambiguous(label_text(label), tree)
        countable = kind != "positions" and dtype.kind in "iu"
        hint = "; labels='positions' if numbers count the classes of the tree" if countable else ""
        raise ValueError(f"y contains labels that are not in the tree: {missing[:5]!r}{hint}")
    reached = np.flatnonzero(classes_below(tree, nodes).any(0))
    classes = _class_labels(reached, tree, kind, dtype)
    order = np.argsort(classes, kind="stable")
    classes, reached = classes[order], reached[order]
    subtree = tree.subset(reached)
    # In the subtree nodes keep their paths, but have other numbers.
    renumbered = np.array([subtree.node(tree.path(int(node))) for node in nodes], dtype=np.int64)
    position = class_positions(subtree)
    inner = np.unique(renumbered[position[renumbered] < 0])
    position[inner] = subtree.num_classes + np.arange(len(inner))
    return Labels(classes, position[renumbered][inverse], inner, subtree)


def _refuse_ambiguous(name: str, tree: Hierarchy) -> None:
    """Raise if a label is the name of several nodes."""
    try:
        tree.node(name)
    except AmbiguousNameError as error:
        raise ValueError(f"y: {error}") from None
    except ValueError:
        return


def _class_labels(reached: Ints, tree: Hierarchy, kind: str, dtype: np.dtype[Any]) -> Array:
    """The classes in the type of the labels: numbers if all of them are numbers, else names."""
    if kind == "positions":
        return reached.astype(dtype if dtype.kind in "iuf" else np.int64)
    names = [tree.classes[label] for label in reached]
    if dtype.kind in "iuf" and all(is_whole(name) for name in names):
        return np.array([int(name) for name in names]).astype(dtype)
    return np.array(names, dtype=object if dtype.kind == "O" else None)


def find_nodes(labels: Array, tree: Hierarchy, kind: str) -> tuple[Ints, list[Any]]:
    """The node of each label that is in the tree, and the labels that are not.

    A label is looked up as the name of a class, then as a name that only one node has, then as a path with
    ``/`` between the names. A path that ends with ``/`` refers to an inner node.

    Example:
        >>> tree = Hierarchy.from_paths(["animal/cat", "animal/dog"], sep="/")
        >>> find_nodes(np.array(["dog", "animal", "cow"]), tree, "names")
        (array([3, 1]), ['cow'])
    """
    given = labels.tolist()
    if kind == "positions":
        places = (label for label in given if not isinstance(label, str) and label == int(label))
        nodes = {label: int(tree.leaves[int(label)]) for label in places if 0 <= label < tree.num_classes}
    else:
        known = nodes_by_name(tree)
        texts = {label: label_text(label) for label in given}
        nodes = {label: known[text] for label, text in texts.items() if text in known}
    present = [nodes[label] for label in given if label in nodes]
    return np.array(present, dtype=np.int64), [label for label in given if label not in nodes]


def label_text(label: Any) -> str:
    """The name that a label refers to: for whole floats, 7.0 as for 7, that of the integer.

    Example:
        >>> label_text(7.0), label_text("7.0")
        ('7', '7.0')
    """
    whole = isinstance(label, (float, np.floating)) and float(label).is_integer()
    return str(int(label)) if whole else str(label)


def nodes_by_name(tree: Hierarchy) -> dict[str, int]:
    """Map names and paths to nodes, as in `find_nodes`; names of several inner nodes are left out."""
    counts = Counter(tree.names)
    paths = {"/".join(tree.path(node)): node for node in range(1, tree.num_nodes)}
    names = {name: node for node, name in enumerate(tree.names) if counts[name] == 1}
    inner = {f"{path}/": node for path, node in paths.items() if tree.heights[node]}
    classes = dict(zip(tree.classes, tree.leaves.tolist(), strict=True))
    return {"/": 0, **inner, **paths, **names, **classes}


def node_labels(tree: Hierarchy, classes: Array) -> Array:
    """The label of each node in predictions: (num_nodes,).

    Classes have the labels given by the user. An inner node has its name, its path if the name is ambiguous,
    or its path with ``/`` at the end if the path is ambiguous too. Used as a label, it refers to the same
    node.

    Example:
        >>> tree = Hierarchy.from_paths(["animal/cat", "animal/dog"], sep="/")
        >>> node_labels(tree, np.array([0, 1])).tolist()
        ['root', 'animal', 0, 1]
    """
    known = nodes_by_name(tree)
    texts = np.empty(tree.num_nodes, dtype=object)
    for node, name in enumerate(tree.names):
        path = "/".join(tree.path(node))
        texts[node] = next((text for text in (name, path) if known.get(text) == node), f"{path}/")
    for node, label in zip(tree.leaves, classes.tolist(), strict=True):
        texts[node] = label
    return texts


def class_positions(tree: Hierarchy) -> Ints:
    """The class index of each node, -1 for inner nodes: (num_nodes,)."""
    position = np.full(tree.num_nodes, -1, dtype=np.int64)
    position[tree.leaves] = np.arange(tree.num_classes)
    return position


def classes_below(tree: Hierarchy, nodes: Ints) -> NDArray[np.bool_]:
    """Whether each class is, or lies below, each node. (m,) -> (m, C).

    Example:
        >>> tree = Hierarchy.from_paths(["animal/cat", "animal/dog", "car"], sep="/")
        >>> classes_below(tree, np.array([tree.node("animal"), tree.node("car")]))
        array([[ True,  True, False],
               [False, False,  True]])
    """
    start = nodes[:, None]
    return (tree.leaves >= start) & (tree.leaves < start + tree.sizes[start])


def node_ancestors(tree: Hierarchy, level: int | str) -> Ints:
    """The ancestor of each node at a level; a node above the level is its own ancestor: (num_nodes,).

    Example:
        >>> tree = Hierarchy.from_paths(["animal/cat", "animal/dog"], sep="/")
        >>> node_ancestors(tree, 1)
        array([0, 1, 1, 1])
    """
    depth = tree.depth_of(level)
    at = np.arange(tree.num_nodes)
    # In depth-first order, the ancestor at a depth is the last node of that depth seen so far.
    latest = np.maximum.accumulate(np.where(tree.depths == depth, at, 0))
    return np.where(tree.depths < depth, at, latest)


def find_known(labels: Any, classes: Array, tree: Hierarchy, count: int, kind: str = "names") -> Ints:
    """The node of each label: a class as given by the user, or an inner node by name or path.

    Args:
        labels: (count,) as given by the user.
        classes: (C,) the classes as given by the user, in the order of the tree.
        tree: The tree of the classes.
        count: Expected number of labels.
        kind: "names" if numbers that are not classes may be names of nodes; "positions" if such numbers are
            errors.

    Raises:
        ValueError: If there are no labels, their number is wrong, or training did not see one of them.

    Example:
        >>> tree = Hierarchy.from_paths(["animal/cat", "animal/dog"], sep="/")
        >>> find_known([1, 0], np.array([0, 1]), tree, 2)
        array([3, 2])
    """
    if labels is None:
        raise ValueError("y must be labels, got None")
    array = column_or_1d(to_host(labels))
    if len(array) != count:
        raise ValueError(f"Found input variables with inconsistent numbers of samples: {[count, len(array)]}")
    try:
        present, inverse = np.unique(array, return_inverse=True)
    except TypeError as error:
        raise ValueError(f"y must hold names or numbers, not both and nothing else: {error}") from error
    known: dict[Any, int] = dict(zip(classes.tolist(), tree.leaves.tolist(), strict=True))
    others = [label for label in present.tolist() if label not in known]
    if kind == "positions":
        others = [label for label in others if isinstance(label, str)]
    if others:
        named = nodes_by_name(tree)
        known.update({label: named[label_text(label)] for label in others if label_text(label) in named})
    missing = [label for label in present.tolist() if label not in known]
    if missing:
        raise ValueError(f"y contains previously unseen labels: {missing[:5]!r}")
    return np.array([known[label] for label in present.tolist()], dtype=np.int64)[inverse]
