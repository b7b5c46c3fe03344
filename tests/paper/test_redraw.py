"""Documents that rest on what is no longer there are drawn again, and never lose anything."""

import json
import shutil

import pytest

from cophenet.paper.documents import Document, without_folders, write_document
from cophenet.paper.items import find_items
from cophenet.paper.observations import Condition, Observation, Observations
from cophenet.paper.pipeline import reproduce
from cophenet.paper.plan import Settings, plan_runs

from .written import write_items, write_runs

SETTINGS = Settings("laptop", ("digits",), (0, 1))


@pytest.fixture(scope="module")
def rank(tmp_path_factory):
    """The document of the rank item, with its runs."""
    folder = tmp_path_factory.mktemp("rank")
    (item,) = find_items(("rank",))
    write_runs(plan_runs(item, SETTINGS), folder / "runs")
    write_items(["rank"], folder, SETTINGS)
    return folder


@pytest.fixture
def written(tmp_path, rank):
    """A copy of it, and a call that makes the document again."""
    shutil.copytree(rank, tmp_path, dirs_exist_ok=True)
    lines = []

    def call(settings=SETTINGS, **options):
        lines.clear()
        outcome = reproduce(
            ["rank"], tmp_path / "runs", tmp_path / "out", settings=settings, tell=lines.append, **options
        )
        return outcome.failed, lines

    return tmp_path, call


@pytest.mark.parametrize("lost", [1, 6])
def test_a_document_whose_runs_are_gone_is_drawn_from_itself(written, lost):
    folder, call = written
    before = {path: path.read_bytes() for path in (folder / "out").rglob("*") if path.is_file()}
    assert len(json.loads(before[folder / "out/rank/rank.json"])["runs"]) == 6
    for path in sorted((folder / "runs").glob("*/seed*"))[:lost]:
        shutil.rmtree(path)
    for path in before:
        if path.suffix in (".svg", ".tex", ".csv", ".md"):
            path.unlink()
    failed, lines = call(only_finished=True)
    assert failed == {}
    told = f"{lost} of its runs {'is' if lost == 1 else 'are'} not in {folder}/runs"
    assert f"rank: drawn from its document; {told}" in lines
    after = {path: path.read_bytes() for path in (folder / "out").rglob("*") if path.is_file()}
    assert after == before


def test_a_document_with_runs_elsewhere_is_drawn_whatever_the_options_are_now(written):
    folder, call = written
    before = (folder / "out/rank/rank.json").read_bytes()
    shutil.rmtree(folder / "runs")
    failed, _ = call(Settings("laptop"), only_finished=True)
    assert failed == {}
    assert (folder / "out/rank/rank.json").read_bytes() == before


def test_without_data_a_document_is_not_replaced_by_an_emptier_one(written):
    """Its runs would be trained again, but cannot be."""
    folder, call = written
    path = folder / "out/rank/rank.json"
    known = json.loads(path.read_text())
    known["recipes"] = []
    known["seeds"] = [0, 1]
    known["runs"] = [name.replace("digits", "cifar100") for name in known["runs"]]
    path.write_text(json.dumps(known))
    failed, lines = call(Settings("laptop", (), (0, 1)))
    assert failed == {}
    assert f"rank: drawn from its document; 6 of its runs are not in {folder}/runs" in lines
    assert json.loads(path.read_text()) == known
    # With other options it would be another document.
    failed, _ = call(Settings("laptop", (), (0,)))
    assert "give another -o" in failed["rank"]
    assert "`cophenet reproduce rank --scale laptop --seeds 0,1`" in failed["rank"]
    assert json.loads(path.read_text()) == known


def test_a_document_whose_runs_are_there_is_replaced(written):
    folder, call = written
    failed, _ = call(Settings("laptop", ("digits",), (0,)), only_finished=True)
    assert failed == {}
    assert len(json.loads((folder / "out/rank/rank.json").read_text())["runs"]) == 3


def test_a_document_of_another_format_is_not_replaced(written):
    folder, call = written
    path = folder / "out/rank/rank.json"
    path.write_text(json.dumps({**Document("rank").to_json(), "format": 1}))
    failed, _ = call(only_finished=True)
    assert failed == {"rank": f"{path} has format 1, this version reads 3: move it away, or give another -o"}
    assert json.loads(path.read_text())["format"] == 1


def test_sizes_of_data_that_is_not_here_are_kept(tmp_path):
    cifar10 = Condition("cifar10", "cifar10", "", comparable=True)
    counts = {"samples/train": 50_000.0, "samples/test": 10_000.0}
    rows = tuple(Observation(cifar10, None, *pair) for pair in counts.items())
    write_document(Document("data", observations=Observations((cifar10,), rows)), tmp_path)
    known = json.loads((tmp_path / "data/data.json").read_text())
    lines = []
    outcome = reproduce(["data"], tmp_path / "runs", tmp_path, only_finished=True, tell=lines.append)
    assert outcome.failed == {}
    assert "data: drawn from its document; not all of its data is here" in lines
    assert json.loads((tmp_path / "data/data.json").read_text()) == known
    assert "50,000" in (tmp_path / "data/data.md").read_text()


def test_a_study_of_an_older_document_is_not_measured_again(tmp_path):
    seconds = {"l2": [0.001], "emd": [0.01], "bures": [0.02], "bures, dense": [100.0]}
    settings = {"batch_size": 128, "classes": 100, "width": 512, "dense_pairs": 2}
    study = {"seconds": seconds, "settings": settings}
    (tmp_path / "batch-time").mkdir()
    path = tmp_path / "batch-time/batch-time.json"
    path.write_text(json.dumps({"format": 3, "item": "batch-time", "study": study}))
    outcome = reproduce(["batch-time"], tmp_path / "runs", tmp_path, tell=lambda _: None)
    assert outcome.failed == {}
    made = json.loads(path.read_text())
    assert made["study"] == study
    assert made["settings"] == made["recipes"] == []
    assert made["setup"] == {}
    assert "(batch-time/README.md)" in (tmp_path / "README.md").read_text()


def test_documents_name_no_folder_of_a_machine(written):
    folder, call = written
    path = next((folder / "runs").glob("digits-laptop-flat/seed0")) / "recipe.yaml"
    path.write_text(path.read_text().replace("lr: 0.05", "lr: 0.07"))
    (folder / "out/rank/rank.json").unlink()
    failed, _ = call(only_finished=True)
    assert str(folder) in failed["digits-laptop-flat/seed0"]
    missing = json.loads((folder / "out/rank/rank.json").read_text())["missing"]
    assert missing["digits-laptop-flat/seed0"].startswith("seed0 has other settings (optimizer.lr)")


def test_only_folders_are_taken_from_a_text():
    text = "see https://a.org/b/c and '/data/x y' or and/or runs/a/b"
    assert without_folders(text) == "see https://a.org/b/c and 'x y' or and/or runs/a/b"
