"""Vectors of texts, such as WordNet definitions, with the paths of their classes, in one npz file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from cophenet._common.checks import check_file
from cophenet._common.limits import reading
from cophenet.data.dataset import ArrayInputs, DataSet, Labels, Part, Requirement, Samples, split_data_set
from cophenet.data.registry import DataSource, register_source
from cophenet.tree import Hierarchy
from cophenet.vectors.formats import Array, check_features
from cophenet.vectors.numpy_files import read_arrays

__all__ = ["Glosses"]

_ARRAYS = ("x_train", "y_train", "x_test", "y_test", "paths")


@register_source
class Glosses(DataSource):
    """Vectors of both parts and the paths of their classes, in one npz file.

    Arrays `x_train` and `x_test` (n, d) are the vectors, `y_train` and `y_test` (n,) the positions of their
    classes in `paths`, from 0. A path lists the names from the top of the tree to the class, joined by `/`;
    the last is the class, such as `wine.07891726`. Source and target are split by the rule with fraction 0.4.

    Args:
        file: The file, in the data folder or by full path.

    Example:
        >>> import tempfile
        >>> folder, x = Path(tempfile.mkdtemp()), np.eye(4)
        >>> arrays = {"x_train": x, "y_train": np.arange(4), "x_test": x, "y_test": np.arange(4)}
        >>> paths = ["drink/wine", "drink/tea", "food/pie", "food/jam"]
        >>> np.savez(folder / "glosses.npz", paths=paths, **arrays)
        >>> data = Glosses().load(folder)
        >>> data.tree.classes, data.tree.height, len(data.samples("test"))
        (('wine', 'tea', 'pie', 'jam'), 2, 4)
    """

    name = "glosses"
    summary = "vectors with the paths of their classes, in one npz file"

    def __init__(self, file: str = "glosses.npz") -> None:
        check_file("file", file)
        self.file = file

    def requirements(self, data_dir: Path | None) -> list[Requirement]:
        """The file."""
        path = (data_dir or Path()) / self.file
        return [Requirement(path, path.is_file(), f"arrays {', '.join(_ARRAYS)}")]

    def load(self, data_dir: Path | None) -> DataSet:
        """Read the data set.

        Raises:
            FileNotFoundError: If the file is missing.
            ValueError: If an array is missing or does not match the others.
        """
        path = (data_dir or Path()) / self.file
        if not path.is_file():
            raise FileNotFoundError(
                f"data {self.name!r} was not found: put {self.file} at {path}, or give data_dir"
            )
        arrays = read_arrays(path, _ARRAYS)
        with reading(path, "an npz archive of such vectors"):
            tree = _tree(arrays["paths"])
            width = arrays["x_train"].shape[-1] if arrays["x_train"].ndim else 0
            parts: dict[Part, Samples] = {
                part: _samples(arrays, part, tree, width) for part in ("train", "test")
            }
        return split_data_set(self.name, tree, parts.__getitem__)


def _tree(paths: Array) -> Hierarchy:
    if paths.ndim != 1 or paths.dtype.kind != "U":
        raise ValueError(f"paths must be texts in a row, got {paths.dtype} {paths.shape}")
    return Hierarchy.from_paths(paths.tolist(), sep="/")


def _samples(arrays: dict[str, Array], part: str, tree: Hierarchy, width: int) -> Samples:
    vectors, given = arrays[f"x_{part}"], arrays[f"y_{part}"]
    check_features(vectors)
    if vectors.shape[1] != width:
        raise ValueError(f"x_{part} has {vectors.shape[1]} numbers per vector, x_train has {width}")
    if given.shape != (len(vectors),) or given.dtype.kind not in "iu":
        needed = f"y_{part} must be {len(vectors)} whole numbers"
        raise ValueError(f"{needed}, got {given.dtype} {given.shape}")
    labels: Labels = given.astype(np.int64)
    if len(labels) and not 0 <= labels.min() <= labels.max() < tree.num_classes:
        reach = f"{labels.min()} to {labels.max()}"
        raise ValueError(f"y_{part} must be 0 to {tree.num_classes - 1}, as there are paths, got {reach}")
    values = np.ascontiguousarray(vectors, dtype=np.float32)
    if not np.isfinite(values).all():
        raise ValueError(f"x_{part} must be finite numbers")
    return Samples(ArrayInputs(torch.from_numpy(values)), np.arange(len(labels)), labels, tree)
