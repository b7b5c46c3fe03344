"""Names for nodes without one, and for nodes that an edit or a file of another tool has made namesakes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence


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
