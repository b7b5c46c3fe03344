"""Train a recipe, and resume an interrupted training."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import torch

from cophenet._common.checks import check_choice, check_number, check_whole
from cophenet._common.packages import require
from cophenet._common.processes import is_first_process, torch_threads
from cophenet.models.registry import PRETRAINED
from cophenet.recipes import Recipe
from cophenet.recipes.own_code import check_trust
from cophenet.runs.experiment import Experiment, load_experiment
from cophenet.runs.folder import (
    Machine,
    check_free,
    check_same_data,
    lock_run_folder,
    make_run_folder,
    recipe_of_seed,
    record_data_dir,
    restore_seed_folders,
    wait_for_run,
)
from cophenet.runs.lightning_trainer import Options, train_seeds
from cophenet.runs.loaded_data import find_weights
from cophenet.runs.run import Run

__all__ = ["resume", "train"]

_LOGGERS = ("csv", "tensorboard", "wandb", "mlflow")


def train(
    recipe: Recipe,
    output: str | Path,
    *,
    data_dir: str | Path | None = None,
    accelerator: str = "auto",
    devices: int | str = 1,
    strategy: str = "auto",
    num_nodes: int = 1,
    threads: int | None = None,
    loggers: Sequence[str] = ("csv", "tensorboard"),
    progress: bool | None = None,
    checkpoint_minutes: float = 10.0,
) -> Run:
    """Train a recipe, once for each of its seeds.

    Args:
        recipe: All settings; its batch size is the total over all devices.
        output: Folder to create; an existing one must be empty.
        data_dir: Folder of the data; None for data that needs none.
        accelerator: Lightning's name of the accelerator.
        devices: Number of devices, or which ones.
        strategy: Lightning's name of the strategy.
        num_nodes: Number of machines.
        threads: Number of torch's CPU threads; None for the current number.
        loggers: Any of "tensorboard", "wandb" and "mlflow"; "csv" is always written.
        progress: None for a bar on a terminal and a line for every epoch elsewhere, True for the bar, False
            for nothing.
        checkpoint_minutes: Time between two checkpoints within an epoch.

    Returns:
        The finished run.

    Raises:
        KeyboardInterrupt: If it was interrupted by a signal; at the first signal, after saving a checkpoint.
        ArithmeticError: If the loss is no longer finite.
        ValueError: If the folder is occupied, or recipe and data do not match.

    Example:
        >>> import tempfile
        >>> from cophenet.recipes import load_recipe
        >>> recipe = load_recipe("digits", overrides=["epochs=1"])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     run = train(recipe, folder, loggers=(), progress=False)
        ...     len(run.metrics), run.finished
        (1, True)
    """
    output, place = Path(output), None if data_dir is None else Path(data_dir)
    if threads is not None:
        check_whole("threads", threads, 1)
    check_whole("num_nodes", num_nodes, 1)
    machine = Machine(accelerator, devices, strategy, num_nodes, threads or torch.get_num_threads())
    in_chunks = strategy in ("auto", "single_device") or strategy.startswith("ddp")
    if recipe.chunk_size is not None and not in_chunks:
        raise ValueError(f"chunk_size needs strategy ddp or auto, got {strategy!r}")
    options = _checked(loggers, checkpoint_minutes, progress)
    check_trust(recipe)
    if is_first_process():
        check_free(recipe, output, place)
    experiment = _prepared(recipe, place, machine, progress)
    with _new_run(experiment, output, place, machine) as run:
        train_seeds(run, experiment, machine, options)
    return run


def resume(
    path: str | Path,
    *,
    data_dir: str | Path | None = None,
    loggers: Sequence[str] = ("csv", "tensorboard"),
    progress: bool | None = None,
    checkpoint_minutes: float = 10.0,
    trust: bool = False,
) -> Run:
    """Resume a training from its newest intact checkpoint; a finished run is left unchanged.

    If the data has moved, the new folder is recorded, also in a finished run.

    A finished run is trained again where it was damaged: the epochs after the newest intact checkpoint, if a
    newer one is damaged, and every seed whose folder is missing.

    Recipe, threads and devices are those of the original training. On a CPU the final weights are identical
    to those of an uninterrupted training.

    Args:
        path: The run folder, of one seed or of several.
        data_dir: Folder of the data, if it has moved.
        loggers: As for `train`.
        progress: As for `train`.
        checkpoint_minutes: As for `train`.
        trust: Whether custom code that the folder names may run, such as a backbone by import path.

    Raises:
        TrustError: If the folder names custom code and `trust` is False.
        ValueError: If there is no run, another process is using it, or the data has changed.
    """
    run = Run.open(path, trust=trust)
    options = _checked(loggers, checkpoint_minutes, progress)
    if not run.missing_seeds and run.finished and not run.damaged:
        if data_dir is not None and is_first_process():
            with lock_run_folder(run.path):
                check_same_data(run.parts[0], load_experiment(run.recipe, data_dir, progress=progress))
                record_data_dir(run, Path(data_dir))
        return run
    for part in (run, *run.present_parts):
        check_trust(part.recipe)
    info, first = run.info, is_first_process()
    machine = Machine(*(info[key] for key in ("accelerator", "devices", "strategy", "num_nodes", "threads")))
    with ExitStack() as stack:
        if first:
            stack.enter_context(lock_run_folder(run.path))
        experiment = load_experiment(run.recipe, data_dir or info["data_dir"], progress=progress)
        with torch_threads(machine.threads):
            experiment.prepare()
        if first:
            restore_seed_folders(run, experiment)
        for seed in run.missing_seeds:
            wait_for_run(run.path / f"seed{seed}", recipe_of_seed(run.recipe, seed))
        check_same_data(run.parts[0], experiment)
        if first and data_dir is not None:
            record_data_dir(run, Path(data_dir))
        train_seeds(run, experiment, machine, options)
    return run


def _prepared(recipe: Recipe, data_dir: Path | None, machine: Machine, progress: bool | None) -> Experiment:
    """Load and check the data of a new run, before its folder is created."""
    experiment = load_experiment(recipe, data_dir, progress=progress)
    find_weights(recipe, data_dir)
    experiment.training_loader(recipe.seeds[0])  # raises if the data does not allow such batches
    if is_first_process() and progress is not False and recipe.model.weights == PRETRAINED:
        frozen = ", frozen" if recipe.model.frozen else ""
        print(f"{recipe.model.backbone} with pretrained weights{frozen}", flush=True)
    with torch_threads(machine.threads):
        experiment.prepare()
    return experiment


@contextmanager
def _new_run(experiment: Experiment, output: Path, data_dir: Path | None, machine: Machine) -> Iterator[Run]:
    """Create and lock the run folder in the first process; wait for it in the other processes."""
    recipe = experiment.recipe
    if not is_first_process():
        yield wait_for_run(output, recipe)
        return
    is_new = not output.exists()
    output.mkdir(parents=True, exist_ok=True)
    with lock_run_folder(output), _without_leftovers(output, is_new):
        check_free(recipe, output, data_dir)  # again: another process may have created it meanwhile
        make_run_folder(experiment, output, data_dir, machine)
        # The recipe was given by the caller: it is trusted if the caller trusts it.
        yield Run.open(output, trust=recipe.untrusted is None)


@contextmanager
def _without_leftovers(output: Path, is_new: bool) -> Iterator[None]:
    """Remove a new folder, while it is locked, if an error occurs before the first checkpoint."""
    is_new = is_new and len(list(output.iterdir())) == 1  # only the lock file: no other process wrote there
    try:
        yield
    except (ArithmeticError, OSError):
        raise  # the training has started: leave its log for the user
    except Exception:
        if is_new and not any(output.rglob("*.ckpt")):
            shutil.rmtree(output, ignore_errors=True)
        raise


def _checked(loggers: Sequence[str], checkpoint_minutes: float, progress: bool | None) -> Options:
    require("lightning", "training needs", "cophenet[train]")
    check_number("checkpoint_minutes", checkpoint_minutes)
    for name in loggers:
        check_choice("loggers", name, _LOGGERS)
        if name != "csv":
            require(name, f"logger {name!r} needs", "cophenet[train]" if name == "tensorboard" else name)
    return Options(tuple(loggers), checkpoint_minutes, progress)
