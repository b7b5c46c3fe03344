"""Trees as text for a terminal, and as pictures."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from itertools import islice
from unicodedata import east_asian_width

import numpy as np

from cophenet.tree.nodes import Nodes
from cophenet.tree.parts import IntArray

# Of a picture, in pixels.
_INDENT, _LINE, _LETTER, _MARGIN = 20, 20, 8, 10


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

    def to_svg(self, max_lines: int | None = 40) -> str:
        """The tree as an SVG picture, with the lines of :meth:`draw`.

        Args:
            max_lines: As for :meth:`draw`.

        Returns:
            The text of an SVG file, which needs nothing else.

        Example:
            >>> from cophenet.tree import Hierarchy
            >>> picture = Hierarchy.from_paths([("animal", "cat"), ("animal", "dog")]).to_svg()
            >>> picture.startswith("<svg"), picture.count("<text")
            (True, 4)
        """
        rows = [_row(line) for line in self.draw(max_lines).split("\n")]
        width = max(_INDENT * depth + _LETTER * _columns(text) for depth, text in rows) + 2 * _MARGIN
        height = _LINE * len(rows) + _MARGIN
        lines, words = [], []
        above: dict[int, int] = {}
        for place, (depth, text) in enumerate(rows):
            x, y = _MARGIN + _INDENT * depth, _LINE * (place + 1)
            if depth:
                lines.append(f"M{x - _INDENT + 4} {above[depth - 1] + 4}V{y - 4}H{x - 3}")
            above[depth] = y
            words.append(f'<text x="{x}" y="{y}">{escape(text)}</text>')
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13" fill="#222">'
            f'<rect width="{width}" height="{height}" fill="#fff"/>'
            f'<path d="{"".join(lines)}" fill="none" stroke="#999"/>{"".join(words)}</svg>'
        )

    def _repr_svg_(self) -> str:
        """What notebooks show."""
        return self.to_svg()


def _row(line: str) -> tuple[int, str]:
    """Depth and text of a line of a drawing, whose steps are four signs wide."""
    depth = 0
    while line[4 * depth : 4 * depth + 4] in ("│   ", "    "):
        depth += 1
    if line[4 * depth : 4 * depth + 4] in ("├── ", "└── "):
        return depth + 1, line[4 * depth + 4 :]
    return 0, line


def _columns(text: str) -> int:
    """Width of a text in letters, of which Chinese, Japanese and Korean signs take two."""
    return len(text) + sum(east_asian_width(sign) in "WF" for sign in text)


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
