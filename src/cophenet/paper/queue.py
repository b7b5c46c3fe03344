"""A queue of runs that can be interrupted at any time: finished runs are reused, the others continued."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cophenet._common.limits import one_line
from cophenet._common.locks import InUseError, locked
from cophenet._common.safe_paths import check_real_folder
from cophenet.paper.plan import FEATURES_EVERY, VariantRuns
from cophenet.recipes import Recipe
from cophenet.recipes.load import flatten
from cophenet.runs import Run

if TYPE_CHECKING:
    from cophenet.data.registry import DataSource

__all__ = ["Queue", "Report", "State", "different_settings", "missing_data", "state_of"]

State = Literal["missing", "interrupted", "trained", "done"]
Tell = Callable[[str], None]
# What is done with a run in each state.
_WORDS: dict[State, str] = {"missing": "train", "interrupted": "continue", "trained": "evaluate"}
# Seconds after which a message about waiting is repeated.
_AGAIN = 180.0


@dataclass
class Report:
    """The status of the runs of a queue.

    Attributes:
        done: Names of runs that are finished and evaluated.
        trained: Names of runs that this queue has trained, continued or evaluated.
        lacking: Name of a run -> why it is not available: its data or weights are missing, or it is not
            finished and nothing is to be trained.
        failed: Name of a run -> the error.
    """

    done: list[str] = field(default_factory=list)
    trained: list[str] = field(default_factory=list)
    lacking: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


def state_of(path: Path) -> State:
    """The state of a run folder; an incomplete folder counts as missing.

    Raises:
        ValueError: If the folder, or its parent folder of all seeds, is a link.
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
    """Keys of the relevant settings in which a run folder differs from a recipe."""
    run = Run.open(path)
    if not run.is_single:  # the recipes of its seeds may be different
        return ["seeds"]
    there, here = (flatten(r.model_dump(exclude={FEATURES_EVERY, "summary"})) for r in (run.recipe, recipe))
    return sorted(key for key in {*there, *here} if there.get(key) != here.get(key))


def missing_data(source: DataSource, data_dir: Path | None) -> str:
    """A message about the first missing file of the data; "" if nothing is missing.

    The path is without the data folder, because documents that contain the message may be published.
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
    """Trains runs one after the other, each at most once; a failed run does not stop the others.

    Several processes may work through the same runs: each skips those that another one has locked.

    Attributes:
        folder: Folder of the runs.
        data_dir: Folder of the data.
        tell: Called with a line about every run.
        only_finished: Whether to use finished runs only and train nothing.
        threads: Number of CPU threads for a run; None for all.
        progress: As for `train`.
        pause: Seconds between two attempts at runs that other processes have locked.
        begun: Called with the name of every run that begins and what is done with it, instead of `tell`.
        report: The status of the runs so far.
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
            Whether every run is now done, unavailable or failed; if not, call again later.
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
                except Exception as error:  # an error in one run must not stop the others
                    known.failed[name] = one_line(error)
                    self.tell(f"{name} failed: {known.failed[name]}")
        return settled

    def say(self, line: str, *, again: bool = False) -> None:
        """Send a message once; with `again`, repeat it after some minutes, so that a wait is not silent."""
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
            # Check again: another process may have finished it in the meantime.
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

        # Its settings equal those of the caller's recipe (see `_is_done`), so any code it names is trusted.
        options = {"loggers": ("csv",), "progress": self.progress, "data_dir": self.data_dir}
        if state == "missing":
            train(runs.of_seed(seed), path, threads=self.threads, **options)  # type: ignore[arg-type]
        elif state == "interrupted":
            resume(path, trust=True, **options)  # type: ignore[arg-type]
        evaluate(path, data_dir=self.data_dir, trust=True)

    def _missing_weights(self, runs: VariantRuns) -> str:
        """A message about missing initial weights of the network; "" if nothing is missing."""
        from cophenet.runs.loaded_data import find_weights

        try:
            find_weights(runs.recipe, self.data_dir)
        except FileNotFoundError:
            return f"weights are missing: {Path(str(runs.recipe.model.weights)).name}"
        return ""
