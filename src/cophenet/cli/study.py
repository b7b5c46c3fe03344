"""The command that tells whether a tree helps."""

from __future__ import annotations

import shutil
import textwrap
from pathlib import Path
from typing import Annotated

import typer

from cophenet.cli.train import parse_seeds

__all__ = ["study"]


def study(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA", help="Folder of images, file of vectors with labels, or a recipe's name."
        ),
    ],
    tree: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Tree; that of the folders, or tree.yaml beside the vectors, unless given."
        ),
    ] = None,
    test: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Test vectors; a share of every class unless given.")
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder that holds the data of a recipe.")
    ] = None,
    seeds: Annotated[
        str, typer.Option(metavar="N|LIST", help="3 for seeds 0, 1 and 2; or a list: 0,4 or 7,")
    ] = "3",
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Replace a setting of the recipe.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="Folder to make; runs/study-DATA unless given."),
    ] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Of the CPU; all unless given.")] = None,
    estimator: Annotated[
        bool, typer.Option("--estimator/--no-estimator", help="Whether to fit the estimator too.")
    ] = True,
) -> None:
    """Does my tree help, and what should I use? Trains what is sensible, and answers in a few sentences.

    Objectives are chosen on a part of the training samples; Flat, the chosen one and the same with a shuffled
    tree are then measured on the test part. Interrupt it at any time: the same command goes on.

    Example: cophenet study digits

    Example: cophenet study photos/ -o runs/photos

    Example: cophenet study vectors.npz --tree animals.yaml
    """
    from dataclasses import replace

    from cophenet.cli.train import load_for
    from cophenet.recipes.load import Override, parse_override
    from cophenet.study import find_data, run_study

    given = [Override(*parse_override(text), text) for text in settings or ()]
    found = find_data(data, tree=tree, test=test, data_dir=data_dir, overrides=given)
    found = replace(found, scale=load_for(found.recipe, None, settings=found.overrides).scale)
    folder = output or Path("runs", f"study-{found.name}")
    try:
        result = run_study(
            found, folder, seeds=parse_seeds(seeds), threads=threads, estimator=estimator, tell=typer.echo
        )
    except KeyboardInterrupt as error:
        typer.echo("stopped; the same command goes on where it stopped", err=True)
        raise typer.Exit(1) from error
    typer.echo("")
    width = min(shutil.get_terminal_size().columns, 110)
    for sentence in result.sentences:
        indent = "    " if sentence.startswith(" ") else "  "
        typer.echo(textwrap.fill(sentence, width, subsequent_indent=indent, break_on_hyphens=False))
    typer.echo(f"  {result.command}")
    typer.echo(f"wrote {result.page}")
