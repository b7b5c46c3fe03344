"""Files that are whole or absent."""

import resource
import subprocess
import sys
from contextlib import contextmanager

import pytest
import torch

from cophenet._common.files import locked, read_json, write_bytes
from cophenet.runs.checkpoints import (
    is_good,
    list_checkpoints,
    newest_good,
    read_checkpoint,
    write_checkpoint,
)


@contextmanager
def files_up_to(size):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_leaves_the_old_file_and_no_rest(tmp_path):
    path = tmp_path / "file"
    write_bytes(path, b"old")
    with files_up_to(1000), pytest.raises(OSError, match="file"):
        write_bytes(path, b"x" * 5000)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_two_newest_checkpoints_are_kept(tmp_path):
    for step in (5, 40, 300):
        write_checkpoint(tmp_path, step, {"step": step})
    assert [read_checkpoint(path)["step"] for path in list_checkpoints(tmp_path)] == [300, 40]


@pytest.mark.parametrize("damage", ["flip", "cut", "empty"])
def test_a_damaged_checkpoint_is_noticed(tmp_path, damage):
    old = write_checkpoint(tmp_path, 1, {"weights": torch.zeros(100)})
    new = write_checkpoint(tmp_path, 2, {"weights": torch.ones(100)})
    assert newest_good(tmp_path) == (new, [])
    data = bytearray(new.read_bytes())
    data[len(data) // 2] ^= 4
    new.write_bytes({"flip": bytes(data), "cut": bytes(data[:-10]), "empty": b""}[damage])
    assert not is_good(new)
    assert newest_good(tmp_path) == (old, [new])


def test_a_full_disk_keeps_the_old_checkpoints(tmp_path):
    old = [write_checkpoint(tmp_path, step, {"weights": torch.zeros(10)}) for step in (1, 2)]
    with files_up_to(10_000), pytest.raises(OSError):
        write_checkpoint(tmp_path, 3, {"weights": torch.zeros(10_000)})
    assert sorted(tmp_path.iterdir()) == old
    assert all(map(is_good, old))


def test_a_lock_is_for_one_process_and_ends_with_it(tmp_path):
    code = "import sys, pathlib\nfrom cophenet._common.files import locked\n"
    code += "with locked(pathlib.Path(sys.argv[1])):\n    print('mine', flush=True)\n    sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout.readline() == "mine\n"
        with pytest.raises(ValueError, match="is in use by another process"), locked(tmp_path):
            pass
        other.kill()
    with locked(tmp_path):
        pass


@pytest.mark.parametrize("text", ["[1]", "{", ""])
def test_json_must_be_a_mapping(tmp_path, text):
    path = tmp_path / "run.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"run\.json"):
        read_json(path)
