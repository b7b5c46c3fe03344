"""One of two processes that measure the same files together; prints its results as JSON."""

import json
import sys

import torch
import torch.distributed as dist

from cophenet import Hierarchy
from cophenet.metrics import streaming
from cophenet.metrics.streaming import FeatureShards, distances, scores


def error_of(function):
    try:
        function()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def main(meeting: str, rank: int, paths: list[str]) -> None:
    torch.set_num_threads(1)
    scores._BLOCK_NUMBERS, distances._SLICE_NUMBERS = 40, 80
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=2)
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
    print(json.dumps(results))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
