"""The command line: parse, call, print. What a command does is in the rooms, and loads when it runs."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from cophenet.data.base import Requirement
    from cophenet.data.registry import DataSource
    from cophenet.tree import Hierarchy

__all__ = ["app", "main"]

app = typer.Typer(
    name="cophenet",
    help="Teach networks the shape of a label tree. Add --debug to any command to see the full traceback.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
data_app = typer.Typer(help="Data sets: list them, check their files, look at them.", no_args_is_help=True)
tree_app = typer.Typer(help="Tree files: show, check and convert them.", no_args_is_help=True)
app.add_typer(data_app, name="data")
app.add_typer(tree_app, name="tree")


class Scale(str, Enum):
    """Scales of a recipe."""

    PAPER = "paper"
    LAPTOP = "laptop"


class PartName(str, Enum):
    """Parts of a data set."""

    TRAIN = "train"
    TEST = "test"


class DomainName(str, Enum):
    """Domains of a data set."""

    FULL = "full"
    SOURCE = "source"
    TARGET = "target"


def _names() -> list[str]:
    """For completion: recipes have the names of their data sets, and are listed without loading torch."""
    from cophenet.training.recipe import recipe_names

    return list(recipe_names())


DataName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the data set.", autocompletion=_names)]
DataDir = Annotated[
    Path | None, typer.Option("--data-dir", metavar="DIR", help="Folder that holds its files.")
]
DataOptions = Annotated[
    list[str] | None, typer.Option("--set", metavar="OPTION=VALUE", help="An option of the data set.")
]
TreeFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="Tree in JSON, YAML, CSV, TSV, edges or Newick.")
]


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line; errors are one line on stderr and exit code 1, wrong usage is code 2.

    Args:
        argv: Arguments; None for those of the process.

    Raises:
        SystemExit: Always, with the exit code.
    """
    given = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in given
    try:
        app([argument for argument in given if argument != "--debug"], prog_name="cophenet")
    except Exception as error:
        if debug:
            raise
        typer.echo(_one_line(error), err=True)
        raise SystemExit(1) from None


def _one_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"error: {error.filename}: {error.strerror}"
    text = " ".join(str(error).split())
    if isinstance(error, (ValueError, OSError, ImportError)):
        return f"error: {text}"
    return f"error: unexpected {type(error).__name__}: {text} (--debug shows where)"


def _version(wanted: bool) -> None:
    if wanted:
        import cophenet

        typer.echo(f"cophenet {cophenet.__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    _ = version


@app.command()
def recipes(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Recipe by name, or a YAML file.", autocompletion=_names),
    ] = None,
    scale: Annotated[Scale | None, typer.Option(help="Size of the experiment; laptop unless given.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Replace a setting.")
    ] = None,
) -> None:
    """List the recipes, or print one with all its settings.

    Example: cophenet recipes cifar100 --scale paper --set optimizer.lr=0.05
    """
    from cophenet.training.recipe import list_recipes, load_recipe

    if name is not None:
        recipe = load_recipe(name, None if scale is None else scale.value, settings or ())
        typer.echo(recipe.to_yaml(), nl=False)
        return
    if settings:
        raise typer.BadParameter("--set needs the NAME of a recipe")
    rows: dict[str, dict[str, str]] = {}
    for line in list_recipes():
        row = rows.setdefault(line.name, {"recipe": line.name, "data": line.data, "about": line.summary})
        row[line.scale] = f"{line.backbone}, {line.epochs} epochs"
    columns = (
        "recipe",
        "data",
        *((known.value for known in Scale) if scale is None else [scale.value]),
        "about",
    )
    shown = [row for row in rows.values() if scale is None or scale.value in row]
    _table(columns, [[row.get(column, "-") for column in columns] for row in shown])


@data_app.command("list")
def data_list() -> None:
    """List the data sets.

    Example: cophenet data list
    """
    from cophenet.data.registry import DataSource, source_names

    about = {getattr(cls, "name", ""): getattr(cls, "summary", "") for cls in _below(DataSource)}
    _table(("data", "about"), [(name, about[name]) for name in source_names()])


@data_app.command("check")
def data_check(
    name: DataName,
    data_dir: DataDir = None,
    download: Annotated[bool, typer.Option("--download", help="First download what is missing.")] = False,
    options: DataOptions = None,
) -> None:
    """Tell which files of a data set are there, and if all are, what is in them.

    Example: cophenet data check cifar100 --data-dir ~/data
    """
    from cophenet.data.preview import count_samples

    source = _source(name, options)
    if download and not _complete(source.requirements(data_dir)):
        _download(name, data_dir)
    needed = source.requirements(data_dir)
    if needed:
        _table(("", "file", "what"), [("ok" if n.found else "MISSING", n.path, n.note) for n in needed])
    else:
        typer.echo(f"data {name!r} needs no files")
    if not _complete(needed):
        where = "give --data-dir" if data_dir is None else f"put them into {data_dir}"
        raise FileNotFoundError(f"files of data {name!r} are missing: {where}")
    data = source.load(data_dir)
    typer.echo()
    rows: list[tuple[object, ...]] = []
    for count in count_samples(data):
        per_class = f"{count.least}" if count.least == count.most else f"{count.least} to {count.most}"
        shown = (
            (count.samples, count.classes, per_class) if not count.missing else ("none", "", count.missing)
        )
        rows.append((count.part, count.domain, *shown))
    _table(("part", "domain", "samples", "classes", "per class"), rows)
    typer.echo()
    _show(data.tree, 40)


