"""The commands about data sets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from cophenet.cli.printing import print_table, print_tree

if TYPE_CHECKING:
    from cophenet.data.dataset import DataSet, SampleCounts
    from cophenet.data.registry import DataSource

__all__ = ["app", "complete_names"]

_SHOWN = 5

app = typer.Typer(
    help="""Data sets: list them, check their files, look at them.

    Example: cophenet data check folder --data-dir photos
    """,
    no_args_is_help=True,
)


def complete_names(incomplete: str) -> list[str]:
    """Shell completion of data set names, listed without loading torch."""
    from cophenet._common.registry import declared_names

    names = declared_names("cophenet.data", "cophenet.data")
    return [name for name in names if name.startswith(incomplete)]


DataName = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of the data set.", autocompletion=complete_names)
]
DataDir = Annotated[
    Path | None, typer.Option("--data-dir", metavar="DIR", help="Folder that holds its files.")
]
DataOptions = Annotated[
    list[str] | None, typer.Option("--set", metavar="OPTION=VALUE", help="An option of the data set.")
]


@app.command("list")
def list_sources() -> None:
    """List the data sets.

    Example: cophenet data list
    """
    from cophenet.data import source_summaries

    print_table(("data", "about"), list(source_summaries().items()))


@app.command("check")
def check(
    name: DataName,
    data_dir: DataDir = None,
    download: Annotated[bool, typer.Option("--download", help="First download what is missing.")] = False,
    deep: Annotated[bool, typer.Option("--deep", help="Also decode every image file.")] = False,
    options: DataOptions = None,
) -> None:
    """Show which files of a data set are there and, if all are, the sizes and the tree of the data.

    Options are those of the recipe with the name of the data set, as train has them. Every image file is
    opened, and those that cannot be read are an error.

    Example: cophenet data check cifar100 --data-dir ~/data
    """
    from cophenet.data import download as fetch
    from cophenet.data.dataset import count_samples

    source = _source(name, options, like_train=True)
    needed = source.requirements(data_dir)
    if download and not all(file.found for file in needed):
        if data_dir is None:
            raise ValueError("--download needs --data-dir, the folder to put the files into")
        fetch(name, data_dir)
        needed = source.requirements(data_dir)
    if needed:
        print_table(
            ("", "file", "what"), [("ok" if n.found else "MISSING", str(n.path), n.note) for n in needed]
        )
    else:
        typer.echo(f"data {name!r} needs no files")
    if not all(file.found for file in needed):
        where = "give --data-dir" if data_dir is None else f"put them into {data_dir}"
        raise FileNotFoundError(f"files of data {name!r} are missing: {where}")
    data = source.load(data_dir)
    typer.echo()
    print_table(("part", "domain", "samples", "classes", "per class"), [_row(n) for n in count_samples(data)])
    typer.echo()
    print_tree(data.tree, 40)
    _check_files(data, deep)


@app.command("preview")
def preview(
    name: DataName,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="PNG", help="Picture to write.")],
    data_dir: DataDir = None,
    part: Annotated[Literal["train", "test"], typer.Option(help="Which part.")] = "train",
    domain: Annotated[Literal["full", "source", "target"], typer.Option(help="Which domain.")] = "full",
    per_class: Annotated[int, typer.Option(min=1, help="Images of each class.")] = 3,
    options: DataOptions = None,
) -> None:
    """Write a sheet of images under the names of their groups and classes.

    Example: cophenet data preview cifar100 --data-dir ~/data -o sheet.png
    """
    from cophenet.data.preview import write_sheet

    samples = _source(name, options).load(data_dir).samples(part, domain)
    title = f"{name}, {part}, {domain}: {len(samples):,} samples of {samples.tree.num_classes} classes"
    write_sheet(samples, output, title=title, per_class=per_class)
    typer.echo(f"wrote {output}")


def _source(name: str, options: Sequence[str] | None, *, like_train: bool = False) -> DataSource:
    from cophenet.data.registry import create_source
    from cophenet.recipes.load import apply_overrides, load_recipe, recipe_names

    given: dict[str, Any] = {}
    if like_train and name in recipe_names():
        data = load_recipe(name).data
        given = dict(data.options) if data.name == name else {}
    return create_source(name, **apply_overrides(given, options or ()))


def _row(count: SampleCounts) -> tuple[str | int, ...]:
    if count.missing:
        return count.part, count.domain, "none", "", count.missing
    per_class = f"{count.least}" if count.least == count.most else f"{count.least} to {count.most}"
    return count.part, count.domain, count.samples, count.classes, per_class


def _check_files(data: DataSet, deep: bool) -> None:
    """Print which image files are broken or skipped, and raise if any is broken; only for image folders."""
    from cophenet.data.image_folders import check_files

    report = check_files(data, deep=deep)
    if report is None:
        return
    broken = len(report.broken)
    typer.echo(f"\n{report.images} images {'decoded' if deep else 'opened'}, {broken} broken")
    for ending, count in report.passed_over.items():
        kind = f"{ending} file" if ending else "file without ending"
        typer.echo(f"{count} {kind if count == 1 else kind.replace('file', 'files')} passed over")
    for problem in report.broken[:_SHOWN]:
        typer.echo(problem)
    if broken:
        more = f" (the first {_SHOWN} are listed)" if broken > _SHOWN else ""
        raise OSError(
            f"{broken} of {report.images} images of data {data.name!r} cannot be read{more}; "
            "replace or remove them"
        )
