"""The command that trains."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cophenet.cli.options import (
    DataDir,
    OptionalScale,
    Seeds,
    Settings,
    Threads,
    complete_recipes,
    load_for,
    refuse_given,
)
from cophenet.cli.printing import interruptible

if TYPE_CHECKING:
    from cophenet.recipes import Recipe
    from cophenet.runs import Run

__all__ = ["complete_objectives", "train"]


def complete_objectives(incomplete: str) -> list[str]:
    """Shell completion of objective names, listed without loading torch."""
    from cophenet._common.registry import declared_names

    rooms = [("cophenet.objectives", "cophenet.objectives"), ("cophenet.transport", "cophenet.distances")]
    names = [name for room, group in rooms for name in declared_names(room, group)]
    return [name for name in names if name.startswith(incomplete)]


def train(
    recipe: Annotated[
        str | None,
        typer.Argument(
            metavar="RECIPE",
            help="Recipe by name, or a YAML file; digits unless given.",
            autocompletion=complete_recipes,
        ),
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="What to minimise.", autocompletion=complete_objectives),
    ] = None,
    scale: OptionalScale = None,
    data_dir: DataDir = None,
    seeds: Seeds = None,
    settings: Settings = None,
    keep_best: Annotated[
        bool,
        typer.Option("--keep-best", help="Keep the weights of the best epoch on a tenth of the samples."),
    ] = False,
    patience: Annotated[
        int | None, typer.Option(min=1, help="The same, and stop after so many epochs without a better one.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="RUN", help="Folder to make; runs/RECIPE-OBJECTIVE unless given."
        ),
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Continue this run where it was interrupted.")
    ] = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="Let --resume run code of your own that the run names.")
    ] = False,
    accelerator: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="cpu, gpu, ... by Lightning's names; auto unless given."),
    ] = None,
    devices: Annotated[
        str | None, typer.Option(metavar="N", help="How many devices, or which; 1 unless given.")
    ] = None,
    strategy: Annotated[
        str | None, typer.Option(metavar="NAME", help="How devices work together, such as ddp.")
    ] = None,
    num_nodes: Annotated[int | None, typer.Option(min=1, help="How many machines; 1 unless given.")] = None,
    threads: Threads = None,
    checkpoint_minutes: Annotated[
        float, typer.Option(min=0, help="Time between checkpoints within an epoch.")
    ] = 10.0,
    logger: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Log there too: wandb or mlflow, if installed."),
    ] = None,
) -> None:
    """Train a network and write a run folder; with --resume, continue an interrupted run.

    Without arguments: the digits that come with scikit-learn, in well under a minute.

    Example: cophenet train cifar100 --objective emd --data-dir ~/data --seeds 3

    Example: cophenet train --resume runs/cifar100-emd
    """
    common: dict[str, Any] = {
        "data_dir": data_dir,
        "loggers": ("csv", "tensorboard", *(logger or ())),
        "checkpoint_minutes": checkpoint_minutes,
    }
    machine: dict[str, Any] = {
        "accelerator": accelerator,
        "devices": _devices(devices),
        "strategy": strategy,
        "num_nodes": num_nodes,
        "threads": threads,
    }
    machine = {name: value for name, value in machine.items() if value is not None}
    if resume is not None:
        chosen: dict[str, Any] = {"RECIPE": recipe, "--objective": objective, "--scale": scale}
        chosen |= {"--seeds": seeds, "--set": settings, "--output": output}
        chosen |= {"--keep-best": keep_best, "--patience": patience}
        chosen |= {f"--{name.replace('_', '-')}": value for name, value in machine.items()}
        refuse_given(chosen, "cannot be changed with --resume: the run keeps its own settings")
        with interruptible(message=None):
            run = _resume(resume, trust=trust, **common)
    else:
        if trust:
            raise ValueError("--trust is for --resume: a recipe that you give is your own")
        from cophenet.recipes.load import Override
        from cophenet.runs import train as train_recipe

        changes: list[str | Override] = list(settings or ())
        if keep_best or patience is not None:
            written = ("--keep-best", "") if patience is None else ("--patience", str(patience))
            changes.append(Override(("stopping",), {"patience": patience}, written[1], written[0]))
        made = load_for(recipe or "digits", scale, objective, seeds, changes)

        with interruptible(message=None):
            run = train_recipe(made, output or _folder(made), **machine, **common)
    _print_next(run)


def _folder(recipe: Recipe) -> Path:
    """The default output folder; the recipe's name is checked because others may have written the recipe."""
    name = f"{recipe.name}-{recipe.objective.name}"
    if Path(name).name != name or "\\" in name or ":" in name:
        raise ValueError(f"the name of recipe {recipe.name!r} is no name of a folder: give one with -o")
    return Path("runs", name)


def _resume(folder: Path, *, trust: bool, **options: Any) -> Run:
    from cophenet.runs import Run, resume

    run = Run.open(folder, trust=trust)
    is_whole = not run.missing_seeds and run.finished and not run.damaged
    run = resume(folder, trust=trust, **options)
    if is_whole:
        moved = "" if options["data_dir"] is None else f"; its data is now read from {options['data_dir']}"
        typer.echo(f"run {folder} is finished{moved}")
    return run


def _print_next(run: Run) -> None:
    """Print the commands to run next."""
    from cophenet._common.processes import is_first_process
    from cophenet._common.shell import command
    from cophenet.recipes.own_code import own_code

    if is_first_process():
        trusted = ("--trust",) if own_code(run.recipe) else ()
        typer.echo(f"next: {command('evaluate', run.path, *trusted)}")
        typer.echo(f"      {command('report', run.path, '-o', 'report.html')}")


def _devices(text: str | None) -> int | str | None:
    return int(text) if text is not None and text.lstrip("-").isdecimal() else text
