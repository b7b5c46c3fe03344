"""Resource limits for reading untrusted files, and errors that name the file and the problem.

A small file can demand much memory or time: by declared sizes, compression, deep nesting, or aliases. Every
reader has a limit for that, far above what real files need, and its error names the limit. Limits on sizes
can be changed with environment variables, which the errors name.
"""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from gzip import GzipFile
from pathlib import Path
from typing import IO

__all__ = [
    "ALIASED",
    "DEPTH",
    "DOWNLOAD_BYTES",
    "LINE_BYTES",
    "NODES",
    "RECIPE_BYTES",
    "SETTINGS_DEPTH",
    "TEXT_BYTES",
    "UNPACKED_BYTES",
    "Limit",
    "TooDeepError",
    "TooLargeError",
    "Unpacked",
    "check_unpacked",
    "check_zip",
    "one_line",
    "read_bytes",
    "read_stream",
    "read_text",
    "reading",
    "size_text",
]

# Maximum nesting in JSON and YAML; more would overflow the stack of C code or of Python.
DEPTH = 500
# Maximum nesting of recipes and other settings, which are copied recursively.
SETTINGS_DEPTH = 50
# Maximum number of values that the aliases of a YAML document add to it.
ALIASED = 100_000
# Maximum size of a recipe, which has fewer than a hundred keys.
RECIPE_BYTES = 1 << 20
# Maximum length of one line in a table of vectors.
LINE_BYTES = 1 << 24
# Compression up to this ratio is always allowed.
_RATIO = 20
_SHOWN = 500
_PART = 1 << 20


@dataclass(frozen=True)
class Limit:
    """A limit that users can change.

    Attributes:
        variable: The environment variable that overrides the default.
        default: The limit if the variable is not set.

    Example:
        >>> Limit("COPHENET_MAX_NODES", 5_000_000).value
        5000000
    """

    variable: str
    default: int

    @property
    def value(self) -> int:
        """The current limit."""
        text = os.environ.get(self.variable)
        if text is None:
            return self.default
        if not re.fullmatch("[0-9]{1,18}", text):
            raise ValueError(f"{self.variable} must be a whole number, got {text!r:.40}")
        return int(text)

    @property
    def note(self) -> str:
        """Text for errors, after the number."""
        return f"(limit; {self.variable} sets another)"


class TooDeepError(ValueError):
    """A document is nested too deeply.

    Args:
        depth: Maximum number of levels.
        where: Beginning of the message, such as the line.
    """

    def __init__(self, depth: int = DEPTH, where: str = "") -> None:
        super().__init__(f"{where}nested deeper than {depth} levels (limit)")


class TooLargeError(ValueError):
    """A file unpacks to more than the limit."""


NODES = Limit("COPHENET_MAX_NODES", 5_000_000)
TEXT_BYTES = Limit("COPHENET_MAX_TEXT_BYTES", 1 << 30)
UNPACKED_BYTES = Limit("COPHENET_MAX_UNPACKED_BYTES", 1 << 30)
DOWNLOAD_BYTES = Limit("COPHENET_MAX_DOWNLOAD_BYTES", 1 << 35)


@contextmanager
def reading(where: str | Path, kind: str = "") -> Iterator[None]:
    """Context manager for reading a file: turn any error into a one-line `ValueError` that names the file.

    An `OSError` that names its file, `FileNotFoundError`, `ImportError` and `MemoryError` are not changed.

    Args:
        where: The file, or its name in errors.
        kind: Expected kind of file, such as "a parquet file", for the message when a decoder fails.

    Raises:
        ValueError: For any other error.

    Example:
        >>> with reading("a.npz", "an npz archive"):
        ...     {}["features"]
        Traceback (most recent call last):
        ValueError: a.npz: truncated, damaged or not an npz archive (KeyError: 'features')
        >>> with reading("a.npz", "an npz archive"):
        ...     raise EOFError
        Traceback (most recent call last):
        ValueError: a.npz: truncated, damaged or not an npz archive (EOFError)
    """
    try:
        yield
    except (ImportError, MemoryError):
        raise
    except Exception as error:
        named = isinstance(error, OSError) and error.filename is not None
        if named or isinstance(error, FileNotFoundError):
            raise
        message = one_line(error)
        if _is_ours(error) and message.startswith(f"{where}"):
            raise
        if not _is_ours(error):
            why = f"{type(error).__name__}: {message}" if str(error) else message
            message = f"truncated, damaged or not {kind or 'of its kind'} ({why})"
        raise ValueError(f"{where}: {message}") from error


