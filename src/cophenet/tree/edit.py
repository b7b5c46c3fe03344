"""Methods that derive new trees: subsets, other names, orders and weights, collapsed chains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cophenet.tree.distances import ClassList, to_labels
from cophenet.tree.levels import Levels
from cophenet.tree.names import tell_apart
from cophenet.tree.parts import Parts, check_name, check_positive

if TYPE_CHECKING:
    from typing_extensions import Self


class Edits(Levels):
    """Methods that return a modified copy of a tree."""

    def subset(self, classes: ClassList) -> Self:
        """The tree of some of the classes, in the order given; inner nodes without classes are left out.

        Args:
            classes: Labels or names of the classes to keep, each once.

        Returns:
            A tree in which these classes have the labels 0, 1, ...

        Example:
            >>> from cophenet.tree import Hierarchy
            >>> tree = Hierarchy.from_paths([("animal", "cat"), ("animal", "dog"), ("vehicle", "car")])
            >>> tree.subset(["dog", "cat"]).names
            ('root', 'animal', 'dog', 'cat')
        """
        labels = to_labels(self, classes)
        if len(labels) == 0:
            raise ValueError("classes is empty: a tree needs at least one class")
        present, counts = np.unique(labels, return_counts=True)
        if (counts > 1).any():
            raise ValueError(f"classes names {self.classes[present[np.argmax(counts > 1)]]!r} more than once")
        chosen = np.zeros(self.num_nodes + 1, dtype=np.int64)
        chosen[self.leaves[labels] + 1] = 1
        before = np.cumsum(chosen)
        chosen_below = before[np.arange(self.num_nodes) + self.sizes] > before[:-1]
        keep = np.flatnonzero(chosen_below)
        place = np.cumsum(chosen_below) - 1
        parts = Parts(
            parents=[-1, *place[self.parents[keep[1:]]].tolist()],
            names=[self.names[node] for node in keep],
            weights=self.edge_weights[keep].tolist(),
            classes=[self.classes[label] for label in labels],
            level_names=self.level_names[: self.depths[keep].max()],
        )
        return type(self)(parts)

    def rename(self, names: Mapping[Any, str]) -> Self:
        """The same tree with other names, such as display names, for some of its nodes.

        A class that is named by its path (see `docs/trees.md`) is renamed with the nodes above it. Two
        classes that get the same name are named by their paths.

        Args:
            names: New name of each node to rename; the node as for :meth:`node`, by name, path or index.

        Returns:
            A tree with the same nodes, edges and label order.

        Example:
            >>> from cophenet.tree import Hierarchy
            >>> tree = Hierarchy.from_paths([("n1", "n2"), ("n1", "n3")])
            >>> tree.rename({"n1": "animal", "n2": "cat", "n3": "dog"}).names
            ('root', 'animal', 'cat', 'dog')
        """
        if not isinstance(names, Mapping):
            raise ValueError(f"names must map nodes to their new names, got {names!r}")
        given: dict[int, str] = {}
        for where, name in names.items():
            if (node := self.node(where)) in given:
                raise ValueError(f"names gives {'/'.join(self.path(node))!r} two names")
            check_name(name)
            given[node] = name
        parents, called, last = self.parents.tolist(), list(self.names), self.last_names
        moved = [False] * self.num_nodes
        for node, above in enumerate(parents):
            moved[node] = node in given or (node > 0 and moved[above])
            if node in given:
                called[node] = given[node]
            elif moved[node] and last[node] != self.names[node]:
                called[node] = "/".join([*(called[up] for up in self._above(node)), last[node]])
        # Leaves last and in label order, since the position of a leaf determines its label.
        order = [*np.flatnonzero(self.heights > 0).tolist(), *self.leaves.tolist()]
        place = {node: new for new, node in enumerate(order)} | {-1: -1}
        parts = Parts(
            parents=[place[parents[node]] for node in order],
            names=[called[node] for node in order],
            weights=self.edge_weights[order].tolist(),
            level_names=self.level_names,
        )
        return type(self)(parts)

    def _above(self, node: int) -> list[int]:
        """The nodes between the root and a node, from the top."""
        result = []
        while (node := int(self.parents[node])) > 0:
            result.append(node)
        return result[::-1]

    def reorder(self, classes: ClassList) -> Self:
        """The same tree with its classes in another order.

        Args:
            classes: All classes, by old label or by name, in their new label order.

        Returns:
            A tree with the same nodes and edges.

        Example:
            >>> from cophenet.tree import Hierarchy
            >>> Hierarchy.from_paths([("animal", "cat"), ("animal", "dog")]).reorder(["dog", "cat"]).classes
            ('dog', 'cat')
        """
        labels = to_labels(self, classes)
        if not np.array_equal(np.sort(labels), np.arange(self.num_classes)):
            given = f"got {len(labels)} classes, {len(np.unique(labels))} of them different"
            raise ValueError(f"classes must hold each of the {self.num_classes} classes once: {given}")
        names = [self.classes[label] for label in labels]
        return type(self)(replace(self._parts(), classes=names))

    def collapse(self) -> Self:
        """The tree without chains: an inner node with a single child is joined with that child.

        Edge weights add up, so distances between classes do not change. The joined node has the name of the
        upper node, or of the class if the chain ends in one; an inner node that already has the name
        of a class that moves up beside it gets a number, as in ``cat (2)``. The root stays. Depths change
        unevenly, so the levels of a tree that had chains get the default names.

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
        single = np.bincount(self.parents[1:], minlength=self.num_nodes) == 1
        single[0] = False
        if not single.any():
            return self
        parents, names, weights = self.parents.tolist(), list(self.names), self.edge_weights.tolist()
        for node in np.flatnonzero(single[self.parents] & (np.arange(self.num_nodes) > 0)).tolist():
            upper = parents[node]
            parents[node] = parents[upper]
            weights[node] += weights[upper]
            if self.heights[node] > 0:
                names[node] = names[upper]
        keep = np.flatnonzero(~single).tolist()
        place = np.cumsum(~single) - 1
        above = [-1, *(int(place[parents[node]]) for node in keep[1:])]
        parts = Parts(
            parents=above,
            names=tell_apart(above, [names[node] for node in keep], set(above)),
            weights=[weights[node] for node in keep],
            classes=self.classes,
        )
        return type(self)(parts)

    def with_weights(self, node: int | str | Sequence[str], factor: float) -> Self:
        """The tree with all edges below a node scaled; the edge above the node keeps its weight.

        Args:
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
        top = self.node(node)
        check_positive("factor", factor)
        if self.heights[top] == 0:
            raise ValueError(f"node {node!r} is a class and has no edges below it")
        weights = self.edge_weights.copy()
        weights[top + 1 : top + self.sizes[top]] *= factor
        return type(self)(replace(self._parts(), weights=weights.tolist()))

    def with_level_weights(self, weights: Mapping[int, float] | Mapping[str, float]) -> Self:
        """The tree with all edges above the nodes of a level set to one weight.

        A root-coarse-fine tree has distances 2 inside a coarse class and 4 across; with weight 2 for the
        edges below the root they are 2 and 6, a ratio of 1:3.

        Args:
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
        result = self.edge_weights.copy()
        for level, weight in weights.items():
            check_positive(f"weights: the weight of level {level!r}", weight)
            result[self.depths == self.depth_of(level)] = weight
        return type(self)(replace(self._parts(), weights=result.tolist()))

    def with_level_names(self, level_names: Sequence[str] | None) -> Self:
        """The tree with other names for its levels.

        Args:
            level_names: One name per level from depth 1 down; None for the default names.

        Returns:
            A tree with the same nodes.

        Example:
            >>> from cophenet.tree import Hierarchy
            >>> tree = Hierarchy.from_paths([("animal", "cat")]).with_level_names(["coarse", "fine"])
            >>> tree.ancestors("coarse")
            array([1])
        """
        return type(self)(replace(self._parts(), level_names=level_names))
