"""Runs by a stable name: what an arm is called on disk, and whether a folder there is what is wanted."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cophenet._common.yaml_text import parse_yaml
from cophenet.paper.variants import Arm
from cophenet.recipes import Recipe, list_recipes, load_recipe, recipe_names
from cophenet.recipes.load import apply_overrides, flatten
from cophenet.runs import Run

if TYPE_CHECKING:
    from cophenet.paper.items import Item
    from cophenet.recipes.settings import Scale

__all__ = [
    "ArmRuns",
    "Settings",
    "State",
    "arm_runs",
    "different_settings",
    "epochs_of",
    "recipes_of",
    "state_of",
    "wanted",
]

State = Literal["missing", "interrupted", "trained", "done"]
_PAPER_SEEDS = 3
# Features over the epochs, for studies; it changes nothing of the training, and so not the name.
_SAVED = {"paper": 20, "laptop": 1}
_WATCHED = "save_features_every"


@dataclass(frozen=True)
class Settings:
    """How items are reproduced.

    Attributes:
        scale: Size of the experiments.
        recipes: On these recipes instead of the paper's data; empty for the paper's.
        seeds: Instead of those of the items; empty for theirs.
        overrides: Settings changed in every recipe.
    """

    scale: Scale
    recipes: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    overrides: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class ArmRuns:
    """An arm on a recipe: the runs of its seeds.

    Attributes:
        recipe_name: The recipe it starts from.
        arm: What is changed.
        recipe: All settings, without a seed.
        name: Folder of the runs, the same for the same settings.
        seeds: What is wanted.
    """

    recipe_name: str
    arm: Arm
    recipe: Recipe
    name: str
    seeds: tuple[int, ...]

    def path(self, folder: Path, seed: int) -> Path:
        """Where the run of a seed is."""
        return folder / self.name / f"seed{seed}"

    def of_seed(self, seed: int) -> Recipe:
        """The recipe of one run."""
        return self.recipe.model_copy(update={"seeds": (seed,)})

    def results(self, folder: Path) -> list[dict[str, Any]]:
        """Contents of the `results.json` that there are, in the order of seeds.

        A folder with other settings counts as not there.
        """
        found = []
        for seed in self.seeds:
            path = self.path(folder, seed)
            results = Run(path).results if state_of(path) == "done" else None
            if results is not None and not different_settings(path, self.of_seed(seed)):
                found.append(results)
        return found


def recipes_of(item: Item, settings: Settings) -> tuple[str, ...]:
    """The recipes an item is made on; none if it makes no sense on those that are given.

    Example:
        >>> from cophenet.paper.items import find_items
        >>> items = find_items(("rank", "tree-depth"))
        >>> [recipes_of(item, Settings("laptop", ("digits",))) for item in items]
        [('digits',), ()]
    """
    if not settings.recipes:
        return item.recipes
    if item.fixed:
        return tuple(name for name in item.recipes if name in settings.recipes)
    return settings.recipes


def wanted(item: Item, settings: Settings) -> list[tuple[str, Arm, tuple[int, ...]]]:
    """Recipe, arm and seeds of all that an item wants trained; quick, as no recipe is read.

    Example:
        >>> from cophenet.paper.items import find_items
        >>> (rank,) = find_items(("rank",))
        >>> [(name, arm.objective, seeds) for name, arm, seeds in wanted(rank, Settings("laptop"))]
        [('cifar100', 'flat', (0, 1, 2)), ('cifar100', 'rank', (0,))]
    """
    found = []
    for recipe in recipes_of(item, settings):
        for arm in item.arms(recipe, settings.scale):
            usual = arm.seeds if settings.scale == "laptop" or arm.control else _PAPER_SEEDS
            found.append((recipe, arm, settings.seeds or tuple(range(usual))))
    return found


def epochs_of(
    entries: Iterable[tuple[str, Arm, tuple[int, ...]]], scale: Scale, overrides: Sequence[str] = ()
) -> int:
    """Epochs of all these runs together; curricula are counted like the others.

    Args:
        entries: Recipe, arm and seeds, as `wanted` gives them.
        scale: Size of the experiments.
        overrides: Settings changed in every recipe.
    """
    usual = _epochs(scale)
    total = 0
    for recipe, arm, seeds in entries:
        own = [int(o.partition("=")[2]) for o in (*arm.overrides, *overrides) if o.startswith("epochs=")]
        if not own:
            own = [usual[recipe] if recipe in usual else load_recipe(recipe, scale).epochs]
        total += len(seeds) * own[-1]
    return total


def arm_runs(item: Item, settings: Settings) -> list[ArmRuns]:
    """All that an item wants trained, with the resolved recipes.

    Raises:
        ValueError: If a recipe or an override is wrong, or does not go with what an arm changes.
    """
    return [
        _resolved(recipe, arm, seeds, settings.scale, settings.overrides)
        for recipe, arm, seeds in wanted(item, settings)
    ]


@cache
def _epochs(scale: str) -> dict[str, int]:
    return {line.name: line.epochs for line in list_recipes() if line.scale == scale}


@cache
def _dump(recipe: str, scale: Scale) -> dict[str, Any]:
    return load_recipe(recipe, scale).model_dump(mode="json")


def _resolved(name: str, arm: Arm, seeds: tuple[int, ...], scale: Scale, more: tuple[str, ...]) -> ArmRuns:
    changes = tuple(dict.fromkeys((*arm.overrides, *more)))
    # An override that only repeats the recipe does not make another run.
    plain = _dump(name, scale)
    whole = apply_overrides(plain, changes)
    changing = [o for o in changes if apply_overrides(plain, (c for c in changes if c != o)) != whole]
    saved = 0 if set(changing) & set(arm.overrides) else _SAVED[scale]
    base = (f"objective.name={arm.objective}", f"{_WATCHED}={saved}", "seeds=[0]")
    try:
        recipe = load_recipe(name, scale, (*base, *changes))
    except ValueError as error:
        about = f"{arm.objective}, {arm.setting}" if arm.setting else arm.objective
        raise ValueError(f"{about} on {name}: {_reason(error, (*base, *changes))}") from error
    folder = f"{_stem(name)}-{scale}-{arm.objective}"
    if changing:
        # Only settings count, not what an item calls them: studies share the runs that are the same.
        folder += f"-{'shuffled' if arm.control else _words(changing)}-{_digest(changing)}"
    return ArmRuns(name, arm, recipe, folder, seeds)


def _words(overrides: Sequence[str]) -> str:
    """Changed settings as a part of a name: "batch_size=64" as "batch_size-64", of long ones the start."""
    parts = (override.partition("=") for override in overrides)
    short = sorted(f"{key.rpartition('.')[2]}-{value}" for key, _, value in parts)
    return re.sub(r"[^A-Za-z0-9_.]+", "-", "-".join(short))[:40].strip("-")


def _stem(name: str) -> str:
    """What runs of a recipe begin with: files of one name in two folders are told apart by their content."""
    if name in recipe_names():
        return name
    content = json.dumps(parse_yaml(Path(name).read_text(encoding="utf-8-sig")), sort_keys=True, default=str)
    return f"{Path(name).stem}-{_digest([content])}"


def _reason(error: ValueError, overrides: Sequence[str]) -> str:
    """What is wrong, without the settings that nobody gave."""
    text = str(error)
    if text.startswith("--set "):
        text = text.removeprefix("--set ")
        for override in overrides:
            text = text.removeprefix(override).removeprefix(" ")
    return text.removeprefix(": ")


def _digest(overrides: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(sorted(overrides)).encode()).hexdigest()[:6]


def state_of(path: Path) -> State:
    """How far a run has come; a folder that is not yet whole counts as none."""
    if not all((path / name).is_file() for name in ("recipe.yaml", "run.json")):
        return "missing"
    run = Run.open(path)
    if not run.finished:
        return "interrupted"
    return "trained" if run.results is None else "done"


def different_settings(path: Path, recipe: Recipe) -> list[str]:
    """Keys of the settings in which a run folder differs from a recipe, as far as they matter."""
    there, here = (
        flatten(r.model_dump(exclude={_WATCHED, "summary"})) for r in (Run.open(path).recipe, recipe)
    )
    return sorted(key for key in {*there, *here} if there.get(key) != here.get(key))
