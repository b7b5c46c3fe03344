"""One of two processes that measure the same files together."""

import torch

from cophenet import Hierarchy
from cophenet.metrics import streaming
from cophenet.metrics.streaming import FeatureShards, distances, scores


def error_of(function):
    try:
        function()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def measure(rank, paths):
    """Its results, in a process that does nothing else: constants and methods are replaced."""
    scores._BLOCK_NUMBERS, distances._SLICE_NUMBERS = 40, 80
    tree = Hierarchy.from_paths([(f"p{c // 2}", f"c{c}") for c in range(6)])
    shards = FeatureShards.open(paths)
    rows = []
    take = FeatureShards.take

    def counted(self, wanted):
        rows.append(len(wanted))
        return take(self, wanted)

    FeatureShards.take = counted
    results = {name: float(streaming.stream_cpcc(shards, tree, name)) for name in ("l2", "fastft")}
    results["map"] = float(streaming.stream_map(shards, streaming.stream_prototypes(shards)[1]))
    results["accuracy"] = float(streaming.stream_accuracy(shards, tree)["level1"])
    results["rows"] = rows
    # A bad number that the second process alone reads is an error in both.
    bad = [values.clone() for values in shards.features]
    bad[1][-1, 0] = torch.nan
    results["error"] = error_of(lambda: streaming.stream_distances(FeatureShards(bad, shards.labels), "l2"))
    # So is an error of another kind, such as that of a head which one process cannot compute.
    head = [lambda z: z.new_zeros(len(z), 6)][rank:]
    results["other error"] = error_of(lambda: streaming.stream_accuracy(shards, tree, lambda z: head[0](z)))
    # Processes that measure different things would wait for each other, or add up what does not fit.
    part = (
        shards if rank == 0 else FeatureShards([shards.features[0]], shards.labels[: len(shards.features[0])])
    )
    results["difference"] = error_of(lambda: streaming.stream_prototypes(part))
    return results
