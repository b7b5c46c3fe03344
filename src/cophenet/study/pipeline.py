"""A study from data to answer: objectives are chosen on training samples, and measured on the test part."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cophenet._common.files import write_json, write_text
from cophenet._common.progress import format_time
from cophenet.evaluation.intervals import mean_interval
from cophenet.evaluation.keys import describe
from cophenet.evaluation.results import run_results
from cophenet.paper.queue import Queue, one_line
from cophenet.report.answer import Answer, Finding, answer, aspects, find_gaps
from cophenet.report.answer import Candidate as Answered
from cophenet.report.comparison import measure_run
from cophenet.report.details import details_tree
from cophenet.report.page import write_report
from cophenet.report.page_data import headline_level, level_chances
from cophenet.runs import Run
from cophenet.runs.experiment import load_experiment
from cophenet.study.plan import CANDIDATES, FLAT, Candidate, Stage, StudyData, stage_runs, train_command
from cophenet.tree import Hierarchy
from cophenet.tree.review import misplaced_classes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cophenet.data import Samples
    from cophenet.report.noise import Measured

__all__ = ["StudyResult", "run_study"]

Tell = Callable[[str], None]
# Images of so many numbers are vectors for the estimator.
_WIDEST = 4096


@dataclass(frozen=True)
class StudyResult:
    """What a study found.

    Attributes:
        verdict: Whether the tree helps, as in `Answer`.
        sentences: The answer.
        chosen: What to train: the name of a candidate.
        command: The command that trains it for good.
        page: The page with all numbers.
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
    """Train what is sensible with and without the tree, and say whether it helps.

    First all candidates are trained once, on four fifths of the training samples, and the best on the other
    fifth is chosen; the test part is not looked at. Then that, Flat, and the same with a shuffled tree are
    trained with all seeds and measured on the test part; where all classes were trained on, once more on a
    part of them, to be measured on the others. What is finished is used again, so that the same call goes on
    after an interruption.

    Args:
        data: The data, as `find_data` gives it.
        output: Folder of runs, page and answer.
        seeds: Of the runs on the test part.
        threads: Of the CPU; None for all.
        estimator: Whether to fit the estimator as well, with its defaults.
        tell: Gets a line about everything that is done.

    Raises:
        ValueError: If the data is wrong, or a run fails.
    """
    output.mkdir(parents=True, exist_ok=True)
    data, notes, train, test = _prepared(data, output, tell)
    work = _Work(data, output, threads, tell)
    tried = (FLAT, *CANDIDATES)
    work.planned = len(tried) + 3 * len(seeds)
    chosen = _choose(work, tried)
    tell(f"chosen on a part of the training samples: {chosen.name}")
    finalists = (FLAT, chosen, chosen.shuffled())
    final = work.make("final", finalists, seeds)
    said, domain = _answered(final, finalists)
    sentences = list(said.sentences)
    runs = list(final.values())
    if domain == "full":
        work.planned += 3 * len(seeds)
        transfer, why = _transfer(work, finalists, seeds)
        sentences += transfer if isinstance(transfer, list) else [why]
        runs += work.made("transfer", finalists)
    if estimator:
        sentences += _estimator(train, test, output, seeds, tell)
    runs += work.made("choose", tried)
    best = chosen if said.verdict == "helps" else FLAT
    sentences += [*notes, _advice(said, chosen)]
    page = write_report(runs, output / "report.html", progress=lambda what, *_: tell(what))
    result = StudyResult(said.verdict, tuple(sentences), best.name, train_command(data, best), page)
    write_text(output / "answer.txt", "\n".join((*sentences, result.command, "")))
    return result


class _Work:
    """The runs of a study, by the queue, with the time left."""

    def __init__(self, data: StudyData, output: Path, threads: int | None, tell: Tell) -> None:
        self.data, self.output, self.tell, self.planned = data, output, tell, 0
        self._begun, self._new = time.monotonic(), 0
        self._queue = Queue(output, data.data_dir, self._line, threads=threads, progress=False)

    def make(self, stage: Stage, tried: Sequence[Candidate], seeds: Sequence[int]) -> dict[str, Run]:
        """Train and evaluate the runs of a stage; name of a candidate -> its run of all seeds."""
        wanted = stage_runs(self.data, stage, tried, seeds)
        while not self._queue.advance(wanted):
            time.sleep(self._queue.pause)
        report = self._queue.report
        problems = [*report.failed.items(), *report.lacking.items()]
        for name, problem in problems:
            raise ValueError(f"{name}: {problem}")
        return {
            one.name: _join_seeds(self.output / runs.name, runs.recipe, seeds)
            for one, runs in zip(tried, wanted, strict=True)
        }

    def made(self, stage: Stage, tried: Iterable[Candidate]) -> list[Run]:
        """The runs of a stage that are there."""
        names = [one.name if stage == "final" else f"{stage}-{one.name}" for one in tried]
        return [Run.open(self.output / name) for name in names if (self.output / name / "run.json").is_file()]

    def _line(self, line: str) -> None:
        """A line of the queue, with the time that the rest would take at the rate so far."""
        done = len(self._queue.report.done)
        rate = (time.monotonic() - self._begun) / self._new if self._new else None
        self._new += 1
        left = "" if rate is None else f", about {format_time(rate * max(self.planned - done, 1))} left"
        self.tell(f"{done + 1}/{self.planned} {line.partition('] ')[2] or line}{left}")


