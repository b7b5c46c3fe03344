"""Options shared by several commands, and the recipe that they specify."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperArgument, TyperCommand

if TYPE_CHECKING:
    from cophenet.recipes import Recipe
    from cophenet.recipes.load import Override

__all__ = [
    "SEEDS",
    "DataDir",
    "LabelKind",
    "OptionalScale",
    "RunFolders",
    "Scale",
    "Seeds",
    "Settings",
    "Threads",
    "VectorsCommand",
    "complete_recipes",
    "load_for",
    "parse_seeds",
    "refuse_given",
]

_MOST_SEEDS = 1000


Scale = Literal["paper", "scratch", "laptop"]
SEEDS = typer.Option(metavar="N|LIST", help="3 for seeds 0, 1 and 2; or a list: 0,4 or 7,")
DataDir = Annotated[Path | None, typer.Option(metavar="DIR", help="Folder that holds the data.")]
OptionalScale = Annotated[Scale | None, typer.Option(help="Size of the experiment; laptop unless given.")]
LabelKind = Annotated[
    str | None,
    typer.Option(
        "--labels",
        help="What numbers as labels are: names of the tree, or positions in its classes. Needed only where "
        "they may be both.",
    ),
]
RunFolders = Annotated[list[Path], typer.Argument(metavar="RUN", help="Run folders, of any seeds.")]
Seeds = Annotated[str | None, SEEDS]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Replace a setting of the recipe.")
]
Threads = Annotated[int | None, typer.Option(min=1, help="Of the CPU; all unless given.")]


class VectorsCommand(TyperCommand):
    """A command on files of vectors: `{formats}` in its help is replaced by their list when it is shown."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        from cophenet.vectors.formats import format_list

        for parameter in self.params:
            if isinstance(parameter, TyperArgument) and parameter.help:
                parameter.help = parameter.help.replace("{formats}", format_list())
        super().format_help(ctx, formatter)


def complete_recipes() -> list[str]:
    """Shell completion of recipe names, listed without loading torch."""
    from cophenet.recipes.load import recipe_names

    return list(recipe_names())


def refuse_given(options: Mapping[str, Any], why: str) -> None:
    """Raise if one of some options was given, because it would not be used.

    Example:
        >>> refuse_given({"--tree": None, "--seed": 0, "--trust": True}, "is for fitting")
        Traceback (most recent call last):
        ValueError: --seed 0 is for fitting
    """
    for name, value in options.items():
        if value is None or value is False or value == []:
            continue
        words = value if isinstance(value, list) else [] if value is True else [value]
        raise ValueError(f"{' '.join(map(str, (name, *words)))} {why}")


def load_for(
    name: str,
    scale: Scale | None,
    objective: str | None = None,
    seeds: str | None = None,
    settings: Sequence[str | Override] = (),
) -> Recipe:
    """Load the recipe specified by command-line options.

    If `scale` is not given, the package of the pretrained weights is missing, and the recipe has the scale
    "scratch", that scale is used, which trains from random weights.

    Raises:
        ValueError: If an option is invalid, or `--set` and another option change the same setting.
    """
    from cophenet._common.processes import is_first_process
    from cophenet.recipes.load import Override, load_recipe, parse_override, scales_of

    given: list[Override] = []
    if objective is not None:
        given.append(Override(("objective", "name"), objective, objective, "--objective"))
    if seeds is not None:
        given.append(Override(("seeds",), parse_seeds(seeds), seeds, "--seeds"))
    changes = [Override(*parse_override(one), one) if isinstance(one, str) else one for one in settings]
    changes += given
    for one, other in combinations(changes, 2):
        same = all(key == known for key, known in zip(one.keys, other.keys, strict=False))
        if same and one.option != other.option:
            both = " and ".join(f"{setting.option} {setting.text}".strip() for setting in (one, other))
            raise ValueError(f"{both} are about one setting: give one of them")
    if scale is not None:
        return load_recipe(name, scale, changes)
    made = load_recipe(name, None, changes)
    missing = _missing_weights(made)
    if missing is None or "scratch" not in scales_of(name):
        return made
    made = load_recipe(name, "scratch", changes)
    if is_first_process():
        typer.echo(f"{made.model.backbone} from random weights; {missing}")
    return made


def _missing_weights(recipe: Recipe) -> str | None:
    """What to install for the pretrained weights of a recipe; None if not needed."""
    from cophenet.models.registry import PRETRAINED, find_pretrained

    if recipe.model.weights != PRETRAINED:
        return None
    try:
        find_pretrained(recipe.model.backbone)
    except ImportError as error:
        return str(error)
    return None


def parse_seeds(text: str) -> list[int]:
    """Parse the seeds given on the command line: a count, or a list.

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
