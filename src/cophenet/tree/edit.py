"""New trees from old ones: other classes, other order, other weights, no chains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from cophenet.tree.distances import ClassList, to_labels
from cophenet.tree.levels import depth_of
from cophenet.tree.names import tell_apart
from cophenet.tree.parts import Parts, check_positive

if TYPE_CHECKING:
    from cophenet.tree.hierarchy import Hierarchy


def subset(tree: Hierarchy, classes: ClassList) -> Hierarchy:
    """The tree of some of the classes, in the order given; inner nodes without classes are left out.

    Args:
        tree: This tree.
        classes: Labels or names of the classes to keep, each once.

    Returns:
        A tree in which these classes have the labels 0, 1, ...

    Example:
        >>> from cophenet.tree import Hierarchy
        >>> tree = Hierarchy.from_paths([("animal", "cat"), ("animal", "dog"), ("vehicle", "car")])
        >>> tree.subset(["dog", "cat"]).names
        ('root', 'animal', 'dog', 'cat')
    """
    labels = to_labels(tree, classes)
    if len(labels) == 0:
        raise ValueError("classes is empty: a tree needs at least one class")
    present, counts = np.unique(labels, return_counts=True)
    if (counts > 1).any():
        raise ValueError(f"classes names {tree.classes[present[np.argmax(counts > 1)]]!r} more than once")
    chosen = np.zeros(tree.num_nodes + 1, dtype=np.int64)
    chosen[tree.leaves[labels] + 1] = 1
    before = np.cumsum(chosen)
    kept = before[np.arange(tree.num_nodes) + tree.sizes] > before[:-1]
    keep = np.flatnonzero(kept)
    place = np.cumsum(kept) - 1
    parts = Parts(
        parents=[-1, *place[tree.parents[keep[1:]]].tolist()],
        names=[tree.names[node] for node in keep],
        weights=tree.edge_weights[keep].tolist(),
        classes=[tree.classes[label] for label in labels],
        level_names=tree.level_names[: tree.depths[keep].max()],
    )
    return type(tree)(parts)


def reorder(tree: Hierarchy, classes: ClassList) -> Hierarchy:
    """The same tree with its classes in another order.

    Args:
        tree: This tree.
        classes: All classes, by old label or by name, in their new label order.

    Returns:
        A tree with the same nodes and edges.

    Example:
        >>> from cophenet.tree import Hierarchy
        >>> Hierarchy.from_paths([("animal", "cat"), ("animal", "dog")]).reorder(["dog", "cat"]).classes
        ('dog', 'cat')
    """
    labels = to_labels(tree, classes)
    if not np.array_equal(np.sort(labels), np.arange(tree.num_classes)):
        given = f"got {len(labels)} classes, {len(np.unique(labels))} of them different"
        raise ValueError(f"classes must hold each of the {tree.num_classes} classes once: {given}")
    names = [tree.classes[label] for label in labels]
    return type(tree)(replace(parts_of(tree), classes=names))


def collapse(tree: Hierarchy) -> Hierarchy:
    """The tree without chains: an inner node with a single child is joined with that child.

    Edge weights add up, so distances between classes do not change. The joined node has the name of the
    upper node, or that of the class where the chain ends in one; an inner node that already has the name of
    a class that moves up beside it gets a number, as in ``cat (2)``. The root stays. Depths change unevenly,
    so the levels of a tree that had chains get the default names.

    Returns:
        A tree with the same classes and the same distances.

    Example:
        >>> from cophenet.tree import Hierarchy
        >>> tree = Hierarchy.from_nested({"animal": {"pet": ["cat", "dog"]}, "vehicle": ["car"]})
        >>> print(tree.collapse())
        root
        ├── animal :2
        │   ├── cat
        │   └── dog
        └── car :2
    """
    single = np.bincount(tree.parents[1:], minlength=tree.num_nodes) == 1
    single[0] = False
    if not single.any():
        return tree
    parents, names, weights = tree.parents.tolist(), list(tree.names), tree.edge_weights.tolist()
    for node in np.flatnonzero(single[tree.parents] & (np.arange(tree.num_nodes) > 0)).tolist():
        upper = parents[node]
        parents[node] = parents[upper]
        weights[node] += weights[upper]
        if tree.heights[node] > 0:
            names[node] = names[upper]
    keep = np.flatnonzero(~single).tolist()
    place = np.cumsum(~single) - 1
    above = [-1, *(int(place[parents[node]]) for node in keep[1:])]
    parts = Parts(
        parents=above,
        names=tell_apart(above, [names[node] for node in keep], set(above)),
        weights=[weights[node] for node in keep],
        classes=tree.classes,
    )
    return type(tree)(parts)


def with_weights(tree: Hierarchy, node: int | str | Sequence[str], factor: float) -> Hierarchy:
    """The tree with all edges below a node scaled; the edge above the node keeps its weight.

    Args:
        tree: This tree.
        node: Node, as for :meth:`node`.
        factor: Positive number that multiplies the weights.

    Returns:
        A tree with the same nodes.

    Example:
        >>> from cophenet.tree import Hierarchy
        >>> tree = Hierarchy.from_paths([("animal", "cat"), ("animal", "dog"), ("vehicle", "car")])
        >>> tree.with_weights("animal", 2.0).condensed()
        array([4., 5., 5.])
    """
    top = tree.node(node)
    check_positive("factor", factor)
    if tree.heights[top] == 0:
        raise ValueError(f"node {node!r} is a class and has no edges below it")
    weights = tree.edge_weights.copy()
    weights[top + 1 : top + tree.sizes[top]] *= factor
    return type(tree)(replace(parts_of(tree), weights=weights.tolist()))


def with_level_weights(tree: Hierarchy, weights: Mapping[int, float] | Mapping[str, float]) -> Hierarchy:
    """The tree with all edges above the nodes of a level set to one weight.

    A root-coarse-fine tree has distances 2 inside a coarse class and 4 across; with weight 2 for the edges
    below the root they are 2 and 6, a ratio of 1:3.

    Args:
        tree: This tree.
        weights: Weight per level, by depth or by name; the edges of levels not given keep theirs.

    Returns:
        A tree with the same nodes.

    Example:
        >>> from cophenet.tree import Hierarchy
        >>> tree = Hierarchy.from_paths([("animal", "cat"), ("animal", "dog"), ("vehicle", "car")])
        >>> tree.with_level_weights({1: 2.0}).condensed()
        array([2., 6., 6.])
    """
    if not isinstance(weights, Mapping):
        raise ValueError(f"weights must map levels to weights, as {{1: 2.0}} does, got {weights!r}")
    result = tree.edge_weights.copy()
    for level, weight in weights.items():
        check_positive(f"weights: the weight of level {level!r}", weight)
        result[tree.depths == depth_of(tree, level)] = weight
    return type(tree)(replace(parts_of(tree), weights=result.tolist()))


def with_level_names(tree: Hierarchy, level_names: Sequence[str] | None) -> Hierarchy:
    """The tree with other names for its levels.

    Args:
        tree: This tree.
        level_names: One name per level from depth 1 down; None for the default names.

    Returns:
        A tree with the same nodes.

    Example:
        >>> from cophenet.tree import Hierarchy
        >>> tree = Hierarchy.from_paths([("animal", "cat")]).with_level_names(["coarse", "fine"])
        >>> tree.ancestors("coarse")
        array([1])
    """
    return type(tree)(replace(parts_of(tree), level_names=level_names))


def parts_of(tree: Hierarchy) -> Parts:
    """The parts of a tree, to make another one from."""
    return Parts(
        tree.parents.tolist(), tree.names, tree.edge_weights.tolist(), tree.classes, tree.level_names
    )
