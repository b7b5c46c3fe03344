"""A frozen backbone before a small trained network: it turns a data set of images into one of vectors.

Training and evaluation then use vectors, which are computed once and stored by `VectorCache`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from cophenet._common.progress import Progress
from cophenet.data import DataSet, Domain, Inputs, Loader, Part, Samples
from cophenet.data.dataset import Labels
from cophenet.models.base import Backbone, ImageInputs
from cophenet.models.registry import create_backbone
from cophenet.models.vector_cache import VectorCache
from cophenet.tree import Hierarchy

__all__ = ["Necked", "Trunk", "TrunkVectors", "create_neck", "vector_data_set"]

# Part of the digest of a cache: increase it if vectors are computed in another way.
_VERSION = 1
_BATCH = 64


class Necked(Backbone):
    """A backbone followed by a small network, trained together.

    Args:
        trunk: Maps inputs to its features.
        neck: Maps the trunk's features to the features of the whole.

    Example:
        >>> from cophenet.models import create_backbone
        >>> trunk = create_backbone("identity", input_shape=(1, 2, 2))
        >>> neck = create_backbone("mlp", input_shape=(trunk.num_features,), hidden=(3,))
        >>> Necked(trunk, neck)(torch.zeros(5, 1, 2, 2)).shape
        torch.Size([5, 3])
    """

    def __init__(self, trunk: Backbone, neck: Backbone) -> None:
        super().__init__()
        self.trunk, self.neck, self.num_features = trunk, neck, neck.num_features

    def forward_features(self, inputs: Tensor) -> Tensor:
        """(B, *input_shape) -> (B, num_features)."""
        features: Tensor = self.neck(self.trunk(inputs))
        return features


def create_neck(options: Mapping[str, Any] | None, input_shape: Sequence[int]) -> Backbone:
    """A small network on the vectors of a backbone: an `mlp` with these options, or the identity for None.

    Example:
        >>> create_neck({"hidden": [512], "dropout": 0.3}, (1280,)).num_features
        512
    """
    if options is None:
        return create_backbone("identity", input_shape=input_shape)
    return create_backbone("mlp", input_shape=input_shape, **options)


@dataclass(frozen=True, eq=False)
class Trunk:
    """A frozen backbone with its image preprocessing.

    Attributes:
        name: Name of the backbone.
        backbone: Maps images to vectors; it is put into evaluation mode.
        images: The preprocessing, with the mean and deviation of the data if its weights have none.
        size: Side length to which images in memory are resized; None for images that have it already.
    """

    name: str
    backbone: Backbone
    images: ImageInputs
    size: int | None = None

    def __post_init__(self) -> None:
        """Freeze the backbone."""
        self.backbone.eval().requires_grad_(False)

    @cached_property
    def digest(self) -> str:
        """A checksum of everything except the images that the vectors depend on."""
        digest = hashlib.sha256(json.dumps([self.name, self.images, self.size]).encode())
        for name, values in sorted(self.backbone.state_dict().items()):
            digest.update(f"{name} {values.dtype} {tuple(values.shape)} ".encode())
            digest.update(values.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
        return digest.hexdigest()[:16]

    @contextmanager
    def on(self, device: torch.device) -> Iterator[Backbone]:
        """Move the backbone to a device for the duration of the context."""
        try:
            yield self.backbone.to(device)
        finally:
            self.backbone.to("cpu")


@dataclass(eq=False)
class TrunkVectors(Inputs):
    """The vectors of images, computed on first use or read from a cache.

    Attributes:
        images: The images.
        trunk: The backbone that computes the vectors.
        name: Name of the data set, for the progress bar and the folder of the cache.
        part: Part of the data set, for the progress bar.
        augment: The augmentation, as for `Loader`.
        views: Number of augmented views of each image in addition to the image itself; `augmented` picks one
            of them all.
        workers: Number of processes that read image files.
        cache: Folder of caches; None to keep vectors in memory only.
        show: Whether to show a progress bar: None for a bar on a terminal and lines elsewhere.
    """

    in_memory: ClassVar[bool] = True

    images: Inputs
    trunk: Trunk
    name: str = "images"
    part: str = ""
    augment: str = "none"
    views: int = 0
    workers: int = 0
    cache: Path | None = None
    show: bool | None = None
    _values: dict[int, Tensor] = field(default_factory=dict, init=False, repr=False)

    def __len__(self) -> int:
        """Number of vectors."""
        return len(self.images)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a vector."""
        return (self.trunk.backbone.num_features,)

    @property
    def originals(self) -> Inputs:
        """The images."""
        return self.images

    def take(self, rows: Labels) -> Tensor:
        """The vectors of some images, without augmentation."""
        return self._view(0).index_select(0, torch.from_numpy(rows))

    def augmented(self, rows: Labels, seeds: Labels) -> Tensor:
        """The vectors of some images, each of the view that its seed selects."""
        chosen = torch.from_numpy(seeds % (self.views + 1))
        vectors = self.take(rows)
        for view in range(1, self.views + 1):
            places = torch.nonzero(chosen == view)[:, 0]
            vectors[places] = self._view(view).index_select(0, torch.from_numpy(rows)[places])
        return vectors

    def fingerprint(self, rows: Labels) -> str:
        """A checksum of the images of some rows and of the trunk; empty if the images have none."""
        images = self.images.fingerprint(rows)
        text = f"{images} {self.trunk.digest} {self.augment} {self.views}"
        return hashlib.sha256(text.encode()).hexdigest()[:16] if images else ""

    def prepare(self) -> None:
        """Compute all vectors that are not in the cache, and load the others."""
        for view in range(self.views + 1):
            self._view(view)

    def _view(self, view: int) -> Tensor:
        """(n, d) vectors of one view; view 0 is without augmentation."""
        if view not in self._values:
            values = torch.empty(len(self), *self.shape)
            folder = self._folder(view)
            if folder is None:
                self._fill(values, view, 0, None)
            else:
                cache = VectorCache(folder, *values.shape)
                if cache.read(values) < len(values):
                    with cache.alone(self._label(view)):
                        start = cache.read(values)  # again: another process may have computed some
                        if start < len(values):
                            self._fill(values, view, start, cache)
            self._values[view] = values
        return self._values[view]

    @cached_property
    def _content(self) -> str:
        return self.images.content_key()

    def _folder(self, view: int) -> Path | None:
        """The cache folder of a view, named by everything it depends on; None if it cannot be cached."""
        if self.cache is None or not self._content:
            return None
        varied = [view, self.augment] if view else []
        text = json.dumps([_VERSION, self._content, self.trunk.digest, *varied])
        label = re.sub("[^A-Za-z0-9]+", "-", f"{self.name} {self.trunk.name}").strip("-")
        return self.cache / "vectors" / f"{label[:60]}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"

    def _fill(self, values: Tensor, view: int, start: int, cache: VectorCache | None) -> None:
        """Compute the vectors from `start`, the first row of a shard, and write them shard by shard."""
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        done, total = start, len(values)
        with (
            Progress(self._label(view), total, done=start, show=self.show, every=max(1, total // 10)) as bar,
            self.trunk.on(device) as backbone,
            torch.inference_mode(),
        ):
            for images, _ in self._loader(view, device).batches(view, start // _BATCH):
                values[done : done + len(images)] = backbone(images)
                done += len(images)
                if cache is not None and (done % cache.shard == 0 or done == total):
                    number = (done - 1) // cache.shard
                    cache.write(number, values[number * cache.shard : done])
                bar.update(done, *(() if bar.is_bar else (f"{bar.time_left(done)} left",)))

    def _loader(self, view: int, device: torch.device) -> Loader:
        """A loader of all images in order; every view is a separate epoch, with its own random numbers."""
        trunk, rows = self.trunk, np.arange(len(self.images))
        unlabelled = Samples(self.images, rows, np.zeros_like(rows), Hierarchy.from_paths([("image",)]))
        return Loader(
            unlabelled,
            _BATCH,
            mean=trunk.images.mean,
            std=trunk.images.std,
            size=trunk.size,
            interpolation=trunk.images.interpolation,
            augment=self.augment if view else "none",
            device=device,
            workers=self.workers,
        )

    def _label(self, view: int) -> str:
        what = " ".join(part for part in (self.name, self.part) if part)
        return f"vectors of {what} by {self.trunk.name}" + (f", view {view}/{self.views}" if view else "")


def vector_data_set(data: DataSet, vectors: Callable[..., TrunkVectors]) -> DataSet:
    """Turn a data set of images into one of vectors, with the same classes, parts and domains.

    Args:
        data: The images.
        vectors: Creates their vectors: `TrunkVectors` with a trunk and other settings.

    Example:
        >>> from functools import partial
        >>> from cophenet.data import create_source
        >>> from cophenet.models import create_backbone
        >>> digits = create_source("digits").load(None)
        >>> images = ImageInputs(digits.mean, digits.std)
        >>> trunk = Trunk("mlp", create_backbone("mlp", input_shape=(1, 8, 8)), images)
        >>> made = vector_data_set(digits, partial(TrunkVectors, trunk=trunk, show=False))
        >>> made.samples("test", "target").take(np.arange(5))[0].shape
        torch.Size([5, 256])
    """
    # Domains share their images; the test part has no views.
    made: dict[tuple[int, int], TrunkVectors] = {}

    def make(part: Part, domain: Domain) -> Samples:
        samples = data.samples(part, domain)
        no_views = {} if part == "train" else {"views": 0}
        one = vectors(samples.inputs, name=data.name, part=part, **no_views)
        one = made.setdefault((id(samples.inputs), one.views), one)
        return Samples(one, samples.rows, samples.labels, samples.tree)

    return DataSet(data.name, data.tree, make)
