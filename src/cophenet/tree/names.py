"""Names of nodes: made unique, shortened to the last part of a path, and looked up."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence

# Limit on the total characters of names that are paths, which are long in a deep tree.
_CHARACTERS = 50_000_000


def fresh_names(taken: Iterable[str], count: int) -> list[str]:
    """Names ``node1``, ``node2``, ... for unnamed inner nodes, leaving out those already taken."""
    used = set(taken)
    names = (f"node{number}" for number in itertools.count(1))
    return list(itertools.islice((name for name in names if name not in used), count))


def _free_names(wanted: Iterable[str], taken: Iterable[str]) -> list[str]:
    """The wanted names in order; one that is taken gets a number, as in ``name (2)``, ``name (3)``, ...

    Example:
        >>> _free_names(["cat", "dog", "dog"], taken=["cat"])
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
    """Rename inner nodes so that none shares its name with a sibling.

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
        for node, name in zip(alike, _free_names([longer[node] for node in alike], taken), strict=True):
            result[node] = name
    return result


def class_names(parents: Sequence[int], names: Sequence[str], classes: Sequence[int]) -> list[str]:
    """Names of all nodes, made unique among the classes.

    Classes that share their name are named by their path instead: the names from below the root, joined with
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
    for node, name in zip(alike, _free_names(_joined_paths(parents, names, alike), taken), strict=True):
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


_SHOWN = 5


class AmbiguousNameError(ValueError):
    """A name matches several nodes.

    Args:
        given: The name as it was given.
        paths: An unambiguous path or name of each of these nodes.
        count: Number of these nodes.
        one: Noun for one of them, such as "class".
        many: Plural of that noun.

    Example:
        >>> print(AmbiguousNameError("x", ["a/x", "b/x"], 2, "class", "classes"))
        class 'x' is the name of 2 classes; give its path: 'a/x' or 'b/x'
    """

    def __init__(self, given: object, paths: Iterable[str], count: int, one: str, many: str) -> None:
        shown = [repr(path) for path, _ in zip(paths, range(_SHOWN), strict=False)]
        more = f" or one of {count - _SHOWN} more" if count > _SHOWN else ""
        super().__init__(
            f"{one} {given!r} is the name of {count} {many}; give its path: {' or '.join(shown)}{more}"
        )


class Lookup:
    """Finds the nodes of a tree by name, last name or path; a path consists of last names.

    Args:
        parents: Parent of each node, -1 for the root.
        names: Name of each node.
        last: Last name of each node.

    Example:
        >>> parents, names = [-1, 0, 0, 1, 2], ["root", "a", "b", "a/x", "b/x"]
        >>> lookup = Lookup(parents, names, last_names(parents, names, [3, 4]))
        >>> lookup.find("x"), lookup.find("b/x"), lookup.find(("a", "x"))
        ([3, 4], [4], [3])
    """

    def __init__(self, parents: Sequence[int], names: Sequence[str], last: Sequence[str]) -> None:
        self.root, self._last = 0, last
        self._by_name: dict[str, list[int]] = {}
        self._by_last_name: dict[str, list[int]] = {}
        self._children: dict[tuple[int, str], int] = {}
        for node, (above, name, shorter) in enumerate(zip(parents, names, last, strict=True)):
            self._by_name.setdefault(name, []).append(node)
            self._children[above, name] = node
            if shorter != name:
                self._by_last_name.setdefault(shorter, []).append(node)
                self._children[above, shorter] = node
            if above < 0:
                self.root = node
        # A path in one string is split at slashes, but a name may contain slashes too.
        self._longest = max(name.count("/") for name in names) + 1

    def find(self, where: str | Sequence[str], allowed: Callable[[int], bool] = lambda _: True) -> list[int]:
        """Return the nodes with that name, else with that last name, else with that path.

        Args:
            where: A name, names joined with ``/`` from below the root, or a sequence of these names.
            allowed: Whether a node may be returned.
        """
        if not isinstance(where, str):
            node, steps = self.walk(where)
            return [node] if steps == len(where) and allowed(node) else []
        for table in (self._by_name, self._by_last_name):
            if found := [node for node in table.get(where, []) if allowed(node)]:
                return found
        return [node for node in self._follow(where.split("/")) if allowed(node)] if "/" in where else []

    def walk(self, path: Sequence[str]) -> tuple[int, int]:
        """Return the last node of a path that is in the tree, and the number of steps to it."""
        node = self.root
        for steps, name in enumerate(path):
            child = self._children.get((node, name))
            if child is None:
                return node, steps
            node = child
        return node, len(path)

    def _follow(self, pieces: list[str]) -> list[int]:
        """Return the nodes whose path, joined with slashes, is these pieces joined with slashes."""
        found: list[int] = []
        waiting = [(self.root, 0)]
        while waiting:
            node, start = waiting.pop()
            if start == len(pieces):
                found.append(node)
            for stop in range(start + 1, min(start + self._longest, len(pieces)) + 1):
                name = "/".join(pieces[start:stop])
                child = self._children.get((node, name))
                if child is not None and self._last[child] == name:
                    waiting.append((child, stop))
        return found


def last_names(parents: Sequence[int], names: Sequence[str], classes: Iterable[int]) -> tuple[str, ...]:
    """The last name of each node: the last step of its path.

    For a class named by its path (see `class_names`) it is the name without the path of the parent,
    otherwise the whole name. A class keeps its long name if a sibling has the short one, so that every path
    identifies one node.

    Example:
        >>> last_names([-1, 0, 0, 1, 2], ["root", "a", "b", "a/x", "b/x"], [3, 4])
        ('root', 'a', 'b', 'x', 'x')
    """
    shorter = {node: _last_name(parents, names, node) for node in classes if "/" in names[node]}
    families = {parents[node] for node in shorter}
    taken = {(above, names[node]) for node, above in enumerate(parents) if above in families}
    result = list(names)
    for node, name in shorter.items():
        if (parents[node], name) not in taken:
            result[node] = name
    return tuple(result)


def _last_name(parents: Sequence[int], names: Sequence[str], node: int) -> str:
    name, above = names[node], parents[node]
    steps: list[str] = []
    left = len(name)
    while parents[above] >= 0 and left > 0:
        steps.append(names[above])
        left -= len(names[above]) + 1
        above = parents[above]
    prefix = "".join(f"{step}/" for step in reversed(steps))
    return name[len(prefix) :] if left > 0 and name.startswith(prefix) else name
