"""Names and colours of charts: shortened names that stay distinct, a palette safe for colour blindness."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

__all__ = ["COLORS", "short_names"]

# The palette of Okabe and Ito, plus a grey; without black and yellow, hard to see on dark or light pages.
COLORS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#868e96")


def short_names(names: Sequence[str], length: int) -> list[str]:
    """Shorten names to at most `length` characters; longer where different names would become equal.

    Args:
        names: The names.
        length: The wanted maximum of characters.

    Example:
        >>> short_names(["physical_entity.00001930", "cat"], 12)
        ['physic…01930', 'cat']
        >>> short_names(["warbler of the north wood", "warbler of the south wood"], 11)
        ['warbler of …north wood', 'warbler of …south wood']
    """
    chosen = [_shortened(name, length) for name in names]
    for room in (2 * length, max(map(len, names), default=0)):
        wholes: dict[str, set[str]] = {}
        for name, short in zip(names, chosen, strict=True):
            wholes.setdefault(short, set()).add(name)
        alike = Counter({short: len(own) for short, own in wholes.items()})
        chosen = [
            _shortened(name, room) if alike[short] > 1 else short
            for name, short in zip(names, chosen, strict=True)
        ]
    return chosen


def _shortened(name: str, length: int) -> str:
    if len(name) <= length:
        return name
    end = (length - 1) // 2
    return f"{name[: length - 1 - end]}…{name[len(name) - end :]}"
