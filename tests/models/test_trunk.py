"""A frozen backbone turns images into vectors: once, and again only where something changed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor
from torch.nn.functional import interpolate

from cophenet.data import ArrayInputs, DataSet, ImageFiles, Loader, Samples
from cophenet.data.augmentation import CentreCrop, RandomCrop
from cophenet.models import Backbone
from cophenet.models.base import ImageInputs
from cophenet.models.trunk import Trunk, TrunkVectors, vector_data_set
from cophenet.models.vector_cache import VectorCache
from cophenet.tree import Hierarchy

COUNT = 300
ALL = np.arange(COUNT)


class Sums(Backbone):
    """Channel means times a weight; counts its images, and may stop after some."""

    def __init__(self, weight: float = 1.0, stop_after: int | None = None) -> None:
        super().__init__()
        self.num_features, self.seen, self.stop_after = 3, 0, stop_after
        self.register_buffer("weight", torch.tensor(weight))

    def forward_features(self, inputs: Tensor) -> Tensor:
        if self.stop_after is not None and self.seen >= self.stop_after:
            raise KeyboardInterrupt
        self.seen += len(inputs)
        return inputs.mean((2, 3)) * self.weight


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(VectorCache, "shard", 128)


@pytest.fixture
def images() -> ArrayInputs:
    generator = torch.Generator().manual_seed(0)
    return ArrayInputs(torch.randint(256, (COUNT, 3, 12, 12), dtype=torch.uint8, generator=generator))


def trunk(net: Sums, size: int | None = 8) -> Trunk:
    return Trunk("sums", net, ImageInputs((0.5, 0.4, 0.3), (0.2, 0.3, 0.4)), size)


def vectors(images: object, cache: Path | None, net: Sums, size: int | None = 8, **options: int | str):
    return TrunkVectors(images, trunk(net, size), cache=cache, show=False, **options)


def test_vectors_are_those_of_normalized_and_resized_images(images: ArrayInputs) -> None:
    mean, std = (torch.tensor(v)[:, None, None] for v in ((0.5, 0.4, 0.3), (0.2, 0.3, 0.4)))
    inputs = vectors(images, None, Sums(2.0))
    for row in (0, 7, COUNT - 1):
        image = (images.values[row] / 255 - mean) / std
        small = interpolate(image[None], (8, 8), mode="bilinear", antialias=True, align_corners=False)
        torch.testing.assert_close(inputs.take(np.array([row]))[0], 2 * small[0].mean((1, 2)))
    assert inputs.shape == (3,)
    assert len(inputs) == COUNT


def test_they_are_computed_once(images: ArrayInputs, tmp_path: Path) -> None:
    first, second = Sums(), Sums()
    one = vectors(images, tmp_path, first).take(ALL)
    other = vectors(images, tmp_path, second).take(ALL)
    assert (first.seen, second.seen) == (COUNT, 0)
    assert torch.equal(one, other)
    assert len(list(tmp_path.glob("vectors/images-sums-*/*.npy"))) == 3


def test_what_another_process_computes_meanwhile_is_read(
    images: ArrayInputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, alone = vectors(images, tmp_path, Sums()), VectorCache.alone

    @contextmanager
    def after_another(cache: VectorCache, what: str) -> Iterator[None]:
        monkeypatch.setattr(VectorCache, "alone", alone)
        whole.prepare()
        with alone(cache, what):
            yield

    monkeypatch.setattr(VectorCache, "alone", after_another)
    net = Sums()
    assert torch.equal(vectors(images, tmp_path, net).take(ALL), whole.take(ALL))
    assert net.seen == 0


@pytest.mark.parametrize("change", ["weights", "size", "mean", "images"])
def test_whatever_changes_is_computed_again(images: ArrayInputs, tmp_path: Path, change: str) -> None:
    vectors(images, tmp_path, Sums()).prepare()
    net = Sums(1.5 if change == "weights" else 1.0)
    again = vectors(images, tmp_path, net, 9 if change == "size" else 8)
    if change == "mean":
        again.trunk = Trunk("sums", net, ImageInputs((0.5, 0.4, 0.2), (0.2, 0.3, 0.4)), 8)
    if change == "images":
        values = images.values.clone()
        values[5, 0, 0, 0] += 1
        again.images = ArrayInputs(values)
    again.prepare()
    assert net.seen == COUNT


def test_an_interruption_loses_a_shard_at_most(images: ArrayInputs, tmp_path: Path) -> None:
    whole = vectors(images, None, Sums()).take(ALL)
    with pytest.raises(KeyboardInterrupt):
        vectors(images, tmp_path, Sums(stop_after=192)).prepare()
    net = Sums()
    assert torch.equal(vectors(images, tmp_path, net).take(ALL), whole)
    assert net.seen == COUNT - 128


def test_a_damaged_shard_is_computed_again(images: ArrayInputs, tmp_path: Path) -> None:
    whole = vectors(images, tmp_path, Sums()).take(ALL)
    shard = sorted(tmp_path.glob("vectors/*/*.npy"))[1]
    shard.write_bytes(shard.read_bytes()[:-1])
    net = Sums()
    assert torch.equal(vectors(images, tmp_path, net).take(ALL), whole)
    assert net.seen == COUNT - 128
    assert torch.equal(vectors(images, tmp_path, Sums(stop_after=0)).take(ALL), whole)


def test_views_are_epochs_of_the_augmentation(images: ArrayInputs, tmp_path: Path) -> None:
    tree = Hierarchy.from_paths([("image",)])
    samples = Samples(images, ALL, np.zeros(COUNT, dtype=np.int64), tree)
    net, settings = Sums(), trunk(Sums())
    inputs = vectors(images, tmp_path, net, augment="cifar", views=2)
    mean, std, _ = settings.images
    loader = Loader(samples, 64, mean=mean, std=std, size=8, augment="cifar")
    seen = [torch.cat([net(batch) for batch, _ in loader.batches(view)]) for view in (1, 2)]
    expected = [inputs.take(ALL), *seen]
    net.seen = 0
    for view in range(3):
        assert torch.equal(inputs.augmented(ALL, np.full(COUNT, 3 * 5 + view)), expected[view])
    assert not torch.equal(expected[1], expected[2])
    mixed = inputs.augmented(ALL, ALL)
    assert torch.equal(mixed, torch.stack([expected[row % 3][row] for row in range(COUNT)]))
    again = Sums()
    vectors(images, tmp_path, again, augment="cifar", views=3).prepare()
    assert again.seen == COUNT  # the third view alone


def test_a_data_set_of_vectors(images: ArrayInputs, tmp_path: Path) -> None:
    tree = Hierarchy.from_paths([("cat",), ("dog",)])
    parts = {
        "train": Samples(images, ALL[:200], ALL[:200] % 2, tree),
        "test": Samples(images, ALL[200:], ALL[200:] % 2, tree),
    }
    data = DataSet("two", tree, lambda part, _: parts[part], (0.5,) * 3, (0.2,) * 3)
    net = Sums()
    made = vector_data_set(data, partial(TrunkVectors, trunk=trunk(net), cache=tmp_path, show=False))
    one, labels = made.samples("train").take(np.array([3]))
    assert one.shape == (1, 3)
    assert labels.tolist() == [1]
    assert len(made.samples("test")) == 100
    made.samples("test").inputs.prepare()
    assert net.seen == COUNT  # both parts have the same images
    assert (made.mean, made.std) == ((), ())
    assert made.samples("train").fingerprint() != parts["train"].fingerprint()
    other = vector_data_set(data, partial(TrunkVectors, trunk=trunk(Sums(1.5)), cache=tmp_path, show=False))
    assert made.samples("train").fingerprint() != other.samples("train").fingerprint()


def test_changed_image_files_are_noticed(tmp_path: Path) -> None:
    paths = []
    for number in range(4):
        paths.append(str(tmp_path / f"{number}.png"))
        Image.new("RGB", (20, 16), (40 * number, 90, 200)).save(paths[-1])

    def take() -> tuple[Tensor, int]:
        net = Sums()
        files = ImageFiles(paths, CentreCrop(8, 9), RandomCrop())
        return vectors(files, tmp_path, net, None).take(np.arange(4)), net.seen

    before, seen = take()
    assert seen == 4
    assert take()[1] == 0
    Image.new("RGB", (20, 16), (255, 0, 0)).save(paths[1])
    os.utime(paths[1], ns=(1, 1))
    after, seen = take()
    assert seen == 4
    assert (before != after).any(1).tolist() == [False, True, False, False]
