"""The command, with real runs on digits."""

import json
import re
import signal
import threading
import time
from dataclasses import replace

import pytest

import cophenet.evaluation
from cophenet.paper.documents import read_document
from cophenet.paper.items import find_items
from cophenet.paper.plan import Settings, plan_runs
from cophenet.paper.queue import Queue, state_of
from cophenet.paper.tables import item_tables
from cophenet.runs import Run
from cophenet.runs.lightning_module import TrainingModule
from forked import HANGS

from .written import rows_of, write_runs

TINY = ("--recipe", "digits", "--seeds", "1", "--set", "epochs=1", "--set", "one_shot.epochs=2")


def test_real_runs_are_made_once_and_an_interrupted_queue_goes_on(run, tmp_path, monkeypatch):
    def interrupted(*_args, **_options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(cophenet.evaluation, "evaluate", interrupted, raising=False)
        code, _, error = run("rank", *TINY, "--runs", "r", "-o", "o")
    assert code == 1
    assert "the same command goes on" in error
    paths = sorted((tmp_path / "r").glob("*/seed0"))
    assert [state_of(path) for path in paths] == ["trained"]
    before = (paths[0] / "run.json").read_bytes()

    code, out, error = run("rank", *TINY, "--runs", "r", "-o", "o")
    assert (code, error) == (0, "")
    assert "3 runs there (3 new), 0 left out, 0 failed" in out
    assert (paths[0] / "run.json").read_bytes() == before
    rows = rows_of(item_tables(read_document(tmp_path / "o", "rank"))["rank"])
    names = ("flat-epochs-1-epochs-2", "rank-epochs-1-epochs-2-target-published", "rank-epochs-1-epochs-2")
    for row, name in zip(rows, names, strict=True):
        (path,) = (tmp_path / "r").glob(f"digits-laptop-{name}-??????/seed0/results.json")
        metrics = json.loads(path.read_text())["metrics"]
        assert row["fine sAcc"].mean == metrics["source/accuracy/digit"]["mean"]
    assert (tmp_path / "o/rank/rank.svg").stat().st_size > 1000

    code, out, _ = run("rank", *TINY, "--runs", "r", "-o", "o", "--only-finished")
    assert code == 0
    assert "3 runs there (0 new)" in out


def test_missing_data_is_said_and_the_rest_goes_on(run, tmp_path):
    code, out, _ = run("rank", "data", "--data-dir", str(tmp_path), "--runs", "r", "-o", "o")
    assert code == 0
    assert "data 'cifar100' is missing" in out
    assert "0 runs there (0 new), 13 left out, 0 failed; 2 items written" in out
    assert json.loads((tmp_path / "o/rank/rank.json").read_text())["missing"]
    assert "Not here: cifar10, cifar100, inat21" in (tmp_path / "o/data/data.md").read_text().replace(
        "\\", ""
    )


def test_one_failure_does_not_stop_the_others(tmp_path, monkeypatch):
    (item,) = find_items(("rank",))
    planned = plan_runs(item, Settings("laptop", ("digits",), (0,)))
    tried = []

    def make(_queue, runs, *_rest):
        tried.append(runs.variant.objective)
        if runs.variant.objective == "flat":
            raise OSError("the disk is full")

    monkeypatch.setattr(Queue, "_make", make)
    queue = Queue(tmp_path, tell=lambda _: None)
    assert queue.advance(planned)
    assert tried == ["flat", "rank", "rank"]
    assert queue.report.failed == {"digits-laptop-flat/seed0": "the disk is full"}
    assert queue.report.done == [f"{runs.name}/seed0" for runs in planned[1:]]


def test_a_folder_with_other_settings_is_refused(tmp_path):
    (item,) = find_items(("rank",))
    planned = plan_runs(item, Settings("laptop", ("digits",), (0,)))
    write_runs(planned, tmp_path)
    path = planned[0].path(tmp_path, 0) / "recipe.yaml"
    path.write_text(path.read_text().replace("lr: 0.05", "lr: 0.07"))
    queue = Queue(tmp_path, tell=lambda _: None)
    assert queue.advance(planned)
    assert "has other settings (optimizer.lr)" in queue.report.failed["digits-laptop-flat/seed0"]
    assert queue.report.done == [f"{runs.name}/seed0" for runs in planned[1:]]


def test_two_queues_share_the_runs(tmp_path, monkeypatch):
    """Two processes with the same command, as threads: each run is made once, and both end with all."""
    (item,) = find_items(("rank",))
    planned = plan_runs(item, Settings("laptop", ("digits",), (0, 1)))
    made, meeting = [], threading.Barrier(2, timeout=HANGS)

    def make(queue, runs, seed, path, *_rest):
        made.append((queue, path))
        if len(made) <= 2:
            meeting.wait()  # both are at a run of their own
        write_runs([replace(runs, seeds=(seed,))], tmp_path / "written")
        runs.path(tmp_path / "written", seed).rename(path)  # whole at once, as files of real runs are

    monkeypatch.setattr(Queue, "_make", make)
    queues = [Queue(tmp_path, tell=lambda _: None) for _ in range(2)]

    def work(queue):
        while not queue.advance(planned):
            time.sleep(0.01)

    threads = [threading.Thread(target=work, args=(queue,)) for queue in queues]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANGS)
    names = [f"{runs.name}/seed{seed}" for runs in planned for seed in (0, 1)]
    assert len(made) == len({path for _, path in made}) == 6
    assert {id(queue) for queue, _ in made[:2]} == {id(queue) for queue in queues}
    for queue in queues:
        assert sorted(queue.report.done) == sorted(names)
        assert not queue.report.failed
    assert sum(len(queue.report.trained) for queue in queues) == 6


