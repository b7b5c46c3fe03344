"""Settings given on the command line as `a.b=value`."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from cophenet._common.yaml_text import parse_yaml

__all__ = ["apply_overrides", "flatten", "merge", "parse_override"]


def parse_override(text: str) -> tuple[tuple[str, ...], Any]:
    """The keys and the value of an override; the value is YAML, so numbers and lists have their types.

    Raises:
        ValueError: If there is no key, no `=`, or the value is not YAML.

    Example:
        >>> parse_override("optimizer.lr=5e-2")
        (('optimizer', 'lr'), 0.05)
        >>> parse_override("optimizer.lr")
        Traceback (most recent call last):
        ValueError: --set 'optimizer.lr' must read key=value, as optimizer.lr=0.05 does
    """
    path, equals, value = text.partition("=")
    keys = tuple(key.strip() for key in path.split("."))
    if not equals or not all(keys):
        raise ValueError(f"--set {text!r} must read key=value, as optimizer.lr=0.05 does")
    try:
        return keys, parse_yaml(value)
    except ValueError as error:
        raise ValueError(f"--set {text!r}: the value is no YAML: {error}") from error


def apply_overrides(settings: Mapping[str, Any], overrides: Iterable[str]) -> dict[str, Any]:
    """The settings with some replaced, the last override of a key winning; nothing is validated here.

    Raises:
        ValueError: If an override is malformed or goes below a single value.

    Example:
        >>> apply_overrides({"optimizer": {"name": "sgd", "lr": 0.1}}, ["optimizer.lr=0.05"])
        {'optimizer': {'name': 'sgd', 'lr': 0.05}}
    """
    result = copy.deepcopy(dict(settings))
    for text in overrides:
        keys, value = parse_override(text)
        place: dict[Any, Any] = result
        for depth, key in enumerate(keys[:-1], start=1):
            found = _same_key(place, key)
            if place.get(found) is None:
                place[found] = {}
            place = place[found]
            if not isinstance(place, dict):
                raise ValueError(f"--set {text!r}: {'.'.join(keys[:depth])} is one value, it has no keys")
        place[_same_key(place, keys[-1])] = value
    return result


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """The base with the values of `over`, mappings joined key by key, everything else replaced.

    Example:
        >>> merge({"epochs": 200, "data": {"name": "digits", "workers": 8}}, {"data": {"workers": 2}})
        {'epochs': 200, 'data': {'name': 'digits', 'workers': 2}}
    """
    result = dict(base)
    for key, value in over.items():
        both = isinstance(value, Mapping) and isinstance(result.get(key), Mapping)
        result[key] = merge(result[key], value) if both else value
    return result


def flatten(settings: Mapping[Any, Any], above: str = "") -> dict[str, Any]:
    """Nested settings as one mapping, with keys as overrides have them.

    Example:
        >>> flatten({"optimizer": {"lr": 0.1}, "epochs": 3, "tree": {}})
        {'optimizer.lr': 0.1, 'epochs': 3, 'tree': {}}
    """
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        inside = isinstance(value, Mapping) and value
        flat.update(flatten(value, f"{above}{key}.") if inside else {f"{above}{key}": value})
    return flat


def _same_key(mapping: Mapping[Any, Any], key: str) -> Any:
    """The key as the mapping has it: levels of a tree may be numbers there."""
    return next((known for known in mapping if str(known) == key), key)
