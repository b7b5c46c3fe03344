import contextlib
import hashlib
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from cophenet.data import Cifar10, FashionMnist
from cophenet.data.download import RemoteFile, download, fetch
from cophenet.data.registry import SOURCES

CONTENT = bytes(range(256)) * 4000


class Server(ThreadingHTTPServer):
    """Serves CONTENT under any name; options say how badly."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.ranges = True
        self.cuts = 0
        self.sized = True
        self.endless = False
        self.asked = []

    def file(self, content=CONTENT, name="archive.tar.gz", size=None):
        url = f"http://127.0.0.1:{self.server_port}/{name}"
        return RemoteFile(url, hashlib.md5(content).hexdigest(), size)


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        server = self.server
        wanted = self.headers.get("Range")
        server.asked.append(wanted)
        if self.path == "/missing":
            self.send_error(404)
            return
        start = int(wanted[len("bytes=") : -1]) if wanted and server.ranges else 0
        if wanted and server.ranges and start >= len(CONTENT):
            self.send_error(416)
            return
        self.send_response(206 if wanted and server.ranges else 200)
        body = CONTENT[start:]
        if server.sized:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if server.cuts > 0:
            server.cuts -= 1
            body = body[: len(body) // 2]
        self.wfile.write(body)
        with contextlib.suppress(ConnectionError):
            while server.endless:
                self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def test_places_the_whole_file_and_keeps_it(server, tmp_path):
    path = fetch(server.file(), tmp_path / "new" / "folder")
    assert path.read_bytes() == CONTENT
    assert [item.name for item in path.parent.iterdir()] == ["archive.tar.gz"]
    assert fetch(server.file(), path.parent) == path
    assert server.asked == [None]


def test_without_a_length(server, tmp_path):
    server.sized = False
    assert fetch(server.file(), tmp_path).read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("size", "note"), [(None, r"\(limit; COPHENET_MAX_DOWNLOAD_BYTES"), (1_500_000, "its size")]
)
def test_a_download_without_end_is_not_taken(server, tmp_path, monkeypatch, size, note):
    server.sized, server.endless = False, True
    monkeypatch.setenv("COPHENET_MAX_DOWNLOAD_BYTES", "1500000")
    with pytest.raises(ValueError, match=rf"archive.tar.gz has more than 1.5 MB .*{note}.*was removed"):
        fetch(server.file(size=size), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_declared_size_beyond_the_limit_is_refused_at_once(server, tmp_path):
    with pytest.raises(ValueError, match=r"has more than 10 bytes \(its size\)"):
        fetch(server.file(size=10), tmp_path)
    assert fetch(server.file(size=len(CONTENT)), tmp_path).read_bytes() == CONTENT


def test_goes_on_after_the_connection_is_cut(server, tmp_path):
    server.cuts = 2
    assert fetch(server.file(), tmp_path).read_bytes() == CONTENT
    half = len(CONTENT) // 2
    assert server.asked == [None, f"bytes={half}-", f"bytes={half + half // 2}-"]


def test_keeps_the_part_when_the_server_keeps_cutting_and_goes_on_later(server, tmp_path):
    server.cuts = 100
    with pytest.raises(ConnectionError, match=r"broke off \(\d+ bytes are kept in .*archive.tar.gz.part\)"):
        fetch(server.file(), tmp_path)
    kept = (tmp_path / "archive.tar.gz.part").stat().st_size
    assert not (tmp_path / "archive.tar.gz").exists()
    server.cuts = 0
    assert fetch(server.file(), tmp_path).read_bytes() == CONTENT
    assert server.asked[-1] == f"bytes={kept}-"


def test_starts_again_where_the_server_knows_no_ranges(server, tmp_path):
    server.ranges = False
    (tmp_path / "archive.tar.gz.part").write_bytes(b"something else")
    assert fetch(server.file(), tmp_path).read_bytes() == CONTENT


@pytest.mark.parametrize("part", [CONTENT, CONTENT + b"x"], ids=["complete", "too long"])
def test_a_part_that_reaches_the_end_is_judged_by_its_checksum(server, tmp_path, part):
    (tmp_path / "archive.tar.gz.part").write_bytes(part)
    if part == CONTENT:
        assert fetch(server.file(), tmp_path).read_bytes() == CONTENT
    else:
        with pytest.raises(ValueError, match="checksum"):
            fetch(server.file(), tmp_path)


def test_a_wrong_checksum_leaves_nothing(server, tmp_path):
    with pytest.raises(ValueError, match=r"archive.tar.gz has checksum \w{32} instead of \w{32}"):
        fetch(server.file(b"other"), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_foreign_file_in_the_place_is_left_alone(server, tmp_path):
    (tmp_path / "archive.tar.gz").write_bytes(b"mine")
    with pytest.raises(ValueError, match="remove it first"):
        fetch(server.file(), tmp_path)
    assert (tmp_path / "archive.tar.gz").read_bytes() == b"mine"
    assert server.asked == []


def test_a_missing_file_is_told_with_the_answer(server, tmp_path):
    with pytest.raises(ConnectionError, match=r"/missing was refused: 404 Not Found"):
        fetch(server.file(name="missing"), tmp_path)


def test_without_a_network_says_what_to_put_where(server, tmp_path, monkeypatch):
    gone = RemoteFile("http://127.0.0.1:9/a.gz", "0" * 32)
    monkeypatch.setattr(Cifar10, "remote_files", (server.file(), gone))
    with pytest.raises(ConnectionError, match=r"put archive.tar.gz, a.gz into " + str(tmp_path)):
        download("cifar10", tmp_path)
    assert (tmp_path / "archive.tar.gz").exists()


def test_a_data_set_by_name(server, tmp_path, monkeypatch):
    files = (server.file(name="one.gz"), server.file(name="two.gz"))
    monkeypatch.setattr(FashionMnist, "remote_files", files)
    assert [path.name for path in download("fashion-mnist", tmp_path)] == ["one.gz", "two.gz"]
    with pytest.raises(ValueError, match="download must be one of cifar10, cifar100, fashion-mnist"):
        download("living17", tmp_path)


def test_plain_lines_without_a_terminal(server, tmp_path, monkeypatch, capsys):
    # The package has a function of that name, so the module is not its attribute.
    monkeypatch.setattr(sys.modules["cophenet.data.download"], "_CHUNK", len(CONTENT) // 4)
    fetch(server.file(), tmp_path)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "archive.tar.gz: 0.3 MB (20 %)"
    assert lines[-1] == "archive.tar.gz: 1.0 MB (100 %)"


def test_checksums_are_md5():
    files = [file for source in SOURCES.members().values() for file in source.remote_files]
    assert len(files) == 6
    for file in files:
        assert len(file.md5) == 32
        assert int(file.md5, 16) > 0
        assert file.size > 5000


@pytest.mark.parametrize("there", [True, False])
def test_nothing_is_written_through_a_link(server, tmp_path, there):
    target = tmp_path / "target"
    if there:
        target.write_bytes(b"mine")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "archive.tar.gz.part").symlink_to(target)
    with pytest.raises(ValueError, match=r"archive\.tar\.gz\.part is a link, and is not written to"):
        fetch(server.file(), tmp_path / "data")
    assert target.read_bytes() == b"mine" if there else not target.exists()
    assert server.asked == []
