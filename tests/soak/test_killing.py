"""What the soak compares: files that are whole, without the times in them."""

import random
import uuid

from killing import Ended, Moment, different, half_written, left_over, read_files


def test_read_files_leaves_out_times_logs_and_what_is_not_whole(tmp_path):
    for folder in (tmp_path / "seed0", tmp_path / f".model.{uuid.uuid4().hex}.tmp"):
        folder.mkdir()
        (folder / "config.json").write_text(
            '{"seconds_per_epoch": [1.5], "runs": [{"seconds": 2, "seed": 3}]}'
        )
    (tmp_path / "seed0" / "metrics.csv").write_text("epoch,seconds,train/loss\n1,0.25,1.5\n")
    (tmp_path / "seed0" / "log.txt").write_text("begun at noon")
    (tmp_path / "seed0.lock").write_text("")
    page = tmp_path / f".page.html.{uuid.uuid4().hex}.tmp"
    page.write_text("<html")
    assert read_files(tmp_path) == {
        "seed0/config.json": b'{"runs": [{"seed": 3}]}',
        "seed0/metrics.csv": b"epoch,train/loss\n1,1.5",
    }
    assert f"{page.name} left over" in left_over(tmp_path)
    assert len(left_over(tmp_path)) == 2


def test_a_file_that_is_cut_off_lost_or_new_is_noticed():
    before, after = {"page": b"old"}, {"page": b"new one", "table": b"1"}
    for now in (before, after, {"page": b"old", "table": b"1"}):
        assert not half_written(before, after, now)
    assert half_written(before, after, {"page": b"new"}) == ["page"]
    assert half_written(before, after, {}) == ["page"]
    assert half_written(before, after, {**before, "spool": b""}) == ["spool"]
    assert different(after, {"page": b"new one"}) == ["table"]


def test_a_folder_is_old_or_new_as_a_whole():
    old, new = {"model/a": b"1", "model/b": b"1"}, {"model/a": b"2", "model/b": b"2"}
    for now in ({**old, "model/b": b"2"}, {"model/a": b"1"}, {}):
        assert half_written(old, new, now, ("model",)) == ["model"]
    assert not half_written(old, new, new, ("model",))


def test_moments_are_within_the_command_and_the_same_for_the_same_seed():
    whole = Ended(0, seconds=2.0, changes=3)
    moments = [Moment.draw(random.Random(seed), whole) for seed in range(50)]
    assert moments == [Moment.draw(random.Random(seed), whole) for seed in range(50)]
    assert {moment.change for moment in moments} == {None, 0, 1, 2}
    assert all(0 <= moment.seconds <= 2 for moment in moments if moment.seconds is not None)


def test_files_that_are_cut_off_are_compared_as_they_are(tmp_path):
    (tmp_path / "results.json").write_text('{"seconds": 1')
    (tmp_path / "metrics.csv").write_text("epoch,sec")
    assert read_files(tmp_path) == {"results.json": b'{"seconds": 1', "metrics.csv": b"epoch,sec"}
