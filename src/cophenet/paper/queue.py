"""A queue of runs that can be interrupted at any time: finished ones are used, the others continued."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cophenet._common.limits import one_line
from cophenet._common.locks import InUseError, locked
from cophenet._common.places import check_real_folder
from cophenet.paper.plan import FEATURES_EVERY, VariantRuns
from cophenet.recipes import Recipe
from cophenet.recipes.load import flatten
from cophenet.runs import Run

if TYPE_CHECKING:
    from cophenet.data.source import DataSource

__all__ = ["Queue", "Report", "State", "different_settings", "missing_data", "state_of"]

State = Literal["missing", "interrupted", "trained", "done"]
Tell = Callable[[str], None]
# What is done with a run that is in a state.
_WORDS: dict[State, str] = {"missing": "train", "interrupted": "continue", "trained": "evaluate"}
# Seconds after which it is said once more what is waited for.
_AGAIN = 180.0


@dataclass
class Report:
    """What became of the runs.

    Attributes:
        done: Names of runs that are finished and evaluated.
        trained: Names of those that were trained or continued in this call.
        lacking: Name of a run -> why it cannot be had here: its data or weights are missing, or it was not to
            be run.
        failed: Name of a run -> what went wrong.
    """

    done: list[str] = field(default_factory=list)
    trained: list[str] = field(default_factory=list)
    lacking: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


def state_of(path: Path) -> State:
    """How far a run has come; a folder that is not yet whole counts as none.

    Raises:
        ValueError: If it, or the folder of all seeds, is a link.
    """
    for place in (path.parent, path):
        check_real_folder(place)
    if not all((path / name).is_file() for name in ("recipe.yaml", "run.json")):
        return "missing"
    run = Run.open(path)
    if not run.finished:
        return "interrupted"
    return "trained" if run.results is None else "done"


def different_settings(path: Path, recipe: Recipe) -> list[str]:
    """Keys of the settings in which a run folder differs from a recipe, as far as they matter."""
    run = Run.open(path)
    if not run.is_single:  # the recipes of its seeds may be any
        return ["seeds"]
    there, here = (flatten(r.model_dump(exclude={FEATURES_EVERY, "summary"})) for r in (run.recipe, recipe))
    return sorted(key for key in {*there, *here} if there.get(key) != here.get(key))


def missing_data(source: DataSource, data_dir: Path | None) -> str:
    """What of the data is not there; "" if nothing is missing.

    Without the folder of the data: documents that say it are shown to others.
    """
    missing = [need.path for need in source.requirements(data_dir) if not need.found]
    if not missing:
        return ""
    path = missing[0]
    if data_dir is not None and path.is_relative_to(data_dir):
        path = path.relative_to(data_dir)
    return f"data {source.name!r} is missing: {Path(path.name) if path.is_absolute() else path}"


@dataclass
class Queue:
    """Runs one after the other, each at most once, whatever happens to the others.

    Several processes may work through the same runs: each skips those that another one has locked.

    Attributes:
        folder: Where runs are stored.
        data_dir: Where data is.
        tell: Gets a line about every run.
        only_finished: Whether to train nothing.
        threads: Of the CPU for a run; None for all.
        progress: As for `train`.
        pause: Seconds between two looks at runs that other processes have locked.
        begun: Gets the name of every run that is begun, and what is done with it, in place of a line.
        report: What became of the runs so far.
    """

    folder: Path
    data_dir: Path | None = None
    tell: Tell = print
    only_finished: bool = False
    threads: int | None = None
    progress: bool | None = None
    pause: float = 5.0
    begun: Callable[[str, str], None] | None = None
    report: Report = field(default_factory=Report)
    _said: dict[str, float] = field(default_factory=dict)

    def advance(self, wanted: Sequence[VariantRuns]) -> bool:
        """Train and evaluate all runs that no other process has locked, as far as possible.

        Returns:
            Whether it is now known of every run what became of it; otherwise try again later.
        """
        from cophenet.runs.loaded_data import shared_data

        entries = [(runs, seed) for runs in wanted for seed in runs.seeds]
        known, settled = self.report, True
        with shared_data():
            for place, (runs, seed) in enumerate(entries, start=1):
                name = f"{runs.name}/seed{seed}"
                if name in (*known.done, *known.lacking, *known.failed):
                    continue
                try:
                    self._have(runs, seed, name, f"[{place}/{len(entries)}]")
                except InUseError:
                    self.say(f"{name}: another process is running it", again=True)
                    settled = False
                except Exception as error:  # one run must not keep the others from being made
                    known.failed[name] = one_line(error)
                    self.tell(f"{name} failed: {known.failed[name]}")
        return settled

    def say(self, line: str, *, again: bool = False) -> None:
        """Tell something once, or again after some minutes, so that a wait does not look like an end."""
        now = time.monotonic()
        if line not in self._said or (again and now - self._said[line] >= _AGAIN):
            self._said[line] = now
            self.tell(line)

    def _have(self, runs: VariantRuns, seed: int, name: str, place: str) -> None:
        if self._is_done(runs, seed):
            self.report.done.append(name)
            return
        if self.only_finished:
            self.report.lacking[name] = "not finished"
            return
        path = runs.path(self.folder, seed)
        missing = missing_data(runs.recipe.data.create_source(), self.data_dir)
        if not missing and state_of(path) == "missing":
            missing = self._missing_weights(runs)
        if missing:
            self.report.lacking[name] = missing
            where = "give --data-dir" if self.data_dir is None else f"looked in {self.data_dir}"
            self.say(f"left out: {missing} ({where})")
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(path.parent, f"{path.name}.lock", what=f"{path.name} of"):
            # Again: another process may have finished it just now.
            if not self._is_done(runs, seed):
                state = state_of(path)
                if self.begun is None:
                    self.tell(f"{place} {name}: {_WORDS[state]}")
                else:
                    self.begun(name, _WORDS[state])
                self._make(runs, seed, path, state)
                self.report.trained.append(name)
        self.report.done.append(name)

    def _is_done(self, runs: VariantRuns, seed: int) -> bool:
        path = runs.path(self.folder, seed)
        state = state_of(path)
        if state != "missing" and (keys := different_settings(path, runs.of_seed(seed))):
            raise ValueError(
                f"{path} has other settings ({', '.join(keys)}): move it away, or use another folder"
            )
        return state == "done"

    def _make(self, runs: VariantRuns, seed: int, path: Path, state: State) -> None:
        from cophenet.evaluation import evaluate
        from cophenet.runs import resume, train

        # Its settings are those of the caller's recipe (see `_is_done`), so it names the caller's own code.
        options = {"loggers": ("csv",), "progress": self.progress, "data_dir": self.data_dir}
        if state == "missing":
            train(runs.of_seed(seed), path, threads=self.threads, **options)  # type: ignore[arg-type]
        elif state == "interrupted":
            resume(path, trust=True, **options)  # type: ignore[arg-type]
        evaluate(path, data_dir=self.data_dir, trust=True)

    def _missing_weights(self, runs: VariantRuns) -> str:
        """What a network begins with and is not there; nothing if all is."""
        from cophenet.runs.loaded_data import find_weights

        try:
            find_weights(runs.recipe, self.data_dir)
        except FileNotFoundError:
            return f"weights are missing: {Path(str(runs.recipe.model.weights)).name}"
        return ""
