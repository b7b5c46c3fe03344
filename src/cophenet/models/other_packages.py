"""Backbones from other packages, and user-defined ones by import path."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from cophenet.models.base import Backbone, ImageInputs, image_shape

__all__ = ["Foreign", "backbone_function", "code_named", "create_foreign", "foreign_image_inputs"]

_Function = TypeVar("_Function", bound="Callable[..., nn.Module]")
# Options of timm's models that name files, folders or URLs: their content may be unpickled.
_FILE_OPTIONS = ("cache_dir", "checkpoint_path", "pretrained_cfg", "pretrained_cfg_overlay")


class Foreign(Backbone):
    """A module of another package as a backbone; every output is checked to be (B, d).

    The number of features is determined by a forward pass of zeros in evaluation mode.

    Args:
        module: Maps inputs to features.
        input_shape: Shape of an input.
        name: Name in error messages.
        classifier: Parameter name prefixes of the classifier in its checkpoints.

    Raises:
        ValueError: If it does not accept such inputs, or its output is not (B, d).

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
        finally:
            for module, training in modes.items():
                module.training = training
        self._check(features, 2)
        return int(features.shape[1])


def backbone_function(make: _Function) -> _Function:
    """Function decorator: allow a function as a backbone by import path, `package.module:function`.

    A class needs no decorator: it is a backbone if it is a subclass of `torch.nn.Module`.

    Args:
        make: The function: its arguments are the options of the backbone; it returns the module.

    Example:
        >>> @backbone_function
        ... def small(size: int = 8) -> nn.Module:
        ...     return nn.Sequential(nn.Flatten(), nn.Linear(64, size))
    """
    make.is_backbone = True  # type: ignore[attr-defined]
    return make


def code_named(name: str, options: Mapping[str, Any]) -> str | None:
    """What part of a backbone is user code, or reads files that may contain code; None if there is none.

    `timm:NAME` and `torchvision:NAME` are not user code: they only name a model of an installed package.

    Example:
        >>> code_named("my_net:Net", {}), code_named("timm:resnet18", {"pretrained": True})
        ("backbone 'my_net:Net'", None)
        >>> code_named("timm:resnet18", {"checkpoint_path": "net.pth"})
        "option checkpoint_path of backbone 'timm:resnet18'"
    """
    package, colon, _ = name.partition(":")
    if not colon:
        return None
    if package not in _MAKERS:
        return f"backbone {name!r}"
    risky = [option for option in options if option in _FILE_OPTIONS or isinstance(options[option], Mapping)]
    return f"option {risky[0]} of backbone {name!r}" if risky else None


def create_foreign(
    name: str, input_shape: Sequence[int], options: Mapping[str, Any], *, pretrained: bool = False
) -> Foreign:
    """Create `timm:NAME`, `torchvision:NAME` or `package.module:Class`; see `create_backbone`.

    The current folder is searched last for a module by import path, so that all commands find the same
    module.

    Args:
        name: The name.
        input_shape: Shape of one input.
        options: Options of the model.
        pretrained: Whether timm and torchvision download their own weights.

    Raises:
        ImportError: If the package is not installed, or has no such class.
        ValueError: If the name or an option is unknown, or the module is not a backbone for these inputs.
    """
    package, _, target = name.partition(":")
    if package in _MAKERS:
        create, fetching = _MAKERS[package]
        return create(name, target, input_shape, {**options, **(fetching if pretrained else {})})
    if not all(part.isidentifier() for part in (*package.split("."), target)):
        raise ValueError(f"backbone {name!r} must be named as package.module:Class")
    with _current_folder():
        make = _backbone_maker(name, package, target)
        return Foreign(_call(name, make, options), input_shape, name=name)


@contextmanager
def _current_folder() -> Iterator[None]:
    """Append the current folder to sys.path; it stays there if a module was imported from it."""
    folder = str(Path.cwd())
    if folder in sys.path or "" in sys.path:
        yield
        return
    before = set(sys.modules)
    sys.path.append(folder)
    try:
        yield
    finally:
        files = [getattr(sys.modules[name], "__file__", None) for name in set(sys.modules) - before]
        if folder in sys.path and not any(Path(file).is_relative_to(folder) for file in files if file):
            sys.path.remove(folder)


def _backbone_maker(name: str, package: str, target: str) -> Callable[..., object]:
    """The class or function of an import path; raises for other objects before anything is called."""
    make: Any = getattr(_import(name, package), target, None)
    if make is None:
        raise ImportError(f"backbone {name!r}: module {package} has no class {target!r}")
    is_module = isinstance(make, type) and issubclass(make, nn.Module)
    if not (is_module or (inspect.isfunction(make) and vars(make).get("is_backbone") is True)):
        kind = make.__name__ if isinstance(make, type) else type(make).__name__
        raise ValueError(
            f"backbone {name!r} must be a subclass of torch.nn.Module, or a function with the decorator "
            f"cophenet.models.backbone_function, got {kind}"
        )
    found: Callable[..., object] = make
    return found


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
    # All torchvision classifiers end in a linear layer, the last one that is registered.
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
    if target.partition(".")[0] not in names:  # timm's NAME.TAG selects pretrained weights
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


def foreign_image_inputs(name: str) -> ImageInputs:
    """The image preprocessing that the pretrained weights of `timm:NAME` or `torchvision:NAME` expect.

    Backbones by import path have the default preprocessing, and are not imported.
    """
    package, _, target = name.partition(":")
    if package == "timm":
        settings = _import(name, "timm").get_pretrained_cfg(target)
    elif package == "torchvision":
        settings = _import(name, "torchvision.models").get_model_weights(target).DEFAULT.transforms()
    else:
        return ImageInputs()
    resize = "bicubic" if "bicubic" in str(settings.interpolation).lower() else "bilinear"
    return ImageInputs(tuple(settings.mean), tuple(settings.std), resize)


# The function that creates a model, and the options that download its weights.
_MAKERS: dict[str, tuple[Callable[..., Foreign], dict[str, Any]]] = {
    "timm": (_from_timm, {"pretrained": True}),
    "torchvision": (_from_torchvision, {"weights": "DEFAULT"}),
}
