"""Files that are whole or absent."""

import itertools
import json
import os
import stat
import sys
from pathlib import Path

import pytest

from cophenet._common import files
from cophenet._common.files import (
    old_or_new_folder,
    read_json,
    replaced_file,
    replaced_files,
    replaced_folder,
    write_bytes,
    write_json,
    write_text,
)
from support import files_up_to, killed_at


def test_a_full_disk_leaves_the_old_file_and_no_rest(tmp_path):
    path = tmp_path / "file"
    write_bytes(path, b"old")
    with files_up_to(1000), pytest.raises(OSError, match="file"):
        write_bytes(path, b"x" * 5000)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_is_an_error_of_the_file_that_was_wanted(tmp_path):
    path = tmp_path / "table.csv"
    with files_up_to(1000), pytest.raises(OSError, match="too large") as caught, replaced_file(path) as part:
        part.write_bytes(b"x" * 5000)
    assert caught.value.filename == str(path)
    with pytest.raises(FileNotFoundError) as caught:
        write_text(tmp_path / "none" / "file", "text")
    assert caught.value.filename == str(tmp_path / "none" / "file")


def test_an_error_of_another_file_keeps_its_name(tmp_path):
    with pytest.raises(FileNotFoundError, match="no-such-input"), replaced_file(tmp_path / "file") as part:
        part.write_bytes((tmp_path / "no-such-input").read_bytes())


def test_any_error_removes_what_was_written(tmp_path):
    def write():
        with replaced_file(tmp_path / "file") as part:
            part.write_bytes(b"new")
            raise RuntimeError("compared")

    with pytest.raises(RuntimeError, match="compared"):
        write()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_replaced_whole_or_not_at_all(tmp_path):
    path = tmp_path / "model"
    with replaced_folder(path) as part:
        (part / "old").touch()
    with pytest.raises(FileNotFoundError), replaced_folder(path) as part:
        (part / "new").rename(part / "newer")
    assert [file.name for file in path.iterdir()] == ["old"]
    with replaced_folder(path) as part:
        (part / "new").touch()
    assert [file.name for file in path.iterdir()] == ["new"]
    assert list(tmp_path.iterdir()) == [path]


def _replace(path, text):
    with replaced_folder(path) as part:
        for name in ("one", "two"):
            (part / name).write_text(text)


@pytest.mark.parametrize("can_exchange", [True, False])
def test_a_killed_process_leaves_the_old_folder_or_the_new_one(can_exchange, tmp_path, monkeypatch):
    path = tmp_path / "model"
    if not can_exchange:
        monkeypatch.setattr(files, "_exchange", lambda *_: False)
    elif not sys.platform.startswith(("linux", "darwin")):
        pytest.skip("the system has no such call")
    seen = []
    for step in itertools.count():
        _replace(path, "old")
        killed = killed_at(step, lambda: _replace(path, "new"))
        assert path.is_dir() or not can_exchange
        texts = {file.name: file.read_text() for file in old_or_new_folder(path).iterdir()}
        assert texts in ({"one": "old", "two": "old"}, {"one": "new", "two": "new"})
        seen.append(texts["one"])
        if not killed:
            break
    assert seen == sorted(seen, reverse=True)
    assert len(seen) > 10
    assert seen[0] == "old"
    assert seen[-2:] == ["new", "new"]  # a kill while the old one is removed


def test_an_error_while_a_folder_is_moved_leaves_the_old_one(tmp_path, monkeypatch):
    _replace(tmp_path / "model", "old")
    monkeypatch.setattr(files, "_exchange", lambda *_: False)
    move = Path.replace

    def failing(one, other):
        if one.suffix == ".tmp":
            raise PermissionError("no")
        return move(one, other)

    monkeypatch.setattr(Path, "replace", failing)
    with pytest.raises(PermissionError):
        _replace(tmp_path / "model", "new")
    assert (tmp_path / "model" / "one").read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_link_is_replaced_and_what_it_leads_to_is_left_alone(tmp_path):
    (tmp_path / "target").write_text("mine")
    for target in ("target", "nowhere", "link"):
        path = tmp_path / "link"
        path.unlink(missing_ok=True)
        path.symlink_to(tmp_path / target)
        write_text(path, "new")
        assert not path.is_symlink()
        assert path.read_text() == "new"
        assert not (tmp_path / "nowhere").exists()
    assert (tmp_path / "target").read_text() == "mine"


