"""Which classes each batch of an epoch has: drawn at random, yet every class as often as it must be.

Needs are counted in visits, a visit being one batch that a class is in. A plan has `rows` batches of
`per_row` different items each; it exists if no item needs more visits than there are rows, and all
together no more than there are places.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["Groups", "draw_classes", "enough_rows", "fill_up"]

Counts = NDArray[np.int64]


def enough_rows(needs: Counts, per_row: int) -> int:
    """The least number of rows that give every item the visits it needs.

    Example:
        >>> enough_rows(np.array([2, 2, 2]), 2), enough_rows(np.array([5, 1, 1]), 2)
        (3, 5)
    """
    return max(int(needs.max()), -(-int(needs.sum()) // per_row))


def fill_up(needs: Counts, per_row: int, rows: int, rng: np.random.Generator) -> Counts:
    """Visits that fill all places, at least those needed: what is left over goes to the least visited.

    Example:
        >>> fill_up(np.array([5, 1, 1]), 2, 5, np.random.default_rng(0)).tolist()
        [5, 2, 3]
    """
    total = rows * per_row
    low, high = 0, rows
    while low < high:  # the highest common level that all places can hold
        middle = (low + high + 1) // 2
        low, high = (middle, high) if np.maximum(needs, middle).sum() <= total else (low, middle - 1)
    visits: Counts = np.maximum(needs, low)
    lowest = np.flatnonzero(visits == low)
    visits[rng.choice(lowest, total - int(visits.sum()), replace=False)] += 1
    return visits


class Groups:
    """Items in groups, as rows of a table that is as wide as the largest group.

    Args:
        group: (n,) group of every item, each of 0..g-1 at least once.
    """

    def __init__(self, group: Counts) -> None:
        self.sizes: Counts = np.bincount(group)
        order = np.argsort(group, kind="stable")
        place = np.arange(len(group)) - np.repeat(np.cumsum(self.sizes) - self.sizes, self.sizes)
        self.members: Counts = np.full((len(self.sizes), int(self.sizes.max())), -1)
        self.members[group[order], place] = order

    def needs(self, visits: Counts, per_group: int) -> Counts:
        """(g,) rows that each group needs, for the visits (n,) that its items need."""
        return np.array([enough_rows(visits[own], per_group) for own in self._lists()])

    def fill_up(self, visits: Counts, per_group: int, rows: Counts, rng: np.random.Generator) -> Counts:
        """Visits of all items as a table like `members`, 0 where there is none, for (g,) rows of groups."""
        table = np.zeros_like(self.members)
        for line, own in enumerate(self._lists()):
            table[line, : len(own)] = fill_up(visits[own], per_group, int(rows[line]), rng)
        return table

    def _lists(self) -> list[Counts]:
        return [line[:size] for line, size in zip(self.members, self.sizes, strict=True)]


def draw_classes(
    visits: Counts, groups: Groups, shape: tuple[int, int, int], rng: np.random.Generator
) -> Counts:
    """Draw the classes of every batch.

    Args:
        visits: (n,) visits that every class needs.
        groups: Groups of the classes.
        shape: How many batches there are, groups in each batch, and classes of each of its groups.
        rng: Where chance comes from.

    Returns:
        (rows, groups per batch * classes per group) classes, all different within a row.
    """
    rows, per_row, per_group = shape
    group_left = fill_up(groups.needs(visits, per_group), per_row, rows, rng)[None]
    left = groups.fill_up(visits, per_group, group_left[0], rng)
    classes = np.empty((rows, per_row, per_group), dtype=np.int64)
    with np.errstate(divide="ignore"):
        for row in range(rows):
            chosen = _draw(group_left, np.array([[rows - row]]), per_row, rng)[0]
            rests = left[chosen]
            inside = _draw(rests, group_left[0, chosen, None], per_group, rng)
            group_left[0, chosen] -= 1
            left[chosen[:, None], inside] -= 1
            classes[row] = np.take_along_axis(groups.members[chosen], inside, axis=1)
    return classes.reshape(rows, per_row * per_group)


def _draw(left: Counts, rows_left: Counts, count: int, rng: np.random.Generator) -> Counts:
    """Different columns of each line, by chance in proportion to what is left of them.

    A column that must be in every row still to come is taken for certain: so none is left over at the end.
    Shapes: (l, n), (l, 1) -> (l, count).
    """
    keys = rng.standard_exponential(left.shape) / left
    keys[left == rows_left] = -1
    return np.argpartition(keys, count - 1, axis=1)[:, :count]
