"""What runs of the paper's recipes cost on a laptop."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cophenet.paper.plan import epochs_of
from cophenet.paper.variants import Arm

__all__ = ["laptop_minutes"]

# Minutes of an epoch and of an evaluation at laptop scale on one core. CIFAR-100: of real runs (epochs of
# 10.6 s at best); CIFAR-10 has the same network and as many images. The others: images per second of the best
# steps on made-up files (as benchmarks/reproduce_costs.py does), by the clock on busy cores, and so rather
# too high: a CIFAR-100 step took 2.8 times as long there as in real runs.
_MINUTES = {
    "cifar10": (0.18, 0.33),
    "cifar100": (0.18, 0.33),
    "inat21-mini": (21.6, 18.6),
    "living17": (2.0, 1.3),
    "nonliving26": (3.0, 2.0),
    "entity13": (7.6, 5.1),
    "entity30": (7.0, 4.7),
}


def laptop_minutes(
    entries: Iterable[tuple[str, Arm, tuple[int, ...]]], overrides: Sequence[str] = ()
) -> float | None:
    """Minutes of all these runs together on one core, trained and evaluated one after the other.

    All arms of a recipe are taken to cost the same, as with its own objective.

    Args:
        entries: Recipe, arm and seeds, as `wanted` gives them.
        overrides: Settings changed in every recipe, of which the epochs count.

    Returns:
        The minutes; None if a recipe is not one of the paper's.

    Example:
        >>> from cophenet.paper.items import find_items
        >>> from cophenet.paper.plan import Settings, wanted
        >>> (rank,) = find_items(("rank",))
        >>> 4 < laptop_minutes(wanted(rank, Settings("laptop"))) < 40
        True
    """
    total = 0.0
    for entry in entries:
        if entry[0] not in _MINUTES:
            return None
        epoch, evaluation = _MINUTES[entry[0]]
        total += epochs_of([entry], "laptop", overrides) * epoch + len(entry[2]) * evaluation
    return total
