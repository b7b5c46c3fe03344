"""Reproducing items: their runs, then their documents, tables and figures."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cophenet._common.files import write_text
from cophenet._common.locks import InUseError, locked
from cophenet.paper import collect_ablations, collect_costs, collect_features, collect_main, run_isolated
from cophenet.paper.choice import check_settings, possible_items
from cophenet.paper.claims import claims_page
from cophenet.paper.document import Found, read_runs
from cophenet.paper.documents import FORMAT, document_path, read_study, unread
from cophenet.paper.item import write_item
from cophenet.paper.items import Item, find_items
from cophenet.paper.kept import keep_what_is_lost, without_folders
from cophenet.paper.page import results_page
from cophenet.paper.plan import ArmRuns, Settings, arm_runs, recipes_of
from cophenet.paper.queue import Queue, Report
from cophenet.paper.setups import setup_sentences, with_setup

__all__ = ["Outcome", "reproduce"]

Tell = Callable[[str], None]
Parts = dict[str, Any]

_OF_RUNS: dict[str, Callable[[Sequence[Found]], Parts]] = {
    "testcpcc": collect_main.testcpcc,
    "coarse": collect_main.coarse,
    "fine": collect_main.fine,
    "modes": collect_features.modes,
    "umap": collect_features.umap,
    "baselines": collect_main.baselines,
    "scatter": collect_main.scatter,
    "rank": collect_main.rank,
    "batch-size": collect_ablations.batch_size,
    "weight": collect_ablations.weight,
    "backbone": collect_ablations.backbone,
    "tree-depth": collect_ablations.tree_depth,
    "tree-weights": collect_ablations.tree_weights,
    "flow-weights": collect_ablations.flow_weights,
    "epoch-time": collect_costs.epoch_time,
    "shuffled": collect_main.shuffled,
    "orders": collect_features.orders,
    "memory": collect_ablations.memory,
}
# What needs no runs: how it is shown, and the study of time behind it.
_STUDIES: dict[str, tuple[Callable[[dict[str, Any]], Parts], str]] = {
    "synthetic": (collect_costs.synthetic, "synthetic"),
    "batch-time": (collect_costs.batch_time, "steps"),
}


@dataclass
class Outcome:
    """What was reproduced.

    Attributes:
        files: Item -> the files that were written.
        failed: Item or run -> what went wrong.
        report: What became of the runs.
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
    tell: Tell = print,
    progress: bool | None = None,
) -> Outcome:
    """Run what items need, as far as it is not there, and write their tables and figures.

    Runs that are finished are used, interrupted ones continued. What cannot be run, because data is missing
    or something fails, is told and left out; the rest is made all the same. A document that rests on runs
    which are no longer there is drawn again, never replaced by one that knows less.

    Args:
        items: Names of items; "all" for every one.
        runs: Folder of the runs, shared by all items.
        output: Folder to write to: one folder for each item, the page of claims, and a page of all.
        settings: Scale, recipes, seeds and overrides; None for the laptop's.
        data_dir: Folder of the data.
        only_finished: Train and time nothing: write what is there.
        threads: Of the CPU for a run that begins now; None for all. Several processes that share `runs` are
            quickest with one each.
        tell: Gets a line about every step.
        progress: As for `train`.

    Raises:
        ValueError: If there is no such item, recipe or setting.
        KeyboardInterrupt: If it was asked to stop; what runs is saved, and the same call goes on with it.
    """
    settings = settings or Settings("laptop")
    chosen = possible_items(find_items(tuple(items)), settings, tell)
    check_settings(chosen, settings)
    data = None if data_dir is None else Path(data_dir)
    work = _Work(
        Queue(Path(runs), data, tell, only_finished, threads, progress), Path(output), settings, Outcome()
    )
    work.outcome.report = work.queue.report
    work.output.mkdir(parents=True, exist_ok=True)
    left = [(item, arms) for item in chosen if (arms := work.arms(item)) is not None]
    while left:
        # Once through everything before anything is waited for.
        busy = [(item, arms) for item, arms in left if not work.have(item, arms)]
        if len(busy) == len(left):
            time.sleep(work.queue.pause)
        left = busy
    work.outcome.failed.update(work.queue.report.failed)
    work.write_pages()
    return work.outcome


