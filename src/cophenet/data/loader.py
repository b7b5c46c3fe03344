"""Batches of samples as model inputs, in an order that depends only on seed and epoch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from cophenet._common.checks import check_choice, check_whole
from cophenet.data.augmentation import augment_names, create_augment, loader_augments, resize_images
from cophenet.data.dataset import Labels, Samples
from cophenet.data.samplers import HierarchicalBatchSampler, check_rank, check_start, shard

__all__ = ["Loader"]

# The samples of a batch, and the seeds of their random views if they have any.
_Request: TypeAlias = tuple[Labels, Labels | None]

# Purposes of the random numbers of an epoch; each has its own stream.
_ORDER, _DRAWS, _VIEWS = range(3)


@runtime_checkable
class _WithViews(Protocol):
    """Inputs that have random views, such as image files."""

    def augmented(self, rows: Labels, seeds: Labels) -> Tensor:
        """Random views of the inputs of some rows, each determined by its seed."""


@dataclass(eq=False, repr=False)
class Loader:
    """Batches of (inputs, labels): inputs float32 and normalized, on the training device.

    Order and augmentation are functions of seed, epoch and sample, never of earlier draws: a run that is
    resumed in the middle of an epoch gets the same batches as an uninterrupted one. Inputs in memory are
    augmented as whole batches on the device. Files are read by workers, whose number does not change the
    batches.

    In distributed training each process loads its shard of every batch: `rank` and `world_size` split it into
    contiguous shards, which in order of rank form the batch that a single process would load. The sizes of
    shards differ by at most one; if the last batch has fewer samples than processes, some shards are empty.

    Args:
        samples: The samples to load.
        batch_size: Samples per batch, of all processes together.
        mean: Mean per channel of inputs scaled to 0..1, as in `DataSet.mean`; empty for no normalization.
        std: Standard deviation per channel, likewise.
        seed: Determines order and augmentation.
        shuffle: Whether every epoch has its own random order; if not, all have the order of the samples.
        augment: `"none"`; `"cifar"`, see `PadCropFlipRotate`; `"views"`, the random views that the source of
            image files defines (crops, flips and colours).
        size: Side to which images in memory are resized after augmentation; None for no resizing.
        interpolation: Interpolation for resizing, "bilinear" or "bicubic".
        drop_last: Whether to drop an incomplete last batch.
        device: Device of the batches.
        host_labels: Whether labels stay on the host, so that a loss can plan without waiting for a device.
        workers: Number of processes that read files; 0 to read in this process. Inputs in memory are always
            read in this process.
        rank: Which shard of every batch to load.
        world_size: Number of processes that share a batch.
        sampler: Chooses the samples of every batch, instead of `shuffle` and `drop_last`. Its whole batches
            are used; its own rank is ignored. A sample that occurs several times in an epoch is augmented
            differently each time.

    Example:
        >>> from cophenet.data.digits import Digits
        >>> digits = Digits().load(None)
        >>> loader = Loader(digits.samples("train"), 64, mean=digits.mean, std=digits.std, shuffle=True)
        >>> inputs, labels = next(iter(loader))
        >>> inputs.shape, inputs.dtype, labels.shape
        (torch.Size([64, 1, 8, 8]), torch.float32, torch.Size([64]))
        >>> resumed = loader.batches(epoch=3, start=20)
    """

    samples: Samples
    batch_size: int
    _: KW_ONLY
    mean: Sequence[float] = ()
    std: Sequence[float] = ()
    seed: int = 0
    shuffle: bool = False
    augment: str = "none"
    size: int | None = None
    interpolation: str = "bilinear"
    drop_last: bool = False
    device: torch.device | str = "cpu"
    host_labels: bool = False
    workers: int = 0
    rank: int = 0
    world_size: int = 1
    sampler: HierarchicalBatchSampler | None = None

    def __post_init__(self) -> None:
        """Check the arguments."""
        for name, least in (("batch_size", 1), ("seed", 0), ("workers", 0)):
            check_whole(name, getattr(self, name), least)
        check_rank(self.rank, self.world_size)
        if self.sampler is not None:
            self._check_sampler(self.sampler)
        check_choice("augment", self.augment, loader_augments())
        if self.size is not None:
            check_whole("size", self.size, 1)
        self.epoch = self.start = 0
        self.device = self._device = torch.device(self.device)
        self._views = self.augment == "views"
        if self._views and not isinstance(self.samples.inputs, _WithViews):
            kind = type(self.samples.inputs).__name__
            raise ValueError(
                f"augment 'views' is for image files; inputs of kind {kind} have no random views"
            )
        self._augment = create_augment(self.augment) if self.augment in augment_names() else None
        self._scale, self._shift = (part.to(self._device) for part in _normalization(self.mean, self.std))
        if len(self) == 0:
            raise ValueError(
                f"there is no batch: {len(self.samples)} samples, batch_size {self.batch_size}, "
                f"drop_last {self.drop_last}"
            )

    def __len__(self) -> int:
        """Number of batches in a whole epoch."""
        if self.sampler is not None:
            return len(self.sampler)
        full, rest = divmod(len(self.samples), self.batch_size)
        return full + bool(rest and not self.drop_last)

    def set_epoch(self, epoch: int, start: int = 0) -> None:
        """Set the epoch and first step of the following iterations.

        Args:
            epoch: Number of the epoch, from 0.
            start: The first step, for a run that was interrupted.
        """
        check_start(epoch, start, len(self))
        self.epoch, self.start = epoch, start

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        """The batches of the chosen epoch."""
        return self.batches(self.epoch, self.start)

    def batches(self, epoch: int, start: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
        """Iterate over the batches of an epoch, starting at a step.

        Args:
            epoch: Number of the epoch, from 0.
            start: The first step.

        Returns:
            Iterator of inputs (n, ...) float32 and labels (n,) int64: this process's shard of each batch.

        Raises:
            ValueError: If there is no such epoch or step.
        """
        check_start(epoch, start, len(self))
        return self._batches(epoch, start)

    def _batches(self, epoch: int, start: int) -> Iterator[tuple[Tensor, Tensor]]:
        order = self._order(epoch)
        begins = range(start * self.batch_size, len(self) * self.batch_size, self.batch_size)
        sizes = [min(self.batch_size, len(order) - begin) for begin in begins]
        batches = [
            shard(size, self.rank, self.world_size, begin) for size, begin in zip(sizes, begins, strict=True)
        ]
        # For an empty shard one sample is read for its shape, and then cut off.
        steps = [part if part.stop > part.start else slice(1) for part in batches]
        draw_row = _draw_rows(order)
        seeds = self._random(epoch, _VIEWS).integers(2**63, size=len(order)) if self._views else None
        draws = None
        if self._augment is not None:
            rng = self._random(epoch, _DRAWS)
            draws = torch.from_numpy(rng.random((len(order), self._augment.draws), dtype=np.float32))
        requests = [(order[step], None if seeds is None else seeds[draw_row[step]]) for step in steps]
        read = _read(self.samples, requests, self.workers, self._device.type == "cuda")
        for own, step, (inputs, labels) in zip(batches, steps, read, strict=True):
            images = inputs.to(self._device, non_blocking=True)
            if self._augment is not None and draws is not None:
                images = self._augment(images, draws[torch.from_numpy(draw_row[step])].to(self._device))
            size = own.stop - own.start
            if not self.host_labels:
                labels = labels.to(self._device, non_blocking=True)
            yield self._normalized(images)[:size], labels[:size]

    def _check_sampler(self, sampler: HierarchicalBatchSampler) -> None:
        if len(sampler.labels) != len(self.samples):
            raise ValueError(
                f"sampler is for {len(sampler.labels)} samples, but there are {len(self.samples)}"
            )
        if sampler.batch_size != self.batch_size:
            raise ValueError(f"batch_size must be the sampler's {sampler.batch_size}, got {self.batch_size}")
        if self.shuffle or self.drop_last:
            raise ValueError(
                "shuffle and drop_last must be False with a sampler, which decides the order itself"
            )

    def _order(self, epoch: int) -> Labels:
        if self.sampler is not None:
            return self.sampler.plan(epoch).ravel()
        order = np.arange(len(self.samples))
        return self._random(epoch, _ORDER).permutation(order) if self.shuffle else order

    def _random(self, epoch: int, purpose: int) -> np.random.Generator:
        return np.random.default_rng((self.seed, epoch, purpose))

    def _normalized(self, inputs: Tensor) -> Tensor:
        if inputs.dtype != torch.uint8:
            if self.mean:
                raise ValueError(f"mean and std are for images of uint8; got {inputs.dtype} {inputs.shape}")
            return inputs
        if self.mean and inputs.shape[1] != len(self.mean):
            raise ValueError(f"mean has {len(self.mean)} channels, the images have {inputs.shape[1]}")
        return resize_images(
            inputs.float().mul_(self._scale).add_(self._shift), self.size, self.interpolation
        )


def _draw_rows(order: Labels) -> Labels:
    """Row of the epoch's random numbers for each place in the order: sorted by sample, then by occurrence."""
    rows = np.empty_like(order)
    rows[np.argsort(order, kind="stable")] = np.arange(len(order))
    return rows


