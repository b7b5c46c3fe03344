"""Folders that one process has to itself, with the locks of POSIX and of Windows."""

import subprocess
import sys

import filelock
import pytest

from cophenet._common.locks import InUseError, locked

HOLD = """
import sys, pathlib, filelock
from cophenet._common.locks import locked
sys.platform = sys.argv[2]
with locked(pathlib.Path(sys.argv[1])):
    print("mine", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(params=["linux", "win32"])
def platform(request, monkeypatch):
    """The platform as the package sees it; what `filelock` is was decided when it was imported."""
    assert filelock.FileLock is not filelock.SoftFileLock
    monkeypatch.setattr(sys, "platform", request.param)
    if request.param == "win32":
        monkeypatch.setitem(sys.modules, "fcntl", None)
    return request.param


def test_a_lock_is_for_one_process_and_ends_with_it(tmp_path, platform):
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path), platform],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout.readline() == "mine\n"
        with pytest.raises(ValueError, match="is in use by another process"), locked(tmp_path):
            pass
        other.kill()
    with locked(tmp_path):
        pass


def test_a_lock_is_for_one_thread(tmp_path, platform):
    _ = platform
    with locked(tmp_path), locked(tmp_path, "another"):
        with pytest.raises(InUseError, match="is in use by another thread"), locked(tmp_path):
            pass
        with pytest.raises(InUseError, match="is in use by another thread"), locked(tmp_path):
            pass
    with locked(tmp_path):
        pass


def test_a_lock_touches_nothing_that_is_not_its_own(tmp_path, platform):
    _ = platform
    folder, mine = tmp_path / "run", tmp_path / "mine"
    folder.mkdir()
    mine.write_text("mine")
    for make in ("symlink_to", "hardlink_to"):
        getattr(folder / "lock", make)(mine)
        with pytest.raises(ValueError, match=r"lock is (a link|another name)"), locked(folder):
            pass
        (folder / "lock").unlink()
    (folder / "lock").write_text("left as it is")
    with locked(folder):
        pass
    if platform == "linux":
        assert (folder / "lock").read_text() == "left as it is"
    assert mine.read_text() == "mine"
