"""Ray Data: files of vectors are embedded, predicted and measured by the workers of a cluster.

A task is one file, or a range of consecutive blocks of a pass over all files. Files are written atomically,
and results of passes are sums, so Ray can repeat the task of a lost worker on another one without losing
anything. Files must have the same path on all machines.

Moritz et al., "Ray: A Distributed Framework for Emerging AI Applications", OSDI 2018, arXiv:1712.05889.
"""

from __future__ import annotations

import io
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cophenet._common.packages import import_optional
from cophenet.estimator.vector_files import Answered, answer_columns, load_model
from cophenet.metrics.streaming.shards import FeatureShards, passes_by
from cophenet.tree import Hierarchy

__all__ = ["RayModel", "map_files", "ray_passes"]

# Number of tasks of a pass per processor of the cluster; with several, less work is lost with a worker.
_TASKS = 4


class RayModel:
    """A saved model for `Dataset.map_batches` of Ray, for custom pipelines.

    Each worker loads it once. The vectors of a batch are replaced by the reshaped ones, or with `decision`
    the columns `prediction`, `path`, `node` and `probability` are added.

    Args:
        model: Folder of a saved model, or of a run.
        column: The column of vectors.
        decision: "argmax", "expected-cost" or "specific-if-confident" to predict; None to reshape.
        error_target: Share of wrong answers for "specific-if-confident".

    Example:
        >>> import tempfile
        >>> from cophenet import HierarchicalEmbedder
        >>> rows, names = np.repeat(np.eye(3), 8, axis=0), np.repeat(["cat", "dog", "bus"], 8)
        >>> folder = Path(tempfile.mkdtemp()) / "model"
        >>> _ = HierarchicalEmbedder(max_iter=2, random_state=0).fit(rows, names).save(folder)
        >>> model = RayModel(folder, decision="argmax")  # data.map_batches(RayModel, ...)
        >>> sorted(model({"features": rows[:2]}))
        ['features', 'node', 'path', 'prediction', 'probability']
    """

    def __init__(
        self,
        model: str | os.PathLike[str],
        column: str = "features",
        decision: str | None = None,
        error_target: float | None = None,
    ) -> None:
        self._model = load_model(Path(model))
        self._column, self._decision, self._error_target = column, decision, error_target

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Return the batch with reshaped vectors, or with the columns of the prediction."""
        rows = np.stack(batch[self._column])
        if self._decision is None:
            return {**batch, self._column: self._model.transform(rows)}
        answered = Answered(self._model)
        return {**batch, **answer_columns(self._model, rows, self._decision, self._error_target, answered)}


def map_files(work: Callable[[Path, Path], Any], pairs: Sequence[tuple[Path, Path]]) -> list[Any]:
    """Call `work(file, output)` for each pair on the cluster, and return the results in order.

    Args:
        work: Must write the output atomically; sent to the workers.
        pairs: Files and their outputs.

    Raises:
        ValueError: If a file cannot be read or written; the other files are processed nevertheless.
    """
    with _cluster() as ray:
        return _run(ray, [partial(work, file.resolve(), output.resolve()) for file, output in pairs])


@contextmanager
def ray_passes(tree: Hierarchy) -> Iterator[None]:
    """Context manager: run functions of `cophenet.metrics.streaming` on a cluster, for shards in files.

    Args:
        tree: The tree with which the shards were opened.
    """
    with _cluster() as ray:

        def add(blocks: Sequence[Any], work: Callable[[Any], None], totals: Tensor) -> Tensor:
            sent = ray.put(_dumps(ray, (work, totals, blocks), tree))
            count = min(len(blocks), _TASKS * int(ray.cluster_resources().get("CPU", 1)))
            ends = np.linspace(0, len(blocks), count + 1).astype(int).tolist()
            for part in _run(ray, [partial(_add_run, sent, *run) for run in pairwise(ends)]):
                totals += torch.from_numpy(part)
            return totals

        with passes_by(add):
            yield


def _add_run(sent: Any, first: int, last: int) -> Any:
    """Compute the totals of some blocks, in a worker."""
    import ray

    work, totals, blocks = ray.cloudpickle.loads(ray.get(sent))
    for block in blocks[first:last]:
        work(block)
    return totals.numpy()


def _dumps(ray: Any, thing: Any, tree: Hierarchy) -> bytes:
    """Pickle an object, with the names of opened files in place of their contents."""

    class Pickler(ray.cloudpickle.CloudPickler):  # type: ignore[misc]
        def reducer_override(self, part: Any) -> Any:
            if isinstance(part, FeatureShards):
                names = tuple(str(Path(name).resolve()) for name in part.names)
                return _opened_again, (names, tree, part.labels, bool(len(part.logits)))
            return super().reducer_override(part)

    file = io.BytesIO()
    Pickler(file).dump(thing)
    return file.getvalue()


def _opened_again(names: tuple[str, ...], tree: Hierarchy, labels: Tensor, logits: bool) -> FeatureShards:
    shards = _opened(names, tree)
    return FeatureShards(shards.features, labels, shards.logits if logits else (), shards.names)


@cache
def _opened(names: tuple[str, ...], tree: Hierarchy) -> FeatureShards:
    return FeatureShards.open(names, tree)


def _run(ray: Any, tasks: Sequence[Callable[[], Any]]) -> list[Any]:
    """The results of tasks, in order. Each is a row of a data set, and Ray repeats those of lost workers."""
    rows = [{"number": number, "task": ray.cloudpickle.dumps(task)} for number, task in enumerate(tasks)]
    data = ray.data.from_items(rows, override_num_blocks=len(rows)).map(_run_row)
    done = sorted(data.take_all(), key=lambda row: row["number"])
    if problems := [row["problem"] for row in done if row["problem"]]:
        raise ValueError(problems[0])
    return [ray.cloudpickle.loads(row["result"]) for row in done]


def _run_row(row: dict[str, Any]) -> dict[str, Any]:
    """Run a task in a worker; return errors with its file, which the caller raises instead of Ray."""
    import ray

    result, problem = None, ""
    try:
        result = ray.cloudpickle.loads(row["task"])()
    except (ValueError, OSError) as error:
        problem = str(error) or type(error).__name__
    return {"number": row["number"], "result": ray.cloudpickle.dumps(result), "problem": problem}


@contextmanager
def _cluster() -> Iterator[Any]:
    """The caller's cluster, else that of RAY_ADDRESS, else one on this machine, shut down at the end."""
    ray = import_optional("ray.data", "--engine ray needs", "cophenet[ray]")
    import_optional("ray.cloudpickle", "--engine ray needs", "cophenet[ray]")
    if ray.is_initialized():
        yield ray
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no telemetry
    ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    ray.data.DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    try:
        yield ray
    finally:
        ray.shutdown()
