"""What several commands print: tables, trees, and that they were interrupted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from cophenet.tree import Hierarchy

__all__ = ["interruptible", "print_table", "print_tree", "sizes"]


@contextmanager
def interruptible() -> Iterator[None]:
    """Work that the same command goes on with; an interruption is one line that says so."""
    try:
        yield
    except KeyboardInterrupt as error:
        typer.echo("stopped; the same command goes on where it stopped", err=True)
        raise typer.Exit(1) from error


def print_table(header: Sequence[str], rows: Iterable[Sequence[str | int]]) -> None:
    """Columns as wide as their longest cell, integers to the right."""
    from cophenet.report import Table

    typer.echo(Table.from_rows(header, rows).to_terminal())


def print_tree(tree: Hierarchy, lines: int | None) -> None:
    """Its sizes and a drawing."""
    typer.echo(sizes(tree))
    typer.echo(tree.draw(lines))


def sizes(tree: Hierarchy) -> str:
    """How large a tree is, with the nodes of each level."""
    levels = ", ".join(f"{name} {tree.cut(name)[0].num_classes}" for name in tree.level_names)
    return f"{tree.num_classes} classes, {tree.num_nodes} nodes, height {tree.height} ({levels})"
