"""Errors of readers become one line with the file; limits say what they are."""

import struct
import zlib

import pytest

from cophenet._common.files import parse_json, read_json
from cophenet._common.limits import check_unpacked, read_bytes, read_text, reading


@pytest.mark.parametrize(
    "error",
    [
        zlib.error("bad"),
        struct.error("short"),
        KeyError("x"),
        NotImplementedError(),
        SystemError("x\ny"),
        RecursionError("deep"),
        OverflowError("big"),
        EOFError(),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
        OSError("no number"),
        SyntaxError("unmatched ')'", ("<unknown>", 1, 1, ")")),
        OSError(22, "Invalid argument"),
    ],
)
def test_errors_of_readers_are_one_line_with_the_file(error):
    message = r"^a.npz: truncated, damaged or not an archive \("
    with pytest.raises(ValueError, match=message) as caught, reading("a.npz", "an archive"):
        raise error
    assert "\n" not in str(caught.value)
    assert type(error).__name__ in str(caught.value)


def test_our_own_errors_get_the_file_once():
    for text in ("no rows", "a.npz: no rows"):
        with pytest.raises(ValueError, match=r"^a.npz: no rows$"), reading("a.npz"), reading("a.npz"):
            raise ValueError(text)


@pytest.mark.parametrize(
    "error", [MemoryError(), ImportError("needs it"), FileNotFoundError(2, "No such file", "b")]
)
def test_others_pass(error):
    with pytest.raises(type(error)) as caught, reading("a.npz"):
        raise error
    assert caught.value is error


def test_long_messages_are_cut():
    with pytest.raises(ValueError, match=r"^a") as caught, reading("a.npz"):
        raise ValueError("x" * 10_000)
    assert len(str(caught.value)) < 600


def test_bytes_are_limited(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"12345")
    assert read_bytes(path, 5) == b"12345"
    with pytest.raises(ValueError, match=r"a.txt: larger than 4 bytes \(limit\)"):
        read_bytes(path, 4)
    path.write_bytes(b"\n\xff")
    with pytest.raises(ValueError, match=r"a.txt: line 2: not UTF-8 text"):
        read_text(path)


def test_what_is_packed_may_be_twenty_times_larger(monkeypatch):
    check_unpacked(1, 1 << 30)
    check_unpacked(10**9, 20 * 10**9)
    with pytest.raises(ValueError, match=r"1 GB unpack to more than 20 GB \(limit; COPHENET_MAX_UNPACKED"):
        check_unpacked(10**9, 20 * 10**9 + 1)
    monkeypatch.setenv("COPHENET_MAX_UNPACKED_BYTES", str(10**11))
    check_unpacked(10**9, 10**11)


def test_json_of_any_width_and_limited_depth(tmp_path):
    assert parse_json("[" * 500 + "]" * 500)
    assert len(parse_json("[" + "[]," * 2000 + '"[[[["]')) == 2001
    path = tmp_path / "run.json"
    path.write_text('{"a": ' * 501 + "1" + "}" * 501)
    with pytest.raises(ValueError, match=r"run.json is no JSON: nested deeper than 500 levels \(limit\)"):
        read_json(path)
    with pytest.raises(ValueError, match=r"more than 3 values \(limit; COPHENET_MAX_NODES"):
        parse_json("[1, 2, 3, 4]", values=3)
    assert parse_json('["a,b,c,d,e,f,[[["]', values=3) == ["a,b,c,d,e,f,[[["]
