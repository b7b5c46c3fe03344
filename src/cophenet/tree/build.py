"""Convert user input (paths, nested containers, edges, parents, graphs) to the `Parts` of a tree."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cophenet._common.limits import NODES
from cophenet._common.packages import import_optional
from cophenet.tree.names import fresh_names
from cophenet.tree.parts import DEFAULT_ROOT, Parts, check_name, is_number, raise_error, too_many_nodes

if TYPE_CHECKING:
    from cophenet.tree.hierarchy import Hierarchy


def parts_from_paths(
    paths: Iterable[Sequence[str] | str],
    *,
    sep: str | None = None,
    root: str = DEFAULT_ROOT,
    level_names: Sequence[str] | None = None,
    weights: Sequence[Sequence[float]] | None = None,
    lines: Sequence[int] | None = None,
    groups: bool = False,
) -> Parts:
    """Build a tree from one path per class; with ``groups``, inner nodes may have paths of their own too.

    ``weights`` has one weight per step of each path.
    """
    parents, names, edge_weights, origin = [-1], [root], [0.0], [0]
    known: dict[tuple[int, str], int] = {}
    ends: list[int] = []
    most = NODES.value
    for row, given in enumerate(paths):
        path = _split_path(given, sep, lines, row)
        node = 0
        for step, name in enumerate(path):
            weight = 1.0 if weights is None else weights[row][step]
            child = known.setdefault((node, name), len(names))
            if child == len(names):
                parents.append(node)
                names.append(name)
                edge_weights.append(weight)
                origin.append(row)
                if child >= most:  # checked early: a short text can define many nodes
                    raise too_many_nodes(most)
            elif edge_weights[child] != weight:
                raise_error(
                    f"the edge above {name!r} has two weights: {edge_weights[child]} and {weight}", lines, row
                )
            node = child
        ends.append(node)
    _check_ends(ends, set() if groups else set(parents), names, lines)
    node_lines = None if lines is None else [(lines or [1])[row] for row in origin]
    return Parts(parents, names, edge_weights, level_names=level_names, lines=node_lines)


def parts_from_levels(frame: Any, columns: Sequence[str] | None = None, *, root: str = DEFAULT_ROOT) -> Parts:
    """Build a tree from the level columns of a table with one row per class or sample."""
    if not isinstance(frame, Mapping) and not hasattr(frame, "columns"):
        raise ValueError(f"frame must have columns, as those of pandas and polars have, got {type(frame)}")
    known = list(frame if isinstance(frame, Mapping) else frame.columns)
    names = known if columns is None else list(columns)
    for column in names:
        if column not in known:
            raise ValueError(f"columns: {column!r} is not a column of frame, which has {known!r:.200}")
    if not names:
        raise ValueError("columns is empty: a tree needs at least one level")
    rows = zip(*(frame[column] for column in names), strict=True)
    paths = list(dict.fromkeys(_levels_path(row, names) for row in rows))
    deepest = max(map(len, paths), default=0)
    return parts_from_paths(paths, root=root, level_names=names[:deepest])


def _levels_path(row: tuple[Any, ...], columns: Sequence[str]) -> tuple[str, ...]:
    """Return the names of a row up to its first empty cell; raise ValueError if a name follows one."""
    path: list[str] = []
    for place, value in enumerate(row):
        if _is_missing(value):
            continue
        if not isinstance(value, str):
            raise ValueError(
                f"frame: names must be text, column {columns[place]!r} has {value!r} ({type(value).__name__})"
            )
        if len(path) < place:
            raise ValueError(f"frame: an empty cell inside a path: {row!r}")
        path.append(value)
    if not path:
        raise ValueError("frame: a row has no names in the columns of levels")
    return tuple(path)


def _is_missing(value: Any) -> bool:
    """Return whether a cell is None, an empty string or a missing-value marker of numpy or pandas."""
    if isinstance(value, str):
        return value == ""
    # pandas.NA cannot be compared with itself: both == and != give NA.
    return value is None or type(value).__name__ == "NAType" or bool(value != value)


def _split_path(
    path: Sequence[str] | str, sep: str | None, lines: Sequence[int] | None, row: int
) -> Sequence[str]:
    if isinstance(path, str):
        if sep is None:
            raise_error(
                f"paths must be sequences of names, got the string {path!r}; give sep= to split it",
                lines,
                row,
            )
        path = path.split(sep)
    elif sep is not None:
        raise_error(f"paths must be strings when sep is given, got {path!r}", lines, row)
    if not isinstance(path, (Sequence, np.ndarray)):
        raise_error(f"paths must be sequences of names, got {path!r}", lines, row)
    if len(path) == 0:
        raise_error("paths must not be empty: each class needs at least its own name", lines, row)
    for name in path:
        check_name(name, lines, row)
    return path


def _check_ends(
    ends: Sequence[int], inner: Container[int], names: Sequence[str], lines: Sequence[int] | None
) -> None:
    seen: set[int] = set()
    for row, node in enumerate(ends):
        if node in inner:
            raise_error(
                f"class {names[node]!r} is also an inner node: other paths go on below it", lines, row
            )
        if node in seen:
            raise_error(f"duplicate class name: {names[node]!r} has the same path twice", lines, row)
        seen.add(node)


def parts_from_nested(
    nested: Mapping[str, Any] | Sequence[Any],
    *,
    root: str = DEFAULT_ROOT,
    level_names: Sequence[str] | None = None,
) -> Parts:
    """Walk nested dicts and lists without recursion; lists in lists become inner nodes named later."""
    parents, names = [-1], [root]
    unnamed: list[int] = []
    stack: list[tuple[int, int, Iterator[tuple[str | None, Any]]]] = [(0, id(nested), _entries(nested, root))]
    open_ids = {id(nested)}
    most = NODES.value
    while stack:
        parent, identity, entries = stack[-1]
        entry = next(entries, None)
        if entry is None:
            stack.pop()
            open_ids.discard(identity)
            continue
        name, below = entry
        node = parent
        if name is not None or isinstance(below, (list, tuple)):
            node = len(names)
            parents.append(parent)
            names.append(name or "")
            if node >= most:
                raise too_many_nodes(most)
            if name is None:
                unnamed.append(node)
        if below is None:
            continue
        if id(below) in open_ids:
            raise ValueError(f"nested has a cycle: the container below {names[node]!r} contains itself")
        open_ids.add(id(below))
        stack.append((node, id(below), _entries(below, names[node])))
    for node, fresh in zip(unnamed, fresh_names(names, len(unnamed)), strict=True):
        names[node] = fresh
    return Parts(parents, names, level_names=level_names)


def _entries(container: Any, owner: str) -> Iterator[tuple[str | None, Any]]:
    """Yield (name, subtree) pairs of one container; a dict inside a list has no node of its own."""
    if isinstance(container, Mapping):
        for name, below in container.items():
            empty_mapping = isinstance(below, Mapping) and not below
            if below is not None and not isinstance(below, (Mapping, list, tuple)):
                raise ValueError(
                    f"nested: below {name!r} a dict, a list or None (a class) is allowed, got {below!r}"
                )
            check_name(name)
            yield name, None if empty_mapping else below
    elif isinstance(container, (list, tuple)):
        if not container:
            raise ValueError(f"nested: the group {owner!r} is empty")
        for member in container:
            if isinstance(member, (Mapping, list, tuple)):
                if not member:
                    raise ValueError(f"nested: a group in the list below {owner!r} is empty")
                yield None, member
            else:
                check_name(member)
                yield member, None
    else:
        raise ValueError(f"nested must be a dict or a list, got {container!r}")


def parts_from_edges(
    edges: Iterable[Sequence[Any]],
    classes: Sequence[str] | None = None,
    *,
    level_names: Sequence[str] | None = None,
    lines: Sequence[int] | None = None,
) -> Parts:
    """Build a tree from (parent, child[, weight]) edges; nodes are identified by name."""
    number: dict[str, int] = {}
    parents: list[int] = []
    weights: list[float] = []
    rows: list[int] = []
    for row, edge in enumerate(edges):
        if isinstance(edge, str) or not isinstance(edge, (Sequence, np.ndarray)) or len(edge) not in (2, 3):
            raise_error(
                f"an edge must be (parent, child) or (parent, child, weight), got {edge!r}", lines, row
            )
        for name in edge[:2]:
            check_name(name, lines, row)
            if number.setdefault(name, len(parents)) == len(parents):
                parents.append(-1)
                weights.append(0.0)
                rows.append(row)
        above, below = number[edge[0]], number[edge[1]]
        if parents[below] != -1:
            first = list(number)[parents[below]]
            problem = "is given twice"
            if first != edge[0]:
                problem = f"has two parents: {first!r} and {edge[0]!r}; call two nodes by two names, such as "
                problem += f"{f'{first}/{edge[1]}'!r} and {f'{edge[0]}/{edge[1]}'!r}"
            raise_error(f"the node {edge[1]!r} {problem}", lines, row)
        weight = edge[2] if len(edge) == 3 else 1.0
        if not is_number(weight):
            problem = f"must be a number, got {weight!r}"
            raise_error(f"the weight of the edge {edge[0]!r} -> {edge[1]!r} {problem}", lines, row)
        parents[below], weights[below], rows[below] = above, weight, row
    node_lines = None if lines is None else [lines[row] for row in rows]
    return Parts(parents, list(number), weights, classes, level_names, node_lines)


def parts_from_parents(
    parents: Sequence[int] | npt.NDArray[Any],
    names: Sequence[str] | None = None,
    weights: Sequence[float] | npt.NDArray[Any] | None = None,
    classes: Sequence[str] | None = None,
    *,
    level_names: Sequence[str] | None = None,
) -> Parts:
    """Build a tree from a parents array, nodes in any order; without names, nodes are named by index."""
    array = np.asarray(parents)
    if array.ndim != 1 or (array.size and not np.issubdtype(array.dtype, np.integer)):
        raise ValueError(f"parents must be a one-dimensional array of integers, got {parents!r}")
    wrong = (array < -1) | (array >= array.size)
    if wrong.any():
        node = int(np.argmax(wrong))
        raise ValueError(
            f"parents must lie between -1 (the root) and {array.size - 1}, got {array[node]} at {node}"
        )
    listed: list[int] = array.tolist()
    if names is None:
        names = [str(node) for node in range(len(listed))]
    return Parts(listed, list(names), None if weights is None else list(weights), classes, level_names)


def to_graph(tree: Hierarchy) -> Any:
    """See `Hierarchy.to_networkx`."""
    networkx = import_optional("networkx", "graphs need", "networkx")
    graph = networkx.DiGraph()
    parents, weights = tree.parents.tolist(), tree.edge_weights.tolist()
    labels = {leaf: label for label, leaf in enumerate(tree.leaves.tolist())}
    for node, name in enumerate(tree.names):
        label = {"label": labels[node]} if node in labels else {}
        graph.add_node(node, name=name, path=tree.path(node), **label)
        if node:
            graph.add_edge(parents[node], node, weight=weights[node])
    return graph


def parts_from_graph(graph: Any, *, level_names: Sequence[str] | None = None) -> Parts:
    """See `Hierarchy.from_networkx`."""
    if not (hasattr(graph, "is_directed") and graph.is_directed() and not graph.is_multigraph()):
        raise ValueError(f"graph must be a networkx.DiGraph, edges from parents to children, got {graph!r}")
    attributes = dict(graph.nodes(data=True))
    names = {node: given.get("name", node) for node, given in attributes.items()}
    for node in attributes:
        if graph.in_degree(node) > 1:
            several = [names[above] for above in graph.predecessors(node)]
            raise ValueError(f"graph: {names[node]!r} has {len(several)} parents: {several[:3]}")
    leaves = [node for node in attributes if graph.out_degree(node) == 0]
    labels = [attributes[leaf].get("label") for leaf in leaves]
    if any(label is not None for label in labels):
        if sorted(labels, key=str) != sorted(range(len(leaves)), key=str):
            raise ValueError(
                f"graph: the labels of leaves must be 0 to {len(leaves) - 1}, got {labels!r:.200}"
            )
        leaves = [leaf for _, leaf in sorted(zip(labels, leaves, strict=True), key=lambda pair: pair[0])]
    chosen = set(leaves)
    order = [*(node for node in attributes if node not in chosen), *leaves]
    place = {node: new for new, node in enumerate(order)}
    above = {child: (parent, given.get("weight", 1.0)) for parent, child, given in graph.edges(data=True)}
    return Parts(
        parents=[place[above[node][0]] if node in above else -1 for node in order],
        names=[names[node] for node in order],
        weights=[above[node][1] if node in above else 0.0 for node in order],
        level_names=level_names,
    )
