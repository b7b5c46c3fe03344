"""Clouds of points placed by a tree, for studies that need a known ground truth."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from cophenet._common.checks import check_file, check_number, check_whole, wrong_argument
from cophenet.data.dataset import (
    ArrayInputs,
    DataSet,
    Part,
    Requirement,
    Samples,
    read_tree_file,
    split_data_set,
)
from cophenet.data.registry import DataSource, register_source
from cophenet.tree import Hierarchy

__all__ = ["Synthetic"]


@register_source
class Synthetic(DataSource):
    """Gaussian or multi-modal clouds whose centres are placed by a tree.

    Every edge of the tree is a random step whose expected squared length is the edge's weight; a class's
    centre is the sum of the steps on its path, so the expected squared distances between centres are the tree
    distances, with small deviations in high dimensions. A mode is a further random step from the centre, a
    sample a further one from its mode. Source and target are split by the rule with fraction 0.4.

    Args:
        branching: Number of children of every node, by level: (4, 5) is 4 coarse classes of 5 classes each.
        tree_file: A tree file instead of `branching`, read by `Hierarchy.read`; a relative path starts in the
            data folder.
        dims: Number of dimensions.
        samples_per_class: Samples of each class in each part.
        modes: Modes per class; 1 for a Gaussian. Samples are assigned to the modes in turn.
        mode_distance: Root mean square distance of a mode from the class's centre.
        spread: Root mean square distance of a sample from its mode.
        seed: Seed of all random numbers.

    Example:
        >>> clouds = Synthetic(branching=(2, 5), dims=8, samples_per_class=4, modes=2).load(None)
        >>> inputs, labels = clouds.samples("train").take(np.arange(40))
        >>> inputs.shape, clouds.samples("test", "source").tree
        (torch.Size([40, 8]), Hierarchy(6 classes, 9 nodes, height 2))
    """

    name = "synthetic"
    summary = "Gaussian or multi-modal clouds placed by a tree; needs no files"

    def __init__(
        self,
        branching: Sequence[int] = (4, 5),
        tree_file: str | None = None,
        dims: int = 32,
        samples_per_class: int = 100,
        modes: int = 1,
        mode_distance: float = 1.0,
        spread: float = 0.5,
        seed: int = 0,
    ) -> None:
        wholes = {"dims": dims, "samples_per_class": samples_per_class, "modes": modes}
        for argument, value in wholes.items():
            check_whole(argument, value, 1)
        check_whole("seed", seed, 0)
        check_number("mode_distance", mode_distance)
        check_number("spread", spread)
        if tree_file is not None:
            check_file("tree_file", tree_file)
        self.regular_tree = _regular_tree(branching)
        self.tree_file = tree_file
        self.dims, self.samples_per_class, self.modes = dims, samples_per_class, modes
        self.mode_distance, self.spread, self.seed = mode_distance, spread, seed

    def tree(self) -> Hierarchy | None:
        """The tree of all classes; None if it is in a file."""
        return self.regular_tree if self.tree_file is None else None

    def check_domain(self, domain: str) -> None:
        """Raise for source and target if the tree has too few classes for a split."""
        super().check_domain(domain)
        if domain == "full" or self.tree_file is not None:
            return
        try:
            self.regular_tree.source_target_split(0.4)
        except ValueError as error:
            raise wrong_argument("domain", f"must be full, got {domain!r}: {error}") from error

    def requirements(self, data_dir: Path | None) -> list[Requirement]:
        """The tree file, if one is given."""
        if self.tree_file is None:
            return []
        path = (data_dir or Path()) / self.tree_file
        return [Requirement(path, path.is_file(), "the tree by which clouds are placed")]

    def load(self, data_dir: Path | None) -> DataSet:
        """Create the data set; only a tree file is read."""
        tree = self.regular_tree
        if self.tree_file is not None:
            tree = read_tree_file((data_dir or Path()) / self.tree_file)
        rng = np.random.default_rng(self.seed)
        centres = self._centres(tree, rng)
        noise = rng.normal(size=(tree.num_classes, self.modes, self.dims))
        modes = centres[:, None] + noise * (self.mode_distance * (self.modes > 1) / self.dims**0.5)
        parts: dict[Part, Samples] = {part: self._draw(tree, rng, modes) for part in ("train", "test")}
        return split_data_set(self.name, tree, parts.__getitem__)

    def _centres(self, tree: Hierarchy, rng: np.random.Generator) -> NDArray[np.float64]:
        """(k, dims) the centre of every class."""
        scale = np.sqrt(tree.edge_weights / self.dims)
        places = rng.normal(size=(tree.num_nodes, self.dims)) * scale[:, None]
        for node in range(1, tree.num_nodes):  # parents come before their children
            places[node] += places[tree.parents[node]]
        return places[tree.leaves]

    def _draw(self, tree: Hierarchy, rng: np.random.Generator, modes: NDArray[np.float64]) -> Samples:
        labels = np.repeat(np.arange(tree.num_classes), self.samples_per_class)
        mode = np.tile(np.arange(self.samples_per_class) % self.modes, tree.num_classes)
        noise = rng.normal(size=(len(labels), self.dims)) * (self.spread / self.dims**0.5)
        points = torch.from_numpy((modes[labels, mode] + noise).astype(np.float32))
        return Samples(ArrayInputs(points), np.arange(len(labels)), labels, tree)


def _regular_tree(branching: Sequence[int]) -> Hierarchy:
    """A tree with equal numbers of children in each level; nodes are named by position, such as "1.2"."""
    if not isinstance(branching, Sequence) or isinstance(branching, str | bytes) or not branching:
        raise wrong_argument(
            "branching", f"must list the children of the nodes of each level, got {branching!r}"
        )
    for count in branching:
        check_whole("branching", count, 1)
    paths = [
        tuple(".".join(map(str, path[: depth + 1])) for depth in range(len(path)))
        for path in itertools.product(*(range(1, count + 1) for count in branching))
    ]
    return Hierarchy.from_paths(paths)
