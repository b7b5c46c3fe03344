"""The section of a page about one run: numbers, pictures, and why one of them is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cophenet._common.shell import command
from cophenet.report.comparison import make_table, results_of
from cophenet.report.curves import (
    ACCURACY,
    CPCC,
    LOSS,
    Curve,
    Quantity,
    curves_figure,
    phase_starts,
    quantity,
    training_curves,
)
from cophenet.report.details import Mistake, Node, details_tree, mistake_paths, node_list
from cophenet.report.embedding import Key, embed, embedding_figure, embedding_keys
from cophenet.report.matrices import matrix_figure, square
from cophenet.report.style import as_svg
from cophenet.report.table import Cell, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from cophenet.runs.run import Run
    from cophenet.tree import Hierarchy

__all__ = ["Part", "Picture", "RunSection", "curve_pictures", "picture", "run_section"]

_MOST_LEVELS = 8


@dataclass(frozen=True)
class Picture:
    """A picture of the page.

    Attributes:
        svg: The picture.
        caption: One line that says what it shows.
        choice: What it is chosen by among its like; empty where all are shown.
        keys: Its legend, where that is beside the picture.
    """

    svg: str
    caption: str
    choice: str = ""
    keys: tuple[Key, ...] = ()


@dataclass(frozen=True)
class Part:
    """Pictures under one heading.

    Attributes:
        pictures: The pictures.
        missing: Why there are none, or a remark about them.
    """

    pictures: tuple[Picture, ...] = ()
    missing: str = ""


@dataclass(frozen=True)
class RunSection:
    """Everything about a run.

    Attributes:
        anchor: Where links to it lead.
        name: What it is called.
        facts: What it is, as terms and values.
        table: Its numbers, None if it was not evaluated.
        seed: The seed that pictures of a single one show.
        seeds: How many there are.
        training: Curves.
        matrices: Distances between the classes, by the name of the distance.
        clouds: Features in the plane, by level.
        nodes: The tree with accuracies.
        mistakes: The worst mistakes.
        unevaluated: Why numbers, tree and mistakes are missing; empty if they are not.
    """

    anchor: str
    name: str
    facts: tuple[tuple[str, str], ...]
    table: Table | None
    seed: int
    seeds: int
    training: Part
    matrices: Part
    clouds: Part
    nodes: tuple[Node, ...]
    mistakes: tuple[Mistake, ...]
    unevaluated: str


def run_section(run: Run, name: str, anchor: str) -> RunSection:
    """Gather what there is about a run; nothing that is missing is an error."""
    first, results = run.parts[0], results_of(run)
    details = first.details
    missing = f"`{command('evaluate', run.path)}`"
    hint = f"This run was not evaluated: run {missing}, then make the page again."
    return RunSection(
        anchor=anchor,
        name=name,
        facts=tuple(_facts(run, results)),
        table=None if results is None else make_table([name], [results]),
        seed=first.seed,
        seeds=len(run.parts),
        training=_training(run, anchor),
        matrices=Part(missing=hint) if details is None else _matrices(run, details, anchor),
        clouds=Part(missing=hint) if details is None else _clouds(run, details, anchor),
        nodes=() if details is None else tuple(node_list(details)),
        mistakes=() if details is None else tuple(mistake_paths(details)),
        unevaluated=hint if details is None else "",
    )


def metric_list(table: Table) -> Table:
    """The only row of a comparison as a list of metrics."""
    rows: list[list[Cell | str | int | None]] = [
        [column.title, column.heading, cell]
        for column, cell in zip(table.columns, table.rows[0].cells, strict=True)
    ]
    return Table.from_rows(("metric", "short", "this run"), rows)


def picture(figure: Figure, name: str, caption: str, choice: str = "", keys: Sequence[Key] = ()) -> Picture:
    """A figure with its caption, which is also its description for those who cannot see it."""
    return Picture(as_svg(figure, name, caption), caption, choice, tuple(keys))


def curve_pictures(
    curves: Mapping[Quantity, Sequence[Curve]], anchor: str, *, phases: Sequence[int] = (), what: str
) -> list[Picture]:
    """Training curves by quantity.

    Args:
        curves: A quantity -> its curves.
        anchor: What the ids begin with.
        phases: Epochs that begin a new phase.
        what: What a line represents.
    """
    pictures = []
    for number, (shown, lines) in enumerate(curves.items()):
        if not lines:
            continue
        figure = curves_figure(lines, shown.title, percent=shown.percent, phases=phases)
        ends = "; ".join(f"{line.name} ends at {_end(line, shown.percent)}" for line in lines[:6])
        caption = f"{shown.title} over the epochs, {what}. {ends[:1].upper()}{ends[1:]}."
        pictures.append(picture(figure, f"{anchor}-curve{number}", caption))
    return pictures


def _end(curve: Curve, percent: bool) -> str:
    known = curve.mean[np.isfinite(curve.mean)]
    return f"{100 * known[-1]:.1f} %" if percent else f"{known[-1]:.3g}"


def _training(run: Run, anchor: str) -> Part:
    curves = training_curves(run)
    if not curves:
        return Part(missing="There is no metrics.csv with finished epochs in this run.")
    by_quantity: dict[Quantity, list[Curve]] = {ACCURACY: [], CPCC: [], LOSS: []}
    for column, curve in curves.items():
        by_quantity[quantity(column)].append(curve)
    several = len(run.parts) > 1
    what = f"thick: mean of {len(run.parts)} seeds, thin: each seed" if several else "one seed"
    phases = phase_starts(run.parts[0].metrics)
    return Part(tuple(curve_pictures(by_quantity, anchor, phases=phases, what=what)))


def _matrices(run: Run, details: Mapping[str, Any], anchor: str) -> Part:
    tree, classes = run.tree, details["classes"]
    if tuple(classes) != tree.classes:
        return Part(missing="The classes of tree.json and details.json differ, so distances cannot be drawn.")
    pictures: list[Picture] = []
    # The distance of the training first.
    for name, condensed in sorted(details["class_distances"].items(), key=lambda item: item[0] == "l2"):
        values = np.array([np.nan if value is None else value for value in condensed])
        caption = (
            f"Distances between classes by {name}{_which(run)}, sorted by the tree: dark is near, "
            "bright is far. Lines set groups apart; blocks along the diagonal are groups that lie together."
        )
        figure = matrix_figure(square(values, len(classes)), tree, f"Learned, by {name}")
        pictures.append(picture(figure, f"{anchor}-matrix-{len(pictures)}", caption, name))
    if not pictures:
        return Part(missing="There are no distances between the classes in details.json.")
    caption = "The tree's own distances in the same order: what training was asked to resemble."
    own = picture(matrix_figure(tree.distances(), tree, "The tree"), f"{anchor}-matrix-tree", caption)
    return Part((*pictures, own))


def _which(run: Run) -> str:
    """Which seed is drawn, where there are several."""
    return f", seed {run.parts[0].seed} of {len(run.parts)}" if len(run.parts) > 1 else ""


def _shown_levels(tree: Hierarchy) -> list[str]:
    """All levels, or some evenly over a deep tree, first and last included."""
    names = tree.level_names
    places = np.linspace(0, len(names) - 1, min(len(names), _MOST_LEVELS))
    return [names[place] for place in dict.fromkeys(places.round().astype(int).tolist())]


def _clouds(run: Run, details: Mapping[str, Any], anchor: str) -> Part:
    path = run.parts[0].features_path(f"{run.recipe.data.domain}-test")
    if not path.is_file():
        return Part(missing=f"There are no features of the test samples: {path} is not there.")
    tree = details_tree(details)
    try:
        drawn = embed(path, tree.num_classes)
    except ValueError as error:
        return Part(missing=f"The features cannot be drawn: {error}.")
    of = f"{len(drawn.points)} of {drawn.samples}" if drawn.samples > len(drawn.points) else drawn.samples
    pictures: list[Picture] = []
    for level in _shown_levels(tree):
        keys = embedding_keys(tree, level)
        caption = (
            f"{drawn.method} of {of} test samples{_which(run)}, coloured by {level} ({len(keys)} groups): "
            "near points have similar features."
        )
        figure = embedding_figure(drawn.points, drawn.labels, tree, level)
        pictures.append(picture(figure, f"{anchor}-cloud-{len(pictures)}", caption, level, keys))
    note = f"Drawn by PCA instead of UMAP: {drawn.note}." if drawn.note else ""
    return Part(tuple(pictures), note)


def _facts(run: Run, results: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    recipe, folder = run.recipe, run.parts[0].info.get("data_dir")
    facts = [
        ("Data", f"{recipe.data.name} in {folder}" if folder else recipe.data.name),
        ("Objective", recipe.objective.name),
        ("Recipe", f"{recipe.name}, {recipe.scale} scale"),
        ("Backbone", recipe.model.backbone),
        ("Classes", f"{run.tree.num_classes} in a tree of height {run.tree.height}"),
        ("Seeds", ", ".join(map(str, recipe.seeds))),
    ]
    if results is None:
        return facts
    facts.append(("Epochs", str(results["epochs"])))
    if results["seconds_per_epoch"] is not None:
        facts.append(("Time per epoch", f"{results['seconds_per_epoch']:.3g} s"))
    samples = [f"{count:,} {part.replace('-', ' ')}" for part, count in results["samples"].items()]
    return [*facts, ("Samples", ", ".join(samples))]
