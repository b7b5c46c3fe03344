"""Data set classes: inputs with a label at every level of a tree, in parts and domains."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import ClassVar, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cophenet._common.checks import check_choice
from cophenet.data.augmentation import CentreCrop
from cophenet.tree import Hierarchy, Split

__all__ = [
    "ArrayInputs",
    "DataSet",
    "Domain",
    "Inputs",
    "Part",
    "Requirement",
    "SampleCounts",
    "Samples",
    "count_samples",
    "split_by_tree",
    "split_data_set",
]

Part = Literal["train", "test"]
Domain = Literal["full", "source", "target"]
Labels = NDArray[np.int64]


# Number of rows that are hashed at a time.
_ROWS = 4096


class Inputs(ABC):
    """Model inputs by row number: images as uint8 (n, channels, height, width), or float32 vectors (n, d).

    Attributes:
        in_memory: Whether `take` is fast, so that no workers are needed to read ahead.
    """

    in_memory: ClassVar[bool] = False

    @abstractmethod
    def __len__(self) -> int:
        """Number of inputs."""

    @abstractmethod
    def take(self, rows: Labels) -> Tensor:
        """The inputs of some rows, stacked."""

    def prepare(self) -> None:
        """Do slow one-time work before the first `take`; a no-op by default."""
        return

    @property
    def originals(self) -> Inputs:
        """The inputs from which these are computed, row by row; by default itself."""
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one input; reads one unless a subclass knows it."""
        return tuple(self.take(np.zeros(1, dtype=np.int64)).shape[1:])

    @property
    def file_view(self) -> CentreCrop | None:
        """The crop that makes such an input of an image file; None unless inputs are square colour images."""
        side = self.shape[-1]
        return CentreCrop(side, side) if self.shape == (3, side, side) else None

    def names(self, rows: Labels) -> list[str]:
        """For each row the name of its file, or its text; empty if it has neither."""
        return [""] * len(rows)

    def fingerprint(self, rows: Labels) -> str:  # noqa: ARG002
        """A checksum of the inputs of some rows, to detect changed data; empty if not available."""
        return ""

    def content_key(self) -> str:
        """A checksum of all inputs for a cache, which must detect any change; empty if not available."""
        return self.fingerprint(np.arange(len(self)))


