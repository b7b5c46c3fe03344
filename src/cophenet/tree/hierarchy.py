"""The label tree itself: its data, what is derived from them, and where its methods are found."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NoReturn

import numpy.typing as npt

from cophenet.tree import arrays, edit, levels, split, variants
from cophenet.tree import distances as class_distances
from cophenet.tree.build import parts_from_edges, parts_from_nested, parts_from_parents, parts_from_paths
from cophenet.tree.draw import draw
from cophenet.tree.formats import read_tree, write_tree
from cophenet.tree.linkage import parts_from_features, parts_from_linkage
from cophenet.tree.parts import DEFAULT_ROOT, FloatArray, IntArray, Parts, canonical


class Hierarchy:
    """An immutable tree whose leaves are the classes, in label order.

    Made with ``from_paths``, ``from_nested``, ``from_edges``, ``from_parents``, ``from_linkage``, ``infer``
    or ``read``. Nodes are numbered depth first, siblings by the smallest label below them, so two trees are
    equal exactly when names, edges, weights, label order and level names are. Class names are unique; an
    inner node is known by its path. All arrays are read-only.

    Attributes:
        names: Name of each node; the root is node 0.
        parents: Parent of each node, before its children, -1 for the root, shape (num_nodes,), int64.
        edge_weights: Weight of the edge above each node, 0 for the root, shape (num_nodes,), float64.
        leaves: Node of each class in label order, shape (num_classes,), int64.
        level_names: Names of the levels, from depth 1 down.

    Example:
        >>> tree = Hierarchy.from_paths([("animal", "cat"), ("animal", "dog"), ("vehicle", "car")])
        >>> tree
        Hierarchy(3 classes, 6 nodes, height 2)
        >>> print(tree)
        root
        ├── animal
        │   ├── cat
        │   └── dog
        └── vehicle
            └── car
    """

    names: tuple[str, ...]
    parents: IntArray
    edge_weights: FloatArray
    leaves: IntArray
    level_names: tuple[str, ...]

    def __init__(self, parts: Parts) -> None:
        """Check the parts and put them in order; users call the ``from_...`` methods instead."""
        vars(self).update(vars(canonical(parts)))

    @classmethod
    def from_paths(
        cls,
        paths: Iterable[Sequence[str] | str],
        *,
        sep: str | None = None,
        root: str = DEFAULT_ROOT,
        level_names: Sequence[str] | None = None,
    ) -> Hierarchy:
        """Make a tree from one path per class, in label order.

        Args:
            paths: Names from below the root down to the class; strings if ``sep`` is given.
            sep: What separates the names in a string.
            root: Name of the root.
            level_names: Names of the levels from depth 1 down.

        Example:
            >>> Hierarchy.from_paths(["animal/cat", "animal/dog"], sep="/").classes
            ('cat', 'dog')
        """
        return cls(parts_from_paths(paths, sep=sep, root=root, level_names=level_names))

    @classmethod
    def from_nested(
        cls,
        nested: Mapping[str, Any] | Sequence[Any],
        *,
        root: str = DEFAULT_ROOT,
        level_names: Sequence[str] | None = None,
    ) -> Hierarchy:
        """Make a tree from nested dicts and lists; the classes are in the order they are met.

        Args:
            nested: A dict maps a name to what lies below it, None or an empty dict for a class. A list holds
                classes, dicts (their names are children too) and lists (inner nodes that are called node1,
                node2, ...).
            root: Name of the root.
            level_names: Names of the levels from depth 1 down.

        Example:
            >>> Hierarchy.from_nested({"animal": ["cat", {"dog": ["poodle", "husky"]}], "car": None}).classes
            ('cat', 'poodle', 'husky', 'car')
        """
        return cls(parts_from_nested(nested, root=root, level_names=level_names))

    @classmethod
    def from_edges(
        cls,
        edges: Iterable[Sequence[Any]],
        classes: Sequence[str] | None = None,
        *,
        level_names: Sequence[str] | None = None,
    ) -> Hierarchy:
        """Make a tree from edges between named nodes; every name stands for one node.

        Args:
            edges: ``(parent, child)`` or ``(parent, child, weight)``, in any order.
            classes: All leaves in label order; None for the order in which they appear as children.
            level_names: Names of the levels from depth 1 down.

        Example:
            >>> tree = Hierarchy.from_edges([("all", "cat", 2.0), ("all", "dog")], classes=["dog", "cat"])
            >>> tree.classes, tree.condensed()
            (('dog', 'cat'), array([3.]))
        """
        return cls(parts_from_edges(edges, classes, level_names=level_names))

    @classmethod
    def from_parents(
        cls,
        parents: Sequence[int] | npt.NDArray[Any],
        names: Sequence[str] | None = None,
        weights: Sequence[float] | npt.NDArray[Any] | None = None,
        classes: Sequence[str] | None = None,
        *,
        level_names: Sequence[str] | None = None,
    ) -> Hierarchy:
        """Make a tree from the parent of each node, nodes in any order.

        Args:
            parents: Parent of each node, -1 for the root, shape (num_nodes,).
            names: Name of each node; None for the node numbers.
            weights: Weight of the edge above each node, 0 for the root, shape (num_nodes,); None for all
                ones.
            classes: All leaves by name in label order; None for the order of the nodes.
            level_names: Names of the levels from depth 1 down.

        Example:
            >>> Hierarchy.from_parents([-1, 0, 0, 1, 1]).classes
            ('2', '3', '4')
        """
        return cls(parts_from_parents(parents, names, weights, classes, level_names=level_names))

    @classmethod
    def from_linkage(cls, linkage: npt.ArrayLike, names: Sequence[str] | None = None) -> Hierarchy:
        """Make a tree from a linkage matrix; path distances are the cophenetic distances.

        Merges of equal height become one node with several children. If all heights are 0 the tree is a star
        with unit weights.

        Args:
            linkage: Matrix as of ``scipy.cluster.hierarchy.linkage``, shape (num_classes - 1, 4).
            names: Class names in label order; None for ``"0"``, ``"1"``, ...

        Example:
            >>> Hierarchy.from_linkage([[0, 1, 1.0, 2], [2, 3, 4.0, 3]]).condensed()
            array([1., 4., 4.])
        """
        return cls(parts_from_linkage(linkage, names))

    @classmethod
    def infer(
        cls, features: Any, labels: Any, *, method: str = "average", names: Sequence[str] | None = None
    ) -> Hierarchy:
        """Make a tree by hierarchical clustering of the class means.

        Args:
            features: Array or tensor of shape (N, d).
            labels: Integers or strings, shape (N,); the classes are the sorted labels.
            method: Linkage of Euclidean distances: single, complete, average, weighted or ward.
            names: Class names in the order of the sorted labels; None for the labels themselves.

        Example:
            >>> print(Hierarchy.infer([[0.0], [1.0], [9.0]], ["cat", "dog", "car"]))
            root
            ├── car :4.25
            └── node1 :3.75
                ├── cat :0.5
                └── dog :0.5
        """
        return cls(parts_from_features(features, labels, method=method, names=names))

    @classmethod
    def read(
        cls, path: str | os.PathLike[str], *, format: str | None = None, header: bool | None = None
    ) -> Hierarchy:
        """Read a tree from a file.

        Args:
            path: File in UTF-8.
            format: ``"json"``, ``"yaml"``, ``"csv"``, ``"tsv"``, ``"edges"`` or ``"newick"``; None to go by
                the extension (.json .yaml .yml .csv .tsv .edges .txt .newick .nwk .tree).
            header: Whether the first row of a csv or tsv file holds the level names, or is a class; files
                written by ``write`` say so themselves.

        Example:
            >>> import pathlib, tempfile
            >>> path = pathlib.Path(tempfile.mkdtemp()) / "tree.nwk"
            >>> _ = path.write_text("((cat,dog)animal,car);")
            >>> Hierarchy.read(path).classes
            ('cat', 'dog', 'car')
        """
        return read_tree(path, format, header, cls)

    write = write_tree

    @property
    def num_nodes(self) -> int:
        """Number of nodes, the root included."""
        return len(self.parents)

    @property
    def num_classes(self) -> int:
        """Number of classes."""
        return len(self.leaves)

    @property
    def num_levels(self) -> int:
        """Number of levels below the root, equal to the height."""
        return len(self.level_names)

    @property
    def height(self) -> int:
        """Largest depth of a class, in edges."""
        return len(self.level_names)

    classes = cached_property(arrays.classes)
    depths = cached_property(arrays.depths)
    weighted_depths = cached_property(arrays.weighted_depths)
    heights = cached_property(arrays.heights)
    sizes = cached_property(arrays.sizes)
    _labels = cached_property(arrays.labels)
    _first_leaf = cached_property(arrays.first_leaf)
    _leaf_gaps = cached_property(arrays.leaf_gaps)
    _gap_minima = cached_property(arrays.gap_minima)

    def index(self, name: str) -> int:
        """Label of a class.

        Example:
            >>> Hierarchy.from_paths([("animal", "cat"), ("animal", "dog")]).index("dog")
            1
        """
        try:
            return self._labels[name]
        except (KeyError, TypeError):
            raise ValueError(f"unknown class {name!r}; the tree has {list(self.classes[:3])!r}...") from None

    path = levels.path
    node = levels.node
    nodes_at = levels.nodes_at
    ancestors = levels.ancestors
    cut = levels.cut
    insert_level = variants.insert_level
    merge_level = variants.merge_level
    distances = class_distances.distances
    condensed = class_distances.condensed
    pair_distances = class_distances.pair_distances
    subset = edit.subset
    reorder = edit.reorder
    collapse = edit.collapse
    with_weights = edit.with_weights
    with_level_weights = edit.with_level_weights
    with_level_names = edit.with_level_names
    source_target_split = split.source_target_split
    draw = draw

    def __setattr__(self, name: str, value: object) -> NoReturn:
        """Refuse: a tree never changes."""
        raise AttributeError(f"a Hierarchy is immutable; {name!r} cannot be set")

    def __delattr__(self, name: str) -> NoReturn:
        """Refuse: a tree never changes."""
        raise AttributeError(f"a Hierarchy is immutable; {name!r} cannot be deleted")

    @cached_property
    def _identity(self) -> tuple[object, ...]:
        arrays = (self.parents, self.edge_weights, self.leaves)
        return (self.names, self.level_names, *(array.tobytes() for array in arrays))

    def __eq__(self, other: object) -> bool:
        """Whether names, edges, weights, label order and level names are the same."""
        return self._identity == other._identity if isinstance(other, Hierarchy) else NotImplemented

    def __hash__(self) -> int:
        """Hash of what makes trees equal."""
        return hash(self._identity)

    def __reduce__(self) -> tuple[type[Hierarchy], tuple[Parts]]:
        """Pickle and copy by the parts, so that the arrays of the copy are read-only too."""
        return type(self), (edit.parts_of(self),)

    def __repr__(self) -> str:
        """One line with the sizes."""
        return f"Hierarchy({self.num_classes} classes, {self.num_nodes} nodes, height {self.height})"

    def __str__(self) -> str:
        """The tree drawn in at most 40 lines."""
        return self.draw()
