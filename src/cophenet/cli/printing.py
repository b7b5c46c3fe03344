"""Output shared by several commands: tables, trees, and the message after an interruption."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from cophenet.tree import Hierarchy

__all__ = ["interruptible", "print_table", "print_tree", "sizes"]


@contextmanager
def interruptible(
    message: str | None = "stopped; the same command goes on where it stopped",
) -> Iterator[None]:
    """Context manager for resumable work: on KeyboardInterrupt, print one line and exit with code 1.

    Args:
        message: The line; None for the message of the exception.
    """
    try:
        yield
    except KeyboardInterrupt as error:
        typer.echo(message or str(error) or "stopped", err=True)
        raise typer.Exit(1) from error


def print_table(header: Sequence[str], rows: Iterable[Sequence[str | int]]) -> None:
    """Print a table: columns as wide as their longest cell, integers right-aligned."""
    from cophenet.report import Table

    typer.echo(Table.from_rows(header, rows).to_terminal())


def print_tree(tree: Hierarchy, lines: int | None) -> None:
    """Print the sizes of a tree and a drawing of at most `lines` lines."""
    typer.echo(sizes(tree))
    typer.echo(tree.draw(lines))


def sizes(tree: Hierarchy) -> str:
    """The sizes of a tree as text, with the number of nodes of each level."""
    levels = ", ".join(f"{name} {tree.cut(name)[0].num_classes}" for name in tree.level_names)
    return f"{tree.num_classes} classes, {tree.num_nodes} nodes, height {tree.height} ({levels})"
