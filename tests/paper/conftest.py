"""What several files of tests need."""

import pytest

from cophenet.cli import main


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
