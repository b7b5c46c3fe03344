"""The queue of runs: half-written folders, what is missing, and other processes."""

import json
import threading
from dataclasses import replace

import pytest

import cophenet.paper.pipeline as make
import cophenet.paper.queue as queues
from cophenet._common.locks import locked
from cophenet.paper.items import find_items
from cophenet.paper.pipeline import reproduce
from cophenet.paper.plan import Settings, plan_runs
from cophenet.paper.queue import Queue, state_of
from forked import HANGS

from .written import write_runs

pytestmark = pytest.mark.usefixtures("undrawn")

DIGITS = Settings("laptop", ("digits",), (0,), ("epochs=1", "one_shot.epochs=2"))


def runs_of(name, settings=DIGITS):
    (item,) = find_items((name,))
    return plan_runs(item, settings)


def test_a_half_written_folder_is_no_run_yet(tmp_path):
    """As another process leaves it for a moment, or for good if it is killed then."""
    runs = runs_of("rank")[0]
    path = runs.path(tmp_path, 0)
    path.mkdir(parents=True)
    (path / "run.json").write_text(json.dumps({"format": 1, "seed": 0, "finished": False}))
    assert state_of(path) == "missing"
    queue = Queue(tmp_path, progress=False, tell=lambda _: None)
    with locked(path.parent, "seed0.lock"):
        assert not queue.advance([runs])
    assert queue.report.failed == {}
    assert queue.advance([runs])
    assert queue.report.trained == [f"{runs.name}/seed0"]
    assert state_of(path) == "done"


def test_what_is_waited_for_is_said_again_after_minutes(tmp_path, monkeypatch):
    runs = runs_of("rank")[0]
    path = runs.path(tmp_path, 0)
    path.parent.mkdir(parents=True)
    lines, clock = [], [0.0]
    monkeypatch.setattr(queues.time, "monotonic", lambda: clock[0])
    queue = Queue(tmp_path, tell=lines.append)
    with locked(path.parent, "seed0.lock"):
        for now in (0.0, 5.0, 10.0, 200.0, 205.0):
            clock[0] = now
            assert not queue.advance([runs])
    assert lines == [f"{runs.name}/seed0: another process is running it"] * 2


def test_all_items_are_gone_through_before_anything_is_waited_for(tmp_path, monkeypatch):
    """A run that another process is at keeps its own items back, none of the others."""
    busy = next(runs for runs in runs_of("rank") if runs.variant.objective == "flat")
    made, lines = [], []

    def have(_queue, runs, seed, *_rest):
        made.append(runs.name)
        write_runs([replace(runs, seeds=(seed,))], tmp_path / "runs")

    monkeypatch.setattr(Queue, "_make", have)
    monkeypatch.setattr(Queue, "pause", 0.01)
    held = threading.Event()

    def tell(line):
        lines.append(line)
        if line.startswith("flow-weights: wrote"):
            assert not (tmp_path / "out/rank/rank.json").exists()
            held.set()

    def hold():
        with locked(tmp_path / "runs" / busy.name, "seed0.lock"):
            began.set()
            held.wait(HANGS)

    began = threading.Event()
    (tmp_path / "runs" / busy.name).mkdir(parents=True)
    thread = threading.Thread(target=hold)
    thread.start()
    began.wait(HANGS)
    reproduce(["rank", "flow-weights"], tmp_path / "runs", tmp_path / "out", settings=DIGITS, tell=tell)
    thread.join(HANGS)
    assert made[-1] == busy.name
    written = [line.partition(":")[0] for line in lines if ": wrote" in line]
    assert written == ["flow-weights", "rank"]


def test_missing_weights_are_left_out_not_failed(tmp_path, monkeypatch):
    planned = runs_of("backbone", Settings("paper", seeds=(0,)))
    runs = next(runs for runs in planned if runs.variant.setting == {"backbone": "vit_b_16"})
    monkeypatch.setattr(queues, "missing_data", lambda *_: "")
    lines = []
    queue = Queue(tmp_path / "runs", tmp_path, tell=lines.append)
    assert queue.advance([runs])
    reason = "weights are missing: vit_b_16.pth"
    assert queue.report.lacking == {f"{runs.name}/seed0": reason}
    assert queue.report.failed == {}
    assert lines == [f"left out: {reason} (looked in {tmp_path})"]


def test_two_commands_do_not_time_at_once(tmp_path, monkeypatch):
    """The second waits for the first, and then uses what that has measured."""
    seconds = {"l2": [0.001], "emd": [0.01], "bures": [0.02], "bures, dense": [100.0]}
    settings = {"batch_size": 128, "classes": 100, "width": 512, "dense_pairs": 2}
    waiting, calls, lines = threading.Event(), [], []

    def measure(*_arguments):
        calls.append(1)
        assert waiting.wait(HANGS)
        return {"seconds": seconds, "settings": settings}

    def tell(line):
        lines.append(line)
        if "another process is timing" in line:
            waiting.set()

    monkeypatch.setattr(make, "run_isolated", measure)
    monkeypatch.setattr(Queue, "pause", 0.01)
    failed = []

    def call():
        failed.append(reproduce(["batch-time"], tmp_path / "runs", tmp_path / "out", tell=tell).failed)

    threads = [threading.Thread(target=call) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANGS)
    assert failed == [{}, {}]
    assert len(calls) == 1
    assert sum("batch-time: measured before" in line for line in lines) == 1


@pytest.mark.parametrize("folder", ["a", "b"])
def test_recipe_files_of_one_name_have_runs_of_their_own(tmp_path, folder):
    names = {}
    for place, rate in (("a", 0.05), ("b", 0.07)):
        (tmp_path / place).mkdir()
        text = runs_of("rank", Settings("laptop", ("digits",), (0,)))[0].recipe.to_yaml()
        path = tmp_path / place / "mine.yaml"
        path.write_text(text.replace("lr: 0.05", f"lr: {rate}"))
        names[place] = runs_of("rank", Settings("laptop", (str(path),), (0,)))[0].name
    assert names["a"] != names["b"]
    assert names[folder].startswith("mine-")
    path = tmp_path / folder / "mine.yaml"
    path.write_text(f"# a remark\n{path.read_text()}")
    again = Settings("laptop", (str(path),), (0,))
    assert runs_of("rank", again)[0].name == names[folder]
