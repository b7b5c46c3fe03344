"""The raw parts of a tree, and the one place where they are checked and put in canonical order."""

from __future__ import annotations

import numbers
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from cophenet._common.checks import is_plain_text
from cophenet._common.limits import NODES
from cophenet.tree.names import AmbiguousNameError, Lookup, class_names, last_names

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

DEFAULT_ROOT = "root"


@dataclass(frozen=True)
class Parts:
    """An unchecked tree, its nodes in any order.

    Attributes:
        parents: Parent of each node, -1 for the root.
        names: Name of each node.
        weights: Weight of the edge above each node (0 for the root); None for all ones.
        classes: Leaves in label order, each by its name, last name or path; None for the order of the nodes.
        level_names: Names of depths 1, 2, ...; None for the default names.
        lines: Line of the file each node came from, for messages.
    """

    parents: Sequence[int]
    names: Sequence[str]
    weights: Sequence[float] | None = None
    classes: Sequence[str | Sequence[str]] | None = None
    level_names: Sequence[str] | None = None
    lines: Sequence[int] | None = None


def raise_error(message: str, lines: Sequence[int] | None = None, item: int = 0) -> NoReturn:
    """Raise a ValueError, prefixed with the line number of ``item`` if lines are known."""
    raise ValueError(message if lines is None else f"line {lines[item]}: {message}")


def read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Make an array read-only."""
    array.setflags(write=False)
    return array


def default_level_names(height: int) -> tuple[str, ...]:
    """Default names of the levels of a tree."""
    return tuple(f"level{depth}" for depth in range(1, height + 1))


def check_name(name: object, lines: Sequence[int] | None = None, item: int = 0) -> None:
    """Raise ValueError unless this can name a node or level: every format must be able to store it."""
    if not isinstance(name, str) or not name or not is_plain_text(name):
        wanted = "a non-empty string of valid Unicode without control characters"
        raise_error(f"a name must be {wanted}, got {name!r:.200}", lines, item)


def too_many_nodes(most: int) -> ValueError:
    """Return the error for a tree with too many nodes."""
    return ValueError(f"the tree has more than {most:,} nodes {NODES.note}")


def is_number(value: object) -> bool:
    """Whether this is a real number, of Python or numpy; neither a bool nor a string is one."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def check_positive(argument: str, value: float) -> None:
    """Raise ValueError unless this can be an edge weight or a factor of one."""
    if not (is_number(value) and 0 < value <= sys.float_info.max):
        raise ValueError(f"{argument} must be positive and finite, got {value!r}")


def canonical(parts: Parts) -> dict[str, Any]:
    """Check the parts of a tree and put them in canonical order; return the attributes of `Nodes` by name.

    The order depends only on the tree and its label order, so equal trees have equal arrays. As it is depth
    first, every subtree is a contiguous range of nodes, and the leaves below a node are contiguous too.
    """
    size = len(parts.parents)
    if size > NODES.value:
        raise too_many_nodes(NODES.value)
    if list(parts.parents) in ([], [-1]):
        raise ValueError("the tree is empty: it needs a root and at least one class below it")
    if len(parts.names) != size:
        raise ValueError(f"names must have one entry per node: got {len(parts.names)} for {size} nodes")
    for node, name in enumerate(parts.names):
        check_name(name, parts.lines, node)
    children: list[list[int]] = [[] for _ in range(size)]
    root = _find_root(parts)
    for node, parent in enumerate(parts.parents):
        if node != root:
            children[parent].append(node)
    topological = _depth_first(root, children)
    if len(topological) < size:
        _raise_cycle_error(parts, set(topological))
    weights = _checked_weights(parts, root)
    _check_paths(parts, children)
    leaves = [node for node, group in enumerate(children) if not group]
    names = class_names(parts.parents, parts.names, leaves)
    leaves = _in_label_order(parts, names, leaves)
    _sort_siblings(parts.parents, children, topological, leaves)
    order = _depth_first(root, children)
    place = np.empty(size, dtype=np.int64)
    place[order] = np.arange(size)
    parents = np.array(parts.parents, dtype=np.int64)[order]
    parents[1:] = place[parents[1:]]
    return {
        "names": tuple(str(names[node]) for node in order),
        "parents": read_only(parents),
        "edge_weights": read_only(weights[order]),
        "leaves": read_only(place[leaves]),
        "level_names": _checked_level_names(parts.level_names, int(edge_depths(parents).max())),
    }


def _find_root(parts: Parts) -> int:
    roots = [node for node, parent in enumerate(parts.parents) if parent == -1]
    if not roots:
        _raise_cycle_error(parts, set())
    if len(roots) > 1:
        named = ", ".join(repr(parts.names[node]) for node in roots[:3])
        raise_error(f"the tree has {len(roots)} roots ({named}); it must have one", parts.lines, roots[1])
    return roots[0]


def _depth_first(root: int, children: Sequence[Sequence[int]]) -> list[int]:
    order: list[int] = []
    stack = [root]
    while stack:
        node = stack.pop()
        order.append(node)
        stack.extend(reversed(children[node]))
    return order


