"""Files of a run folder that came from somewhere else: what is wrong is said with the file and the key."""

import io
import json
import zipfile

import pytest
import torch

from cophenet.cli import main
from cophenet.runs import Run, load_network
from cophenet.runs.checkpoints import read_checkpoint, write_checkpoint

from ..evaluation.runs import make_run
from ..report.made_runs import make_run as make_evaluated
from .small_runs import quick

MISTAKE = {"index": 0, "true": 1, "predicted": 1, "tree_distance": 1, "probability": 1}


@pytest.fixture
def evaluated(tmp_path):
    return make_evaluated(tmp_path / "run")


def change(path, **values):
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, **values}))


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("run.json", {"seed": "0"}, r"run.json: seed must be an integer, got '0'"),
        ("run.json", {"seed": -1}, r"run.json: seed must be .*0, got -1"),
        ("run.json", {"threads": 10**9}, r"run.json: threads must be .*65536"),
        ("run.json", {"data_dir": 3}, r"run.json: data_dir must be a string, got 3"),
        (
            "run.json",
            {"data_dir": "a\x1bb"},
            r"run.json: data_dir .*without control characters",
        ),
        ("run.json", {"input_shape": [0]}, r"run.json: input_shape.0 must be"),
        ("run.json", {"samples": []}, r"run.json: samples must be"),
        ("results.json", {"metrics": {"a": {"mean": "x"}}}, r"results.json: metrics.a"),
        ("results.json", {"metrics": [1]}, r"results.json: metrics must be"),
        ("results.json", {"levels": ["a\nb"]}, r"results.json: levels.0"),
        ("results.json", {"scale": "/etc/passwd"}, r"results.json: scale must be"),
        ("results.json", {"recipe": {"epochs": 1}}, r"results.json: recipe must be the settings"),
        (
            "results.json",
            {"recipe": {"objective": {"options": [1]}}},
            r"results.json: recipe must be",
        ),
        ("details.json", {"classes": ["x"]}, r"details.json: classes"),
        ("details.json", {"tree": {"names": ["r"]}}, r"details.json: tree lacks a key"),
        ("details.json", {"class_distances": {"l2": [1.0]}}, r"details.json: class_distances.l2 has 1 dist"),
        ("details.json", {"node_accuracy": {}}, r"details.json: node_accuracy has no node 0"),
        (
            "details.json",
            {
                "worst_mistakes": [
                    {"index": 0, "true": 1, "predicted": 1, "tree_distance": 1, "probability": 1}
                ]
            },
            r"details.json: worst_mistakes has one of class 1 as 1",
        ),
        ("details.json", {"confusion": [[0, 99, 1]]}, r"details.json: confusion has class 99"),
    ],
)
def test_wrong_values_are_refused_with_file_and_key(evaluated, name, values, message, capsys, tmp_path):
    change(evaluated / name, **values)
    with pytest.raises(SystemExit) as caught:
        main(["report", str(evaluated), "-o", str(tmp_path / "page.html")])
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    with pytest.raises(ValueError, match=message):
        raise ValueError(error)


@pytest.mark.parametrize("name", ["run.json", "results.json", "details.json"])
@pytest.mark.parametrize("content", [b"", b"[", b"[]", b"\xff", b"{" * 900, b'{"a":' * 100_000, b"{}"])
def test_damaged_documents_are_one_line(evaluated, name, content, capsys, tmp_path):
    (evaluated / name).write_bytes(content)
    with pytest.raises(SystemExit) as caught:
        main(["report", str(evaluated), "-o", str(tmp_path / "page.html")])
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert str(evaluated) in error


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"epoch,a/b\n1,2,3\n", "line 2 has more cells than there are columns"),
        (b"epoch,a\x1b/b\n1,2\n", "a column must be text without control characters"),
        (b"\xff", "line 1: not UTF-8 text"),
        (b'epoch,"a\n', "truncated, damaged or not a table of epochs"),
        (b"a\0", "metrics.csv: "),
        (b"x" * 200_000 + b"\n", "metrics.csv: "),
    ],
)
def test_damaged_metrics_are_refused_with_their_line(evaluated, content, message):
    (evaluated / "metrics.csv").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        _ = Run.open(evaluated).metrics


def test_a_checkpoint_is_no_bomb(tmp_path, monkeypatch):
    path = write_checkpoint(tmp_path, 1, {"state_dict": {"a": torch.zeros(100_000)}})
    packed = io.BytesIO()
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as new:
        for member in old.infolist():
            new.writestr(member.filename, old.read(member))
    path.write_bytes(packed.getvalue())
    monkeypatch.setenv("COPHENET_MAX_UNPACKED_BYTES", "1000")
    with pytest.raises(ValueError, match=r"checkpoint .*ckpt: .* unpack to more than .* \(limit; COPH"):
        read_checkpoint(path)


def test_a_checkpoint_of_another_network_is_refused_before_memory_is_taken(tmp_path):
    run = make_run(tmp_path / "run")
    recipe = run.path / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("hidden: [48]", "hidden: [100000000000]"))
    with pytest.raises(
        ValueError, match=r"ckpt does not fit the recipe of its run: backbone\S* has shape \(48, 8\)"
    ):
        load_network(Run.open(run.path))
    folder = run.path / "checkpoints"
    for state in (None, 3, {"network.a": "b"}, {"a": torch.ones(1)}):
        for old in folder.iterdir():
            old.unlink()
        write_checkpoint(folder, 1, {} if state is None else {"state_dict": state})
        with pytest.raises(ValueError, match="holds no tensors of a network"):
            load_network(Run.open(run.path))


def test_resuming_with_another_torch_says_so(tmp_path, capsys):
    run = quick(tmp_path / "run")
    change(run.path / "run.json", finished=False)
    versions = json.loads((run.path / "run.json").read_text())["versions"]
    change(run.path / "run.json", versions={**versions, "torch": "1.13.1"})
    (run.path / "recipe.yaml").write_text(
        (run.path / "recipe.yaml").read_text().replace("epochs: 2", "epochs: 3")
    )
    with pytest.raises(SystemExit) as caught:
        main(["train", "--resume", str(run.path), "--logger", "csv"])
    assert not caught.value.code
    assert f"the run began with torch 1.13.1, this is torch {torch.__version__}" in capsys.readouterr().out


def test_a_checkpoint_that_is_none_of_the_training_is_refused(tmp_path):
    from cophenet.runs import resume

    run = quick(tmp_path / "run")
    change(run.path / "run.json", finished=False)
    good = read_checkpoint(run.checkpoint())
    for content, message in (
        ({**good, "position": {"epoch": "1"}}, "does not say where the training left off"),
        ({**good, "position": {**good["position"], "epoch": 1}, "state_dict": {}}, "is not of this training"),
    ):
        for old in (run.path / "checkpoints").iterdir():
            old.unlink()
        write_checkpoint(run.path / "checkpoints", 1, content)
        with pytest.raises(ValueError, match=message) as caught:
            resume(run.path, progress=False, loggers=())
        assert "\n" not in str(caught.value)
