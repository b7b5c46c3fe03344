"""YAML: read within limits and with an error for repeated keys, and written.

The plain PyYAML loader follows YAML 1.1, in which `5e-4` is a string, `1:2` the number 62, `no` is false
and a repeated key silently replaces the first. A setting must not change its meaning that way: recipes are
read with the scalars of YAML 1.2.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass
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


# Parser and emitter in C, which are several times faster, where PyYAML was built with them.
_SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_SafeDumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_SafeDumper):  # type: ignore[misc]
    """The safe dumper, which also quotes text that only the loader here would take for a number."""


class _RepeatedKeyError(Exception):
    """With the line and the key."""


@dataclass
class _Open:
    """A list or mapping whose end is not yet read.

    Attributes:
        node: As far as it is read.
        anchor: What aliases call it; None for nothing.
        before: Values before it.
        levels: Levels of nesting inside of it so far.
        key: The key of a mapping whose value comes next.
    """

    node: Any
    anchor: str | None
    before: int
    levels: int = 0
    key: Any = None

    def add(self, node: Any) -> None:
        """Add the next element, key or value."""
        if isinstance(self.node, yaml.SequenceNode):
            self.node.value.append(node)
        elif self.key is not None:
            self.node.value.append((self.key, node))
            self.key = None
        elif isinstance(node, yaml.ScalarNode):
            self.key = node
        else:
            raise ValueError(f"{_line(node)}: a key must be a single value")


class _Composer:
    """Makes the nodes of a document from the events of its parser, within limits.

    PyYAML does this by recursion, in C without a check of the depth, and lets aliases make huge documents.

    Args:
        loader: Parser and resolver.
        values: How many values there may be, those that aliases add among them.
        depth: How many levels of nesting.
    """

    def __init__(self, loader: Any, values: int, depth: int) -> None:
        self._loader, self._most, self._depth = loader, values, depth
        self._open: list[_Open] = []
        # By anchor: the node, its values and its levels; None as long as it is open.
        self._known: dict[str, tuple[Any, int, int] | None] = {}
        self._values = self._aliased = 0

    def compose(self) -> Any:
        """The root of the next document."""
        while True:
            event = self._loader.get_event()
            if isinstance(event, yaml.CollectionStartEvent):
                self._begin(event)
                continue
            if isinstance(event, yaml.CollectionEndEvent):
                node, levels = self._end()
            elif isinstance(event, yaml.AliasEvent):
                node, levels = self._alias(event)
            else:
                node, levels = self._scalar(event), 0
            if not self._open:
                return node
            above = self._open[-1]
            above.levels = max(above.levels, levels)
            if len(self._open) + levels > self._depth:
                raise TooDeepError(self._depth, f"{_line(event)}: ")
            above.add(node)

    def _begin(self, event: Any) -> None:
        kind = yaml.SequenceNode if isinstance(event, yaml.SequenceStartEvent) else yaml.MappingNode
        self._count(event, 1)
        node = kind(self._tag(kind, event, None), [], event.start_mark)
        self._open.append(_Open(node, event.anchor, self._values))
        if event.anchor is not None:
            self._define(event, None)
        if len(self._open) > self._depth:
            raise TooDeepError(self._depth, f"{_line(event)}: ")

    def _end(self) -> tuple[Any, int]:
        done = self._open.pop()
        if done.anchor is not None:
            self._known[done.anchor] = done.node, 1 + self._values - done.before, 1 + done.levels
        return done.node, 1 + done.levels

    def _alias(self, event: Any) -> tuple[Any, int]:
        if event.anchor not in self._known:
            raise _composer_error(event, f"found undefined alias {event.anchor!r}")
        target = self._known[event.anchor]
        if target is None:
            raise ValueError(f"{_line(event)}: {event.anchor!r} contains itself")
        node, values, levels = target
        self._aliased += values
        if self._aliased > ALIASED:
            raise ValueError(f"{_line(event)}: aliases add more than {ALIASED:,} values (limit)")
        self._count(event, values)
        return node, levels

    def _scalar(self, event: Any) -> Any:
        self._count(event, 1)
        tag = self._tag(yaml.ScalarNode, event, event.value)
        node = yaml.ScalarNode(tag, event.value, event.start_mark, style=event.style)
        if event.anchor is not None:
            self._define(event, (node, 1, 0))
        return node

    def _define(self, event: Any, target: tuple[Any, int, int] | None) -> None:
        if event.anchor in self._known:
            raise _composer_error(event, f"found duplicate anchor {event.anchor!r}")
        self._known[event.anchor] = target

    def _tag(self, kind: type, event: Any, value: str | None) -> str:
        tag: str = event.tag
        return self._loader.resolve(kind, value, event.implicit) if tag in (None, "!") else tag

    def _count(self, event: Any, values: int) -> None:
        self._values += values
        if self._values > self._most:
            raise ValueError(f"{_line(event)}: more than {self._most:,} values (limit)")


def _composer_error(event: Any, problem: str) -> yaml.YAMLError:
    return yaml.composer.ComposerError(None, None, problem, event.start_mark)


def _line(place: Any) -> str:
    """The line of an event or node."""
    return f"line {place.start_mark.line + 1}"


class _LimitedLoader:
    """A loader within limits, which refuses repeated keys."""

    values, depth = 100_000, SETTINGS_DEPTH

    def get_single_node(self: Any) -> Any:
        self.get_event()  # the stream
        if self.check_event(yaml.StreamEndEvent):
            return None
        self.get_event()  # the document
        node = _Composer(self, self.values, self.depth).compose()
        self.get_event()
        if not self.check_event(yaml.StreamEndEvent):
            raise _composer_error(self.get_event(), "but found another document")
        return node

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen:
                raise _RepeatedKeyError(key.start_mark.line + 1, key.value)
            seen.add(key.value)
        result: dict[Hashable, Any] = super().construct_mapping(node, deep)  # type: ignore[misc]
        return result


class _Yaml11(_LimitedLoader, _SafeLoader):  # type: ignore[misc]
    """The safe loader as it is."""


class _Yaml12(_LimitedLoader, _SafeLoader):  # type: ignore[misc]
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
    """Read a YAML document, with aliases for at most `ALIASED` values.

    Args:
        text: The document.
        version: Of YAML, whose scalars are meant.
        repeated: What to say of a key that comes twice in one mapping.
        values: How many values it may have.
        depth: How many levels of nesting.

    Raises:
        ValueError: If it is not YAML, a key is repeated, or it is beyond a limit; says the line.

    Example:
        >>> parse_yaml("{lr: 5e-4, ratio: 1:2, epochs: 3, save: no}")
        {'lr': 0.0005, 'ratio': '1:2', 'epochs': 3, 'save': 'no'}
        >>> parse_yaml("{lr: 5e-4, ratio: 1:2, epochs: 3, save: no}", "1.1")
        {'lr': '5e-4', 'ratio': 62, 'epochs': 3, 'save': False}
        >>> parse_yaml("[" * 40_000)
        Traceback (most recent call last):
        cophenet._common.limits.TooDeepError: line 1: nested deeper than 50 levels (limit)
    """
    loader = _Yaml12 if version == "1.2" else _Yaml11
    limited = type(loader.__name__, (loader,), {"values": values, "depth": depth})
    try:
        return yaml.load(text, Loader=limited)
    except _RepeatedKeyError as error:
        line, key = error.args
        raise ValueError(f"line {line}: {repeated.format(key)}") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        # What is never closed is missed behind the last line.
        last = text.rstrip().count("\n")
        line = 1 + (min(mark.line, last) if mark else text.count("\n", 0, getattr(error, "position", 0)))
        raise ValueError(f"line {line}: not YAML: {getattr(error, 'problem', None) or error}") from error
    except (KeyError, AttributeError, TypeError, OverflowError, RecursionError) as error:
        # Of PyYAML for a value that is not of the tag it has, and for merges of merges.
        raise ValueError(
            f"not YAML: a value does not fit its tag ({type(error).__name__}: {error})"
        ) from error


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
