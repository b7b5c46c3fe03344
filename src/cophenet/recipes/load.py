"""A recipe: everything an experiment needs to know, from a YAML file, checked.

A file holds one recipe; or recipes by scale under the keys `paper` and `laptop`, the second then giving
only what differs from the first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import Field, ValidationError, model_validator

from cophenet._common.checks import check_choice
from cophenet._common.yaml_text import dump_yaml, parse_yaml
from cophenet.recipes.checks import check_combinations
from cophenet.recipes.errors import explain
from cophenet.recipes.names import check_backbone
from cophenet.recipes.options import build
from cophenet.recipes.overrides import apply_overrides, merge, parse_override
from cophenet.recipes.settings import (
    Count,
    DataSettings,
    EvaluationSettings,
    Listed,
    ModelSettings,
    ObjectiveSettings,
    OneShotSettings,
    OptimizerSettings,
    ScheduleSettings,
    Settings,
    TreeSettings,
)

if TYPE_CHECKING:
    from cophenet.objectives import Objective
    from cophenet.tree import Hierarchy

__all__ = ["Recipe", "RecipeLine", "Scale", "list_recipes", "load_recipe", "recipe_names"]

Scale = Literal["paper", "laptop"]
_FOLDER = Path(__file__).parent / "files"
_SCALES: tuple[Scale, ...] = get_args(Scale)
_Seeds = Annotated[
    tuple[Annotated[int, Field(ge=0)], ...],
    Field(min_length=1),
    Listed,
]


class Recipe(Settings):
    """All settings of an experiment, immutable.

    Attributes:
        name: What to call it.
        scale: Whether it has the paper's size or one for a laptop.
        summary: One line about it.
        data: What is trained on.
        tree: How the tree is changed.
        model: The backbone.
        objective: The loss.
        optimizer: How weights are updated.
        schedule: The learning rate over the epochs; None for a constant one.
        epochs: Passes over the training data, unless the objective has phases of its own.
        batch_size: Samples per step, on all devices together.
        chunk_size: Samples whose graph is in memory at a time, on each device; None for the whole batch.
        precision: Number format of the training, by Lightning's names.
        one_shot: The transfer to the target classes; None for data whose domains share their classes.
        evaluation: How the trained model is measured.
        save_features_every: Epochs between two saves of the test features; 0 for only at the end.
        seeds: One run for each.
    """

    name: str
    scale: Scale = "laptop"
    summary: str = ""
    data: DataSettings
    tree: TreeSettings = TreeSettings()
    model: ModelSettings
    objective: ObjectiveSettings = Field(default_factory=ObjectiveSettings)
    optimizer: OptimizerSettings
    schedule: ScheduleSettings | None = None
    epochs: Count
    batch_size: Annotated[int, Field(ge=2)]
    chunk_size: Count | None = None
    precision: Literal["32-true", "bf16-mixed", "16-mixed"] = "32-true"
    one_shot: OneShotSettings | None = None
    evaluation: EvaluationSettings = EvaluationSettings()
    save_features_every: Annotated[int, Field(ge=0)] = 0
    seeds: _Seeds = (0,)

    @model_validator(mode="after")
    def _check(self) -> Recipe:
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"seeds must differ, got {list(self.seeds)}")
        check_backbone(self.model.backbone, self.model.options, self.data.image_size)
        check_combinations(self)
        return self

    def to_yaml(self) -> str:
        """Every setting, defaults included, as a file that `load_recipe` reads."""
        return dump_yaml(self.model_dump())

    def create_objective(self, tree: Hierarchy) -> Objective:
        """The objective on a tree.

        Example:
            >>> from cophenet import Hierarchy
            >>> tree = Hierarchy.from_paths([("pet", "cat"), ("pet", "dog"), ("car", "bus"), ("car", "van")])
            >>> load_recipe("cifar100", "paper").create_objective(tree).criterion.weight
            1.0
        """
        from cophenet.objectives import create
        from cophenet.objectives.registry import objective_class

        name, options = self.objective.name, self.objective.options.get(self.objective.name, {})
        shared = self.objective.cpcc.model_dump() if objective_class(name) is None else {}
        return build(f"objective.options.{name}", partial(create, name, tree, **shared), options)


@dataclass(frozen=True)
class RecipeLine:
    """A recipe that comes with the library, in short.

    Attributes:
        name: The name it is loaded by.
        scale: One of its scales.
        summary: What it is about.
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
    """Names of the recipes that come with the library.

    Example:
        >>> "cifar100" in recipe_names()
        True
    """
    return tuple(sorted(file.stem for file in _FOLDER.glob("*.yaml")))


