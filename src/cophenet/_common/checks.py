"""Argument checks with uniform error messages."""

from __future__ import annotations

import inspect
import math
import numbers
import os
import re
import warnings
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, TypeVar

__all__ = [
    "DivergenceError",
    "UndefinedWarning",
    "argument_of",
    "arguments_of",
    "check_choice",
    "check_file",
    "check_flag",
    "check_number",
    "check_options",
    "check_pair",
    "check_share",
    "check_text",
    "check_whole",
    "escaped",
    "is_plain_text",
    "nearest_hint",
    "unknown_option",
    "with_reasons",
    "wrong_argument",
]

_Value = TypeVar("_Value")

# Control characters, surrogates, line separators, bidirectional formatting characters and noncharacters:
# none of them can be displayed, and some hide the text after them.
_NOT_PLAIN = re.compile("[\0-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


class _Message(str):
    """Message of an error about one argument; a `str`, so that the error remains a plain `ValueError`.

    Attributes:
        argument: Name of the argument.
    """

    argument: str | None = None


def _error(argument: str, text: str) -> ValueError:
    message = _Message(text)
    message.argument = argument
    return ValueError(message)


def wrong_argument(argument: str, problem: str) -> ValueError:
    """Create an error about one argument, whose name `argument_of` returns.

    Args:
        argument: Name of the argument.
        problem: What is wrong, as the rest of a sentence that begins with the name.

    Example:
        >>> raise wrong_argument("norm", "must be below 1, got 2")
        Traceback (most recent call last):
        ValueError: norm must be below 1, got 2
    """
    return _error(argument, f"{argument} {problem}")


def argument_of(error: BaseException) -> str | None:
    """The name of the argument of an error from `wrong_argument`; None for any other error.

    Example:
        >>> argument_of(wrong_argument("norm", "must be below 1, got 2"))
        'norm'
    """
    message = error.args[0] if error.args else None
    return message.argument if isinstance(message, _Message) else None


@contextmanager
def arguments_of(group: str, names: Container[str]) -> Iterator[None]:
    """Context manager that adds the name of a group of settings to errors about its arguments.

    Args:
        group: Name of the group, which becomes a prefix of the argument name.
        names: The arguments that belong to the group; errors about others are not changed.

    Example:
        >>> with arguments_of("data.options", ["seed"]):
        ...     check_whole("seed", -1, 0)
        Traceback (most recent call last):
        ValueError: data.options.seed must be a whole number of at least 0, got -1
    """
    try:
        yield
    except ValueError as error:
        argument = argument_of(error)
        if argument is None or argument not in names:
            raise
        raise _error(f"{group}.{argument}", f"{group}.{error}") from error


class DivergenceError(ArithmeticError):
    """The loss is NaN or infinite."""


class UndefinedWarning(RuntimeWarning):
    """Warning that a number is NaN because it is undefined.

    Attributes:
        name: Name of the number.
        reason: Why it is undefined.
    """

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name, self.reason = name, reason

    def __str__(self) -> str:
        """The message."""
        return f"{self.name} is undefined, returning NaN: {self.reason}"


def with_reasons(compute: Callable[[], _Value]) -> tuple[_Value, list[str]]:
    """Call a function; return its value and the reasons of any `UndefinedWarning`, re-issue other warnings.

    Example:
        >>> def rate() -> float:
        ...     warnings.warn(UndefinedWarning("rate", "there are no samples"), stacklevel=2)
        ...     return math.nan
        >>> with_reasons(rate)
        (nan, ['there are no samples'])
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UndefinedWarning)
        value = compute()
    reasons = []
    for one in caught:
        if isinstance(one.message, UndefinedWarning):
            reasons.append(one.message.reason)
        else:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
    return value, list(dict.fromkeys(reasons))


def check_choice(argument: str, value: object, allowed: Iterable[str]) -> None:
    """Raise if a value is not one of the allowed names; the error suggests the nearest one.

    Example:
        >>> check_choice("variant", "half", ("paper", "haf"))
        Traceback (most recent call last):
        ValueError: variant must be one of paper, haf, got 'half'; did you mean 'haf'?
    """
    names = tuple(allowed)
    if not isinstance(value, str) or value not in names:
        hint = nearest_hint(value, names)
        raise wrong_argument(argument, f"must be one of {', '.join(names)}, got {value!r}{hint}")


def check_file(argument: str, value: object) -> None:
    """Raise if a value is not a non-empty path.

    Example:
        >>> check_file("train", 3)
        Traceback (most recent call last):
        ValueError: train must be the name of a file, got 3
    """
    if not isinstance(value, str | os.PathLike) or not str(value):
        raise wrong_argument(argument, f"must be the name of a file, got {value!r}")


def check_number(argument: str, value: float, *, above: float = 0.0, least: bool = True) -> None:
    """Raise if a value is not a finite number, or is below a bound (or equal to it, unless `least`).

    Example:
        >>> check_number("beta", -1.0)
        Traceback (most recent call last):
        ValueError: beta must be finite and at least 0.0, got -1.0
    """
    known = isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)
    if not known or value < above or (value == above and not least):
        bound = "at least" if least else "above"
        raise wrong_argument(argument, f"must be finite and {bound} {above}, got {value!r}")


def check_whole(argument: str, value: object, least: int) -> None:
    """Raise if a value is not an integer of at least a bound.

    Example:
        >>> check_whole("n_orders", 1.5, 1)
        Traceback (most recent call last):
        ValueError: n_orders must be a whole number of at least 1, got 1.5
    """
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not whole or value < least:  # type: ignore[operator]
        raise wrong_argument(argument, f"must be a whole number of at least {least}, got {value!r}")


def check_share(argument: str, value: object) -> None:
    """Raise if a value is not a number between 0 and 1, both excluded.

    Example:
        >>> check_share("test_share", 1.0)
        Traceback (most recent call last):
        ValueError: test_share must lie between 0 and 1, got 1.0
    """
    if not isinstance(value, numbers.Real) or not 0 < float(value) < 1:
        raise wrong_argument(argument, f"must lie between 0 and 1, got {value!r}")


def check_flag(argument: str, value: bool) -> None:
    """Raise if a value is neither True nor False.

    Example:
        >>> check_flag("normalize", "no")
        Traceback (most recent call last):
        ValueError: normalize must be True or False, got 'no'
    """
    if not isinstance(value, bool):
        raise wrong_argument(argument, f"must be True or False, got {value!r}")


def check_pair(argument: str, values: Collection[_Value], what: str) -> tuple[_Value, _Value]:
    """Return the two values of a pair; raise if there are not two.

    Example:
        >>> check_pair("margins", 0.2, "two numbers")
        Traceback (most recent call last):
        ValueError: margins must be two numbers, got 0.2
    """
    if not isinstance(values, Collection) or isinstance(values, (str, Mapping, set)) or len(values) != 2:
        raise wrong_argument(argument, f"must be {what}, got {values!r}")
    first, second = values
    return first, second


def is_plain_text(text: str) -> bool:
    r"""Whether text can be displayed: no control characters, surrogates or bidirectional formatting.

    Example:
        >>> is_plain_text("straße"), is_plain_text("tab\there"), is_plain_text("\u202egnp.exe")
        (True, False, False)
    """
    return _NOT_PLAIN.search(text) is None


def escaped(text: str) -> str:
    r"""Text with escapes in place of characters that cannot be displayed, for names from untrusted sources.

    Example:
        >>> print(escaped("straße\x1b[2J"))
        straße\x1b[2J
    """
    return _NOT_PLAIN.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def check_text(argument: str, text: str) -> None:
    r"""Raise if text is not plain, such as a name with control characters.

    Example:
        >>> check_text("name", "a\nb")
        Traceback (most recent call last):
        ValueError: name must be text without control characters, got 'a\nb'
    """
    if not is_plain_text(text):
        raise wrong_argument(argument, f"must be text without control characters, got {text!r:.200}")


def check_options(
    what: str,
    cls: Callable[..., object],
    options: Mapping[str, Any],
    also: Sequence[str] = (),
    fixed: Iterable[str] = ("tree",),
) -> None:
    """Raise if options include a name that a class does not accept as an argument.

    Args:
        what: What has the options, for the message.
        cls: The class, or a function that creates its instances.
        options: The options given.
        also: Options that the caller handles itself; mentioned in the message.
        fixed: Arguments of the class that are not options, because the caller sets them.

    Example:
        >>> class Smooth:
        ...     def __init__(self, tree, amount=0.1): ...
        >>> check_options("objective 'smooth'", Smooth, {"amont": 0.2})
        Traceback (most recent call last):
        ValueError: objective 'smooth' has no option 'amont'; its options are amount; did you mean 'amount'?
    """
    for name in options:
        problem = unknown_option(what, cls, name, also, fixed)
        if problem:
            raise ValueError(problem)


def unknown_option(
    what: str,
    cls: Callable[..., object],
    name: str,
    also: Sequence[str] = (),
    fixed: Iterable[str] = ("tree",),
) -> str | None:
    """The message of `check_options` about one name; None if it is an option.

    Example:
        >>> unknown_option("objective 'smooth'", lambda amount=0.1: amount, "amont")
        "objective 'smooth' has no option 'amont'; its options are amount; did you mean 'amount'?"
    """
    arguments = inspect.signature(cls).parameters.values()
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    allowed = [a.name for a in arguments if a.kind in kinds and a.name not in fixed]
    if name in allowed:
        return None
    has = f"its options are {', '.join(allowed)}" if allowed else "it has none"
    beside = f", beside {', '.join(also)}" if also else ""
    return f"{what} has no option {name!r}; {has}{beside}{nearest_hint(name, [*also, *allowed])}"


def nearest_hint(value: object, names: Iterable[str]) -> str:
    """A suggestion of the nearest name, to be appended to a message; empty if none is near.

    Example:
        >>> nearest_hint("corse", ["coarse", "fine"])
        "; did you mean 'coarse'?"
    """
    near = get_close_matches(str(value), list(names), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
