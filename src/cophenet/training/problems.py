"""What is wrong with a recipe, in one line that names the file, the key and what is allowed."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel, ValidationError

__all__ = ["explain"]

# What pydantic says in its own terms rather than in those of a recipe.
_TEXTS = {
    "int_type": "must be an integer",
    "model_type": "must be a mapping of keys to values",
    "too_short": "must not be empty",
    "tuple_type": "must be a list",
}


def explain(error: ValidationError, model: type[BaseModel], where: str) -> str:
    """The first problem of a validation, and how many more there are.

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
    return f"{where}: {_sentence(dict(first), model)}{more}"


def _sentence(problem: dict[str, Any], model: type[BaseModel]) -> str:
    kind, given = problem["type"], problem["input"]
    loc = [part for part in problem["loc"] if part != "[key]"]
    key = ".".join(map(str, loc))
    if kind == "extra_forbidden":
        keys = _keys(model, loc[:-1])
        return f"unknown key {key!r}; allowed: {', '.join(keys)}{_near(loc[-1], keys)}"
    if kind == "missing":
        return f"{key} is missing"
    if kind == "value_error":
        told = str(problem["ctx"]["error"])
        return told if told.startswith(f"{key} ") or not key else f"{key}: {told}"
    text = _TEXTS.get(kind, problem["msg"]).replace("Input should be", "must be").replace("a valid", "a")
    names = problem.get("ctx", {}).get("expected", "").replace(" or ", ", ").replace("'", "").split(", ")
    hint = _near(given, names) if kind == "literal_error" else ""
    return f"{key or 'the recipe'} {text}, got {given!r}{hint}"


def _keys(model: type[BaseModel], loc: Sequence[Any]) -> list[str]:
    """The keys of the group at some place of a model."""
    group: Any = model
    for part in loc:
        annotation = group.model_fields[part].annotation
        members = (annotation, *getattr(annotation, "__args__", ()))
        group = next(m for m in members if isinstance(m, type) and issubclass(m, BaseModel))
    return list(group.model_fields)


def _near(given: object, names: Sequence[str]) -> str:
    near = get_close_matches(str(given), names, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
