"""Train the seeds of a run with Lightning, one after the other, each from its newest checkpoint."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from cophenet._common.checks import DivergenceError
from cophenet._common.files import write_json
from cophenet._common.processes import is_first_process, torch_threads
from cophenet._common.shell import command
from cophenet.recipes.own_code import own_code
from cophenet.runs.checkpoints import list_checkpoints, newest_good, read_checkpoint
from cophenet.runs.experiment import Experiment, build_network
from cophenet.runs.folder import Machine, check_wandb_settings, lock_run_folder
from cophenet.runs.loaded_data import find_weights
from cophenet.runs.run import Run
from cophenet.runs.stop_signals import InterruptionError, StopRequest

if TYPE_CHECKING:
    import lightning.pytorch as pl
    from lightning.pytorch.loggers import Logger

    from cophenet.runs.callbacks import RunLog
    from cophenet.runs.lightning_module import TrainingModule

__all__ = ["Options", "build_module", "train_seeds"]


# A warning: likely a mistake, but the training goes on.
_CONSTANT = (
    "warning: all classes are equally far apart in the tree, so the cpcc term is constant and "
    "teaches nothing: give a tree with groups, or train with --objective flat"
)


@dataclass(frozen=True)
class Options:
    """Logging and checkpoint options of a training; they do not change the result.

    Attributes:
        loggers: Names of the loggers.
        minutes: Time between two checkpoints within an epoch.
        progress: None for a bar on a terminal and lines elsewhere, True for the bar, False for nothing.
    """

    loggers: tuple[str, ...]
    minutes: float
    progress: bool | None


def train_seeds(run: Run, experiment: Experiment, machine: Machine, options: Options) -> None:
    """Train all seeds that are not finished, or whose last checkpoint is damaged.

    Raises:
        KeyboardInterrupt: If it was interrupted by a signal; the message says how to resume.
        DivergenceError: If the loss is no longer finite; the message says what may help.
    """
    from cophenet.runs.callbacks import RunLog

    if experiment.objective.cpcc is not None:
        experiment.objective.cpcc.distance.warm_up()  # compile first, so that all steps use the same code
    constant = experiment.objective.cpcc is not None and experiment.tree.is_equidistant
    if constant and is_first_process() and options.progress is not False:
        print(_CONSTANT, file=sys.stderr, flush=True)
    with (
        _quiet(),
        torch_threads(machine.threads),
        torch.random.fork_rng(devices=[]),
        StopRequest() as stop,
    ):
        for part in run.parts:
            if part.finished and not part.damaged:
                continue
            log = RunLog(part.path / "log.txt", shown=options.progress is not False)
            locks = is_first_process() and part is not run  # a single-seed run is locked already
            with lock_run_folder(part.path) if locks else nullcontext(), _explained_end(part, run, log, stop):
                if stop.wanted:  # requested after the last step of the previous seed
                    raise InterruptionError
                if constant:
                    log.record(_CONSTANT)
                _train_one(part, experiment, machine, options, log, stop)


@contextmanager
def _explained_end(part: Run, run: Run, log: RunLog, stop: StopRequest) -> Iterator[None]:
    """Add advice to the error that ends a training early, and write it to the log."""
    going_on = command("train", "--resume", run.path, *(("--trust",) if own_code(run.recipe) else ()))
    try:
        try:
            yield
        except InterruptionError as error:
            raise KeyboardInterrupt(f"stopped and saved; continue with {going_on}") from error
        except (KeyboardInterrupt, SystemExit) as error:
            # At a second signal, for which Lightning exits.
            if isinstance(error, SystemExit) and not stop.wanted:
                raise
            raise KeyboardInterrupt(
                f"stopped at once; continue from the last checkpoint with {going_on}"
            ) from error
        except DivergenceError as error:
            raise DivergenceError(f"{error}: {_advice(part)}") from error
    except BaseException as error:
        line = str(error) if isinstance(error, KeyboardInterrupt) else f"error: {error}"
        with suppress(OSError):  # the error may be that the disk is full
            log.record(" ".join(line.split()))
        raise


def _advice(part: Run) -> str:
    """Suggest what may help against a diverging loss."""
    written = list_checkpoints(part.path / "checkpoints")
    saved = f"{written[0].name} is from before" if written else "no checkpoint was written before"
    precision = "" if part.recipe.precision == "32-true" else ", or precision=32-true"
    helps = f"a smaller optimizer.lr or a smaller weight of the term{precision}"
    return f"{saved}; begin another run with -o and {helps}"


def _train_one(
    run: Run,
    experiment: Experiment,
    machine: Machine,
    options: Options,
    log: RunLog,
    stop: StopRequest,
) -> None:
    from cophenet.runs.callbacks import CheckpointFiles, CheckpointSaver, EpochRecorder, ProgressCallback

    checkpoint = _choose_checkpoint(run, log)
    module = build_module(run, experiment, fresh=checkpoint is None)
    if len(module.stages) > 1:
        phases = ", ".join(f"{stage.phase.name} {stage.end - stage.start}" for stage in module.stages)
        log.write(f"phases by epochs: {phases}; {module.total_epochs} in all")
    epoch = 0 if checkpoint is None else _next_epoch(checkpoint)
    recorder = EpochRecorder(run)
    if epoch < module.total_epochs:
        bar = sys.stdout.isatty() if options.progress is None else options.progress
        trainer = _make_trainer(
            run,
            machine,
            phases=len(module.stages),
            max_epochs=module.total_epochs - epoch,
            precision=run.recipe.precision,
            callbacks=[
                recorder,
                ProgressCallback(recorder, log, bar=bar),
                CheckpointSaver(run, options.minutes, stop),
            ],
            logger=_make_loggers(run, options.loggers, epoch),
            plugins=[CheckpointFiles()],
        )
        trainer.fit(module, ckpt_path=checkpoint)
    elif checkpoint is not None:
        module.best = read_checkpoint(checkpoint).get("best", {})
    best = module.best
    if is_first_process():
        seconds = [row["seconds"] for row in run.metrics]
        kept = {"epoch": best["epoch"], "validation_accuracy": best["accuracy"]} if best else None
        if best:
            log.write(
                f"kept the weights of epoch {best['epoch']}: validation accuracy {best['accuracy']:.3f}"
            )
        ended = {"finished": True, "seconds_per_epoch": seconds, "kept": kept}
        write_json(run.path / "run.json", {**run.info, **ended})


def _choose_checkpoint(run: Run, log: RunLog) -> Path | None:
    """Return the newest intact checkpoint; log damaged ones and rename them."""
    checkpoint, damaged = newest_good(run.path / "checkpoints")
    if damaged and run.info["finished"] and is_first_process():
        # Before the damaged file is renamed: afterwards nothing else would show that epochs are missing.
        write_json(run.path / "run.json", {**run.info, "finished": False})
    for path in damaged:
        if is_first_process():
            path.rename(path.with_suffix(".damaged"))
        instead = "beginning again" if checkpoint is None else f"using {checkpoint.name}"
        log.write(f"checkpoint {path.name} is damaged: {instead}")
    if checkpoint is not None:
        log.write(f"seed {run.seed}: continuing from {checkpoint.name}")
        began = run.info.get("versions", {}).get("torch", torch.__version__)
        if began != torch.__version__:
            now = f"this is torch {torch.__version__}"
            log.write(f"the run began with torch {began}, {now}: what follows may differ in its last digits")
    else:
        log.write(f"seed {run.seed}: {run.recipe.name} with {run.recipe.objective.name}")
    return checkpoint


def _next_epoch(path: Path) -> int:
    """Read the epoch at which a checkpoint resumes.

    Raises:
        ValueError: If the checkpoint has no valid position.
    """
    position: Any = read_checkpoint(path).get("position")
    keys = ("epoch", "step", "seconds")
    kinds = [type(position.get(key)) for key in keys] if isinstance(position, dict) else []
    if kinds not in ([int, int, float], [int, int, int]):
        raise ValueError(f"checkpoint {path} does not say where the training left off: it is none of a run")
    return int(position["epoch"])


def build_module(run: Run, experiment: Experiment, *, fresh: bool) -> TrainingModule:
    """Create the LightningModule of a run, initialized from the seed of the run.

    Args:
        run: A single-seed run.
        experiment: Data and settings.
        fresh: Whether to load the recipe's `model.weights`; False if a checkpoint will be loaded.
    """
    from cophenet.runs.lightning_module import TrainingModule, derive_seed

    torch.manual_seed(derive_seed(run.seed))
    objective = experiment.fresh_objective()
    weights = find_weights(run.recipe, run.info["data_dir"]) if fresh else None
    network = build_network(run.recipe, objective, run.info["input_shape"], weights)
    return TrainingModule(experiment, network, objective, run.seed)


def _make_trainer(run: Run, machine: Machine, phases: int, **options: Any) -> pl.Trainer:
    """Create a trainer that writes only into the run folder, and reloads the data loaders in every epoch."""
    import lightning.pytorch as pl

    strategy = machine.strategy
    if phases > 1 and (strategy == "ddp" or (strategy == "auto" and machine.devices != 1)):
        strategy = "ddp_find_unused_parameters_true"  # heads of other phases never have gradients
    return pl.Trainer(
        accelerator=machine.accelerator,
        devices=machine.devices,
        strategy=strategy,
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


def _make_loggers(run: Run, names: Sequence[str], epoch: int) -> list[Logger]:
    """Create Lightning loggers by name, for a run that has completed `epoch` epochs."""
    loggers: list[Logger] = []
    if "tensorboard" in names:
        from lightning.pytorch.loggers import TensorBoardLogger

        # Steps logged after the checkpoint are trained and logged again: remove the old events.
        loggers.append(TensorBoardLogger(run.path, name="", version="tensorboard", purge_step=epoch + 1))
    if "wandb" in names:
        from lightning.pytorch.loggers import WandbLogger

        check_wandb_settings(run.path)
        loggers.append(WandbLogger(project="cophenet", name=run.name, save_dir=run.path))
    if "mlflow" in names:
        from lightning.pytorch.loggers import MLFlowLogger
        from mlflow import get_tracking_uri

        # MLflow's default location, shared by all runs: its server, or a database in the current folder.
        loggers.append(MLFlowLogger("cophenet", run.name, tracking_uri=get_tracking_uri()))
    return loggers


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress Lightning's banners, tips and warnings."""
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
