"""The command that reproduces the paper."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cophenet.cli.printing import print_table
from cophenet.cli.recipes import Scale, complete_names
from cophenet.cli.train import parse_seeds

if TYPE_CHECKING:
    from cophenet.reproduce import Item, Outcome

__all__ = ["reproduce"]


def complete_items() -> list[str]:
    """For completion in a shell: names of items."""
    from cophenet.reproduce.items import item_names

    return list(item_names())


def reproduce(
    items: Annotated[
        list[str] | None,
        typer.Argument(metavar="ITEM", help="Items by name; all for all.", autocompletion=complete_items),
    ] = None,
    list_items: Annotated[bool, typer.Option("--list", help="List the items and what they cost.")] = False,
    scale: Annotated[Scale, typer.Option(help="Size of the experiments.")] = Scale.LAPTOP,
    data_dir: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder that holds the data.")] = None,
    runs: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder of the runs, shared by all items.")
    ] = Path("runs/paper"),
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for tables and figures.")
    ] = Path("results"),
    seeds: Annotated[
        str | None, typer.Option(metavar="N|LIST", help="3 for seeds 0, 1 and 2; or a list: 0,4 or 7,")
    ] = None,
    recipe: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RECIPE",
            help="On this recipe instead of the paper's data.",
            autocompletion=complete_names,
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Replace a setting of every recipe."),
    ] = None,
    only_finished: Annotated[
        bool, typer.Option("--only-finished", help="Train nothing: write what finished runs give.")
    ] = False,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Of the CPU for a run that begins; all unless given.")
    ] = None,
) -> None:
    """Reproduce tables, figures and studies of the paper, with the published numbers beside.

    Runs are kept and shared between items: interrupt it at any time, and the same command goes on. Given
    several times at once, with --threads 1, the commands share the work.

    Example: cophenet reproduce --list

    Example: cophenet reproduce testcpcc coarse fine --data-dir ~/data -o results
    """
    from cophenet.reproduce.items import find_items

    if list_items:
        _print_items(find_items(tuple(items or ("all",))), scale)
        return
    if not items:
        raise ValueError("give one or more items, or --list to see them")
    from cophenet.reproduce.make import reproduce as make
    from cophenet.reproduce.runs import Settings

    chosen = Settings(
        scale.value, tuple(recipe or ()), tuple(parse_seeds(seeds)) if seeds else (), tuple(settings or ())
    )
    try:
        outcome = make(
            items,
            runs,
            output,
            settings=chosen,
            data_dir=data_dir,
            only_finished=only_finished,
            threads=threads,
            tell=typer.echo,
        )
    except KeyboardInterrupt as error:
        typer.echo("stopped; the same command goes on where it stopped", err=True)
        raise typer.Exit(1) from error
    _print_outcome(outcome)


def _print_items(items: tuple[Item, ...], scale: Scale) -> None:
    from cophenet.reproduce.costs import laptop_minutes
    from cophenet.reproduce.runs import Settings, epochs_of, wanted

    rows = []
    for item in items:
        entries = wanted(item, Settings(scale.value))
        minutes = item.minutes + laptop_minutes(entries)
        runs = sum(len(seeds) for _, _, seeds in entries)
        epochs = epochs_of(entries, scale.value)
        cost = "needs a GPU" if runs and scale is Scale.PAPER else _hours(minutes)
        needs = ", ".join(item.recipes) or "-"
        where = ", ".join(item.labels) or "beyond the paper"
        rows.append((item.name, runs, epochs, cost, needs, where, item.title))
    print_table(("item", "runs", "epochs", "about", "data", "in the paper", "shows"), rows)
    typer.echo(
        "\nRuns are shared between items. Epochs and time are those of all runs of an item, none finished; "
        "time is of one core at laptop scale, by measured epochs or steps. Runs of --scale paper need a GPU."
    )


def _hours(minutes: float) -> str:
    return f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.0f} h"


def _print_outcome(outcome: Outcome) -> None:
    report = outcome.report
    lacking = len(report.lacking)
    typer.echo(
        f"{len(report.done)} runs there ({len(report.trained)} new), {lacking} left out, "
        f"{len(report.failed)} failed; {len(outcome.files)} items written"
    )
    for reason in dict.fromkeys(report.lacking.values()):
        number = sum(known == reason for known in report.lacking.values())
        typer.echo(f"left out, {number} {'run' if number == 1 else 'runs'}: {reason}")
    for name, problem in outcome.failed.items():
        typer.echo(f"error: {name}: {problem}", err=True)
    if outcome.failed:
        raise typer.Exit(1)
