"""What several commands print."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from cophenet.tree import Hierarchy

__all__ = ["print_table", "print_tree", "sizes"]


def print_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Columns as wide as their longest cell, numbers to the right; the last one ends as it likes."""
    widths = [max(len(str(row[i])) for row in (header, *rows)) for i in range(len(header))]
    for row in (header, *rows):
        cells = [
            str(cell).rjust(width) if isinstance(cell, int) else str(cell).ljust(width)
            for cell, width in zip(row, widths, strict=True)
        ]
        typer.echo("  ".join(cells).rstrip())


def print_tree(tree: Hierarchy, lines: int | None) -> None:
    """Its sizes and a drawing."""
    typer.echo(sizes(tree))
    typer.echo(tree.draw(lines))


def sizes(tree: Hierarchy) -> str:
    """How large a tree is, with the nodes of each level."""
    levels = ", ".join(f"{name} {tree.cut(name)[0].num_classes}" for name in tree.level_names)
    return f"{tree.num_classes} classes, {tree.num_nodes} nodes, height {tree.height} ({levels})"
