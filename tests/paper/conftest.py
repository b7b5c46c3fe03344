"""What several files of tests need."""

import pytest

from cophenet.cli import main
from cophenet.paper import documents
from cophenet.paper.figures import checksum


@pytest.fixture
def undrawn(monkeypatch):
    """Pictures that say only of which data they are: drawing takes most of the time of a document."""
    files = ("svg", "png")
    monkeypatch.setattr(documents, "draw", lambda figure: dict.fromkeys(files, checksum(figure).encode()))


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    """The command, in an empty folder: exit code, output and errors."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        with pytest.raises(SystemExit) as done:
            main(["reproduce", *arguments])
        output = capsys.readouterr()
        return int(done.value.code or 0), output.out, output.err

    return call