def _raise_cycle_error(parts: Parts, reached: set[int]) -> NoReturn:
    node = next(node for node in range(len(parts.parents)) if node not in reached)
    seen: dict[int, int] = {}
    while node not in seen:
        seen[node] = len(seen)
        node = parts.parents[node]
    cycle = [repr(parts.names[member]) for member, place in seen.items() if place >= seen[node]][::-1]
    shown = [*cycle, cycle[0]] if len(cycle) <= 5 else [*cycle[:5], "..."]
    raise_error(f"the tree has a cycle: {' -> '.join(shown)}", parts.lines, node)


def _checked_weights(parts: Parts, root: int) -> FloatArray:
    size = len(parts.parents)
    if parts.weights is None:
        weights = np.ones(size)
        weights[root] = 0.0
        return weights
    if len(parts.weights) != size:
        raise ValueError(f"weights must have one entry per node: got {len(parts.weights)} for {size} nodes")
    for node, weight in enumerate(parts.weights):
        if not is_number(weight):
            message = f"weights must be numbers: the edge above {parts.names[node]!r} has weight {weight!r}"
            raise_error(message, parts.lines, node)
    try:
        weights = np.array(parts.weights, dtype=np.float64)
    except OverflowError:
        raise ValueError(f"edge weights must be finite, the largest is {max(parts.weights)}") from None
    good = np.isfinite(weights) & (weights > 0)
    good[root] = weights[root] == 0
    if not good.all():
        node = int(np.argmin(good))
        if node == root:
            raise_error(f"the weight of the root must be 0, got {float(weights[node])}", parts.lines, node)
        message = f"edge weights must be positive and finite: the edge above {parts.names[node]!r} has weight"
        raise_error(f"{message} {float(weights[node])}", parts.lines, node)
    if float(weights.max()) * 2 * size == np.inf:
        raise ValueError(
            f"edge weights must not overflow when added up, the largest is {float(weights.max())}"
        )
    return weights


def _check_paths(parts: Parts, children: Sequence[Sequence[int]]) -> None:
    for parent, group in enumerate(children):
        if len({parts.names[child] for child in group}) == len(group):
            continue
        seen: set[str] = set()
        for child in group:
            name = parts.names[child]
            if name in seen:
                where = f"{parts.names[parent]!r} has two children called {name!r}"
                raise_error(f"duplicate name: {where}", parts.lines, child)
            seen.add(name)


def _in_label_order(parts: Parts, names: Sequence[str], leaves: list[int]) -> list[int]:
    if parts.classes is None:
        return leaves
    if isinstance(parts.classes, str):
        raise ValueError(f"classes must be a list of names, got the string {parts.classes!r}")
    by_name = {names[leaf]: leaf for leaf in leaves}
    lookup: Lookup | None = None
    result = []
    for given in parts.classes:
        for name in given if isinstance(given, (list, tuple)) else [given]:
            check_name(name)
        leaf = by_name.get(given) if isinstance(given, str) else None
        if leaf is None:
            lookup = lookup or Lookup(parts.parents, names, last_names(parts.parents, names, leaves))
            leaf = _leaf(lookup, names, given, by_name)
        result.append(leaf)
    counts = Counter(result)
    for leaf, count in counts.items():
        if count > 1:
            raise ValueError(f"classes names {names[leaf]!r} {count} times")
    if len(counts) < len(leaves):
        missing = [names[leaf] for leaf in leaves if leaf not in counts]
        raise ValueError(f"classes leaves out {len(missing)} leaves of the tree: {missing[:3]!r}")
    return result


def _leaf(
    lookup: Lookup, names: Sequence[str], given: str | Sequence[str], by_name: Mapping[str, int]
) -> int:
    """Find a leaf by its last name or path."""
    found = lookup.find(given, lambda node: by_name.get(names[node]) == node)
    if len(found) == 1:
        return found[0]
    if found:
        raise AmbiguousNameError(
            given, (names[leaf] for leaf in found), len(found), "classes: class", "classes"
        )
    problem = "is an inner node of the tree, not a leaf" if lookup.find(given) else "is not in the tree"
    raise ValueError(f"classes: class {given!r} {problem}")


def _sort_siblings(
    parents: Sequence[int], children: list[list[int]], topological: Sequence[int], leaves: Sequence[int]
) -> None:
    """Sort each list of children by the smallest label in their subtrees."""
    first = [len(leaves)] * len(parents)
    for label, node in enumerate(leaves):
        first[node] = label
    for node in reversed(topological[1:]):
        first[parents[node]] = min(first[parents[node]], first[node])
    for group in children:
        group.sort(key=first.__getitem__)


def edge_depths(parents: IntArray) -> IntArray:
    """Number of edges between the root and each node. Shapes: (num_nodes,) -> (num_nodes,)."""
    result = [0] * len(parents)
    for node, parent in enumerate(parents[1:].tolist(), start=1):
        result[node] = result[parent] + 1
    return np.array(result, dtype=np.int64)


def _checked_level_names(level_names: Sequence[str] | None, height: int) -> tuple[str, ...]:
    if level_names is None:
        return default_level_names(height)
    if isinstance(level_names, str):
        raise ValueError(f"level_names must be a list of names, got the string {level_names!r}")
    for name in level_names:
        check_name(name)
    names = tuple(str(name) for name in level_names)
    if len(set(names)) != len(names):
        raise ValueError(f"level_names must differ from each other, got {names!r}")
    if len(names) != height:
        raise ValueError(f"level_names must name {height} levels (depth 1 to {height}), got {names!r}")
    return names
