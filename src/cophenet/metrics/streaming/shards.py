"""Features in several files, accessed as one data set, and passes over their blocks, split over processes."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from cophenet._common.progress import Progress, as_percent
from cophenet.cpcc.exchange import check_same_setup, process_count, tell_all
from cophenet.cpcc.module_setup import Setup
from cophenet.metrics._blocks import full_precision
from cophenet.metrics._checks import check_finite, check_indices
from cophenet.metrics.mean_average_precision import level_labels
from cophenet.tree import Hierarchy
from cophenet.vectors import label_facts, map_arrays, map_rows
from cophenet.vectors.formats import VectorFormat, find_format

__all__ = ["FeatureShards", "add_blocks", "passes_by"]


@dataclass(frozen=True, eq=False)
class FeatureShards:
    """Features (N, d) as a sequence of shards, with their labels; usually mapped files, see `open`.

    Attributes:
        features: (n, d) of every shard, floating point.
        labels: (N,) int64 of all samples, in memory.
        logits: (n, C) of every shard, in the order of the tree's classes; empty if there are none.
        names: Names of the shards in error messages, such as their files; empty for no names.

    Example:
        >>> shards = FeatureShards([torch.zeros(2, 3), torch.ones(1, 3)], torch.tensor([0, 1, 1]))
        >>> len(shards), shards.take(torch.tensor([2, 0]))[:, 0]
        (3, tensor([1., 0.]))
    """

    features: Sequence[Tensor]
    labels: Tensor
    logits: Sequence[Tensor] = ()
    names: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Check that shapes and types of features, labels and logits match."""
        if not len(self.features):
            raise ValueError("features must be at least one shard, got none")
        _check_alike("features", self.features, self.names)
        rows = sum(len(values) for values in self.features)
        if self.labels.shape != (rows,) or self.labels.dtype != torch.int64:
            given = f"{tuple(self.labels.shape)} {self.labels.dtype}"
            raise ValueError(f"labels must be int64 of shape ({rows},), got {given}")
        if len(self.logits):
            _check_alike("logits", self.logits, self.names)
            if [len(values) for values in self.logits] != [len(values) for values in self.features]:
                raise ValueError("logits must have the rows of the features in every shard")

    @classmethod
    def open(
        cls, paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], tree: Hierarchy | None = None
    ) -> FeatureShards:
        """Memory-map files of features, labels and, if all files have them, logits.

        Args:
            paths: One file or several, in order. Safetensors files hold "features", "labels" and "logits"; an
                npy file has "features" in its name, and the files beside it "labels" and "logits" instead.
                With `tree` a file may also be of any other format of `cophenet.vectors`, without logits.
            tree: The tree whose classes are named by labels that are text; numbers are class indices.

        Raises:
            FileNotFoundError: If a file is missing.
            ValueError: If a file cannot be read, or the files do not fit together.

        Example:
            >>> import pathlib, tempfile, numpy as np
            >>> folder = pathlib.Path(tempfile.mkdtemp())
            >>> np.save(folder / "test_features.npy", np.ones((4, 2), dtype=np.float16))
            >>> np.save(folder / "test_labels.npy", np.array([1, 0, 1, 0]))
            >>> len(FeatureShards.open(folder / "test_features.npy"))
            4
        """
        files = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
        opened = [_map_file(Path(file), tree) for file in files]
        labels = []
        for file, arrays in zip(files, opened, strict=True):
            given = arrays["labels"]
            integers = not (given.is_floating_point() or given.is_complex() or given.dtype == torch.bool)
            if given.ndim != 1 or not integers or len(given) != len(arrays["features"]):
                shape = f"{tuple(given.shape)} {given.dtype}"
                raise ValueError(
                    f"{os.fspath(file)}: labels must be integers of shape ({len(arrays['features'])},), "
                    f"got {shape}"
                )
            labels.append(given.long())
        complete = all("logits" in arrays for arrays in opened)
        return cls(
            [arrays["features"] for arrays in opened],
            torch.cat([*labels, torch.empty(0, dtype=torch.int64)]),
            [arrays["logits"] for arrays in opened] if complete else (),
            [os.fspath(file) for file in files],
        )

    def __len__(self) -> int:
        """Number of samples."""
        return len(self.labels)

    @property
    def width(self) -> int:
        """Size of a feature vector."""
        return self.features[0].shape[1]

    @property
    def dtype(self) -> torch.dtype:
        """Type of computations: float64 for float64 features, else float32."""
        return torch.float64 if self.features[0].dtype == torch.float64 else torch.float32

    def check_labels(self, tree: Hierarchy) -> None:
        """Check that all labels are class indices of the tree.

        Raises:
            ValueError: If one is not; the message names the first shard that has one.
        """
        for number, inside, overall in self.blocks(max(1, len(self))):  # a block for each shard
            with _in_shard(self.names, number):
                check_indices("labels", self.labels[overall], inside.stop, tree.num_classes)

    def at_level(self, tree: Hierarchy, level: int | str) -> FeatureShards:
        """The same features with labels of `tree.cut(level)`, without logits."""
        return replace(self, labels=level_labels(self.labels, tree, level), logits=())

    def take(self, rows: Tensor) -> Tensor:
        """Features of some samples, (n,) -> (n, d), in full precision.

        Raises:
            ValueError: If one of them is not finite.
        """
        if len(self.features) == 1:
            with _in_shard(self.names, 0):
                return _finite(full_precision(self.features[0].index_select(0, rows)))
        ends = torch.tensor([len(values) for values in self.features]).cumsum(0)
        shard = torch.searchsorted(ends, rows, right=True)
        out = torch.empty(len(rows), self.width, dtype=self.dtype)
        for number in torch.unique(shard).tolist():
            own = (shard == number).nonzero().flatten()
            first = int(ends[number]) - len(self.features[number])
            with _in_shard(self.names, number):
                out[own] = _finite(full_precision(self.features[number].index_select(0, rows[own] - first)))
        return out

    def blocks(self, size: int) -> list[tuple[int, slice, slice]]:
        """Blocks of at most `size` consecutive samples: shard, rows in the shard, rows among all samples."""
        blocks, first = [], 0
        for number, values in enumerate(self.features):
            for start in range(0, len(values), size):
                stop = min(start + size, len(values))
                blocks.append((number, slice(start, stop), slice(first + start, first + stop)))
            first += len(values)
        return blocks

    def read(self, block: tuple[int, slice, slice]) -> tuple[Tensor, Tensor]:
        """Features in full precision, and labels, of a block.

        Raises:
            ValueError: If a feature is not finite.
        """
        number, inside, overall = block
        with _in_shard(self.names, number):
            return _finite(full_precision(self.features[number][inside])), self.labels[overall]


