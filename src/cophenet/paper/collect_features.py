"""Documents of studies on saved features: modes of classes, UMAP, orders of Fast FlowTree."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from cophenet._common.files import read_json, write_json
from cophenet.evaluation.results import summary
from cophenet.paper import count_modes, mean_metric, order_study
from cophenet.paper.document import (
    CONTROL,
    Found,
    cell,
    cpcc_key,
    finished,
    if_same,
    plain_runs,
    shuffled_cell,
    table,
    told,
)
from cophenet.paper.orders import ORDERS
from cophenet.paper.tables import number_cell
from cophenet.paper.variants import BREEDS
from cophenet.report.embedding import embed
from cophenet.report.published_numbers import Published, published
from cophenet.runs import Run

__all__ = ["modes", "orders", "umap"]

Parts = dict[str, Any]
_FIRST = "Of the first seed."
_WAYS: dict[str, dict[str, Any]] = {
    "diagonal": {"covariance": "diag"},
    "full, PCA(32)": {"covariance": "full", "project": 32},
}


def _arrays(path: Path) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    from safetensors.numpy import load_file

    tensors = load_file(path)
    return tensors["features"], tensors["labels"]


def _run_modes(run: Run, domain: str) -> dict[str, Any]:
    """Modes of the saved features, after epochs and at the end; found once and kept in the run folder."""
    path = run.path / "modes.json"
    kept = read_json(path) if path.is_file() else {}
    files = {
        match[1]: file
        for file in sorted((run.path / "features").glob(f"epoch*-{domain}-test.safetensors"))
        if (match := re.match(r"epoch(\d+)-", file.name))
    }
    files["end"] = run.features_path(f"{domain}-test")
    for when, file in files.items():
        if when not in kept and file.is_file():
            features, labels = _arrays(file)
            kept[when] = {way: asdict(count_modes(features, labels, **o)) for way, o in _WAYS.items()}
            # At once: it takes minutes, and may be interrupted.
            write_json(path, kept)
    return kept


def modes(found: Sequence[Found]) -> Parts:
    """The best number of mixture components of a class, over epochs and at the end of the training."""
    rows: list[list[Any]] = []
    panels = {way: {"title": way, "x": "epoch", "y": "components", "series": []} for way in _WAYS}
    # Over epochs for one data set: where there are several objectives, if anywhere.
    drawn = [e.runs.recipe_name for e in sorted(finished(found), key=lambda e: e.objective == "l2")][:1]
    for entry in found:
        kept = _run_modes(Run.open(entry.path()), entry.runs.recipe.data.domain) if entry.results else {}
        cells = []
        for way, panel in panels.items():
            paper = _published_modes(entry) if way == "diagonal" else None
            value = kept["end"][way]["mean"] if "end" in kept else None
            cells.append(number_cell(summary([value]) if value is not None else None, "number", paper))
            epochs = sorted(int(when) for when in kept if when != "end")
            if epochs and entry.runs.recipe_name in drawn:
                y = [kept[f"{epoch:04d}"][way]["mean"] for epoch in epochs]
                panel["series"].append({"name": entry.label, "x": epochs, "y": y})  # type: ignore[attr-defined]
        failed = sum(kept["end"][way]["unconverged"] for way in _WAYS) if "end" in kept else None
        if told(entry, cells):
            rows.append([entry.data, entry.label, *cells, failed])
    columns = ("data", "objective", *_WAYS, "fits not converged")
    notes = [
        "Mean over classes of the number of components, 1 to 10, with the lowest AIC, on the test features.",
        "Published for BREEDS: one number for its four settings.",
        _FIRST,
    ]
    return {
        "tables": [table("modes", "Mixture components per class", columns, rows, notes)],
        "figures": {"modes": {"kind": "lines", "panels": list(panels.values())}},
    }


def _published_modes(entry: Found) -> Published | None:
    data = "breeds" if entry.data in BREEDS else entry.data
    return if_same(entry, published(data, entry.objective, "components"))


def umap(found: Sequence[Found]) -> Parts:
    """Test features in the plane, coloured by the coarsest level."""
    panels, groups = [], []
    for entry in finished(found):
        run = Run.open(entry.path())
        path = run.features_path(f"{entry.runs.recipe.data.domain}-test")
        if not path.is_file():
            continue
        placed = embed(path)
        nodes, group = np.unique(run.tree.ancestors(1), return_inverse=True)
        groups = [run.tree.names[node] for node in nodes]
        points = [[round(float(x), 4), round(float(y), 4)] for x, y in placed.points]
        title = f"{entry.label}-CPCC, {placed.method}, seed {run.seed}"
        panels.append({"title": title, "points": points, "group": group[placed.labels].tolist()})
    return {
        "tables": [],
        "figures": {"umap": {"kind": "clouds", "groups": groups, "panels": panels}},
    }


def orders(found: Sequence[Found]) -> Parts:
    """Fast FlowTree in batch order and in principal order: after training, and on the features of a run."""
    import torch

    trained, measured, studies = [], [], {}
    for entry in finished(plain_runs(found)):
        domain = entry.runs.recipe.data.domain
        name = (
            f"{entry.label}, {entry.setting or 'batch order'}" if entry.objective == "fastft" else entry.label
        )
        spread = mean_metric(entry.results, f"{domain}/cpcc-orders/{entry.objective}")
        l2 = cell(entry, f"{domain}/cpcc/l2")
        key = cpcc_key(entry)
        cpccs = [cell(entry, key), shuffled_cell(found, entry, key)]
        trained.append([name, len(entry.results), *cpccs, number_cell(spread), l2])
        run = Run.open(entry.path())
        path = run.features_path(f"{domain}-test")
        if path.is_file():
            features, labels = (torch.from_numpy(array) for array in _arrays(path))
            studies[name] = order_study(features, labels, run.tree)
            measured += [[name, kind, *_study_cells(studies[name][kind])] for kind in ORDERS]
    title = "Trained with Fast FlowTree in several orders, and with EMD"
    columns = ("trained with", "seeds", "TestCPCC", "shuffled tree", "its spread over orders", "by l2")
    on_features = ("features of", "order", "error against EMD", "spread over orders", "CPCC", "its spread")
    series = [
        {"name": kind, "x": list(studies), "y": [study[kind]["error"] for study in studies.values()]}
        for kind in ORDERS
    ]
    panel = {"title": "Error against EMD", "x": "", "y": "", "percent": True, "series": series}
    return {
        "tables": [
            table("orders", title, columns, trained, [CONTROL]),
            table("orders-features", "Fast FlowTree on test features", on_features, measured, [_FIRST]),
        ],
        "figures": {"orders": {"kind": "lines", "panels": [panel]}},
        "studies": studies,
    }


def _study_cells(study: dict[str, float]) -> list[dict[str, Any] | None]:
    keys = ("error", "spread", "cpcc", "cpcc_spread")
    return [number_cell(summary([study[key]])) for key in keys]
