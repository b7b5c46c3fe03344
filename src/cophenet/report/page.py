"""The HTML report: one file that works offline, identical for identical runs."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cophenet._common.files import write_text
from cophenet._common.packages import import_optional
from cophenet._common.shell import command
from cophenet.evaluation.keys import metric_info
from cophenet.report.answer import Answer, Command, Detail, EvaluatedRun, aspects
from cophenet.report.answer import answer as answer_of
from cophenet.report.comparability import data_identity, data_labels
from cophenet.report.comparison import distinct_names, make_table, measure_run, open_runs
from cophenet.report.formats import html_content, legend
from cophenet.report.names import COLORS, short_names
from cophenet.report.noise import level_identities
from cophenet.report.page_data import Entry, chart_data
from cophenet.report.table import Cell, Column, Table, number, signed_ends, unit_of
from cophenet.runs.json_files import details_tree

if TYPE_CHECKING:
    from cophenet.evaluation.features import ProgressCallback
    from cophenet.metrics.cards import Group
    from cophenet.runs.run import Run

__all__ = ["mistake_paths", "render_report", "write_report"]

_TEMPLATES = Path(__file__).parent / "templates"
_MOST_COLUMNS = 6
_MOST_MISTAKES = 12


@dataclass(frozen=True)
class Headline:
    """The table of the most important metrics, each with its difference to Flat.

    Attributes:
        columns: The columns, named in words.
        rows: For each run its name, its shortened name, its colour and its cells.
        guesses: Rows with the results of guessing: the kind of guess and a text for each column.
        flat: Name of the run that others are compared with; empty without one.
        other_units: Names of the columns that are neither in percent nor in levels of the tree.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, str, str, tuple[Cell, ...]], ...]
    guesses: tuple[tuple[str, tuple[str, ...]], ...]
    flat: str
    other_units: tuple[str, ...]


@dataclass(frozen=True)
class Comparison:
    """Runs on the same data and tree.

    Attributes:
        data: Label of the data, with a number for the tree if the data has several.
        anchor: HTML anchor of its section.
        answer: The conclusion in sentences; None if nothing was evaluated.
        headline: The most important metrics; None if nothing was evaluated.
        blocks: All metrics: tables of a few columns, each with the group of its metrics.
        legend: Meaning of the signs in the tables, and notes.
        entries: The runs.
        charts: Data of the charts, as returned by `chart_data`.
    """

    data: str
    anchor: str
    answer: Answer | None
    headline: Headline | None
    blocks: tuple[tuple[Group, Table], ...]
    legend: tuple[str, ...]
    entries: tuple[Entry, ...]
    charts: dict[str, Any] = field(repr=False)


def write_report(
    runs: Sequence[Run | str | Path],
    output: str | Path,
    *,
    title: str = "",
    answer: Sequence[str] = (),
    progress: ProgressCallback | None = None,
) -> Path:
    """Write the HTML report of some runs.

    Args:
        runs: Runs or their folders, of one seed or several, evaluated or not.
        output: File to write, ending in .html or .htm.
        title: Title of the page; empty for the names of the runs.
        answer: Sentences at the top of the page, in place of the conclusions from the runs; those of type
            `cophenet.report.Detail` are indented, a `cophenet.report.Command` is shown as it is typed.
        progress: Called with the current step, the amount of work done and the total.

    Returns:
        The file.

    Raises:
        ImportError: If packages of the extra `report` are missing.
        ValueError: If a folder is not a run, or `output` has another ending or is in no existing folder.

    Example:
        >>> write_report([], "report.html")
        Traceback (most recent call last):
        ValueError: runs must be one or more run folders, got none
    """
    output = Path(output)
    if output.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"output must end in .html or .htm, got {str(output)!r}")
    if not output.parent.is_dir():
        raise ValueError(f"output must be in a folder that exists, got {str(output)!r}")
    write_text(output, render_report(runs, title=title, answer=answer, progress=progress))
    return output


