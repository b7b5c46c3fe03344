"""Fuzzing: changed files are read, and every outcome but a result or one clear sentence is a failure.

A target has a `name` and a method `run(seed, folder)`, which tries one input that follows from the seed alone
and raises `Failure` if it is not dealt with as it should; `check(content, folder)` tries one that was saved.
A module of this folder lists its targets in `TARGETS`; `run.py` finds them there and goes on for as long as
it is told, the tests try a few of each. `FileTarget` is the one for readers of files.
"""

from __future__ import annotations

import io
import re
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np

CORPUS = Path(__file__).parent / "corpus"
SECONDS = 60.0
MEGABYTES = 1500
_LONGEST = 2000


class Failure(AssertionError):  # noqa: N818 - it is what a test fails with
    """An input that is not dealt with as it should; `content` is what to save of it."""

    def __init__(self, message: str, content: bytes) -> None:
        super().__init__(message)
        self.content = content


class Target(Protocol):
    name: str

    def run(self, seed: int, folder: Path) -> None: ...

    def check(self, content: bytes, folder: Path) -> None: ...


class _HangError(BaseException):
    """Past everything that catches errors."""


@dataclass
class FileTarget:
    """A reader of files.

    Attributes:
        name: Also the folder of the corpus.
        seeds: Makes valid inputs, once.
        read: Reads the input in a folder; what it gives is not looked at.
        file: Name of the file in the folder that the input is written to.
        prepare: Makes the rest of the folder, once.
        wrap: Packs a changed input, as an archive does; half of the inputs are changed after that instead.
        tokens: Text that belongs to the format, put in at random.
    """

    name: str
    seeds: Callable[[], Sequence[bytes]]
    read: Callable[[Path], object]
    file: str
    prepare: Callable[[Path], object] = lambda _: None
    wrap: Callable[[bytes], bytes] | None = None
    tokens: Sequence[bytes] = ()
    _known: list[bytes] = field(default_factory=list)

    def run(self, seed: int, folder: Path) -> None:
        """Try one changed input."""
        self._known = self._known or list(self.seeds())
        rng = np.random.default_rng([seed, *self.name.encode()])
        inside = self.wrap is not None and rng.random() < 0.7
        content = self._known[rng.integers(len(self._known))]
        if self.wrap is not None and not inside:
            content = self.wrap(content)
        content = mutate(content, rng, [*self.tokens, *TOKENS], self._known)
        self.check(self.wrap(content) if inside and self.wrap is not None else content, folder)

    def check(self, content: bytes, folder: Path) -> None:
        """Read an input."""
        place = folder / self.name
        if not place.is_dir():
            place.mkdir(parents=True)
            self.prepare(place)
        path = place / self.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        with expect_sentence(str(place), content):
            self.read(path)


_VALID = False


@contextmanager
def valid_input() -> Iterator[None]:
    """In this block all inputs are valid: any error is a failure."""
    global _VALID
    _VALID = True
    try:
        yield
    finally:
        _VALID = False


