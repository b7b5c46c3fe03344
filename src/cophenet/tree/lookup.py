"""Nodes by what users call them: a name, a last name, or a path."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

__all__ = ["AmbiguousNameError", "Lookup", "last_names"]

_SHOWN = 5


class AmbiguousNameError(ValueError):
    """A name is that of several nodes.

    Args:
        given: The name as it was given.
        paths: What each of these nodes can be called by.
        count: How many there are.
        one: What one of them is called, such as "class".
        many: What they are called.

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
    """Finds the nodes of a tree by name, last name or path, which is made of last names.

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
        # A path in one string is cut at its slashes, of which a name may have some itself.
        self._longest = max(name.count("/") for name in names) + 1

    def find(self, where: str | Sequence[str], allowed: Callable[[int], bool] = lambda _: True) -> list[int]:
        """The nodes that are meant: those of that name, else of that last name, else of that path.

        Args:
            where: A name, names joined with ``/`` from below the root, or a sequence of these names.
            allowed: Which nodes may be meant.
        """
        if not isinstance(where, str):
            node, steps = self.walk(where)
            return [node] if steps == len(where) and allowed(node) else []
        for table in (self._by_name, self._by_last_name):
            if found := [node for node in table.get(where, []) if allowed(node)]:
                return found
        return [node for node in self._follow(where.split("/")) if allowed(node)] if "/" in where else []

    def walk(self, path: Sequence[str]) -> tuple[int, int]:
        """The last node of a path that is in the tree, and how many steps of the path lead there."""
        node = self.root
        for steps, name in enumerate(path):
            child = self._children.get((node, name))
            if child is None:
                return node, steps
            node = child
        return node, len(path)

    def _follow(self, pieces: list[str]) -> list[int]:
        """The nodes whose path, joined with slashes, has these pieces."""
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
    """The last name of each node on its path.

    It is what follows the path of the parent in the name of a class that is a path (see `class_names`), and
    otherwise the name. A class keeps its long name beside a sibling that has the short one, so that every
    path is that of one node.

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
