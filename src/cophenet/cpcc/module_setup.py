"""The settings of a loss as text and as a hash, by which processes detect that theirs differ."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from inspect import signature
from typing import Any

import numpy as np
from torch import Tensor, nn

from cophenet.tree import Hierarchy

__all__ = ["Setup", "setup_of"]

# Arguments that may differ: device, rank, and the generator, which is synchronized with that of process 0.
_OWN = ("device", "rank", "generator")


@dataclass(frozen=True)
class Setup:
    """Settings that must be the same on all processes.

    Attributes:
        parts: Settings as texts, by name, such as {"criterion.weight": "0.5"}.

    Example:
        >>> one, other = Setup({"weight": "1.0"}), Setup({"weight": "0.5"})
        >>> one.digest == other.digest
        False
    """

    parts: Mapping[str, str]

    @cached_property
    def digest(self) -> int:
        """A 64-bit hash of the settings."""
        return int.from_bytes(hashlib.sha256(self.text.encode()).digest()[:8], "big", signed=True)

    @property
    def text(self) -> str:
        """The parts as JSON."""
        return json.dumps(dict(self.parts), sort_keys=True)


def setup_of(module: nn.Module) -> Setup:
    """The classes of a module and its submodules, and the arguments they were created with.

    The value of an argument is read from the attribute of the same name: a number, a text, a list or dict of
    these, an array or a tree. A module whose state must also be equal has an attribute `shared_state`, a
    text.

    Example:
        >>> parts = setup_of(nn.Sequential(nn.Softmax(dim=1))).parts
        >>> parts["0.class"], parts["0.dim"]
        ('Softmax', '1')
    """
    parts: dict[str, str] = {}
    for path, part in module.named_modules():
        place = f"{path}." if path else ""
        parts[f"{place}class"] = type(part).__qualname__
        for name in (*_arguments(type(part)), "shared_state"):
            if name not in _OWN and hasattr(part, name):
                text = _text(getattr(part, name))
                if text is not None:
                    parts[f"{place}{name}"] = text
    return Setup(parts)


def _arguments(cls: type) -> tuple[str, ...]:
    try:
        return tuple(signature(cls).parameters)
    except (TypeError, ValueError):  # of a class without a signature
        return ()


def _text(value: Any) -> str | None:
    """A value as text; None if it cannot be compared."""
    if isinstance(value, Hierarchy):
        arrays = (value.parents, value.edge_weights, value.leaves)
        identity = (json.dumps([value.names, value.level_names]).encode(), *map(np.ndarray.tobytes, arrays))
        return f"a tree of {value.num_classes} classes (digest {_short(b''.join(identity))})"
    if isinstance(value, Tensor):
        value = value.detach().cpu().double().numpy()
    if isinstance(value, np.ndarray):
        return f"numbers of shape {value.shape} (digest {_short(value.tobytes())})"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        value = int(value)  # 1.0 and 1 mean the same
    try:
        return json.dumps(value)
    except (TypeError, ValueError):
        return None


def _short(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:8]
