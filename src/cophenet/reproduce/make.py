"""Reproducing items: their runs, then their documents, tables and figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cophenet.analysis import run_isolated
from cophenet.report.paper_item import write_item
from cophenet.reproduce import collect_ablations, collect_costs, collect_features, collect_main
from cophenet.reproduce.claims import claims_page
from cophenet.reproduce.document import Found, read_runs
from cophenet.reproduce.items import Item, find_items
from cophenet.reproduce.page import results_page
from cophenet.reproduce.queue import Queue, Report
from cophenet.reproduce.runs import ArmRuns, Settings, arm_runs
from cophenet.training.files import read_json, write_bytes

__all__ = ["Outcome", "reproduce"]

Tell = Callable[[str], None]
Parts = dict[str, Any]
FORMAT = 1

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
    or something fails, is told and left out; the rest is made all the same.

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
    chosen = find_items(tuple(items))
    data = None if data_dir is None else Path(data_dir)
    queue = Queue(Path(runs), data, tell, only_finished, threads, progress)
    outcome = Outcome(report=queue.report)
    Path(output).mkdir(parents=True, exist_ok=True)
    needed = {item.name: _arms(item, settings, outcome, tell) for item in chosen}
    for item in chosen:
        queue.run(needed[item.name])
        try:
            parts = _parts(item, needed[item.name], queue, settings, Path(output))
            document = _document(item, settings, needed[item.name], queue.report, parts)
            outcome.files[item.name] = write_item(document, Path(output) / item.name)
            tell(f"{item.name}: wrote {outcome.files[item.name][0]}")
        except Exception as error:  # one item must not keep the others from being made
            outcome.failed[item.name] = " ".join(str(error).split()) or type(error).__name__
            tell(f"{item.name} failed: {outcome.failed[item.name]}")
    outcome.failed.update(queue.report.failed)
    write_bytes(Path(output) / "claims.md", claims_page(Path(output)).encode())
    write_bytes(Path(output) / "README.md", results_page(Path(output)).encode())
    return outcome


def _arms(item: Item, settings: Settings, outcome: Outcome, tell: Tell) -> list[ArmRuns]:
    """What an item wants trained; a wrong recipe or setting given by the user is an error of the call."""
    try:
        return arm_runs(item, settings)
    except ValueError as error:
        if settings.overrides or settings.recipes:
            raise
        outcome.failed[item.name] = str(error)
        tell(f"{item.name} failed: {error}")
        return []


def _parts(item: Item, arms: list[ArmRuns], queue: Queue, settings: Settings, output: Path) -> Parts:
    if item.name in _OF_RUNS:
        return _OF_RUNS[item.name](read_runs(arms, queue.folder))
    if item.name == "data":
        recipes = settings.recipes or item.recipes
        return collect_costs.data_sizes(recipes, settings.scale, queue.data_dir, queue.tell)
    written = output / item.name / f"{item.name}.json"
    if written.is_file():
        queue.tell(f"{item.name}: measured before; remove {written} to measure again")
        study = read_json(written)["study"]
    elif queue.only_finished:
        raise ValueError("nothing was measured yet")
    else:
        study = run_isolated("synthetic" if item.name == "synthetic" else "steps", None, queue.tell)
    collect = {"synthetic": collect_costs.synthetic, "batch-time": collect_costs.batch_time}
    return collect[item.name](study)


def _document(
    item: Item, settings: Settings, arms: list[ArmRuns], report: Report, parts: Parts
) -> dict[str, Any]:
    names = [f"{arm.name}/seed{seed}" for arm in arms for seed in arm.seeds]
    reasons = {**report.lacking, **report.failed}
    return {
        "format": FORMAT,
        "item": item.name,
        "title": item.title,
        "paper": list(item.labels),
        "scale": settings.scale,
        "settings": list(settings.overrides),
        "runs": [name for name in names if name in report.done],
        "missing": {name: reasons[name] for name in names if name in reasons},
        **parts,
    }
