import sys

import numpy as np
import pytest
import torch

from cophenet.data import digits
from cophenet.data.digits import Digits


def test_counts_and_tree():
    data = Digits().load(None)
    assert Digits().requirements(None) == []
    train, test = data.samples("train"), data.samples("test")
    assert (len(train), len(test)) == (1347, 450)
    np.testing.assert_array_equal(
        train.counts() + test.counts(), [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    )
    assert not np.intersect1d(train.rows, test.rows).size
    shapes, ancestors = data.tree.cut("shape")
    digits = {name: np.flatnonzero(ancestors == i).tolist() for i, name in enumerate(shapes.classes)}
    assert digits == {"loops": [0, 6, 8, 9], "curves": [2, 3, 5], "straight strokes": [1, 4, 7]}


def test_images_are_bytes_with_the_stated_mean():
    data = Digits().load(None)
    train = data.samples("train")
    images, _ = train.take(np.arange(len(train)))
    assert images.shape[1:] == (1, 8, 8)
    assert images.dtype == torch.uint8
    assert len(images.unique()) == 17
    scaled = images.double() / 255
    assert scaled.mean().item() == pytest.approx(data.mean[0], abs=1e-4)
    assert scaled.std().item() == pytest.approx(data.std[0], abs=1e-4)


def test_domains_and_repetition():
    data, again = Digits().load(None), Digits().load(None)
    assert data.samples("train", "source").tree.classes == ("3", "4", "5", "6", "7", "8", "9")
    assert data.samples("train", "target").tree.classes == ("0", "1", "2")
    np.testing.assert_array_equal(data.samples("test").rows, again.samples("test").rows)


def test_error_without_scikit_learn_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    digits._read_digits.cache_clear()
    with pytest.raises(ImportError, match=r"pip install 'cophenet\[data\]'"):
        Digits().load(None)
