"""The commands on files of vectors: embed, predict, search."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cophenet.cli.options import LabelKind, refuse_given
from cophenet.cli.printing import print_table

if TYPE_CHECKING:
    from cophenet.estimator import HierarchicalEmbedder, SearchResult

__all__ = ["embed", "predict", "search"]

Vectors = Annotated[Path, typer.Argument(metavar="FILE", help="Vectors: {formats}.")]
Model = Annotated[Path, typer.Option(help="Folder of a saved model, or of a run.")]
Engine = Annotated[
    str, typer.Option(help="Who works on several files: this process (local), or the workers of Ray (ray).")
]
Trust = Annotated[bool, typer.Option("--trust", help="Let --model run code of your own that it names.")]


def embed(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="Vectors: {formats}. Several files need --model.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="File to write; its ending says the format. Of several files: a folder."
        ),
    ] = None,
    tree: Annotated[Path | None, typer.Option(help="Tree file; without it a tree is inferred.")] = None,
    model: Annotated[
        Path | None, typer.Option(help="Use this saved model or run instead of fitting one.")
    ] = None,
    save: Annotated[Path | None, typer.Option(help="Folder to keep the fitted model in.")] = None,
    labels: LabelKind = None,
    tree_strength: Annotated[
        str | None,
        typer.Option(help="How much the tree decides: auto, or from 0 (not at all) to 1; auto unless given."),
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(help="auto, or to train an adapter the name of an objective; auto unless given."),
    ] = None,
    compare: Annotated[
        bool,
        typer.Option("--compare", help="What does the tree give? Compare with other methods on a quarter."),
    ] = False,
    curve: Annotated[
        Path | None,
        typer.Option(help="Picture of errors against how specific answers are: svg, png or pdf."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Decides all that is random; 0 unless given.")
    ] = None,
    engine: Engine = "local",
    trust: Trust = False,
) -> None:
    """Fit networks on labelled vectors, or use saved ones, and write the reshaped vectors.

    Then prints scores: accuracy on samples that a network has not seen, and CPCC before and after.

    Example: cophenet embed features.npz --tree animals.yaml --save model -o reshaped.npz
    """
    from cophenet.estimator.vector_files import draw_curve, embed_one, fit_file, load_model

    fitting: dict[str, Any] = {"--tree-strength": tree_strength, "--objective": objective}
    if model is None:
        refuse_given({"--trust": trust}, "is for --model: nothing else names code")
    else:
        fitting |= {"--tree": tree, "--save": save, "--seed": seed, "--compare": compare}
        refuse_given(fitting, "is for fitting: --model uses a model as it is")
    if output is None and (save is not None or model is not None or curve is not None or not compare):
        raise ValueError("-o says where to write the reshaped vectors; only --compare goes without it")
    if len(files) > 1 or engine != "local":
        if model is None or output is None or compare or curve is not None:
            raise ValueError("several files, and --engine, are for --model and -o FOLDER alone")
        refuse_given({"--labels": labels}, "is for the scores of one file: of several there are none")
        rows = sum(_each_file(partial(embed_one, model.resolve(), trust), files, output, engine))
        typer.echo(f"wrote {output}: {len(files)} files, {rows} vectors")
        return
    if output is None:
        refuse_given(fitting, "is for what -o writes: the methods of --compare have their own settings")
    if compare:
        _print_comparison(files[0], tree, labels, seed or 0)
    if output is None:
        return
    _check_places(output, save, curve)
    if model is None:
        strength = None if tree_strength is None else _strength(tree_strength)
        given = {"objective": objective, "tree_strength": strength, "random_state": seed or 0}
        options = {name: value for name, value in given.items() if value is not None}
        embedder = fit_file(files[0], output, tree, labels, verbose=sys.stderr.isatty(), **options)
    else:
        embedder = load_model(model, trust=trust)
    if save is not None:
        embedder.save(save)
    _write_embedded(embedder, files[0], output, labels, save, fitted_here=model is None)
    if curve is not None:
        draw_curve(embedder, curve)
        typer.echo(f"wrote {curve}: errors of specific-if-confident against how specific it is")


def _check_places(output: Path, save: Path | None, curve: Path | None) -> None:
    """Raise if an output could not be written, before anything is computed."""
    from cophenet.estimator.decision_curve import check_picture
    from cophenet.estimator.saving import check_place
    from cophenet.vectors import check_output

    if save is not None:
        check_place(save)
    check_output(output)
    if curve is not None:
        check_picture(curve)


def _write_embedded(
    embedder: HierarchicalEmbedder,
    file: Path,
    output: Path,
    labels: str | None,
    save: Path | None,
    *,
    fitted_here: bool,
) -> None:
    """Write the reshaped vectors of one file, and print their scores."""
    from cophenet.estimator.scores import FileScores
    from cophenet.estimator.vector_files import embed_file

    scores = FileScores(embedder, fitted_here=fitted_here)
    rows = embed_file(embedder, file, output, scores, labels)
    saved = f", model in {save}" if save is not None else ""
    typer.echo(f"wrote {output}: {rows} vectors of {embedder._n_features_out} numbers{saved}")
    if found := scores.rows():
        print_table(("metric", "of", "value"), found)


def _each_file(work: Callable[[Path, Path], Any], files: list[Path], folder: Path, engine: str) -> list[Any]:
    """Call a function with each file and its output, which has the same name in a folder; return results."""
    from cophenet._common.checks import check_choice
    from cophenet.estimator.vector_files import outputs_in

    check_choice("--engine", engine, ("local", "ray"))
    if engine == "ray":
        from cophenet.integrations.ray import map_files

        return map_files(work, outputs_in(folder, files))
    return [work(*pair) for pair in outputs_in(folder, files)]


def _print_comparison(file: Path, tree: Path | None, labels: str | None, seed: int) -> None:
    """Print a row of scores for each method, in percent except for the tree distance."""
    from cophenet._common.progress import Progress
    from cophenet.estimator.comparison import METHODS
    from cophenet.estimator.vector_files import compare_file

    if tree is None:
        raise ValueError("--compare says what a tree gives; give --tree")
    rows, header = [], ["method"]
    with Progress("methods", len(METHODS)) as bar:
        for name, found in compare_file(file, tree, labels, seed):
            header = ["method", *found]
            rows.append([name, *(score.text for score in found.values())])
            bar.update(len(rows), name)
    print_table(header, rows)


def _strength(text: str) -> float | str:
    """Convert to a number if possible; other text is checked by the estimator."""
    try:
        return float(text)
    except ValueError:
        return text


def predict(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="Vectors: {formats}. For a run on images: image files, and folders of them.",
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="File to write; its ending says the format. Of several files of vectors: a folder.",
        ),
    ],
    model: Model,
    decision: Annotated[str, typer.Option(help="argmax, expected-cost or specific-if-confident.")] = "argmax",
    error_target: Annotated[
        float | None, typer.Option(help="Share of wrong answers for specific-if-confident.")
    ] = None,
    engine: Engine = "local",
    trust: Trust = False,
) -> None:
    """Write the answer for each vector or image: its name, path, node of the model's tree, and probability.

    Example: cophenet predict new.npy --model model -o answers.csv

    Example: cophenet predict photos/ one.jpg --model runs/folder-fastft -o answers.csv
    """
    from cophenet.estimator.image_answers import has_images, predict_images
    from cophenet.estimator.vector_files import Answered, load_model, load_once, predict_file, predict_one
    from cophenet.vectors import check_output

    images = any(map(has_images, files))
    if engine != "local" and images:
        raise ValueError("--engine is for files of vectors; images are answered by this process")
    if not images and (len(files) > 1 or engine != "local"):
        work = partial(predict_one, model.resolve(), trust, decision, error_target)
        counts = _each_file(work, files, output, engine)
        answered = Answered(load_once(model.resolve(), trust), *map(sum, zip(*counts, strict=True)))
    elif not images:
        check_output(output)
        answered = predict_file(load_model(model, trust=trust), files[0], output, decision, error_target)
    else:
        check_output(output)
        answered = predict_images(load_model(model, trust=trust), files, output, decision, error_target)
    typer.echo(f"wrote {output}: {answered.rows} answers")
    if decision == "specific-if-confident" and answered.rows:
        for line in answered.worth():
            typer.echo(line)


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
    backend: Annotated[
        str | None, typer.Option(help="Who searches in --index: exact (unless given), faiss or hnswlib.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write instead of printing.")
    ] = None,
    trust: Trust = False,
) -> None:
    """Find the most similar vectors for each vector of a file, grouped by the tree.

    Example: cophenet search queries.npy --model model --index gallery.npz -k 5 --level kind
    """
    from cophenet.estimator.vector_files import index_file, load_model, search_file, write_answers
    from cophenet.vectors import check_output

    if index is None:
        own = "is for --index: the index of the model is searched as it was made"
        refuse_given({"--labels": labels, "--backend": backend}, own)
    if output is not None:
        check_output(output)
    embedder = load_model(model, trust=trust)
    if index is not None:
        folder = None if output is None else output.parent
        index_file(embedder, index, labels, "exact" if backend is None else backend, folder)
    results = search_file(embedder, file, k, level)
    if output is None:
        _print_groups(results)
    else:
        typer.echo(f"wrote {output}: {write_answers(output, results, k)} queries, {k} answers each")


def _print_groups(results: Iterable[SearchResult]) -> None:
    queries = (groups for result in results for groups in result)
    for query, groups in enumerate(queries):
        typer.echo(f"query {query}")
        for group in groups:
            hits = ", ".join(
                f"{row} ({similarity:.3f})"
                for row, similarity in zip(group.rows, group.similarities, strict=True)
            )
            typer.echo(f"  {'/'.join(group.path) or group.name}: {hits}")
