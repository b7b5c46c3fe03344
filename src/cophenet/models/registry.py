"""Registry of backbones: register, list and create them by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch

from cophenet._common.checks import check_options, wrong_argument
from cophenet._common.registry import Registry
from cophenet._common.trust import TrustError
from cophenet.models.base import Backbone, ImageInputs
from cophenet.models.other_packages import code_named, create_foreign, foreign_image_inputs
from cophenet.models.weights import load_weights

__all__ = [
    "BACKBONES",
    "PRETRAINED",
    "backbone_maker",
    "backbone_names",
    "check_pretrained",
    "create_backbone",
    "find_pretrained",
    "image_inputs",
    "register_backbone",
]

# Given in place of a weights file to use the backbone's own weights.
PRETRAINED = "pretrained"
_Backbone = TypeVar("_Backbone", bound="type[Backbone]")


def _check_backbone(name: str, make: object) -> None:
    cls = make.func if isinstance(make, partial) else make
    if not (isinstance(cls, type) and issubclass(cls, Backbone)):
        raise ValueError(f"backbone {name!r} must be a subclass of cophenet.models.Backbone, got {cls!r}")


BACKBONES = Registry[Callable[..., Backbone]](
    "backbone", "cophenet.models", "cophenet.backbones", _check_backbone
)


def register_backbone(name: str, **sizes: int) -> Callable[[_Backbone], _Backbone]:
    """Class decorator: register a backbone under a name; repeat it to register several sizes.

    Other packages do not need it: they declare an entry point of the group `cophenet.backbones`.

    Args:
        name: The name.
        **sizes: Arguments of the class that the name sets, and that are therefore not options.

    Raises:
        ValueError: If a backbone of that name exists.
    """

    def add(cls: _Backbone) -> _Backbone:
        BACKBONES.register(name)(partial(cls, **sizes) if sizes else cls)
        return cls

    return add


def backbone_names() -> tuple[str, ...]:
    """Names of all backbones; those of other packages come last.

    Example:
        >>> {"mlp", "resnet18", "vit_b_16"} <= set(backbone_names())
        True
    """
    return BACKBONES.names()


def create_backbone(
    name: str,
    *,
    input_shape: Sequence[int],
    weights: str | Path | None = None,
    trust: bool = True,
    **options: Any,
) -> Backbone:
    """Create a backbone by name.

    Args:
        name: One of `backbone_names()`; a ResNet with a base width other than 64, as in `resnet18-w16`;
            `timm:NAME` or `torchvision:NAME` if that package is installed; or `package.module:Class`, your
            own module from inputs to (B, d), which is also searched in the current folder.
        input_shape: Shape of one input: (channels, height, width) of images, (d,) of vectors.
        weights: A checkpoint to load without its classifier: a torch or safetensors file; or "pretrained" for
            the backbone's own weights, if it has any.
        trust: Whether user code may be imported and called; False for a name and options from a file of
            somebody else.
        **options: The backbone's own options.

    Raises:
        FileNotFoundError: If the file of weights does not exist.
        ImportError: If the package of the backbone, or that of its weights, is not installed.
        TrustError: If it is user code that is not trusted.
        ValueError: If a name or option is unknown or invalid, the backbone does not accept such inputs, or
            the weights do not fit.

    Example:
        >>> import torch
        >>> backbone = create_backbone("resnet10-w16", input_shape=(1, 8, 8), stem="cifar")
        >>> backbone.num_features, backbone(torch.zeros(2, 1, 8, 8)).shape
        (128, torch.Size([2, 128]))
    """
    if not input_shape or not all(type(size) is int and size >= 1 for size in input_shape):
        raise ValueError(f"input_shape must be positive integers, got {input_shape!r}")
    code = None if trust else code_named(name, options)
    if code is not None:
        raise TrustError(f"{code} is code that is not trusted: it is neither imported nor called")
    if weights == PRETRAINED:
        check_pretrained(name)
    if ":" in name:
        backbone: Backbone = create_foreign(name, input_shape, options, pretrained=weights == PRETRAINED)
        file = None if weights == PRETRAINED else weights
    else:
        backbone = _create_own(name, input_shape, options)
        file = backbone.pretrained_file() if weights == PRETRAINED else weights
    if file is not None:
        load_weights(backbone, file)
    return backbone


def check_pretrained(name: str) -> None:
    """Raise if a backbone has no weights of its own; no user code is imported.

    Raises:
        ValueError: If it has none.

    Example:
        >>> check_pretrained("mlp")
        Traceback (most recent call last):
        ValueError: weights 'pretrained' are those of efficientnet-lite0, ... not of backbone 'mlp'; ...
    """
    package, colon, _ = name.partition(":")
    if package in ("timm", "torchvision") if colon else _class_of(backbone_maker(name)[0]).has_pretrained:
        return
    names = [known for known in BACKBONES.names() if _class_of(BACKBONES.get(known)).has_pretrained]
    having = ", ".join([*names, "timm:NAME", "torchvision:NAME"])
    raise wrong_argument(
        "weights", f"{PRETRAINED!r} are those of {having}, not of backbone {name!r}; give a file"
    )


def find_pretrained(name: str) -> Path | None:
    """The file of a backbone's pretrained weights; None if its package downloads them when it is created.

    Raises:
        ImportError: If the package that contains them is not installed.
        ValueError: If the backbone has none.
    """
    check_pretrained(name)
    if ":" in name:
        return None
    with torch.device("meta"):
        return backbone_maker(name)[0]((3, 64, 64)).pretrained_file()


def image_inputs(name: str, weights: str | Path | None = None) -> ImageInputs:
    """The image preprocessing that the weights of a backbone expect; without a mean that of the data is used.

    Args:
        name: The backbone, as for `create_backbone`.
        weights: Its weights, as for `create_backbone`; those of other packages expect something only if they
            are pretrained.

    Example:
        >>> mean, std, interpolation = image_inputs("efficientnet-lite0")
        >>> [round(255 * value) for value in (mean[0], std[0])], interpolation
        ([127, 128], 'bicubic')
        >>> image_inputs("resnet18")
        ImageInputs(mean=(), std=(), interpolation='bilinear')
    """
    if ":" in name:
        return foreign_image_inputs(name) if weights == PRETRAINED else ImageInputs()
    return _class_of(backbone_maker(name)[0]).images


def backbone_maker(name: str) -> tuple[Callable[..., Backbone], frozenset[str]]:
    """The class, or partial, of a registered name, and the arguments that the name sets.

    Raises:
        ValueError: If there is no such backbone.
    """
    make = BACKBONES.get(_parse(name)[0])
    decided = make.keywords if isinstance(make, partial) else {}
    return make, frozenset({*_class_of(make).named_sizes, *decided})


def _create_own(name: str, input_shape: Sequence[int], options: dict[str, Any]) -> Backbone:
    make, sizes = backbone_maker(name)
    check_options(f"backbone {name!r}", make, options, fixed=sizes)
    return make(input_shape, **_parse(name)[1], **options)


def _parse(name: str) -> tuple[str, dict[str, int]]:
    """Split a name into the registered name and the sizes after it, as in `resnet18-w16`."""
    registered, _, suffix = name.rpartition("-")
    if registered not in BACKBONES.names() or name in BACKBONES.names():
        return name, {}
    sizes = _class_of(BACKBONES.get(registered)).parse_sizes(name, suffix)
    return (name, {}) if sizes is None else (registered, sizes)


def _class_of(make: Callable[..., Backbone]) -> type[Backbone]:
    cls: type[Backbone] = make.func if isinstance(make, partial) else make  # type: ignore[assignment]
    return cls
