"""Lightning's Trainer as runs use it, without its noise."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from cophenet.runs.folder import Machine
from cophenet.runs.run import Run

if TYPE_CHECKING:
    import lightning.pytorch as pl
    from lightning.pytorch.loggers import Logger

__all__ = ["make_loggers", "make_trainer", "quiet", "threads_of_torch"]


def make_trainer(run: Run, machine: Machine, phases: int, **options: Any) -> pl.Trainer:
    """A trainer that writes into the run folder only, and asks for the data anew in every epoch."""
    import lightning.pytorch as pl

    return pl.Trainer(
        accelerator=machine.accelerator,
        devices=machine.devices,
        strategy=_strategy(machine, phases),
        num_nodes=machine.num_nodes,
        default_root_dir=run.path,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        log_every_n_steps=1,
        reload_dataloaders_every_n_epochs=1,
        use_distributed_sampler=False,
        **options,
    )


def _strategy(machine: Machine, phases: int) -> str:
    """The strategy by Lightning's name; with several phases there are always heads without gradient."""
    if phases > 1 and (machine.strategy == "ddp" or (machine.strategy == "auto" and machine.devices != 1)):
        return "ddp_find_unused_parameters_true"
    return machine.strategy


def make_loggers(run: Run, names: Sequence[str], epoch: int) -> list[Logger]:
    """Lightning's loggers by name, for a run that begins after some epochs."""
    loggers: list[Logger] = []
    if "tensorboard" in names:
        from lightning.pytorch.loggers import TensorBoardLogger

        # What was logged after the checkpoint is logged again.
        loggers.append(TensorBoardLogger(run.path, name="", version="tensorboard", purge_step=epoch + 1))
    if "wandb" in names:
        from lightning.pytorch.loggers import WandbLogger

        loggers.append(WandbLogger(project="cophenet", name=run.name, save_dir=run.path))
    return loggers


@contextmanager
def threads_of_torch(count: int) -> Iterator[None]:
    """With so many threads, and as before afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def quiet() -> Iterator[None]:
    """Without Lightning's banners, tips and warnings about how it is used here."""
    import lightning.pytorch  # noqa: F401  (sets the levels of its loggers)

    loggers = [logging.getLogger(f"lightning.{part}") for part in ("pytorch", "fabric")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module=r"lightning\.")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
