"""Whether the data is that which a run began with: checksums of labels and inputs."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from cophenet.data import ArrayInputs, Samples
from cophenet.data.images import ImageFiles

if TYPE_CHECKING:
    from cophenet.runs.experiment import Experiment
    from cophenet.runs.run import Run

__all__ = ["check_same_data", "describe_data", "fingerprint"]

_ROWS = 4096


def fingerprint(samples: Samples) -> str:
    """A checksum of the inputs: of values in memory; of the names and sizes of files, not of their pixels.

    Names are relative to the folder that all files are in, so data may move. Inputs of other kinds have none,
    and give an empty text.

    Example:
        >>> import torch
        >>> from cophenet import Hierarchy
        >>> tree, rows = Hierarchy.from_paths([("a", "b"), ("a", "c")]), np.arange(2)
        >>> one, other = (
        ...     fingerprint(Samples(ArrayInputs(torch.eye(2) * size), rows, rows, tree)) for size in (1, 2)
        ... )
        >>> len(one), one == other
        (16, False)
    """
    digest = hashlib.sha256()
    if isinstance(samples.inputs, ArrayInputs):
        for start in range(0, len(samples), _ROWS):
            values = samples.inputs.take(samples.rows[start : start + _ROWS])
            digest.update(np.ascontiguousarray(values.numpy()).data)
    elif isinstance(samples.inputs, ImageFiles):
        paths = [samples.inputs.paths[row] for row in samples.rows.tolist()]
        base = len(os.path.commonpath([os.path.dirname(path) for path in paths]))  # noqa: PTH120
        for path in paths:
            digest.update(f"{path[base:]}\0{os.stat(path).st_size}\0".encode())  # noqa: PTH116
    else:
        return ""
    return digest.hexdigest()[:16]


def describe_data(experiment: Experiment) -> dict[str, Any]:
    """How many samples there are, and checksums of their labels and inputs."""
    described: dict[str, Any] = {}
    for part, samples in (("train", experiment.train), ("test", experiment.test)):
        digest = hashlib.sha256(samples.labels.tobytes()).hexdigest()[:16]
        described[part] = {"count": len(samples), "labels": digest, "inputs": fingerprint(samples)}
    return described


def check_same_data(run: Run, experiment: Experiment) -> None:
    """Refuse to go on with other data than the run began with.

    Raises:
        ValueError: If samples were added, removed, replaced or labelled otherwise, or the tree is another.
    """
    before, now = run.info["samples"], describe_data(experiment)
    # What was not recorded, by an earlier version, is not compared.
    changed = [(part, key) for part in before for key in before[part] if before[part][key] != now[part][key]]
    if not changed and experiment.tree == run.tree:
        return
    told = "another tree"
    if changed:
        part, key = changed[0]
        was, is_now = before[part][key], now[part][key]
        other = {"labels": "other labels", "inputs": "other files or values"}
        told = f"{part} {was} then, {is_now} now" if key == "count" else f"{part} has {other[key]}"
    raise ValueError(
        f"the data is not what run {run.path} began with ({told}): restore it, or begin another run"
    )
