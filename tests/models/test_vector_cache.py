"""Shards are whole or absent, and one process at a time computes them."""

from __future__ import annotations

import pickle
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

from cophenet.models.vector_cache import VectorCache, cache_folder
from forked import HANGS


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> VectorCache:
    """Ten rows in shards of four, all written: rows of their numbers."""
    monkeypatch.setattr(VectorCache, "shard", 4)
    cache = VectorCache(tmp_path / "vectors" / "ten", 10, 3)
    with cache.alone():
        for number in range(3):
            rows = torch.arange(number * 4, min(number * 4 + 4, 10))
            cache.write(number, rows[:, None].expand(-1, 3).float())
    return cache


def read(cache: VectorCache) -> tuple[int, list[float]]:
    values = torch.full((cache.count, cache.width), -1.0)
    return cache.read(values), values[:, 0].tolist()


def shards(cache: VectorCache) -> list[Path]:
    return sorted(cache.folder.glob("*.npy"))


def test_what_was_written_is_read(cache: VectorCache) -> None:
    assert read(cache) == (10, [*range(10)])
    assert [len(np.load(path)) for path in shards(cache)] == [4, 4, 2]


def test_a_missing_shard_is_the_end(cache: VectorCache) -> None:
    shards(cache)[1].unlink()
    assert read(cache) == (4, [0, 1, 2, 3, *[-1] * 6])
    assert read(VectorCache(cache.folder / "none", 10, 3))[0] == 0


def test_damaged_and_foreign_shards_are_the_end(cache: VectorCache) -> None:
    last = shards(cache)[2]
    data = last.read_bytes()
    for wrong in (data[:-1], data[:-1] + bytes([data[-1] ^ 1]), b"", b"x" * 10_000):
        last.write_bytes(wrong)
        assert read(cache)[0] == 8
    last.write_bytes(data)
    assert read(cache)[0] == 10
    # Whole files with the right checksum, but of something else.
    for values in (torch.zeros(3, 3), torch.zeros(2, 5)):
        with cache.alone():
            cache.write(2, values)
        assert len(shards(cache)) == 3
        assert read(cache)[0] == 8


def test_nothing_is_unpickled(cache: VectorCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pickle, "load", lambda *_, **__: pytest.fail("unpickled"))
    np.save(cache.folder / "objects.npy", np.array([{}] * 2), allow_pickle=True)
    data = (cache.folder / "objects.npy").read_bytes()
    import hashlib

    shards(cache)[0].unlink()
    (cache.folder / f"00000-{hashlib.sha256(data).hexdigest()[:16]}.npy").write_bytes(data)
    assert read(cache)[0] == 0


def test_a_second_one_waits_and_leftovers_go(
    cache: VectorCache, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    left = cache.folder / f".00000.npy.{'0' * 32}.tmp"
    left.write_bytes(b"half")
    held, free, order = threading.Event(), threading.Event(), []

    def hold() -> None:
        with cache.alone():
            held.set()
            free.wait(HANGS)
            order.append("first")

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(HANGS)
    monkeypatch.setattr("cophenet.models.vector_cache.time.sleep", lambda _: free.set())
    with cache.alone("numbers"):
        order.append("second")
    thread.join()
    assert order == ["first", "second"]
    assert not left.exists()
    assert capfd.readouterr().err == "waiting for another process that computes numbers\n"


def test_where_caches_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_folder(None).name == "cache0"  # that of the suite
    monkeypatch.setenv("COPHENET_CACHE", "data")
    assert cache_folder(tmp_path) == tmp_path / ".cophenet"
    with pytest.raises(ValueError, match="COPHENET_CACHE=data needs a data folder"):
        cache_folder(None)
    monkeypatch.delenv("COPHENET_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert cache_folder(tmp_path) == Path("/x/cophenet")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder(None) == Path.home() / ".cache" / "cophenet"


def test_a_link_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "ten").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="no folder of its own"), VectorCache(tmp_path / "ten", 1, 1).alone():
        pass
    assert not list((tmp_path / "elsewhere").iterdir())
