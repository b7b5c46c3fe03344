"""The command that compares runs."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

import typer

from cophenet._common.files import read_json, write_text
from cophenet.cli.options import RunFolders

__all__ = ["compare"]

_KEY = re.compile(r"[\w/@.-]{1,100}", re.ASCII)
Format = Literal["terminal", "markdown", "csv", "latex", "json"]


def complete_metrics(context: typer.Context, incomplete: str) -> list[str]:
    """Shell completion of metric keys: those in the results of the given runs, else domain and metric."""
    keys: list[str] = []
    for path in (*(context.params.get("runs") or ()), *context.args):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            # A shell may execute special characters in completions, and the file is not trusted.
            keys += filter(_KEY.fullmatch, read_json(Path(path, "results.json"))["metrics"])
    if not keys:
        from cophenet.evaluation.keys import DOMAINS
        from cophenet.metrics.cards import metric_cards

        keys = [f"{domain}/{metric}" for domain in DOMAINS for metric in metric_cards()]
    return [key for key in dict.fromkeys(keys) if key.startswith(incomplete)]


def compare(
    runs: RunFolders,
    format: Annotated[
        Format | None, typer.Option("--format", "-f", help="What to write; terminal unless given.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="File to write instead of printing.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For machines: the same as --format json.")] = False,
    metrics: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            "-m",
            metavar="KEY",
            help="A column, as source/accuracy/fine; all if none.",
            autocompletion=complete_metrics,
        ),
    ] = None,
) -> None:
    """Put evaluated runs side by side, with the paper's numbers where there are any.

    Example: cophenet compare runs/digits-flat runs/digits-fastft --format markdown
    """
    from cophenet.report import compare as compare_runs

    if as_json and format not in (None, "json"):
        raise ValueError(f"--json is --format json, got --format {format} too: give one of them")
    if output is not None and not output.parent.is_dir():
        raise ValueError(f"output must be in a folder that exists, got {str(output)!r}")
    table = compare_runs(runs, metrics or None)
    writers: dict[Format, Callable[[], str]] = {
        "terminal": lambda: table.to_terminal(shutil.get_terminal_size().columns if output is None else None),
        "markdown": table.to_markdown,
        "csv": table.to_csv,
        "latex": table.to_latex,
        "json": table.to_json,
    }
    text = writers["json" if as_json else format or "terminal"]()
    if output is None:
        typer.echo(text)
    else:
        write_text(output, f"{text}\n")
        typer.echo(f"wrote {output}")
