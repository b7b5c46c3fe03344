"""The paper's tables, figures and studies, each by one call: run what is missing, write what came out.

`items` says what there is to reproduce and `arms` what is trained for it, both without torch; `queue` runs
what is missing; a `collect_*` file turns finished runs into the document of an item, which `report` writes
as tables and pictures; `claims` holds what the paper says, and what measured numbers say about it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from cophenet.reproduce.items import ITEMS, Item, find_items, item_names

if TYPE_CHECKING:
    from cophenet.reproduce.make import Outcome, reproduce

__all__ = ["ITEMS", "Item", "Outcome", "find_items", "item_names", "reproduce"]


def __getattr__(name: str) -> object:
    if name not in ("Outcome", "reproduce"):
        raise AttributeError(f"module 'cophenet.reproduce' has no attribute {name!r}")
    return getattr(import_module("cophenet.reproduce.make"), name)
