"""Schemas of the JSON files in a run folder, validated on reading: the folder may be untrusted."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, Field, Strict, TypeAdapter, ValidationError
from typing_extensions import NotRequired, TypedDict

from cophenet._common.checks import is_plain_text
from cophenet._common.files import read_json
from cophenet._common.limits import reading
from cophenet.recipes.errors import wording
from cophenet.recipes.recipe import Scale
from cophenet.tree import Hierarchy

__all__ = ["Document", "details_tree", "read_details", "read_results", "read_run_info"]


def _must(what: str, test: Callable[[Any], object], shown: int = 200) -> AfterValidator:
    """Return a validator: if `test` fails, the error says what the value must do and shows it, cut."""

    def check(value: Any) -> Any:
        if not test(value):
            raise ValueError(f"must {what}, got {value!r:.{shown}}")
        return value

    return AfterValidator(check)


def _has_options(recipe: dict[str, Any]) -> bool:
    objective = recipe.get("objective")
    return not recipe or (isinstance(objective, dict) and isinstance(objective.get("options"), dict))


def _is_image(text: str) -> bool:
    return len(text) <= _MOST_IMAGE and bool(re.fullmatch(r"iVBORw0KGgo[A-Za-z0-9+/]*={0,2}", text))


_MOST_IMAGE = 50_000
_PNG = f"be a PNG file as base64, at most {_MOST_IMAGE} characters"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_DEVICES = re.compile(r"auto|-1|\d{1,4}( *, *\d{1,4}){0,255} *,? *")
_Text = Annotated[str, Strict(), _must("be text without control characters", is_plain_text)]
_Image = Annotated[str, Strict(), _must(_PNG, _is_image, shown=100)]
_Number = Annotated[float, Strict(), Field(allow_inf_nan=False)]
_Count = Annotated[int, Strict(), Field(ge=0, lt=2**63)]
_Seed = Annotated[int, Strict(), Field(ge=0, lt=2**63)]
_Flag = Annotated[bool, Strict()]
# Names passed to Lightning: no paths, no import strings.
_Name = Annotated[str, Strict(), _must("be a name of letters, digits and underscores", _NAME.fullmatch)]
_Devices = (
    Annotated[int, Strict(), Field(ge=-1, le=4096)]
    | Annotated[str, Strict(), _must("be 'auto', or numbers of devices with commas", _DEVICES.fullmatch)]
    | Annotated[list[_Count], Field(min_length=1, max_length=4096)]
)


class _Samples(TypedDict, total=False):
    count: _Count
    labels: _Text
    inputs: _Text


class _Kept(TypedDict):
    """The epoch whose weights were selected, if the recipe has `stopping`."""

    epoch: _Count
    validation_accuracy: _Number


class _Info(TypedDict, total=False):
    """Content of `run.json`."""

    seed: _Seed
    seeds: Annotated[
        list[_Seed], Field(min_length=1), _must("differ", lambda seeds: len(set(seeds)) == len(seeds))
    ]
    finished: _Flag
    data_dir: _Text | None
    versions: dict[_Text, _Text]
    accelerator: _Name
    devices: _Devices
    strategy: _Name
    num_nodes: Annotated[_Count, Field(ge=1)]
    threads: Annotated[_Count, Field(ge=1, le=65536)]
    input_shape: Annotated[list[Annotated[_Count, Field(ge=1)]], Field(min_length=1, max_length=8)]
    samples: dict[_Text, _Samples]
    seconds_per_epoch: list[_Number | None]
    kept: _Kept | None


class _Metric(TypedDict):
    mean: _Number | None
    std: _Number | None
    values: list[_Number | None]


class _Results(TypedDict, total=False):
    """Content of `results.json`."""

    name: _Text
    recipe_name: _Text
    scale: Scale
    data: _Text
    objective: _Text
    recipe: Annotated[
        dict[str, Any], _must("be the settings of a recipe, with objective.options", _has_options)
    ]
    seeds: list[_Seed]
    levels: list[_Text]
    versions: dict[_Text, _Text]
    threads: _Count
    seconds_per_epoch: _Number | None
    epochs: _Count
    kept: list[_Kept]
    samples: dict[_Text, _Count]
    metrics: dict[_Text, _Metric]
    missing: dict[_Text, _Text]


class _Nodes(TypedDict):
    names: list[_Text]
    parents: list[Annotated[int, Strict()]]


class _Accuracy(TypedDict):
    accuracy: _Number | None
    samples: _Count


class _Mistake(TypedDict):
    index: _Count
    true: _Count
    predicted: _Count
    tree_distance: _Number
    probability: _Number
    file: NotRequired[_Text]
    image: NotRequired[_Image]


class _Details(TypedDict):
    """Content of `details.json`."""

    tree: _Nodes
    classes: list[_Text]
    levels: list[_Text]
    class_distances: dict[_Text, list[_Number | None]]
    node_prediction: NotRequired[_Text]
    confusion: list[Annotated[list[_Count], Field(min_length=3, max_length=3)]]
    node_accuracy: dict[_Text, _Accuracy]
    worst_mistakes: list[_Mistake]


class Document(dict[str, Any]):
    """A mapping read from a file; accessing a missing key raises an error that names the file.

    Args:
        path: The file.
        content: Content of the file.

    Example:
        >>> Document(Path("run.json"), {"seed": 0})["threads"]
        Traceback (most recent call last):
        ValueError: run.json has no 'threads': damaged, or of another version
    """

    def __init__(self, path: Path, content: dict[str, Any]) -> None:
        super().__init__(content)
        self.path = path

    def __missing__(self, key: str) -> Any:
        """Raise the error."""
        raise ValueError(f"{self.path} has no {key!r}: damaged, or of another version")


@cache
def _schema(kind: Any) -> TypeAdapter[Any]:
    """Return the cached validator of a type."""
    return TypeAdapter(kind)


def _read(path: Path, kind: type) -> Document:
    """Read and validate a file; keys may be missing, and unknown keys are ignored."""
    content = read_json(path)
    try:
        _schema(kind).validate_python(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(_place(content, first["loc"]))
        problem = "lacks a key" if first["type"] == "missing" else wording(first, BaseModel)
        if first["type"] == "value_error":
            problem = str(first["ctx"]["error"])
        raise ValueError(f"{path}: {key} {problem}") from error
    return Document(path, content)


def _place(content: Any, loc: Sequence[int | str]) -> Iterator[str]:
    """Yield the keys that lead to a problem, without the type names that pydantic adds for unions."""
    for part in loc:
        count = len(content) if isinstance(content, list) else 0
        if part not in (content if isinstance(content, dict) else range(count)):
            return
        yield str(part)
        content = content[part]


def read_run_info(path: Path) -> Document:
    """Read `run.json`: how a run was made.

    Raises:
        ValueError: If the content is invalid; the message names the file and the key.
    """
    return _read(path, _Info)


def read_results(path: Path) -> Document:
    """Read `results.json`: the results of an evaluation.

    Raises:
        ValueError: If the content is invalid; the message names the file and the key.
    """
    return _read(path, _Results)


def read_details(path: Path) -> Document:
    """Read `details.json`: the data of a report.

    Raises:
        ValueError: If the content is invalid or inconsistent; the message names the file.
    """
    details = _read(path, _Details)
    with reading(path):
        _check_details(details)
    return details


def details_tree(details: Mapping[str, Any]) -> Hierarchy:
    """Return the tree in `details.json`, with the same node numbers as in the file."""
    nodes = details["tree"]
    return Hierarchy.from_parents(
        nodes["parents"], nodes["names"], classes=details["classes"], level_names=details["levels"]
    )


def _check_details(details: Document) -> None:
    """Raise if the values do not match the tree in the same file."""
    tree = details_tree(details)
    count = tree.num_classes
    for name, distances in details["class_distances"].items():
        if len(distances) != count * (count - 1) // 2:
            raise ValueError(f"class_distances.{name} has {len(distances)} distances of {count} classes")
    for node in range(tree.num_nodes):
        if str(node) not in details["node_accuracy"]:
            raise ValueError(f"node_accuracy has no node {node}")
    for mistake in details["worst_mistakes"]:
        true, predicted = mistake["true"], mistake["predicted"]
        if max(true, predicted) >= count or true == predicted:
            raise ValueError(f"worst_mistakes has one of class {true} as {predicted}, of {count} classes")
    for true, predicted, _ in details["confusion"]:
        if max(true, predicted) >= count:
            raise ValueError(f"confusion has class {max(true, predicted)} of {count} classes")
