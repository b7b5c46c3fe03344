"""What is wrong with a recipe, in one line that names the file, the key and what is allowed."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel, ValidationError

__all__ = ["explain", "explain_value", "nearest"]

# What pydantic says in its own terms rather than in those of a recipe.
_TEXTS = {
    "int_type": "must be an integer",
    "model_type": "must be a mapping of keys to values",
    "sequence_str": "must be a list",
    "too_short": "must not be empty",
    "tuple_type": "must be a list",
}


def explain(error: ValidationError, model: type[BaseModel], where: str, also: Sequence[str] = ()) -> str:
    """The first problem of a validation, and how many more there are.

    Args:
        error: What pydantic found.
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
    # A misspelt key is also reported as a missing one: the misspelling is what to tell.
    first = min(problems, key=lambda problem: problem["type"] != "extra_forbidden")
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return f"{where}: {_sentence(dict(first), model, also)}{more}"


def explain_value(error: ValidationError, key: str, given: object) -> str:
    """What is wrong with one value that was validated by itself."""
    problems = error.errors(include_url=False)
    if len(problems) == 1:
        problem = {**problems[0], "loc": (key, *problems[0]["loc"])}
        return _sentence(problem, BaseModel)
    wanted = dict.fromkeys(_text(dict(problem)).removeprefix("must be ") for problem in problems)
    return f"{key} must be {' or '.join(wanted)}, got {given!r}"


def nearest(given: object, names: Sequence[str]) -> str:
    """A hint at the nearest name, to be put behind a sentence; empty if there is none.

    Example:
        >>> nearest("corse", ["coarse", "fine"])
        "; did you mean 'coarse'?"
    """
    near = get_close_matches(str(given), names, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _sentence(problem: dict[str, Any], model: type[BaseModel], also: Sequence[str] = ()) -> str:
    kind, given = problem["type"], problem["input"]
    loc = [part for part in problem["loc"] if part != "[key]"]
    key = ".".join(map(str, loc))
    if kind == "extra_forbidden":
        keys = [*_keys(model, loc[:-1]), *(also if len(loc) == 1 else ())]
        return f"unknown key {key!r}; allowed: {', '.join(keys)}{nearest(loc[-1], keys)}"
    if kind == "missing":
        return f"{key} is missing"
    if kind == "value_error":
        told = str(problem["ctx"]["error"])
        return told if told.startswith((f"{key} ", f"{key}.")) or not key else f"{key}: {told}"
    names = problem.get("ctx", {}).get("expected", "").replace(" or ", ", ").replace("'", "").split(", ")
    hint = nearest(given, names) if kind == "literal_error" else ""
    return f"{key or 'the recipe'} {_text(problem)}, got {given!r}{hint}"


def _text(problem: dict[str, Any]) -> str:
    told: str = _TEXTS.get(problem["type"], problem["msg"])
    told = told.replace("an instance of Sequence", "a list")
    return told.replace("Input should be", "must be").replace("a valid", "a")


def _keys(model: type[BaseModel], loc: Sequence[Any]) -> list[str]:
    """The keys of the group at some place of a model."""
    group: Any = model
    for part in loc:
        annotation = group.model_fields[part].annotation
        members = (annotation, *getattr(annotation, "__args__", ()))
        group = next(m for m in members if isinstance(m, type) and issubclass(m, BaseModel))
    return list(group.model_fields)
