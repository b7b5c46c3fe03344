"""How processes that train together share a batch."""

from __future__ import annotations

from cophenet._common.checks import check_whole

__all__ = ["check_rank", "shard"]


def check_rank(rank: int, world_size: int) -> None:
    """Refuse a rank that is none of so many processes.

    Example:
        >>> check_rank(2, 2)
        Traceback (most recent call last):
        ValueError: rank must be below world_size 2, got 2
    """
    check_whole("rank", rank, 0)
    check_whole("world_size", world_size, 1)
    if rank >= world_size:
        raise ValueError(f"rank must be below world_size {world_size}, got {rank}")


def shard(size: int, rank: int, world_size: int, begin: int = 0) -> slice:
    """The part of a batch that a process has: contiguous, in order of rank, sizes at most one apart.

    Args:
        size: Samples of the batch.
        rank: Which process.
        world_size: How many processes share the batch.
        begin: Where the batch begins.

    Example:
        >>> [shard(5, rank, 3) for rank in range(3)]
        [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    least, more = divmod(size, world_size)
    start = begin + rank * least + min(rank, more)
    return slice(start, start + least + (rank < more))
