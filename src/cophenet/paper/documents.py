"""The document of an item: its observations and how they were made, as JSON; tables and figures beside it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cophenet._common.files import read_json, write_bytes, write_json, write_text
from cophenet._common.safe_paths import make_real_folder
from cophenet._common.shell import command
from cophenet.paper.figures import draw, item_figures
from cophenet.paper.items import find_items, item_names
from cophenet.paper.observations import Observations
from cophenet.paper.queue import Queue
from cophenet.paper.tables import item_tables

__all__ = [
    "FORMAT",
    "Document",
    "choose_document",
    "document_path",
    "read_document",
    "read_study",
    "unreadable",
    "without_folders",
    "write_document",
]

FORMAT = 3
# The folders of an absolute path; slashes inside words and URLs do not match.
_FOLDERS = re.compile(r"(?<![\w/:.~-])/(?:[^\s/'\"]+/)+")


@dataclass(frozen=True)
class Document:
    """The results of an item, and how they were made.

    Attributes:
        item: Name of the item.
        title: What it shows.
        paper: Labels in the paper.
        scale: Size of the experiments.
        recipes: The given recipes; empty for the paper's data.
        seeds: The given seeds; empty for those of the item.
        settings: Settings that were changed in every recipe.
        setup: Recipe -> a sentence about the training.
        runs: Names of the finished runs.
        missing: Name of a run -> why it is missing.
        arrays: Arrays that figures draw besides single numbers, such as distance matrices.
        study: The result of a study without runs.
        observations: The observations.
    """

    item: str
    title: str = ""
    paper: tuple[str, ...] = ()
    scale: str = "laptop"
    recipes: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    settings: tuple[str, ...] = ()
    setup: Mapping[str, str] = field(default_factory=dict)
    runs: tuple[str, ...] = ()
    missing: Mapping[str, str] = field(default_factory=dict)
    arrays: tuple[Mapping[str, Any], ...] = ()
    study: Mapping[str, Any] | None = None
    observations: Observations = field(default_factory=Observations)

    @property
    def command(self) -> str:
        """The command that makes the item with these settings.

        Example:
            >>> Document("rank", recipes=("digits",), seeds=(7,), settings=("schedule={every: 2}",)).command
            "cophenet reproduce rank --scale laptop --recipe digits --seeds 7, --set 'schedule={every: 2}'"
        """
        words = ["reproduce", self.item, "--scale", self.scale]
        for recipe in self.recipes:
            words += ["--recipe", recipe]
        if self.seeds:
            # The comma makes a single seed a list; without it, it would be the number of seeds.
            words += ["--seeds", ",".join(map(str, self.seeds)) + "," * (len(self.seeds) == 1)]
        for setting in self.settings:
            words += ["--set", setting]
        return command(*words)

    def to_json(self) -> dict[str, Any]:
        """Plain data; observations of a study are left out, because they are made from its result."""
        parts = {name: value for name, value in self.__dict__.items() if name != "observations"}
        plain = {name: list(v) if isinstance(v, tuple) else v for name, v in parts.items()}
        return {"format": FORMAT, **plain, "observations": [] if self.study else self.observations.to_json()}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Document:
        """Make the document from the output of `to_json`."""
        parts: dict[str, Any] = {
            name: tuple(v) if isinstance(v, list) else v for name, v in content.items() if name != "format"
        }
        (item,) = find_items((content["item"],))
        if item.study is not None and content["study"]:
            parts["observations"] = item.study.observations(content["study"])
        else:
            parts["observations"] = Observations.from_json(content["observations"])
        return cls(**parts)


def document_path(folder: Path, name: str) -> Path:
    """Path of the document of an item.

    Example:
        >>> document_path(Path("results"), "rank").as_posix()
        'results/rank/rank.json'
    """
    return folder / name / f"{name}.json"


def read_document(folder: Path, name: str) -> Document | None:
    """Read the document of an item; None if there is none that this version can read.

    Args:
        folder: Output folder of the items.
        name: Name of the item.

    Example:
        >>> read_document(Path("/nowhere"), "rank") is None
        True
    """
    path = document_path(folder, name)
    content, problem = _read(path, name) if path.is_file() else ({}, "is not there")
    return None if problem else Document.from_json(content)


def read_study(folder: Path, name: str) -> dict[str, Any] | None:
    """Read the saved result of a study without runs; None if there is none.

    The result is used even if this version cannot read the rest of the document: it is never measured again.

    Raises:
        ValueError: If there is a document of another format.
    """
    path = document_path(folder, name)
    if not path.is_file():
        return None
    content = read_json(path)
    if content.get("format") != FORMAT:
        raise ValueError(f"{path} {_read(path, name)[1]}: move it away, or give another output")
    study: dict[str, Any] | None = content.get("study")
    return study


def unreadable(folder: Path) -> dict[Path, str]:
    """Files at the paths of documents that this version cannot read, each with the reason.

    Args:
        folder: Output folder of the items.

    Example:
        >>> unreadable(Path("/nowhere"))
        {}
    """
    paths = {name: document_path(folder, name) for name in item_names()}
    problems = {path: _read(path, name)[1] for name, path in paths.items() if path.is_file()}
    return {path: problem for path, problem in problems.items() if problem}


def _read(path: Path, name: str) -> tuple[dict[str, Any], str]:
    """Read the content of a document, and why it cannot be used; "" if it can."""
    try:
        content = read_json(path)
    except ValueError:
        return {}, "is no JSON document"
    if content.get("format") != FORMAT:
        return content, f"has format {content.get('format')!r}, this version reads {FORMAT}"
    known = ("format", *Document.__dataclass_fields__)
    if lacking := [key for key in known if key not in content]:
        return content, f"lacks {', '.join(lacking)}"
    if unknown := [key for key in content if key not in known]:
        return content, f"has {', '.join(unknown)}, which this version does not know"
    return content, "" if content["item"] == name else f"is of item {content['item']!r}"


def write_document(document: Document, output: Path) -> list[Path]:
    """Write all files of an item: its document as JSON, its tables as text, its figures as SVG and PNG.

    Args:
        document: The document.
        output: Output folder of the items; each has a subfolder, created if needed.

    Returns:
        The files, the JSON first.
    """
    written = [document_path(output, document.item)]
    folder = written[0].parent
    make_real_folder(folder, parents=True)
    write_json(written[0], document.to_json())
    for name, table in item_tables(document).items():
        texts = {"md": table.to_markdown(), "csv": table.to_csv(), "tex": table.to_latex()}
        for ending, text in texts.items():
            written.append(folder / f"{name}.{ending}")
            write_text(written[-1], f"{text}\n")
    for name, figure in item_figures(document).items():
        for ending, content in draw(figure).items():
            written.append(folder / f"{name}.{ending}")
            write_bytes(written[-1], content)
    return written


def choose_document(document: Document, queue: Queue, output: Path) -> Document:
    """Choose the document to write: the old one if runs or data behind it are gone, else the new one.

    Args:
        document: The new document.
        queue: The queue, with the status of all runs.
        output: Output folder of the items.

    Raises:
        ValueError: If the old document must be kept but cannot be read, or is of another command while runs
            may be trained.
    """
    path = document_path(output, document.item)
    if not path.is_file():
        return document
    content, problem = read_json(path), _read(path, document.item)[1]
    if content.get("format") != FORMAT:
        raise ValueError(f"{path} {problem}: move it away, or give another -o")
    known = read_document(output, document.item)
    lost = _lost(document, content.get("runs", ()), known, queue)
    if not lost:
        return document
    if known is None:
        raise ValueError(f"{path} {problem}, and {lost}: move it away, or give another -o")
    if not queue.only_finished and document.command != known.command:
        raise ValueError(f"{path} is of `{known.command}`, and {lost}: give another -o")
    queue.tell(f"{document.item}: drawn from its document; {lost}")
    return known


def _lost(document: Document, runs: Sequence[str], known: Document | None, queue: Queue) -> str:
    """What would be lost with the old document, which is of some runs; "" if it may be replaced."""
    failing = {*queue.report.lacking, *queue.report.failed}
    gone = [name for name in runs if name in failing or not (queue.folder / name / "results.json").is_file()]
    if gone and (queue.only_finished or len(document.runs) < len(runs)):
        return f"{len(gone)} of its runs {'is' if len(gone) == 1 else 'are'} not in {queue.folder}"
    # Sizes of data sets are counted without runs, and again each time.
    counted = known is not None and not document.runs and document.study is None
    if counted and known and len(document.observations.rows) < len(known.observations.rows):
        return "not all of its data is here"
    return ""


def without_folders(text: str) -> str:
    """Remove the folders of paths from a text that may be published.

    Example:
        >>> without_folders("cannot read /home/me/data/train.bin: 3/4 of it")
        'cannot read train.bin: 3/4 of it'
    """
    return _FOLDERS.sub("", text)
