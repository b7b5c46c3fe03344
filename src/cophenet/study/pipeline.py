"""A study from data to conclusion: an objective is chosen on training samples and tested on the test part."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cophenet._common.files import read_json, write_json, write_text
from cophenet._common.limits import one_line
from cophenet._common.progress import format_time
from cophenet.evaluation.intervals import mean_interval
from cophenet.evaluation.keys import metric_info
from cophenet.evaluation.results import run_results
from cophenet.paper.queue import Queue
from cophenet.report.answer import (
    Answer,
    Command,
    Detail,
    EvaluatedRun,
    Finding,
    answer,
    aspects,
    new_class_aspects,
)
from cophenet.report.comparison import measure_run
from cophenet.report.noise import Measured
from cophenet.report.page import write_report
from cophenet.report.page_data import level_chances
from cophenet.report.table import signed
from cophenet.runs import Run
from cophenet.runs.experiment import load_experiment
from cophenet.runs.folder import describe_data
from cophenet.runs.json_files import details_tree
from cophenet.study.plan import CANDIDATES, FLAT, Candidate, Stage, StudyData, stage_runs, train_command
from cophenet.tree import Hierarchy
from cophenet.tree.review import misplaced_classes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cophenet.data import Samples

__all__ = ["StudyResult", "run_study"]

Tell = Callable[[str], None]
# Images with at most this many values are flattened to vectors for the estimator.
_WIDEST = 4096


@dataclass(frozen=True)
class StudyResult:
    """The result of a study.

    Attributes:
        verdict: Whether the tree helps, as in `Answer`.
        sentences: The conclusion in sentences; those of type `cophenet.report.Detail` belong to the
            one before.
        chosen: Name of the recommended candidate.
        command: The command that trains it on all training samples.
        page: The HTML report with all metrics.
    """

    verdict: str
    sentences: tuple[str, ...]
    chosen: str
    command: str
    page: Path


def run_study(
    data: StudyData,
    output: Path,
    *,
    seeds: Sequence[int] = (0, 1, 2),
    threads: int | None = None,
    estimator: bool = True,
    tell: Tell = print,
) -> StudyResult:
    """Train selected objectives with and without the tree, and conclude whether the tree helps.

    First all candidates are trained once on four fifths of the training samples, and the best on the other
    fifth is chosen; the test part is not used. Then the chosen candidate, Flat, and the chosen candidate with
    a shuffled tree are trained with all seeds and evaluated on the test part. If the data set is trained on
    all classes, they are also trained on a part of the classes and evaluated on the others. Finished runs are
    reused, so the same call continues after an interruption.

    Args:
        data: The data, as returned by `find_data`.
        output: Folder for runs, report and conclusion.
        seeds: Seeds of the runs that are evaluated on the test part.
        threads: Number of CPU threads; None for all.
        estimator: Whether to fit the estimator as well, with its defaults.
        tell: Called with a line about every step.

    Raises:
        ValueError: If the data is invalid, the folder holds a study of other data, or a run fails.
    """
    data, notes, train, test = _prepared(data, output, tell)
    work = _Work(data, output, threads, tell)
    tried = (FLAT, *CANDIDATES)
    domain = data.load().data.domain
    work.planned = len(tried) + (6 if domain == "full" else 3) * len(seeds)
    chosen, gains = _choose(work, tried)
    tell(gains)
    finalists = (FLAT, chosen, chosen.shuffled())
    final = work.make("final", finalists, seeds)
    new: dict[str, Run] = {}
    if domain == "full":
        try:
            new = work.make("transfer", finalists, seeds)
        except ValueError as error:
            notes.append(f"New classes were not measured: {one_line(error)}.")
    said = _answer(final, new, finalists)
    sentences = [*said.sentences, gains]
    if estimator:
        sentences += _estimator(train, test, output, seeds, tell)
    best = chosen if said.chosen else FLAT
    sentences += [*notes, f"Take {best.label}. The command that trains it for good:"]
    command = Command(train_command(data, best))
    tell("drawing the page")
    page = write_report(
        [*final.values(), *new.values()],
        output / "report.html",
        title=f"Does the tree of {data.name} help?",
        answer=[*sentences, command],
    )
    lines = ("  " * isinstance(sentence, Detail) + sentence for sentence in sentences)
    write_text(output / "answer.txt", "\n".join((*lines, command, "")))
    return StudyResult(said.verdict, tuple(sentences), best.name, command, page)


class _Work:
    """Trains the runs of a study with a queue, and estimates the remaining time."""

    def __init__(self, data: StudyData, output: Path, threads: int | None, tell: Tell) -> None:
        self.data, self.output, self.tell, self.planned = data, output, tell, 0
        self._start = time.monotonic()
        self._queue = Queue(output, data.data_dir, tell, threads=threads, progress=False, begun=self._begun)

    def make(self, stage: Stage, tried: Sequence[Candidate], seeds: Sequence[int]) -> dict[str, Run]:
        """Train and evaluate the runs of a stage; return name of a candidate -> its run of all seeds."""
        wanted = stage_runs(self.data, stage, tried, seeds)
        while not self._queue.advance(wanted):
            time.sleep(self._queue.pause)
        report = self._queue.report
        for name, problem in (*report.failed.items(), *report.lacking.items()):
            raise ValueError(f"{name}: {problem}")
        return {
            one.name: _join_seeds(self.output / runs.name, runs.recipe, seeds)
            for one, runs in zip(tried, wanted, strict=True)
        }

    def _begun(self, name: str, word: str) -> None:
        """Report which run begins, with the remaining time estimated from the rate so far."""
        done, new = len(self._queue.report.done), len(self._queue.report.trained)
        rest = (time.monotonic() - self._start) / max(new, 1) * max(self.planned - done, 1)
        left = f", about {format_time(rest)} left" if new else ""
        self.tell(f"{done + 1}/{self.planned} {name}: {word}{left}")


def _join_seeds(folder: Path, recipe: Any, seeds: Sequence[int]) -> Run:
    """Combine the single-seed runs in a folder into one run of several seeds."""
    parts = [Run.open(folder / f"seed{seed}") for seed in seeds]
    info = {key: value for key, value in parts[0].info.items() if key != "seed"}
    write_json(folder / "run.json", {**info, "seeds": list(seeds)})
    write_text(folder / "recipe.yaml", recipe.model_copy(update={"seeds": tuple(seeds)}).to_yaml())
    run = Run.open(folder)
    write_json(folder / "results.json", run_results(run, [part.results or {} for part in parts]))
    return run


def _prepared(data: StudyData, output: Path, tell: Tell) -> tuple[StudyData, list[str], Samples, Samples]:
    """Return the data with its own or an inferred tree, notes about the tree, and both sets of samples."""
    recipe = data.load()
    experiment = load_experiment(recipe, data.data_dir)
    train, test = experiment.train, experiment.test
    sizes = f"{len(train):,} training and {len(test):,} test samples"
    tell(f"{data.name}: {sizes}, {train.tree.num_classes} classes")
    vectors = _vectors(train)
    inferring = train.tree.is_equidistant
    if inferring and (recipe.data.name not in ("folder", "vectors") or vectors is None):
        raise ValueError(f"{data.name} has no tree that groups its classes: give --tree FILE")
    _keep_to_data(output, {**describe_data(experiment), "tree": _checksum(train.tree)})
    if vectors is None or not inferring:
        return data, _misplaced(vectors, train), train, test
    file = output / "inferred-tree.json"
    _infer(vectors, train).write(file)
    note = f"There was no tree: it was inferred from the training vectors, and is in {file}."
    tell(note)
    data = data.with_tree(file)
    experiment = load_experiment(data.load(), data.data_dir)
    return data, [note], experiment.train, experiment.test


def _keep_to_data(output: Path, described: dict[str, Any]) -> None:
    """Create the folder of a study; raise if it is of other data, because its runs would be reused."""
    file = output / "data.json"
    if file.is_file() and read_json(file) != described:
        raise ValueError(f"output {output} holds a study of other data: give another folder with -o")
    output.mkdir(parents=True, exist_ok=True)
    write_json(file, described)


def _vectors(samples: Samples) -> NDArray[np.float32] | None:
    """The inputs as vectors; with a frozen backbone, its features. None if they are large images."""
    if int(np.prod(samples.inputs.shape)) > _WIDEST or (
        len(samples.inputs.shape) > 1 and samples.inputs.shape[-1] > 32
    ):
        return None
    inputs, _ = samples.take(np.arange(len(samples)))
    return inputs.reshape(len(inputs), -1).float().numpy()


def _infer(vectors: NDArray[np.float32], samples: Samples) -> Hierarchy:
    """Infer a two-level tree by Ward linkage of class means, with sqrt(classes) groups but at least two."""
    from scipy.cluster.hierarchy import fcluster, linkage

    classes, count = samples.tree.classes, samples.tree.num_classes
    means = np.stack([vectors[samples.labels == label].mean(0) for label in range(count)]).astype(np.float64)
    groups = fcluster(linkage(means, "ward"), max(2, round(count**0.5)), "maxclust")
    names = {}
    for group in np.unique(groups).tolist():
        members = np.flatnonzero(groups == group)
        middle = np.linalg.norm(means[members] - means[members].mean(0), axis=1).argmin()
        names[group] = f"like {classes[members[middle]]}"
    return Hierarchy.from_paths(
        [(names[group], name) for group, name in zip(groups.tolist(), classes, strict=True)],
        level_names=("inferred", "class"),
    )


def _misplaced(vectors: NDArray[np.float32] | None, samples: Samples) -> list[str]:
    if vectors is None:
        size = " x ".join(map(str, samples.inputs.shape))
        return [
            f"The inputs are images ({size}), not vectors, so that the estimator was not fitted and no class "
            "looked at for its place in the tree. A frozen pretrained backbone gives vectors: "
            "pip install 'cophenet[pretrained]', and the same command into another folder."
        ]
    found = misplaced_classes(vectors, samples.labels, samples.tree)
    if not found:
        return []
    return [
        f"Perhaps misplaced in the tree, by the vectors of the training samples ({len(found)}):",
        *(Detail(one.sentence) for one in found),
    ]


def _choose(work: _Work, tried: Sequence[Candidate]) -> tuple[Candidate, str]:
    """The candidate with the largest mean gain over Flat on held-out samples, and all gains in a sentence."""
    runs = work.make("choose", tried, (0,))
    tree, domain = _tree(runs["flat"]), runs["flat"].recipe.data.domain
    results = {name: _measured(run).results for name, run in runs.items()}
    named = aspects(domain, tree)
    del named[f"{domain}/severity"]  # noisy if mistakes are few; the distance over all samples is less so
    keys = [*named, f"{domain}/hierarchical-distance@1"]
    gains = {one: mean_gain(results[one.name], results["flat"], keys, tree.height) for one in tried[1:]}
    chosen = max(gains, key=lambda one: gains[one])
    texts = ", ".join(f"{one.name} {signed(100 * gain, 1)}" for one, gain in gains.items())
    return chosen, (
        f"{chosen.label} was chosen on a part of the training samples, by the mean gain over Flat in points "
        f"({texts})."
    )


def mean_gain(one: Mapping[str, Any], other: Mapping[str, Any], keys: Iterable[str], height: float) -> float:
    """Mean gain of one run over another over metrics in percent, and in levels divided by the tree's height.

    Args:
        one: Content of `results.json`.
        other: The same of the other run.
        keys: Keys of the metrics; those that a run lacks, or whose scale is not known, are left out.
        height: Height of the tree.

    Example:
        >>> def run(accuracy, distance):
        ...     values = {"source/accuracy/fine": accuracy, "source/hierarchical-distance@1": distance}
        ...     return {"metrics": {key: {"mean": value} for key, value in values.items()}}
        >>> keys = ("source/accuracy/fine", "source/hierarchical-distance@1")
        >>> round(mean_gain(run(0.6, 0.8), run(0.5, 1.0), keys, 2), 3)
        0.1
    """
    gains = []
    for key in keys:
        values = [run["metrics"].get(key, {}).get("mean") for run in (one, other)]
        info = metric_info(key)
        if None in values or not (info.percent or info.in_levels):
            continue
        gain = (values[0] - values[1]) / (1 if info.percent else height)
        gains.append(gain if info.higher_is_better else -gain)
    return sum(gains) / len(gains) if gains else 0.0


def _measured(run: Run) -> Measured:
    measured = measure_run(run)
    assert measured is not None  # the queue evaluates what it trains
    return measured


def _tree(run: Run) -> Hierarchy:
    details = run.parts[0].details
    assert details is not None
    return details_tree(details)


def _answer(runs: Mapping[str, Run], new: Mapping[str, Run], finalists: Sequence[Candidate]) -> Answer:
    """The conclusion from the finalists on the test part, and on new classes if there are runs for them."""
    first = runs["flat"]
    tree, details, domain = _tree(first), first.parts[0].details, first.recipe.data.domain
    named, candidates = aspects(domain, tree), list[EvaluatedRun]()
    if new:
        named |= new_class_aspects(_tree(new["flat"]))
    for one in finalists:
        measured = _measured(runs[one.name])
        if new:
            metrics = _measured(new[one.name]).results["metrics"]
            more = {key: value for key, value in metrics.items() if key.startswith("target/")}
            metrics = {**measured.results["metrics"], **more}
            measured = Measured({**measured.results, "metrics": metrics}, measured.run)
        candidates.append(EvaluatedRun(one.name, measured, one.control))
    return answer(candidates, named, level_chances(tree, details or {})[-1])


def _estimator(train: Samples, test: Samples, output: Path, seeds: Sequence[int], tell: Tell) -> list[str]:
    """Sentences about the estimator with defaults, with and without the tree; results are cached by seed."""
    from cophenet.estimator.comparison import METHODS, measure_method

    rows, others = _vectors(train), _vectors(test)
    if rows is None or others is None:
        return []
    methods = ("cophenet, without the tree", "cophenet")
    scores: dict[str, list[dict[str, float]]] = {name: [] for name in methods}
    identity = _checksum(train.tree, rows, train.labels, others, test.labels)
    for seed in seeds:
        file = output / f"estimator-seed{seed}.json"
        made = read_json(file) if file.is_file() else {}
        if made.get("data") != identity:
            tell(f"estimator, seed {seed}")
            made = {"data": identity}
            for name in methods:
                method = METHODS[name](rows, train.labels, train.tree, seed)
                found = measure_method(method, (rows, train.labels), (others, test.labels), train.tree)
                # CPCC is NaN where it is undefined, which JSON cannot hold.
                made[name] = {key: score.value for key, score in found.items() if math.isfinite(score.value)}
            write_json(file, made)
        for name in methods:
            scores[name].append(made[name])
    levels = train.tree.summary_levels()
    about = {
        f"accuracy {levels[-1]}": "accuracy of classes",
        f"MAP {levels[0]}": f"retrieval at {levels[0]} (MAP)",
    }
    texts = []
    for key, words in about.items():
        pairs = zip(scores["cophenet"], scores[methods[0]], strict=True)
        gap = mean_interval([one[key] - other[key] for one, other in pairs])
        texts.append(Finding(words, "source/accuracy", gap, gap.sign).text)
    reached = float(np.mean([one[f"accuracy {levels[-1]}"] for one in scores["cophenet"]]))
    return [
        f"The estimator (`cophenet embed`), with its defaults, reaches {reached:.1%} accuracy of classes; "
        f"the tree gives it {'; '.join(texts)}."
    ]


def _checksum(tree: Hierarchy, *arrays: NDArray[Any]) -> str:
    """Checksum of a tree and of arrays, to detect results of other data."""
    digest = hashlib.sha256(repr((tree.names, tree.level_names)).encode())
    for values in (tree.parents, tree.edge_weights, tree.leaves, *arrays):
        digest.update(np.ascontiguousarray(values).data)
    return digest.hexdigest()[:16]
