"""The HTML page: one file that needs no network, the same for the same runs."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from cophenet._common.files import write_text
from cophenet._common.packages import import_optional
from cophenet.evaluation.keys import describe
from cophenet.report.comparison import distinct_names, make_table, open_runs, results_of
from cophenet.report.formats import legend
from cophenet.report.setups import data_identity, data_labels
from cophenet.report.table import Table

if TYPE_CHECKING:
    from cophenet.metrics.cards import Group
    from cophenet.report.sections import Picture
    from cophenet.runs.run import Run

__all__ = ["render_report", "write_report"]

_TEMPLATES = Path(__file__).parent / "templates"
_MOST_COLUMNS = 6


@dataclass(frozen=True)
class Block:
    """Some columns of a table.

    Attributes:
        title: What they have in common.
        about: What they measure.
        table: The table with these columns alone.
    """

    title: str
    about: str
    table: Table


@dataclass(frozen=True)
class Comparison:
    """Runs on the same data.

    Attributes:
        data: Name of the data, with the folder where others have the same name.
        blocks: Their numbers.
        legend: What signs mean.
        curves: Their training.
    """

    data: str
    blocks: tuple[Block, ...]
    legend: tuple[str, ...]
    curves: tuple[Picture, ...]


def write_report(runs: Sequence[Run | str | Path], output: str | Path) -> Path:
    """Write the page about some runs.

    Args:
        runs: Runs or their folders, of one seed or several, evaluated or not.
        output: File to write, ending in .html or .htm.

    Returns:
        The file.

    Raises:
        ImportError: If packages of the extra `report` are missing.
        ValueError: If a folder is no run, or the file is to be of another kind.

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
    write_text(output, render_report(runs))
    return output


def render_report(runs: Sequence[Run | str | Path]) -> str:
    """The page about some runs, as text; see `write_report`."""
    opened = open_runs(runs)
    for package in ("jinja2", "matplotlib", "safetensors"):
        import_optional(package, "reports need", "cophenet[report]")
    import jinja2

    from cophenet.report.sections import metric_list, run_section

    names = distinct_names(opened)
    sections = [
        run_section(run, name, f"run{number}")
        for number, (run, name) in enumerate(zip(opened, names, strict=True), start=1)
    ]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    script = (_TEMPLATES / "report.js").read_text(encoding="utf-8")
    return environment.get_template("report.html").render(
        title=_title(names),
        comparisons=_comparisons(opened, names) if len(opened) > 1 else [],
        sections=sections,
        style=(_TEMPLATES / "report.css").read_text(encoding="utf-8"),
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        version=version("cophenet"),
        legend=_legend,
        metric_list=metric_list,
    )


def _title(names: Sequence[str]) -> str:
    return (
        names[0] if len(names) == 1 else f"{len(names)} runs: {', '.join(names[:3])}{'…' * (len(names) > 3)}"
    )


def _legend(table: Table) -> list[str]:
    return [legend(table, best="★", paper="“paper”:"), *table.notes]


def _comparisons(runs: Sequence[Run], names: Sequence[str]) -> list[Comparison]:
    """Runs on the same data side by side, in the order in which data sets are met."""
    comparisons = []
    by_data: dict[str, list[int]] = {}
    for place, label in enumerate(data_labels([data_identity(run) for run in runs])):
        by_data.setdefault(label, []).append(place)
    for number, (data, places) in enumerate(by_data.items()):
        results = {names[place]: results_of(runs[place]) for place in places}
        known = {name: result for name, result in results.items() if result is not None}
        blocks: tuple[Block, ...] = ()
        signs: list[str] = []
        if known:
            table = make_table(list(known), list(known.values()))
            blocks, signs = _blocks(table), _legend(table)
        curves = _shared_curves([(names[place], runs[place]) for place in places], f"data{number}")
        comparisons.append(Comparison(data, blocks, tuple(signs), tuple(curves)))
    return comparisons


def _blocks(table: Table) -> tuple[Block, ...]:
    """A table in pieces that are about one thing and fit a sheet of paper."""
    by_group: dict[Group, list[int]] = {}
    for place, column in enumerate(table.columns):
        by_group.setdefault(describe(column.key).group, []).append(place)
    return tuple(
        Block(group.title, group.about, table.select(places[start : start + _MOST_COLUMNS]))
        for group, places in by_group.items()
        for start in range(0, len(places), _MOST_COLUMNS)
    )


def _shared_curves(runs: Sequence[tuple[str, Run]], anchor: str) -> list[Picture]:
    """What several runs measured during training, a line for each."""
    from cophenet.report.curves import Curve, quantity, training_curves
    from cophenet.report.sections import curve_pictures

    measured = [(name, training_curves(run)) for name, run in runs]
    several = {}
    for column in ("test/accuracy", "train/cpcc"):
        lines = [Curve(name, curves[column].values) for name, curves in measured if column in curves]
        if len(lines) > 1:
            several[quantity(column)] = lines
    return curve_pictures(several, anchor, what="one line for each run, thin lines for its seeds")
