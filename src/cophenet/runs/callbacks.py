"""Training callbacks: checkpoints, metrics.csv, log.txt and the progress display."""

from __future__ import annotations

import csv
import io
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback, Checkpoint
from lightning.pytorch.plugins.io import CheckpointIO

from cophenet._common.csv_cells import to_cell
from cophenet._common.files import write_bytes, write_text
from cophenet._common.processes import is_first_process
from cophenet._common.progress import Progress
from cophenet._common.safe_paths import make_real_folder, open_in_place
from cophenet._common.tensor_files import dump_tensors
from cophenet.runs.checkpoints import read_checkpoint, write_checkpoint
from cophenet.runs.lightning_module import TrainingModule
from cophenet.runs.run import Row, Run
from cophenet.runs.stop_signals import InterruptionError, StopRequest

__all__ = ["CheckpointFiles", "CheckpointSaver", "EpochRecorder", "ProgressCallback", "RunLog"]


class CheckpointFiles(CheckpointIO):
    """Writes and reads the checkpoints of a run for Lightning."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        """Write a checkpoint; the last part of the path is the step number."""
        _ = storage_options
        write_checkpoint(Path(path).parent, int(Path(path).name), checkpoint)

    def load_checkpoint(self, path: Any, *_: Any, **__: Any) -> dict[str, Any]:
        """Read a checkpoint on the CPU; Lightning moves tensors to their device."""
        return read_checkpoint(Path(path))

    def remove_checkpoint(self, path: Any) -> None:
        """Remove a checkpoint."""
        Path(path).unlink()


class _TrainingCallback(Callback):
    """Base class of callbacks that use the training module.

    Attributes:
        module: The training module.
    """

    module: TrainingModule

    def setup(self, trainer: pl.Trainer, module: pl.LightningModule, stage: str) -> None:
        """Store the training module."""
        _ = trainer, stage
        assert isinstance(module, TrainingModule)
        self.module = module


class CheckpointSaver(_TrainingCallback, Checkpoint):
    """Saves a checkpoint after every epoch, at intervals within an epoch, and before stopping on request.

    Args:
        run: The run whose folder gets the checkpoints.
        minutes: Time between two checkpoints within an epoch.
        stop: The request to stop.
    """

    def __init__(self, run: Run, minutes: float, stop: StopRequest) -> None:
        self.folder, self.interval, self.stop = run.path / "checkpoints", minutes * 60, stop
        self._last = time.monotonic()

    def on_train_start(self, *_: Any) -> None:
        """Handle SIGTERM here: Lightning's handler waits for processes that may not have received it."""
        self.stop.listen()

    def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        """Save within an epoch if it is time or on request; the last step is left to `on_train_epoch_end`."""
        if self.module.step == self.module.steps_per_epoch:
            return
        stop = _any_process(trainer, self.stop.wanted)
        if stop or _any_process(trainer, time.monotonic() - self._last >= self.interval):
            self._save(trainer)
        if stop:
            raise InterruptionError

    def on_train_epoch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        """Save at the end of an epoch."""
        self._save(trainer)
        if _any_process(trainer, self.stop.wanted) and not self.module.ends:
            raise InterruptionError

    def _save(self, trainer: pl.Trainer) -> None:
        self.module.meter.check()
        trainer.save_checkpoint(self.folder / str(self.module.total_step), weights_only=False)
        self._last = time.monotonic()


def _any_process(trainer: pl.Trainer, wish: bool) -> bool:
    """Return whether `wish` is true on any process, so that all processes act alike."""
    if trainer.world_size == 1:
        return wish
    return bool(trainer.strategy.reduce_boolean_decision(wish, all=False))


