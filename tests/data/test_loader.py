import itertools

import numpy as np
import pytest
import torch

from cophenet.data.dataset import ArrayInputs, Inputs, Samples
from cophenet.data.digits import Digits
from cophenet.data.loader import Loader
from cophenet.data.synthetic import Synthetic
from cophenet.tree import Hierarchy
from support import DEVICE

DATA = Digits().load(None)
TRAIN = DATA.samples("train")


class Slow(Inputs):
    """Inputs that look like files: images made when asked for, with random views of their own."""

    in_memory = False

    def __len__(self):
        """As many as there are rows."""
        return 40

    def take(self, rows):
        return torch.from_numpy(rows % 7).to(torch.uint8)[:, None, None, None].repeat(1, 3, 4, 4)

    def augmented(self, rows, seeds):
        return self.take(rows) + torch.from_numpy(seeds % 50).to(torch.uint8)[:, None, None, None]


FILES = Samples(Slow(), np.arange(40), np.arange(40) % 2, Hierarchy.from_paths([("a",), ("b",)]))


def same(first, second):
    pairs = list(itertools.zip_longest(first, second))
    return all(torch.equal(a, b) for left, right in pairs for a, b in zip(left, right, strict=True))


def loader(samples=TRAIN, batch_size=100, **options):
    if samples is TRAIN:
        options = {"mean": DATA.mean, "std": DATA.std, **options}
    return Loader(samples, batch_size, device=DEVICE, **options)


def test_batches_are_normalized_and_in_order():
    batches = list(loader())
    assert [len(labels) for _, labels in batches] == [100] * 13 + [47]
    inputs, labels = (torch.cat(parts).cpu() for parts in zip(*batches, strict=True))
    assert (inputs.dtype, inputs.shape) == (torch.float32, (1347, 1, 8, 8))
    assert labels.tolist() == TRAIN.labels.tolist()
    raw, _ = TRAIN.take(np.arange(1347))
    torch.testing.assert_close(inputs, (raw / 255 - DATA.mean[0]) / DATA.std[0])
    assert inputs.mean().abs() < 1e-3
    assert (inputs.std() - 1).abs() < 1e-3


def test_labels_stay_on_the_host_if_asked_for():
    for host_labels, place in ((True, "cpu"), (False, "meta")):
        inputs, labels = next(iter(Loader(TRAIN, 10, device="meta", host_labels=host_labels)))
        assert (inputs.device.type, labels.device.type) == ("meta", place)


def test_drop_last_and_length():
    assert (len(loader()), len(loader(drop_last=True)), len(loader(batch_size=1347))) == (14, 13, 1)
    assert len(list(loader(drop_last=True))) == 13
    with pytest.raises(ValueError, match="there is no batch: 1347 samples, batch_size 2000, drop_last True"):
        loader(batch_size=2000, drop_last=True)


def test_an_epoch_sees_every_sample_once_in_its_own_order():
    marked = Samples(ArrayInputs(torch.arange(40.0)[:, None]), FILES.rows, FILES.labels, FILES.tree)
    seen = [torch.cat([x for x, _ in loader(marked, 7, shuffle=True).batches(epoch)]) for epoch in range(3)]
    assert all(sorted(order.flatten().tolist()) == list(range(40)) for order in seen)
    assert not torch.equal(seen[0], seen[1])
    assert not torch.equal(seen[1], seen[2])


@pytest.mark.parametrize("samples", [TRAIN, FILES])
@pytest.mark.parametrize("start", [0, 2, 5])
def test_a_resumed_run_sees_the_same_batches(samples, start):
    options = {"shuffle": True, "augment": "cifar" if samples is TRAIN else "views", "seed": 5}
    first, second = (loader(samples, 7, **options) for _ in range(2))
    whole = list(first.batches(epoch=3))
    torch.rand(10)
    list(itertools.islice(second.batches(1), 2))
    assert same(whole[start:], second.batches(3, start))
    second.set_epoch(3, start)
    assert same(whole[start:], second)
    assert not same(whole, first.batches(4))
    assert not same(whole, loader(samples, 7, **{**options, "seed": 6}).batches(3))


def test_augmentation_belongs_to_the_sample_not_to_the_batch():
    small, large = (
        torch.cat([x for x, _ in loader(batch_size=n, augment="cifar").batches(2)]) for n in (10, 300)
    )
    assert torch.equal(small, large)
    assert not torch.equal(small, torch.cat([x for x, _ in loader(augment="cifar").batches(3)]))
    assert not torch.equal(small, torch.cat([x for x, _ in loader()]))


@pytest.mark.parametrize("augment", ["none", "views", "cifar"])
def test_workers_give_the_same_batches(augment):
    options = {"shuffle": True, "augment": augment, "mean": (0.5,) * 3, "std": (0.2,) * 3}
    state = torch.get_rng_state()
    alone, together = (loader(FILES, 6, workers=workers, **options) for workers in (0, 2))
    assert same(alone.batches(1), together.batches(1))
    assert same(alone.batches(1, 4), together.batches(1, 4))
    assert torch.equal(torch.get_rng_state(), state)


def test_an_abandoned_epoch_leaves_no_trace():
    together = loader(FILES, 6, workers=1, shuffle=True, augment="views")
    next(iter(together))
    assert same(together, loader(FILES, 6, shuffle=True, augment="views"))


