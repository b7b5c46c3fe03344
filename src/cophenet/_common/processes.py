"""The rank of this process among several, and its number of torch threads."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["is_first_process", "rank_variables", "torch_threads"]

_RANKS = ("LOCAL_RANK", "NODE_RANK", "RANK")


def is_first_process() -> bool:
    """Whether this process is the one that writes; others are started by Lightning or a cluster.

    Raises:
        ValueError: If a rank in the environment is not a number.
    """
    return not any(_rank(name) for name in _RANKS)


def rank_variables() -> str:
    """The environment variables that give the rank of this process, such as "RANK=1"."""
    return " ".join(f"{name}={os.environ[name]}" for name in _RANKS if os.environ.get(name))


def _rank(name: str) -> int:
    text = os.environ.get(name, "0")
    if not text.strip().isdecimal():
        raise ValueError(f"environment variable {name} must be a whole number, got {text!r}: set or unset it")
    return int(text)


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Context manager that sets the number of torch threads, and restores it afterwards.

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
