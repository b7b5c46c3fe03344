"""Batch sampling by the label tree, and sharding of batches over processes.

`HierarchicalBatchSampler` first plans which classes each batch of an epoch contains: drawn at random, but
each class at least as often as required. Requirements are counted in visits; a visit is one batch that
contains the class. A plan has `rows` batches of `per_row` different items each; it exists if no item needs
more visits than there are rows, and the total number of visits is at most `rows * per_row`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch.distributed as dist
from numpy.typing import ArrayLike, NDArray
from torch.utils.data import Sampler

from cophenet._common.checks import check_whole, wrong_argument
from cophenet.tree import Hierarchy

__all__ = [
    "Groups",
    "HierarchicalBatchSampler",
    "check_rank",
    "check_start",
    "enough_rows",
    "fill_up",
    "shard",
]

Indices = NDArray[np.int64]


class HierarchicalBatchSampler(Sampler[list[int]]):
    """Batches of `classes_per_batch` classes with `samples_per_class` different samples of each.

    For a `DataLoader(batch_sampler=...)`, or for `Loader(sampler=...)`. The batches are a function of seed
    and epoch. In an epoch every sample is used at least once: the samples of each class are used in a random
    order, repeated for smaller classes, and places that remain are given to the least visited classes. So
    samples of small classes are repeated; the larger the largest class, the longer the epoch. No sample
    occurs twice in a batch.

    In distributed training each process gets its shard of the same batch, contiguous and in order of rank,
    and the same number of batches.

    Args:
        labels: (n,) class of each sample, positions in the tree's classes. Classes without samples are not in
            any batch.
        tree: The label tree.
        classes_per_batch: Number of different classes in a batch.
        samples_per_class: Number of samples of each of them; no class may have fewer.
        parents_per_batch: Number of different parents in a batch, with an equal number of classes each, so
            that batches contain classes that are close in the tree. None draws classes independently of
            their parents.
        level: Level of the parents, by depth or name: a class's parent is its ancestor there. None for the
            node directly above each class.
        seed: Determines the batches.
        rank: Which shard of every batch to return; None for the rank in the process group, if there is one.
        world_size: Number of processes that share a batch; None likewise.

    Attributes:
        batch_size: Samples of a batch, of all processes together.
        epoch: The epoch of the next iteration.

    Raises:
        ValueError: If there are too few classes, parents, children of a parent or samples of a class.

    Example:
        >>> tree = Hierarchy.from_paths(["pet/cat", "pet/dog", "car/bus", "car/van"], sep="/")
        >>> labels = np.arange(80) % 4
        >>> sampler = HierarchicalBatchSampler(labels, tree, 4, 5, parents_per_batch=2)
        >>> len(sampler), [np.bincount(labels[batch]).tolist() for batch in sampler][0]
        (4, [5, 5, 5, 5])
    """

    def __init__(
        self,
        labels: ArrayLike,
        tree: Hierarchy,
        classes_per_batch: int,
        samples_per_class: int,
        parents_per_batch: int | None = None,
        *,
        level: int | str | None = None,
        seed: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
    ) -> None:
        sizes = {"classes_per_batch": classes_per_batch, "samples_per_class": samples_per_class}
        for name, value in sizes.items():
            check_whole(name, value, 1)
        check_whole("seed", seed, 0)
        self.labels = _checked(labels, tree)
        self.classes_per_batch, self.samples_per_class = classes_per_batch, samples_per_class
        self.parents_per_batch = parents_per_batch
        self.batch_size = classes_per_batch * samples_per_class
        self.seed, self.epoch = seed, 0
        self.rank, self.world_size = _place(rank, world_size)
        self._start = self._done = 0
        self._classes, self._place, self._counts = np.unique(
            self.labels, return_inverse=True, return_counts=True
        )
        self._check_sizes(tree)
        self._per_row = parents_per_batch or 1
        self._groups = Groups(self._grouped(tree, level))
        self._check_groups(tree)
        self._visits = -(-self._counts // samples_per_class)
        self._rows = enough_rows(self._groups.needs(self._visits, self._per_group), self._per_row)

    def __len__(self) -> int:
        """Number of batches in an epoch, the same in every epoch and process."""
        return self._rows

    def set_epoch(self, epoch: int, start: int = 0) -> None:
        """Set the epoch and first batch of the next iteration.

        Args:
            epoch: Number of the epoch, from 0.
            start: The first batch, for a run that was interrupted.
        """
        check_start(epoch, start, len(self))
        self.epoch, self._start, self._done = epoch, start, start

    def state_dict(self) -> dict[str, int]:
        """The state of the sampler: the epoch, and the number of its batches that were returned.

        Workers of a `DataLoader` request batches ahead of training; with workers, count the training steps
        and call `set_epoch(epoch, steps)` instead.
        """
        return {"epoch": self.epoch, "start": self._done}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from the state of another sampler with the same settings."""
        self.set_epoch(state["epoch"], state["start"])

    def __iter__(self) -> Iterator[list[int]]:
        """Iterate over this process's shards of the batches; after the last one advance to the next epoch."""
        own = shard(self.batch_size, self.rank, self.world_size)
        self._done = self._start
        for batch in self.plan(self.epoch)[self._start :, own].tolist():
            self._done += 1
            yield batch
        self.set_epoch(self.epoch + 1)

    def plan(self, epoch: int) -> Indices:
        """All whole batches of an epoch: (batches, batch_size) positions of samples."""
        rng = np.random.default_rng((self.seed, epoch))
        shape = (self._rows, self._per_row, self._per_group)
        classes = _draw_classes(self._visits, self._groups, shape, rng).ravel()
        walk = np.lexsort((rng.random(len(self.labels)), self._place))
        starts = np.cumsum(self._counts) - self._counts
        first = _occurrence(classes) * self.samples_per_class
        steps = (first[:, None] + np.arange(self.samples_per_class)) % self._counts[classes, None]
        samples = walk[starts[classes, None] + steps].reshape(self._rows, self.batch_size)
        return rng.permuted(samples, axis=1)

    @property
    def _per_group(self) -> int:
        return self.classes_per_batch // self._per_row

    def _check_sizes(self, tree: Hierarchy) -> None:
        if self.classes_per_batch > len(self._classes):
            raise wrong_argument(
                "classes_per_batch",
                f"must not exceed the {len(self._classes)} classes that have samples, "
                f"got {self.classes_per_batch}",
            )
        if self._counts.min() < self.samples_per_class:
            least = int(self._counts.argmin())
            raise wrong_argument(
                "samples_per_class",
                f"must not exceed the samples of a class: got {self.samples_per_class}, "
                f"but class {tree.classes[self._classes[least]]!r} has {self._counts[least]}",
            )

    def _grouped(self, tree: Hierarchy, level: int | str | None) -> Indices:
        """(k,) group number of every class that has samples."""
        if self.parents_per_batch is None:
            if level is not None:
                raise wrong_argument(
                    "level", f"says what a parent is; give parents_per_batch too, got {level!r}"
                )
            return np.zeros(len(self._classes), dtype=np.int64)
        check_whole("parents_per_batch", self.parents_per_batch, 1)
        if self.classes_per_batch % self.parents_per_batch:
            raise wrong_argument(
                "classes_per_batch",
                f"must be a multiple of parents_per_batch, got {self.classes_per_batch} "
                f"and {self.parents_per_batch}",
            )
        above = tree.parents[tree.leaves] if level is None else tree.ancestors(level)
        self._nodes, group = np.unique(above[self._classes], return_inverse=True)
        return group

    def _check_groups(self, tree: Hierarchy) -> None:
        sizes = self._groups.sizes
        if self._per_row > len(sizes):
            raise wrong_argument(
                "parents_per_batch",
                f"must not exceed the {len(sizes)} parents of classes that have samples, got {self._per_row}",
            )
        if sizes.min() < self._per_group:
            least = int(sizes.argmin())
            name = "/".join(tree.path(int(self._nodes[least]))) or tree.names[0]
            raise ValueError(
                f"every parent must have {self._per_group} classes with samples, classes_per_batch / "
                f"parents_per_batch, but {name!r} has {sizes[least]}; a coarser level= has larger groups"
            )


