"""Safetensors files with named tensors, text metadata, and a checksum that detects changed bytes."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from cophenet._common.arrays import check_arrays, file_checksum, recorded_checksum, with_checksum
from cophenet._common.limits import reading
from cophenet._common.safetensors_header import header_bytes, read_header

__all__ = ["content_checksum", "dump_tensors", "read_metadata", "read_tensors"]


def dump_tensors(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> bytes:
    """The bytes of a safetensors file; equal for equal contents.

    Args:
        tensors: Tensors by name, on any device.
        metadata: Metadata to write to the same file.

    Example:
        >>> import torch
        >>> data = dump_tensors({"points": torch.zeros(3, 2)}, {"method": "umap"})
        >>> data == dump_tensors({"points": torch.zeros(3, 2)}, {"method": "umap"})
        True
    """
    from safetensors.torch import save

    own = {name: values.detach().cpu().contiguous() for name, values in tensors.items()}
    texts = with_checksum({name: values.numpy() for name, values in own.items()}, metadata or {})
    data = save(own, metadata=texts)
    # The package writes the metadata in arbitrary order.
    header = read_header(io.BytesIO(data), len(data))
    return header_bytes(header.tensors, dict(sorted(texts.items())), compact=True) + data[header.begin :]


def read_metadata(path: Path) -> dict[str, str]:
    """Read the metadata of a file. Damaged files raise arbitrary exceptions."""
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        return dict(file.metadata() or {})


def content_checksum(path: Path) -> str:
    """A checksum that identifies a file: the one in its metadata, else that of its bytes.

    Raises:
        ValueError: If it is not a safetensors file; names it.
    """
    with reading(path, "a file of tensors"):
        return recorded_checksum(read_metadata(path)) or file_checksum(path)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a file by name, as copies. Damaged files raise arbitrary exceptions.

    Raises:
        ValueError: If the checksum does not match; files of earlier versions have none and are not checked.
    """
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        # Copies are aligned in memory as newly computed tensors are, so that sums add up in the same order.
        tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118 - it is not a dict
        check_arrays({name: values.numpy() for name, values in tensors.items()}, file.metadata() or {})
    return tensors
