"""Downloads on request: resumed, verified by checksum, and put in place atomically.

Does not use pooch, which also fetches and checks, but restarts from zero after a broken connection.
"""

from __future__ import annotations

import hashlib
import http.client
import os
from dataclasses import dataclass
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from cophenet._common.checks import check_choice
from cophenet._common.limits import DOWNLOAD_BYTES, size_text
from cophenet._common.progress import Progress
from cophenet._common.safe_paths import check_file_place, open_in_place
from cophenet.data.registry import SOURCES

__all__ = ["RemoteFile", "download", "fetch"]

_CHUNK = 1 << 18
_ATTEMPTS = 5
_TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True)
class RemoteFile:
    """A file on a server.

    Attributes:
        url: Its address.
        md5: Its checksum, in hexadecimal.
        size: Its size in bytes; None if it is not known: then the general limit for downloads applies.
    """

    url: str
    md5: str
    size: int | None = None

    @property
    def name(self) -> str:
        """Name of the file, the last part of the address."""
        return self.url.rsplit("/", 1)[-1]


def download(name: str, data_dir: Path) -> list[Path]:
    """Download the files of a data set into a folder; existing files with the right checksum are kept.

    Args:
        name: A data set that has `remote_files`.
        data_dir: Folder for the files; created if missing.

    Raises:
        ValueError: If the data set has no download, or a file's checksum is wrong.
        ConnectionError: If a file cannot be downloaded; says which files to put where.
    """
    known = {name: cls.remote_files for name, cls in SOURCES.members().items() if cls.remote_files}
    check_choice("download", name, sorted(known))
    files = known[name]
    try:
        return [fetch(file, data_dir) for file in files]
    except ConnectionError as error:
        names = ", ".join(file.name for file in files)
        raise ConnectionError(f"{error}; without a network, put {names} into {data_dir}") from error


def fetch(file: RemoteFile, folder: Path) -> Path:
    """Download one file, resuming an earlier attempt.

    Bytes are appended to `<name>.part`, which gets its final name once the checksum is right.

    Raises:
        ValueError: If the checksum of the download or of an existing file is wrong; if the server sends more
            than the size of the file; or if the partial file is a link.
        ConnectionError: If the server cannot be reached or the connection keeps breaking.
    """
    path, part = folder / file.name, folder / f"{file.name}.part"
    if path.exists():
        if _md5(path) != file.md5:
            raise ValueError(f"{path} is there with another checksum than {file.md5}; remove it first")
        return path
    folder.mkdir(parents=True, exist_ok=True)
    check_file_place(part)
    _download(file, part)
    md5 = _md5(part)
    if md5 != file.md5:
        part.unlink()
        raise ValueError(f"{file.url} has checksum {md5} instead of {file.md5}; the download was removed")
    part.replace(path)
    return path


def _download(file: RemoteFile, part: Path) -> None:
    """Fill the partial file; after a broken connection retry, as long as each attempt makes progress."""
    for _ in range(_ATTEMPTS):
        before = part.stat().st_size if part.exists() else 0
        try:
            if _read_rest(file, part, before):
                return
            problem = "the connection broke off"
        except HTTPError as error:
            error.close()
            raise ConnectionError(f"{file.url} was refused: {error.code} {error.reason}") from error
        except (URLError, TimeoutError, ConnectionError, http.client.HTTPException) as error:
            problem = str(error.reason if isinstance(error, URLError) else error)
        if not part.exists() or part.stat().st_size <= before:
            break
    partial = f" ({part.stat().st_size} bytes are kept in {part})" if part.exists() else ""
    raise ConnectionError(f"{file.url} could not be downloaded: {problem}{partial}")


def _read_rest(file: RemoteFile, part: Path, start: int) -> bool:
    """Append the missing bytes to a partial file; return whether it is complete."""
    request = Request(file.url, headers={"Range": f"bytes={start}-"} if start else {})
    try:
        answer = urlopen(request, timeout=_TIMEOUT_SECONDS)
    except HTTPError as error:
        if error.code != 416:
            raise
        # The server has no further bytes: the checksum decides whether the file is correct.
        error.close()
        return True
    with answer:
        if answer.status != 206:
            start = 0  # The server ignored the range and sends everything.
        length = answer.headers.get("Content-Length", "")
        total = start + int(length) if length.isascii() and length.isdigit() else None
        _check_size(file, part, total or 0)
        every = max(total // 10, 1) if total else 10_000_000
        flags = os.O_WRONLY | (os.O_APPEND if start else os.O_TRUNC)
        with (
            os.fdopen(open_in_place(part, flags), "ab" if start else "wb") as out,
            Progress(f"{file.name}:", total, done=start, count=_megabytes, every=every) as progress,
        ):
            while chunk := answer.read(_CHUNK):
                _check_size(file, part, progress.done + len(chunk))
                out.write(chunk)
                progress.update(progress.done + len(chunk))
    return total is None or part.stat().st_size >= total


def _check_size(file: RemoteFile, part: Path, size: int) -> None:
    """Raise, and delete the partial file, if a download exceeds the size of its file or the limit."""
    most = DOWNLOAD_BYTES.value if file.size is None else file.size
    if size > most:
        note = DOWNLOAD_BYTES.note if file.size is None else "(its size)"
        part.unlink(missing_ok=True)
        raise ValueError(f"{file.url} has more than {size_text(most)} {note}; the download was removed")


def _md5(path: Path) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def _megabytes(done: int, total: int | None) -> str:
    share = f"{done * 10 // total * 10} %" if total else "size unknown"
    return f"{done / 1e6:.1f} MB ({share})"
