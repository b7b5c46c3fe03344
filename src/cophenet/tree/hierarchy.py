"""The label tree class: constructors, reading and writing; its base classes hold queries and edits."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NoReturn

import numpy.typing as npt

from cophenet.tree.build import (
    parts_from_edges,
    parts_from_graph,
    parts_from_levels,
    parts_from_nested,
    parts_from_parents,
    parts_from_paths,
    to_graph,
)
from cophenet.tree.distances import ClassList, Distances
from cophenet.tree.draw import Drawing
from cophenet.tree.edit import Edits
from cophenet.tree.formats import read_tree, write_tree
from cophenet.tree.levels import Levels
from cophenet.tree.linkage import parts_from_features, parts_from_linkage
from cophenet.tree.parts import DEFAULT_ROOT, Parts
from cophenet.tree.review import review_tree
from cophenet.tree.split import Split, split_classes
from cophenet.tree.wordnet import Hypernyms, imagenet_parts, wordnet_parts


class Hierarchy(Edits, Levels, Distances, Drawing):
    """An immutable tree whose leaves are the classes, in label order.

    Made with ``from_paths``, ``from_levels``, ``from_nested``, ``from_edges``, ``from_parents``,
    ``from_networkx``, ``from_linkage``, ``imagenet``, ``wordnet``, ``infer`` or ``read``. Nodes are numbered
    depth first, siblings by the smallest label below them, so two trees are equal exactly when names, edges,
    weights, label order and level names are. A class that shares its last name with another is named by its
    path, such as ``garden/hardware``, so class names are unique; an inner node is identified by its path. All
    arrays are read-only.

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
            sep: Separator of the names in a string.
            root: Name of the root.
            level_names: Names of the levels from depth 1 down.

        Example:
            >>> Hierarchy.from_paths(["animal/cat", "animal/dog"], sep="/").classes
            ('cat', 'dog')
        """
        return cls(parts_from_paths(paths, sep=sep, root=root, level_names=level_names))

    @classmethod
    def from_levels(
        cls, frame: Any, columns: Sequence[str] | None = None, *, root: str = DEFAULT_ROOT
    ) -> Hierarchy:
        """Make a tree from a table whose columns are levels; column names become level names.

        Args:
            frame: Data frame of pandas or polars, or a dict of columns. Rows are classes or samples: equal
                rows are one class, and classes are in the order of their first rows. Empty cells at the end
                of a row (None, NaN or "") make a class of a higher level.
            columns: The levels from coarse to fine; None for all columns.
            root: Name of the root.

        Example:
            >>> frame = {"kind": ["animal", "animal", "vehicle"], "class": ["cat", "dog", "car"]}
            >>> tree = Hierarchy.from_levels(frame)
            >>> tree.classes, tree.level_names
            (('cat', 'dog', 'car'), ('kind', 'class'))
        """
        return cls(parts_from_levels(frame, columns, root=root))

    @classmethod
    def from_nested(
        cls,
        nested: Mapping[str, Any] | Sequence[Any],
        *,
        root: str = DEFAULT_ROOT,
        level_names: Sequence[str] | None = None,
    ) -> Hierarchy:
        """Make a tree from nested dicts and lists; the classes are in order of appearance.

        Args:
            nested: A dict maps a name to its subtree; None or an empty dict makes the name a class. A list
                holds classes, dicts (their names are children too) and lists (inner nodes that are named
                node1, node2, ...).
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
        """Make a tree from edges between named nodes; every name identifies one node.

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
    def from_networkx(cls, graph: Any, *, level_names: Sequence[str] | None = None) -> Hierarchy:
        """Make a tree from a networkx directed graph, edges from parents to children.

        Args:
            graph: A ``DiGraph``. Nodes are named by their attribute ``name``, or by the node itself; edge
                weights are the attribute ``weight``, or 1. The attribute ``label`` of the leaves, 0, 1, ...,
                defines the label order; without it, the order of the nodes does.
            level_names: Names of the levels from depth 1 down.

        Example:
            >>> import networkx
            >>> graph = networkx.DiGraph([("all", "animal"), ("animal", "cat"), ("animal", "dog")])
            >>> Hierarchy.from_networkx(graph).classes
            ('cat', 'dog')
        """
        return cls(parts_from_graph(graph, level_names=level_names))

    def to_networkx(self) -> Any:
        """The tree as a networkx directed graph, from which ``from_networkx`` makes an equal tree.

        Returns:
            A ``DiGraph`` of the node indices, edges from parents to children. Node attributes are ``name``,
            ``path`` (a tuple) and, for a class, ``label``; the edge attribute is ``weight``.

        Example:
            >>> graph = Hierarchy.from_paths([("animal", "cat"), ("animal", "dog")]).to_networkx()
            >>> graph.nodes[2]
            {'name': 'cat', 'path': ('animal', 'cat'), 'label': 0}
        """
        return to_graph(self)

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
            format: ``"json"``, ``"yaml"``, ``"csv"``, ``"tsv"``, ``"edges"`` or ``"newick"``; None to infer
                it from the extension (.json .yaml .yml .csv .tsv .edges .txt .newick .nwk .tree). Formats of
                other programs: ``"google"`` (product taxonomy), ``"parents"`` (id, parent id, name),
                ``"darwin-core"`` (kingdom to species), ``"codes"`` (groups by prefix) or ``"skos"``
                (.ttl .jsonld).
            header: Whether the first row of a csv or tsv file holds the level names, or is a class; None for
                files written by ``write``, which record it.

        Example:
            >>> import pathlib, tempfile
            >>> path = pathlib.Path(tempfile.mkdtemp()) / "tree.nwk"
            >>> _ = path.write_text("((cat,dog)animal,car);")
            >>> Hierarchy.read(path).classes
            ('cat', 'dog', 'car')
        """
        return read_tree(path, format, header, cls)

    @classmethod
    def imagenet(
        cls,
        classes: Sequence[str | int] | None = None,
        *,
        hypernyms: Hypernyms = "first",
        collapse: bool = False,
    ) -> Hierarchy:
        """The bundled tree of the ImageNet classes (ILSVRC 2012) and their hypernyms in WordNet 3.0.

        Args:
            classes: Wnids (``"n02123045"``), names (``"tabby"``) or numbers (281), in label order; None for
                all 1,000, in the usual order.
            hypernyms: The parent of a synset that has several: the ``"first"``, or the one with the
                ``"shortest"`` path to the root; ``"all"`` raises an error instead.
            collapse: Join chains of single children, as ``collapse`` does. Distances do not change.

        Example:
            >>> tree = Hierarchy.imagenet(["tabby", "n02124075", 207, "minivan"], collapse=True)
            >>> print(tree)
            entity
            └── physical entity :3
                ├── living thing :8
                │   ├── feline :3
                │   │   ├── tabby
                │   │   └── Egyptian cat
                │   └── golden retriever :6
                └── minivan :11
        """
        tree = cls(imagenet_parts(classes, hypernyms))
        return tree.collapse() if collapse else tree

    @classmethod
    def wordnet(
        cls,
        words: Iterable[str],
        folder: str | os.PathLike[str] = "/usr/share/wordnet",
        *,
        hypernyms: Hypernyms = "first",
        collapse: bool = False,
    ) -> Hierarchy:
        """The tree of some nouns in a local WordNet, such as Debian's package ``wordnet-base``.

        Args:
            words: In label order: words (their most common meaning), words with the number of a meaning
                (``"bank.n.02"``) or wnids (``"n02084071"``). None may be an ancestor of another. A class
                given as a word is named by it, all other nodes by the first word of their synset.
            folder: Folder with ``data.noun`` and ``index.noun``.
            hypernyms: As for ``imagenet``.
            collapse: As for ``imagenet``.
        """
        tree = cls(wordnet_parts(words, folder, hypernyms))
        return tree.collapse() if collapse else tree

    def write(self, path: str | os.PathLike[str], *, format: str | None = None) -> None:
        """Write the tree to a file, from which ``read`` makes an equal tree.

        The file is replaced atomically: a reader sees the old or the new one, never a part of it.

        Args:
            path: File to write, in UTF-8.
            format: As for ``read``; None to infer it from the extension.

        Example:
            >>> import pathlib, tempfile
            >>> from cophenet.tree import Hierarchy
            >>> path = pathlib.Path(tempfile.mkdtemp()) / "tree.txt"
            >>> tree = Hierarchy.from_paths([("animal", "cat"), ("animal", "sea lion")])
            >>> tree.write(path)
            >>> print(path.read_text())
            root animal
            animal cat
            animal "sea lion"
            >>> Hierarchy.read(path) == tree
            True
        """
        write_tree(self, path, format)

    def source_target_split(
        self,
        fraction: float = 0.4,
        *,
        level: int | str | None = None,
        source: ClassList | None = None,
        target: ClassList | None = None,
    ) -> Split:
        """Split the classes so that source and target share the coarse classes.

        Of the n children of a coarse class, sorted by name, the first ``int(fraction * n)`` go to the target
        and the others to the source, each with all classes below it. A coarse class that would be empty on
        one side is left out of both. Each half keeps the label order of this tree.

        Args:
            fraction: Share of the target, between 0 and 1.
            level: Level of the coarse classes, by depth or name; None for the parents of the classes.
            source: With ``target``, the source classes themselves (labels or names, in the new label order)
                instead of the rule.
            target: With ``source``, the target classes.

        Returns:
            Both trees and the maps from the labels of this tree to theirs.

        Example:
            >>> groups = {"animal": ["cat", "dog", "fox"], "vehicle": ["bus", "car", "van"]}
            >>> tree = Hierarchy.from_nested(groups)
            >>> split = tree.source_target_split(0.4)
            >>> split.source.classes, split.target.classes
            (('dog', 'fox', 'car', 'van'), ('cat', 'bus'))
            >>> split.target_labels
            array([ 0, -1, -1,  1, -1, -1])
        """
        return split_classes(self, fraction, level, source, target)

    def review(self) -> list[str]:
        """Report oddities of the tree, one sentence each: allowed, but often a mistake.

        Checks for missing groups, groups of a single child, very uneven depths, one group with most of the
        classes, classes that share their last name, and names that are nearly the same.

        Example:
            >>> tree = Hierarchy.from_nested({"pet": ["house cat", "dog"], "wild": ["House-cat", "fox"]})
            >>> for sentence in tree.review():
            ...     print(sentence)
            1 pair of classes has nearly the same name: 'house cat' and 'House-cat'.
        """
        return review_tree(self)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        """Raise AttributeError: a tree is immutable."""
        raise AttributeError(f"a Hierarchy is immutable; {name!r} cannot be set")

    def __delattr__(self, name: str) -> NoReturn:
        """Raise AttributeError: a tree is immutable."""
        raise AttributeError(f"a Hierarchy is immutable; {name!r} cannot be deleted")

    @cached_property
    def _identity(self) -> tuple[object, ...]:
        arrays = (self.parents, self.edge_weights, self.leaves)
        return (self.names, self.level_names, *(array.tobytes() for array in arrays))

    def __eq__(self, other: object) -> bool:
        """Whether names, edges, weights, label order and level names are the same."""
        return self._identity == other._identity if isinstance(other, Hierarchy) else NotImplemented

    def __hash__(self) -> int:
        """Hash consistent with ``==``."""
        return hash(self._identity)

    def __reduce__(self) -> tuple[type[Hierarchy], tuple[Parts]]:
        """Pickle and copy through `Parts`, so that the arrays of the copy are read-only too."""
        return type(self), (self._parts(),)

    def __repr__(self) -> str:
        """One line with the sizes."""
        return f"Hierarchy({self.num_classes} classes, {self.num_nodes} nodes, height {self.height})"

    def __str__(self) -> str:
        """The tree drawn in at most 40 lines."""
        return self.draw()
