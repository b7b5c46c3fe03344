"""Making what a recipe names, so that a wrong option is refused by its key."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, get_type_hints

from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError

from cophenet.recipes.errors import explain_value

__all__ = ["build", "check_types"]

_Made = TypeVar("_Made")


def build(key: str, make: Callable[..., _Made], options: Mapping[str, Any]) -> _Made:
    """Make something from its options.

    Args:
        key: Where the options stand in a recipe.
        make: Takes the options by name.
        options: The options given.

    Raises:
        ValueError: If an option is unknown or its value is of a wrong kind; names the key.

    Example:
        >>> class Smooth:
        ...     def __init__(self, amount: float = 0.1) -> None:
        ...         self.half = amount / 2
        >>> build("data.options", Smooth, {"amount": "much"})
        Traceback (most recent call last):
        ValueError: data.options.amount must be a number, got 'much'
    """
    try:
        made = make(**options)
    except (TypeError, AttributeError) as error:
        raise ValueError(_blame(key, make, options)) from error
    except ValueError as error:
        told = str(error)
        if told.partition(" ")[0] in options:
            raise ValueError(f"{key}.{told}") from error
        raise
    check_types(key, type(made), options)
    return made


def check_types(key: str, cls: type, options: Mapping[str, Any]) -> None:
    """Refuse options whose values do not have the types that the class declares.

    Example:
        >>> from cophenet.data.breeds import Living17
        >>> check_types("data.options", Living17, {"mid": "yes"})
        Traceback (most recent call last):
        ValueError: data.options.mid must be a boolean, got 'yes'
    """
    types = _declared(cls)
    for name in (name for name in options if name in types):
        _check_type(f"{key}.{name}", types[name], options[name])


def _check_type(key: str, declared: Any, value: object) -> None:
    try:
        TypeAdapter(declared, config=_config(declared)).validate_python(value, strict=True)
    except ValidationError as error:
        raise ValueError(explain_value(error, key, value)) from error
    except PydanticUserError:  # a type that pydantic does not know, of another package
        return


def _config(declared: Any) -> ConfigDict | None:
    """Any class may be declared; models bring a configuration of their own and accept no other."""
    return None if hasattr(declared, "model_config") else ConfigDict(arbitrary_types_allowed=True)


def _declared(cls: type) -> dict[str, Any]:
    """The types of the arguments, as far as they can be known."""
    try:
        types = get_type_hints(inspect.getattr_static(cls, "__init__"))
    except (NameError, TypeError):
        return {}
    return {name: types[name] for name in inspect.signature(cls).parameters if name in types}


def _blame(key: str, make: Callable[..., object], options: Mapping[str, Any]) -> str:
    """What to say of options that do not work: the one without which the others do is the wrong one."""
    for name, value in options.items():
        try:
            made = make(**{other: options[other] for other in options if other != name})
        except (TypeError, AttributeError, ValueError):
            continue
        try:
            check_types(key, type(made), {name: value})
        except ValueError as error:
            return str(error)
        return f"{key}.{name} has a value that does not work, got {value!r}"
    return f"{key} has values that do not work, got {dict(options)!r}"
