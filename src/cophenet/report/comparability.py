"""Whether numbers are comparable: runs on the same test data, and runs in the setup of published numbers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from cophenet.recipes.load import flatten

if TYPE_CHECKING:
    from cophenet.runs.run import Run

__all__ = ["Setup", "compare_setup", "data_identity", "data_labels"]

# Sections of a recipe that define what is measured: if any is changed, the paper has no comparable number.
_MEANING = ("data", "tree", "objective")
# Settings that do not affect results, or not their meaning.
_FREE = {"name", "scale", "summary", "seeds", "chunk_size", "save_features_every"}
_FREE |= {"data.workers", "evaluation.batch_size"}


def data_identity(run: Run) -> dict[str, Any]:
    """Identity of the data a run was tested on: name, folder, and an id of its samples and classes."""
    settings, info = run.recipe.data, run.parts[0].info
    content = [
        settings.name,
        settings.options,
        settings.domain,
        settings.validation,
        info.get("samples", {}).get("test"),
        sorted(run.tree.classes),
    ]
    digest = hashlib.sha256(json.dumps(content, default=str).encode()).hexdigest()
    classes = "all" if settings.domain == "full" else settings.domain
    part = "validation" if settings.validation else "test"
    return {
        "data": settings.name,
        "data_dir": info.get("data_dir"),
        "data_part": f"{classes} classes, {part} samples",
        "data_id": digest[:16],
    }


def data_labels(described: Sequence[Mapping[str, Any]]) -> list[str]:
    """A label for the data of each run: the name, with a detail where different data have the same name.

    Args:
        described: Mappings as returned by `data_identity`; without an id, only the name is compared.

    Example:
        >>> one = {"data": "folder", "data_dir": "/pets", "data_id": "4b1d09"}
        >>> data_labels([one, {**one, "data_dir": "/cars", "data_id": "77aa00"}])
        ['folder in /pets', 'folder in /cars']
        >>> data_labels([one, {**one, "data_dir": "/moved"}, {"data": "digits"}])
        ['folder', 'folder', 'digits']
        >>> parts = ({"data_id": part, "data_part": f"{part} samples"} for part in ("test", "validation"))
        >>> data_labels([{**one, **part} for part in parts])
        ['folder, test samples', 'folder, validation samples']
    """
    first: dict[tuple[str, str], Mapping[str, Any]] = {}
    for one in described:
        first.setdefault(_identity(one), one)
    labels = {}
    for (name, key), one in first.items():
        others = [other for (its, _), other in first.items() if its == name and other is not one]
        folder, part = one.get("data_dir"), one.get("data_part")
        if not others:
            labels[name, key] = name
        elif folder and all(other.get("data_dir") != folder for other in others):
            labels[name, key] = f"{name} in {folder}"
        elif part and all(other.get("data_part") != part for other in others):
            labels[name, key] = f"{name}, {part}"
        else:
            labels[name, key] = f"{name} #{key[:8]}" + f" in {folder}" * bool(folder)
    return [labels[_identity(one)] for one in described]


def _identity(described: Mapping[str, Any]) -> tuple[str, str]:
    return described["data"], described.get("data_id", "")


@dataclass(frozen=True)
class Setup:
    """Settings of a run that differ from the built-in recipe of its data, objective and scale.

    Attributes:
        other: Changes of data, tree or objective, for which the paper has no comparable number.
        changed: Changes of training and evaluation.
    """

    other: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()


def compare_setup(result: Mapping[str, Any]) -> Setup:
    """Compare the settings of a run on data of the paper with those of the built-in recipe.

    Args:
        result: Content of `results.json`; without a recipe, no differences are returned.

    Example:
        >>> from cophenet.recipes import load_recipe
        >>> recipe = load_recipe("cifar100", overrides=["epochs=2", "tree.shuffle_seed=1"])
        >>> run = {"data": "cifar100", "objective": "fastft", "scale": "laptop"}
        >>> compare_setup({**run, "recipe": recipe.model_dump(mode="json")})
        Setup(other=('tree.shuffle_seed is 1, not null',), changed=('epochs is 2, not 15',))
    """
    if not result.get("recipe"):
        return Setup()
    objective = result["objective"]
    shipped = _shipped(result["data"], result["scale"], objective)
    used = _counted(result["recipe"], objective)
    other: list[str] = []
    changed: list[str] = []
    for key in dict.fromkeys((*shipped, *used)):
        if shipped.get(key) != used.get(key):
            text = f"{key} is {json.dumps(used.get(key))}, not {json.dumps(shipped.get(key))}"
            (other if key.partition(".")[0] in _MEANING else changed).append(text)
    return Setup(tuple(other), tuple(changed))


@cache
def _shipped(data: str, scale: Any, objective: str) -> Mapping[str, Any]:
    from cophenet.recipes.load import load_recipe

    recipe = load_recipe(data, scale, [f"objective.name={objective}"])
    return _counted(recipe.model_dump(mode="json"), objective)


def _counted(recipe: Mapping[str, Any], objective: str) -> dict[str, Any]:
    """The settings to compare by dotted key, without empty ones; options of the chosen objective only."""
    options = {objective: recipe["objective"]["options"].get(objective)}
    flat = flatten({**recipe, "objective": {**recipe["objective"], "options": options}})
    return {key: value for key, value in flat.items() if value not in (None, {}) and key not in _FREE}
