"""The estimator on files of vectors, which may be larger than memory: fit, embed, predict, index, search.

Example:
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> rows = np.repeat([[0.0, 1.0], [1.0, 0.0], [5.0, 5.0]], 20, axis=0)
    >>> names = np.repeat(["cat", "dog", "bus"], 20)
    >>> np.savez(folder / "train.npz", features=rows, labels=names)
    >>> embedder = fit_file(folder / "train.npz", folder / "out.csv", None, None, max_iter=2, random_state=0)
    >>> embed_file(embedder, folder / "train.npz", folder / "out.csv")
    60
    >>> predict_file(embedder, folder / "train.npz", folder / "answers.npz", "argmax", None).rows
    60
    >>> index_file(embedder, folder / "train.npz", None, "exact")
    >>> write_answers(folder / "best.csv", search_file(embedder, folder / "train.npz", 2, None), 2)
    60
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import numpy as np

from cophenet._common.checks import check_choice
from cophenet.estimator.comparison import Score, compare_methods
from cophenet.estimator.embedder import HierarchicalEmbedder
from cophenet.estimator.familiarity import UNLIKE
from cophenet.estimator.labels import encode, nodes_by_name
from cophenet.estimator.scores import FileScores
from cophenet.estimator.search import SearchResult
from cophenet.tree import Hierarchy
from cophenet.vectors import check_columns, label_facts, map_rows, read_parts, write_vectors

__all__ = [
    "Answered",
    "answer_columns",
    "compare_file",
    "draw_curve",
    "embed_file",
    "embed_one",
    "fit_file",
    "index_file",
    "label_names",
    "load_model",
    "load_once",
    "outputs_in",
    "predict_file",
    "predict_one",
    "search_file",
    "write_answers",
]


def load_model(folder: Path, *, trust: bool = False) -> HierarchicalEmbedder:
    """Load the estimator from a saved model or a run.

    Args:
        folder: The folder.
        trust: Whether to run user code that a run names; a saved model names none.
    """
    if (folder / "recipe.yaml").is_file():
        return HierarchicalEmbedder.from_run(folder, trust=trust)
    return HierarchicalEmbedder.load(folder)


def outputs_in(folder: Path, files: Sequence[Path]) -> list[tuple[Path, Path]]:
    """Pair each file with an output of the same name in a folder, which is created.

    Raises:
        ValueError: If two files have the same name, or an output would replace its input.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> outputs_in(folder, [Path("one/a.npz"), Path("two/a.npz")])
        Traceback (most recent call last):
        ValueError: one/a.npz and two/a.npz have one name, under which both would be written
    """
    first: dict[str, Path] = {}
    for file in files:
        if first.setdefault(file.name, file) is not file:
            same = first[file.name]
            raise ValueError(f"{same} and {file} have one name, under which both would be written")
    for file in files:
        if not file.is_file():
            raise FileNotFoundError(f"{file} not found")
        if file.parent.resolve() == folder.resolve():
            raise ValueError(f"{file} would be replaced by what is made of it: give another folder")
    folder.mkdir(exist_ok=True)
    return [(file, folder / file.name) for file in files]


@lru_cache(maxsize=1)
def load_once(folder: Path, trust: bool) -> HierarchicalEmbedder:
    """`load_model`, cached for all files that a process works on."""
    return load_model(folder, trust=trust)


def embed_one(model: Path, trust: bool, file: Path, output: Path) -> int:
    """`embed_file` for one of many files; the model is loaded once per process."""
    return embed_file(load_once(model, trust), file, output)


def predict_one(
    model: Path, trust: bool, decision: str, error_target: float | None, file: Path, output: Path
) -> tuple[int, int, int]:
    """`predict_file` for one of many files; returns the counts of `Answered`."""
    answered = predict_file(load_once(model, trust), file, output, decision, error_target)
    return answered.rows, answered.roots, answered.unlike


def fit_file(
    file: Path, output: Path, tree: Path | None, labels: str | None, **parameters: Any
) -> HierarchicalEmbedder:
    """Fit an estimator on the vectors and labels of a file.

    Args:
        file: The vectors.
        output: The file that `embed_file` will write; raises before the training if it cannot hold the
            labels.
        tree: Tree file; None to infer a tree.
        labels: How to read numbers as labels: as "names", as "positions", or None to detect it.
        **parameters: Parameters of the estimator.

    Raises:
        ValueError: If the file has no labels, or they do not fit the tree.
    """
    chosen = None if tree is None else Hierarchy.read(tree)
    if chosen is None and labels is not None:
        raise ValueError("--labels is about the names of a tree; give --tree")
    rows, texts = map_rows(file, output.parent)
    if texts is None:
        raise ValueError(f"{file}: has no labels to fit on; give --model to use a saved model")
    check_columns(output, {"labels": np.array(texts)})  # before the training, not after it
    names = texts if chosen is None else label_names(file, texts, chosen, labels)
    if len(set(names)) < 2:
        raise ValueError(f"{file}: has labels of one class only, {names[0]!r}: two are needed to fit")
    return HierarchicalEmbedder(chosen, **parameters).fit(rows, np.array(names))


def embed_file(
    embedder: HierarchicalEmbedder,
    file: Path,
    output: Path,
    scores: FileScores | None = None,
    labels: str | None = None,
) -> int:
    """Write the reshaped vectors of a file, with its labels if it has any.

    Args:
        embedder: The estimator.
        file: The vectors.
        output: The file to write.
        scores: Accumulates scores of the vectors, if their labels are known.
        labels: How to read numbers as labels: as "names", as "positions", or None to detect it.

    Returns:
        Number of vectors.
    """

    def parts() -> Iterator[dict[str, Any]]:
        for features, texts in read_parts(file):
            vectors = embedder.transform(features)
            names = None if scores is None else _names_for(embedder, file, texts, labels)
            if scores is not None and names is not None:
                scores.add(features, vectors, names)
            yield {"features": vectors, **({} if texts is None else {"labels": np.array(texts)})}

    return write_vectors(output, parts())


def compare_file(
    file: Path, tree: Path, labels: str | None, seed: int
) -> Iterator[tuple[str, dict[str, Score]]]:
    """Yield name and scores of every method of `compare_methods` on the vectors of a file.

    Raises:
        ValueError: If the file has no labels, or a label that is not a class.
    """
    rows, texts = map_rows(file)
    if texts is None:
        raise ValueError(f"{file}: has no labels to compare by")
    chosen = Hierarchy.read(tree)
    encoded = encode(np.array(label_names(file, texts, chosen, labels)), chosen, "names")
    if encoded.tree is None or len(encoded.inner):
        raise ValueError(
            f"{file}: methods are compared on classes, but some labels are inner nodes of the tree"
        )
    yield from compare_methods(np.asarray(rows), encoded.targets, encoded.tree, seed)


@dataclass
class Answered:
    """Counts of predictions.

    Attributes:
        rows: Number of predictions.
        roots: Number of predictions that are the root.
        unlike: Number of inputs unlike the training data; counted for "specific-if-confident" only.
    """

    embedder: HierarchicalEmbedder
    rows: int = 0
    roots: int = 0
    unlike: int = 0

    def worth(self) -> Iterator[str]:
        """Sentences about the reliability of "specific-if-confident" predictions; warns of a shift."""
        basis = self.embedder._basis()
        bare = basis["uncovered_classes"]
        rest = f"; {len(bare)} classes have none of them: {', '.join(map(str, bare[:5]))}" if bare else ""
        yield f"the error target rests on {basis['calibration_samples']} samples{rest}"
        yield f"{self.roots / self.rows:.1%} of the answers are the root, which says nothing"
        known = self.embedder.familiarity_
        unlike = None if known is None else known.judge(self.unlike, self.rows)
        if unlike is None:
            yield "whether the inputs are like the training data is not known"
        elif unlike.is_shift:
            warnings.warn(unlike.message(), UserWarning, stacklevel=2)
        else:
            yield f"{unlike.share:.1%} of the inputs are unlike the training data, as {UNLIKE:.0%} always are"


def predict_file(
    embedder: HierarchicalEmbedder, file: Path, output: Path, decision: str, error_target: float | None
) -> Answered:
    """Write the prediction for each vector of a file: its name, path, tree node and probability.

    Returns:
        The counts of the predictions.
    """
    answered = Answered(embedder)
    rows = (features for features, _ in read_parts(file))
    parts = (answer_columns(embedder, features, decision, error_target, answered) for features in rows)
    write_vectors(output, parts, numbered=("prediction", "path"))
    return answered


def draw_curve(embedder: HierarchicalEmbedder, picture: Path) -> None:
    """Draw the error rate against how specific predictions are, on the calibration samples.

    Raises:
        ValueError: If the model has no calibration samples.
    """
    if embedder.decision_curve_ is None:
        raise ValueError("--curve needs samples that calibrate decisions, and the model has none")
    embedder.decision_curve_.draw(picture, float(embedder.error_target))


def answer_columns(
    embedder: HierarchicalEmbedder,
    inputs: Any,
    decision: str,
    error_target: float | None,
    answered: Answered,
) -> dict[str, Any]:
    """Columns with the predictions for some inputs, which are added to the counts."""
    rows = embedder._rows(inputs)
    nodes, probability = embedder._answer(rows, decision, error_target)
    answered.rows += len(nodes)
    answered.roots += int((nodes == 0).sum())
    if embedder.familiarity_ is not None and decision == "specific-if-confident":
        answered.unlike += embedder.familiarity_.count(rows)
    paths = {node: "/".join(embedder.tree_.path(node)) for node in np.unique(nodes).tolist()}
    return {
        "prediction": np.array([str(name) for name in embedder._names(nodes, decision)]),
        "path": np.array([paths[node] for node in nodes.tolist()]),
        "node": nodes,
        "probability": probability,
    }


def index_file(
    embedder: HierarchicalEmbedder, file: Path, labels: str | None, backend: str, folder: Path | None = None
) -> None:
    """Build a search index of the vectors of a file, grouped by its labels, or by predictions without labels.

    Args:
        embedder: The estimator.
        file: The vectors.
        labels: How to read numbers as labels: as "names", as "positions", or None to detect it.
        backend: "exact", "faiss" or "hnswlib".
        folder: Folder of the index, an unnamed temporary file; None for the folder of `file` if it is
            writable, else the system's temporary folder.
    """
    if folder is None:
        folder = file.parent if os.access(file.parent, os.W_OK) else Path(gettempdir())
    rows, texts = map_rows(file, folder)
    names = _names_for(embedder, file, texts, labels)
    embedder.build_index(rows, None if names is None else np.array(names), backend=backend, folder=folder)


def search_file(
    embedder: HierarchicalEmbedder, file: Path, k: int, level: str | None
) -> Iterator[SearchResult]:
    """Yield search results for the vectors of a file, in blocks.

    Args:
        embedder: The estimator, which has an index.
        file: The queries.
        k: Results per query.
        level: Name of a level; or its depth, if it is a number that is not a name.
    """
    depth = int(level) if level and level not in embedder.tree_.level_names and level.isdecimal() else level
    for features, _ in read_parts(file):
        yield embedder.search(features, k, depth)


def write_answers(output: Path, results: Iterator[SearchResult], k: int) -> int:
    """Write search results, one row for each of the k results of a query.

    Returns:
        Number of queries.
    """

    def parts() -> Iterator[dict[str, Any]]:
        start = 0
        for result in results:
            nodes, stop = result.nodes.ravel(), start + len(result)
            yield {
                "row": result.rows.ravel(),
                "query": np.repeat(np.arange(start, stop), k),
                "rank": np.tile(np.arange(1, k + 1), len(result)),
                "similarity": result.similarities.ravel(),
                "node": nodes,
                "group": np.array([str(result.names[node]) for node in nodes]),
            }
            start = stop

    return write_vectors(output, parts(), numbered=("group",)) // k


def _names_for(
    embedder: HierarchicalEmbedder, file: Path, labels: list[str] | None, kind: str | None
) -> list[str] | None:
    """Labels of a file as the estimator expects them; None if the file has none."""
    tree = embedder.given_tree_
    if kind is not None and tree is None:
        raise ValueError("--labels is about the names of a tree, but the model has inferred its own")
    if kind is not None and labels is None:
        raise ValueError(f"--labels {kind} is about the labels of a file, but {file} has none")
    return labels if labels is None or tree is None else label_names(file, labels, tree, kind)


def label_names(file: Path, labels: list[str], tree: Hierarchy, kind: str | None) -> list[str]:
    """Labels of a file as names of nodes of a tree.

    Args:
        file: The file; a file of a run, which has logits, holds positions.
        labels: (n,) as text.
        tree: The tree of the labels.
        kind: "names" or "positions" in the tree's classes; None to infer it: text is read as names, and
            numbers that could be both raise an error.

    Raises:
        ValueError: If labels are not valid positions, could be both, or are not in the tree.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "two.npz"
        >>> np.savez(file, features=np.eye(2), labels=[1, 0])
        >>> label_names(file, ["1", "0"], Hierarchy.from_paths([("cat",), ("dog",)]), None)
        ['dog', 'cat']
    """
    if kind is not None:
        check_choice("--labels", kind, ("names", "positions"))
    numbers, is_run = label_facts(file)
    present, known = set(labels), nodes_by_name(tree)
    counted = {str(place): name for place, name in enumerate(tree.classes)}
    if kind is None:
        named, places = present <= known.keys(), present <= counted.keys()
        both = named and places and any(known[text] != known[counted[text]] for text in present)
        if numbers and both and not is_run:
            raise ValueError(
                f"{file}: labels are numbers that may be names or positions: say which with --labels"
            )
        kind = "positions" if numbers and (is_run or (places and not named)) else "names"
    if kind == "positions":
        wrong = sorted(present - counted.keys())
        if wrong:
            allowed = f"positions in the {len(counted)} classes of the tree"
            raise ValueError(f"{file}: labels must be {allowed}, got {wrong[:5]}")
        return [counted[text] for text in labels]
    missing = sorted(present - known.keys())
    if missing:
        hint = "; --labels positions, if numbers count the classes of the tree" if numbers else ""
        raise ValueError(f"{file}: has labels that are not in the tree: {missing[:5]!r}{hint}")
    return labels
