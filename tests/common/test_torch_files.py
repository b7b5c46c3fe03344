"""Files of torch are gone through before torch reads them."""

import io
import pickle
import zipfile

import pytest
import torch

from cophenet._common.pickles import LimitedUnpickler, RefusedPickleError
from cophenet._common.torch_files import load_torch

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
