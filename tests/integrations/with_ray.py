"""Files of vectors on a local cluster of two workers, one of which is killed: `make integrations`."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from cophenet import HierarchicalEmbedder, Hierarchy
from cophenet.cli import app
from cophenet.integrations import RayModel

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.filterwarnings("ignore")

TREE = Hierarchy.from_paths([(f"group{c // 4}", f"class{c}") for c in range(12)])
ROWS, WIDTH = 10_000, 64


@pytest.fixture(scope="module", autouse=True)
def cluster():
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three files of vectors, their tree and a model."""
    folder = tmp_path_factory.mktemp("vectors")
    random = np.random.default_rng(0)
    centres = random.normal(size=(12, WIDTH)) + 2 * np.repeat(random.normal(size=(3, WIDTH)), 4, axis=0)

    def write(name, rows):
        labels = random.integers(0, 12, rows)
        features = (centres[labels] + random.normal(size=(rows, WIDTH))).astype(np.float32)
        np.savez(folder / name, features=features, labels=np.array(TREE.classes)[labels])
        return features, np.array(TREE.classes)[labels]

    TREE.write(folder / "tree.json")
    HierarchicalEmbedder(TREE, max_iter=3, random_state=0).fit(*write("train.npz", 600)).save(
        folder / "model"
    )
    for number in range(4):
        write(f"part{number}.npz", ROWS)
    return folder


class Killer(threading.Thread):
    """Kills one other process, the first that has a file open or mapped whose name has some words in it."""

    def __init__(self, words):
        super().__init__(daemon=True)
        self.words, self.killed, self.over = words, None, False

    def run(self):
        while self.killed is None and not self.over:
            for process in Path("/proc").glob("[0-9]*"):
                if self.killed is None and int(process.name) != os.getpid() and self.has_it(process):
                    os.kill(int(process.name), signal.SIGKILL)
                    self.killed = int(process.name)
            time.sleep(0.002)

    def has_it(self, process):
        try:
            if not (process / "cmdline").read_text().startswith("ray::"):
                return False
            links = [str(link.readlink()) for link in (process / "fd").iterdir()]
            return any(self.words in name for name in [*links, (process / "maps").read_text()])
        except OSError:
            return False


def run(*words, killing=None):
    """What a command prints, with a worker killed on the way."""
    killer = Killer(killing) if killing else None
    if killer:
        killer.start()
    done = CliRunner().invoke(app, [str(word) for word in words])
    if killer:
        killer.over = True
        killer.join()
        assert killer.killed is not None
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.parametrize("command", ["embed", "predict"])
def test_files_are_those_of_one_process_though_a_worker_is_killed(folder, command):
    parts, model = sorted(folder.glob("part*.npz")), folder / "model"
    local, cluster = folder / f"{command}-local", folder / f"{command}-ray"
    said = run(command, *parts, "--model", model, "-o", local)
    again = run(command, *parts, "--model", model, "-o", cluster, "--engine", "ray", killing=str(cluster))
    assert again.endswith(said.replace(str(local), str(cluster)))  # Ray tells of the worker before
    assert sorted(path.name for path in cluster.iterdir()) == [path.name for path in parts]
    for path in local.iterdir():
        with np.load(path) as one, np.load(cluster / path.name) as other:
            assert one.files == other.files
            for name in one.files:
                assert len(one[name]) == ROWS
                if one[name].dtype.kind == "f":
                    np.testing.assert_allclose(other[name], one[name], rtol=1e-4, atol=1e-5)
                else:
                    np.testing.assert_array_equal(other[name], one[name])


def test_numbers_are_those_of_one_process_though_a_worker_is_killed(folder):
    for number in range(2):
        with np.load(folder / f"part{number}.npz") as part:
            features, labels = part["features"], part["labels"]
        np.save(folder / f"part{number}_features.npy", features)
        np.save(folder / f"part{number}_labels.npy", [TREE.index(name) for name in labels.tolist()])
    files = [folder / f"part{number}_features.npy" for number in range(2)]
    words = ["measure", *files, "--tree", folder / "tree.json", "--train", folder / "train.npz"]
    said = run(*words)
    assert "fastft" in said
    assert "MAP" in said
    assert run(*words, "--engine", "ray", killing="part1_features.npy").endswith(said)


def test_a_file_that_cannot_be_read_is_named(folder):
    broken = folder / "broken.npz"
    broken.write_bytes(b"PK")
    words = ["embed", folder / "part0.npz", broken, "--model", folder / "model", "-o", folder / "some"]
    done = CliRunner().invoke(app, [str(word) for word in [*words, "--engine", "ray"]])
    assert isinstance(done.exception, ValueError)
    assert "broken.npz" in str(done.exception)
    assert [path.name for path in (folder / "some").iterdir()] == ["part0.npz"]


def test_a_model_in_a_pipeline_of_ones_own(folder):
    with np.load(folder / "part0.npz") as part:
        features = part["features"][:100]
    data = ray.data.from_numpy(features).rename_columns({"data": "features"})
    options = {"concurrency": 1, "batch_size": 40}
    model = HierarchicalEmbedder.load(folder / "model")
    said = data.map_batches(
        RayModel, fn_constructor_args=[folder / "model", "features", "argmax"], **options
    ).to_pandas()
    assert said["prediction"].tolist() == model.predict(features).tolist()
    vectors = data.map_batches(RayModel, fn_constructor_args=[folder / "model"], **options).take_all()
    reshaped = np.stack([row["features"] for row in vectors])
    np.testing.assert_allclose(reshaped, model.transform(features), rtol=1e-4, atol=1e-5)
