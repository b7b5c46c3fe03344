"""Named tensors with texts beside them as safetensors, with a checksum that tells a changed byte."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from cophenet._common.arrays import check_arrays, file_checksum, recorded_checksum, with_checksum
from cophenet._common.limits import reading

__all__ = ["content_checksum", "dump_tensors", "read_metadata", "read_tensors"]


def dump_tensors(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> bytes:
    """The bytes of a file; the same for the same contents.

    Args:
        tensors: By name, on any device.
        metadata: Texts to write beside them.

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
    # The package writes the texts in any order.
    begin = 8 + int.from_bytes(data[:8], "little")
    header = {**json.loads(data[8:begin]), "__metadata__": dict(sorted(texts.items()))}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data[begin:]


def read_metadata(path: Path) -> dict[str, str]:
    """The texts of a file. Damaged files fail in any way."""
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        return dict(file.metadata() or {})


def content_checksum(path: Path) -> str:
    """What tells a file from others: the checksum it was written with, else that of its bytes.

    Raises:
        ValueError: If it is no such file; names it.
    """
    with reading(path, "a file of tensors"):
        return recorded_checksum(read_metadata(path)) or file_checksum(path)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a file by name, in memory of their own. Damaged files fail in any way.

    Raises:
        ValueError: If a byte is not as it was written; files of earlier versions have no checksum.
    """
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        # Copies lie in memory as freshly computed tensors do, so that sums add up in the same order.
        tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118 - it is no dict
        check_arrays({name: values.numpy() for name, values in tensors.items()}, file.metadata() or {})
    return tensors
