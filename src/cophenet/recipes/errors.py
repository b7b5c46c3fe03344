"""Error messages of recipes, in one line that names the file, the key and the allowed values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from cophenet._common.checks import argument_of, nearest_hint

__all__ = [
    "RecipeError",
    "keys_involved",
    "problem_at",
    "recipe_error",
    "refusal",
    "wording",
    "wording_of_several",
]

# What a value must be, by pydantic's type of the error, with values of its context.
_DEMANDS = {
    "bool_type": "a boolean",
    "bytes_type": "bytes",
    "callable_type": "callable",
    "dataclass_exact_type": "an instance of {class_name}",
    "dataclass_type": "an instance of {class_name}",
    "date_type": "a valid date",
    "datetime_type": "a valid date and time",
    "dict_type": "a mapping of keys to values",
    "finite_number": "a finite number",
    "float_type": "a number",
    "frozen_set_type": "a frozenset",
    "greater_than": "greater than {gt}",
    "greater_than_equal": "greater than or equal to {ge}",
    "int_type": "an integer",
    "is_instance_of": "an instance of {class}",
    "is_subclass_of": "a subclass of {class}",
    "iterable_type": "iterable",
    "less_than": "less than {lt}",
    "less_than_equal": "less than or equal to {le}",
    "list_type": "a list",
    "literal_error": "{expected}",
    "model_type": "a mapping of keys to values",
    "multiple_of": "a multiple of {multiple_of}",
    "none_required": "None",
    "sequence_str": "a list",
    "set_type": "a set",
    "string_type": "a string",
    "time_delta_type": "a valid time span",
    "time_type": "a valid time",
    "too_long": "a list of at most {max_length}",
    "tuple_type": "a list",
}
# How pydantic begins most of its messages, which are shown for types of errors that are not in the table.
_SHOULD = "Input should be "
# Largest length of a message, which may quote a value of any length.
_LETTERS = 1500


def problem_at(
    place: tuple[str, ...], text: str, *, whole: bool = False, depends: tuple[str, ...] = ()
) -> InitErrorDetails:
    """Create a problem that pydantic does not detect itself.

    Args:
        place: The key, relative to the group that is validated.
        text: What is wrong, as the rest of a sentence that begins with the key.
        whole: Whether `text` is a whole sentence instead.
        depends: Other keys that affect whether this is wrong: from the top of the recipe, or with a leading
            dot in the same group as this key.
    """
    context = {"text": text, "whole": whole, "depends": depends}
    return InitErrorDetails(type=PydanticCustomError("problem", "{text}", context), loc=place, input=None)


def refusal(*problems: InitErrorDetails) -> ValidationError:
    """Create the error that a validator raises, so that every problem is reported at its key.

    Example:
        >>> from pydantic import field_validator
        >>> class Step(BaseModel):
        ...     every: int
        ...     @field_validator("every")
        ...     @classmethod
        ...     def _check(cls, every: int) -> int:
        ...         raise refusal(problem_at((), "must be even, got 3"))
        >>> try:
        ...     Step(every=3)
        ... except ValidationError as error:
        ...     print(recipe_error(error, Step, "my.yaml"))
        my.yaml: every must be even, got 3
    """
    return ValidationError.from_exception_data("recipe", list(problems))


class RecipeError(ValueError):
    """A recipe is invalid.

    Attributes:
        problem: What is wrong, without the file or the overrides that it was found in.
    """

    def __init__(self, where: str, problem: str) -> None:
        """Store the file or the overrides, and what is wrong there."""
        super().__init__(where, problem)
        self.problem = problem

    def __str__(self) -> str:
        """The message in one line."""
        return ": ".join(self.args)


def recipe_error(
    error: ValidationError, model: type[BaseModel], where: str, also: Sequence[str] = ()
) -> RecipeError:
    """Convert a pydantic error: its first problem, and the number of further ones.

    Args:
        error: The result of the validation.
        model: The model that was validated.
        where: The file or the override.
        also: Further keys that are allowed in the outermost group.

    Example:
        >>> class Step(BaseModel, extra="forbid"):
        ...     every: int
        >>> try:
        ...     Step.model_validate({"evry": 1, "every": 2})
        ... except ValidationError as error:
        ...     print(recipe_error(error, Step, "my.yaml"))
        my.yaml: unknown key 'evry'; allowed: every; did you mean 'every'?
    """
    problems = error.errors(include_url=False)
    # A misspelt key is also reported as a missing one: the misspelling is reported first.
    first = min(problems, key=lambda problem: problem["type"] != "extra_forbidden")
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    text = _sentence(first, model, also)
    return RecipeError(where, f"{text[:_LETTERS]}{'...' * (len(text) > _LETTERS)}{more}")


def keys_involved(error: ValidationError) -> list[tuple[str, ...]]:
    """The keys with problems, and the keys that affect whether there are problems."""
    keys: list[tuple[str, ...]] = []
    for problem in error.errors(include_url=False):
        own = tuple(map(str, problem["loc"]))
        others = problem.get("ctx", {}).get("depends", ())
        above = {True: own[:-1], False: ()}
        keys += [own, *((*above[key.startswith(".")], *key.lstrip(".").split(".")) for key in others)]
    return keys


def wording(problem: Mapping[str, Any], model: type[BaseModel]) -> str:
    """Reword a pydantic error about a value as the rest of a sentence that begins with the key.

    Args:
        problem: The error.
        model: The model that was validated.
    """
    demand = "must not be empty" if problem["type"] == "too_short" else f"must be {_demand(problem)}"
    allowed = _literals(_declared(model, problem["loc"])) if problem["type"] == "literal_error" else ()
    hint = nearest_hint(problem["input"], map(str, allowed))
    return f"{demand}, got {problem['input']!r:.200}{hint}"


def wording_of_several(problems: Sequence[Mapping[str, Any]], given: object) -> str:
    """Like `wording`, for a value that fails all of several allowed kinds, with one pydantic error each."""
    demands = dict.fromkeys(_demand(problem) for problem in problems)
    return f"must be {' or '.join(demands)}, got {given!r:.200}"


def _sentence(problem: Mapping[str, Any], model: type[BaseModel], also: Sequence[str]) -> str:
    kind, context = problem["type"], problem.get("ctx", {})
    loc = [part for part in problem["loc"] if part != "[key]"]
    key = ".".join(map(str, loc))
    if kind == "extra_forbidden":
        group = _group(_declared(model, loc[:-1]))
        keys = [*(group.model_fields if group else ()), *(also if len(loc) == 1 else ())]
        return f"unknown key {key!r}; allowed: {', '.join(keys)}{nearest_hint(loc[-1], keys)}"
    if kind == "missing":
        return f"{key} is missing"
    if kind == "problem":
        return str(context["text"]) if context["whole"] else f"{key} {context['text']}"
    if kind == "value_error":
        error = context["error"]
        return str(error) if argument_of(error) == key else f"{key}: {error}"
    return f"{key or 'the recipe'} {wording(problem, model)}"


def _demand(problem: Mapping[str, Any]) -> str:
    """What a value must be."""
    context = problem.get("ctx", {})
    if context.get("class") == "Sequence":
        return "a list"
    if problem["type"] not in _DEMANDS:
        message = str(problem["msg"])
        return message.removeprefix(_SHOULD) if message.startswith(_SHOULD) else f"valid: {message}"
    whole = {key: int(value) for key, value in context.items() if type(value) is float and value.is_integer()}
    return _DEMANDS[problem["type"]].format_map({**context, **whole})


def _declared(model: type[BaseModel], loc: Sequence[Any]) -> Any:
    """The declared type at a key of a model."""
    declared: Any = model
    for part in loc:
        group = _group(declared)
        if group is not None:  # otherwise an item of a list or mapping, whose type stays
            fields = group.model_fields.items()
            declared = next((field.annotation for name, field in fields if part in (name, field.alias)), Any)
    return declared


def _group(declared: Any) -> type[BaseModel] | None:
    """The group of settings that a type is, or that it allows."""
    kinds = (kind for kind in (declared, *get_args(declared)) if isinstance(kind, type))
    return next((kind for kind in kinds if not get_args(kind) and issubclass(kind, BaseModel)), None)


def _literals(declared: Any) -> tuple[Any, ...]:
    """All values of the literals in a type."""
    inner = get_args(declared)
    return inner if get_origin(declared) is Literal else tuple(v for kind in inner for v in _literals(kind))