def _has_names(form: VectorFormat, path: Path) -> bool:
    """Whether the labels of a file that can be mapped are text; False on errors, which are raised later."""
    try:
        return form.map(path, labelled=True, mode="r")["labels"].dtype.kind in "US"
    except (ValueError, OSError, KeyError):
        return False


def _map_file(path: Path, tree: Hierarchy | None) -> dict[str, Tensor]:
    """Features, labels as class indices and, in formats that can be mapped, logits."""
    form = find_format(path, mapped=tree is None)
    if tree is None or not path.is_file() or (form.mapped and not _has_names(form, path)):
        return map_arrays(path)
    numbers = label_facts(path).numbers
    rows, texts = map_rows(path)
    if texts is None:
        raise ValueError(f"{path}: has no labels")
    named = {name: place for place, name in enumerate(tree.classes)}
    counted = {str(place): place for place in range(tree.num_classes)}
    present = set(texts)
    known = counted if numbers or (present <= counted.keys() and not present <= named.keys()) else named
    if wrong := sorted(present - known.keys()):
        kind = "positions in the classes" if numbers else "names of classes"
        raise ValueError(f"{path}: labels must be {kind} of the tree, got {wrong[:5]}")
    with warnings.catch_warnings():
        # Torch warns about read-only arrays; the features are never written to.
        warnings.simplefilter("ignore", UserWarning)
        features = torch.from_numpy(rows)
    return {"features": features, "labels": torch.tensor([known[text] for text in texts])}


