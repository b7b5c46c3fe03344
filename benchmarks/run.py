"""All benchmarks one after the other: `make bench`."""

from __future__ import annotations

import distances
import orders
import whole_sets


def main() -> None:
    """Print every table; the numbers are written to benchmarks/results."""
    for benchmark in (distances, orders, whole_sets):
        benchmark.main()


if __name__ == "__main__":
    main()
