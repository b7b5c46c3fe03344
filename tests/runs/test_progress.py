"""The bar on terminals of any width."""

import io
from functools import partial
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from rich.console import Console

from cophenet.runs import callbacks
from cophenet.runs.callbacks import Follower, Journal
from cophenet.runs.lightning_module import TrainingModule


@pytest.mark.parametrize("width", [50, 80, 140])
def test_the_bar_keeps_epoch_and_time_left_on_a_narrow_terminal(width, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(callbacks, "Console", partial(Console, force_terminal=True, file=io.StringIO()))
    stage = SimpleNamespace(epoch=6, total_epochs=200, steps_per_epoch=98, total_step=650, objective=None)
    stage.meter = SimpleNamespace(latest={"cross_entropy": 1.234, "cpcc": 0.567, "rank": 0.891})
    module = Mock(spec=TrainingModule, **vars(stage))
    follower = Follower(Mock(), Journal(tmp_path / "log.txt", shown=True), bar=True)
    follower.on_train_start(SimpleNamespace(is_global_zero=True), module)
    bar = follower._bar
    follower._began -= 1.0
    follower.on_train_batch_end(None, module)
    follower._close()
    drawn = io.StringIO()
    Console(width=width, file=drawn).print(bar.get_renderable())
    text = drawn.getvalue().rstrip("\n")
    assert "\n" not in text
    assert text.startswith("epoch 7/200 ")
    assert text.rstrip().endswith(" left")
    assert "…" not in text
    assert ("rank 0.891" in text) == (width == 140)
