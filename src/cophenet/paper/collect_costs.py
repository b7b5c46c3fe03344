"""Documents of sizes and times: data sets, the synthetic study, seconds per epoch and per batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cophenet.evaluation.results import summary
from cophenet.paper.distances import VARIANTS
from cophenet.paper.document import (
    Found,
    dots_panel,
    epoch_seconds,
    finished,
    if_same,
    published_at,
    table,
    told,
)
from cophenet.paper.tables import number_cell
from cophenet.paper.variants import label_of
from cophenet.recipes import load_recipe

__all__ = ["batch_time", "data_sizes", "epoch_time", "synthetic"]

Parts = dict[str, Any]
Tell = Callable[[str], None]


def data_sizes(recipes: Sequence[str], scale: Any, data_dir: Path | None, tell: Tell) -> Parts:
    """Samples of the data sets that are there; of the others what was published."""
    rows = []
    for recipe in recipes:
        settings = load_recipe(recipe, scale).data
        source = settings.create_source()
        papers = [
            published_at("tab:data-stats", source.name, None, f"samples/{part}", {})
            for part in ("train", "test")
        ]
        missing = [need for need in source.requirements(data_dir) if not need.found]
        counts: list[int | None] = [None, None]
        classes: list[Any] = ["-", "-"]
        if missing:
            tell(f"left out: data {source.name!r} is missing: {_in_folder(missing[0].path, data_dir)}")
        else:
            data = source.load(data_dir)
            counts = [len(data.samples(part)) for part in ("train", "test")]
            classes = [data.samples("test", domain).tree.num_classes for domain in ("source", "target")]
        cells = [
            number_cell(None if count is None else summary([float(count)]), "count", paper)
            for count, paper in zip(counts, papers, strict=True)
        ]
        rows.append([source.name, *cells, *classes])
    columns = ("data", "train", "test", "source classes", "target classes")
    notes = ["Published sizes are rounded."]
    names = [row[0] for row in rows]
    panels = [
        dots_panel(
            f"{part} samples",
            names,
            {"counted": [row[1 + i] for row in rows]},
            percent=False,
            log=True,
            together=True,
        )
        for i, part in enumerate(("train", "test"))
    ]
    return {
        "tables": [table("data", "Sizes of the data sets", columns, rows, notes)],
        "figures": {"data": {"kind": "dots", "panels": panels}},
    }


def _in_folder(path: Path, folder: Path | None) -> Path:
    """A path without the folder of the data, which is nobody else's business."""
    if folder is not None and path.is_relative_to(folder):
        return path.relative_to(folder)
    return Path(path.name) if path.is_absolute() else path


_GROWTH = ("distance", "paper: O(...)", "measured: n to the power", "s at the largest n", "largest n")


def synthetic(study: dict[str, Any]) -> Parts:
    """The synthetic study: time against n, error against EMD, and measured exponents.

    Args:
        study: What `synthetic_study` returned.
    """
    sizes = [f"n = {n}" for n in study["settings"]["error_sizes"]]
    notes = [
        "Power: slope of log time by log n over the four largest sizes, one thread, best of the repeats.",
        "The C library keeps freed memory, which glibc does not by default: fresh pages for every call would "
        "add steps to the times of the fastest distances, and make their powers larger.",
        "I iterations, p projections, Phi the largest distance; k = 2 classes here.",
    ]
    columns = ("clouds", "distance", *sizes)
    return {
        "tables": [
            table("complexity", "Growth of time with n", _GROWTH, _growth_rows(study["times"]), notes),
            table("errors", "value / EMD - 1", columns, _error_rows(study["errors"])),
        ],
        "figures": {
            "synthetic-time": {"kind": "lines", "panels": [_time_panel(study)]},
            "synthetic-error": {"kind": "lines", "panels": _error_panels(study["errors"])},
        },
        "study": study,
    }


def _time_panel(study: dict[str, Any]) -> dict[str, Any]:
    series = [
        {"name": name, "x": entry["sizes"], "y": entry["mean"]} for name, entry in study["times"].items()
    ]
    title = f"time, d = {study['settings']['width']}"
    return {"title": title, "x": "samples per class n", "y": "seconds", "log": True, "series": series}


