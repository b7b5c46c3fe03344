"""Which of several processes this one is, by what a cluster or Lightning says in the environment."""

from __future__ import annotations

import os

__all__ = ["is_first_process", "rank_variables"]

_RANKS = ("LOCAL_RANK", "NODE_RANK", "RANK")


def is_first_process() -> bool:
    """Whether this process is the one that writes; others are started by Lightning or a cluster.

    Raises:
        ValueError: If the environment has a rank that is no number.
    """
    return not any(_rank(name) for name in _RANKS)


def rank_variables() -> str:
    """What the environment says of the place of this process among others, such as "RANK=1"."""
    return " ".join(f"{name}={os.environ[name]}" for name in _RANKS if os.environ.get(name))


def _rank(name: str) -> int:
    text = os.environ.get(name, "0")
    if not text.strip().isdecimal():
        raise ValueError(f"environment variable {name} must be a whole number, got {text!r}: set or unset it")
    return int(text)
