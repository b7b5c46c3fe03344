"""The bar of a training on terminals of any width."""

import io
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from cophenet.runs import callbacks
from cophenet.runs.callbacks import ProgressCallback, RunLog
from cophenet.runs.lightning_module import TrainingModule


@pytest.mark.parametrize("width", [50, 80, 140])
def test_the_bar_keeps_epoch_and_time_left_on_a_narrow_terminal(width, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", str(width))
    screen = io.StringIO()
    monkeypatch.setattr(callbacks, "sys", SimpleNamespace(stdout=screen))
    state = {"epoch": 6, "total_epochs": 200, "steps_per_epoch": 98, "total_step": 649}
    meter = SimpleNamespace(latest={"cross_entropy": 1.234, "cpcc": 0.567, "rank": 0.891})
    module = Mock(spec=TrainingModule, meter=meter, objective=SimpleNamespace(cpcc=None), **state)
    callback = ProgressCallback(Mock(), RunLog(tmp_path / "log.txt", shown=True), bar=True)
    callback.setup(None, module, "fit")
    callback.on_train_start(SimpleNamespace(is_global_zero=True), module)
    callback.progress._began -= 1.0
    module.total_step = 650
    callback.on_train_batch_end(None, module)
    text = screen.getvalue()
    callback._close()
    assert text.startswith("\repoch 7/200 [")
    assert text.rstrip().endswith(" left")
    assert len(text) <= width
    assert "\n" not in screen.getvalue()
    assert "650/19600" in text
    assert ("rank 0.891" in text) == (width == 140)
    assert screen.getvalue().endswith("\r")


def test_lines_go_above_the_bar_and_into_the_file(monkeypatch, tmp_path):
    screen = io.StringIO()
    monkeypatch.setattr(callbacks, "sys", SimpleNamespace(stdout=screen))
    module = Mock(spec=TrainingModule, epoch=0, total_epochs=2, steps_per_epoch=4, total_step=0)
    module.meter = SimpleNamespace(latest={})
    log = RunLog(tmp_path / "log.txt", shown=True)
    callback = ProgressCallback(Mock(), log, bar=True)
    callback.setup(None, module, "fit")
    callback.on_train_start(SimpleNamespace(is_global_zero=True), module)
    module.total_step = 1
    callback.on_train_batch_end(None, module)
    log.write("half of it")
    callback._close()
    assert (tmp_path / "log.txt").read_text() == "half of it\n"
    lines = screen.getvalue().split("\n")
    assert lines[0].endswith("\rhalf of it")
    assert lines[1].startswith("\repoch 1/2 [")
