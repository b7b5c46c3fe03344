"""The unpickler builds plain values and arrays, and nothing else whatever it is asked."""

import io
import os
import pickle
import pickletools

import numpy as np
import pytest

from cophenet._common.pickles import read_plain_pickle

from .written import python2_pickle


def read(content):
    return read_plain_pickle(io.BytesIO(content), "batch")


def test_python2_arrays_lists_and_strings_come_back():
    array = np.arange(300, dtype=np.uint8).reshape(20, 15)
    content = python2_pickle({"data": array, "labels": [1, 2], "name": "x"})
    back = read(content)
    np.testing.assert_array_equal(back[b"data"], array)
    assert (back[b"labels"], back[b"name"]) == ([1, 2], b"x")
    # numpy itself reads what the tests write, so these are true pickles of arrays.
    theirs = pickle.loads(content.replace(b"numpy.core.", b"numpy._core."), encoding="latin1")
    np.testing.assert_array_equal(theirs["data"], array)


class _Reduced:
    def __init__(self, *parts):
        self.parts = parts

    def __reduce__(self):
        return self.parts


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize(
    "value",
    [
        _Reduced(os.system, ("touch {}",)),
        _Reduced(eval, ("open('{}', 'w')",)),
        _Reduced(getattr, (np.ndarray, "tofile")),
        {"data": _Reduced(np.fromfile, ("{}",))},
        [_Reduced(os.mkdir, ("{}",))],
    ],
)
def test_malicious_pickles_are_refused_and_not_run(tmp_path, protocol, value):
    target = tmp_path / "made"
    content = pickle.dumps(value, protocol).replace(b"{}", str(target).encode())
    with pytest.raises(ValueError, match="batch: "):
        read(content)
    assert not target.exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"cos\nsystem\n(S'true'\ntR.", "refused, the pickle asks for os.system"),
        (b"(S'true'\nios\nsystem\n.", "refused, the pickle asks for os.system"),
        (b"\x80\x02cnumpy\nload\n.", "refused, the pickle asks for numpy.load"),
        (
            b"\x80\x02cnumpy.core.multiarray\nscalar\n.",
            "refused, the pickle asks for numpy.core.multiarray.sc",
        ),
        (b"\x80\x04\x8c\x02os\x8c\x06system\x93.", "refused, the pickle asks for os.system"),
        (b"\x80\x02cnumpy\ndtype\nU\x02O8\x85R.", "holds an array of b'O8'"),
        (b"\x80\x02U\x05filesQ.", "persistent"),
        (b"\x80\x02cnumpy\nndarray\n)R.", "truncated, damaged"),
        (b"\x80\x02cnumpy\nndarray\n)R(K\x01K\x01K\x01K\x01K\x01tb.", "not made of plain bytes"),
        (b"\x80\x02\x82\x01.", "truncated, damaged"),
        (b"\x80\x02]q\x00}b.", "truncated, damaged"),
        (b"\x80\x02}", "truncated, damaged"),
    ],
)
def test_hand_made_pickles_are_refused(content, message):
    with pytest.raises(ValueError, match=message):
        read(content)


def test_arrays_of_objects_and_wrong_sizes_are_refused():
    with pytest.raises(ValueError, match="refused"):
        read(pickle.dumps(np.array([print], dtype=object), 2))
    content = python2_pickle({"data": np.zeros((4, 300), np.uint8)})
    cut = content.replace(b"J\x04\x00\x00\x00", b"J\x05\x00\x00\x00")
    assert pickletools.optimize(cut)
    with pytest.raises(ValueError, match="cannot reshape array of size 1200"):
        read(cut)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("old", [True, False])
def test_pickles_of_todays_numpy_come_back(protocol, order, old):
    array = np.asarray(np.arange(255, dtype=np.uint8).reshape(17, 15), order=order)
    content = pickle.dumps({b"data": array, "labels": [1, 2**20]}, protocol)
    if old and protocol < 4:  # later ones write the length of the name before it
        content = content.replace(b"numpy._core.", b"numpy.core.")
    back = read(content)
    np.testing.assert_array_equal(back[b"data"], array)
    assert back["labels"] == [1, 2**20]


NEW_ARRAY = b"\x80\x05cnumpy._core.numeric\n_frombuffer\n"
BYTE = b"cnumpy\ndtype\n\x8c\x02u1\x85R"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x80\x02c_codecs\nencode\nX\x01\x00\x00\x00aX\x05\x00\x00\x00utf-8\x86R.", "text as 'utf-8'"),
        (b"\x80\x02c_codecs\nencode\nX\x01\x00\x00\x00aX\x05\x00\x00\x00rot13\x86R.", "text as 'rot13'"),
        (b"\x80\x02c_codecs\nencode\nK\x01X\x06\x00\x00\x00latin1\x86R.", "only latin1"),
        (b"\x80\x02c_codecs\ndecode\n.", "refused, the pickle asks for _codecs.decode"),
        (b"\x80\x02c_codecs\nencode\n}X\x01\x00\x00\x00aK\x01sb.", "truncated, damaged"),
        (NEW_ARRAY + b"(C\x01a" + BYTE + b"J\xff\xff\xff\xff\x85\x8c\x01CtR.", r"of shape \(-1,\)"),
        (NEW_ARRAY + b"(C\x01a" + BYTE + b"K\x01\x85\x8c\x01AtR.", "order 'A'"),
        (NEW_ARRAY + b"(C\x01a" + BYTE + b"K\x02\x85\x8c\x01CtR.", "cannot reshape"),
        (NEW_ARRAY + b"(C\x01aK\x01K\x01\x85\x8c\x01CtR.", "not made of plain bytes"),
        (NEW_ARRAY + b"(]" + BYTE + b"K\x01\x85\x8c\x01CtR.", "not made of plain bytes"),
        (NEW_ARRAY + b"(C\x01a" + BYTE + b"K\x01\x85\x8c\x01CtRNb.", "truncated|fills an array twice"),
        (NEW_ARRAY + b")\x81.", "truncated, damaged"),
        (NEW_ARRAY + b"}\x8c\x06valuesK\x01sb.", "truncated, damaged"),
    ],
)
def test_stand_ins_of_newer_names_build_nothing_else(content, message):
    with pytest.raises(ValueError, match=message):
        read(content)