def list_recipes() -> tuple[RecipeLine, ...]:
    """The recipes that come with the library, at every scale they have; quick, as nothing is checked.

    Example:
        >>> [(line.scale, line.epochs) for line in list_recipes() if line.name == "entity30"]
        [('paper', 300), ('laptop', 12)]
    """
    found = []
    for name in recipe_names():
        document = _read(_FOLDER / f"{name}.yaml")
        for scale in (known for known in _SCALES if known in document):
            settings = _at_scale(document, scale)
            summary, data, model = settings["summary"], settings["data"], settings["model"]
            line = RecipeLine(name, scale, summary, data["name"], model["backbone"], settings["epochs"])
            found.append(line)
    return tuple(found)


def load_recipe(
    name_or_path: str | Path, scale: Scale | None = None, overrides: Sequence[str] = ()
) -> Recipe:
    """Read and check a recipe.

    Args:
        name_or_path: A name of `recipe_names`, or a YAML file.
        scale: "paper" or "laptop"; None for the laptop's, or the only one of the file.
        overrides: Settings to replace, as "optimizer.lr=0.05".

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If a name, key, value or combination is wrong; names the file or override, the key, and
            what is allowed.

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
    recipe = _validated(settings, str(path))
    if not overrides:
        return recipe
    given = [(text, parse_override(text)[0]) for text in overrides]
    if ("scale",) in (keys for _, keys in given):
        raise ValueError("--set scale would keep the settings of the other scale: give --scale instead")
    try:
        return Recipe.model_validate(apply_overrides(recipe.model_dump(), overrides))
    except ValidationError as error:
        texts = [text for text, keys in given if _touches(error, keys)] or list(overrides)
        raise ValueError(explain(error, Recipe, f"--set {' '.join(texts)}")) from error


def _touches(error: ValidationError, keys: tuple[str, ...]) -> bool:
    places = [tuple(map(str, problem["loc"])) for problem in error.errors()]
    # What is wrong with a recipe as a whole begins with the key.
    places += [tuple(p["msg"].split()[2].split(".")) for p in error.errors() if p["type"] == "value_error"]
    return any(place[: len(keys)] == keys or keys[: len(place)] == place != () for place in places)


def _validated(settings: Mapping[str, Any], where: str) -> Recipe:
    try:
        return Recipe.model_validate(settings)
    except ValidationError as error:
        raise ValueError(explain(error, Recipe, where, also=_SCALES)) from error


def _at_scale(document: Mapping[str, Any], scale: Scale | None) -> dict[str, Any]:
    """The settings of one scale of a file."""
    if scale is not None:
        check_choice("scale", scale, _SCALES)
    has = [known for known in _SCALES if known in document]
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
    rest = {key: value for key, value in document.items() if key not in _SCALES}
    sections = [document[known] for known in has[: has.index(scale) + 1]]
    for section in sections:
        rest = merge(rest, section)
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
    try:
        document = parse_yaml(path.read_bytes().decode("utf-8-sig"))
        if not isinstance(document, dict) or not all(isinstance(key, str) for key in document):
            raise ValueError("a recipe must be a mapping of keys to values")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 text") from error
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    return document