def _checked(labels: ArrayLike, tree: Hierarchy) -> Indices:
    if not isinstance(tree, Hierarchy):
        raise ValueError(f"tree must be a cophenet.Hierarchy, got {type(tree).__name__}")
    given = np.asarray(labels)
    if given.ndim != 1 or given.dtype.kind not in "iu" or not len(given):
        raise ValueError(f"labels must be integers of shape (n,), n > 0, got {given.shape} {given.dtype}")
    if given.min() < 0 or given.max() >= tree.num_classes:
        wrong = given.min() if given.min() < 0 else given.max()
        raise ValueError(
            f"labels must lie in 0..{tree.num_classes - 1}, the classes of the tree, got {wrong}"
        )
    return given.astype(np.int64)


def _place(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """Rank and number of processes; if not given, those of the process group."""
    if (rank is None) != (world_size is None):
        raise ValueError(f"give both rank and world_size, or none of them; got {rank} and {world_size}")
    if rank is None or world_size is None:
        running = dist.is_available() and dist.is_initialized()
        return (dist.get_rank(), dist.get_world_size()) if running else (0, 1)
    check_rank(rank, world_size)
    return rank, world_size


def _occurrence(values: Indices) -> Indices:
    """For each value, the number of equal values before it.

    Example:
        >>> _occurrence(np.array([4, 1, 4, 4, 1]))
        array([0, 0, 1, 2, 1])
    """
    order = np.argsort(values, kind="stable")
    counts = np.bincount(values)
    before = np.empty_like(order)
    before[order] = np.arange(len(values)) - np.repeat(np.cumsum(counts) - counts, counts)
    return before


def enough_rows(needs: Indices, per_row: int) -> int:
    """The minimum number of rows that gives every item the visits it needs.

    Example:
        >>> enough_rows(np.array([2, 2, 2]), 2), enough_rows(np.array([5, 1, 1]), 2)
        (3, 5)
    """
    return max(int(needs.max()), -(-int(needs.sum()) // per_row))


def fill_up(needs: Indices, per_row: int, rows: int, rng: np.random.Generator) -> Indices:
    """Visits of each item that fill all `rows * per_row` places: those needed, the rest to the least visited.

    Example:
        >>> fill_up(np.array([5, 1, 1]), 2, 5, np.random.default_rng(0)).tolist()
        [5, 2, 3]
    """
    total = rows * per_row
    low, high = 0, rows
    while low < high:  # binary search for the highest common minimum that fits
        middle = (low + high + 1) // 2
        low, high = (middle, high) if np.maximum(needs, middle).sum() <= total else (low, middle - 1)
    visits: Indices = np.maximum(needs, low)
    lowest = np.flatnonzero(visits == low)
    visits[rng.choice(lowest, total - int(visits.sum()), replace=False)] += 1
    return visits


class Groups:
    """Items in groups, stored as rows of a table that is as wide as the largest group.

    Args:
        group: (n,) group number of every item; each of 0..g-1 occurs at least once.
    """

    def __init__(self, group: Indices) -> None:
        self.sizes: Indices = np.bincount(group)
        order = np.argsort(group, kind="stable")
        place = np.arange(len(group)) - np.repeat(np.cumsum(self.sizes) - self.sizes, self.sizes)
        self.members: Indices = np.full((len(self.sizes), int(self.sizes.max())), -1)
        self.members[group[order], place] = order

    def needs(self, visits: Indices, per_group: int) -> Indices:
        """(g,) number of rows that each group needs, given the visits (n,) that its items need."""
        return np.array([enough_rows(visits[own], per_group) for own in self._lists()])

    def fill_up(self, visits: Indices, per_group: int, rows: Indices, rng: np.random.Generator) -> Indices:
        """Visits of all items as a table like `members`, padded with 0, given the rows (g,) of the groups."""
        table = np.zeros_like(self.members)
        for line, own in enumerate(self._lists()):
            table[line, : len(own)] = fill_up(visits[own], per_group, int(rows[line]), rng)
        return table

    def _lists(self) -> list[Indices]:
        return [line[:size] for line, size in zip(self.members, self.sizes, strict=True)]


def _draw_classes(
    visits: Indices, groups: Groups, shape: tuple[int, int, int], rng: np.random.Generator
) -> Indices:
    """Draw the classes of every batch.

    Args:
        visits: (n,) visits that every class needs.
        groups: Groups of the classes.
        shape: Number of batches, of groups per batch, and of classes per group.
        rng: Random generator.

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


def _draw(left: Indices, rows_left: Indices, count: int, rng: np.random.Generator) -> Indices:
    """Draw different columns of each line, with weights proportional to their remaining visits.

    A column that is needed in all remaining rows is always drawn, so that no visits are left at the end.
    Shapes: (l, n), (l, 1) -> (l, count).
    """
    keys = rng.standard_exponential(left.shape) / left
    keys[left == rows_left] = -1
    return np.argpartition(keys, count - 1, axis=1)[:, :count]


def check_rank(rank: int, world_size: int) -> None:
    """Raise if a rank is not in 0..world_size-1.

    Example:
        >>> check_rank(2, 2)
        Traceback (most recent call last):
        ValueError: rank must be below world_size 2, got 2
    """
    check_whole("rank", rank, 0)
    check_whole("world_size", world_size, 1)
    if rank >= world_size:
        raise ValueError(f"rank must be below world_size {world_size}, got {rank}")


def check_start(epoch: int, start: int, batches: int) -> None:
    """Raise if an epoch or a first batch is out of range.

    Example:
        >>> check_start(0, 4, batches=3)
        Traceback (most recent call last):
        ValueError: start must not exceed the 3 batches of an epoch, got 4
    """
    check_whole("epoch", epoch, 0)
    check_whole("start", start, 0)
    if start > batches:
        raise ValueError(f"start must not exceed the {batches} batches of an epoch, got {start}")


def shard(size: int, rank: int, world_size: int, begin: int = 0) -> slice:
    """The part of a batch for one process: contiguous, in order of rank, sizes differ by at most one.

    Args:
        size: Number of samples in the batch.
        rank: Rank of the process.
        world_size: Number of processes that share the batch.
        begin: Position of the first sample of the batch.

    Example:
        >>> [shard(5, rank, 3) for rank in range(3)]
        [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    least, more = divmod(size, world_size)
    start = begin + rank * least + min(rank, more)
    return slice(start, start + least + (rank < more))