def _error_panels(errors: dict[str, Any]) -> list[dict[str, Any]]:
    """One picture for each kind of clouds; EMD itself has no error."""
    panels = []
    for kind, found in errors.items():
        series = [
            {"name": name, "x": [str(n) for n in entry["sizes"]], "y": entry["mean"], "std": entry["std"]}
            for name, entry in found.items()
            if name != "EMD"
        ]
        panels.append(
            {"title": f"error against EMD, {kind}", "x": "n", "y": "", "percent": True, "series": series}
        )
    return panels


def _growth_rows(times: dict[str, Any]) -> list[list[Any]]:
    complexity = {variant.label: variant.complexity for variant in VARIANTS}
    return [
        [
            name,
            complexity.get(name) or "-",
            None if entry["exponent"] is None else number_cell(summary([entry["exponent"]]), "number"),
            number_cell(summary([entry["mean"][-1]]), "seconds"),
            str(entry["sizes"][-1]),
        ]
        for name, entry in times.items()
    ]


def _error_rows(errors: dict[str, Any]) -> list[list[Any]]:
    return [
        [kind, name, *(number_cell({"mean": m, "std": s, "values": []}) for m, s in _pairs(entry))]
        for kind, found in errors.items()
        for name, entry in found.items()
        if name != "EMD"
    ]


def _pairs(entry: dict[str, list[float]]) -> list[tuple[float, float]]:
    return list(zip(entry["mean"], entry["std"], strict=True))


def epoch_time(found: Sequence[Found]) -> Parts:
    """Seconds per epoch."""
    rows: list[list[Any]] = []
    for entry in found:
        size = entry.runs.recipe.batch_size
        key, setting = "seconds_per_epoch", {"batch_size": size}
        paper = published_at("tab:ot-wallclock", entry.data, entry.objective, key, setting)
        seconds = epoch_seconds(entry, if_same(entry, paper))
        if told(entry, [seconds]):
            rows.append([entry.data, size, entry.label, len(entry.results), _threads(entry), seconds])
    measured = {entry.data for entry in finished(found)}
    names = [f"{row[0]} {row[2]}" for row in rows if row[0] in measured]
    series = {"measured": [row[-1] for row in rows if row[0] in measured]}
    panel = dots_panel("Seconds per epoch", names, series, percent=False, x="seconds")
    columns = ["data", "batch size", "objective", "seeds", "threads", "s per epoch"]
    notes = [
        "Published on an NVIDIA RTX A6000; only ratios can be compared.",
        "Times want a quiet machine: whatever else it did is in them.",
    ]
    used = {row[4] for row in rows if row[4] is not None}
    if len(used) < 2:
        columns.remove("threads")
        rows = [[*row[:4], *row[5:]] for row in rows]
        notes += [f"Threads of the CPU for each run: {threads}." for threads in used]
    return {
        "tables": [table("epoch-time", "Seconds per epoch", columns, rows, notes)],
        "figures": {"epoch-time": {"kind": "dots", "panels": [panel]}},
    }


def _threads(entry: Found) -> str | None:
    """How many threads the runs of an arm had."""
    used = sorted({result["threads"] for result in entry.results})
    return ", ".join(map(str, used)) or None


def batch_time(study: dict[str, Any]) -> Parts:
    """Seconds of the regularizer on one batch, with Bures in both forms.

    Args:
        study: What `time_steps` returned.
    """
    rows = []
    for name, seconds in study["seconds"].items():
        objective = name.partition(",")[0]
        # What the paper timed is the dense form.
        printed = name if name == "bures, dense" or objective != "bures" else ""
        paper = published_at(
            "tab:bures-others", "cifar100", objective if printed else "", "seconds_per_batch", {}
        )
        label = label_of(objective) + name.removeprefix(objective)
        rows.append([label, number_cell(summary(seconds), "seconds", paper)])
    given = study["settings"]
    notes = [
        f"Loss and gradient on random features, B = {given['batch_size']}, d = {given['width']}, labels of "
        f"{given['classes']} classes, one thread, without the network.",
        "The published times are of whole updates on a GPU.",
        f"Bures, dense: timed on {given['dense_pairs']} pairs of classes, times the number of pairs.",
    ]
    names = [row[0] for row in rows]
    panel = dots_panel(
        "Seconds per batch",
        names,
        {"measured": [row[1] for row in rows]},
        percent=False,
        log=True,
        x="seconds",
    )
    return {
        "tables": [table("batch-time", "Seconds per batch", ("distance", "s per batch"), rows, notes)],
        "figures": {"batch-time": {"kind": "dots", "panels": [panel]}},
        "study": study,
    }
