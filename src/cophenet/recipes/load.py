"""Read recipes: by name or from YAML files, at a scale, with overrides.

A file contains one recipe; or recipes by scale under the keys `paper`, `scratch` and `laptop`. All but the
first of them contain only the differences to it; null resets a setting of the first to its default.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from cophenet._common.checks import check_choice
from cophenet._common.limits import RECIPE_BYTES, read_text, reading
from cophenet._common.yaml_files import parse_yaml
from cophenet.recipes.errors import keys_involved, recipe_error
from cophenet.recipes.recipe import SCALES, Recipe, Scale

__all__ = [
    "Override",
    "RecipeLine",
    "apply_overrides",
    "flatten",
    "list_recipes",
    "load_recipe",
    "parse_override",
    "recipe_names",
    "scales_of",
]

_FOLDER = Path(__file__).parent / "files"


@dataclass(frozen=True)
class Override:
    """A setting that replaces one of a recipe.

    Attributes:
        keys: Path of its key.
        value: The new value.
        text: As written by the user, for messages.
        option: The command line option that it was given with.
    """

    keys: tuple[str, ...]
    value: Any
    text: str
    option: str = "--set"


@dataclass(frozen=True)
class RecipeLine:
    """Summary of a built-in recipe.

    Attributes:
        name: The name to load it by.
        scale: One of its scales.
        summary: One line about it.
        data: Name of the data set.
        backbone: Name of the backbone.
        epochs: Passes over the training data.
    """

    name: str
    scale: Scale
    summary: str
    data: str
    backbone: str
    epochs: int


def recipe_names() -> tuple[str, ...]:
    """Names of the built-in recipes.

    Example:
        >>> "cifar100" in recipe_names()
        True
    """
    return tuple(sorted(file.stem for file in _FOLDER.glob("*.yaml")))


def scales_of(name_or_path: str | Path) -> tuple[Scale, ...]:
    """The scales of a recipe; empty if it has none.

    Example:
        >>> scales_of("cifar100"), scales_of("digits")
        (('paper', 'scratch', 'laptop'), ('laptop',))
    """
    document = _read(_find(name_or_path))
    return tuple(known for known in SCALES if known in document)


def list_recipes() -> tuple[RecipeLine, ...]:
    """The built-in recipes, at every scale that they have; fast, because nothing is validated.

    Example:
        >>> [(line.scale, line.epochs) for line in list_recipes() if line.name == "entity30"]
        [('paper', 300), ('scratch', 12), ('laptop', 15)]
    """
    lines = []
    for name in recipe_names():
        document = _read(_FOLDER / f"{name}.yaml")
        for scale in (known for known in SCALES if known in document):
            settings = _at_scale(document, scale)
            summary, data, model = settings["summary"], settings["data"], settings["model"]
            line = RecipeLine(name, scale, summary, data["name"], model["backbone"], settings["epochs"])
            lines.append(line)
    return tuple(lines)


def load_recipe(
    name_or_path: str | Path,
    scale: Scale | None = None,
    overrides: Sequence[str | Override] = (),
    *,
    trust: bool = True,
) -> Recipe:
    """Read and check a recipe.

    Args:
        name_or_path: A name from `recipe_names`, or a YAML file.
        scale: "paper"; "laptop", for images a frozen backbone with pretrained weights; or "scratch", a small
            network from random weights. None for the first of "laptop", "scratch" and "paper" in the file, or
            for its only recipe.
        overrides: Settings to replace, as "optimizer.lr=0.05".
        trust: Whether user code that the recipe names may run; False for the file of somebody else, such as
            that of a run folder. Reading a recipe never imports such code.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If a name, key, value or combination is invalid; the message names the file or override,
            the key, and the allowed values.

    Example:
        >>> load_recipe("cifar100", "paper", ["optimizer.lr=0.05"]).optimizer.lr
        0.05
    """
    path = _find(name_or_path)
    document = _read(path)
    try:
        settings = _at_scale(document, scale)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    settings.setdefault("name", path.stem)
    given = [_as_override(override) for override in overrides]
    if ("scale",) in (override.keys for override in given):
        raise ValueError("--set scale would keep the settings of the other scale: give --scale instead")
    try:
        context = None if trust else {"untrusted": path.parent}
        return Recipe.model_validate(apply_overrides(settings, given), context=context)
    except ValidationError as error:
        involved = keys_involved(error)
        causes = [override for override in given if any(_touch(override.keys, key) for key in involved)]
        if not causes:
            raise recipe_error(error, Recipe, str(path), also=SCALES) from error
        raise recipe_error(error, Recipe, _sources(causes)) from error


def _touch(keys: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether one of two keys is equal to the other or inside it."""
    shorter = min(len(keys), len(other))
    return shorter > 0 and keys[:shorter] == other[:shorter]


def _sources(overrides: Sequence[Override]) -> str:
    """Overrides as written by the user, with each option, such as `--set`, once."""
    texts: dict[str, list[str]] = {}
    for override in overrides:
        texts.setdefault(override.option, []).append(override.text)
    return " ".join(f"{option} {' '.join(written)}" for option, written in texts.items())


