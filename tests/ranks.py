"""Real processes for tests: one gloo group per module, in which many small cases are run."""

from __future__ import annotations

import contextlib
import multiprocessing
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from forked import HANGS, fork


def _serve(rank: int, count: int, meeting: str, pipe: Any) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=count)
    while (task := pipe.recv()) is not None:
        function, arguments = task
        try:
            pipe.send((True, function(rank, *arguments)))
        except Exception:
            pipe.send((False, traceback.format_exc()))
    dist.destroy_process_group()


class Ranks:
    """A process group; calling it runs a function of a module on every process."""

    def __init__(self, pipes: list[Any]) -> None:
        self.pipes = pipes

    def __call__(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """What function(rank, *arguments) returns on each process; one that does not answer has hung."""
        for pipe in self.pipes:
            pipe.send((function, arguments))
        answers = []
        for rank, pipe in enumerate(self.pipes):
            assert pipe.poll(HANGS), f"process {rank} hangs"
            fine, answer = pipe.recv()
            assert fine, answer
            answers.append(answer)
        return answers


@contextlib.contextmanager
def process_group(count: int) -> Iterator[Ranks]:
    """Start processes, and end them."""
    with tempfile.TemporaryDirectory() as folder:
        meeting, pipes, processes = str(Path(folder) / "meeting"), [], []
        for rank in range(count):
            ours, theirs = multiprocessing.Pipe()
            processes.append(fork(_serve, rank, count, meeting, theirs, daemon=True))
            pipes.append(ours)
        try:
            yield Ranks(pipes)
            for pipe in pipes:
                pipe.send(None)
            for process in processes:
                process.join(20)
        finally:
            for process in processes:
                process.kill()
