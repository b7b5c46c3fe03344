"""Whether the data is that which a run began with: checksums of labels and inputs."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cophenet.runs.experiment import Experiment
    from cophenet.runs.run import Run

__all__ = ["check_same_data", "describe_data"]


def describe_data(experiment: Experiment) -> dict[str, Any]:
    """How many samples there are, and checksums of their labels and inputs."""
    described: dict[str, Any] = {}
    for part, samples in (("train", experiment.train), ("test", experiment.test)):
        digest = hashlib.sha256(samples.labels.tobytes()).hexdigest()[:16]
        described[part] = {"count": len(samples), "labels": digest, "inputs": samples.fingerprint()}
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
