"""The digits bundled with scikit-learn: a data set that needs no files."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from cophenet._common.packages import import_optional
from cophenet.data.dataset import ArrayInputs, DataSet, Part, Requirement, Samples, split_data_set
from cophenet.data.registry import DataSource, register_source
from cophenet.data.stratified_sampling import stratified_split
from cophenet.tree import Hierarchy

__all__ = ["Digits", "digits_tree"]

_SHAPES = {"loops": "0689", "curves": "235", "straight strokes": "147"}
# Mean and standard deviation of the pixels of the training part, scaled to 0..1.
DIGITS_MEAN, DIGITS_STD = (0.3053,), (0.3757,)
_TEST_SHARE = 0.25


def digits_tree() -> Hierarchy:
    """The ten digits by shape.

    Example:
        >>> digits_tree().cut("shape")[0].classes
        ('loops', 'straight strokes', 'curves')
    """
    shape = {digit: name for name, digits in _SHAPES.items() for digit in digits}
    paths = [(shape[digit], digit) for digit in sorted(shape)]
    return Hierarchy.from_paths(paths, root="digits", level_names=("shape", "digit"))


@cache
def _read_digits() -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Pixels (1797, 1, 8, 8) and digits (1797,); cached, because scikit-learn parses them from text."""
    origin = "data 'digits' comes with"
    sklearn = import_optional("sklearn.datasets", origin, "cophenet[data]", called="scikit-learn")
    grey, digit = sklearn.datasets.load_digits(return_X_y=True)
    # Scale the grey values 0..16 to 0..255.
    return np.rint(grey.reshape(-1, 1, 8, 8) * (255 / 16)).astype(np.uint8), digit.astype(np.int64)


@register_source
class Digits(DataSource):
    """1797 grey images of 8 x 8 pixels from scikit-learn, by shape: loops, curves, straight strokes.

    A quarter of each class is the test part, the same on every call. The target domain is 0, 1 and 2.

    Example:
        >>> digits = Digits().load(None)
        >>> len(digits.samples("train")), len(digits.samples("test"))
        (1347, 450)
        >>> digits.samples("test", "target").tree.classes
        ('0', '1', '2')
    """

    name = "digits"
    summary = "8 x 8 digits of scikit-learn by shape; needs no files"

    def tree(self) -> Hierarchy:
        """The tree of all classes."""
        return digits_tree()

    def requirements(self, data_dir: Path | None) -> list[Requirement]:  # noqa: ARG002
        """None: an empty list."""
        return []

    def load(self, data_dir: Path | None) -> DataSet:  # noqa: ARG002
        """Read the data set; the folder is not used."""
        pixels, digit = _read_digits()
        inputs, labels, tree = ArrayInputs(torch.from_numpy(pixels.copy())), digit.copy(), self.tree()
        train, test = stratified_split(labels, _TEST_SHARE, seed=0)
        rows = {"train": train, "test": test}

        def part(which: Part) -> Samples:
            return Samples(inputs, rows[which], labels[rows[which]], tree)

        return split_data_set(self.name, tree, part, mean=DIGITS_MEAN, std=DIGITS_STD)
