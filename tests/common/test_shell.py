"""Commands in messages can be pasted into a shell, whatever folders are called."""

import re
import shlex
from pathlib import Path

import pytest

import cophenet
from cophenet._common.shell import command
from cophenet.evaluation import evaluate
from cophenet.recipes import load_recipe
from cophenet.runs import Run, train

ODD = "my run; rm -rf $(HOME) 'x'"


def test_words_come_back_from_a_shell():
    assert shlex.split(command("train", "--resume", Path(ODD))) == ["cophenet", "train", "--resume", ODD]
    assert command("evaluate", Path("runs/flat"), "--trust") == "cophenet evaluate runs/flat --trust"


def test_errors_quote_their_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recipe = load_recipe("digits", overrides=["epochs=1"])
    train(recipe, ODD, loggers=(), progress=False)
    run = Run.open(ODD)
    info = run.path / "run.json"
    info.write_text(info.read_text().replace('"finished": true', '"finished": false'))
    for action in (lambda: evaluate(ODD), lambda: train(recipe, ODD, loggers=(), progress=False)):
        with pytest.raises(ValueError, match="cophenet train --resume ") as caught:
            action()
        assert command("train", "--resume", Path(ODD)) in str(caught.value)


def test_every_command_in_a_message_is_made_by_one_function():
    """No text of the package puts a path behind a command by itself."""
    names = "train|evaluate|compare|report|measure|embed|predict|search"
    pattern = re.compile(rf"cophenet ({names})[^\n]*\{{[a-z_.]*(path|output|folder)")
    sources = Path(cophenet.__file__).parent.rglob("*.py")
    assert not [source.name for source in sources if pattern.search(source.read_text(encoding="utf-8"))]
