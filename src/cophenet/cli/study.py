"""The command that determines whether a tree helps."""

from __future__ import annotations

import shutil
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cophenet.cli.options import SEEDS, Settings, Threads, load_for, parse_seeds
from cophenet.cli.printing import interruptible

if TYPE_CHECKING:
    from cophenet.study import StudyResult

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
    seeds: Annotated[str, SEEDS] = "3",
    settings: Settings = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="Folder to make; runs/study-DATA unless given."),
    ] = None,
    threads: Threads = None,
    estimator: Annotated[
        bool, typer.Option("--estimator/--no-estimator", help="Whether to fit the estimator too.")
    ] = True,
) -> None:
    """Does my tree help, and what should I use? Trains suitable objectives, and answers in a few sentences.

    The objective is chosen on a part of the training samples; Flat, the chosen one and the same with a
    shuffled tree are then evaluated on the test part. Interrupt it at any time: the same command continues.

    Example: cophenet study digits

    Example: cophenet study photos/ -o runs/photos

    Example: cophenet study vectors.npz --tree animals.yaml
    """
    from cophenet.recipes.load import Override, parse_override
    from cophenet.study import find_data, run_study

    given = [Override(*parse_override(text), text) for text in settings or ()]
    for one in given:
        if one.keys in (("seeds",), ("objective", "name")):
            instead = "give --seeds" if one.keys == ("seeds",) else "a study tries objectives itself"
            raise ValueError(f"--set {one.text} would not be used: {instead}")
    found = find_data(data, tree=tree, test=test, data_dir=data_dir, overrides=given)
    if data_dir not in (None, found.data_dir):
        raise ValueError(f"--data-dir {data_dir} is for recipes by name; {data} is read where it is")
    found = replace(found, scale=load_for(found.recipe, None, settings=found.overrides).scale)
    folder = output or Path("runs", f"study-{found.name}")
    with interruptible():
        result = run_study(
            found, folder, seeds=parse_seeds(seeds), threads=threads, estimator=estimator, tell=typer.echo
        )
    _print_answer(result)


def _print_answer(result: StudyResult) -> None:
    from cophenet.report.answer import Detail

    typer.echo("")
    wrap = textwrap.TextWrapper(min(shutil.get_terminal_size().columns, 110), break_on_hyphens=False)
    for sentence in result.sentences:
        wrap.initial_indent = "  " * isinstance(sentence, Detail)
        wrap.subsequent_indent = wrap.initial_indent + "  "
        typer.echo(wrap.fill(sentence))
    typer.echo(f"  {result.command}")
    typer.echo(f"wrote {result.page}")
