"""One of two processes that measure the same files together; prints its results as JSON."""

import json
import sys

import torch
import torch.distributed as dist

from cophenet import Hierarchy
from cophenet.metrics import streaming
from cophenet.metrics.streaming import FeatureShards, distances, scores


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
    try:
        streaming.stream_distances(FeatureShards(bad, shards.labels), "l2")
    except ValueError as error:
        results["error"] = str(error)
    print(json.dumps(results))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