def render_report(
    runs: Sequence[Run | str | Path],
    *,
    title: str = "",
    answer: Sequence[str] = (),
    progress: ProgressCallback | None = None,
) -> str:
    """Return the HTML report of some runs as text; see `write_report`."""
    opened = open_runs(runs)
    for package in ("jinja2", "plotly", "safetensors"):
        import_optional(package, "reports need", "cophenet[report]")
    import jinja2

    names = distinct_names(opened)
    comparisons = _comparisons(opened, names, progress or (lambda *_: None))
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.tests["detail"] = lambda sentence: isinstance(sentence, Detail)
    environment.tests["command"] = lambda sentence: isinstance(sentence, Command)
    own = (_TEMPLATES / "report.js").read_text(encoding="utf-8")
    library = (files("plotly") / "package_data" / "plotly.min.js").read_text(encoding="utf-8")
    charts = {comparison.anchor: comparison.charts for comparison in comparisons}
    data = json.dumps({"palette": COLORS, "comparisons": charts}, separators=(",", ":"))
    return environment.get_template(
        "report.html"
    ).render(
        title=title or _title(names),
        answer=answer,
        comparisons=comparisons,
        data=data.replace("<", "\\u003c"),  # a closing tag in a name would end the element with the data
        style=(_TEMPLATES / "report.css").read_text(encoding="utf-8"),
        scripts=(library, own),
        hashes=[base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in (library, own)],
        version=version("cophenet"),
        plotly=version("plotly"),
        content=html_content,
        shown=_shown_gap,
        color=_color,
        facts=_facts,
        mistakes=lambda entry: mistake_paths(entry.details)[:_MOST_MISTAKES],
        brief=lambda name, length: short_names([name], length)[0],
    )


def _title(names: Sequence[str]) -> str:
    return (
        names[0] if len(names) == 1 else f"{len(names)} runs: {', '.join(names[:3])}{'…' * (len(names) > 3)}"
    )