def _is_ours(error: Exception) -> bool:
    """Whether the message of an error explains the problem, unlike errors of decoders."""
    return isinstance(error, ValueError) and not isinstance(error, UnicodeError)


def one_line(error: Exception) -> str:
    r"""The message of an error, on one line and truncated if long; without a message, its type.

    Example:
        >>> one_line(RuntimeError("two\n lines")), one_line(KeyError())
        ('two lines', 'KeyError')
    """
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def read_bytes(path: Path | str, most: int | Limit = TEXT_BYTES) -> bytes:
    """Read all bytes of a file, up to a limit.

    Args:
        path: The file.
        most: Maximum number of bytes.

    Raises:
        ValueError: If it is larger; it is not read at all then, unless its size is not known in advance.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "tree.json"
        >>> _ = path.write_bytes(b"{}  ")
        >>> read_bytes(path, 4)
        b'{}  '
    """
    limit, note = (most.value, most.note) if isinstance(most, Limit) else (most, "(limit)")
    with Path(path).open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        content = read_stream(stream, limit + 1) if size <= limit else b""
    if max(size, len(content)) > limit:
        raise ValueError(f"{path}: larger than {size_text(limit)} {note}")
    return content


def read_stream(stream: IO[bytes] | GzipFile, most: int) -> bytes:
    """Read up to `most` bytes of a stream; memory is allocated only for bytes that exist.

    Example:
        >>> import io
        >>> read_stream(io.BytesIO(b"12345"), 10**12)
        b'12345'
    """
    parts = []
    while most > 0 and (part := stream.read(min(most, _PART))):
        parts.append(part)
        most -= len(part)
    return b"".join(parts)


class Unpacked:
    """A decompressed stream that raises if it exceeds the limit of `check_unpacked`.

    Args:
        stream: The decompressed stream; must be seekable.
        packed: Size of the compressed file in bytes.

    Example:
        >>> import io
        >>> Unpacked(io.BytesIO(b"12345"), 3).read(2)
        b'12'
    """

    def __init__(self, stream: GzipFile, packed: int) -> None:
        self._stream, self._packed = stream, packed

    def read(self, size: int = -1) -> bytes:
        """Read `size` bytes, fewer only at the end of the stream; all remaining bytes if it is -1."""
        limit = max(UNPACKED_BYTES.value, _RATIO * self._packed)
        start = self._stream.tell()
        if size >= 0:
            check_unpacked(self._packed, start + size)
            return read_stream(self._stream, size)
        content = read_stream(self._stream, limit + 1 - start)
        check_unpacked(self._packed, start + len(content))
        return content

    def seek(self, place: int) -> int:
        """Move to an absolute position."""
        if place < 0:
            raise ValueError(f"a place before the start ({place})")
        check_unpacked(self._packed, place)
        return self._stream.seek(place)

    def tell(self) -> int:
        """The current position."""
        return self._stream.tell()


def read_text(path: Path | str, most: int | Limit = TEXT_BYTES) -> str:
    """Read a UTF-8 text file, which may begin with a byte order mark.

    Raises:
        ValueError: If it is larger than `most` bytes, or not UTF-8; the latter names the line.
    """
    content = read_bytes(path, most)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{path}: line {line}: not UTF-8 text") from error


def check_unpacked(packed: int, unpacked: int) -> None:
    """Raise if compressed data decompresses to far more than its size.

    Args:
        packed: Compressed size in bytes.
        unpacked: Decompressed size in bytes, as declared or read so far.

    Raises:
        TooLargeError: If `unpacked` is more than 20 times `packed`, and more than the limit.

    Example:
        >>> check_unpacked(26_000_000, 6_400_000_000)
        Traceback (most recent call last):
        cophenet._common.limits.TooLargeError: 26 MB unpack to more than 1.07 GB (limit; ...)
    """
    limit = max(UNPACKED_BYTES.value, _RATIO * packed)
    if unpacked > limit:
        problem = f"{size_text(packed)} unpack to more than {size_text(limit)}"
        raise TooLargeError(f"{problem} {UNPACKED_BYTES.note}")


def check_zip(path: Path) -> None:
    """Raise if a zip file declares far more decompressed data than its size.

    Raises:
        TooLargeError: If it does.
        zipfile.BadZipFile: If it is not a zip file.
    """
    with zipfile.ZipFile(path) as archive:
        unpacked = sum(member.file_size for member in archive.infolist())
    check_unpacked(path.stat().st_size, unpacked)


def size_text(count: int) -> str:
    """Format a number of bytes with a unit.

    Example:
        >>> size_text(1 << 30), size_text(512)
        ('1.07 GB', '512 bytes')
    """
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 1000)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} bytes"