@contextmanager
def _in_shard(names: Sequence[str], number: int) -> Iterator[None]:
    """Prefix the message of a ValueError with the name of the shard, if it has one."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{names[number]}: {error}" if names else str(error)) from error


def _finite(values: Tensor) -> Tensor:
    check_finite("features", values)
    return values


def _check_alike(name: str, shards: Sequence[Tensor], names: Sequence[str]) -> None:
    for number, values in enumerate(shards):
        if values.ndim != 2 or not values.is_floating_point():
            given = f"{tuple(values.shape)} {values.dtype}"
            with _in_shard(names, number):
                raise ValueError(f"{name} must be floating point of shape (n, d) in every shard, got {given}")
    kinds = {(values.shape[1], values.dtype) for values in shards}
    if len(kinds) > 1:
        raise ValueError(f"{name} must have one width and dtype in all shards, got {sorted(map(str, kinds))}")


Block = TypeVar("Block")
# Takes the blocks, a function that adds a block to the totals, and totals of zeros; returns the sums.
Engine = Callable[[Sequence[Any], Callable[[Any], None], Tensor], Tensor]
_ENGINE: ContextVar[Engine | None] = ContextVar("engine", default=None)


@contextmanager
def passes_by(engine: Engine) -> Iterator[None]:
    """Within this context, run all passes with an engine, such as the workers of a cluster.

    Example:
        >>> def backwards(blocks, work, totals):
        ...     for block in reversed(blocks):
        ...         work(block)
        ...     return totals
        >>> with passes_by(backwards):
        ...     add_blocks([1, 2], print, torch.zeros(1), "sums", False)
        2
        1
        tensor([0.])
    """
    before = _ENGINE.set(engine)
    try:
        yield
    finally:
        _ENGINE.reset(before)


def add_blocks(
    blocks: Sequence[Block], work: Callable[[Block], None], totals: Tensor, label: str, progress: bool
) -> Tensor:
    """Add every block to the totals; with a process group, split the blocks and sum the totals.

    Args:
        blocks: All blocks, the same in all processes; each process works on a contiguous part.
        work: Adds a block to the totals.
        totals: Zeros, to which `work` adds.
        label: Name of the pass, shown before the progress bar.
        progress: Whether the first process shows a bar.

    Returns:
        The totals of all processes, in all of them.

    Raises:
        ValueError: In all processes, if one of them raised it, or if their passes differ.
        RuntimeError: In all other processes, if one of them raised an exception of another type.
    """
    if (engine := _ENGINE.get()) is not None:
        return engine(blocks, work, totals)
    count = process_count()
    if count == 1:
        for block in _with_progress(blocks, label, progress):
            work(block)
        return totals
    rank = dist.get_rank()
    own = blocks[rank * len(blocks) // count : (rank + 1) * len(blocks) // count]
    device = torch.device("cuda" if "nccl" in dist.get_backend() else "cpu")
    setup = {"pass": label, "number of blocks": str(len(blocks)), "shape of totals": str(tuple(totals.shape))}
    check_same_setup(Setup(setup), device)
    problem = None
    try:
        for block in _with_progress(own, label, progress and rank == 0):
            work(block)
    except Exception as error:
        problem = error
    return tell_all(problem, totals.flatten().to(device)).view_as(totals).to(totals.device)


def _with_progress(blocks: Sequence[Block], label: str, shown: bool) -> Iterator[Block]:
    """Yield the blocks, with a progress bar on the standard error stream."""
    with Progress(label, len(blocks), show=shown, count=as_percent) as progress:
        for done, block in enumerate(blocks, start=1):
            yield block
            progress.update(done)