class EpochRecorder(_TrainingCallback):
    """Records each epoch: a row of metrics.csv, values for other loggers, and features if requested.

    A row is written before the checkpoint of its epoch: after a crash between the two, the epoch is trained
    again and its row replaced.

    Args:
        run: The run whose folder gets the files.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.rows: list[Row] = []
        self._began = 0.0

    def on_fit_start(self, trainer: pl.Trainer, *_: Any) -> None:
        """Drop the rows of epochs that will be trained again."""
        self.rows = [row for row in self.run.metrics if int(row["epoch"] or 0) <= self.module.epoch]
        if trainer.is_global_zero:
            _write_rows(self.run.path / "metrics.csv", self.rows)

    def on_train_epoch_start(self, *_: Any) -> None:
        """Start the timer, including the time of the epoch before an interruption."""
        self._began = time.monotonic() - self.module.seconds

    def on_train_batch_end(self, *_: Any) -> None:
        """Update the elapsed time, which checkpoints store."""
        self.module.seconds = time.monotonic() - self._began

    def on_train_epoch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        """Write the row and the features of the epoch."""
        losses = _loss_values(self.module, self.module.meter.means())
        row: Row = {
            "epoch": self.module.epoch + 1,
            "phase": self.module.stage.phase.name,
            "seconds": round(time.monotonic() - self._began, 3),
            "lr": self.module.learning_rate,
            **{f"train/{name}": value for name, value in losses.items()},
            f"{self.module.watched_part}/accuracy": self.module.accuracy,
        }
        self.rows.append(row)
        if not trainer.is_global_zero:
            return
        _write_rows(self.run.path / "metrics.csv", self.rows)
        numbers = {key: value for key, value in row.items() if isinstance(value, float) and "/" in key}
        for logger in trainer.loggers:
            logger.log_metrics({**numbers, "lr": self.module.learning_rate}, step=self.module.epoch + 1)
        if self.module.saves_features:
            self._write_features()

    def _write_features(self) -> None:
        parts = self.module.saved
        tensors = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
        path = self.run.features_path(f"{self.module.recipe.data.domain}-test", self.module.epoch + 1)
        make_real_folder(path.parent)
        write_bytes(path, dump_tensors(tensors))


def _loss_values(module: TrainingModule, terms: Mapping[str, float]) -> dict[str, float]:
    """Return the loss, its terms, and the correlation if CPCC is one of the terms.

    Args:
        module: The module whose objective computed the terms.
        terms: Values by name; the term `cpcc` is a loss: it is returned as `cpcc_loss`, the correlation as
            `cpcc`.
    """
    values = {"loss": sum(terms.values()), **terms}
    criterion = module.objective.cpcc
    if criterion is not None and "cpcc" in values:
        values["cpcc_loss"] = values.pop("cpcc")
        if criterion.weight:
            values["cpcc"] = 1 - values["cpcc_loss"] / criterion.weight
    return values


def _write_rows(path: Path, rows: list[Row]) -> None:
    """Write all rows; the columns are the union over all rows, because phases may have different terms.

    Without rows the file is removed: other programs cannot read an empty file as a table.
    """
    if not rows:
        path.unlink(missing_ok=True)
        return
    columns = list(dict.fromkeys(key for row in rows for key in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writerow({key: to_cell(key) for key in columns})
    writer.writerows({key: to_cell(_cell(value)) for key, value in row.items()} for row in rows)
    write_text(path, text.getvalue())


def _cell(value: float | str | None) -> float | str:
    if value is None:
        return ""
    whole = isinstance(value, float) and value.is_integer()
    return int(value) if whole else value


class RunLog:
    """Writes log lines to log.txt and the screen, in the first process only.

    Args:
        path: The file to append to.
        shown: Whether to print lines on the screen too.

    Attributes:
        progress: The active progress display, above which lines are printed; None if there is none.
    """

    def __init__(self, path: Path, *, shown: bool) -> None:
        self.path, self.shown = path, shown
        self.progress: Progress | None = None

    def record(self, line: str) -> None:
        """Write a line to the file only."""
        if is_first_process():
            descriptor = open_in_place(self.path, os.O_WRONLY | os.O_APPEND)
            with os.fdopen(descriptor, "a", encoding="utf-8") as file:
                file.write(line + "\n")

    def write(self, line: str) -> None:
        """Write a line to the file and the screen."""
        self.record(line)
        if not self.shown or not is_first_process():
            return
        if self.progress is None:
            print(line, flush=True)
        else:
            self.progress.print(line)


class ProgressCallback(_TrainingCallback):
    """Shows the progress of the training: a line for every epoch, and optionally a bar.

    Args:
        recorder: The source of the rows of the epochs; must run before this callback.
        log: The log that gets the lines.
        bar: Whether to draw a bar.
    """

    def __init__(self, recorder: EpochRecorder, log: RunLog, *, bar: bool) -> None:
        self.recorder, self.run_log, self._bar = recorder, log, bar

    def on_train_start(self, trainer: pl.Trainer, *_: Any) -> None:
        """Start the timer and the bar of the whole training."""
        self.progress = Progress(
            "",
            self.module.total_epochs * self.module.steps_per_epoch,
            done=self.module.total_step,
            show=self._bar and trainer.is_global_zero,
            stream=sys.stdout,
            transient=True,
        )
        self.run_log.progress = self.progress

    def on_train_batch_end(self, *_: Any) -> None:
        """Update the bar, with the values of the previous step, which are on the host already."""
        if not self.progress.is_bar:
            return
        latest = self.module.meter.latest
        values = _values(_loss_values(self.module, latest)) if latest else []
        self.progress.update(
            self.module.total_step, *values, label=f"epoch {self.module.epoch + 1}/{self.module.total_epochs}"
        )

    def on_train_epoch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        """Write the line of the epoch."""
        if trainer.is_global_zero:
            left = self.progress.time_left((self.module.epoch + 1) * self.module.steps_per_epoch)
            self.run_log.write(_line(self.recorder.rows[-1], self.module, left))

    def on_train_end(self, *_: Any) -> None:
        """Remove the bar."""
        self._close()

    def on_exception(self, *_: Any) -> None:
        """Remove the bar before the error is printed."""
        self._close()

    def _close(self) -> None:
        if self.run_log.progress is not None:
            self.run_log.progress.close()
        self.run_log.progress = None


def _line(row: Mapping[str, float | str | None], module: TrainingModule, left: str) -> str:
    values = {key.removeprefix("train/"): value for key, value in row.items() if key.startswith("train/")}
    parts = [f"epoch {module.epoch + 1}/{module.total_epochs}"]
    if len(module.stages) > 1:
        parts.append(f"phase {row['phase']}")
    parts += _values({name: value for name, value in values.items() if isinstance(value, float)})
    accuracy = row[f"{module.watched_part}/accuracy"]
    if isinstance(accuracy, float):
        parts.append(f"{module.watched_part} accuracy {accuracy:.3f}")
    return "  ".join([*parts, f"{row['seconds']:.1f} s", f"{left} left"])


def _values(values: Mapping[str, float]) -> list[str]:
    """Format loss, terms and correlation; a single term equals the loss and is omitted."""
    shown = {name: value for name, value in values.items() if name != "cpcc_loss"}
    if len(values) == 2:
        shown = {"loss": values["loss"]}
    return [f"{name} {value:.3f}" for name, value in shown.items()]
