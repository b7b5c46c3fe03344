"""The command that writes the page about runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cophenet.cli.compare import RunFolders

__all__ = ["report"]


def report(
    runs: RunFolders,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="HTML", help="Page to write.")],
) -> None:
    """Write one HTML page about runs: tables, curves, distances, features, the tree and the worst mistakes.

    It needs no network. The first report on a run takes some seconds for UMAP, which is saved in the run.

    Example: cophenet report runs/digits-flat runs/digits-fastft -o report.html
    """
    from cophenet.report import write_report

    typer.echo(f"wrote {write_report(runs, output)}")
