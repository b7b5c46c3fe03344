"""The commands on files of vectors: embed, predict, search."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from cophenet.estimator import HierarchicalEmbedder, SearchResult
    from cophenet.tree import Hierarchy
    from cophenet.vectors.writing import TableWriter

__all__ = ["embed", "predict", "search"]

Vectors = Annotated[
    Path, typer.Argument(metavar="FILE", help="Vectors: npz, npy, safetensors, parquet or CSV.")
]
Model = Annotated[Path, typer.Option(help="Folder of a saved model, or of a run.")]
LabelKind = Annotated[
    str | None,
    typer.Option(
        "--labels",
        help="What numbers as labels are: names of the tree, or positions in its classes. Needed only where "
        "they may be both.",
    ),
]
Output = Annotated[Path, typer.Option("--output", "-o", help="File to write; its ending says the format.")]


def embed(
    file: Vectors,
    output: Output,
    tree: Annotated[Path | None, typer.Option(help="Tree file; without it a tree is inferred.")] = None,
    model: Annotated[
        Path | None, typer.Option(help="Use this saved model or run instead of fitting one.")
    ] = None,
    save: Annotated[Path | None, typer.Option(help="Folder to keep the fitted model in.")] = None,
    labels: LabelKind = None,
    objective: Annotated[str, typer.Option(help="What to train by.")] = "fastft",
    seed: Annotated[int, typer.Option(min=0, help="Decides all that is random.")] = 0,
) -> None:
    """Fit an adapter on labelled vectors, or take a saved one, and write the reshaped vectors.

    Example: cophenet embed features.npz --tree animals.yaml --save model -o reshaped.npz
    """
    import numpy as np

    from cophenet.estimator.storage import check_place
    from cophenet.vectors.writing import TableWriter

    if model is not None and any(given is not None for given in (tree, save, labels)):
        raise ValueError("--model uses a model as it is; leave out --tree, --save and --labels")
    if save is not None:
        check_place(save)
    with TableWriter(output) as table:
        embedder = _fit(file, tree, labels, objective, seed, table) if model is None else _load(model)
        if save is not None:
            embedder.save(save)
        rows = 0
        for features, texts in _chunks(file):
            columns: dict[str, Any] = {"features": embedder.transform(features)}
            if texts is not None:
                columns["labels"] = np.array(texts)
            table.add(columns)
            rows += len(features)
    kept = f", model in {save}" if save is not None else ""
    typer.echo(f"wrote {output}: {rows} vectors of {columns['features'].shape[1]} numbers{kept}")


def predict(
    file: Vectors,
    output: Output,
    model: Model,
    decision: Annotated[str, typer.Option(help="argmax, expected-cost or specific-if-confident.")] = "argmax",
    error_target: Annotated[
        float | None, typer.Option(help="Share of wrong answers for specific-if-confident.")
    ] = None,
) -> None:
    """Write the answer for each vector: its name, path, node of the model's tree, and probability.

    Example: cophenet predict new.npy --model model -o answers.csv
    """
    import numpy as np

    from cophenet.vectors.writing import TableWriter

    rows = 0
    with TableWriter(output, numbered=("prediction", "path")) as table:
        embedder = _load(model)
        for features, _ in _chunks(file):
            names = embedder.predict(features, decision, error_target)
            paths = embedder.predict_path(features, decision, error_target)
            nodes = np.array([embedder.tree_.node(path) for path in paths], dtype=np.int64)
            table.add(
                {
                    "prediction": np.array([str(name) for name in names]),
                    "path": np.array(["/".join(path) for path in paths]),
                    "node": nodes,
                    "probability": embedder.node_probability(features, nodes),
                }
            )
            rows += len(features)
    typer.echo(f"wrote {output}: {rows} answers")


def search(
    file: Vectors,
    model: Model,
    index: Annotated[
        Path | None, typer.Option(help="Vectors to search in; without it the index of the model.")
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Answers per query.")] = 10,
    labels: LabelKind = None,
    level: Annotated[
        str | None, typer.Option(help="Level of the tree to group by: its name, or its depth from 1.")
    ] = None,
    backend: Annotated[str, typer.Option(help="exact, faiss or hnswlib.")] = "exact",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write instead of printing.")
    ] = None,
) -> None:
    """Find the most similar vectors for each vector of a file, grouped by the tree.

    Example: cophenet search queries.npy --model model --index gallery.npz -k 5 --level kind
    """
    from contextlib import ExitStack

    from cophenet.vectors.writing import TableWriter

    start = 0
    with ExitStack() as stack:
        table = None if output is None else stack.enter_context(TableWriter(output, numbered=("group",)))
        embedder = _load(model)
        if index is not None:
            _index(embedder, index, labels, backend)
        depth = _level(embedder, level)
        for features, _ in _chunks(file):
            found = embedder.search(features, k, depth)
            if table is None:
                _print_groups(found, start)
            else:
                table.add(_long_form(found, start, k))
            start += len(features)
    if output is not None:
        typer.echo(f"wrote {output}: {start} queries, {k} answers each")


def _chunks(file: Path) -> Iterator[Any]:
    """Parts of a file, whose errors name the file."""
    from cophenet.vectors.parts import read_chunks

    return read_chunks(file)


def _names(file: Path, labels: list[str], tree: Hierarchy, kind: str | None) -> list[str]:
    """Labels of a file as names of the tree; the file of a run, which has logits, holds positions."""
    from cophenet._common.checks import check_choice
    from cophenet.estimator.labels import as_names
    from cophenet.vectors.parts import label_source

    if kind is not None:
        check_choice("--labels", kind, ("names", "positions"))
    try:
        return as_names(labels, tree, kind, *label_source(file))
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error


def _level(embedder: HierarchicalEmbedder, level: str | None) -> int | str | None:
    """The name of a level, or a depth if it is a number that is no name."""
    if level is not None and level not in embedder.tree_.level_names and level.isdecimal():
        return int(level)
    return level


def _fit(
    file: Path, tree: Path | None, kind: str | None, objective: str, seed: int, table: TableWriter
) -> HierarchicalEmbedder:
    import sys

    import numpy as np

    from cophenet.estimator import HierarchicalEmbedder
    from cophenet.tree import Hierarchy
    from cophenet.vectors.parts import spool

    chosen = None if tree is None else Hierarchy.read(tree)
    if chosen is None and kind is not None:
        raise ValueError("--labels is about the names of a tree; give --tree")
    rows, labels = spool(file, table.path.parent)
    if labels is None:
        raise ValueError(f"{file}: has no labels to fit on; give --model to use a saved model")
    table.check({"labels": np.array(labels)})  # before the work, not after it
    names = labels if chosen is None else _names(file, labels, chosen, kind)
    shown = sys.stderr.isatty()
    return HierarchicalEmbedder(chosen, objective, random_state=seed, verbose=shown).fit(
        rows, np.array(names)
    )


def _load(model: Path) -> HierarchicalEmbedder:
    from cophenet.estimator import HierarchicalEmbedder

    if (model / "recipe.yaml").is_file():
        return HierarchicalEmbedder.from_run(model)
    return HierarchicalEmbedder.load(model)


def _index(embedder: HierarchicalEmbedder, file: Path, kind: str | None, backend: str) -> None:
    """Index a file; its labels group the answers, or where it has none what is predicted."""
    import numpy as np

    from cophenet.vectors.parts import spool

    rows, labels = spool(file)
    tree = embedder.given_tree_
    if tree is None and kind is not None:
        raise ValueError("--labels is about the names of a tree, but the model has inferred its own")
    names = labels if labels is None or tree is None else _names(file, labels, tree, kind)
    embedder.build_index(rows, None if names is None else np.array(names), backend=backend)


def _print_groups(found: SearchResult, start: int) -> None:
    for query, groups in enumerate(found, start=start):
        typer.echo(f"query {query}")
        for group in groups:
            hits = ", ".join(
                f"{row} ({similarity:.3f})"
                for row, similarity in zip(group.rows, group.similarities, strict=True)
            )
            typer.echo(f"  {'/'.join(group.path) or group.name}: {hits}")


def _long_form(found: SearchResult, start: int, k: int) -> dict[str, Any]:
    """One row per answer."""
    import numpy as np

    nodes = found.nodes.ravel()
    return {
        "row": found.rows.ravel(),
        "query": np.repeat(np.arange(start, start + len(found)), k),
        "rank": np.tile(np.arange(1, k + 1), len(found)),
        "similarity": found.similarities.ravel(),
        "node": nodes,
        "group": np.array([str(found.names[node]) for node in nodes]),
    }