def _normalization(mean: Sequence[float], std: Sequence[float]) -> tuple[Tensor, Tensor]:
    """Factor and offset that normalize bytes: (channels, 1, 1), or (1, 1, 1) without a mean."""
    if len(mean) != len(std):
        raise ValueError(f"mean and std must have one number per channel, got {len(mean)} and {len(std)}")
    if not all(value > 0 for value in std):
        raise ValueError(f"std must be positive, got {tuple(std)}")
    divisor = torch.tensor(std or [1.0])[:, None, None]
    return 1 / (255 * divisor), -torch.tensor(mean or [0.0])[:, None, None] / divisor


def _take(samples: Samples, request: _Request) -> tuple[Tensor, Tensor]:
    """Read a batch, given the positions of its samples and the seeds of their views."""
    positions, seeds = request
    inputs = samples.inputs
    if seeds is None or not isinstance(inputs, _WithViews):
        return samples.take(positions)
    return inputs.augmented(samples.rows[positions], seeds), torch.from_numpy(samples.labels[positions])


class _Quiet(Dataset[Any]):
    """Reads batches in a worker; returns errors, which `DataLoader` would wrap in the text of a traceback."""

    def __init__(self, samples: Samples) -> None:
        self.samples = samples

    def __getitem__(self, request: _Request) -> Any:
        try:
            return _take(self.samples, request)
        except (ValueError, OSError) as error:
            return error


def _read(
    samples: Samples, requests: list[_Request], workers: int, pin: bool
) -> Iterator[tuple[Tensor, Tensor]]:
    if workers == 0 or samples.inputs.in_memory:
        yield from (_take(samples, request) for request in requests)
        return
    read = DataLoader(
        _Quiet(samples),
        batch_size=None,
        sampler=requests,
        num_workers=workers,
        pin_memory=pin,
        # A separate generator, so that reading files does not advance torch's global one.
        generator=torch.Generator(),
    )
    for batch in read:
        if isinstance(batch, Exception):
            raise batch
        yield batch
