"""Pages of mapped files."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from cophenet._common.arrays import release_pages, with_checksum
from cophenet.vectors import read_parts, write_vectors

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")

ROWS = np.arange(1 << 20, dtype=np.float32).reshape(-1, 64)


def pages_of(path):
    """Bytes of a mapped file that are in the memory of this process."""
    text = Path("/proc/self/smaps").read_text()
    return sum(
        1024 * int(size) for size in re.findall(rf"{re.escape(str(path))}\n(?:.*\n)*?Rss: +(\d+)", text)
    )


def test_pages_are_released_and_read_again(tmp_path):
    np.save(tmp_path / "rows.npy", ROWS)
    rows = np.load(tmp_path / "rows.npy", mmap_mode="r")
    assert rows.sum() == ROWS.sum()
    assert pages_of(tmp_path / "rows.npy") >= ROWS.nbytes
    release_pages(np.asarray(rows[5:10]).T)
    assert pages_of(tmp_path / "rows.npy") == 0
    assert (rows == ROWS).all()


def test_what_was_written_to_a_private_map_stays(tmp_path):
    np.save(tmp_path / "rows.npy", ROWS)
    rows = np.load(tmp_path / "rows.npy", mmap_mode="c")
    rows[:] = 7
    release_pages(rows)
    assert (rows == 7).all()


@pytest.mark.parametrize("ending", ["npy", "safetensors"])
def test_reading_some_rows_at_a_time_holds_few_pages(ending, tmp_path):
    path = tmp_path / f"features.{ending}"
    write_vectors(path, [{"features": ROWS}])
    for features, _ in read_parts(path, 1000):
        assert features.sum() > 0
        assert pages_of(path) < ROWS.nbytes / 4


def test_a_checksum_holds_few_pages(tmp_path):
    np.save(tmp_path / "rows.npy", ROWS)
    rows = np.load(tmp_path / "rows.npy", mmap_mode="r")
    assert with_checksum({"rows": rows}, {}) == with_checksum({"rows": ROWS}, {})
    assert pages_of(tmp_path / "rows.npy") == 0
