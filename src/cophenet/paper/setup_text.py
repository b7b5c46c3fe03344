"""What was trained for an item, in a sentence for each recipe, with what the paper trained beside."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from cophenet.paper.items import Item
from cophenet.paper.plan import VariantRuns
from cophenet.paper.variants import DISTANCES
from cophenet.recipes import Recipe, load_recipe, recipe_names
from cophenet.runs import Run

__all__ = ["setup_sentences"]


def setup_sentences(
    item: Item, planned: Sequence[VariantRuns], done: Iterable[str], folder: Path
) -> list[str]:
    """One sentence for each recipe that has finished runs.

    Args:
        item: What is reproduced.
        planned: Its runs.
        done: Names of the finished runs.
        folder: Where runs are stored.
    """
    finished = set(done)
    sentences = []
    for name in dict.fromkeys(runs.recipe_name for runs in planned):
        trained = [
            (runs, runs.path(folder, seed))
            for runs in planned
            for seed in runs.seeds
            if runs.recipe_name == name and f"{runs.name}/seed{seed}" in finished
        ]
        if trained:
            here = _described([runs.recipe for runs, _ in trained])
            there = _described(_paper_recipes(item, name))
            paper = f" (paper: {there})" if there and there != here else ""
            sentences.append(f"{Path(name).stem}: {here}{_samples(path for _, path in trained)}{paper}.")
    return sentences


def _described(recipes: Sequence[Recipe]) -> str:
    if not recipes:
        return ""
    weights = [f"{r.objective.cpcc.weight:g}" for r in recipes if r.objective.name in DISTANCES]
    parts = [
        _listed(recipe.model.backbone for recipe in recipes),
        f"{_listed(recipe.epochs for recipe in recipes)} epochs",
        f"batch {_listed(recipe.batch_size for recipe in recipes)}",
    ]
    if weights:
        parts.append(f"weight {_listed(weights)}")
    return ", ".join(parts)


def _listed(values: Iterable[Any]) -> str:
    """Different values, in the order of the variants: "64", "64 and 128" or "64, 128 and 512"."""
    known = [str(value) for value in dict.fromkeys(values)]
    return known[0] if len(known) == 1 else f"{', '.join(known[:-1])} and {known[-1]}"


def _samples(paths: Iterable[Path]) -> str:
    counts = (Run(path).info.get("samples", {}).get("train", {}).get("count") for path in paths)
    known = [f"{count:,}" for count in counts if count is not None]
    return f", {_listed(known)} training samples" if known else ""


def _paper_recipes(item: Item, name: str) -> list[Recipe]:
    """The paper's own recipes of an item; none for data that the paper does not have."""
    if name not in recipe_names():
        return []
    try:
        load_recipe(name, "paper")
    except ValueError:
        return []
    recipes = []
    for variant in item.variants(name, "paper"):
        # Fewer epochs, where times are measured, are ours.
        own = (override for override in variant.overrides if not override.startswith("epochs="))
        recipes.append(load_recipe(name, "paper", (f"objective.name={variant.objective}", *own)))
    return recipes
