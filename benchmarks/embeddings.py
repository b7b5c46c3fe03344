"""The estimator against scikit-learn's own on the same vectors, and how long a large fit takes.

`python benchmarks/embeddings.py` takes digits; `--features FILE --test FILE --tree FILE` takes the features
of a trained run, such as its features/source-train.safetensors and source-test.safetensors, and its
tree.json, whose classes the labels of a run count.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from cophenet import HierarchicalEmbedder, Hierarchy, class_distances, cpcc, metrics
from cophenet.data.digits import digits_tree
from cophenet.vectors import read_vectors
from timing import table, write_json

LARGE_SAMPLES, LARGE_WIDTH, LARGE_CLASSES, GOAL = 20_000, 512, 100, 60.0

Array = NDArray[Any]
Parts = tuple[Array, Array, Array, Array]


def estimators(tree: Hierarchy) -> dict[str, Any]:
    """All by name; what does not scale by itself gets standardised vectors."""
    return {
        "cophenet fastft": HierarchicalEmbedder(tree, labels="positions", random_state=0),
        "cophenet l2": HierarchicalEmbedder(tree, "l2", labels="positions", random_state=0),
        "cophenet flat": HierarchicalEmbedder(tree, "flat", labels="positions", random_state=0),
        "logistic regression": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
        "nearest class mean": make_pipeline(StandardScaler(), NearestCentroid()),
        "LDA": make_pipeline(StandardScaler(), LinearDiscriminantAnalysis()),
        "5 nearest neighbours": make_pipeline(StandardScaler(), KNeighborsClassifier(5)),
    }


def embedded(model: Any, rows: Array) -> torch.Tensor:
    """The vectors a method works with: reshaped by it, or standardised."""
    last = model if isinstance(model, HierarchicalEmbedder) else model[-1]
    scaled = rows if last is model else model[:-1].transform(rows)
    out = last.transform(scaled) if hasattr(last, "transform") else scaled
    return torch.from_numpy(np.asarray(out, dtype=np.float32))


def measure(model: Any, parts: Parts, tree: Hierarchy) -> dict[str, float]:
    """Accuracy and MAP at each level, mistake severity, CPCC and seconds of fitting."""
    train, test, train_labels, test_labels = parts
    start = time.perf_counter()
    model.fit(train, train_labels)
    found = {"fit seconds": time.perf_counter() - start}
    # Every method by its predicted class, for not all of them have probabilities.
    scores = torch.eye(tree.num_classes)[torch.from_numpy(model.predict(test))]
    labels, train_codes = torch.from_numpy(test_labels), torch.from_numpy(train_labels)
    accuracies = metrics.level_accuracy(scores, labels, tree, by="argmax")
    found |= {f"accuracy {name}": value.item() for name, value in accuracies.items()}
    one, other = embedded(model, train), embedded(model, test)
    for level in tree.level_names:
        classes, means = metrics.class_prototypes(one, metrics.level_labels(train_codes, tree, level))
        value = metrics.prototype_map(other, metrics.level_labels(labels, tree, level), means, classes)
        found[f"MAP {level}"] = value.item()
    found["severity"] = metrics.mistake_severity(scores, labels, tree).item()
    present, distances = class_distances(other, labels, distance="l2")
    found["CPCC"] = cpcc(distances, torch.tensor(tree.condensed(present.tolist()))).item()
    return found


def digit_vectors() -> tuple[Parts, Hierarchy]:
    """A quarter of the digits is the test part."""
    rows, labels = load_digits(return_X_y=True)
    parts = train_test_split(rows.astype(np.float32), labels, test_size=0.25, stratify=labels, random_state=0)
    return tuple(parts), digits_tree()


def file_vectors(train: Path, test: Path, tree: Path) -> tuple[Parts, Hierarchy]:
    """Features of a run; their labels count the classes of its tree."""
    (rows, labels), (others, truth) = read_vectors(train), read_vectors(test)
    return (rows, others, np.array(labels, dtype=np.int64), np.array(truth, dtype=np.int64)), Hierarchy.read(
        tree
    )


def large_fit() -> dict[str, float]:
    """Seconds of one fit on many vectors of a tree of 20 groups of 5 classes."""
    rng = np.random.default_rng(0)
    labels = np.arange(LARGE_SAMPLES) % LARGE_CLASSES
    groups, classes = rng.normal(size=(20, LARGE_WIDTH)), rng.normal(size=(LARGE_CLASSES, LARGE_WIDTH))
    rows = groups[labels // 5] + 0.7 * classes[labels] + 4.5 * rng.normal(size=(LARGE_SAMPLES, LARGE_WIDTH))
    tree = Hierarchy.from_paths([(f"group {c // 5}", f"class {c}") for c in range(LARGE_CLASSES)])
    embedder = HierarchicalEmbedder(tree, labels="positions", random_state=0)
    start = time.perf_counter()
    embedder.fit(rows.astype(np.float32), labels)
    return {"seconds": time.perf_counter() - start, "epochs": embedder.n_iter_, "goal seconds": GOAL}


def main(arguments: list[str] | None = None) -> None:
    """Print both tables and write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--features", "--test", "--tree"):
        parser.add_argument(name, type=Path)
    given = parser.parse_args([] if arguments is None else arguments)
    named = [given.features, given.test, given.tree]
    if any(named) and not all(named):
        parser.error("--features, --test and --tree go together")
    torch.set_num_threads(1)
    parts, tree = file_vectors(*named) if all(named) else digit_vectors()
    found = {name: measure(model, parts, tree) for name, model in estimators(tree).items()}
    header = list(next(iter(found.values())))
    rows = [[name, *(f"{values[key]:.3f}" for key in header)] for name, values in found.items()]
    source = str(given.features) if all(named) else "digits"
    print(
        table(
            f"{source}: {len(parts[0])} training and {len(parts[1])} test vectors", ["method", *header], rows
        )
    )
    large = large_fit()
    size = f"{LARGE_SAMPLES} x {LARGE_WIDTH}, {LARGE_CLASSES} classes"
    print(f"{size}: fit in {large['seconds']:.1f} s, {large['epochs']} epochs; goal {GOAL:.0f} s\n")
    print(write_json("embeddings", {"source": source, "methods": found, "large": large}))


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
