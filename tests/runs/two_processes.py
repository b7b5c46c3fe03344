"""Trainings on two processes, as `python two_processes.py FOLDER` runs them, and the same on one.

Lightning starts the second process, from the same command line, with the first training; all others follow
in the same two processes.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
import torch.distributed as dist

from cophenet._common.processes import is_first_process
from cophenet.cli import main
from cophenet.runs.lightning_module import TrainingModule
from cophenet.runs.loss_meter import Meter

TOGETHER = ("--accelerator", "cpu", "--devices", "2", "--strategy", "ddp")
MLP = ("model.options.hidden=[16]",)
# At larger rates rounding in float32 grows beyond 1e-5 within ten steps; test_distributed.py has a usual
# rate, in float64.
RESNET = ("model={backbone: resnet10-w8, options: {norm: group, stem: cifar}}", "optimizer.lr=0.0002")
SAMPLER = (
    "data.sampler={classes_per_batch: 4, samples_per_class: 13, parents_per_batch: 2}",
    "batch_size=52",
)
# The file lies in the current folder; its vectors are computed by one process, for which the other waits.
FROZEN = (
    "model={backbone: mlp, options: {hidden: [16]}, weights: trunk.pth, frozen: true, neck: {hidden: [12]}}"
)
CURRICULUM = ("objective.name=curriculum", "objective.options.curriculum.epochs=[1, 1]", "epochs=2")

# Every epoch has ten steps or more; their 89 samples cannot be halved.
CASES: dict[str, tuple[str, ...]] = {
    "mlp-fastft": (*MLP, "epochs=2"),
    "mlp-emd": (*MLP, "objective.name=emd"),
    "resnet-fastft": RESNET,
    "resnet-emd": (*RESNET, "objective.name=emd"),
    "curriculum": (*MLP, *CURRICULUM),
    "sampler": (*MLP, *SAMPLER),
    "chunks": (*MLP, "chunk_size=10", "objective.name=swd"),
    "curriculum-chunks": (*MLP, *CURRICULUM, "chunk_size=20"),
    "frozen": (FROZEN, "objective.name=l2"),
    "memory": (*MLP, *SAMPLER, "objective.cpcc={memory: 140, memory_age: 7}"),
}
# Of these the run `NAME-stopped` is interrupted in the middle of an epoch, and resumed.
STOPPED = {"mlp-fastft": 14, "memory": 6, "curriculum-chunks": 14}


@contextmanager
def recorded_losses(losses: list[float], stop_at: int | None = None) -> Iterator[None]:
    """Note the loss of every step, that of all processes; ask the last of them to stop in a step."""
    add, training_step = Meter.add, TrainingModule.training_step

    def noting(meter, step, terms, samples):
        loss = sum(term.detach() for term in terms.values())
        if dist.is_initialized():
            dist.all_reduce(loss)
            loss /= dist.get_world_size()
        losses.append(loss.item())
        add(meter, step, terms, samples)

    def stopping(module, batch, batch_idx):
        if module.total_step == stop_at and module.global_rank == module.trainer.world_size - 1:
            signal.raise_signal(signal.SIGTERM)
        return training_step(module, batch, batch_idx)

    Meter.add, TrainingModule.training_step = noting, stopping
    try:
        yield
    finally:
        Meter.add, TrainingModule.training_step = add, training_step


def train(output: Path, settings: tuple[str, ...], *options: str, stop_at: int | None = None) -> list[float]:
    """`cophenet train` in this process; the losses of its steps."""
    given = ("epochs=1", "batch_size=89", *settings)
    chosen = [word for setting in given for word in ("--set", setting)]
    return run("-o", str(output), "--threads", "1", *chosen, *options, stop_at=stop_at)


def run(*arguments: str, stop_at: int | None = None) -> list[float]:
    losses: list[float] = []
    with recorded_losses(losses, stop_at):
        try:
            main(["train", *arguments])
        except SystemExit as ended:
            if ended.code != (0 if stop_at is None else 1):
                raise
    return losses


def train_all(folder: Path) -> None:
    losses = {}
    for name, settings in CASES.items():
        losses[name] = train(folder / name, settings, *TOGETHER)
        if name in STOPPED:
            part = train(folder / f"{name}-stopped", settings, *TOGETHER, stop_at=STOPPED[name])
            losses[f"{name}-stopped"] = part + run("--resume", str(folder / f"{name}-stopped"))
    if is_first_process():
        (folder / "losses.json").write_text(json.dumps(losses))


if __name__ == "__main__":
    torch.set_num_threads(1)
    train_all(Path(sys.argv[1]))
