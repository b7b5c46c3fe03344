"""Reproducing items: their runs, then their documents, tables and figures."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cophenet._common.files import write_text
from cophenet._common.limits import one_line
from cophenet._common.locks import InUseError, locked
from cophenet.paper.documents import (
    Document,
    choose_document,
    document_path,
    read_study,
    unreadable,
    without_folders,
    write_document,
)
from cophenet.paper.isolated import run_isolated
from cophenet.paper.item import Item
from cophenet.paper.items import find_items
from cophenet.paper.observations import Observations
from cophenet.paper.page import claims_page, item_page, results_page
from cophenet.paper.plan import (
    EPOCHS,
    Settings,
    VariantRuns,
    check_settings,
    plan_runs,
    possible_items,
    recipe_label,
    recipes_of,
)
from cophenet.paper.queue import Queue, Report
from cophenet.paper.run_observations import read_runs
from cophenet.paper.variants import DISTANCES
from cophenet.recipes import Recipe, load_recipe, recipe_names
from cophenet.recipes.load import parse_override
from cophenet.runs import Run

__all__ = ["Outcome", "observe", "reproduce"]


@dataclass
class Outcome:
    """The result of `reproduce`.

    Attributes:
        files: Item -> the files that were written.
        failed: Item or run -> the error.
        report: The status of the runs.
    """

    files: dict[str, list[Path]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    report: Report = field(default_factory=Report)


def reproduce(
    items: Sequence[str],
    runs: str | Path,
    output: str | Path,
    *,
    settings: Settings | None = None,
    data_dir: str | Path | None = None,
    only_finished: bool = False,
    threads: int | None = None,
    tell: Callable[[str], None] = print,
    progress: bool | None = None,
) -> Outcome:
    """Train the missing runs of items, and write tables and figures.

    Finished runs are reused, interrupted ones continued. Runs that are not possible, because data is missing
    or an error occurs, are reported and left out; everything else is made. If runs behind an existing
    document are gone, its tables and figures are drawn again from it; it is not replaced by one with less
    data.

    Args:
        items: Names of items; "all" for every one.
        runs: Folder of the runs, shared by all items.
        output: Folder to write to: one folder for each item, the page of claims, and a page of all items.
        settings: Scale, recipes, seeds and overrides; None for the defaults at laptop scale.
        data_dir: Folder of the data.
        only_finished: Train and time nothing: write what is available.
        threads: Number of CPU threads for a new run; None for all. Several processes that share `runs` are
            fastest with one each.
        tell: Called with a line about every step.
        progress: As for `train`.

    Raises:
        ValueError: If an item, recipe or setting is invalid.
        KeyboardInterrupt: If it was stopped; the current run is saved, and the same call continues it.
    """
    settings = settings or Settings("laptop")
    chosen = possible_items(find_items(tuple(items)), settings, tell)
    check_settings(chosen, settings)
    data = None if data_dir is None else Path(data_dir)
    queue = Queue(Path(runs), data, tell, only_finished, threads, progress)
    work = _Work(queue, Path(output), settings, Outcome(report=queue.report))
    work.output.mkdir(parents=True, exist_ok=True)
    left = [(item, planned) for item in chosen if (planned := work.plan(item)) is not None]
    while left:
        # Go through all items once before waiting for any.
        busy = [(item, planned) for item, planned in left if not work.make(item, planned)]
        if len(busy) == len(left):
            time.sleep(work.queue.pause)
        left = busy
    work.outcome.failed.update(work.queue.report.failed)
    work.write_pages()
    return work.outcome


def observe(
    item: Item, planned: Sequence[VariantRuns], folder: Path
) -> tuple[Observations, Sequence[Mapping[str, Any]]]:
    """Make the observations of an item from its finished runs.

    Args:
        item: The item.
        planned: Its runs.
        folder: Folder of the runs.

    Returns:
        The observations, and arrays for its figures.
    """
    observations = read_runs(planned, folder)
    return item.measure(observations, planned, folder) if item.measure else (observations, [])


@dataclass
class _Work:
    """The state of one call of `reproduce`."""

    queue: Queue
    output: Path
    settings: Settings
    outcome: Outcome

    def plan(self, item: Item) -> list[VariantRuns] | None:
        """The runs that an item needs; None if they cannot be planned, which is reported."""
        try:
            return plan_runs(item, self.settings)
        except ValueError as error:
            self._fail(item.name, error)
            return None

    def make(self, item: Item, planned: list[VariantRuns]) -> bool:
        """Train and write an item, unless another process has locked something that it needs.

        Returns:
            Whether the item is finished or has failed; if not, call again later.
        """
        if not self.queue.advance(planned):
            return False
        try:
            self._write(item, planned)
        except InUseError:
            self.queue.say(f"{item.name}: waiting, another process is timing", again=True)
            return False
        except Exception as error:  # an error in one item must not stop the others
            self._fail(item.name, error)
        return True

    def write_pages(self) -> None:
        """Write the pages of claims and of all items, without documents of other versions."""
        for path, problem in unreadable(self.output).items():
            self.queue.tell(f"left out of the page: {path} {problem}")
        for name, page in (("claims.md", claims_page), ("README.md", results_page)):
            path = self.output / name
            try:
                write_text(path, page(self.output))
            except Exception as error:  # an error in one page must not stop the other
                self._fail(name, error)

    def _fail(self, name: str, error: Exception) -> None:
        self.outcome.failed[name] = one_line(error)
        self.queue.tell(f"{name} failed: {self.outcome.failed[name]}")

    def _write(self, item: Item, planned: list[VariantRuns]) -> None:
        timed = item.study is not None and not self.queue.only_finished
        # Two timing studies at the same time would disturb each other. The result is written inside the lock,
        # before the next process checks for it.
        alone = timed and read_study(self.output, item.name) is None
        with locked(self.output, ".timing.lock", what="the timing in") if alone else nullcontext():
            document = choose_document(self._document(item, planned), self.queue, self.output)
            files = write_document(document, self.output)
            files.append(self.output / item.name / "README.md")
            write_text(files[-1], item_page(document))
        self.outcome.files[item.name] = files
        self.queue.tell(f"{item.name}: wrote {files[0]}")

    def _study(self, item: Item, name: str) -> dict[str, Any]:
        """The result of a timing study: that in its document, else measured now."""
        queue = self.queue
        study = read_study(self.output, item.name)
        if study is not None:
            written = document_path(self.output, item.name)
            queue.tell(f"{item.name}: measured before; remove {written} to measure again")
            return study
        if queue.only_finished:
            raise ValueError("nothing was measured yet")
        return run_isolated(name, None, queue.tell)

    def _document(self, item: Item, planned: list[VariantRuns]) -> Document:
        report, settings = self.queue.report, self.settings
        names = [f"{runs.name}/seed{seed}" for runs in planned for seed in runs.seeds]
        reasons = {**report.lacking, **report.failed}
        done = [name for name in names if name in report.done]
        content = Document(
            item.name,
            item.title,
            item.labels,
            settings.scale,
            tuple(without_folders(recipe) for recipe in settings.recipes),
            settings.seeds,
            settings.overrides,
            _setup_sentences(item, planned, done, self.queue.folder),
            tuple(done),
            {name: without_folders(reasons[name]) for name in names if name in reasons},
        )
        if item.study is not None:
            study = self._study(item, item.study.name)
            return replace(content, study=study, observations=item.study.observations(study))
        if item.count is not None:
            recipes, queue = recipes_of(item, settings), self.queue
            counted = item.count(recipes, settings.scale, queue.data_dir, queue.tell)
            return replace(content, observations=counted)
        observations, arrays = observe(item, planned, self.queue.folder)
        return replace(content, observations=observations, arrays=tuple(arrays))


def _setup_sentences(
    item: Item, planned: Sequence[VariantRuns], done: Iterable[str], folder: Path
) -> dict[str, str]:
    """Sentences about the training, one for each recipe that has finished runs.

    Args:
        item: The item.
        planned: Its runs.
        done: Names of the finished runs.
        folder: Folder of the runs.
    """
    finished = set(done)
    trained: dict[str, list[tuple[Recipe, Path]]] = {}
    for runs in planned:
        for seed in runs.seeds:
            if f"{runs.name}/seed{seed}" in finished:
                trained.setdefault(runs.recipe_name, []).append((runs.recipe, runs.path(folder, seed)))
    sentences = {}
    for name, entries in trained.items():
        here = _described([recipe for recipe, _ in entries])
        there = _described(_paper_recipes(item, name))
        paper = f" (paper: {there})" if there and there != here else ""
        samples = _samples(path for _, path in entries)
        sentences[recipe_label(name)] = f"{recipe_label(name)}: {here}{samples}{paper}."
    return sentences


def _described(recipes: Sequence[Recipe]) -> str:
    if not recipes:
        return ""
    weights = [f"{r.objective.cpcc.weight:g}" for r in recipes if r.objective.name in DISTANCES]
    parts = [
        _listed(recipe.model.backbone for recipe in recipes),
        f"{_listed(recipe.epochs for recipe in recipes)} epochs",
        f"batch {_listed(recipe.batch_size for recipe in recipes)}",
    ]
    if weights:
        parts.append(f"weight {_listed(weights)}")
    return ", ".join(parts)


def _listed(values: Iterable[Any]) -> str:
    """Distinct values in order of appearance, as text: "64", "64 and 128" or "64, 128 and 512"."""
    known = [str(value) for value in dict.fromkeys(values)]
    return known[0] if len(known) == 1 else f"{', '.join(known[:-1])} and {known[-1]}"


def _samples(paths: Iterable[Path]) -> str:
    counts = (Run(path).info.get("samples", {}).get("train", {}).get("count") for path in paths)
    known = [f"{count:,}" for count in counts if count is not None]
    return f", {_listed(known)} training samples" if known else ""


def _paper_recipes(item: Item, name: str) -> list[Recipe]:
    """The recipes of an item at the paper's scale; none for data that the paper does not have."""
    if name not in recipe_names():
        return []
    try:
        load_recipe(name, "paper")
    except ValueError:
        return []
    recipes = []
    for variant in item.variants(name, "paper"):
        # The smaller number of epochs for time measurements is not that of the paper.
        own = (override for override in variant.overrides if parse_override(override)[0] != EPOCHS)
        recipes.append(load_recipe(name, "paper", (f"objective.name={variant.objective}", *own)))
    return recipes
