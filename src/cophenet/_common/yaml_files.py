"""YAML: read with an error for repeated keys, and written.

The plain PyYAML loader follows YAML 1.1, in which `5e-4` is a string, `1:2` the number 62, `no` is false
and a repeated key silently replaces the first. A setting must not change its meaning that way: recipes are
read with the scalars of YAML 1.2.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any, Literal

import yaml

__all__ = ["dump_yaml", "parse_yaml"]

_FLOAT = r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?|[-+]?\.inf|\.nan"
_SCALARS = (
    ("null", r"~|null|", ["~", "n", ""]),
    ("bool", r"true|false", list("tf")),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)", list("-+0123456789")),
    ("float", _FLOAT, list("-+.0123456789")),
)


class _Dumper(yaml.SafeDumper):
    """The safe dumper, which also quotes text that only the loader here would take for a number."""


class _RepeatedKeyError(Exception):
    """With the line and the key."""


class _UniqueKeys:
    """A loader that refuses repeated keys."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if str(key.value) in seen:
                raise _RepeatedKeyError(key.start_mark.line + 1, key.value)
            seen.add(str(key.value))
        result: dict[Hashable, Any] = super().construct_mapping(node, deep)  # type: ignore[misc]
        return result


class _Yaml11(_UniqueKeys, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """The safe loader as it is."""


class _Yaml12(_UniqueKeys, yaml.SafeLoader):
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
    too_deep: str = "the YAML is nested too deeply",
) -> Any:
    """Read a YAML document.

    Args:
        text: The document.
        version: Of YAML, whose scalars are meant.
        repeated: What to say of a key that comes twice in one mapping.
        too_deep: What to say of a document that is nested more deeply than Python can follow.

    Raises:
        ValueError: If it is not YAML or a key is repeated; says the line.

    Example:
        >>> parse_yaml("{lr: 5e-4, ratio: 1:2, epochs: 3, save: no}")
        {'lr': 0.0005, 'ratio': '1:2', 'epochs': 3, 'save': 'no'}
        >>> parse_yaml("{lr: 5e-4, ratio: 1:2, epochs: 3, save: no}", "1.1")
        {'lr': '5e-4', 'ratio': 62, 'epochs': 3, 'save': False}
    """
    try:
        return yaml.load(text, Loader=_Yaml12 if version == "1.2" else _Yaml11)
    except _RepeatedKeyError as error:
        line, key = error.args
        raise ValueError(f"line {line}: {repeated.format(key)}") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else text.count("\n", 0, getattr(error, "position", 0)) + 1
        raise ValueError(f"line {line}: not YAML: {getattr(error, 'problem', None) or error}") from error
    except RecursionError:
        raise ValueError(too_deep) from None


def dump_yaml(document: Any) -> str:
    """Write a document of mappings, lists and scalars, from which `parse_yaml` makes an equal one.

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
        width=110,
    )
    return text