def _comparisons(runs: Sequence[Run], names: Sequence[str], progress: ProgressCallback) -> list[Comparison]:
    """Group runs by data and tree, in order of first appearance."""
    groups: dict[tuple[str, str], list[Entry]] = {}
    entries = []
    for place, (run, name) in enumerate(zip(runs, names, strict=True)):
        progress(f"reading {name}", place, 2 * len(runs))
        measured = measure_run(run)
        details = None if measured is None else run.parts[0].details
        measured = None if details is None else measured  # without details the evaluation is incomplete
        entries.append(Entry(run, name, place, measured, details))
        if details is None:
            missing = f"`{command('evaluate', run.path)}`"
            unknown = f"This run was not evaluated: run {missing}, then make the page again."
            entries[-1].notes.append(unknown)
    labels = data_labels([data_identity(run) for run in runs])
    for entry, label in zip(entries, labels, strict=True):
        groups.setdefault((label, _tree_identity(entry)), []).append(entry)
    titles = [label for label, _ in groups]
    made, done = [], len(runs)
    for number_, ((label, _), members) in enumerate(groups.items(), start=1):
        same = titles[: number_ - 1].count(label) + 1
        title = f"{label}, tree {same}" if titles.count(label) > 1 else label

        def tell(what: str, members: Sequence[Entry] = members, done: int = done) -> None:
            progress(what, done + len(members) // 2, 2 * len(runs))

        made.append(_comparison(members, title, f"data{number_}", tell))
        done += len(members)
    progress("page", 2 * len(runs), 2 * len(runs))
    return made


def _tree_identity(entry: Entry) -> str:
    """Identity of the groups at all levels of the evaluation tree; before evaluation, the training tree."""
    tree = entry.run.tree if entry.details is None else details_tree(entry.details)
    return json.dumps(level_identities(tree))


def _comparison(entries: Sequence[Entry], data: str, anchor: str, tell: Callable[[str], None]) -> Comparison:
    charts = chart_data(entries, tell)
    evaluated = [entry for entry in entries if entry.measured is not None]
    said, headline, signs = None, None, list[str]()
    blocks: tuple[tuple[Group, Table], ...] = ()
    if "values" in charts:
        names = [entry.name for entry in evaluated]
        table = make_table(names, [entry.measured for entry in evaluated if entry.measured is not None])
        blocks, signs = _blocks(table), [legend(table, best="★", paper="“paper”:"), *table.notes]
        said, headline = _answered(evaluated, table, charts)
    return Comparison(data, anchor, said, headline, blocks, tuple(signs), tuple(entries), charts)


def _answered(evaluated: Sequence[Entry], table: Table, charts: dict[str, Any]) -> tuple[Answer, Headline]:
    details = evaluated[0].details
    assert details is not None
    tree, domain = details_tree(details), evaluated[0].run.recipe.data.domain
    charts["coarse"] = tree.summary_levels()[0]
    candidates = [
        EvaluatedRun(entry.name, entry.measured, entry.run.recipe.tree.shuffle_seed is not None)
        for entry in evaluated
        if entry.measured is not None
    ]
    named = aspects(domain, tree)
    said = answer_of(candidates, named, charts["levels"][-1])
    return said, _headline(evaluated, table, charts, named)


def _headline(
    evaluated: Sequence[Entry], table: Table, charts: dict[str, Any], named: dict[str, str]
) -> Headline:
    places = [place for key in named for place, column in enumerate(table.columns) if column.key == key]
    shown = table.select(places)
    levels = {level["name"]: level for level in charts["levels"]}

    def guess(key: str, kind: str) -> str:
        info = charts["metrics"].get(key, {"guesses": ()})
        return number(levels[info["level"]][kind], unit_of(key)) if kind in info["guesses"] else ""

    keys = [column.key for column in shown.columns]
    guesses = [
        ("by chance", tuple(guess(key, "chance") for key in keys)),
        ("always the largest", tuple(guess(key, "majority") for key in keys)),
    ]
    shorts = short_names([row.name for row in shown.rows], 36)
    rows = [
        (row.name, short, _color(entry), row.cells)
        for row, short, entry in zip(shown.rows, shorts, evaluated, strict=True)
    ]
    columns = tuple(replace(column, name=named[column.key]) for column in shown.columns)
    flat = next((row.name for row in shown.rows if row.objective == "flat"), "")
    infos = [(column.name, metric_info(column.key)) for column in columns]
    other_units = tuple(name for name, info in infos if not (info.percent or info.in_levels))
    return Headline(columns, tuple(rows), tuple(guesses), flat, other_units)


def _color(entry: Entry) -> str:
    return COLORS[entry.color % len(COLORS)]


def _shown_gap(cell: Cell) -> str:
    """The difference to Flat with its interval as text, in the unit of the cell; empty if there is none."""
    if cell.against is None or cell.unit is None:
        return ""
    mean, low, high = signed_ends(cell.against, cell.unit)
    return f"{mean} [{low}, {high}]" if cell.against.known else mean


def _blocks(table: Table) -> tuple[tuple[Group, Table], ...]:
    """Split a table by groups of metrics into tables narrow enough to print, each with its group."""
    by_group: dict[Group, list[int]] = {}
    for place, column in enumerate(table.columns):
        by_group.setdefault(metric_info(column.key).group, []).append(place)
    return tuple(
        (group, table.select(places[start : start + _MOST_COLUMNS]))
        for group, places in by_group.items()
        for start in range(0, len(places), _MOST_COLUMNS)
    )


def mistake_paths(details: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The mistakes of `details.json` with names of classes, and the groups between them.

    Returns:
        The entries of "worst_mistakes", with "true" and "predicted" as names, and with empty "file" and
        "image" if they are missing. Added are "meeting", the lowest common ancestor; "up", the groups from
        the true class up to it; "down", the groups from it down to the predicted class, both without the
        ends; and "way", the whole path as text.
    """
    tree = details_tree(details)
    mistakes = []
    for mistake in details["worst_mistakes"]:
        leaves = [int(tree.leaves[mistake[name]]) for name in ("true", "predicted")]
        (true, predicted), lca = map(tree.path, leaves), tree.lca(*leaves)
        shared, meeting = tree.depths[lca], tree.last_names[lca]
        up, down = true[shared:-1][::-1], predicted[shared:-1]
        way = f"{' ↑ '.join((true[-1], *up))} ↑ {meeting} ↓ {' ↓ '.join((*down, predicted[-1]))}"
        named = {"true": true[-1], "predicted": predicted[-1]}
        route = {"up": up, "meeting": meeting, "down": down, "way": way}
        mistakes.append({"file": "", "image": "", **mistake, **named, **route})
    return mistakes


def _facts(entry: Entry) -> Iterable[tuple[str, str]]:
    """Yield facts about a run as pairs of term and value."""
    run = entry.run
    recipe, folder = run.recipe, run.parts[0].info.get("data_dir")
    yield "Data", f"{recipe.data.name} in {folder}" if folder else recipe.data.name
    yield "Objective", recipe.objective.name
    yield "Recipe", f"{recipe.name}, {recipe.scale} scale"
    yield "Backbone", recipe.model.backbone
    yield "Classes", f"{run.tree.num_classes} in a tree of height {run.tree.height}"
    yield "Seeds", ", ".join(map(str, recipe.seeds))
    if entry.measured is None:
        return
    results = entry.measured.results
    kept = ", ".join(str(one["epoch"]) for one in results.get("kept", ()))
    chosen = f", the weights are those of epoch {kept}, chosen on validation samples"
    yield "Epochs", f"{results['epochs']}{chosen * bool(kept)}"
    if results["seconds_per_epoch"] is not None:
        yield "Time per epoch", f"{results['seconds_per_epoch']:.3g} s"
    samples = (f"{count:,} {part.replace('-', ' ')}" for part, count in results["samples"].items())
    yield "Samples", ", ".join(samples)
