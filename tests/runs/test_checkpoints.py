"""Checkpoints that are whole or absent."""

import pytest
import torch

from cophenet.runs.checkpoints import (
    is_good,
    list_checkpoints,
    newest_good,
    read_checkpoint,
    write_checkpoint,
)
from support import files_up_to


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
