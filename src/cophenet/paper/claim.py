"""What a claim of the paper is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from cophenet.paper.verdicts import Judged

__all__ = ["Claim"]


@dataclass(frozen=True)
class Claim:
    """A claim of the paper.

    Attributes:
        text: What is claimed, in our words.
        where: Its place in the paper.
        source: Name of the item that checks it, or for proofs the tests, as pytest names them.
        check: Reads the item's document; None of what it has not measured.
        proved: For proofs: whether the claim is right as it is printed, and why.
        data: The data sets that it is about, if about several.
        gpu: What of it a laptop cannot measure, if anything; "all" for the whole.
    """

    text: str
    where: str
    source: str
    check: Callable[[Mapping[str, Any]], Judged | None] | None = None
    proved: tuple[Literal["holds", "does not"], str] | None = None
    data: tuple[str, ...] = ()
    gpu: str = ""