def test_a_run_stopped_in_training_is_continued(tmp_path, monkeypatch):
    (item,) = find_items(("rank",))
    settings = Settings("laptop", ("digits",), (0,), ("epochs=3", "one_shot.epochs=2"))
    runs = plan_runs(item, settings)[0]
    path = runs.path(tmp_path, 0)
    start_epoch = TrainingModule.on_train_epoch_start

    def stop(module):
        if module.current_epoch == 2:
            signal.raise_signal(signal.SIGINT)
        start_epoch(module)

    lines = []
    with monkeypatch.context() as patch:
        patch.setattr(TrainingModule, "on_train_epoch_start", stop)
        with pytest.raises(KeyboardInterrupt):
            Queue(tmp_path, progress=False, tell=lines.append).advance([runs])
    assert state_of(path) == "interrupted"
    first = Run.open(path).metrics[:2]
    assert [row["epoch"] for row in first] == [1, 2]

    queue = Queue(tmp_path, progress=False, tell=lines.append)
    assert queue.advance([runs])
    assert [line.rpartition(": ")[2] for line in lines] == ["train", "continue"]
    assert state_of(path) == "done"
    assert queue.report.trained == [f"{runs.name}/seed0"]
    assert Run.open(path).metrics[:2] == first
    assert len(Run.open(path).metrics) == 3


def test_list_and_wrong_arguments(run):
    assert "Example: cophenet reproduce" in run("--help")[1]
    code, out, _ = run("--list")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[1:4]] == ["data", "testcpcc", "coarse"]
    assert "Together, shared runs once: cifar10 " in out
    twice = run("rank", "scatter", "baselines", "--list")[1].splitlines()[-1]
    assert re.fullmatch(r"Together, shared runs once: cifar100 103 in \d+ min; 0 min to .*", twice)
    assert run("tables")[0] == 2
    assert run()[0] == 2
    assert run("rank", "--set", "epoch=1")[0] == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("synthetic", "--seeds", "2"), "--seeds 2 is for items that train: not for synthetic"),
        (("data", "--set", "epochs=1"), "--set epochs=1 is for items that train: not for data"),
        (
            ("batch-time", "--recipe", "digits"),
            "--recipe digits is for items that have data: not for batch-time",
        ),
    ],
)
def test_options_that_no_item_uses_are_refused(run, arguments, message):
    assert run("--list", *arguments) == (2, "", f"error: {message}\n")
