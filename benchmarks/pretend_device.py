"""A device that is none: tensors on it are computed on the host, and what a GPU would pay for is counted.

They say that they are on the device "meta", so that code takes the way it takes on an accelerator, and they
hold values, so that results can be compared. Mixing them with tensors of the host is refused, as a GPU does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["Counts", "DeviceTensor", "PretendDevice"]

_DEVICE = torch.device("meta")
_aten = torch.ops.aten
# How many elements these have depends on values, which the host must wait for.
_SHAPED_BY_VALUES = {"nonzero", "masked_select", "_unique2", "unique_dim", "unique_consecutive", "bincount"}
# These tell the host of success: torch reads their error codes, or those of what was called before.
_CHECKED = {"_linalg_svd", "_linalg_eigh", "linalg_eig", "_linalg_check_errors"}
_READS = {"_local_scalar_dense", "equal", "is_nonzero"}


class DeviceTensor(Tensor):
    """A tensor of the pretended device; `held` has the values."""

    held: Tensor

    @staticmethod
    def __new__(cls, values: Tensor) -> DeviceTensor:
        """A tensor with the shape of some values."""
        made: DeviceTensor = Tensor._make_wrapper_subclass(
            cls, values.shape, strides=values.stride(), dtype=values.dtype, device=_DEVICE
        )
        made.held = values
        return made

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Outside of `PretendDevice` nothing is computed."""
        raise RuntimeError(f"{func} of a tensor of the pretended device, outside of it")


@dataclass
class Counts:
    """What a device was asked for.

    Attributes:
        operations: Names of those dispatched, views included.
        waits: Names of those for which the host waits until the device has done all before.
        uploads: Bytes of every transfer to the device.
        downloads: Bytes of every transfer from it.
        moved: Bytes that its operations read and write, each as if nothing were cached.
    """

    operations: list[str] = field(default_factory=list)
    waits: list[str] = field(default_factory=list)
    uploads: list[int] = field(default_factory=list)
    downloads: list[int] = field(default_factory=list)
    moved: int = 0


class PretendDevice(TorchDispatchMode):
    """Context in which the device exists; counts what happens in it."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.counts = Counts()

    def upload(self, values: Tensor) -> DeviceTensor:
        """A tensor of the host on the device, uncounted."""
        return DeviceTensor(values.detach().clone()).requires_grad_(values.requires_grad)  # type: ignore[return-value]

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Compute on the host, and count."""
        options = dict(kwargs or {})
        name = func._schema.name.removeprefix("aten::")
        inputs = [*_tensors(args), *_tensors(options.values())]
        here = [x for x in inputs if isinstance(x, DeviceTensor)]
        to = options.get("device")
        if not here and (to is None or torch.device(to) != _DEVICE):
            return func(*args, **options)
        self.counts.operations.append(name)
        if name in ("_to_copy", "copy_") and (len(here) < len(inputs) or to is not None):
            return self._transfer(func, name, args, options)
        host = [x for x in inputs if not isinstance(x, DeviceTensor)]
        if here and any(x.ndim for x in host):
            raise RuntimeError(f"{name} of tensors on the device and on the host")
        if name in _SHAPED_BY_VALUES | _CHECKED | _READS or _selects_by_mask(name, args):
            self.counts.waits.append(name)
        if name == "repeat_interleave" and options.get("output_size") is None and len(args) < 3:
            self.counts.waits.append(name)
        if to is not None:
            options["device"] = torch.device("cpu")
        plain = {id(x.held): x for x in here}
        result = func(*_each(_values, args), **{key: _each(_values, x) for key, x in options.items()})
        if not func.is_view:
            self.counts.moved += sum(_bytes(x) for x in (*here, *_tensors([result])))
        return _each(lambda x: plain[id(x)] if id(x) in plain else _wrapped(x), result)

    def _transfer(self, func: Any, name: str, args: Sequence[Any], options: dict[str, Any]) -> Any:
        """A copy to the device, from it, or on it to another type."""
        target, source = args[0], args[1] if name == "copy_" else args[0]
        to_device = isinstance(target, DeviceTensor) if name == "copy_" else _is_device(options, source)
        from_device = isinstance(source, DeviceTensor)
        if from_device != to_device:
            (self.counts.uploads if to_device else self.counts.downloads).append(_bytes(source))
            waits = not (args[2] if len(args) > 2 else options.get("non_blocking"))
            if waits:
                self.counts.waits.append("upload" if to_device else "download")
        if name == "copy_":
            func(_values(target), _values(source))
            return target
        options["device"] = torch.device("cpu")
        result = func(_values(source), **options)
        return DeviceTensor(result) if to_device else result


def _is_device(options: Mapping[str, Any], source: Tensor) -> bool:
    to = options.get("device")
    return isinstance(source, DeviceTensor) if to is None else torch.device(to) == _DEVICE


def _tensors(values: Iterable[Any]) -> Iterator[Tensor]:
    """The tensors among arguments or results, and in lists of them; quicker than a general tree of values."""
    for x in values:
        if isinstance(x, Tensor):
            yield x
        elif isinstance(x, (list, tuple)):
            yield from _tensors(x)


def _each(change: Callable[[Any], Any], x: Any) -> Any:
    """A value or all in lists of them, changed."""
    return type(x)([_each(change, part) for part in x]) if isinstance(x, (list, tuple)) else change(x)


def _values(x: Any) -> Any:
    return x.held if isinstance(x, DeviceTensor) else x


def _wrapped(x: Any) -> Any:
    return DeviceTensor(x) if isinstance(x, Tensor) and not isinstance(x, DeviceTensor) else x


def _bytes(x: Tensor) -> int:
    return x.numel() * x.element_size()


def _selects_by_mask(name: str, args: Sequence[Any]) -> bool:
    """Whether rows are chosen by truth values, whose number the host must know."""
    if name not in ("index", "index_put", "index_put_"):
        return False
    return any(isinstance(i, Tensor) and i.dtype in (torch.bool, torch.uint8) for i in args[1])
