"""What was trained for an item, in a sentence for each recipe, with what the paper trained beside."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from cophenet.paper.items import Item
from cophenet.paper.plan import ArmRuns
from cophenet.paper.variants import DISTANCES
from cophenet.recipes import Recipe, load_recipe, recipe_names
from cophenet.runs import Run

__all__ = ["setup_sentences", "with_setup"]


def setup_sentences(item: Item, arms: Sequence[ArmRuns], done: Iterable[str], folder: Path) -> list[str]:
    """One sentence for each recipe that has finished runs.

    Args:
        item: What is reproduced.
        arms: Its arms.
        done: Names of the finished runs.
        folder: Where runs are stored.
    """
    finished = set(done)
    sentences = []
    for name in dict.fromkeys(arm.recipe_name for arm in arms):
        runs = [
            (arm, arm.path(folder, seed))
            for arm in arms
            for seed in arm.seeds
            if arm.recipe_name == name and f"{arm.name}/seed{seed}" in finished
        ]
        if runs:
            here = _described([arm.recipe for arm, _ in runs])
            there = _described(_paper_recipes(item, name))
            paper = f" (paper: {there})" if there and there != here else ""
            sentences.append(f"{Path(name).stem}: {here}{_samples(path for _, path in runs)}{paper}.")
    return sentences


def with_setup(table: dict[str, Any], sentences: Sequence[str]) -> dict[str, Any]:
    """A table that has published numbers, with what was trained in its notes; another as it is."""
    cells = (cell for row in table["rows"] for cell in row if isinstance(cell, dict))
    if not any(cell["paper"] for cell in cells):
        return table
    return {**table, "notes": [*table["notes"], *sentences]}


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
    """Different values, in the order of the arms: "64", "64 and 128" or "64, 128 and 512"."""
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
    return [
        # Fewer epochs, where times are measured, are ours.
        load_recipe(
            name,
            "paper",
            (f"objective.name={arm.objective}", *(o for o in arm.overrides if not o.startswith("epochs="))),
        )
        for arm in item.arms(name, "paper")
    ]
