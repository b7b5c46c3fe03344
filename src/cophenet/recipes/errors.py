"""What is wrong with a recipe, in one line that names the file, the key and what is allowed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from cophenet._common.checks import argument_of

__all__ = ["Problem", "explain", "keys_involved", "nearest", "refusal", "wording", "wording_of_several"]

# What pydantic says in its own terms rather than in those of a recipe.
_TEXTS = {
    "dict_type": "must be a mapping of keys to values",
    "int_type": "must be an integer",
    "model_type": "must be a mapping of keys to values",
    "sequence_str": "must be a list",
    "too_short": "must not be empty",
    "tuple_type": "must be a list",
}


@dataclass(frozen=True)
class Problem:
    """Something wrong that pydantic does not see by itself.

    Attributes:
        place: The key, from the group that is validated down.
        text: What is wrong: a whole sentence, or the rest of one that begins with the key.
        begins_with_key: Which of the two.
        depends: Other keys that decide whether this is wrong: from the top of the recipe, or with a leading
            dot the neighbours of this one.
    """

    place: tuple[str, ...]
    text: str
    begins_with_key: bool = True
    depends: tuple[str, ...] = ()


def refusal(problems: Iterable[Problem]) -> ValidationError:
    """What a validator raises, so that every problem is reported at its place.

    Example:
        >>> from pydantic import field_validator
        >>> class Step(BaseModel):
        ...     every: int
        ...     @field_validator("every")
        ...     @classmethod
        ...     def _check(cls, every: int) -> int:
        ...         raise refusal([Problem((), "must be even, got 3")])
        >>> try:
        ...     Step(every=3)
        ... except ValidationError as error:
        ...     print(explain(error, Step, "my.yaml"))
        my.yaml: every must be even, got 3
    """
    details = [
        InitErrorDetails(
            type=PydanticCustomError(
                "problem", "{text}", {"text": p.text, "with_key": p.begins_with_key, "depends": p.depends}
            ),
            loc=p.place,
            input=None,
        )
        for p in problems
    ]
    return ValidationError.from_exception_data("recipe", details)


def explain(error: ValidationError, model: type[BaseModel], where: str, also: Sequence[str] = ()) -> str:
    """The first problem of a validation, and how many more there are.

    Args:
        error: The result of the validation.
        model: What was validated.
        where: The file or the override.
        also: Keys that the outermost group may have beside those of the model.

    Example:
        >>> class Step(BaseModel, extra="forbid"):
        ...     every: int
        >>> try:
        ...     Step.model_validate({"evry": 1, "every": 2})
        ... except ValidationError as error:
        ...     print(explain(error, Step, "my.yaml"))
        my.yaml: unknown key 'evry'; allowed: every; did you mean 'every'?
    """
    problems = error.errors(include_url=False)
    # A misspelt key is also reported as a missing one: the misspelling comes first.
    first = min(problems, key=lambda problem: problem["type"] != "extra_forbidden")
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return f"{where}: {_sentence(first, model, also)}{more}"


def keys_involved(error: ValidationError) -> list[tuple[str, ...]]:
    """The keys at which there are problems, and those that decide whether they are problems."""
    keys: list[tuple[str, ...]] = []
    for problem in error.errors(include_url=False):
        own = tuple(map(str, problem["loc"]))
        others = problem.get("ctx", {}).get("depends", ())
        above = {True: own[:-1], False: ()}
        keys += [own, *((*above[key.startswith(".")], *key.lstrip(".").split(".")) for key in others)]
    return keys


def wording(problem: Mapping[str, Any]) -> str:
    """One of pydantic's errors about a value, as the rest of a sentence that begins with the key."""
    expected = problem.get("ctx", {}).get("expected", "")
    names = expected.replace(" or ", ", ").replace("'", "").split(", ")
    hint = nearest(problem["input"], names) if problem["type"] == "literal_error" else ""
    return f"{_demand(problem)}, got {problem['input']!r:.200}{hint}"


def wording_of_several(problems: Sequence[Mapping[str, Any]], given: object) -> str:
    """The same for a value that is none of several allowed kinds, each of which is an error of pydantic's."""
    demands = dict.fromkeys(_demand(problem).removeprefix("must be ") for problem in problems)
    return f"must be {' or '.join(demands)}, got {given!r:.200}"


def nearest(given: object, names: Sequence[str]) -> str:
    """A hint at the nearest name, to be put behind a sentence; empty if there is none.

    Example:
        >>> nearest("corse", ["coarse", "fine"])
        "; did you mean 'coarse'?"
    """
    near = get_close_matches(str(given), names, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _sentence(problem: Mapping[str, Any], model: type[BaseModel], also: Sequence[str]) -> str:
    kind, context = problem["type"], problem.get("ctx", {})
    loc = [part for part in problem["loc"] if part != "[key]"]
    key = ".".join(map(str, loc))
    if kind == "extra_forbidden":
        keys = [*_keys(model, loc[:-1]), *(also if len(loc) == 1 else ())]
        return f"unknown key {key!r}; allowed: {', '.join(keys)}{nearest(loc[-1], keys)}"
    if kind == "missing":
        return f"{key} is missing"
    if kind == "problem":
        return f"{key} {context['text']}" if context["with_key"] else str(context["text"])
    if kind == "value_error":
        error = context["error"]
        return str(error) if argument_of(error) == key else f"{key}: {error}"
    return f"{key or 'the recipe'} {wording(problem)}"


def _demand(problem: Mapping[str, Any]) -> str:
    text: str = _TEXTS.get(problem["type"], problem["msg"])
    text = text.replace("an instance of Sequence", "a list")
    return text.replace("Input should be", "must be").replace("a valid", "a")


def _keys(model: type[BaseModel], loc: Sequence[Any]) -> list[str]:
    """The keys of the group at some place of a model."""
    group: Any = model
    for part in loc:
        annotation = group.model_fields[part].annotation
        members = (annotation, *getattr(annotation, "__args__", ()))
        group = next(m for m in members if isinstance(m, type) and issubclass(m, BaseModel))
    return list(group.model_fields)
