"""Whether what a recipe names exists and fits together; the rooms that know load when first asked."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from cophenet._common.checks import check_choice
from cophenet.recipes.options import build, check_types

if TYPE_CHECKING:
    from cophenet.data.source import DataSource

__all__ = ["check_augment", "check_backbone", "check_objective"]

# Backbones that were built once to see that they can be: recipes are checked often, and that takes longest.
_FITTING: set[str] = set()


def check_augment(name: str, source: DataSource, image_size: int | None) -> None:
    """Refuse an unknown augmentation, and one that the data cannot have."""
    from cophenet.data.augmentation import augment_names

    check_choice("augment", name, ("none", *augment_names(), "views"))
    if source.reads_image_files and image_size is None:
        raise ValueError(f"image_size is missing: data {source.name!r} is image files, which have any size")
    if name == "none":
        return
    if image_size is None:
        raise ValueError(f"augment {name!r} is for images: give image_size too, or augment 'none'")
    if name not in source.augmentations:
        kind = "image files" if source.reads_image_files else "no image files"
        allowed = ", ".join(source.augmentations)
        raise ValueError(f"augment must be one of {allowed} for data {source.name!r}, {kind}, got {name!r}")


def check_objective(name: str, options: Mapping[str, Any]) -> None:
    """Refuse an unknown objective, and options that it does not take; tried on a small tree.

    Example:
        >>> check_objective("soft", {"bta": 10})
        Traceback (most recent call last):
        ValueError: objective 'soft' has no option 'bta'; its options are beta; did you mean 'beta'?
    """
    from cophenet.objectives import create, objective_names
    from cophenet.objectives.registry import objective_class
    from cophenet.transport import create_distance
    from cophenet.tree import Hierarchy

    check_choice("objective", name, objective_names())
    tree = Hierarchy.from_paths([("pet", "cat"), ("pet", "dog"), ("car", "bus"), ("car", "van")])
    key, cls = f"objective.options.{name}", objective_class(name)
    if cls is None:
        build(key, partial(create_distance, name, tree), options)
        return
    check_types(key, cls, options)
    # Which levels there are is known when the tree is.
    build(key, partial(create, name, tree), {k: options[k] for k in options if k != "level"})


def check_backbone(name: str, options: Mapping[str, Any], image_size: int | None) -> None:
    """Refuse an unknown backbone, wrong options, and one that cannot take such inputs (None for vectors).

    Backbones of other packages and by import path are left to the training.

    Example:
        >>> check_backbone("mlp", {"hidden": 5}, 8)
        Traceback (most recent call last):
        ValueError: model.options.hidden must be a list, got 5
    """
    import torch

    from cophenet.models import create_backbone

    for taken, place in (("weights", "model.weights"), ("input_shape", "data.image_size")):
        if taken in options:
            raise ValueError(f"model.options.{taken} is set by {place}: give that instead")
    if ":" in name:
        return
    described = repr((name, sorted(options.items()), image_size))
    if described in _FITTING:
        return
    # Channels of images and length of vectors are known to the data only; any will do here.
    shape = (3, image_size, image_size) if image_size else (8,)
    with torch.device("meta"):
        build("model.options", partial(create_backbone, name, input_shape=shape), options)
    _FITTING.add(described)
