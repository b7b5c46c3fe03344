"""The progress display: a bar, lines or nothing."""

import io

import pytest

from cophenet._common import progress as progress_module
from cophenet._common.progress import Progress, as_percent


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def every_update_is_drawn(monkeypatch):
    monkeypatch.setattr(progress_module, "_SECONDS_BETWEEN", 0)
    monkeypatch.setenv("COLUMNS", "60")


def shown(stream, **options):
    with Progress("reading", 4, stream=stream, **options) as progress:
        for done in range(1, 5):
            progress.update(done, f"loss {1 / done:.2f}")
    return stream.getvalue()


def test_a_terminal_gets_a_bar_with_the_time_left():
    drawn = shown(Terminal()).split("\r")
    assert drawn[2].startswith("reading [")
    assert "2/4, loss 0.50, " in drawn[2]
    assert drawn[-1].rstrip(" ").endswith("left \n")
    assert max(map(len, drawn)) <= 61  # with the end of the line
    bar = drawn[-1][len("reading [") :].partition("]")[0]
    assert set(bar) == {"#"}


def test_elsewhere_there_are_lines():
    assert shown(io.StringIO()) == "reading 4/4 loss 0.25\n"
    lines = shown(io.StringIO(), every=2, count=as_percent).splitlines()
    assert lines == ["reading  25% loss 1.00", "reading  50% loss 0.50", "reading 100% loss 0.25"]


def test_a_bar_or_nothing_if_asked():
    assert shown(io.StringIO(), show=True).count("\r") == 4
    assert shown(Terminal(), show=False) == ""


def test_a_transient_bar_leaves_an_empty_line():
    *_, drawn, spaces, rest = shown(Terminal(), transient=True).split("\r")
    assert drawn.startswith("reading")
    assert (spaces, rest) == (" " * len(drawn), "")


def test_a_shorter_line_hides_the_longer_one_before():
    stream = Terminal()
    progress = Progress("reading", 4, stream=stream)
    progress.update(1, "loss 12345.67")
    progress.update(2)
    _, before, after = stream.getvalue().split("\r")
    assert len(after) == len(before)


def test_without_a_total_only_what_is_done_is_shown():
    stream = Terminal()
    with Progress("file:", None, stream=stream) as progress:
        progress.update(12)
    assert stream.getvalue() == "\rfile: 12 \n"


def test_values_are_left_out_where_there_is_no_room():
    stream = Terminal()
    Progress("reading", 4, stream=stream).update(1, "loss 1.00", "cross_entropy 1.00", "cpcc 1.00")
    text = stream.getvalue()
    assert "loss 1.00" in text
    assert "cpcc" not in text
    assert len(text) <= 60