def _join_seeds(folder: Path, recipe: Any, seeds: Sequence[int]) -> Run:
    """The runs of single seeds in a folder as one run of several."""
    parts = [Run.open(folder / f"seed{seed}") for seed in seeds]
    info = {key: value for key, value in parts[0].info.items() if key != "seed"}
    write_json(folder / "run.json", {**info, "seeds": list(seeds)})
    write_text(folder / "recipe.yaml", recipe.model_copy(update={"seeds": tuple(seeds)}).to_yaml())
    run = Run.open(folder)
    write_json(folder / "results.json", run_results(run, [part.results or {} for part in parts]))
    return run


def _prepared(data: StudyData, output: Path, tell: Tell) -> tuple[StudyData, list[str], Samples, Samples]:
    """The data with its own tree, or one that is inferred; what is to be said of it; and the two parts."""
    recipe = data.load()
    experiment = load_experiment(recipe, data.data_dir)
    train, test = experiment.train, experiment.test
    sizes = f"{len(train):,} training and {len(test):,} test samples"
    tell(f"{data.name}: {sizes}, {train.tree.num_classes} classes")
    vectors = _vectors(train)
    if not train.tree.is_equidistant:
        return data, _misplaced(vectors, train), train, test
    if recipe.data.name not in ("folder", "vectors") or vectors is None:
        raise ValueError(f"{data.name} has no tree that groups its classes: give --tree FILE")
    file = output / "inferred-tree.json"
    if not file.is_file():
        _infer(vectors, train).write(file)
    note = f"There was no tree: it was inferred from the training vectors, and is in {file}."
    tell(note)
    data = data.with_tree(file)
    experiment = load_experiment(data.load(), data.data_dir)
    return data, [note], experiment.train, experiment.test


def _vectors(samples: Samples) -> NDArray[np.float32] | None:
    """The inputs as vectors; None if they are large images."""
    if int(np.prod(samples.inputs.shape)) > _WIDEST or (
        len(samples.inputs.shape) > 1 and samples.inputs.shape[-1] > 32
    ):
        return None
    inputs, _ = samples.take(np.arange(len(samples)))
    return inputs.reshape(len(inputs), -1).float().numpy()


def _infer(vectors: NDArray[np.float32], samples: Samples) -> Hierarchy:
    """A tree of two levels: as many groups as the square root of the classes, by linkage of class means."""
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
        return []
    found = misplaced_classes(vectors, samples.labels, samples.tree)
    if not found:
        return []
    return [
        f"{len(found)} of the classes look misplaced in the tree, by the vectors of the training samples:",
        *(f"  {one.sentence}" for one in found),
    ]


def _choose(work: _Work, tried: Sequence[Candidate]) -> Candidate:
    """The candidate with the largest mean gain over Flat on the part of the training samples put aside."""
    runs = {name: _measured(run) for name, run in work.make("choose", tried, (0,)).items()}
    run = work.made("choose", tried[:1])[0]
    tree = _tree(run)
    named = aspects(run.recipe.data.domain, tree.level_names, headline_level(tree))
    return max(tried[1:], key=lambda one: mean_gain(runs[one.name].results, runs["flat"].results, named))


def mean_gain(one: Mapping[str, Any], other: Mapping[str, Any], named: Iterable[str]) -> float:
    """How much better one run is than another: the mean over metrics, of lengths the relative change.

    Args:
        one: Content of `results.json`.
        other: The same of the other run.
        named: Keys of metrics.

    Example:
        >>> def run(accuracy, severity):
        ...     values = {"source/accuracy/fine": accuracy, "source/severity": severity}
        ...     return {"metrics": {key: {"mean": value} for key, value in values.items()}}
        >>> named = ("source/accuracy/fine", "source/severity")
        >>> round(mean_gain(run(0.6, 1.8), run(0.5, 2.0), named), 3)
        0.1
    """
    gains = []
    for key in named:
        values = [run["metrics"].get(key, {}).get("mean") for run in (one, other)]
        if None in values:
            continue
        info = describe(key)
        gain = (values[0] - values[1]) / (1 if info.percent else max(values[1], 1e-12))
        gains.append(gain if info.higher_is_better else -gain)
    return sum(gains) / len(gains) if gains else 0.0


