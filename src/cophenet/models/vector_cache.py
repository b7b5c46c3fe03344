"""A cache of vectors on disk, in shards that are either complete or absent, shared by all processes.

A cache is one folder, `NAME-DIGEST`, where the digest covers everything that the vectors depend on. It holds
npy files of 512 rows each, `00003-<checksum>.npy`: a process that is killed leaves the shards that it has
finished, and the next one continues after them. One process at a time computes; others wait for it.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cophenet._common.files import write_bytes
from cophenet._common.limits import read_bytes
from cophenet._common.locks import InUseError, locked
from cophenet._common.safe_paths import is_temporary, make_real_folder

__all__ = ["VectorCache", "cache_folder"]

VARIABLE = "COPHENET_CACHE"
_NAME = re.compile(r"(\d{5,})-([0-9a-f]{16})\.npy")
_HEADER = 4096
_SECONDS_BETWEEN = 0.2


def cache_folder(data_dir: Path | None = None) -> Path:
    """Folder of caches: the environment variable COPHENET_CACHE, else the user's cache folder.

    Args:
        data_dir: Folder of the data; caches are stored in it if the variable is `data`.

    Returns:
        `$COPHENET_CACHE`; for `data` the folder `.cophenet` in the data folder; without the variable
        `$XDG_CACHE_HOME/cophenet`, by default `~/.cache/cophenet`.

    Raises:
        ValueError: If the variable is `data`, and there is no data folder.
    """
    given = os.environ.get(VARIABLE, "")
    if given == "data":
        if data_dir is None:
            raise ValueError(f"{VARIABLE}=data needs a data folder to put the cache in: give data_dir")
        return data_dir / ".cophenet"
    if given:
        return Path(given).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "cophenet"


class VectorCache:
    """The vectors of some inputs, as far as they have been computed.

    Args:
        folder: The folder of these vectors; created when the first shard is written.
        count: Number of vectors.
        width: Size of a vector.

    Attributes:
        shard: Rows of a shard: the most that is lost when a process is killed.

    Example:
        >>> import tempfile
        >>> cache = VectorCache(Path(tempfile.mkdtemp(), "two"), count=2, width=3)
        >>> values = torch.zeros(2, 3)
        >>> with cache.alone():
        ...     before = cache.read(values)
        ...     cache.write(0, torch.ones(2, 3))
        >>> before, cache.read(values), values.sum().item()
        (0, 2, 6.0)
    """

    shard: ClassVar[int] = 512

    def __init__(self, folder: Path, count: int, width: int) -> None:
        self.folder, self.count, self.width = folder, count, width

    def read(self, values: Tensor) -> int:
        """Fill a tensor (count, width) float32 from the start.

        Returns:
            Number of rows read; reading stops at a shard that is missing or damaged.
        """
        files = self._files()
        for start in range(0, self.count, self.shard):
            rows = values[start : start + self.shard]
            saved = _read_shard(files.get(start // self.shard), tuple(rows.shape))
            if saved is None:
                return start
            rows.copy_(torch.from_numpy(saved))
        return self.count

    def write(self, number: int, values: Tensor) -> None:
        """Write the vectors of a shard atomically; only within `alone`."""
        buffer = io.BytesIO()
        np.save(buffer, values.float().numpy(), allow_pickle=False)
        data = buffer.getvalue()
        before = self._files().get(number)
        path = self.folder / f"{number:05d}-{_checksum(data)}.npy"
        write_bytes(path, data)
        if before is not None and before != path:
            before.unlink(missing_ok=True)

    @contextmanager
    def alone(self, what: str = "vectors") -> Iterator[None]:
        """Wait until no other process computes these vectors, and lock them.

        Args:
            what: What is computed, for the message about the wait.
        """
        make_real_folder(self.folder, parents=True)
        noticed = False
        with ExitStack() as stack:
            while True:
                try:
                    stack.enter_context(locked(self.folder, what="cache"))
                    break
                except InUseError:
                    if not noticed:
                        print(
                            f"waiting for another process that computes {what}", file=sys.stderr, flush=True
                        )
                    noticed = True
                    time.sleep(_SECONDS_BETWEEN)
            for path in self.folder.glob(".*.tmp"):
                if is_temporary(path.name):
                    path.unlink(missing_ok=True)
            yield

    def _files(self) -> dict[int, Path]:
        """Files by shard number."""
        if not self.folder.is_dir():
            return {}
        names = ((_NAME.fullmatch(path.name), path) for path in sorted(self.folder.iterdir()))
        return {int(match[1]): path for match, path in names if match is not None}


def _read_shard(path: Path | None, shape: tuple[int, ...]) -> NDArray[np.float32] | None:
    """The rows of a file; None if it is missing or its content is not valid."""
    if path is None:
        return None
    try:
        data = read_bytes(path, _HEADER + 4 * shape[0] * shape[1])
        if not path.name.endswith(f"-{_checksum(data)}.npy"):
            return None
        values: NDArray[np.float32] = np.load(io.BytesIO(data), allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    return values if values.dtype == np.float32 and values.shape == shape else None


def _checksum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
