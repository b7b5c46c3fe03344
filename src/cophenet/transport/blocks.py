"""Class pairs as padded blocks, for dense computations on many pairs at once.

Classes of similar size are grouped, so that there is little padding. The pairs between two groups form
a *strip*: one matrix between the samples of both groups, and the blocks (p, m, n) of its pairs. The size
of a strip is limited, which bounds the memory of computations that go strip by strip.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from cophenet.transport.batch import ClassBatch, is_host

__all__ = ["Strip", "pair_strips"]

Indices = NDArray[np.int64]

_STRIP_ELEMENTS = 1 << 23
_MAX_GROUPS = 6
# Up to this many padded elements the overhead of calls dominates: on the host, and on an accelerator, where
# every strip costs launches and some cost a wait.
_SMALL, _DEVICE_SMALL = 1 << 19, _STRIP_ELEMENTS
# Acceptable number of padded elements per real one.
_WASTE = 1.6


@dataclass(frozen=True, eq=False)
class Side:
    """The classes on one side of a strip, each padded to the size of the largest.

    Attributes:
        rows: (R,) the rows of the batch, class by class.
        padded: (c * m,) for every slot of every class its position in `rows`; padding repeats a sample.
        slots: (R,) the slot of every position in `rows`.
        filled: (c, m) False on padding.
        mass: (c, m) flow weights, zero on padding.
    """

    rows: Tensor
    padded: Tensor
    slots: Tensor
    filled: Tensor
    mass: Tensor

    @classmethod
    def of(cls, batch: ClassBatch, classes: Indices) -> Side:
        """The side made of some classes of a batch."""
        counts = batch.counts[classes]
        start = np.cumsum(counts) - counts
        rows = np.arange(counts.sum()) + np.repeat(batch.offsets[classes] - start, counts)
        slot = np.arange(counts.max())
        filled = slot < counts[:, None]
        padded = (start[:, None] + np.minimum(slot, counts[:, None] - 1)).ravel()
        mass = batch.mass.index_select(0, batch.on_device(rows[padded])).view(filled.shape)
        return cls(
            rows=batch.on_device(rows),
            padded=batch.on_device(padded),
            slots=batch.on_device(np.flatnonzero(filled)),
            filled=batch.on_device(filled),
            mass=mass * batch.on_device(filled),
        )


def _select_columns(matrix: Tensor, columns: Tensor) -> Tensor:
    """Some columns of a matrix; on the host several times faster than `index_select`."""
    return matrix.gather(1, columns.expand(len(matrix), -1))


@dataclass(frozen=True, eq=False)
class Strip:
    """Class pairs of similar sizes, processed together.

    The *row* class of a pair is the one from the group of smaller classes: the pair's first class,
    unless `swapped`.

    Attributes:
        pairs: (p,) position of every pair among the batch's pairs.
        swapped: (p,) whether the row class is the second class of the pair.
        rows: The row classes.
        columns: The column classes; the same object as `rows` where pairs lie within one group.
        row_class: (p,) the pair's row class, among those of `rows`.
        column_class: (p,) the pair's column class, among those of `columns`.
    """

    pairs: Tensor
    swapped: NDArray[np.bool_]
    rows: Side
    columns: Side
    row_class: Tensor
    column_class: Tensor

    @property
    def row_mass(self) -> Tensor:
        """(p, m) flow weights of the row classes, zero on padding."""
        return self.rows.mass.index_select(0, self.row_class)

    @property
    def column_mass(self) -> Tensor:
        """(p, n) flow weights of the column classes, zero on padding."""
        return self.columns.mass.index_select(0, self.column_class)

    @property
    def filled(self) -> Tensor:
        """(p, m, n) False where a block is padding."""
        row, column = self.rows.filled[self.row_class], self.columns.filled[self.column_class]
        return row[:, :, None] & column[:, None, :]

    def _grid(self) -> tuple[int, int, int, int]:
        return *self.rows.mass.shape, *self.columns.mass.shape

    def take(self, matrix: Tensor) -> Tensor:
        """Cut the blocks of the pairs from a matrix between all samples: (R, C) -> (p, m, n)."""
        padded = _select_columns(matrix.index_select(0, self.rows.padded), self.columns.padded)
        blocks = padded.view(self._grid())[self.row_class, :, self.column_class, :]
        return blocks.contiguous()

    def put(self, blocks: Tensor) -> Tensor:
        """Lay blocks out as a matrix between all samples, zero elsewhere: (p, m, n) -> (R, C)."""
        grid = blocks.new_zeros(self._grid())
        grid[self.row_class, :, self.column_class, :] = blocks
        padded = grid.view(len(self.rows.padded), len(self.columns.padded))
        return _select_columns(padded.index_select(0, self.rows.slots), self.columns.slots)

    def row_samples(self, pair: Tensor, slot: Tensor) -> Tensor:
        """The batch rows in the given slots of the row classes of pairs."""
        width = self.rows.mass.shape[1]
        return self.rows.rows[self.rows.padded[self.row_class[pair] * width + slot]]

    def column_samples(self, pair: Tensor, slot: Tensor) -> Tensor:
        """The batch rows in the given slots of the column classes of pairs."""
        width = self.columns.mass.shape[1]
        return self.columns.rows[self.columns.padded[self.column_class[pair] * width + slot]]


def _size_groups(counts: Indices, small: int) -> Indices:
    """(k,) group of every class, by ascending size, so that padding to a group's largest wastes little.

    Up to `small` padded elements all classes are one group.
    """
    order = np.argsort(counts, kind="stable")
    sizes = counts[order]
    limit = max(small, _WASTE * float(counts.sum()) ** 2)
    bounds = [0, len(counts)]
    while len(bounds) <= _MAX_GROUPS:
        pieces = list(pairwise(bounds))
        if sum((high - low) * int(sizes[high - 1]) for low, high in pieces) ** 2 <= limit:
            break
        # Padding saved by splitting the group [low, high), for every position of the split.
        saved = np.concatenate(
            [
                np.arange(high - low) * (sizes[high - 1] - sizes[np.arange(low, high) - 1])
                for low, high in pieces
            ]
        )
        bounds = sorted([*bounds, int(saved.argmax())])
    group = np.empty_like(order)
    group[order] = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    return group


def _rank_in_group(group: Indices) -> Indices:
    order = np.argsort(group, kind="stable")
    sizes = np.bincount(group)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(group)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return rank


def _strip_keys(counts: Indices, group: Indices, row: Indices, column: Indices, elements: int) -> Indices:
    """(P,) key of every pair; pairs of one strip have the same key."""
    classes = np.bincount(group)
    width = np.zeros_like(classes)
    np.maximum.at(width, group, counts)
    rank = _rank_in_group(group)
    g, h = group[row], group[column]
    block = width[g] * width[h]
    column_step = np.clip(elements // block, 1, classes[h])
    row_step = np.clip(elements // (block * column_step), 1, classes[g])
    code = (g * len(classes) + h) * len(counts) + rank[row] // row_step
    key: Indices = code * len(counts) + rank[column] // column_step
    return key


def pair_strips(batch: ClassBatch, elements: int = _STRIP_ELEMENTS) -> Iterator[Strip]:
    """Divide a batch's pairs into strips.

    Args:
        batch: The grouped batch.
        elements: Maximum number of padded elements of a strip (a single pair may have more).

    Example:
        >>> import torch
        >>> from cophenet.transport.grouping import group_by_class
        >>> batch = group_by_class(torch.eye(4), torch.tensor([0, 1, 1, 2]))
        >>> [strip.take(torch.ones(4, 4)).shape for strip in pair_strips(batch)]
        [torch.Size([3, 2, 2])]
    """
    group = _size_groups(batch.counts, _SMALL if is_host(batch.given) else _DEVICE_SMALL)
    swapped = group[batch.first] > group[batch.second]
    row = np.where(swapped, batch.second, batch.first)
    column = np.where(swapped, batch.first, batch.second)
    _, strip_of = np.unique(_strip_keys(batch.counts, group, row, column, elements), return_inverse=True)
    order = np.argsort(strip_of, kind="stable")
    sides: dict[bytes, Side] = {}
    for pairs in np.split(order, np.flatnonzero(np.diff(strip_of[order])) + 1) if len(order) else []:
        row_classes, column_classes = np.unique(row[pairs]), np.unique(column[pairs])
        together = np.union1d(row_classes, column_classes)
        if len(together) <= 1 + min(len(row_classes), len(column_classes)):
            # Pairs within one group: the first row class is no column, the last column no row.
            row_classes = column_classes = together
        rows, columns = (
            sides.get(classes.tobytes()) or sides.setdefault(classes.tobytes(), Side.of(batch, classes))
            for classes in (row_classes, column_classes)
        )
        yield Strip(
            pairs=batch.on_device(pairs),
            swapped=swapped[pairs],
            rows=rows,
            columns=columns,
            row_class=batch.on_device(np.searchsorted(row_classes, row[pairs])),
            column_class=batch.on_device(np.searchsorted(column_classes, column[pairs])),
        )
