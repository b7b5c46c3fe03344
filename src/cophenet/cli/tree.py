"""The commands about tree files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cophenet.cli.options import LabelKind
from cophenet.cli.printing import print_tree, sizes

if TYPE_CHECKING:
    from cophenet.tree import Hierarchy

__all__ = ["app"]

app = typer.Typer(
    help="""Tree files: show, check, review and convert them.

    Example: cophenet tree show animals.yaml
    """,
    no_args_is_help=True,
)

TreeFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="Tree in JSON, YAML, CSV, TSV, edges or Newick.")
]
Header = Annotated[
    bool | None,
    typer.Option("--header/--no-header", help="Whether the first row of a CSV or TSV names the levels."),
]

Form = Annotated[
    str | None,
    typer.Option(
        "--format",
        help="What the file is, if its ending does not say it; for files of other programs google, parents, "
        "darwin-core, codes or skos.",
    ),
]


@app.command("show")
def show(
    file: TreeFile,
    header: Header = None,
    form: Form = None,
    lines: Annotated[int, typer.Option(min=0, help="Lines to draw at most; 0 for all.")] = 40,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Picture to write instead.")] = None,
) -> None:
    """Draw a tree.

    Example: cophenet tree show animals.yaml
    """
    from cophenet._common.files import write_text
    from cophenet.tree import Hierarchy

    if lines == 1:
        raise ValueError("--lines must be at least 2, or 0 for all, got 1")
    tree = Hierarchy.read(file, format=form, header=header)
    if svg is None:
        print_tree(tree, lines or None)
    else:
        write_text(svg, tree.to_svg(lines or None))
        typer.echo(f"wrote {svg}")


@app.command("check")
def check(file: TreeFile, header: Header = None, form: Form = None) -> None:
    """Check whether a file is a valid tree, and list what is unusual about it.

    Example: cophenet tree check animals.yaml
    """
    from cophenet.tree import Hierarchy

    tree = Hierarchy.read(file, format=form, header=header)
    typer.echo(f"{file}: {sizes(tree)}")
    for remark in _remarks(tree):
        typer.echo(f"note: {remark}")


@app.command("review")
def review(
    file: TreeFile,
    header: Header = None,
    form: Form = None,
    features: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Vectors with labels: which classes look misplaced by them?"),
    ] = None,
    labels: LabelKind = None,
) -> None:
    """List what is odd in a tree: single children, uneven depths, huge groups, nearly identical names.

    With vectors of samples, also list classes that are more similar to another group than to their own.

    Example: cophenet tree review animals.yaml

    Example: cophenet tree review animals.yaml --features vectors.npz
    """
    from cophenet.tree import Hierarchy

    if labels is not None and features is None:
        raise ValueError(f"--labels is about the labels of vectors, got {labels!r} without --features")
    tree = Hierarchy.read(file, format=form, header=header)
    for sentence in tree.review() or ["Nothing is odd in this tree."]:
        typer.echo(sentence)
    if features is not None:
        for sentence in _misplaced(tree, features, labels):
            typer.echo(sentence)


def _misplaced(tree: Hierarchy, features: Path, labels: str | None) -> Iterable[str]:
    from cophenet.estimator.vector_files import label_names
    from cophenet.tree.review import misplaced_classes
    from cophenet.vectors import read_vectors

    vectors, texts = read_vectors(features)
    names = label_names(features, texts, tree, labels)
    places = {name: tree.index(name) for name in sorted(set(names))}
    found = misplaced_classes(vectors, [places[name] for name in names], tree)
    if not found:
        yield "By these vectors no class looks misplaced."
        return
    yield (
        f"By these vectors {len(found)} classes look misplaced:"
        if len(found) > 1
        else "One class looks misplaced:"
    )
    for one in found:
        yield f"  {one.sentence}"


@app.command("convert")
def convert(
    file: TreeFile,
    output: Annotated[
        Path, typer.Argument(metavar="OUTPUT", help="File to write; its ending says the format.")
    ],
    header: Header = None,
    form: Form = None,
) -> None:
    """Write a tree in another format.

    Example: cophenet tree convert animals.yaml animals.nwk
    """
    from cophenet.tree import Hierarchy

    Hierarchy.read(file, format=form, header=header).write(output)
    typer.echo(f"wrote {output}")


def _remarks(tree: Hierarchy) -> Iterable[str]:
    """Properties that are valid in a tree but often a mistake."""
    depths = tree.depths[tree.leaves]
    weights = set(tree.edge_weights[1:].tolist())
    if tree.height == 1 and len(weights) == 1:
        yield "all classes lie right below the root: their distances are alike, so CPCC is undefined"
    if depths.min() < depths.max():
        yield f"classes lie at depths {depths.min()} to {depths.max()}"
    single = tree.num_nodes - tree.collapse().num_nodes
    if single:
        yield f"{single} of the inner nodes have a single child"
    if len(weights) > 1:
        yield f"edge weights range from {min(weights):g} to {max(weights):g}"
