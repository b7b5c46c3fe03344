"""Run folders: written by training, read by all other commands."""

from __future__ import annotations

import csv
import io
import os
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

from cophenet._common.checks import check_text, escaped
from cophenet._common.csv_cells import from_cell
from cophenet._common.limits import read_text, reading
from cophenet._common.safe_paths import check_real_folder
from cophenet._common.shell import command
from cophenet.recipes import Recipe, load_recipe
from cophenet.runs.checkpoints import newest_good
from cophenet.runs.json_files import read_details, read_results, read_run_info
from cophenet.tree import Hierarchy

__all__ = ["FORMAT", "Run"]

FORMAT = 1
Row: TypeAlias = "dict[str, float | str | None]"


class Run:
    """A folder written by `train`, for one seed or several.

    Open it with `Run.open`. Files are read on access.

    Args:
        path: The folder.
        trust: Whether custom code that its recipe names may run, such as a backbone by import path. If
            False, no code named in the folder is imported or called.

    Attributes:
        path: The folder.
        trust: As given.

    Example:
        >>> Run.open("/nowhere")
        Traceback (most recent call last):
        ValueError: no run folder at /nowhere: it does not exist
    """

    def __init__(self, path: str | Path, *, trust: bool = False) -> None:
        self.path, self.trust = Path(path), trust

    @classmethod
    def open(cls, path: str | Path, *, trust: bool = False) -> Run:
        """Open the run in a folder.

        Args:
            path: The folder.
            trust: As for the class.

        Raises:
            ValueError: If the folder is not a run; the message says what is missing.
        """
        if not isinstance(path, str | os.PathLike):
            hint = ", which is open already" if isinstance(path, Run) else ""
            raise ValueError(f"path must be the name of a run folder, got {type(path).__name__}{hint}")
        run = cls(path, trust=trust)
        if not run.path.is_dir():
            raise ValueError(f"no run folder at {path}: it does not exist")
        missing = [name for name in ("recipe.yaml", "run.json") if not (run.path / name).is_file()]
        if missing:
            raise ValueError(f"no run folder at {path}: {' and '.join(missing)} missing there")
        version = run.info.get("format")
        if version != FORMAT:
            raise ValueError(f"run folder {path} has format {version!r}, this version reads {FORMAT}")
        return run

    def __repr__(self) -> str:
        """Show the folder."""
        return f"Run({str(self.path)!r})"

    @property
    def name(self) -> str:
        """Escaped name of the folder; for one seed of several, with the name of the parent folder."""
        path = self.path.resolve()
        inside = path.name == f"seed{self.info.get('seed')}" and (path.parent / "recipe.yaml").is_file()
        return escaped(f"{path.parent.name}/{path.name}" if inside else path.name)

    @cached_property
    def recipe(self) -> Recipe:
        """All settings."""
        return load_recipe(self.path / "recipe.yaml", trust=self.trust)

    @cached_property
    def parts(self) -> tuple[Run, ...]:
        """The single-seed runs; only itself if it is one.

        Raises:
            ValueError: If the folder of a seed is missing.
        """
        for seed in self.missing_seeds:
            raise ValueError(
                f"run {self.path} has lost its folder seed{seed}: "
                f"train that seed again with {command('train', '--resume', self.path)}"
            )
        return (self,) if self.is_single else self.present_parts

    @property
    def present_parts(self) -> tuple[Run, ...]:
        """The single-seed runs whose folders exist; empty for a run of one seed."""
        parts, missing = [], self.missing_seeds
        for seed in self.info.get("seeds", ()):
            if seed not in missing:
                folder = self.path / f"seed{seed}"
                check_real_folder(folder)
                parts.append(Run.open(folder, trust=self.trust))
                if not parts[-1].is_single:
                    raise ValueError(f"run folder {folder} must be of one seed, its run.json has several")
        return tuple(parts)

    @property
    def is_single(self) -> bool:
        """Whether the run has one seed, and no subfolders for seeds."""
        return "seeds" not in self.info

    @property
    def missing_seeds(self) -> tuple[int, ...]:
        """Seeds whose folder is missing or incomplete; empty for a run of one seed."""
        files = ("recipe.yaml", "run.json")
        folders = {seed: self.path / f"seed{seed}" for seed in self.info.get("seeds", ())}
        return tuple(
            seed for seed, folder in folders.items() if not all((folder / name).is_file() for name in files)
        )

    @property
    def seed(self) -> int:
        """The seed.

        Raises:
            ValueError: If the run has several.
        """
        if not self.is_single:
            seeds = ", ".join(map(str, self.info["seeds"]))
            raise ValueError(f"run {self.path} has several seeds ({seeds}): take one of its parts")
        return int(self.info["seed"])

    @property
    def info(self) -> dict[str, Any]:
        """How the run was made: versions, threads, data folder, times. Read from run.json on every access."""
        return read_run_info(self.path / "run.json")

    @cached_property
    def tree(self) -> Hierarchy:
        """The tree used in training."""
        path = self.parts[0].path / "tree.json"
        if not path.is_file():
            raise ValueError(f"run {self.path} has no tree: {path} is missing, or no file")
        return Hierarchy.read(path)

    @property
    def finished(self) -> bool:
        """Whether all seeds are fully trained."""
        return all(bool(part.info.get("finished")) for part in self.parts)

    @property
    def damaged(self) -> bool:
        """Whether the newest checkpoint of any seed is damaged; resuming trains it again."""
        return any(newest_good(part.path / "checkpoints")[1] for part in self.parts)

    @property
    def results(self) -> dict[str, Any] | None:
        """The evaluation results; None before evaluation."""
        path = self.path / "results.json"
        return read_results(path) if path.is_file() else None

    @property
    def details(self) -> dict[str, Any] | None:
        """Data for reports; None before evaluation, and for a run of several seeds."""
        path = self.path / "details.json"
        return read_details(path) if path.is_file() else None

    @property
    def metrics(self) -> list[Row]:
        """The rows of metrics.csv, one per epoch; for single-seed runs.

        All numbers are floats, including epochs and numeric phase names; an empty cell is None.

        Raises:
            ValueError: If the run has several seeds.
        """
        _ = self.seed
        path = self.path / "metrics.csv"
        if not path.is_file():
            return []
        with reading(path, "a table of epochs"):
            rows = csv.DictReader(io.StringIO(read_text(path), newline=""), strict=True)
            for column in rows.fieldnames or ():
                check_text("a column", column)
            return [_row(row, rows.line_num) for row in rows]

    def features_path(self, name: str, epoch: int | None = None) -> Path:
        """Return the path of saved features.

        Args:
            name: Domain and part, such as "source-test".
            epoch: Number of completed epochs; None for the features of the trained network.
        """
        stem = name if epoch is None else f"epoch{epoch:04d}-{name}"
        return self.path / "features" / f"{stem}.safetensors"

    def epoch_features(self, name: str) -> dict[int, Path]:
        """Return the paths of features saved during training, by number of completed epochs, ascending.

        Args:
            name: Domain and part, such as "source-test".
        """
        files = (self.path / "features").glob(f"epoch*-{name}.safetensors")
        numbers = ((file.name.removeprefix("epoch").partition("-")[0], file) for file in files)
        return dict(sorted((int(number), file) for number, file in numbers if number.isdecimal()))

    def checkpoint(self) -> Path:
        """Return the newest checkpoint; for single-seed runs.

        Raises:
            ValueError: If the run has several seeds, there is no checkpoint, or the newest is damaged; an
                older one is never used in its place.
        """
        _ = self.seed
        path, damaged = newest_good(self.path / "checkpoints")
        again = f"make it again with {command('train', '--resume', self.path)}"
        if path is None:
            why = f"all {len(damaged)} are damaged; {again}" if damaged else "there is none yet"
            raise ValueError(f"run {self.path} has no checkpoint to load: {why}")
        if damaged:
            raise ValueError(f"run {self.path} has a damaged checkpoint, {damaged[0].name}: {again}")
        return path


def _row(cells: dict[str | Any, Any], line: int) -> Row:
    if None in cells:
        raise ValueError(f"line {line} has more cells than there are columns")
    return {from_cell(key): _value(cell) for key, cell in cells.items()}


def _value(cell: str | None) -> float | str | None:
    if not cell:
        return None
    try:
        return float(cell)
    except ValueError:
        return from_cell(cell)
