"""Whether a folder may become that of a run: never one with something to lose."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cophenet._common.files import is_temporary, read_json
from cophenet.recipes.overrides import flatten
from cophenet.runs.checkpoints import list_checkpoints
from cophenet.runs.run import FORMAT, Run

if TYPE_CHECKING:
    from cophenet.recipes.recipe import Recipe

__all__ = ["check_free", "check_unbegun", "recipe_of_seed"]


def check_free(recipe: Recipe, output: Path) -> None:
    """Refuse to write over something.

    A run of the same recipe that has no checkpoint yet has nothing to lose, and may begin again.

    Raises:
        ValueError: If the folder holds a run, or anything else; says what to do.
    """
    if not output.exists():
        return
    if not output.is_dir():
        raise ValueError(f"output {output} is a file, a folder is needed: give another with -o")
    if (output / "recipe.yaml").is_file():
        _check_run(recipe, output)
        return
    seeds = recipe.seeds if len(recipe.seeds) > 1 else ()
    parts = {f"seed{seed}": seed for seed in seeds}
    _check_entries(output, {path.name for path in output.iterdir()} - set(parts))
    for name, seed in parts.items():
        check_unbegun(recipe_of_seed(recipe, seed), output / name)


def check_unbegun(recipe: Recipe, folder: Path) -> None:
    """Refuse a folder for one seed in which anything was trained, or that holds anything else.

    Raises:
        ValueError: If it does; says what to do.
    """
    if not folder.exists():
        return
    if not folder.is_dir():
        raise ValueError(f"{folder} is a file where a folder is needed: give another folder with -o")
    _check_entries(folder, {path.name for path in folder.iterdir()} - {"recipe.yaml"})
    if (folder / "recipe.yaml").is_file():
        _check_equal(recipe, Run.open(folder))


def recipe_of_seed(recipe: Recipe, seed: int) -> Recipe:
    """The recipe of one seed of several."""
    return recipe.model_copy(update={"seeds": (seed,)})


def _check_run(recipe: Recipe, output: Path) -> None:
    run = Run.open(output)
    _check_equal(recipe, run)
    for seed in run.missing_seeds:
        check_unbegun(recipe_of_seed(recipe, seed), output / f"seed{seed}")
    found = [run] if run.is_single else [Run(output / f"seed{seed}") for seed in recipe.seeds]
    parts = [part for part in found if (part.path / "recipe.yaml").is_file()]
    for part in parts:
        _check_equal(recipe_of_seed(recipe, part.seed), part)
    ended = [bool(part.info.get("finished")) for part in parts]
    if all(ended) and len(parts) == len(found):
        raise ValueError(
            f"output {output} holds this run already, finished: evaluate it, or give another folder with -o"
        )
    if any(ended) or any(list_checkpoints(part.path / "checkpoints") for part in parts):
        raise ValueError(
            f"output {output} holds this run, unfinished: continue it with cophenet train --resume {output}, "
            "or give another folder with -o"
        )


def _check_equal(recipe: Recipe, run: Run) -> None:
    if run.recipe != recipe:
        raise ValueError(
            f"output {run.path} holds a run with other settings ({_difference(run.recipe, recipe)}): "
            "give another folder with -o, or remove it"
        )


def _check_entries(folder: Path, names: set[str]) -> None:
    """Refuse what is not left of a run that was interrupted while its folder was made."""
    first = {"lock"}
    if _is_new(folder / "run.json"):
        first |= {"run.json", "tree.json"}  # written in this order
    others = sorted(name for name in names - first if not is_temporary(name))
    if others:
        raise ValueError(f"output {folder} holds other files ({others[0]}): give another folder with -o")


def _is_new(path: Path) -> bool:
    """Whether a file is that of a run which has not been trained to its end."""
    try:
        info = read_json(path)
    except (OSError, ValueError):
        return False
    return info.get("format") == FORMAT and not info.get("finished")


def _difference(old: Recipe, new: Recipe) -> str:
    """The first setting that is another."""
    before, after = flatten(old.model_dump()), flatten(new.model_dump())
    key = next(key for key in [*after, *before] if before.get(key) != after.get(key))
    return f"{key} is {before.get(key)!r} there and {after.get(key)!r} here"
