"""Which of several processes this one is, and how many threads torch computes with in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["is_first_process", "rank_variables", "torch_threads"]

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


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Let torch compute with so many threads, and with as many as before afterwards.

    Example:
        >>> import torch
        >>> with torch_threads(1):
        ...     torch.get_num_threads()
        1
    """
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
