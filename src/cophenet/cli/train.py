"""The command that trains."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cophenet.cli.recipes import Scale, complete_names

if TYPE_CHECKING:
    from cophenet.recipes import Recipe
    from cophenet.recipes.load import Override
    from cophenet.runs import Run

__all__ = ["complete_objectives", "load_for", "parse_seeds", "train"]

_MOST_SEEDS = 1000


def complete_objectives(incomplete: str) -> list[str]:
    """For completion in a shell: names of objectives, listed without loading torch."""
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
            autocompletion=complete_names,
        ),
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="What to minimise.", autocompletion=complete_objectives),
    ] = None,
    scale: Annotated[Scale | None, typer.Option(help="Size of the experiment; laptop unless given.")] = None,
    data_dir: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder that holds the data.")] = None,
    seeds: Annotated[
        str | None, typer.Option(metavar="N|LIST", help="3 for seeds 0, 1 and 2; or a list: 0,4 or 7,")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Replace a setting of the recipe.")
    ] = None,
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
    threads: Annotated[int | None, typer.Option(min=1, help="Of the CPU; all unless given.")] = None,
    checkpoint_minutes: Annotated[
        float, typer.Option(min=0, help="Time between checkpoints within an epoch.")
    ] = 10.0,
    logger: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Log there too: wandb or mlflow, if installed."),
    ] = None,
) -> None:
    """Train a network; leaves a run folder, and continues it after any interruption.

    Without arguments: the digits that come with scikit-learn, in well under a minute.

    Example: cophenet train cifar100 --objective emd --data-dir ~/data --seeds 3

    Example: cophenet train --resume runs/cifar100-emd
    """
    from cophenet._common.processes import is_first_process
    from cophenet._common.shell import command
    from cophenet.recipes.own_code import own_code

    common = {
        "data_dir": data_dir,
        "loggers": ("csv", "tensorboard", *(logger or ())),
        "checkpoint_minutes": checkpoint_minutes,
    }
    machine = {
        "accelerator": accelerator,
        "devices": _devices(devices),
        "strategy": strategy,
        "num_nodes": num_nodes,
        "threads": threads,
    }
    machine = {name: value for name, value in machine.items() if value is not None}
    if resume is not None:
        chosen = {"RECIPE": recipe, "--objective": objective, "--scale": scale, "--seeds": seeds}
        _refuse_beside_resume({**chosen, "--set": settings, "--output": output})
        _refuse_beside_resume({"--keep-best": keep_best, "--patience": patience, **_as_options(machine)})
        run = _guarded("resume", resume, {"trust": trust, **common})
    else:
        if trust:
            raise ValueError("--trust is for --resume: a recipe that you give is your own")
        changes = [*(settings or ()), *_stopping(keep_best, patience)]
        made = load_for(recipe or "digits", scale, objective, seeds, changes)
        folder = output or _folder(made)
        run = _guarded("train", folder, {"recipe": made, **machine, **common})
    if is_first_process():
        trusted = ("--trust",) if own_code(run.recipe) else ()
        typer.echo(f"next: {command('evaluate', run.path, *trusted)}")
        typer.echo(f"      {command('report', run.path, '-o', 'report.html')}")


def _stopping(keep_best: bool, patience: int | None) -> list[str]:
    """The setting for the best epoch."""
    return [f"stopping={{patience: {patience or 'null'}}}"] if keep_best or patience else []


def _folder(recipe: Recipe) -> Path:
    """Where a run goes that is given no place; the name of a recipe may be anyone's."""
    name = f"{recipe.name}-{recipe.objective.name}"
    if Path(name).name != name or "\\" in name or ":" in name:
        raise ValueError(f"the name of recipe {recipe.name!r} is no name of a folder: give one with -o")
    return Path("runs", name)


def _guarded(action: str, folder: Path, options: dict[str, Any]) -> Run:
    """Train or resume; an interruption and a loss that diverges are reported in one line."""
    from cophenet.runs import Run
    from cophenet.runs.training import resume, train

    try:
        if action == "train":
            return train(output=folder, **options)
        run = Run.open(folder, trust=options["trust"])
        if not run.missing_seeds and run.finished and not run.damaged:
            typer.echo(f"run {folder} is finished")
        return resume(folder, **options)
    except KeyboardInterrupt as error:
        typer.echo(str(error) or "stopped", err=True)
        raise typer.Exit(1) from error
    except ArithmeticError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from error


def load_for(
    name: str,
    scale: Scale | None,
    objective: str | None = None,
    seeds: str | None = None,
    settings: Sequence[str | Override] = (),
) -> Recipe:
    """The recipe that options of the command line describe; from random weights where others are missing."""
    from cophenet._common.processes import is_first_process
    from cophenet.recipes.load import Override, load_recipe, scales_of

    given: list[Override] = []
    if objective is not None:
        given.append(Override(("objective", "name"), objective, objective, "--objective"))
    if seeds is not None:
        given.append(Override(("seeds",), parse_seeds(seeds), seeds, "--seeds"))
    changes: list[str | Override] = [*settings, *given]
    if scale is not None:
        return load_recipe(name, scale.value, changes)
    made = load_recipe(name, None, changes)
    missing = _missing_weights(made)
    if missing is None or "scratch" not in scales_of(name):
        return made
    made = load_recipe(name, "scratch", changes)
    if is_first_process():
        typer.echo(f"{made.model.backbone} from random weights; {missing}")
    return made


def _missing_weights(recipe: Recipe) -> str | None:
    """What to install for the pretrained weights of a recipe; None if they are there, or there are none."""
    from cophenet.models.registry import PRETRAINED, find_pretrained

    if recipe.model.weights != PRETRAINED:
        return None
    try:
        find_pretrained(recipe.model.backbone)
    except ImportError as error:
        return str(error)
    return None


def parse_seeds(text: str) -> list[int]:
    """Seeds as they are given on the command line.

    Example:
        >>> parse_seeds("3"), parse_seeds("0,4"), parse_seeds("7,")
        ([0, 1, 2], [0, 4], [7])
    """
    try:
        numbers = [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 0 or ("," not in text and numbers[0] == 0):
        raise ValueError(f"--seeds must be how many (3) or a list (0,4 or 7,), got {text!r}")
    if "," in text:
        return numbers
    if numbers[0] > _MOST_SEEDS:
        raise ValueError(
            f"--seeds must be at most {_MOST_SEEDS} runs, got {text!r}; seed {text} alone is --seeds {text},"
        )
    return list(range(numbers[0]))


def _devices(text: str | None) -> int | str | None:
    return int(text) if text is not None and text.lstrip("-").isdecimal() else text


def _as_options(machine: dict[str, Any]) -> dict[str, Any]:
    return {f"--{name.replace('_', '-')}": value for name, value in machine.items()}


def _refuse_beside_resume(given: dict[str, Any]) -> None:
    for name, value in given.items():
        if value:
            raise ValueError(f"{name} cannot be changed with --resume: the run keeps its own settings")
