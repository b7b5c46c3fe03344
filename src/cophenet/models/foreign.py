"""Backbones of other packages, and a user's own by import path."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from cophenet.models.base import Backbone, image_shape

__all__ = ["Foreign", "create_foreign"]


class Foreign(Backbone):
    """A module of another package as backbone; every output is checked to be (B, d).

    The number of features is found by one forward pass of zeros in evaluation mode.

    Args:
        module: Inputs to features.
        input_shape: Shape of an input.
        name: What to call it in errors.
        classifier: Prefixes of the parameters of its checkpoints' classifier.

    Raises:
        ValueError: If it cannot take such inputs, or its output is not (B, d).

    Example:
        >>> Foreign(nn.Linear(3, 5), (3,), name="linear").num_features
        5
    """

    def __init__(
        self, module: nn.Module, input_shape: Sequence[int], /, *, name: str, classifier: tuple[str, ...] = ()
    ) -> None:
        super().__init__()
        self.module, self.name, self.classifier = module, name, classifier
        self.num_features = self._probe(input_shape)

    @property
    def holder(self) -> nn.Module:
        """The other package's module."""
        return self.module

    def forward_features(self, inputs: Tensor) -> Tensor:
        """(B, *input_shape) -> (B, num_features)."""
        features: Tensor = self.module(inputs)
        self._check(features, len(inputs))
        if features.shape[1] != self.num_features:
            raise ValueError(
                f"backbone {self.name!r} gave {features.shape[1]} features, and {self.num_features} when made"
            )
        return features

    def _check(self, features: object, batch: int) -> None:
        if not isinstance(features, Tensor):
            raise ValueError(
                f"backbone {self.name!r} must give a tensor of shape (B, d), got {type(features).__name__}"
            )
        if features.ndim != 2 or len(features) != batch or not features.is_floating_point():
            shape = f"{tuple(features.shape)} {features.dtype}"
            raise ValueError(
                f"backbone {self.name!r} must give floats of shape (B, d), got {shape} for B = {batch}"
            )

    def _probe(self, input_shape: Sequence[int]) -> int:
        modes = {module: module.training for module in self.module.modules()}
        self.module.eval()
        try:
            with torch.no_grad():
                features = self.module(torch.zeros(2, *input_shape))
        except (RuntimeError, TypeError, ValueError, IndexError, AssertionError) as error:
            raise ValueError(
                f"backbone {self.name!r} cannot take inputs of shape {tuple(input_shape)}: {error}"
            ) from error
        for module, training in modes.items():
            module.training = training
        self._check(features, 2)
        return int(features.shape[1])


def create_foreign(name: str, input_shape: Sequence[int], options: Mapping[str, Any]) -> Foreign:
    """Make `timm:NAME`, `torchvision:NAME` or `package.module:Class`; see `create_backbone`.

    Raises:
        ImportError: If the package is not installed, or has no such class.
        ValueError: If the name or an option is unknown, or the module is no backbone for these inputs.
    """
    package, _, target = name.partition(":")
    makers = {"timm": _from_timm, "torchvision": _from_torchvision}
    if package in makers:
        return makers[package](name, target, input_shape, options)
    module = _import(name, package)
    make = getattr(module, target, None)
    if not callable(make):
        raise ImportError(f"backbone {name!r}: module {package} has no class {target!r}")
    return Foreign(_call(name, make, options), input_shape, name=name)


def _from_timm(name: str, target: str, input_shape: Sequence[int], options: Mapping[str, Any]) -> Foreign:
    channels, _, _ = image_shape(name, input_shape)
    timm = _import(name, "timm")
    _check_name(name, target, timm.list_models())
    module = timm.create_model(target, num_classes=0, in_chans=channels, **options)
    layers = getattr(module, "pretrained_cfg", {}).get("classifier") or ()
    prefixes = (layers,) if isinstance(layers, str) else tuple(layers)
    return Foreign(module, input_shape, name=name, classifier=tuple(f"{prefix}." for prefix in prefixes))


def _from_torchvision(
    name: str, target: str, input_shape: Sequence[int], options: Mapping[str, Any]
) -> Foreign:
    image_shape(name, input_shape)
    models = _import(name, "torchvision.models")
    _check_name(name, target, models.list_models(module=models))
    module = models.get_model(target, **options)
    # All of its classifiers end in a linear layer, the last one registered.
    layers = [path for path, layer in module.named_modules() if isinstance(layer, nn.Linear)]
    if not layers:
        raise ValueError(f"backbone {name!r} has no linear classifier to take off")
    parent, _, last = layers[-1].rpartition(".")
    setattr(module.get_submodule(parent), last, nn.Identity())
    return Foreign(module, input_shape, name=name, classifier=(f"{layers[-1]}.",))


def _import(name: str, package: str) -> ModuleType:
    try:
        return import_module(package)
    except ImportError as error:
        raise ImportError(
            f"backbone {name!r} needs {package}, which cannot be imported ({error}); "
            "install it, or put its folder on PYTHONPATH"
        ) from error


def _check_name(name: str, target: str, known: Iterable[str]) -> None:
    names = list(known)
    if target.partition(".")[0] not in names:  # timm's NAME.TAG picks pretrained weights
        near = get_close_matches(target, names, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"backbone {name!r}: the package has no model {target!r}{hint}")


def _call(name: str, make: Callable[..., object], options: Mapping[str, Any]) -> nn.Module:
    try:
        inspect.signature(make).bind(**options)
    except TypeError as error:
        raise ValueError(f"backbone {name!r} does not take these options: {error}") from error
    module = make(**options)
    if not isinstance(module, nn.Module):
        raise ValueError(f"backbone {name!r} must be a torch.nn.Module, got {type(module).__name__}")
    return module
