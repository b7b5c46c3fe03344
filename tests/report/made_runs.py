"""Run folders as training and evaluation leave them, written without either."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from cophenet.recipes import load_recipe
from cophenet.tree import Hierarchy

DIGITS = Hierarchy.from_paths(
    [
        *(("loops", digit) for digit in ("six", "eight", "nine")),
        *(("curves", digit) for digit in ("three", "five")),
        *(("strokes", digit) for digit in ("four", "seven")),
    ],
    root="digits",
    level_names=("shape", "digit"),
)
_QUALITY = {"flat": 0.3, "l2": 0.9, "fastft": 1.0, "emd": 1.0}


def even_tree(groups: int, classes: int) -> Hierarchy:
    """A tree of three levels: groups, pairs of classes, classes."""
    paths = [
        (f"group {g}", f"pair {g}.{c // 2}", f"class {g}.{c}") for g in range(groups) for c in range(classes)
    ]
    return Hierarchy.from_paths(paths, level_names=("coarse", "mid", "fine"))


def make_run(
    path: Path,
    *,
    objective: str = "fastft",
    seeds: tuple[int, ...] = (0,),
    tree: Hierarchy = DIGITS,
    data: str = "digits",
    samples: int = 210,
    evaluated: bool = True,
    features: bool = True,
    epochs: int = 12,
    data_dir: str | None = None,
    checksum: str = "0",
) -> Path:
    """Write the folder of a finished run.

    Args:
        path: The folder.
        objective: Name of its objective.
        seeds: One part for each.
        tree: Its tree.
        data: What `results.json` calls its data.
        samples: Test samples.
        evaluated: Whether there are `results.json` and `details.json`.
        features: Whether there are features.
        epochs: Rows of `metrics.csv`.
        data_dir: Where its data was.
        checksum: What the samples of its data are identified by.
    """
    path.mkdir(parents=True)
    names = [f"objective.name={objective}"]
    several = len(seeds) > 1
    numbers = []
    for seed in seeds:
        part = path / f"seed{seed}" if several else path
        part.mkdir(exist_ok=True)
        recipe = load_recipe("digits", overrides=[*names, f"seeds=[{seed}]"])
        (part / "recipe.yaml").write_text(recipe.to_yaml())
        info = {"format": 1, "seed": seed, "finished": True, "threads": 1, "data_dir": data_dir}
        info["seconds_per_epoch"] = [0.2] * epochs
        _write(part / "run.json", {**info, "samples": {"test": {"count": samples, "labels": checksum}}})
        tree.write(part / "tree.json")
        _write_metrics(part / "metrics.csv", objective, seed, epochs)
        if evaluated:
            numbers.append(_evaluate(part, objective, seed, tree, samples, features))
            _write(part / "results.json", _results(part.name, objective, data, [seed], tree, numbers[-1:]))
    if several:
        (path / "recipe.yaml").write_text(
            load_recipe("digits", overrides=[*names, f"seeds={list(seeds)}"]).to_yaml()
        )
        _write(path / "run.json", {"format": 1, "seeds": list(seeds)})
        if evaluated:
            _write(path / "results.json", _results(path.name, objective, data, list(seeds), tree, numbers))
    return path


def _write(path: Path, document: Any) -> None:
    path.write_text(json.dumps(document))


def _write_metrics(path: Path, objective: str, seed: int, epochs: int) -> None:
    rng = np.random.default_rng(seed)
    has_cpcc = objective in ("l2", "fastft", "emd")
    with path.open("w", newline="") as file:
        columns = ["epoch", "phase", "seconds", "lr", "train/loss", "train/cross_entropy"]
        columns += ["train/cpcc_loss", "train/cpcc"] if has_cpcc else []
        writer = csv.DictWriter(file, [*columns, "test/accuracy"])
        writer.writeheader()
        for epoch in range(1, epochs + 1):
            entropy = 2.2 * np.exp(-epoch / 3) + 0.02 * rng.random()
            cpcc = 1 - 0.9 * np.exp(-epoch / 2) - 0.02 * rng.random()
            row = {"epoch": epoch, "phase": 0, "seconds": 0.2, "lr": 0.05, "train/cross_entropy": entropy}
            row["train/loss"] = entropy + (1 - cpcc if has_cpcc else 0)
            if has_cpcc:
                row |= {"train/cpcc_loss": 1 - cpcc, "train/cpcc": cpcc}
            row["test/accuracy"] = 1 - 0.8 * np.exp(-epoch / 3) - 0.02 * rng.random()
            writer.writerow(row)


def _evaluate(
    part: Path, objective: str, seed: int, tree: Hierarchy, samples: int, features: bool
) -> dict[str, float | None]:
    """Write features and details; return the numbers."""
    rng = np.random.default_rng(seed + 1)
    quality, k = _QUALITY.get(objective, 0.5), tree.num_classes
    labels = rng.permutation(np.arange(samples) % k)
    # Children scatter around their parent, so that features follow the tree.
    places = np.zeros((tree.num_nodes, 8))
    for node in range(1, tree.num_nodes):
        step = 4 * quality / 2.0 ** float(tree.depths[node]) if tree.heights[node] else 1
        places[node] = places[tree.parents[node]] + step * rng.normal(size=8)
    z = places[tree.leaves][labels] + 0.5 * rng.normal(size=(samples, 8))
    logits = -((z[:, None] - places[tree.leaves]) ** 2).sum(2)
    if features:
        (part / "features").mkdir()
        arrays = {"features": z.astype("f4"), "labels": labels, "logits": logits.astype("f4")}
        save_file(arrays, part / "features" / "source-test.safetensors")
    probabilities = np.exp(logits - logits.max(1, keepdims=True))
    probabilities /= probabilities.sum(1, keepdims=True)
    predicted = probabilities.argmax(1)
    centres = np.stack([z[labels == c].mean(0) for c in range(k)])
    upper = np.triu_indices(k, 1)
    rho = np.linalg.norm(centres[:, None] - centres, axis=2)[upper]
    _write(part / "details.json", _details(objective, tree, labels, predicted, probabilities, rho))
    accuracy = float((predicted == labels).mean())
    level = tree.level_names
    coarse = tree.ancestors(1)
    numbers = {
        f"source/accuracy/{level[0]}": float((coarse[predicted] == coarse[labels]).mean()),
        f"source/accuracy/{level[-1]}": accuracy,
        f"target/accuracy/{level[-1]}": accuracy / 2,
        f"source/map/{level[-1]}": accuracy,
        "source/cpcc/l2": float(np.corrcoef(rho, tree.condensed())[0, 1]),
        "source/severity": 1.5,
        "source/hierarchical-distance@1": 1.2,
        "source/hierarchical-distance@20": 1.6,
        f"source/calibration/{level[-1]}": 0.03,
    }
    if objective in ("fastft", "emd"):
        numbers[f"source/cpcc/{objective}"] = numbers["source/cpcc/l2"]
    return numbers


def _details(objective, tree, labels, predicted, probabilities, rho) -> dict[str, Any]:
    classes = range(tree.num_classes)
    pairs, counts = np.unique(np.stack([labels, predicted]), axis=1, return_counts=True)
    nodes = {}
    for node in range(tree.num_nodes):
        inside = (tree.leaves >= node) & (tree.leaves < node + tree.sizes[node])
        mine = np.isin(labels, np.flatnonzero(inside))
        right = inside[predicted[mine]].mean() if mine.any() else None
        nodes[str(node)] = {"accuracy": None if right is None else float(right), "samples": int(mine.sum())}
    wrong = np.flatnonzero(labels != predicted)
    table = tree.distances()
    mistakes = [
        {
            "index": int(i),
            "true": int(labels[i]),
            "predicted": int(predicted[i]),
            "tree_distance": float(table[labels[i], predicted[i]]),
            "probability": float(probabilities[i, predicted[i]]),
        }
        for i in wrong
    ]
    mistakes.sort(key=lambda m: (-m["tree_distance"], -m["probability"]))
    names = ["l2"] + ([objective] if objective in ("fastft", "emd") else [])
    return {
        "format": 1,
        "tree": {"names": list(tree.names), "parents": tree.parents.tolist()},
        "classes": [tree.classes[c] for c in classes],
        "levels": list(tree.level_names),
        "class_distances": {name: rho.tolist() for name in names},
        "confusion": [[int(t), int(p), int(n)] for (t, p), n in zip(pairs.T, counts, strict=True)],
        "node_prediction": "summed",
        "node_accuracy": nodes,
        "worst_mistakes": mistakes[:20],
    }


def _results(
    name: str, objective: str, data: str, seeds: list[int], tree: Hierarchy, numbers: list[dict[str, Any]]
) -> dict[str, Any]:
    metrics = {}
    for key in numbers[0]:
        values = [seed_numbers[key] for seed_numbers in numbers]
        std = float(np.std(values, ddof=1)) if len(values) > 1 else None
        metrics[key] = {"mean": float(np.mean(values)), "std": std, "values": values}
    return {
        "format": 1,
        "name": name,
        "recipe_name": data,
        "scale": "laptop",
        "data": data,
        "objective": objective,
        "recipe": {},
        "seeds": seeds,
        "levels": list(tree.level_names),
        "versions": {"cophenet": "0.1.0"},
        "threads": 1,
        "seconds_per_epoch": 0.21,
        "epochs": 12,
        "samples": {"source-test": 210},
        "metrics": metrics,
        "missing": {},
    }


def result(
    objective: str = "l2",
    data: str = "digits",
    seeds: tuple[int, ...] = (0,),
    missing: dict[str, str] | None = None,
    **metrics: tuple[float, float | None],
) -> dict[str, Any]:
    """The results of a run, of which tables are made; source_severity=(mean, std) and so on."""
    measured = {
        key.replace("_", "/"): {
            "mean": mean,
            "std": std,
            "values": [mean * (1 + 1e-3 * (seed % 2)) for seed in seeds],
        }
        for key, (mean, std) in metrics.items()
    }
    return {
        "data": data,
        "objective": objective,
        "scale": "laptop",
        "seeds": list(seeds),
        "metrics": measured,
        "missing": missing or {},
    }


def accuracies(
    *means: float, data: str = "digits", seeds: tuple[int, ...] = (0, 1, 2)
) -> list[dict[str, Any]]:
    """Results of several runs that differ in their accuracy."""
    return [result(data=data, seeds=seeds, source_accuracy_fine=(mean, None)) for mean in means]
