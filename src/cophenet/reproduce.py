"""Deprecated: the paper's items are in `cophenet.paper`."""

from __future__ import annotations

from cophenet._common.lazy import moved_names

_NAMES = ("ITEMS", "Item", "Outcome", "find_items", "item_names", "reproduce")

__getattr__ = moved_names(__name__, {"cophenet.paper": _NAMES})
