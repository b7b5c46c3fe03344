"""Trees as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np

from cophenet.tree.nodes import Nodes
from cophenet.tree.parts import IntArray


class Drawing(Nodes):
    """A tree that can be drawn."""

    def draw(self, max_lines: int | None = 40) -> str:
        """The tree as text, one line per node; edge weights other than 1 follow the names.

        Args:
            max_lines: Beyond this many lines (at least 5) the tree is shortened: each node shows its first
                children, then how many more there are. None for no limit.

        Returns:
            Lines joined by newlines.

        Example:
            >>> from cophenet.tree import Hierarchy
            >>> tree = Hierarchy.from_nested({"animal": ["cat", "dog", "fox", "yak"], "vehicle": ["car"]})
            >>> print(tree.draw(max_lines=7))
            root
            ├── animal
            │   ├── cat
            │   ├── dog
            │   └── … 2 more
            └── vehicle
                └── car
        """
        if max_lines is None or self.num_nodes <= max_lines:
            return "\n".join(_lines(self, self.num_classes, self.height))
        if max_lines < 5:
            raise ValueError(f"max_lines must be at least 5 or None, got {max_lines!r}")
        # A single child per node takes at most two lines per level, so this depth always fits.
        deepest, widest = self.height, 1
        if not _fits(self, widest, deepest, max_lines):
            deepest = (max_lines - 2) // 2
        while widest < max_lines and _fits(self, widest + 1, deepest, max_lines):
            widest += 1
        return "\n".join(_lines(self, widest, deepest))


def _fits(tree: Nodes, widest: int, deepest: int, max_lines: int) -> bool:
    return sum(1 for _ in islice(_lines(tree, widest, deepest), max_lines + 1)) <= max_lines


def _lines(tree: Nodes, widest: int, deepest: int) -> Iterator[str]:
    """Lines of the tree with at most ``widest`` children per node, down to depth ``deepest``."""
    is_leaf = tree.heights == 0
    leaves_before = np.concatenate(([0], np.cumsum(is_leaf)))
    yield _label(tree, 0)
    # Entries are (line head, node), or (line head, note) for what is left out.
    stack: list[tuple[str, int | str]] = list(reversed(_children("", tree, 0, widest, leaves_before)))
    while stack:
        head, item = stack.pop()
        last = not stack or len(stack[-1][0]) < len(head)
        yield f"{head}{'└── ' if last else '├── '}{item if isinstance(item, str) else _label(tree, item)}"
        if isinstance(item, str) or is_leaf[item]:
            continue
        below = head + ("    " if last else "│   ")
        if tree.depths[item] < deepest:
            stack.extend(reversed(_children(below, tree, item, widest, leaves_before)))
        else:
            hidden = leaves_before[item + tree.sizes[item]] - leaves_before[item]
            stack.append((below, f"… {_classes(hidden)} below"))


def _children(
    head: str,
    tree: Nodes,
    node: int,
    widest: int,
    leaves_before: IntArray,
) -> list[tuple[str, int | str]]:
    shown: list[tuple[str, int | str]] = []
    end = node + int(tree.sizes[node])
    child = node + 1
    while child < end and len(shown) < widest:
        shown.append((head, child))
        child += int(tree.sizes[child])
    if child == end:
        return shown
    more = int(np.count_nonzero(tree.parents[child:end] == node))
    classes = int(leaves_before[end] - leaves_before[child])
    shown.append((head, f"… {more} more" + ("" if classes == more else f" ({_classes(classes)})")))
    return shown


def _classes(count: int) -> str:
    return "1 class" if count == 1 else f"{count} classes"


def _label(tree: Nodes, node: int) -> str:
    name = "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in tree.last_names[node])
    weight = float(tree.edge_weights[node])
    return name if node == 0 or weight == 1 else f"{name} :{weight:g}"
