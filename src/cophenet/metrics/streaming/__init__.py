"""Metrics of features that do not fit into memory: read from mapped files, block by block, in a few passes.

`FeatureShards` are the files. Every number here is a sum over blocks, so that memory is bounded by a block,
time grows with the number of samples, and processes of a running process group each take a share of the
blocks of files that all of them see; all of them get the result. The values are those of `class_distances`
and of the functions in `cophenet.metrics`.
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
