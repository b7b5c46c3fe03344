"""The runs that items need: recipes with their settings, names of run folders, and costs."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cophenet._common.limits import RECIPE_BYTES, read_text
from cophenet._common.yaml_files import parse_yaml
from cophenet.paper.variants import Variant, setting_text
from cophenet.recipes import Recipe, list_recipes, load_recipe, recipe_names
from cophenet.recipes.errors import RecipeError
from cophenet.recipes.load import apply_overrides, parse_override

if TYPE_CHECKING:
    from cophenet.paper.item import Item
    from cophenet.recipes.recipe import Scale

__all__ = [
    "EPOCHS",
    "FEATURES_EVERY",
    "Settings",
    "VariantRuns",
    "check_settings",
    "epochs_of",
    "laptop_minutes",
    "plan_runs",
    "possible_items",
    "recipe_label",
    "recipes_of",
    "wanted",
]

# Largest number of seeds by scale: a run from scratch costs as much as fifteen runs on vectors.
_MOST_SEEDS = {"paper": 3, "scratch": 3, "laptop": 5}
EPOCHS = ("epochs",)
# Epochs between saved features, for studies; this affects neither the training nor the name of a run.
_SAVED = {"paper": 20, "scratch": 1, "laptop": 5}
FEATURES_EVERY = "save_features_every"
# Minutes per epoch and per evaluation on one core. With a frozen backbone, without computing its vectors:
# CIFAR and glosses from the processor time of runs on a busy machine; the others estimated from these by
# their number of images. From scratch, CIFAR-100: from real runs (epochs of 10.6 s at best); CIFAR-10 has the
# same network and as many images. The others: from images per second of the best steps on made-up files (as
# in benchmarks/reproduce_costs.py), in wall-clock time on busy cores, and so rather too high: a CIFAR-100
# step took 2.8 times as long there as in real runs.
_MINUTES = {
    "cifar10": {"laptop": (0.006, 0.03), "scratch": (0.18, 0.33)},
    "cifar100": {"laptop": (0.014, 0.03), "scratch": (0.18, 0.33)},
    "glosses": {"laptop": (0.023, 0.07)},
    "inat21-mini": {"laptop": (0.6, 6.0), "scratch": (21.6, 18.6)},
    "living17": {"laptop": (0.05, 0.4), "scratch": (2.0, 1.3)},
    "nonliving26": {"laptop": (0.08, 0.6), "scratch": (3.0, 2.0)},
    "entity13": {"laptop": (0.35, 2.5), "scratch": (7.6, 5.1)},
    "entity30": {"laptop": (0.32, 2.3), "scratch": (7.0, 4.7)},
}


@dataclass(frozen=True)
class Settings:
    """How items are reproduced.

    Attributes:
        scale: Size of the experiments.
        recipes: Recipes to use instead of the paper's data; empty for the paper's.
        seeds: Seeds to use instead of those of the items; empty for theirs.
        overrides: Settings changed in every recipe.
    """

    scale: Scale
    recipes: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    overrides: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class VariantRuns:
    """The runs of a variant on a recipe, one for each seed.

    Attributes:
        recipe_name: The recipe it starts from.
        variant: What is changed.
        recipe: All settings; `of_seed` sets the seed.
        name: Folder of the runs, the same for the same settings.
        seeds: The wanted seeds.
    """

    recipe_name: str
    variant: Variant
    recipe: Recipe
    name: str
    seeds: tuple[int, ...]

    def path(self, folder: Path, seed: int) -> Path:
        """Folder of the run of a seed."""
        return folder / self.name / f"seed{seed}"

    def of_seed(self, seed: int) -> Recipe:
        """The recipe of one run."""
        return self.recipe.model_copy(update={"seeds": (seed,)})


def recipes_of(item: Item, settings: Settings) -> tuple[str, ...]:
    """The recipes to use for an item: its own that exist at the scale, or the given ones if it allows them.

    Example:
        >>> from cophenet.paper.items import find_items
        >>> items = find_items(("rank", "tree-depth"))
        >>> [recipes_of(item, Settings("laptop", ("digits",))) for item in items]
        [('digits',), ()]
    """
    if not settings.recipes:
        return tuple(name for name in item.recipes if name in _epochs(settings.scale))
    if item.fixed:
        return tuple(name for name in item.recipes if name in settings.recipes)
    return settings.recipes


def possible_items(
    items: Sequence[Item], settings: Settings, message: Callable[[str], None]
) -> tuple[Item, ...]:
    """Filter out items that are only meaningful on other recipes, with a message about each.

    Raises:
        ValueError: If none is left.

    Example:
        >>> from cophenet.paper.items import find_items
        >>> items = possible_items(find_items(("rank", "tree-depth")), Settings("laptop", ("digits",)), print)
        tree-depth: only on cifar100
        >>> [item.name for item in items]
        ['rank']
    """
    left = tuple(item for item in items if not item.fixed or recipes_of(item, settings))
    lines = [f"{item.name}: only on {', '.join(item.recipes)}" for item in items if item not in left]
    if not left:
        raise ValueError(f"{'; '.join(lines)}: leave out --recipe")
    for line in lines:
        message(line)
    return left


def check_settings(items: Iterable[Item], settings: Settings) -> None:
    """Check that settings are valid, and that no item varies them itself.

    Args:
        items: The items to reproduce.
        settings: How to reproduce them.

    Raises:
        FileNotFoundError: If the file of a recipe does not exist.
        ValueError: If a recipe or setting is invalid, or an item varies it: its labels would be wrong.

    Example:
        >>> from cophenet.paper.items import find_items
        >>> check_settings(find_items(("batch-size",)), Settings("laptop", overrides=("epochs=6",)))
        >>> check_settings(find_items(("batch-size",)), Settings("laptop", overrides=("batch_size=256",)))
        Traceback (most recent call last):
        ValueError: --set batch_size=256: batch-size varies batch_size itself, leave out one of the two
    """
    used = {item: recipes_of(item, settings) for item in items}
    for name in dict.fromkeys((*settings.recipes, *(name for names in used.values() for name in names))):
        recipe = load_recipe(name, settings.scale, settings.overrides)
        if name in settings.recipes and recipe.data.domain == "full":
            whole = f"{name} trains on all classes, and items show source and target"
            raise ValueError(f"--recipe {name}: {whole}; for your own data use `cophenet study`")
    given = {text: parse_override(text)[0] for text in settings.overrides}
    for text, keys in given.items():
        if keys == ("seeds",):
            raise ValueError(f"--set {text}: give --seeds instead")
        for item, recipes in used.items():
            varied = {key for name in recipes for key in _varied(item.variants(name, settings.scale))}
            for key in sorted(varied):
                # Also refuse a group of settings with a varied one in it, and a setting in a varied group.
                if key[: len(keys)] == keys[: len(key)]:
                    raise ValueError(
                        f"--set {text}: {item.name} varies {'.'.join(key)} itself, leave out one of the two"
                    )


def _varied(variants: Iterable[Variant]) -> set[tuple[str, ...]]:
    """Keys of the settings in which variants differ; rows are labelled by their values."""
    changed = [dict(parse_override(text) for text in variant.overrides) for variant in variants]
    keys = {key for settings in changed for key in settings}
    different = {key for key in keys if len({repr(settings.get(key)) for settings in changed}) > 1}
    return {("objective", "name"), *different} if changed else set()


def wanted(item: Item, settings: Settings) -> list[tuple[str, Variant, tuple[int, ...]]]:
    """Recipe, variant and seeds of all runs that an item needs; fast, because no recipe is read.

    Example:
        >>> from cophenet.paper.items import find_items
        >>> (rank,) = find_items(("rank",))
        >>> [(variant.objective, len(seeds)) for _, variant, seeds in wanted(rank, Settings("laptop"))]
        [('flat', 5), ('rank', 5), ('rank', 3)]
    """
    entries = []
    for recipe in recipes_of(item, settings):
        for variant in item.variants(recipe, settings.scale):
            usual = min(variant.seeds, _MOST_SEEDS[settings.scale])
            if settings.scale == "paper" and variant.control:
                usual = 1
            entries.append((recipe, variant, settings.seeds or tuple(range(usual))))
    return entries


def epochs_of(
    entries: Iterable[tuple[str, Variant, tuple[int, ...]]], scale: Scale, overrides: Sequence[str] = ()
) -> int:
    """Total number of epochs of runs; curricula are counted like other objectives.

    Args:
        entries: Recipe, variant and seeds, as returned by `wanted`.
        scale: Size of the experiments.
        overrides: Settings changed in every recipe.
    """
    usual = _epochs(scale)
    total = 0
    for recipe, variant, seeds in entries:
        changed = dict(parse_override(text) for text in (*variant.overrides, *overrides))
        epochs = changed.get(EPOCHS)
        if epochs is None:
            epochs = usual[recipe] if recipe in usual else load_recipe(recipe, scale).epochs
        total += len(seeds) * int(epochs)
    return total


def laptop_minutes(
    entries: Iterable[tuple[str, Variant, tuple[int, ...]]],
    overrides: Sequence[str] = (),
    scale: Scale = "laptop",
) -> float | None:
    """Total minutes to train and evaluate runs one after the other on one core.

    All variants of a recipe are assumed to cost the same as its own objective.

    Args:
        entries: Recipe, variant and seeds, as returned by `wanted`.
        overrides: Settings changed in every recipe; only the number of epochs matters.
        scale: Size of the experiments: "scratch"; anything else counts as "laptop".

    Returns:
        The minutes; None if a recipe is not one of the paper's.

    Example:
        >>> from cophenet.paper.items import find_items
        >>> (rank,) = find_items(("rank",))
        >>> 4 < laptop_minutes(wanted(rank, Settings("scratch")), scale="scratch") < 40
        True
    """
    scale = "scratch" if scale == "scratch" else "laptop"
    total = 0.0
    for recipe, variant, seeds in entries:
        minutes = _MINUTES.get(recipe, {}).get(scale)
        if minutes is None:
            return None
        epochs = epochs_of([(recipe, variant, seeds)], scale, overrides)
        total += epochs * minutes[0] + len(seeds) * minutes[1]
    return total


def plan_runs(item: Item, settings: Settings) -> list[VariantRuns]:
    """All runs that an item needs, with resolved recipes.

    Raises:
        ValueError: If a recipe or an override is invalid, or conflicts with the changes of a variant.
    """
    return [
        _resolved(recipe, variant, seeds, settings.scale, settings.overrides)
        for recipe, variant, seeds in wanted(item, settings)
    ]


@cache
def _epochs(scale: str) -> dict[str, int]:
    return {line.name: line.epochs for line in list_recipes() if line.scale == scale}


@cache
def _dump(recipe: str, scale: Scale) -> dict[str, Any]:
    return load_recipe(recipe, scale).model_dump(mode="json")


def _resolved(
    name: str, variant: Variant, seeds: tuple[int, ...], scale: Scale, more: tuple[str, ...]
) -> VariantRuns:
    changes = tuple(dict.fromkeys((*variant.overrides, *more)))
    # An override that only repeats the recipe does not make a different run.
    plain = _dump(name, scale)
    whole = apply_overrides(plain, changes)
    changing = [o for o in changes if apply_overrides(plain, (c for c in changes if c != o)) != whole]
    saved = 0 if set(changing) & set(variant.overrides) else _SAVED[scale]
    base = (f"objective.name={variant.objective}", f"{FEATURES_EVERY}={saved}", "seeds=[0]")
    try:
        recipe = load_recipe(name, scale, (*base, *changes))
    except ValueError as error:
        about = ", ".join(filter(None, (variant.objective, setting_text(variant.setting))))
        # Only the problem: the whole message also names settings that the user did not give.
        problem = error.problem if isinstance(error, RecipeError) else error
        raise ValueError(f"{about} on {name}: {problem}") from error
    folder = f"{_runs_prefix(name)}-{scale}-{variant.objective}"
    if changing:
        # The name depends on settings only, not on labels of an item, so that items share equal runs.
        folder += f"-{'shuffled' if variant.control else _words(changing)}-{_digest(changing)}"
    return VariantRuns(name, variant, recipe, folder, seeds)


def _words(overrides: Sequence[str]) -> str:
    """Changed settings as a part of a name: "batch_size-64" for "batch_size=64", cut at 40 characters."""
    parts = (override.partition("=") for override in overrides)
    short = sorted(f"{key.rpartition('.')[2]}-{value}" for key, _, value in parts)
    return re.sub(r"[^A-Za-z0-9_.]+", "-", "-".join(short))[:40].strip("-")


def recipe_label(recipe: str) -> str:
    """Name of a recipe; for a file, its name without folder and ending.

    Example:
        >>> recipe_label("cifar100"), recipe_label("mine/new.yaml")
        ('cifar100', 'new')
    """
    return Path(recipe).stem if recipe.endswith((".yaml", ".yml")) else recipe


def _runs_prefix(name: str) -> str:
    """The prefix of run names; for a file it has a digest of the content, as files may share a name."""
    if name in recipe_names():
        return name
    content = json.dumps(parse_yaml(read_text(name, RECIPE_BYTES)), sort_keys=True, default=str)
    return f"{Path(name).stem}-{_digest([content])}"


def _digest(overrides: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(sorted(overrides)).encode()).hexdigest()[:6]
