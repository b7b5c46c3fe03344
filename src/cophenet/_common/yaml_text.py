"""YAML as recipes are written in it.

The plain PyYAML loader follows YAML 1.1, in which `5e-4` is a string, `1:2` the number 62, `no` is false
and a repeated key silently replaces the first. A setting must not change its meaning that way.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any

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


class _Loader(yaml.SafeLoader):
    """The safe loader with the scalars of YAML 1.2, which refuses repeated keys."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if str(key.value) in seen:
                raise ValueError(f"line {key.start_mark.line + 1}: key {key.value!r} is given twice")
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)


for _tag, _pattern, _first in _SCALARS:
    for _class in (_Loader, _Dumper):
        _class.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), _first)


def parse_yaml(text: str) -> Any:
    """Read a YAML document.

    Raises:
        ValueError: If it is not YAML or a key is repeated; says the line.

    Example:
        >>> parse_yaml("{lr: 5e-4, ratio: 1:2, epochs: 3, save: no}")
        {'lr': 0.0005, 'ratio': '1:2', 'epochs': 3, 'save': 'no'}
    """
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else text.count("\n", 0, getattr(error, "position", 0)) + 1
        raise ValueError(f"line {line}: not YAML: {getattr(error, 'problem', None) or error}") from error
    except RecursionError:
        raise ValueError("the YAML is nested too deeply") from None


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
