"""The command that reproduces the paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cophenet.cli.options import DataDir, Scale, Seeds, complete_recipes, parse_seeds, refuse_given
from cophenet.cli.printing import interruptible, print_table

if TYPE_CHECKING:
    from cophenet.paper import Outcome
    from cophenet.paper.item import Item
    from cophenet.paper.plan import Settings

__all__ = ["reproduce"]


def complete_items() -> list[str]:
    """Shell completion of item names."""
    from cophenet.paper.items import item_names

    return list(item_names())


def reproduce(
    items: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ITEM", help="Items by name; all for those of the paper.", autocompletion=complete_items
        ),
    ] = None,
    list_items: Annotated[bool, typer.Option("--list", help="List the items and what they cost.")] = False,
    scale: Annotated[Scale, typer.Option(help="Size of the experiments.")] = "laptop",
    data_dir: DataDir = None,
    runs: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder of the runs, shared by all items.")
    ] = Path("runs/paper"),
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for tables and figures.")
    ] = Path("results"),
    seeds: Seeds = None,
    recipe: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RECIPE",
            help="On this recipe instead of the paper's data.",
            autocompletion=complete_recipes,
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

    Runs are kept and shared between items: interrupt it at any time, and the same command continues. If it
    is started several times in parallel, with --threads 1, the processes share the work. Items that measure
    time (synthetic, batch-time, epoch-time) need an otherwise idle machine.

    Example: cophenet reproduce --list

    Example: cophenet reproduce testcpcc coarse fine --data-dir ~/data -o results
    """
    if not (items or list_items):
        raise ValueError("give one or more items, or --list to see them")
    for option, path in (("--data-dir", data_dir), ("--runs", runs), ("-o", output)):
        _check_folder(option, path, there=option == "--data-dir")
    from cophenet.paper.items import find_items, item_names
    from cophenet.paper.plan import Settings

    names = tuple(items or item_names())
    _refuse_unused(find_items(names), {"--seeds": seeds, "--set": settings}, {"--recipe": recipe})
    chosen = Settings(
        scale, tuple(recipe or ()), tuple(parse_seeds(seeds)) if seeds else (), tuple(settings or ())
    )
    if list_items:
        _print_items(names, chosen)
        return
    from cophenet.paper.pipeline import reproduce as make

    with interruptible():
        outcome = make(
            names,
            runs,
            output,
            settings=chosen,
            data_dir=data_dir,
            only_finished=only_finished,
            threads=threads,
            tell=typer.echo,
        )
    _print_outcome(outcome)


def _refuse_unused(items: Sequence[Item], training: Mapping[str, Any], data: Mapping[str, Any]) -> None:
    """Raise if options of training, or of data, were given and no item uses them."""
    names = ", ".join(item.name for item in items)
    if all(item.study is not None or item.count is not None for item in items):
        refuse_given(training, f"is for items that train: not for {names}")
    if all(item.study is not None for item in items):
        refuse_given(data, f"is for items that have data: not for {names}")


def _check_folder(option: str, path: Path | None, *, there: bool) -> None:
    if path is None:
        return
    for place in (path, *path.parents):
        if place.exists() and not place.is_dir():
            raise ValueError(f"{option} {path}: {place} is a file, a folder is needed")
    if there and not path.is_dir():
        raise ValueError(f"{option} {path}: there is no such folder")


def _print_items(names: tuple[str, ...], settings: Settings) -> None:
    from cophenet.paper.items import find_items
    from cophenet.paper.plan import (
        check_settings,
        epochs_of,
        laptop_minutes,
        possible_items,
        recipes_of,
        wanted,
    )

    items = possible_items(find_items(names), settings, typer.echo)
    check_settings(items, settings)
    rows = []
    for item in items:
        entries = wanted(item, settings)
        minutes = laptop_minutes(entries, settings.overrides, settings.scale)
        runs = sum(len(seeds) for _, _, seeds in entries)
        epochs = epochs_of(entries, settings.scale, settings.overrides)
        cost = "-" if minutes is None else _hours(item.minutes + minutes)
        if runs and settings.scale == "paper":
            cost = "needs a GPU"
        needs = ", ".join(recipes_of(item, settings)) if item.recipes else "-"
        where = ", ".join(item.labels) or "beyond the paper"
        rows.append((item.name, runs, epochs, cost, needs, where, item.title))
    print_table(("item", "runs", "epochs", "about", "data", "in the paper", "shows"), rows)
    typer.echo(
        "\nRuns are shared between items. Epochs and time are those of all runs of an item, none finished; "
        "time is of one core, by measured epochs or steps, without the vectors of a frozen backbone. Runs of "
        "--scale paper need a GPU."
    )
    if settings.scale != "paper":
        _print_total(items, settings)


def _print_total(items: Sequence[Item], settings: Settings) -> None:
    """Print the number of runs and the time for each data set, counting shared runs once."""
    from cophenet.paper.plan import laptop_minutes, wanted

    entries = {
        (recipe, variant.objective, frozenset(variant.overrides), seed): (recipe, variant, (seed,))
        for item in items
        for recipe, variant, seeds in wanted(item, settings)
        for seed in seeds
    }
    parts = []
    for recipe in dict.fromkeys(key[0] for key in entries):
        own = [entry for key, entry in entries.items() if key[0] == recipe]
        minutes = laptop_minutes(own, settings.overrides, settings.scale)
        parts.append(f"{recipe} {len(own)}" + ("" if minutes is None else f" in {_hours(minutes)}"))
    other = _hours(sum(item.minutes for item in items))
    typer.echo(f"Together, shared runs once: {'; '.join(parts) or 'no runs'}; {other} to measure and draw.")


def _hours(minutes: float) -> str:
    return f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.0f} h"


def _number(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _print_outcome(outcome: Outcome) -> None:
    report = outcome.report
    typer.echo(
        f"{_number(len(report.done), 'run')} there ({len(report.trained)} new), {len(report.lacking)} left "
        f"out, {len(report.failed)} failed; {_number(len(outcome.files), 'item')} written"
    )
    for reason in dict.fromkeys(report.lacking.values()):
        number = sum(known == reason for known in report.lacking.values())
        typer.echo(f"left out, {_number(number, 'run')}: {reason}")
    for name, problem in outcome.failed.items():
        typer.echo(f"error: {name}: {problem}", err=True)
    if outcome.failed:
        raise typer.Exit(1)
