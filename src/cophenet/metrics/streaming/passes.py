"""One pass over blocks: each adds to the same totals, shared by processes, watched by a progress bar."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from cophenet._common.progress import Progress, as_percent
from cophenet.cpcc.exchange import check_same_setup, process_count, tell_all
from cophenet.cpcc.module_setup import Setup

__all__ = ["add_blocks"]

Block = TypeVar("Block")


def add_blocks(
    blocks: Sequence[Block], work: Callable[[Block], None], totals: Tensor, label: str, progress: bool
) -> Tensor:
    """Let each block add to the totals; with a process group, blocks are shared and totals added up.

    Args:
        blocks: All blocks, the same in all processes; each takes a run of them.
        work: Adds a block to the totals.
        totals: The sums, zeros at first.
        label: Name of the pass, shown before the progress bar.
        progress: Whether the first process shows a bar.

    Returns:
        The totals of all processes, in all of them.

    Raises:
        ValueError: In all processes, what one of them raised; or if they add up different things.
        RuntimeError: In all others, if a process has an error of another kind.
    """
    count = process_count()
    if count == 1:
        for block in _with_progress(blocks, label, progress):
            work(block)
        return totals
    rank = dist.get_rank()
    own = blocks[rank * len(blocks) // count : (rank + 1) * len(blocks) // count]
    device = torch.device("cuda" if "nccl" in dist.get_backend() else "cpu")
    setup = {"pass": label, "number of blocks": str(len(blocks)), "shape of totals": str(tuple(totals.shape))}
    check_same_setup(Setup(setup), device)
    problem = None
    try:
        for block in _with_progress(own, label, progress and rank == 0):
            work(block)
    except Exception as error:
        problem = error
    return tell_all(problem, totals.flatten().to(device)).view_as(totals).to(totals.device)


def _with_progress(blocks: Sequence[Block], label: str, shown: bool) -> Iterator[Block]:
    """The blocks, with a bar on the standard error stream that says how many are done and what is left."""
    with Progress(label, len(blocks), show=shown, count=as_percent) as progress:
        for done, block in enumerate(blocks, start=1):
            yield block
            progress.update(done)
