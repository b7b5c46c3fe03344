"""Draw trees as text for a terminal and as SVG pictures."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from html import escape
from unicodedata import east_asian_width

import numpy as np

from cophenet.tree.nodes import Nodes

# Layout of a picture, in pixels.
_INDENT, _LINE, _LETTER, _MARGIN = 20, 20, 8, 10


class Drawing(Nodes):
    """Drawing methods of a tree."""

    def draw(self, max_lines: int | None = 40) -> str:
        """The tree as text, one line per node; edge weights other than 1 follow the names.

        Args:
            max_lines: Beyond this many lines (at least 2) the tree is shortened: nodes show their first
                children, those near the root more than others, then how many more there are. None for no
                limit.

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
        return "\n".join(head + text for head, text in _lines(self, max_lines))

    def to_svg(self, max_lines: int | None = 40) -> str:
        """The tree as an SVG picture, with the lines of :meth:`draw`.

        Args:
            max_lines: As for :meth:`draw`.

        Returns:
            A self-contained SVG document.

        Example:
            >>> from cophenet.tree import Hierarchy
            >>> picture = Hierarchy.from_paths([("animal", "cat"), ("animal", "dog")]).to_svg()
            >>> picture.startswith("<svg"), picture.count("<text")
            (True, 4)
        """
        rows = [(len(head) // 4, text) for head, text in _lines(self, max_lines)]
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
        """SVG picture shown by notebooks."""
        return self.to_svg()


def _columns(text: str) -> int:
    """Width of a text in character cells; wide East Asian characters take two."""
    return len(text) + sum(east_asian_width(sign) in "WF" for sign in text)


def _shown(tree: Nodes, max_lines: int) -> dict[int, int]:
    """Number of children to show of each drawn inner node, for at most ``max_lines`` lines in all.

    Showing one more child takes a line, and another for its subtree; showing the last child saves the line
    "… more".
    """
    shown, following = {0: 0}, {0: 1}
    lines, waiting = 2, [(0, 0)]  # children shown plus depth, node
    while waiting:
        place, node = heappop(waiting)
        child = following[node]
        end = child + int(tree.sizes[child])
        is_last = end == node + int(tree.sizes[node])
        more = 1 - is_last + bool(tree.heights[child])
        if lines + more > max_lines:
            continue
        lines += more
        shown[node], following[node] = shown[node] + 1, end
        if not is_last:
            heappush(waiting, (place + 1, node))
        if tree.heights[child]:
            shown[child], following[child] = 0, child + 1
            heappush(waiting, (int(tree.depths[child]), child))
    return shown


def _lines(tree: Nodes, max_lines: int | None) -> Iterator[tuple[str, str]]:
    """Yield prefix and text of at most ``max_lines`` lines; a prefix has four characters per level."""
    if max_lines is not None and max_lines < 2:
        raise ValueError(f"max_lines must be at least 2 or None, got {max_lines!r}")
    shown = None if max_lines is None else _shown(tree, max_lines)
    is_leaf = tree.heights == 0
    leaves_before = np.concatenate(([0], np.cumsum(is_leaf)))

    def children(head: str, node: int) -> list[tuple[str, int | str]]:
        """Entries below a node, in reverse order: its children, and a note if some are left out."""
        widest = tree.num_nodes if shown is None else shown[node]
        child, end = node + 1, node + int(tree.sizes[node])
        entries: list[tuple[str, int | str]] = []
        while child < end and len(entries) < widest:
            entries.append((head, child))
            child += int(tree.sizes[child])
        if child < end:
            more = int(np.count_nonzero(tree.parents[child:end] == node))
            classes = int(leaves_before[end] - leaves_before[child])
            note = f"{more} more" + ("" if classes == more else f" ({_classes(classes)})")
            entries.append((head, f"… {note if widest else f'{_classes(classes)} below'}"))
        return entries[::-1]

    yield "", _label(tree, 0)
    # Entries are (prefix, node), or (prefix, note) for omitted children.
    stack = children("", 0)
    while stack:
        head, item = stack.pop()
        last = not stack or len(stack[-1][0]) < len(head)
        branch = "└── " if last else "├── "
        yield head + branch, item if isinstance(item, str) else _label(tree, item)
        if not isinstance(item, str) and not is_leaf[item]:
            stack.extend(children(head + ("    " if last else "│   "), item))


def _classes(count: int) -> str:
    return "1 class" if count == 1 else f"{count} classes"


def _label(tree: Nodes, node: int) -> str:
    name = "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in tree.last_names[node])
    weight = float(tree.edge_weights[node])
    return name if node == 0 or weight == 1 else f"{name} :{weight:g}"
