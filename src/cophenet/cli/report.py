"""The command that writes an HTML report about runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from cophenet.cli.options import RunFolders

__all__ = ["report"]


def report(
    runs: RunFolders,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="HTML", help="Page to write.")],
) -> None:
    """Write one HTML page about runs: the answer, all runs side by side, the tree, distances, mistakes.

    The page needs no network. The first report on a run takes some seconds for the map of its features, which
    is saved in the run.

    Example: cophenet report runs/digits-flat runs/digits-fastft -o report.html
    """
    from cophenet._common.progress import Progress
    from cophenet.report import write_report

    with Progress("report", 2 * len(runs), show=sys.stderr.isatty(), transient=True) as progress:
        page = write_report(runs, output, progress=lambda what, done, _: progress.update(done, label=what))
    typer.echo(f"wrote {page}")