@dataclass(frozen=True, eq=False)
class ArrayInputs(Inputs):
    """Inputs held in memory.

    Attributes:
        values: (N, ...) uint8 images or float32 vectors.
        texts: The text from which each was computed, for display; empty if not known.

    Example:
        >>> rows = np.arange(2)
        >>> one, other = (ArrayInputs(torch.eye(2) * size) for size in (1, 2))
        >>> one.shape, one.fingerprint(rows), one.fingerprint(rows) == other.fingerprint(rows)
        ((2,), 'a666c95f0822c64e', False)
    """

    values: Tensor
    texts: tuple[str, ...] = ()
    in_memory: ClassVar[bool] = True

    def __len__(self) -> int:
        """Number of inputs."""
        return len(self.values)

    def take(self, rows: Labels) -> Tensor:
        """The inputs of some rows, stacked."""
        return self.values.index_select(0, torch.from_numpy(rows))

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one input."""
        return tuple(self.values.shape[1:])

    def names(self, rows: Labels) -> list[str]:
        """Texts of some rows."""
        return [self.texts[row] for row in rows] if self.texts else super().names(rows)

    def fingerprint(self, rows: Labels) -> str:
        """A checksum of the values of some rows."""
        digest = hashlib.sha256()
        for start in range(0, len(rows), _ROWS):
            values = self.take(rows[start : start + _ROWS])
            digest.update(np.ascontiguousarray(values.numpy()).data)
        return digest.hexdigest()[:16]


@dataclass(frozen=True, eq=False)
class Samples:
    """A selection of inputs with their labels, which are classes of a tree.

    Attributes:
        inputs: All inputs.
        rows: (n,) row numbers of the samples in the inputs.
        labels: (n,) position of each sample's class in `tree.classes`.
        tree: The tree of this domain's classes.
    """

    inputs: Inputs
    rows: Labels
    labels: Labels
    tree: Hierarchy

    def __len__(self) -> int:
        """Number of samples."""
        return len(self.rows)

    def take(self, positions: Labels) -> tuple[Tensor, Tensor]:
        """Inputs and labels of some samples."""
        return self.inputs.take(self.rows[positions]), torch.from_numpy(self.labels[positions])

    def subset(self, positions: Labels) -> Samples:
        """A selection of the samples, by position."""
        return Samples(self.inputs, self.rows[positions], self.labels[positions], self.tree)

    def fingerprint(self) -> str:
        """A checksum of the inputs, to detect changed data; empty if not available for their type."""
        return self.inputs.fingerprint(self.rows)

    def counts(self) -> Labels:
        """(k,) number of samples of every class."""
        return np.bincount(self.labels, minlength=self.tree.num_classes)

    def level_labels(self, level: int | str) -> Labels:
        """(n,) labels at a level of the tree, as positions in the classes of `tree.cut(level)`."""
        ancestors: Labels = self.tree.cut(level)[1]
        return ancestors[self.labels]


@dataclass(frozen=True)
class Requirement:
    """A file or folder that a data set is read from.

    Attributes:
        path: Expected path.
        found: Whether it exists.
        note: What it is and where it comes from.
    """

    path: Path
    found: bool
    note: str


@dataclass(frozen=True, eq=False)
class DataSet:
    """A data set with its tree, by part (train, test) and domain (full, source, target).

    Source and target share coarse classes and differ in the classes below them.

    Attributes:
        name: The name it was loaded by.
        tree: The tree of all classes.
        make: Creates the samples of a part and domain; called once for each.
        mean: Mean per channel of inputs scaled to 0..1, for normalization; empty for vectors.
        std: Standard deviation per channel, likewise.
    """

    name: str
    tree: Hierarchy
    make: Callable[[Part, Domain], Samples]
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    _made: dict[tuple[Part, Domain], Samples] = field(default_factory=dict, init=False, repr=False)

    def samples(self, part: Part, domain: Domain = "full") -> Samples:
        """The samples of a part and domain.

        Raises:
            ValueError: If the part or the domain is unknown.
        """
        check_choice("part", part, get_args(Part))
        check_choice("domain", domain, get_args(Domain))
        if (part, domain) not in self._made:
            self._made[part, domain] = self.make(part, domain)
        return self._made[part, domain]


@dataclass(frozen=True)
class SampleCounts:
    """Sizes of a part and domain.

    Attributes:
        part: The part.
        domain: The domain.
        samples: Number of samples.
        classes: Number of classes.
        least: Number of samples of the smallest class.
        most: Number of samples of the largest class.
        missing: Why the domain is not available; empty if it is.
    """

    part: Part
    domain: Domain
    samples: int = 0
    classes: int = 0
    least: int = 0
    most: int = 0
    missing: str = ""


def count_samples(data: DataSet) -> list[SampleCounts]:
    """Sizes of every part and domain, or the reason why a domain is not available.

    Example:
        >>> from cophenet.data.synthetic import Synthetic
        >>> counts = count_samples(Synthetic(branching=(2, 5)).load(None))
        >>> [(count.domain, count.classes) for count in counts[:3]]
        [('full', 10), ('source', 6), ('target', 4)]
    """
    return [_count(data, part, domain) for part in get_args(Part) for domain in get_args(Domain)]


def _count(data: DataSet, part: Part, domain: Domain) -> SampleCounts:
    try:
        samples = data.samples(part, domain)
    except ValueError as error:
        # Only a split can be impossible; for the full domain any problem is an error.
        if domain == "full":
            raise
        return SampleCounts(part, domain, missing=str(error))
    counts = samples.counts()
    return SampleCounts(
        part, domain, len(samples), samples.tree.num_classes, int(counts.min()), int(counts.max())
    )


def read_tree_file(path: Path) -> Hierarchy:
    """Read the tree of the option `tree_file` of a data set.

    Raises:
        FileNotFoundError: If there is no such file.
    """
    if not path.is_file():
        raise FileNotFoundError(
            f"tree file {path} is missing; put it there or give its full path as tree_file"
        )
    return Hierarchy.read(path)


def split_data_set(
    name: str,
    tree: Hierarchy,
    part: Callable[[Part], Samples],
    *,
    split: Callable[[], Split] | None = None,
    mean: tuple[float, ...] = (),
    std: tuple[float, ...] = (),
) -> DataSet:
    """Create a data set whose source and target are the two sides of a split of its classes.

    Args:
        name: Name of the data set.
        tree: The tree of all classes.
        part: Returns all samples of a part; called once for each.
        split: Splits the classes; called when source or target is first requested, because a small tree may
            have too few classes for a split. None for `tree.source_target_split` with its fraction 0.4.
        mean: Mean per channel, as in `DataSet`.
        std: Standard deviation per channel.

    Example:
        >>> tree = Hierarchy.from_paths([("a", str(label)) for label in range(5)])
        >>> five = Samples(ArrayInputs(torch.eye(5)), np.arange(5), np.arange(5), tree)
        >>> data = split_data_set("five", tree, lambda part: five)
        >>> data.samples("train", "target").tree.classes
        ('0', '1')
    """
    full, halves = cache(part), cache(split or tree.source_target_split)

    def make(which: Part, domain: Domain) -> Samples:
        return full(which) if domain == "full" else split_by_tree(full(which), halves(), domain)

    return DataSet(name, tree, make, mean, std)


def split_by_tree(samples: Samples, split: Split, domain: Domain) -> Samples:
    """Samples of one side, source or target, of a split of classes, relabelled."""
    tree, to_new = (
        (split.source, split.source_labels) if domain == "source" else (split.target, split.target_labels)
    )
    labels = to_new[samples.labels]
    own = np.flatnonzero(labels >= 0)
    return Samples(samples.inputs, samples.rows[own], labels[own], tree)