@dataclass
class _Work:
    """One call: where to, how, and what became of it."""

    queue: Queue
    output: Path
    settings: Settings
    outcome: Outcome

    def arms(self, item: Item) -> list[ArmRuns] | None:
        """What an item wants trained; None if it does not go with a recipe."""
        try:
            return arm_runs(item, self.settings)
        except ValueError as error:
            self._fail(item.name, error)
            return None

    def have(self, item: Item, arms: list[ArmRuns]) -> bool:
        """Run and write an item, as far as no other process is at something it needs.

        Returns:
            Whether that is all; otherwise try again later.
        """
        if not self.queue.advance(arms):
            return False
        try:
            self._write(item, arms)
        except InUseError:
            self.queue.say(f"{item.name}: waiting, another process is timing", again=True)
            return False
        except Exception as error:  # one item must not keep the others from being made
            self._fail(item.name, error)
        return True

    def write_pages(self) -> None:
        """The pages of claims and of all items; documents of other versions are left out of them."""
        for path, problem in unread(self.output).items():
            self.queue.tell(f"left out of the page: {path} {problem}")
        self._write_page("claims.md", claims_page)
        self._write_page("README.md", results_page)

    def _write_page(self, name: str, page: Callable[[Path], str]) -> None:
        try:
            write_text(self.output / name, page(self.output))
        except Exception as error:  # one page must not keep the other from being made
            self._fail(name, error)

    def _fail(self, name: str, error: Exception) -> None:
        self.outcome.failed[name] = " ".join(str(error).split()) or type(error).__name__
        self.queue.tell(f"{name} failed: {self.outcome.failed[name]}")

    def _write(self, item: Item, arms: list[ArmRuns]) -> None:
        # Two studies of time at once would measure each other. What is measured is written before the next
        # process looks.
        with locked(self.output, ".timing.lock") if self._times(item) else nullcontext():
            document = self._document(item, arms, self._parts(item, arms))
            document = keep_what_is_lost(document, self.queue, self.output)
            self.outcome.files[item.name] = write_item(document, self.output / item.name)
        self.queue.tell(f"{item.name}: wrote {self.outcome.files[item.name][0]}")

    def _times(self, item: Item) -> bool:
        """Whether something is to be timed now."""
        timed = item.name in _STUDIES and not self.queue.only_finished
        return timed and read_study(self.output, item.name) is None

    def _parts(self, item: Item, arms: list[ArmRuns]) -> Parts:
        queue = self.queue
        if item.name in _OF_RUNS:
            return _OF_RUNS[item.name](read_runs(arms, queue.folder))
        if item.name == "data":
            recipes = recipes_of(item, self.settings)
            return collect_costs.data_sizes(recipes, self.settings.scale, queue.data_dir, queue.tell)
        collect, name = _STUDIES[item.name]
        study = read_study(self.output, item.name)
        if study is not None:
            written = document_path(self.output, item.name)
            queue.tell(f"{item.name}: measured before; remove {written} to measure again")
        elif queue.only_finished:
            raise ValueError("nothing was measured yet")
        else:
            study = run_isolated(name, None, queue.tell)
        return collect(study)

    def _document(self, item: Item, arms: list[ArmRuns], parts: Parts) -> dict[str, Any]:
        report, settings = self.queue.report, self.settings
        names = [f"{arm.name}/seed{seed}" for arm in arms for seed in arm.seeds]
        reasons = {**report.lacking, **report.failed}
        done = [name for name in names if name in report.done]
        setup = setup_sentences(item, arms, done, self.queue.folder)
        return {
            "format": FORMAT,
            "item": item.name,
            "title": item.title,
            "paper": list(item.labels),
            "scale": settings.scale,
            "recipes": [without_folders(recipe) for recipe in settings.recipes],
            "seeds": list(settings.seeds),
            "settings": list(settings.overrides),
            "setup": setup,
            "runs": done,
            "missing": {name: without_folders(reasons[name]) for name in names if name in reasons},
            **parts,
            "tables": [with_setup(table, setup) for table in parts["tables"]],
        }