def _at_scale(document: Mapping[str, Any], scale: Scale | None) -> dict[str, Any]:
    """The settings of one scale of a file."""
    if scale is not None:
        check_choice("scale", scale, SCALES)
    has = [known for known in SCALES if known in document]
    if not has:
        if scale is not None and document.get("scale", scale) != scale:
            raise ValueError(f"this recipe has scale {document['scale']!r}, not {scale!r}")
        return {**document} if scale is None else {**document, "scale": scale}
    scale = scale or has[-1]
    if scale not in has:
        raise ValueError(f"there is no {scale!r} scale, only {', '.join(has)}")
    for known in has:
        if not isinstance(document[known], Mapping):
            raise ValueError(f"{known} must be a mapping of keys to values, got {document[known]!r}")
    rest = {key: value for key, value in document.items() if key not in SCALES}
    for known in dict.fromkeys((has[0], scale)):
        rest = _merge(rest, document[known])
    return {**rest, "scale": scale}


def _find(name_or_path: str | Path) -> Path:
    text = str(name_or_path)
    if isinstance(name_or_path, Path) or text.endswith((".yaml", ".yml")) or "/" in text:
        path = Path(name_or_path)
        if not path.is_file():
            raise FileNotFoundError(
                f"recipe {text!r} is no file; recipes by name: {', '.join(recipe_names())}"
            )
        return path
    check_choice("recipe", text, recipe_names())
    return _FOLDER / f"{text}.yaml"


def _read(path: Path) -> dict[str, Any]:
    with reading(path, "a recipe"):
        document = _parse(read_text(path, RECIPE_BYTES))
        if not isinstance(document, dict) or not all(isinstance(key, str) for key in document):
            raise ValueError("a recipe must be a mapping of keys to values")
    return document


@lru_cache(maxsize=1024)
def _parse(text: str) -> Any:
    """Parse a file or an override, cached because texts often repeat; the result must not be modified."""
    return parse_yaml(text)


def parse_override(text: str) -> tuple[tuple[str, ...], Any]:
    """Parse an override into keys and value; the value is YAML, so numbers and lists have their types.

    Raises:
        ValueError: If there is no key, no `=`, or the value is not YAML.

    Example:
        >>> parse_override("optimizer.lr=5e-2")
        (('optimizer', 'lr'), 0.05)
        >>> parse_override("optimizer.lr")
        Traceback (most recent call last):
        ValueError: --set 'optimizer.lr' must read key=value, as optimizer.lr=0.05 does
    """
    path, equals, value = text.partition("=")
    keys = tuple(key.strip() for key in path.split("."))
    if not equals or not all(keys):
        raise ValueError(f"--set {text!r} must read key=value, as optimizer.lr=0.05 does")
    try:
        return keys, _parse(value)
    except ValueError as error:
        raise ValueError(f"--set {text!r}: the value is no YAML: {error}") from error


def _as_override(given: str | Override) -> Override:
    return Override(*parse_override(given), given) if isinstance(given, str) else given


def apply_overrides(settings: Mapping[str, Any], overrides: Iterable[str | Override]) -> dict[str, Any]:
    """Return the settings with overrides applied, the last one of a key wins; nothing is validated here.

    Raises:
        ValueError: If an override is malformed or goes below a value that is not a mapping.

    Example:
        >>> apply_overrides({"optimizer": {"name": "sgd", "lr": 0.1}}, ["optimizer.lr=0.05"])
        {'optimizer': {'name': 'sgd', 'lr': 0.05}}
    """
    result = copy.deepcopy(dict(settings))
    for override in map(_as_override, overrides):
        keys = override.keys
        place: dict[Any, Any] = result
        for depth, key in enumerate(keys[:-1], start=1):
            present = _same_key(place, key)
            if place.get(present) is None:
                place[present] = {}
            place = place[present]
            if not isinstance(place, dict):
                path = ".".join(keys[:depth])
                raise ValueError(f"{_sources([override])}: {path} is one value, it has no keys")
        # A copy, because a later override may change a part of it.
        place[_same_key(place, keys[-1])] = copy.deepcopy(override.value)
    return result


def _merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Merge `over` into the base: mappings key by key, nulls remove the key, other values replace it.

    Example:
        >>> _merge({"epochs": 200, "data": {"name": "digits", "workers": 8}}, {"data": {"workers": None}})
        {'epochs': 200, 'data': {'name': 'digits'}}
    """
    result = dict(base)
    for key, value in over.items():
        both = isinstance(value, Mapping) and isinstance(result.get(key), Mapping)
        result[key] = _merge(result[key], value) if both else value
    return {key: value for key, value in result.items() if over.get(key, value) is not None}


def flatten(settings: Mapping[Any, Any], above: str = "") -> dict[str, Any]:
    """Flatten nested settings to one mapping, with keys as in overrides.

    Example:
        >>> flatten({"optimizer": {"lr": 0.1}, "epochs": 3, "tree": {}})
        {'optimizer.lr': 0.1, 'epochs': 3, 'tree': {}}
    """
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        inside = isinstance(value, Mapping) and value
        flat.update(flatten(value, f"{above}{key}.") if inside else {f"{above}{key}": value})
    return flat


def _same_key(mapping: Mapping[Any, Any], key: str) -> Any:
    """The key as it is in the mapping, where levels of a tree may be numbers."""
    return next((known for known in mapping if str(known) == key), key)
