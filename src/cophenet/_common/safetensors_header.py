"""The header of safetensors files: its length, then JSON with the tensors by name and metadata.

Source: https://huggingface.co/docs/safetensors, section "Format".
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any, NamedTuple

from cophenet._common.files import parse_json
from cophenet._common.limits import size_text

__all__ = ["Header", "header_bytes", "read_header", "refuse_damaged"]

_LENGTH_BYTES = 8
_METADATA = "__metadata__"
# The same limit as in the package safetensors.
_HEADER_BYTES = 100_000_000


class Header(NamedTuple):
    """The content of a header.

    Attributes:
        tensors: By name, "dtype", "shape" and "data_offsets": first byte and end, counted from `begin`.
        metadata: Texts by name.
        begin: Position of the tensors in the file.
    """

    tensors: dict[str, Any]
    metadata: dict[str, str]
    begin: int


def header_bytes(tensors: Mapping[str, Any], metadata: Mapping[str, str], *, compact: bool = False) -> bytes:
    r"""The first bytes of a file, up to its tensors.

    Args:
        tensors: See `Header`; the order is kept.
        metadata: Metadata; none is written if it is empty.
        compact: Whether to write JSON in UTF-8 without spaces, as the package safetensors does.

    Example:
        >>> header_bytes({"x": {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]}}, {}, compact=True)
        b'8\x00\x00\x00\x00\x00\x00\x00{"x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}    '
    """
    header = {_METADATA: dict(metadata), **tensors} if metadata else dict(tensors)
    text = json.dumps(header, ensure_ascii=not compact, separators=(",", ":") if compact else None).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(_LENGTH_BYTES, "little") + text


def read_header(stream: IO[bytes], size: int) -> Header:
    """Read the header of a file.

    Args:
        stream: The file, at its start.
        size: Size of the file in bytes, which the tensors must fill.

    Raises:
        ValueError: If it is damaged, or larger than the limit.

    Example:
        >>> import io
        >>> read_header(io.BytesIO(b"{}"), 2)
        Traceback (most recent call last):
        ValueError: truncated, damaged or not a safetensors file: a header of 32123 bytes
    """
    with refuse_damaged():
        length = int.from_bytes(stream.read(_LENGTH_BYTES), "little")
        if not 0 < length <= size - _LENGTH_BYTES:
            raise ValueError(f"a header of {length} bytes")
        if length > _HEADER_BYTES:
            raise ValueError(f"a header of {length} bytes, more than {size_text(_HEADER_BYTES)} (limit)")
        tensors: dict[str, Any] = parse_json(stream.read(length).decode())
        metadata = dict(tensors.pop(_METADATA, None) or {})
        begin = _LENGTH_BYTES + length
        end = begin + max((entry["data_offsets"][1] for entry in tensors.values()), default=0)
        if end != size:
            raise ValueError(f"{size} bytes, but its tensors end at {end}")
        return Header(tensors, metadata, begin)


@contextmanager
def refuse_damaged() -> Iterator[None]:
    """Context manager for reading a header: turn errors about its content into `ValueError`.

    Example:
        >>> with refuse_damaged():
        ...     {}["shape"]
        Traceback (most recent call last):
        ValueError: truncated, damaged or not a safetensors file: 'shape'
    """
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"truncated, damaged or not a safetensors file: {error}") from error
