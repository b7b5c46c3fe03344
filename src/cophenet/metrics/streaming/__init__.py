"""Metrics of features that do not fit into memory: read from mapped files, block by block, in a few passes.

`FeatureShards` represents the files. Every metric is computed from sums over blocks, so that memory for
features is bounded by the size of a block and time grows with the number of samples. If a process group is
running, each process computes a share of the blocks, of files that all processes can read, and all processes
return the result. The values equal those of `class_distances` and of the functions in `cophenet.metrics`.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from cophenet._common.lazy import lazy_names

if TYPE_CHECKING:
    from cophenet.metrics.streaming.distances import stream_cpcc, stream_distances
    from cophenet.metrics.streaming.scores import stream_accuracy, stream_map, stream_prototypes
    from cophenet.metrics.streaming.shards import FeatureShards

__all__ = [
    "FeatureShards",
    "StreamedDistance",
    "stream_accuracy",
    "stream_cpcc",
    "stream_distances",
    "stream_map",
    "stream_prototypes",
]


class StreamedDistance(str, Enum):
    """Class distances of features that are not held in memory."""

    L2 = "l2"
    FASTFT = "fastft"


__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "distances": ["stream_cpcc", "stream_distances"],
        "scores": ["stream_accuracy", "stream_map", "stream_prototypes"],
        "shards": ["FeatureShards"],
    },
    also=__all__,
)
