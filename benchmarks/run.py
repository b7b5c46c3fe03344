"""All benchmarks one after the other: `make bench`."""

from __future__ import annotations

import decoding
import distances
import loading
import metrics
import models
import objectives
import orders
import whole_sets


def main() -> None:
    """Print every table; the numbers are written to benchmarks/results."""
    for benchmark in (distances, orders, whole_sets, objectives, metrics, loading, decoding, models):
        benchmark.main()


if __name__ == "__main__":
    main()