@contextmanager
def expect_sentence(names: str, content: bytes) -> Iterator[None]:
    """Fail at any error but a ValueError or OSError of one line with this name; and at much memory."""
    start = time.perf_counter()
    try:
        with _alarm(), _less_memory(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except (ValueError, OSError) as error:
        message = str(error)
        if _VALID or names not in message or "\n" in message or len(message) > _LONGEST:
            raise Failure(
                f"{type(error).__name__} is no clear sentence: {message[:_LONGEST]!r}", content
            ) from error
    except Failure:
        raise
    except _HangError as error:
        raise Failure(f"not done after {SECONDS} s", content) from error
    except Exception as error:
        raise Failure(f"{type(error).__name__}: {error}", content) from error
    seconds = time.perf_counter() - start
    if seconds > SECONDS:
        raise Failure(f"took {seconds:.1f} s", content)


def all_of(path: Path, *readers: Callable[[Path], object]) -> None:
    """Each must give a result or a sentence, whatever the others do."""
    for read in readers:
        with expect_sentence(str(path.parent), path.read_bytes()):
            read(path)


def saved(save: Callable[..., object], *arguments: object, **arrays: object) -> bytes:
    """What a function writes to the file that is its first argument."""
    buffer = io.BytesIO()
    save(buffer, *arguments, **arrays)
    return buffer.getvalue()


@contextmanager
def _alarm() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def stop(*_: object) -> None:
        raise _HangError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _less_memory() -> Iterator[None]:
    """With so many megabytes more than now; beyond that allocations fail."""
    status = Path("/proc/self/statm")
    if not status.is_file():
        yield
        return
    import resource

    now = int(status.read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + (MEGABYTES << 20), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


TOKENS = (
    *(
        b"[" * 600,
        b'{"a":' * 600,
        b"((((",
        b"]",
        b"}",
        b",",
        b"\n",
        b"\0",
        b"\xff\xfe",
        b"\xed\xa0\x80",
        b"\x1b[",
    ),
    *(b"1e999", b"-1", b"NaN", b"null", b"true", b'""', b"'", b'"', b"99999999999999999999", b"4294967295"),
    *(
        "\u202e".encode(),
        "\ufeff".encode(),
        b"x" * 9000,
        b"&a [*a]",
        b"!!python/name:os.system ",
        b"<<: *a",
    ),
)
_EXTREMES = (
    *(0, 1, 2**7, 2**8 - 1, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1),
    *(2**40, 2**63 - 1, 2**63, 2**64 - 1),
)


def mutate(
    content: bytes, rng: np.random.Generator, tokens: Sequence[bytes], others: Sequence[bytes]
) -> bytes:
    """Change a valid input at random, in one to four ways."""
    data = bytearray(content)
    for _ in range(int(rng.integers(1, 5))):
        change = _CHANGES[rng.integers(len(_CHANGES))]
        data = change(data, rng, tokens, others)[: len(content) * 4 + 60_000]
    return bytes(data)


def _flip(data, rng, _tokens, _others):
    for _ in range(int(rng.integers(1, 9))):
        if data:
            data[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
    return data


def _set(data, rng, _tokens, _others):
    if data:
        data[rng.integers(len(data))] = int(rng.integers(256))
    return data


def _cut(data, rng, _tokens, _others):
    return data[: rng.integers(len(data) + 1)]


def _remove(data, rng, _tokens, _others):
    start, stop = _range(data, rng)
    return data[:start] + data[stop:]


def _repeat(data, rng, _tokens, _others):
    start, stop = _range(data, rng)
    times = min(int(rng.choice([1, 2, 20, 2000])), 1 + 60_000 // max(1, stop - start))
    return data[:stop] + data[start:stop] * times + data[stop:]


def _splice(data, rng, _tokens, others):
    other = others[rng.integers(len(others))]
    start, stop = _range(other, rng)
    place = int(rng.integers(len(data) + 1))
    return data[:place] + other[start:stop] + data[place + (stop - start) * int(rng.integers(2)) :]


def _insert(data, rng, tokens, _others):
    place = int(rng.integers(len(data) + 1))
    return data[:place] + tokens[rng.integers(len(tokens))] + data[place:]


def _replace_number(data, rng, _tokens, _others):
    """Another number where one is written out, such as a size in a header."""
    places = [match.span() for match in re.finditer(rb"-?[0-9]+(\.[0-9]+)?", bytes(data[:200_000]))]
    if not places:
        return data
    start, stop = places[rng.integers(len(places))]
    number = int(rng.choice([-1, 1])) * _EXTREMES[rng.integers(len(_EXTREMES))]
    return data[:start] + str(number).encode() + data[stop:]


def _replace_bytes(data, rng, _tokens, _others):
    """An extreme number in the bytes of one."""
    size = int(rng.choice([1, 2, 4, 8]))
    if len(data) < size:
        return data
    number = _EXTREMES[rng.integers(len(_EXTREMES))] % 256**size
    place = int(rng.integers(len(data) - size + 1))
    data[place : place + size] = number.to_bytes(size, "little" if rng.random() < 0.5 else "big")
    return data


def _replace_word(data, rng, tokens, _others):
    """Another word for one, all over or once."""
    words = re.findall(rb"[A-Za-z_]{2,}", bytes(data[:200_000]))
    if not words:
        return data
    word = words[rng.integers(len(words))]
    other = words[rng.integers(len(words))] if rng.random() < 0.7 else tokens[rng.integers(len(tokens))]
    return data.replace(word, other, 1 if rng.random() < 0.5 else 50)


def _repeat_line(data, rng, _tokens, _others):
    lines = data.split(b"\n")
    line = lines[rng.integers(len(lines))]
    place = int(rng.integers(len(lines) + 1))
    return bytearray(b"\n".join([*lines[:place], *[line] * int(rng.choice([1, 3, 300])), *lines[place:]]))


def _range(data, rng):
    start, stop = sorted(rng.integers(len(data) + 1, size=2).tolist())
    if rng.random() < 0.7:
        stop = min(stop, start + int(rng.integers(1, 40)))
    return start, stop


_CHANGES = (
    *(_flip, _set, _cut, _remove, _repeat, _splice, _insert, _replace_number, _replace_bytes),
    *(_replace_word, _repeat_line),
)
