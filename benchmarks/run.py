"""All benchmarks one after the other: `make bench`."""

from __future__ import annotations

import decoding
import distances
import distributed
import large_evaluation
import loading
import memory
import metrics
import models
import objectives
import orders
import whole_sets


def main() -> None:
    """Print every table; the numbers are written to benchmarks/results."""
    small = (
        distances,
        orders,
        whole_sets,
        objectives,
        memory,
        distributed,
        metrics,
        loading,
        decoding,
        models,
    )
    for benchmark in (*small, large_evaluation):
        benchmark.main()


if __name__ == "__main__":
    main()
