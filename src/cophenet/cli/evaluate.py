"""The command that evaluates runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from cophenet._common.progress import Progress
from cophenet.cli.printing import print_table

__all__ = ["evaluate"]


def evaluate(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Folders that train has made.")],
    data_dir: Annotated[
        Path | None,
        typer.Option("--data-dir", metavar="DIR", help="Folder of the data, if it was moved; it is checked."),
    ] = None,
    device: Annotated[
        Literal["auto", "cpu", "cuda"],
        typer.Option(help="Where the network computes; auto is the GPU if there is one."),
    ] = "auto",
    trust: Annotated[
        bool, typer.Option("--trust", help="Let these runs run code of your own that they name.")
    ] = False,
) -> None:
    """Evaluate finished runs: write all metrics of the paper's protocol to results.json of each run.

    Example: cophenet evaluate runs/digits-fastft
    """
    from cophenet.evaluation import evaluate as measure
    from cophenet.runs import Run

    for run in [Run.open(path, trust=trust) for path in runs]:
        if data_dir is not None and not run.recipe.create_source().requirements(data_dir):
            typer.echo(
                f"{run.name}: --data-dir is not read, data {run.recipe.data.name} needs none", err=True
            )
        results = measure(run, data_dir=data_dir, device=device, progress=_follow())
        _print_results(results)
        typer.echo(f"wrote {run.path / 'results.json'}\n")


def _follow() -> Callable[[str, int, int], None]:
    """A callback that shows a progress display for each data part that is read."""
    displays: dict[str, Progress] = {}

    def show(what: str, done: int, total: int) -> None:
        display = displays.setdefault(what, Progress(what, total))
        display.update(done)
        if done == total:
            displays.pop(what).close()

    return show


def _print_results(results: Mapping[str, Any]) -> None:
    from cophenet.evaluation.keys import metric_info
    from cophenet.report.table import unit_of, with_spread

    seeds = ", ".join(map(str, results["seeds"]))
    count = "seed" if len(results["seeds"]) == 1 else "mean (std) of seeds"
    typer.echo(f"{results['name']}: {results['objective']} on {results['data']}, {count} {seeds}")
    rows = []
    for key, metric in results["metrics"].items():
        info = metric_info(key)
        value = with_spread(metric["mean"], metric["std"], unit_of(key))
        rows.append((info.title, value, "%" if info.percent else "", results["missing"].get(key, "")))
    print_table(("metric", "value", "", ""), rows)