def test_a_second_name_of_a_file_is_replaced_and_the_first_is_left_alone(tmp_path):
    (tmp_path / "first").write_text("mine")
    (tmp_path / "second").hardlink_to(tmp_path / "first")
    write_text(tmp_path / "second", "new")
    assert (tmp_path / "first").read_text() == "mine"


def test_devices_and_pipes_are_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/null")
    for path in (Path("/dev/null"), tmp_path / "pipe", tmp_path / "link"):
        with pytest.raises(ValueError, match="is a device or a pipe, and is not written to"):
            write_text(path, "new")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_text_keeps_its_line_ends(tmp_path):
    path = tmp_path / "file"
    write_text(path, "a\r\nö\n")
    assert path.read_bytes() == "a\r\nö\n".encode()


@pytest.mark.parametrize("text", ["[1]", "{", ""])
def test_json_must_be_a_mapping(tmp_path, text):
    path = tmp_path / "run.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"run\.json"):
        read_json(path)


def _write(path, text):
    with replaced_file(path) as part:
        part.write_text(text)


@pytest.mark.parametrize("write", [_write, _replace])
def test_the_next_writer_removes_what_a_killed_one_left(write, tmp_path):
    path, most = tmp_path / "page", 0
    write(path, "old")
    for step in itertools.count():
        killed = killed_at(step, lambda: write(path, "new"))
        most = max(most, len(list(tmp_path.iterdir())))
        if not killed:
            break
    assert most == 2
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_living_writer_writes_and_other_files_are_left_alone(tmp_path):
    path = tmp_path / "page"
    others = [tmp_path / name for name in (f".pages.{'0' * 32}.tmp", ".page.tmp", f".page.{'0' * 32}.old")]
    link = tmp_path / f".page.{'1' * 32}.tmp"
    link.symlink_to(tmp_path)
    for other in others:
        other.touch()
    with replaced_file(path) as first:
        first.write_text("first")
        assert os.waitstatus_to_exitcode(os.waitpid(_in_child(lambda: _write(path, "second")), 0)[1]) == 0
        _write(path, "third")
        assert path.read_text() == "third"
    assert path.read_text() == "first"
    assert {*tmp_path.iterdir()} == {path, link, *others}


def _in_child(work):
    child = os.fork()
    if child == 0:
        work()
        os._exit(0)
    return child


def _write_pair(folder, text):
    with replaced_files(folder / "features", folder / "labels") as parts:
        for part in parts:
            part.write_text(text)


def test_files_that_belong_together_are_never_old_and_new(tmp_path):
    seen = set()
    for step in itertools.count():
        _write_pair(tmp_path, "old")
        killed = killed_at(step, lambda: _write_pair(tmp_path, "new"))
        features, labels = (
            path.read_text() if path.exists() else None
            for path in (tmp_path / "features", tmp_path / "labels")
        )
        assert features in (None, labels)
        seen.add(features)
        if not killed:
            break
    assert seen == {"old", None, "new"}
    assert {path.name for path in tmp_path.iterdir()} == {"features", "labels"}


def test_lists_of_numbers_are_lines_and_texts_stay_as_they_are(tmp_path):
    document = {
        "rows": [[1, -2.5e-30], [0.1]],
        "texts": ["[\n 1,\n 2\n]", "[1, 2]"],
        "mixed": [1, "a"],
        "none": [],
    }
    write_json(tmp_path / "a.json", document)
    text = (tmp_path / "a.json").read_text()
    assert json.loads(text) == document
    assert "  [ 1, -2.5e-30 ],\n  [ 0.1 ]\n" in text
