"""Training a recipe, and going on with a training that was interrupted."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from cophenet.checks import check_choice, check_number, check_whole
from cophenet.training.checkpoints import newest_good, read_checkpoint
from cophenet.training.experiment import Experiment, build_network, find_weights, load_experiment
from cophenet.training.files import is_first_process, locked, write_json
from cophenet.training.folders import Machine, check_free, check_same_data, prepare, wait_for
from cophenet.training.recipe import Recipe
from cophenet.training.run import Run
from cophenet.training.stopping import InterruptionError, StopRequest, stop_on_signals
from cophenet.training.trainers import make_loggers, make_trainer, quiet, threads_of_torch

if TYPE_CHECKING:
    from cophenet.training.module import TrainingModule
    from cophenet.training.progress import Journal

__all__ = ["resume", "train"]

_LOGGERS = ("csv", "tensorboard", "wandb")


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
        loggers: "tensorboard" and "wandb" as wanted; "csv" is always written.
        progress: None for a bar on a terminal and a line for every epoch elsewhere, True for the bar, False
            for nothing.
        checkpoint_minutes: Time between two checkpoints within an epoch.

    Returns:
        The finished run.

    Raises:
        KeyboardInterrupt: If it was asked to stop; where it stood is saved.
        ArithmeticError: If the loss is no longer finite.
        ValueError: If the folder is taken, or recipe and data do not fit.

    Example:
        >>> import tempfile
        >>> from cophenet.training import load_recipe
        >>> recipe = load_recipe("digits", overrides=["epochs=1"])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     run = train(recipe, folder, loggers=(), progress=False)
        ...     len(run.metrics), run.finished
        (1, True)
    """
    output = Path(output)
    machine = _machine(accelerator, devices, strategy, num_nodes, threads)
    if recipe.chunk_size is not None:
        _check_chunks(strategy)
    run_options = _checked(loggers, checkpoint_minutes)
    first = is_first_process()
    if first:
        check_free(recipe, output)
    experiment = load_experiment(recipe, data_dir)
    find_weights(recipe, data_dir)
    experiment.training_loader(recipe.seeds[0])  # refuses batches that the data cannot give
    with ExitStack() as stack:
        if first:
            output.mkdir(parents=True, exist_ok=True)
            stack.enter_context(locked(output))
            prepare(experiment, output, None if data_dir is None else Path(data_dir), machine)
        run = Run.open(output) if first else wait_for(output, recipe)
        _train_parts(run, experiment, machine, run_options, progress)
    return run


def resume(
    path: str | Path,
    *,
    data_dir: str | Path | None = None,
    loggers: Sequence[str] = ("csv", "tensorboard"),
    progress: bool | None = None,
    checkpoint_minutes: float = 10.0,
) -> Run:
    """Go on with a training from its newest whole checkpoint; a finished one is left as it is.

    Recipe, threads and devices are those it began with. On a CPU it ends with the very same weights as a
    training that was never interrupted.

    Args:
        path: The run folder, of one seed or of several.
        data_dir: Folder of the data, if it is no longer where it was.
        loggers: As for `train`.
        progress: As for `train`.
        checkpoint_minutes: As for `train`.

    Raises:
        ValueError: If there is no run, another process has it, or the data has changed.
    """
    run = Run.open(path)
    run_options = _checked(loggers, checkpoint_minutes)
    if run.finished:
        return run
    info = run.info
    machine = Machine(*(info[key] for key in ("accelerator", "devices", "strategy", "num_nodes", "threads")))
    with ExitStack() as stack:
        if is_first_process():
            stack.enter_context(locked(run.path))
        experiment = load_experiment(run.recipe, data_dir or info["data_dir"])
        check_same_data(run.parts[0], experiment)
        _train_parts(run, experiment, machine, run_options, progress)
    return run


def _machine(
    accelerator: str, devices: int | str, strategy: str, num_nodes: int, threads: int | None
) -> Machine:
    if threads is not None:
        check_whole("threads", threads, 1)
    check_whole("num_nodes", num_nodes, 1)
    return Machine(accelerator, devices, strategy, num_nodes, threads or torch.get_num_threads())


