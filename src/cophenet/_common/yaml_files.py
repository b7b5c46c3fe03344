"""Reading of YAML with resource limits and an error for repeated keys, and writing of YAML.

The plain PyYAML loader follows YAML 1.1, in which `5e-4` is a string, `1:2` the number 62, `no` is false,
and it lets a repeated key silently replace the first. To avoid such surprises in settings, recipes are read
with the scalars of YAML 1.2.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any, Literal

import yaml

from cophenet._common.limits import ALIASED, SETTINGS_DEPTH, TooDeepError

__all__ = ["dump_yaml", "parse_yaml"]

_FLOAT = r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?|[-+]?\.inf|\.nan"
_SCALARS = (
    ("null", r"~|null|", ["~", "n", ""]),
    ("bool", r"true|false", list("tf")),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)", list("-+0123456789")),
    ("float", _FLOAT, list("-+.0123456789")),
)


# Parser and emitter in C, which are several times faster, if PyYAML was built with them.
_SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_SafeDumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_SafeDumper):  # type: ignore[misc]
    """The safe dumper, which also quotes text that the loader of this module would read as a number."""


class _RepeatedKeyError(Exception):
    """A key is repeated; its arguments are the line and the key."""


def _check_limits(text: str, most: int, depth: int) -> None:
    """Raise if a document exceeds a limit, before it is constructed.

    PyYAML constructs it recursively, in C without a check of the depth, and lets aliases make huge documents.

    Args:
        text: The document.
        most: Maximum number of values, including those that aliases add.
        depth: Maximum number of nesting levels.
    """
    # By anchor: values and levels of nesting; None as long as it is open.
    known: dict[str, tuple[int, int] | None] = {}
    opened: list[list[Any]] = []  # anchor, values before, levels inside so far
    values = aliased = 0
    for event in yaml.parse(text, Loader=_SafeLoader):
        anchor, size, levels = getattr(event, "anchor", None), 1, 0
        if isinstance(event, yaml.AliasEvent):
            if anchor not in known:
                raise _composer_error(event, f"found undefined alias {anchor!r}")
            target = known[anchor]
            if target is None:
                raise ValueError(f"{_line(event)}: {anchor!r} contains itself")
            size, levels = target
            aliased += size
            if aliased > ALIASED:
                raise ValueError(f"{_line(event)}: aliases add more than {ALIASED:,} values (limit)")
        elif isinstance(event, yaml.NodeEvent):
            if anchor in known:
                raise _composer_error(event, f"found duplicate anchor {anchor!r}")
            is_open = isinstance(event, yaml.CollectionStartEvent)
            if is_open:
                opened.append([anchor, values, 0])
            if anchor is not None:
                known[anchor] = None if is_open else (1, 0)
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before, inside = opened.pop()
            size, levels = 0, 1 + inside
            if anchor is not None:
                known[anchor] = values - before, levels
        elif isinstance(event, yaml.DocumentEndEvent):
            return
        else:
            continue
        values += size
        if values > most:
            raise ValueError(f"{_line(event)}: more than {most:,} values (limit)")
        if len(opened) + levels > depth:
            raise TooDeepError(depth, f"{_line(event)}: ")
        if opened and levels:
            opened[-1][2] = max(opened[-1][2], levels)


def _composer_error(event: Any, problem: str) -> yaml.YAMLError:
    return yaml.composer.ComposerError(None, None, problem, event.start_mark)


def _line(place: Any) -> str:
    """The line of an event or node."""
    return f"line {place.start_mark.line + 1}"


class _UniqueKeys:
    """Mixin for a loader: raise for repeated keys, and for keys that are lists or mappings."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise ValueError(f"{_line(key)}: a key must be a single value")
            if key.value in seen:
                raise _RepeatedKeyError(key.start_mark.line + 1, key.value)
            seen.add(key.value)
        result: dict[Hashable, Any] = super().construct_mapping(node, deep)  # type: ignore[misc]
        return result


class _Yaml11(_UniqueKeys, _SafeLoader):  # type: ignore[misc]
    """The safe loader, with the scalars of YAML 1.1."""


class _Yaml12(_UniqueKeys, _SafeLoader):  # type: ignore[misc]
    """The safe loader with the scalars of YAML 1.2."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012


for _tag, _pattern, _first in _SCALARS:
    for _class in (_Yaml12, _Dumper):
        _class.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), _first)


def parse_yaml(
    text: str,
    version: Literal["1.1", "1.2"] = "1.2",
    *,
    repeated: str = "key {!r} is given twice",
    values: int = 100_000,
    depth: int = SETTINGS_DEPTH,
) -> Any:
    """Parse a YAML document, in which aliases may add at most `ALIASED` values.

    Args:
        text: The document.
        version: Version of YAML that defines the scalars.
        repeated: Message for a key that occurs twice in one mapping, with a placeholder for the key.
        values: Maximum number of values.
        depth: Maximum number of nesting levels.

    Raises:
        ValueError: If it is not YAML, a key is repeated, or it exceeds a limit; usually names the line.

    Example:
        >>> parse_yaml("{lr: 5e-4, ratio: 1:2, epochs: 3, save: no}")
        {'lr': 0.0005, 'ratio': '1:2', 'epochs': 3, 'save': 'no'}
        >>> parse_yaml("{lr: 5e-4, ratio: 1:2, epochs: 3, save: no}", "1.1")
        {'lr': '5e-4', 'ratio': 62, 'epochs': 3, 'save': False}
        >>> parse_yaml("[" * 40_000)
        Traceback (most recent call last):
        cophenet._common.limits.TooDeepError: line 1: nested deeper than 50 levels (limit)
    """
    try:
        _check_limits(text, values, depth)
        return yaml.load(text, Loader=_Yaml12 if version == "1.2" else _Yaml11)
    except _RepeatedKeyError as error:
        line, key = error.args
        raise ValueError(f"line {line}: {repeated.format(key)}") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        # The mark of something never closed is behind the last line.
        last = text.rstrip().count("\n")
        line = 1 + (min(mark.line, last) if mark else text.count("\n", 0, getattr(error, "position", 0)))
        raise ValueError(f"line {line}: not YAML: {getattr(error, 'problem', None) or error}") from error
    except (LookupError, AttributeError, TypeError, OverflowError, RecursionError) as error:
        # PyYAML raises these for a value that does not fit its tag, and for nested merges.
        raise ValueError(
            f"not YAML: a value does not fit its tag ({type(error).__name__}: {error})"
        ) from error


def dump_yaml(document: Any, *, width: int = 110) -> str:
    """Format a document of mappings, lists and scalars, so that `parse_yaml` returns an equal one.

    Text that `parse_yaml` would read as a number or a truth value, in either version, is quoted.

    Args:
        document: The document.
        width: Length of lines, if their values allow it.

    Example:
        >>> print(dump_yaml({"lr": 5e-4, "seeds": (0, 1)}), end="")
        lr: 0.0005
        seeds: [0, 1]
    """
    text: str = yaml.dump(
        document,
        Dumper=_Dumper,
        default_flow_style=None,
        allow_unicode=True,
        sort_keys=False,
        width=width,
    )
    return text
