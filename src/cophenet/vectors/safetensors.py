"""Arrays of npy and safetensors files, mapped into memory. Nothing is unpickled."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

__all__ = ["ARRAYS", "open_arrays"]

# What a file may hold; other arrays are not looked at.
ARRAYS = ("features", "labels", "logits")

# Types of safetensors as numpy knows them; it has no bfloat16, which torch reads from the same bytes.
_TYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<i2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "<i1",
    "U8": "<u1",
}
_HEADER_BYTES = 8


def open_arrays(path: Path) -> dict[str, Tensor]:
    """The arrays of a file by name, mapped.

    Args:
        path: A safetensors file; or an npy file with "features" in its name, whose labels and logits are the
            files beside it with these words instead, such as `a_features.npy` and `a_labels.npy`.

    Raises:
        FileNotFoundError: If there is no such file, or none of labels beside it.
        ValueError: If it cannot be read, or has no features or labels.
    """
    if path.suffix not in (".npy", ".safetensors"):
        raise ValueError(f"{path}: the extension must be .npy or .safetensors")
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing; put the file with features there")
    arrays = _open_npy(path) if path.suffix == ".npy" else _open_safetensors(path)
    for name in ARRAYS[:2]:
        if name not in arrays:
            raise ValueError(f"{path}: has no array {name!r}, only {sorted(arrays)!r}")
    return arrays


def _open_npy(path: Path) -> dict[str, Tensor]:
    if "features" not in path.name:
        raise ValueError(
            f"{path}: a .npy file of features needs 'features' in its name, so that the labels are found "
            "in the file with 'labels' there"
        )
    files = {name: path.with_name(path.name.replace("features", name)) for name in ARRAYS}
    if not files["labels"].is_file():
        raise FileNotFoundError(f"{files['labels']} is missing; put the labels of {path.name} there")
    return {name: _map_npy(file) for name, file in files.items() if file.is_file()}


def _map_npy(path: Path) -> Tensor:
    try:
        # Copied where it is written to, which it never is: torch takes no arrays that cannot be written to.
        return torch.from_numpy(np.load(path, mmap_mode="c", allow_pickle=False))
    except (ValueError, TypeError, EOFError, OSError) as error:
        raise ValueError(f"{path}: cannot be read as an array of numbers: {error}") from error


def _open_safetensors(path: Path) -> dict[str, Tensor]:
    size = path.stat().st_size
    try:
        with path.open("rb") as stream:
            length = int.from_bytes(stream.read(_HEADER_BYTES), "little")
            if not 0 < length <= size - _HEADER_BYTES:
                raise ValueError(f"a header of {length} bytes")
            header: dict[str, Any] = json.loads(stream.read(length))
        begin = _HEADER_BYTES + length
        return {name: _map_tensor(path, header[name], begin, size) for name in ARRAYS if name in header}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: truncated, damaged or not a safetensors file: {error}") from error


def _map_tensor(path: Path, entry: dict[str, Any], begin: int, size: int) -> Tensor:
    kind, shape = entry["dtype"], tuple(entry["shape"])
    if kind not in _TYPES:
        raise ValueError(f"numbers of type {kind}, which is none of {', '.join(_TYPES)}")
    start, stop = (begin + offset for offset in entry["data_offsets"])
    dtype = np.dtype(_TYPES[kind])
    if stop > size or stop - start != dtype.itemsize * math.prod(shape):
        raise ValueError(f"bytes {start} to {stop} of {size} for shape {shape}")
    if start == stop:
        array: Any = np.empty(shape, dtype)
    else:
        array = np.memmap(path, dtype, "c", start, shape)
    values = torch.from_numpy(array)
    return values.view(torch.bfloat16) if kind == "BF16" else values