@data_app.command("preview")
def data_preview(
    name: DataName,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="PNG", help="Picture to write.")],
    data_dir: DataDir = None,
    part: Annotated[PartName, typer.Option(help="Which part.")] = PartName.TRAIN,
    domain: Annotated[DomainName, typer.Option(help="Which domain.")] = DomainName.FULL,
    per_class: Annotated[int, typer.Option(min=1, help="Images of each class.")] = 3,
    options: DataOptions = None,
) -> None:
    """Write a sheet of images under the names of their groups and classes.

    Example: cophenet data preview cifar100 --data-dir ~/data -o sheet.png
    """
    from cophenet.data.preview import write_sheet

    samples = _source(name, options).load(data_dir).samples(part.value, domain.value)
    what = f"{name}, {part.value}, {domain.value}"
    title = f"{what}: {len(samples):,} samples of {samples.tree.num_classes} classes"
    write_sheet(samples, output, title=title, per_class=per_class)
    typer.echo(f"wrote {output}")


@tree_app.command("show")
def tree_show(
    file: TreeFile,
    lines: Annotated[int, typer.Option(min=0, help="Lines to draw at most; 0 for all.")] = 40,
) -> None:
    """Draw a tree.

    Example: cophenet tree show animals.yaml
    """
    from cophenet.tree import Hierarchy

    _show(Hierarchy.read(file), lines or None)


@tree_app.command("check")
def tree_check(file: TreeFile) -> None:
    """Tell whether a file is a tree, and what is unusual about it.

    Example: cophenet tree check animals.yaml
    """
    from cophenet.tree import Hierarchy

    tree = Hierarchy.read(file)
    typer.echo(f"{file}: {_sizes(tree)}")
    for remark in _remarks(tree):
        typer.echo(f"note: {remark}")


@tree_app.command("convert")
def tree_convert(
    file: TreeFile,
    output: Annotated[
        Path, typer.Argument(metavar="OUTPUT", help="File to write; its ending says the format.")
    ],
) -> None:
    """Write a tree in another format.

    Example: cophenet tree convert animals.yaml animals.nwk
    """
    from cophenet.tree import Hierarchy

    Hierarchy.read(file).write(output)
    typer.echo(f"wrote {output}")


def _source(name: str, options: Sequence[str] | None) -> DataSource:
    from cophenet.data.registry import create_source
    from cophenet.training.overrides import apply_overrides

    return create_source(name, **apply_overrides({}, options or ()))


def _below(cls: type[object]) -> Iterable[type[object]]:
    """All classes made from one."""
    for child in type.__subclasses__(cls):
        yield child
        yield from _below(child)


def _complete(needed: Iterable[Requirement]) -> bool:
    return all(requirement.found for requirement in needed)


def _download(name: str, data_dir: Path | None) -> None:
    from cophenet.data import download

    if data_dir is None:
        raise ValueError("--download needs --data-dir, the folder to put the files into")
    download(name, data_dir)


def _remarks(tree: Hierarchy) -> Iterable[str]:
    """What is allowed in a tree but often a mistake."""
    depths = tree.depths[tree.leaves]
    if tree.height == 1:
        yield "all classes lie below the root: distances are alike, so CPCC is undefined"
    if depths.min() < depths.max():
        yield f"classes lie at depths {depths.min()} to {depths.max()}"
    single = tree.num_nodes - tree.collapse().num_nodes
    if single:
        yield f"{single} of the inner nodes have a single child"
    if len(set(tree.edge_weights[1:].tolist())) > 1:
        yield f"edge weights range from {tree.edge_weights[1:].min():g} to {tree.edge_weights.max():g}"


def _sizes(tree: Hierarchy) -> str:
    levels = ", ".join(f"{name} {tree.cut(name)[0].num_classes}" for name in tree.level_names)
    return f"{tree.num_classes} classes, {tree.num_nodes} nodes, height {tree.height} ({levels})"


def _show(tree: Hierarchy, lines: int | None) -> None:
    typer.echo(_sizes(tree))
    typer.echo(tree.draw(lines))


def _table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Columns as wide as their longest cell, numbers to the right; the last one ends as it likes."""
    widths = [max(len(str(row[i])) for row in (header, *rows)) for i in range(len(header))]
    for row in (header, *rows):
        cells = [
            str(cell).rjust(width) if isinstance(cell, int) else str(cell).ljust(width)
            for cell, width in zip(row, widths, strict=True)
        ]
        typer.echo("  ".join(cells).rstrip())