def _measured(run: Run) -> Measured:
    measured = measure_run(run)
    if measured is None:
        raise ValueError(f"run {run.path} was not evaluated")
    return measured


def _tree(run: Run) -> Hierarchy:
    details = run.parts[0].details
    if details is None:
        raise ValueError(f"run {run.path} was not evaluated")
    return details_tree(details)


def _answered(runs: Mapping[str, Run], finalists: Sequence[Candidate]) -> tuple[Answer, str]:
    """The answer of the finalists on the test part, and the domain they were trained on."""
    first = runs[finalists[0].name]
    tree, details, domain = _tree(first), first.parts[0].details, first.recipe.data.domain
    answered = [Answered(one.name, _measured(runs[one.name]), one.control) for one in finalists]
    chances = level_chances(tree, details or {})
    return answer(answered, tree, domain, headline_level(tree), chances), domain


def _transfer(
    work: _Work, finalists: Sequence[Candidate], seeds: Sequence[int]
) -> tuple[list[str] | None, str]:
    """What the tree gives for classes that were not trained on; or why that cannot be measured."""
    try:
        runs = work.make("transfer", finalists, seeds)
    except ValueError as error:
        return None, f"New classes were not measured: {one_line(error)}."
    tree = _tree(runs["flat"])
    named = aspects("source", tree.level_names, headline_level(tree))
    named = {key: about for key, about in named.items() if key.startswith("target/")}
    measured = [_measured(runs[one.name]) for one in finalists]
    sentences = [
        f"On classes that were not trained on, {_gaps(measured[1], measured[0], named)} against Flat."
    ]
    if len(measured) > 2:
        sentences.append(f"The same against the shuffled tree: {_gaps(measured[1], measured[2], named)}.")
    return sentences, ""


def _gaps(one: Measured, other: Measured, named: Mapping[str, str]) -> str:
    gaps = find_gaps(one, other, named)
    return "; ".join(gap.text + " (noise)" * (gap.better == 0) for gap in gaps) or "nothing can be told"


def _estimator(train: Samples, test: Samples, output: Path, seeds: Sequence[int], tell: Tell) -> list[str]:
    """What the estimator gives with its defaults, with and without the tree; of every seed it is kept."""
    from cophenet.estimator.comparison import METHODS, measure_method, shown_levels

    rows, others = _vectors(train), _vectors(test)
    if rows is None or others is None:
        return []
    methods = ("cophenet, without the tree", "cophenet")
    scores: dict[str, list[dict[str, float]]] = {name: [] for name in methods}
    for seed in seeds:
        file = output / f"estimator-seed{seed}.json"
        if not file.is_file():
            tell(f"estimator, seed {seed}")
            made = {}
            for name in methods:
                method = METHODS[name](rows, train.labels, train.tree, seed)
                made[name] = measure_method(method, (rows, train.labels), (others, test.labels), train.tree)
            write_json(file, made)
        made = json.loads(file.read_text(encoding="utf-8"))
        for name in methods:
            scores[name].append(made[name])
    levels = shown_levels(train.tree)
    keys = {
        f"accuracy {levels[-1]}": f"source/accuracy/{levels[-1]}",
        f"MAP {levels[0]}": f"source/map/{levels[0]}",
    }
    texts = []
    for key, metric in keys.items():
        pairs = zip(scores["cophenet"], scores[methods[0]], strict=True)
        gap = mean_interval([one[key] - other[key] for one, other in pairs])
        texts.append(Finding(key, metric, gap, gap.sign).text)
    reached = float(np.mean([one[f"accuracy {levels[-1]}"] for one in scores["cophenet"]]))
    return [
        f"The estimator (`cophenet embed`), with its defaults, reaches {reached:.1%} accuracy at "
        f"{levels[-1]}; its tree gives {'; '.join(texts)}."
    ]


def _advice(said: Answer, chosen: Candidate) -> str:
    if said.verdict == "helps":
        settings = f" with {', '.join(chosen.overrides)}" if chosen.overrides else ""
        return f"Take {chosen.objective}{settings}:"
    return "Take what has no tree; its command:"
