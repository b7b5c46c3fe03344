"""What a file from somewhere else may ask for, and errors that say which file and what is wrong.

A small file can ask for much memory or time: by declared sizes, compression, deep nesting, or aliases. Every
reader has a limit for that, far above what real files need, and says it in its error. Limits on sizes can be
set by the variables of the environment that they name.
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

# Levels of nesting in JSON and YAML; more would overflow the stack of C code or of Python.
DEPTH = 500
# Levels of keys in a recipe and in other settings, which are copied by recursion.
SETTINGS_DEPTH = 50
# Values that the aliases of a YAML document may add to it.
ALIASED = 100_000
# Of a recipe, whose keys are fewer than a hundred.
RECIPE_BYTES = 1 << 20
# Of one line in a table of vectors.
LINE_BYTES = 1 << 24
# What is packed may always be so many times larger once it is unpacked.
_RATIO = 20
_SHOWN = 500
_PART = 1 << 20


@dataclass(frozen=True)
class Limit:
    """A limit that users can set.

    Attributes:
        variable: The variable of the environment that sets another.
        default: The limit without it.

    Example:
        >>> Limit("COPHENET_MAX_NODES", 5_000_000).value
        5000000
    """

    variable: str
    default: int

    @property
    def value(self) -> int:
        """The limit now."""
        text = os.environ.get(self.variable)
        if text is None:
            return self.default
        if not re.fullmatch("[0-9]{1,18}", text):
            raise ValueError(f"{self.variable} must be a whole number, got {text!r:.40}")
        return int(text)

    @property
    def note(self) -> str:
        """What an error adds to the number."""
        return f"(limit; {self.variable} sets another)"


class TooDeepError(ValueError):
    """A document is nested too deeply.

    Args:
        depth: How many levels it may have.
        where: What the message begins with, such as the line.
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
    """Around what reads a file: whatever its reader raises becomes an error of one line that names the file.

    Errors of the system that name their file, missing packages, and running out of memory pass as they are.

    Args:
        where: The file, or what errors call it.
        kind: What it must be, such as "a parquet file", for errors that only its reader understands.

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
    """Whether an error says what is wrong already; not so those of decoders."""
    return isinstance(error, ValueError) and not isinstance(error, UnicodeError)


def one_line(error: Exception) -> str:
    r"""The message of an error, on one line and not too long; of one without a message, its kind.

    Example:
        >>> one_line(RuntimeError("two\n lines")), one_line(KeyError())
        ('two lines', 'KeyError')
    """
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def read_bytes(path: Path | str, most: int | Limit = TEXT_BYTES) -> bytes:
    """All bytes of a file that is read whole.

    Args:
        path: The file.
        most: How many bytes it may have.

    Raises:
        ValueError: If it is larger; nothing of it is read then, unless its size is not known before.

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
    """Up to so many bytes of a stream; memory is taken for those that come, not for those asked for.

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
    """A stream that unpacks a file, as far as `check_unpacked` lets it.

    Args:
        stream: What comes out of the file; can be read, and moved in.
        packed: Bytes of the file.

    Example:
        >>> import io
        >>> Unpacked(io.BytesIO(b"12345"), 3).read(2)
        b'12'
    """

    def __init__(self, stream: GzipFile, packed: int) -> None:
        self._stream, self._packed = stream, packed

    def read(self, size: int = -1) -> bytes:
        """So many bytes, fewer only at the end; all that is left if it is -1."""
        limit = max(UNPACKED_BYTES.value, _RATIO * self._packed)
        start = self._stream.tell()
        if size >= 0:
            check_unpacked(self._packed, start + size)
            return read_stream(self._stream, size)
        content = read_stream(self._stream, limit + 1 - start)
        check_unpacked(self._packed, start + len(content))
        return content

    def seek(self, place: int) -> int:
        """Move to a place."""
        if place < 0:
            raise ValueError(f"a place before the start ({place})")
        check_unpacked(self._packed, place)
        return self._stream.seek(place)

    def tell(self) -> int:
        """The place."""
        return self._stream.tell()


def read_text(path: Path | str, most: int | Limit = TEXT_BYTES) -> str:
    """All text of a file in UTF-8, which may begin with a byte order mark.

    Raises:
        ValueError: If it is larger than `most` bytes, or is no UTF-8; says the line.
    """
    content = read_bytes(path, most)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{path}: line {line}: not UTF-8 text") from error


def check_unpacked(packed: int, unpacked: int) -> None:
    """Refuse what is small in a file and huge once unpacked.

    Args:
        packed: Bytes in the file.
        unpacked: Bytes that it says they become, or that came out of it so far.

    Raises:
        ValueError: If they are more than 20 times those in the file, and more than the limit.

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
    """Refuse a zip file that unpacks to much more than it is.

    Raises:
        TooLargeError: If it does.
        zipfile.BadZipFile: If it is none.
    """
    with zipfile.ZipFile(path) as archive:
        unpacked = sum(member.file_size for member in archive.infolist())
    check_unpacked(path.stat().st_size, unpacked)


def size_text(count: int) -> str:
    """Bytes with a unit.

    Example:
        >>> size_text(1 << 30), size_text(512)
        ('1.07 GB', '512 bytes')
    """
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 1000)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} bytes"
