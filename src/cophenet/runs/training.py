"""Training a recipe, and going on with a training that was interrupted."""

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
        recipe: All settings; its batch size is that of all devices together.
        output: Folder to make; an existing one must be empty.
        data_dir: Folder of the data; None for data that needs none.
        accelerator: What to compute on, by Lightning's name.
        devices: How many of them, or which.
        strategy: How they work together, by Lightning's name.
        num_nodes: How many machines.
        threads: Of torch on the CPU; None for as many as torch has now.
        loggers: "tensorboard", "wandb" and "mlflow" as wanted; "csv" is always written.
        progress: None for a bar on a terminal and a line for every epoch elsewhere, True for the bar, False
            for nothing.
        checkpoint_minutes: Time between two checkpoints within an epoch.

    Returns:
        The finished run.

    Raises:
        KeyboardInterrupt: If it was asked to stop; a checkpoint is written before.
        ArithmeticError: If the loss is no longer finite.
        ValueError: If the folder is not free, or recipe and data do not fit.

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
    """Go on with a training from its newest whole checkpoint; a finished one is left as it is.

    Where the data has moved, the new folder is recorded, also in a finished run.

    Of a finished run too, epochs are trained again if the newest checkpoint is damaged, and a seed whose
    folder is lost.

    Recipe, threads and devices are those it began with. On a CPU it ends with the very same weights as a
    training that was never interrupted.

    Args:
        path: The run folder, of one seed or of several.
        data_dir: Folder of the data, if it is no longer where it was.
        loggers: As for `train`.
        progress: As for `train`.
        checkpoint_minutes: As for `train`.
        trust: Whether code of a user's own that the folder names may run, such as a backbone by import path.

    Raises:
        TrustError: If the folder names such code and may not.
        ValueError: If there is no run, another process has it, or the data has changed.
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
    """Data and network of a new run: all that may be refused or takes time before it has a folder."""
    experiment = load_experiment(recipe, data_dir, progress=progress)
    find_weights(recipe, data_dir)
    experiment.training_loader(recipe.seeds[0])  # refuses batches that the data cannot give
    if is_first_process() and progress is not False and recipe.model.weights == PRETRAINED:
        frozen = ", frozen" if recipe.model.frozen else ""
        print(f"{recipe.model.backbone} with pretrained weights{frozen}", flush=True)
    with torch_threads(machine.threads):
        experiment.prepare()
    return experiment


@contextmanager
def _new_run(experiment: Experiment, output: Path, data_dir: Path | None, machine: Machine) -> Iterator[Run]:
    """The run in its new folder, which the first process makes and locks, and the others wait for."""
    recipe = experiment.recipe
    if not is_first_process():
        yield wait_for_run(output, recipe)
        return
    is_new = not output.exists()
    output.mkdir(parents=True, exist_ok=True)
    with lock_run_folder(output), _without_leftovers(output, is_new):
        check_free(recipe, output, data_dir)  # again: another process may have been quicker
        make_run_folder(experiment, output, data_dir, machine)
        # The recipe is that of the caller, whose code may run.
        yield Run.open(output, trust=recipe.untrusted is None)


@contextmanager
def _without_leftovers(output: Path, is_new: bool) -> Iterator[None]:
    """Remove a new folder again, while it is locked, if an error comes before anything is saved."""
    is_new = is_new and len(list(output.iterdir())) == 1  # the lock: no other process was quicker
    try:
        yield
    except (ArithmeticError, OSError):
        raise  # it has begun, and its log says where it ended
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