def test_vectors_pass_unchanged():
    samples = Synthetic(samples_per_class=3).load(None).samples("test")
    inputs, _ = next(iter(loader(samples, 60)))
    assert torch.equal(inputs.cpu(), samples.inputs.values)


@pytest.mark.parametrize(
    ("samples", "options", "message"),
    [
        (TRAIN, {"augment": "views"}, "augment 'views' is for image files; inputs of kind ArrayInputs"),
        (TRAIN, {"augment": "crop"}, "augment must be one of none, cifar, views, got 'crop'"),
        (TRAIN, {"batch_size": 0}, "batch_size must be a whole number of at least 1, got 0"),
        (TRAIN, {"workers": -1}, "workers must be a whole number of at least 0"),
        (TRAIN, {"seed": -1}, "seed must be a whole number"),
        (TRAIN, {"std": (0.0,)}, "std must be positive"),
        (TRAIN, {"mean": (0.5, 0.5)}, "mean and std must have one number per channel, got 2 and 1"),
        (FILES, {"mean": (0.5,), "std": (0.5,)}, "mean has 1 channels, the images have 3"),
    ],
)
def test_wrong_options_are_refused(samples, options, message):
    with pytest.raises(ValueError, match=message):
        next(iter(loader(samples, **options)))


def test_normalization_and_augmentation_of_vectors_are_refused():
    samples = Synthetic(samples_per_class=3).load(None).samples("test")
    with pytest.raises(ValueError, match="mean and std are for images of uint8"):
        next(iter(loader(samples, mean=(0.5,), std=(0.5,))))
    with pytest.raises(ValueError, match="needs images"):
        next(iter(loader(samples, augment="cifar")))


def test_epochs_and_steps_that_do_not_exist_are_refused():
    with pytest.raises(ValueError, match="start must be a whole number"):
        loader().batches(0, -1)
    with pytest.raises(ValueError, match="start must not exceed the 14 batches of an epoch, got 15"):
        loader().batches(0, 15)
    assert list(loader().batches(0, 14)) == []
    with pytest.raises(ValueError, match="epoch must be a whole number"):
        loader().set_epoch(-1)


def test_images_are_resized_last():
    samples = TRAIN
    plain = next(iter(Loader(samples, 4)))[0]
    large = next(iter(Loader(samples, 4, size=16)))[0]
    assert large.shape == (4, 1, 16, 16)
    torch.testing.assert_close(large.mean(), plain.mean(), rtol=0.02, atol=0)
    with pytest.raises(ValueError, match="size must be a whole number of at least 1, got 0"):
        Loader(samples, 4, size=0)


class Broken(Slow):
    """Inputs of which one cannot be read."""

    def take(self, rows):
        if 7 in rows:
            raise ValueError("photo7.jpg is truncated")
        return super().take(rows)


@pytest.mark.parametrize("world_size", [2, 3, 7])
@pytest.mark.parametrize(
    ("samples", "options"),
    [(TRAIN, {"augment": "cifar"}), (FILES, {"augment": "views"}), (FILES, {"drop_last": True})],
)
def test_shards_in_order_of_rank_are_the_batch(samples, options, world_size):
    options = {"shuffle": True, "seed": 3, **options}
    samples = samples.subset(np.arange(38))  # batches of 9, the last one of 2
    alone = list(loader(samples, 9, **options).batches(2, 1))
    ranks = [loader(samples, 9, **options, rank=r, world_size=world_size) for r in range(world_size)]
    assert {len(one) for one in ranks} == {len(loader(samples, 9, **options))}
    shards = list(zip(*(one.batches(2, 1) for one in ranks), strict=True))
    assert same(alone, [[torch.cat(parts) for parts in zip(*step, strict=True)] for step in shards])
    for step in shards:
        sizes = [len(labels) for _, labels in step]
        assert max(sizes) - min(sizes) <= 1
        assert {(x.dtype, x.shape[1:], y.dtype) for x, y in step} == {
            (torch.float32, alone[0][0].shape[1:], torch.int64)
        }


class Counting(Slow):
    """Inputs that remember which rows were read."""

    def __init__(self):
        self.read = []

    def take(self, rows):
        self.read += rows.tolist()
        return super().take(rows)


def test_a_process_reads_its_shard_alone():
    inputs = Counting()
    samples = Samples(inputs, FILES.rows, FILES.labels, FILES.tree)
    shards = list(loader(samples, 8, rank=1, world_size=2))
    assert [len(labels) for _, labels in shards] == [4] * 5
    assert inputs.read == [row for start in range(4, 40, 8) for row in range(start, start + 4)]


def test_ranks_that_do_not_exist_are_refused():
    with pytest.raises(ValueError, match="rank must be below world_size 2, got 2"):
        loader(rank=2, world_size=2)
    with pytest.raises(ValueError, match="world_size must be a whole number of at least 1, got 0"):
        loader(world_size=0)


@pytest.mark.parametrize("workers", [0, 1])
def test_an_unreadable_file_is_one_sentence_also_from_a_worker(workers):
    broken = Samples(Broken(), FILES.rows, FILES.labels, FILES.tree)
    with pytest.raises(ValueError, match=r"^photo7\.jpg is truncated$"):
        list(loader(broken, 6, workers=workers))
