"""Files of torch are gone through before torch reads them."""

import codecs
import io
import pickle
import re
import zipfile
from collections import OrderedDict

import pytest
import torch

from cophenet._common.limits import TooLargeError
from cophenet._common.pickles import LimitedUnpickler, RefusedPickleError, load_torch
from cophenet.models.weights import read_state

STATE = {"weight": torch.arange(6.0).reshape(2, 3), "bias": torch.zeros(2), "betas": [(0.9, 0.99)] * 2}


def with_pickle(path, content):
    """A file of torch with another pickle inside."""
    buffer = io.BytesIO()
    torch.save(STATE, buffer)
    with zipfile.ZipFile(buffer) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            new.writestr(name, content if name.endswith("data.pkl") else old.read(name))
    return path


@pytest.mark.parametrize("old", [False, True])
def test_both_formats_are_read(old, tmp_path):
    torch.save(STATE, tmp_path / "a.pt", _use_new_zipfile_serialization=not old)
    state = load_torch(tmp_path / "a.pt")
    assert torch.equal(state["weight"], STATE["weight"])
    assert state["betas"] == STATE["betas"]
    if old:
        with pytest.raises(ValueError, match="not in the format that torch writes"):
            load_torch(tmp_path / "a.pt", old_format=False)


NEST = b"".join(b"q\x01h\x01\x86" for _ in range(60))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        # torch searches the name with expressions that take a time like the square of its length.
        (b"\x80\x02c" + b"a" * 100_000 + b"\nb\n.", r"a name of more than 200 letters \(limit\)"),
        # Pairs of pairs, sixty deep: as a key they would be hashed, and as a class written out, for years.
        (b"\x80\x02}N" + NEST + b"K\x01s.", "a key of type tuple"),
        (b"\x80\x02N" + NEST + b"NR.", "it calls what is no class"),
    ],
)
def test_pickles_that_take_torch_long_are_refused(content, message, tmp_path):
    with pytest.raises(RefusedPickleError, match=message):
        load_torch(with_pickle(tmp_path / "a.pt", content))
    torch.save(STATE, tmp_path / "b.pt", _use_new_zipfile_serialization=False)
    file = tmp_path / "b.pt"
    start = file.read_bytes().index(b"weight")
    head = file.read_bytes()[: file.read_bytes().rindex(b"\x80\x02}", 0, start)]
    file.write_bytes(head + content)
    with pytest.raises(RefusedPickleError, match=message):
        load_torch(file)


def test_nothing_is_looked_up_unless_a_subclass_does():
    with pytest.raises(RefusedPickleError, match=r"asks for builtins\.print"):
        LimitedUnpickler(io.BytesIO(pickle.dumps(print))).load()


class Call:
    """Pickled as a call of a function."""

    def __init__(self, *call):
        self.call = call

    def __reduce__(self):  # noqa: D105
        return self.call[0], self.call[1:]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (Call(bytearray, 1 << 40), "it calls builtins.bytearray"),
        (Call(torch.Tensor, 1 << 20, 1 << 20), "it calls torch.Tensor"),
        (Call(set, [((), ())]), "it calls builtins.set"),
        (Call(OrderedDict, [[((), ()), 1]]), "a key of type tuple"),
        (Call(codecs.encode, "text", "idna"), "it encodes text"),
        (torch.nn.Linear(2, 2), "it calls torch.nn.modules.linear.Linear"),
    ],
)
def test_calls_that_torch_allows_are_refused_where_they_take_what_they_want(call, message, tmp_path):
    content = pickle.dumps({"a": call}, 2).replace(b"__builtin__", b"builtins")
    with pytest.raises(RefusedPickleError, match=re.escape(message)):
        load_torch(with_pickle(tmp_path / "a.pt", content))


@pytest.mark.parametrize("old", [False, True])
def test_tensors_larger_than_their_memory(old, tmp_path):
    state = {"w": torch.zeros(1).expand(10**10)}
    torch.save(state, tmp_path / "a.pt", _use_new_zipfile_serialization=not old)
    with pytest.raises(TooLargeError, match="unpack to more than"):
        load_torch(tmp_path / "a.pt")
    with pytest.raises(ValueError, match="unpack to more than"):
        read_state(tmp_path / "a.pt")


@pytest.mark.parametrize("old", [False, True])
def test_elements_of_sixteen_bytes_count_as_such(old, tmp_path, monkeypatch):
    monkeypatch.setenv("COPHENET_MAX_UNPACKED_BYTES", "2400000")
    for dtype, refused in ((torch.complex64, False), (torch.complex128, True)):
        state = {"w": torch.zeros(1, dtype=dtype).expand(200_000)}
        torch.save(state, tmp_path / "a.pt", _use_new_zipfile_serialization=not old)
        if refused:
            with pytest.raises(TooLargeError, match="unpack to more than"):
                load_torch(tmp_path / "a.pt")
        else:
            assert len(load_torch(tmp_path / "a.pt")["w"]) == 200_000


def test_the_file_is_checked_in_the_format_that_torch_takes_it_for(tmp_path):
    """A zip file may have anything before it, which torch would read in the old format."""
    old, new = io.BytesIO(), io.BytesIO()
    torch.save({"w": torch.zeros(1).expand(10**10)}, old, _use_new_zipfile_serialization=False)
    torch.save(STATE, new)
    (tmp_path / "a.pt").write_bytes(old.getvalue() + new.getvalue())
    with pytest.raises(TooLargeError, match="unpack to more than"):
        load_torch(tmp_path / "a.pt")
    with pytest.raises(ValueError, match="not in the format"):
        load_torch(tmp_path / "a.pt", old_format=False)


def test_programs_are_refused(tmp_path):
    with zipfile.ZipFile(with_pickle(tmp_path / "a.pt", pickle.dumps({}, 2)), "a") as archive:
        folder = archive.namelist()[0].partition("/")[0]
        archive.writestr(f"{folder}/constants.pkl", b"")
    with pytest.raises(ValueError, match="TorchScript"):
        load_torch(tmp_path / "a.pt")


def test_parameters_and_dictionaries_in_order_are_read(tmp_path):
    state = torch.nn.Linear(3, 2).state_dict(keep_vars=True)
    torch.save({"state": state, "shape": torch.Size([2, 3]), "raw": b"\xff"}, tmp_path / "a.pt")
    loaded = load_torch(tmp_path / "a.pt")
    assert isinstance(loaded["state"]["weight"], torch.nn.Parameter)
    assert (loaded["shape"], loaded["raw"]) == ((2, 3), b"\xff")
