"""Names for nodes without one, and for nodes that share theirs with others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence

# Of all the names that are paths together: classes at the bottom of a deep tree would need very many.
_CHARACTERS = 50_000_000


def fresh_names(taken: Iterable[str], count: int) -> list[str]:
    """Names ``node1``, ``node2``, ... for unnamed inner nodes, leaving out those already taken."""
    used = set(taken)
    result: list[str] = []
    number = 0
    while len(result) < count:
        number += 1
        if (name := f"node{number}") not in used:
            result.append(name)
    return result


def free_names(wanted: Iterable[str], taken: Iterable[str]) -> list[str]:
    """The wanted names in order; one that is taken gets a number, as in ``name (2)``, ``name (3)``, ...

    Example:
        >>> free_names(["cat", "dog", "dog"], taken=["cat"])
        ['cat (2)', 'dog', 'dog (2)']
    """
    used = set(taken)
    numbers: dict[str, int] = {}
    result: list[str] = []
    for name in wanted:
        free, number = name, numbers.get(name, 1)
        while free in used:
            number += 1
            free = f"{name} ({number})"
        numbers[name] = number
        used.add(free)
        result.append(free)
    return result


def tell_apart(
    parents: Sequence[int], names: Sequence[str], inner: Container[int], longer: Sequence[str] | None = None
) -> list[str]:
    """Names under which an inner node differs from all children of its parent.

    Only inner nodes that share their name with a sibling are renamed: to their longer name where there is
    one, with a number where that is taken. Classes keep their names.

    Example:
        >>> tell_apart([-1, 0, 0, 0, 2, 3], ["root", "x", "x", "x", "y", "z"], inner={0, 2, 3})
        ['root', 'x', 'x (2)', 'x (3)', 'y', 'z']
    """
    longer = names if longer is None else longer
    result = list(names)
    families: dict[int, list[int]] = {}
    for node, parent in enumerate(parents):
        families.setdefault(parent, []).append(node)
    for family in families.values():
        counts = Counter(names[node] for node in family)
        if len(counts) == len(family):
            continue
        alike = [node for node in family if counts[names[node]] > 1 and node in inner]
        renamed = set(alike)
        taken = [names[node] for node in family if node not in renamed]
        for node, name in zip(alike, free_names([longer[node] for node in alike], taken), strict=True):
            result[node] = name
    return result


def class_names(parents: Sequence[int], names: Sequence[str], classes: Sequence[int]) -> list[str]:
    """The names of all nodes where no two classes have the same.

    Classes that share their name are called by their path instead: the names from below the root, joined with
    ``/``, with a number where that is the name of another class or of a sibling, as in ``animal/other (2)``.

    Args:
        parents: Parent of each node, -1 for the root.
        names: Name of each node.
        classes: The nodes that are classes.

    Example:
        >>> class_names([-1, 0, 0, 1, 2, 2], ["root", "a", "b", "x", "x", "y"], [3, 4, 5])
        ['root', 'a', 'b', 'a/x', 'b/x', 'y']
    """
    result = list(names)
    counts = Counter(names[node] for node in classes)
    if len(counts) == len(classes):
        return result
    alike = [node for node in classes if counts[names[node]] > 1]
    chosen, families = set(classes), {parents[node] for node in alike}
    # A class may have siblings that are inner nodes, whose names are taken too.
    taken = [names[node] for node, above in enumerate(parents) if above in families and node not in chosen]
    taken += [name for name, count in counts.items() if count == 1]
    for node, name in zip(alike, free_names(_joined_paths(parents, names, alike), taken), strict=True):
        result[node] = name
    return result


def _joined_paths(parents: Sequence[int], names: Sequence[str], nodes: Sequence[int]) -> list[str]:
    if (length := sum(_path_lengths(parents, names, nodes))) > _CHARACTERS:
        raise ValueError(
            f"{len(nodes):,} classes that share their names, such as {names[nodes[0]]!r:.50}, are called by "
            f"paths of {length:,} characters in all, more than {_CHARACTERS:,} (limit); give them other names"
        )
    result = []
    for node in nodes:
        steps: list[str] = []
        above = node
        while parents[above] >= 0:
            steps.append(names[above])
            above = parents[above]
        result.append("/".join(reversed(steps)))
    return result


def _path_lengths(parents: Sequence[int], names: Sequence[str], nodes: Sequence[int]) -> list[int]:
    """Characters of the paths to some nodes, without making them; every node is visited once."""
    known: dict[int, int] = {-1: 0}
    for node in nodes:
        way = []
        above = node
        while above not in known:
            way.append(above)
            above = parents[above]
        length = known[above]
        for below in reversed(way):
            length = known[below] = length + len(names[below]) + 1
    return [known[node] for node in nodes]
