"""Feature vectors from files: a data set for heads and losses without a backbone."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np
import torch

from cophenet.checks import check_whole
from cophenet.data.base import ArrayInputs, DataSet, Domain, Labels, Part, Requirement, Samples, split_by_tree
from cophenet.data.registry import DataSource, register_source
from cophenet.data.sampling import stratified_split
from cophenet.data.vector_files import GivenLabels, read_vectors
from cophenet.tree import Hierarchy

__all__ = ["Vectors"]


@register_source
class Vectors(DataSource):
    """Feature vectors with labels from npz, npy, safetensors, parquet or CSV files.

    `read_vectors` tells how arrays and columns are called. A label is the name of a class of the tree; if
    not all labels are names and they are whole numbers, they are positions in the tree's classes. Source and
    target are split by the rule with fraction 0.4. Relative paths start in the data folder.

    Args:
        train: File of the training part, or of everything.
        test: File of the test part; None to take a share of every class of the first file.
        tree_file: The tree, as `Hierarchy.read` takes it; None for a star of the classes that occur, which
            knows no source and target.
        test_share: The share, where there is no test file.
        seed: Decides which samples are the test part, where there is no test file.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> np.savez(folder / "birds.npz", features=np.eye(4), labels=["owl", "jay", "owl", "jay"])
        >>> birds = Vectors("birds.npz", test_share=0.5).load(folder)
        >>> birds.tree.classes, len(birds.samples("train")), len(birds.samples("test"))
        (('jay', 'owl'), 2, 2)
    """

    name: ClassVar[str] = "vectors"
    summary: ClassVar[str] = "feature vectors from npz, npy, safetensors, parquet or CSV files"

    def __init__(
        self,
        train: str = "vectors.npz",
        test: str | None = None,
        tree_file: str | None = None,
        test_share: float = 0.2,
        seed: int = 0,
    ) -> None:
        if not 0 < test_share < 1:
            raise ValueError(f"test_share must lie between 0 and 1, got {test_share!r}")
        check_whole("seed", seed, 0)
        self.train, self.test, self.tree_file = train, test, tree_file
        self.test_share, self.seed = test_share, seed

    def requirements(self, data_dir: Path | None) -> list[Requirement]:
        """The files that were named."""
        named = {
            self.train: "features and labels of the training part",
            self.test: "features and labels of the test part",
            self.tree_file: "the tree of the classes",
        }
        paths = {(data_dir or Path()) / file: note for file, note in named.items() if file is not None}
        return [Requirement(path, path.is_file(), note) for path, note in paths.items()]

    def load(self, data_dir: Path | None) -> DataSet:
        """Read the data set."""
        base = data_dir or Path()
        features, given = read_vectors(base / self.train)
        tree = _star(given) if self.tree_file is None else Hierarchy.read(base / self.tree_file)
        labels = _to_labels(given, tree, base / self.train)
        whole = Samples(ArrayInputs(torch.from_numpy(features)), np.arange(len(labels)), labels, tree)
        parts: dict[Part, Samples]
        if self.test is None:
            rows = stratified_split(labels, self.test_share, self.seed)
            parts = {"train": whole.subset(rows[0]), "test": whole.subset(rows[1])}
        else:
            parts = {"train": whole, "test": _read_test(base / self.test, tree, features.shape[1])}

        def make(part: Part, domain: Domain) -> Samples:
            if domain == "full":
                return parts[part]
            if self.tree_file is None:
                raise ValueError(f"domain {domain!r} needs a tree to split by: give tree_file, or use 'full'")
            return split_by_tree(parts[part], tree.source_target_split(0.4), domain)

        return DataSet(self.name, tree, make)


def _read_test(path: Path, tree: Hierarchy, width: int) -> Samples:
    features, given = read_vectors(path)
    if features.shape[1] != width:
        raise ValueError(f"{path}: has {features.shape[1]} features, the training part has {width}")
    labels = _to_labels(given, tree, path)
    return Samples(ArrayInputs(torch.from_numpy(features)), np.arange(len(labels)), labels, tree)


def _star(given: GivenLabels) -> Hierarchy:
    return Hierarchy.from_paths([(str(label),) for label in sorted(set(np.asarray(given).tolist()))])


def _to_labels(given: GivenLabels, tree: Hierarchy, path: Path) -> Labels:
    """Positions in the tree's classes."""
    values, places = np.unique(np.asarray(given), return_inverse=True)
    known = {name: label for label, name in enumerate(tree.classes)}
    unknown = [value for value in values.tolist() if str(value) not in known]
    if not unknown:
        positions = np.array([known[str(value)] for value in values.tolist()])
    elif values.dtype.kind == "i" and values[0] >= 0 and values[-1] < tree.num_classes:
        positions = values
    else:
        allowed = f"the tree has {tree.num_classes} classes: {list(tree.classes[:3])!r}..."
        raise ValueError(
            f"{path}: {len(unknown)} labels are not in the tree, e.g. {unknown[:3]!r}; {allowed}"
        )
    result: Labels = positions.astype(np.int64)[places]
    return result
