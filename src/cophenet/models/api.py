"""Backbones made by name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cophenet._common.checks import check_choice, check_options
from cophenet.models.base import Backbone
from cophenet.models.foreign import create_foreign
from cophenet.models.resnet import BLOCKS, ResNet
from cophenet.models.vectors import MLP, Identity
from cophenet.models.vit import VisionTransformer
from cophenet.models.weights import load_weights

__all__ = ["backbone_names", "create_backbone"]

_REGISTRY: dict[str, tuple[type[Backbone], dict[str, int]]] = {
    **{f"resnet{depth}": (ResNet, {"depth": depth}) for depth in BLOCKS},
    "vit_b_16": (VisionTransformer, {"depth": 12, "width": 768, "heads": 12, "hidden": 3072}),
    "vit_l_16": (VisionTransformer, {"depth": 24, "width": 1024, "heads": 16, "hidden": 4096}),
    "mlp": (MLP, {}),
    "identity": (Identity, {}),
}


def backbone_names() -> tuple[str, ...]:
    """Names of the backbones that come with the package.

    Example:
        >>> backbone_names()[:4]
        ('resnet10', 'resnet18', 'resnet34', 'resnet50')
    """
    return tuple(_REGISTRY)


def create_backbone(
    name: str, *, input_shape: Sequence[int], weights: str | Path | None = None, **options: Any
) -> Backbone:
    """Make a backbone by name.

    Args:
        name: One of `backbone_names()`; a ResNet with another base width than 64, as in `resnet18-w16`;
            `timm:NAME` or `torchvision:NAME` where that package is installed; or `package.module:Class`, a
            module of your own from inputs to (B, d).
        input_shape: Shape of one input: (channels, height, width) of images, (d,) of vectors.
        weights: A checkpoint to load, all of it but its classifier: a torch or safetensors file.
        **options: The backbone's own options.

    Raises:
        FileNotFoundError: If there are no such weights.
        ImportError: If the package of the name is not installed.
        ValueError: If a name or option is unknown or wrong, the backbone cannot take such inputs, or the
            weights do not fit.

    Example:
        >>> import torch
        >>> backbone = create_backbone("resnet10-w16", input_shape=(1, 8, 8), stem="cifar")
        >>> backbone.num_features, backbone(torch.zeros(2, 1, 8, 8)).shape
        (128, torch.Size([2, 128]))
    """
    if not input_shape or not all(type(size) is int and size >= 1 for size in input_shape):
        raise ValueError(f"input_shape must be positive integers, got {input_shape!r}")
    if ":" in name:
        backbone: Backbone = create_foreign(name, input_shape, options)
    else:
        backbone = _create_own(name, input_shape, options)
    if weights is not None:
        load_weights(backbone, weights)
    return backbone


def _create_own(name: str, input_shape: Sequence[int], options: dict[str, Any]) -> Backbone:
    base, width = _parse(name)
    check_choice("backbone", base, _REGISTRY)
    cls, sizes = _REGISTRY[base]
    # A name stands for its sizes, so they are no options beside it.
    check_options(f"backbone {name!r}", cls, options, fixed={*sizes, "width"})
    return cls(input_shape, **{**sizes, **width}, **options)


def _parse(name: str) -> tuple[str, dict[str, int]]:
    """The registered name, and the width if there is one."""
    match = re.fullmatch(r"(resnet\d+)-w(\d+)", name)
    if match is None:
        return name, {}
    width = int(match[2])
    if width == 0 or width % 4:
        raise ValueError(f"the width in backbone {name!r} must be a positive multiple of 4, got {width}")
    return match[1], {"width": width}
