import gzip

import numpy as np
import pytest

from cophenet.data.fashion_mnist import FashionMnist, read_idx

from .written import idx_bytes, write_fashion_mnist

LABELS = "train-labels-idx1-ubyte"


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("folder", ["", "fashion-mnist", "FashionMNIST/raw"])
def test_plain_and_gzipped_files_load(tmp_path, zipped, folder):
    write_fashion_mnist(tmp_path / folder, zipped)
    data = FashionMnist().load(tmp_path)
    assert all(need.found for need in FashionMnist().requirements(tmp_path))
    train = data.samples("train")
    images, labels = train.take(np.arange(40))
    assert images.shape == (40, 1, 28, 28)
    assert labels.tolist() == [i % 10 for i in range(40)]
    assert len(data.samples("test")) == 20
    np.testing.assert_array_equal(train.counts(), 4)


def test_tree_and_split(tmp_path):
    data = FashionMnist().load(write_fashion_mnist(tmp_path))
    coarse, ancestors = data.tree.cut("coarse")
    assert [coarse.classes[i] for i in ancestors] == ["garments"] * 5 + [
        "footwear",
        "garments",
        "footwear",
        "bags",
        "footwear",
    ]
    assert data.tree.classes[0] == "T-shirt/top"
    source, target = (data.samples("train", domain) for domain in ("source", "target"))
    assert source.tree.classes == ("T-shirt/top", "Trouser", "Pullover", "Sandal", "Shirt", "Sneaker")
    assert target.tree.classes == ("Dress", "Coat", "Ankle boot")
    assert (len(source), len(target)) == (24, 12)


def test_missing_files_are_named(tmp_path):
    write_fashion_mnist(tmp_path)
    (tmp_path / LABELS).unlink()
    with pytest.raises(FileNotFoundError, match=rf"put {LABELS} \(plain or with .gz.*into {tmp_path}"):
        FashionMnist().load(tmp_path)
    with pytest.raises(FileNotFoundError, match="give data_dir"):
        FashionMnist().load(None)


def test_without_a_folder_the_current_one_is_not_searched(tmp_path, monkeypatch):
    monkeypatch.chdir(write_fashion_mnist(tmp_path))
    assert not any(need.found for need in FashionMnist().requirements(None))
    with pytest.raises(FileNotFoundError, match=rf"put train-images-idx3-ubyte, {LABELS}, .* give data_dir"):
        FashionMnist().load(None)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not an IDX file"),
        (b"<html>", "not an IDX file, it starts with b'<htm'"),
        (bytes([0, 0, 13, 1, 0, 0, 0, 0]), "IDX type 0x0d; only unsigned bytes"),
        (bytes([0, 0, 8, 3, 0, 0]), "truncated or damaged"),
        (idx_bytes(np.zeros(40, np.uint8))[:-1], r"47 bytes do not fit the stated shape \(40,\)"),
        (idx_bytes(np.zeros(40, np.uint8)) + b"x", "49 bytes do not fit"),
        (gzip.compress(idx_bytes(np.zeros(40, np.uint8)), mtime=0)[:-9], "gzip file is truncated"),
        (idx_bytes(np.zeros(39, np.uint8)), r"has labels \(39,\) for 40 images"),
        (idx_bytes(np.full(40, 10, np.uint8)), "labels must be 0 to 9, the largest is 10"),
    ],
)
def test_wrong_files_are_refused(tmp_path, content, message):
    write_fashion_mnist(tmp_path)
    (tmp_path / LABELS).write_bytes(content)
    with pytest.raises(ValueError, match=f"{LABELS}: .*{message}"):
        FashionMnist().load(tmp_path)


def test_images_of_another_size_are_refused(tmp_path):
    write_fashion_mnist(tmp_path)
    (tmp_path / "t10k-images-idx3-ubyte").write_bytes(idx_bytes(np.zeros((20, 8, 8), np.uint8)))
    with pytest.raises(ValueError, match=r"images must be \(n, 28, 28\), got \(20, 8, 8\)"):
        FashionMnist().load(tmp_path)


def test_idx_is_read_in_its_shape(tmp_path):
    values = np.random.default_rng(0).integers(0, 256, (2, 3, 4), dtype=np.uint8)
    (tmp_path / "a").write_bytes(idx_bytes(values))
    np.testing.assert_array_equal(read_idx(tmp_path / "a"), values)
