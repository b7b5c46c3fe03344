"""Load the data of a recipe, as vectors of the trunk if the backbone is frozen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import TypeAlias

import torch

from cophenet.data import DataSet
from cophenet.models import create_backbone, image_inputs
from cophenet.models.base import ImageInputs
from cophenet.models.registry import PRETRAINED
from cophenet.models.trunk import Trunk, TrunkVectors, vector_data_set
from cophenet.models.vector_cache import cache_folder
from cophenet.recipes import Recipe
from cophenet.recipes.own_code import check_trust

__all__ = ["find_weights", "image_settings", "load_data", "resized_to", "shared_data"]

# Data set; images before the trunk, and trunk, if there is one.
_Loaded: TypeAlias = tuple[DataSet, DataSet | None, Trunk | None]
_SHARED: ContextVar[dict[str, _Loaded] | None] = ContextVar("shared", default=None)


@contextmanager
def shared_data() -> Iterator[None]:
    """Within this context, experiments reuse the data of the previous one if their data settings are equal.

    For many runs in a row; changes of the files in the meantime are not detected.
    """
    token = _SHARED.set({})
    try:
        yield
    finally:
        _SHARED.reset(token)


def load_data(recipe: Recipe, folder: Path | None, progress: bool | None) -> _Loaded:
    """Load the data set of a recipe, as vectors if its backbone is frozen."""
    source, shared = recipe.create_source(), _SHARED.get()
    data, model = recipe.data, recipe.model
    parts = (data.name, data.options, data.domain, data.image_size, data.augment, data.workers)
    frozen = (model.backbone, model.options, model.weights, model.views) if model.frozen else ()
    key = repr((folder, parts, frozen, recipe.untrusted))
    if shared is not None and key in shared:
        return shared[key]
    loaded: _Loaded = (source.load(folder), None, None)
    if model.frozen:
        trunk = _load_trunk(recipe, loaded[0], folder)
        vectors = partial(
            TrunkVectors,
            trunk=trunk,
            augment=data.augment,
            views=model.views,
            workers=data.workers,
            cache=cache_folder(folder),
            show=progress,
        )
        loaded = (vector_data_set(loaded[0], vectors), loaded[0], trunk)
    if shared is not None:
        shared.clear()
        shared[key] = loaded
    return loaded


def _load_trunk(recipe: Recipe, data: DataSet, data_dir: Path | None) -> Trunk:
    """Create the frozen backbone of a recipe, for the images of a data set.

    Args:
        recipe: All settings.
        data: The images.
        data_dir: Folder of the data, which is also searched for weight files.

    Raises:
        FileNotFoundError: If the weight file is missing.
        ImportError: If the package of the weights is not installed.
        TrustError: If the recipe names custom code and is not trusted.
    """
    check_trust(recipe)
    name, settings = recipe.model.backbone, recipe.model
    shape = data.samples("train", recipe.data.domain).inputs.shape
    size = resized_to(recipe.data.image_size, shape)
    shape = shape if size is None else (shape[0], size, size)
    weights, trust = find_weights(recipe, data_dir), recipe.untrusted is None
    with torch.random.fork_rng(devices=[]):  # random weights are drawn before the given ones are loaded
        backbone = create_backbone(name, input_shape=shape, weights=weights, trust=trust, **settings.options)
    return Trunk(name, backbone, image_settings(recipe, data), size)


def image_settings(recipe: Recipe, data: DataSet) -> ImageInputs:
    """Return the image settings of the backbone's weights, or mean and std of the data if it has none."""
    wanted = image_inputs(recipe.model.backbone, recipe.model.weights)
    return wanted if wanted.mean else wanted._replace(mean=data.mean, std=data.std)


def resized_to(size: int | None, shape: tuple[int, ...]) -> int | None:
    """Return the side length to resize images to; None if no size is given or they already have it."""
    return None if size is None or shape[1:] == (size, size) else size


def find_weights(recipe: Recipe, data_dir: str | Path | None) -> str | Path | None:
    """Return the path of `model.weights`, relative to the data folder if given, else to the current folder.

    None and "pretrained" are returned unchanged.

    Raises:
        FileNotFoundError: If the file is missing; the message names the path.
    """
    if recipe.model.weights in (None, PRETRAINED):
        return recipe.model.weights
    path = Path(data_dir or Path.cwd()) / Path(recipe.model.weights).expanduser()
    if not path.is_file():
        base = "data_dir" if data_dir is not None else "the current folder"
        raise FileNotFoundError(
            f"model.weights {recipe.model.weights!r} not found: looked for {path}, relative to {base}"
        )
    return path