def _check_chunks(strategy: str) -> None:
    if strategy not in ("auto", "single_device") and not strategy.startswith("ddp"):
        raise ValueError(f"chunk_size needs strategy ddp or auto, got {strategy!r}")


def _checked(loggers: Sequence[str], checkpoint_minutes: float) -> dict[str, Any]:
    check_number("checkpoint_minutes", checkpoint_minutes)
    for name in loggers:
        check_choice("loggers", name, _LOGGERS)
        package = {"csv": None, "tensorboard": "tensorboard", "wandb": "wandb"}[name]
        if package is not None and importlib.util.find_spec(package) is None:
            raise ImportError(f"logger {name!r} needs the package {package}: pip install {package}")
    return {"loggers": tuple(loggers), "minutes": checkpoint_minutes}


def _train_parts(
    run: Run, experiment: Experiment, machine: Machine, options: dict[str, Any], progress: bool | None
) -> None:
    """All seeds that are not finished, one after the other."""
    advice = f"stopped and saved; continue with cophenet train --resume {run.path}"
    with (
        quiet(),
        threads_of_torch(machine.threads),
        torch.random.fork_rng(devices=[]),
        stop_on_signals() as stop,
    ):
        for part in run.parts:
            if part.finished:
                continue
            if stop.wanted:  # since the last step of the seed before
                raise KeyboardInterrupt(advice)
            try:
                _train_one(part, experiment, machine, options, progress, stop)
            except InterruptionError as error:
                raise KeyboardInterrupt(advice) from error


def _train_one(
    run: Run,
    experiment: Experiment,
    machine: Machine,
    options: dict[str, Any],
    progress: bool | None,
    stop: StopRequest,
) -> None:
    from cophenet.training.callbacks import CheckpointFiles, Recorder, Saver
    from cophenet.training.progress import Follower, Journal, on_terminal

    bar = on_terminal() if progress is None else progress
    journal = Journal(run.path / "log.txt", shown=progress is not False)
    checkpoint = _choose_checkpoint(run, journal)
    module = _build_module(run, experiment, fresh=checkpoint is None)
    position = {"epoch": 0} if checkpoint is None else read_checkpoint(checkpoint)["position"]
    recorder = Recorder(run)
    if position["epoch"] < module.total_epochs:
        trainer = make_trainer(
            run,
            machine,
            phases=len(module.stages),
            max_epochs=module.total_epochs - position["epoch"],
            precision=run.recipe.precision,
            callbacks=[
                recorder,
                Follower(recorder, journal, bar=bar),
                Saver(run, options["minutes"], stop),
            ],
            logger=make_loggers(run, options["loggers"], position["epoch"]),
            plugins=[CheckpointFiles()],
        )
        trainer.fit(module, ckpt_path=checkpoint)
    if is_first_process():
        seconds = [row["seconds"] for row in run.metrics]
        write_json(run.path / "run.json", {**run.info, "finished": True, "seconds_per_epoch": seconds})


def _choose_checkpoint(run: Run, journal: Journal) -> Path | None:
    """The newest whole checkpoint; damaged ones are told of and put aside."""
    checkpoint, damaged = newest_good(run.path / "checkpoints")
    for path in damaged:
        if is_first_process():
            path.rename(path.with_suffix(".damaged"))
        instead = "beginning again" if checkpoint is None else f"using {checkpoint.name}"
        journal.write(f"checkpoint {path.name} is damaged: {instead}")
    if checkpoint is not None:
        journal.write(f"seed {run.seed}: continuing from {checkpoint.name}")
    else:
        journal.write(f"seed {run.seed}: {run.recipe.name} with {run.recipe.objective.name}")
    return checkpoint


def _build_module(run: Run, experiment: Experiment, *, fresh: bool) -> TrainingModule:
    from cophenet.training.module import TrainingModule, derive_seed

    torch.manual_seed(derive_seed(run.seed))
    objective = run.recipe.create_objective(experiment.tree)
    weights = find_weights(run.recipe, run.info["data_dir"]) if fresh else None
    network = build_network(run.recipe, objective, run.info["input_shape"], weights)
    return TrainingModule(experiment, network, objective, run.seed)
