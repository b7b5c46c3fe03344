"""A format is added by one file: a class, registered, and every room reads and writes it."""

import json
from pathlib import Path

import numpy as np
import pytest

from cophenet import HierarchicalEmbedder, Hierarchy
from cophenet.cli import main
from cophenet.recipes import load_recipe
from cophenet.runs import Run, train
from cophenet.vectors import VectorFormat, formats, read_vectors, register_format

pytestmark = pytest.mark.usefixtures("json_lines")

TREE = Hierarchy.from_paths(["bird/owl", "bird/jay", "fish/cod", "fish/eel"], sep="/")
RNG = np.random.default_rng(0)
NAMES = np.repeat(TREE.classes, 20)
ROWS = np.repeat(4 * np.eye(4, 5), 20, axis=0) + RNG.normal(size=(80, 5))


@pytest.fixture
def json_lines(monkeypatch):
    """A line for each row, with the columns by name."""
    monkeypatch.setattr(formats._FORMATS, "_members", dict(formats._FORMATS.members()))

    @register_format
    class JsonLines(VectorFormat):
        extension = ".jsonl"
        mapped = True

        def read(self, path, rows, labelled):
            lines = [json.loads(line) for line in path.read_text().splitlines()]
            if labelled and not all("labels" in line for line in lines):
                raise ValueError("needs 'labels' in every line")
            for start in range(0, len(lines), rows or len(lines)):
                part = lines[start : start + (rows or len(lines))]
                labels = np.array([line["labels"] for line in part]) if "labels" in part[0] else None
                yield np.array([line["features"] for line in part]), labels

        def write(self, path, parts):
            with path.open("w") as stream:
                for columns in parts:
                    for row in zip(*(values.tolist() for values in columns.values()), strict=True):
                        print(json.dumps(dict(zip(columns, row, strict=True))), file=stream)

        def map(self, path, labelled, mode):
            _ = mode
            ((features, labels),) = self.read(path, None, labelled)
            return {"features": features, "labels": labels}


def write_lines(path, labels):
    rows = zip(ROWS.tolist(), labels, strict=True)
    path.write_text("\n".join(json.dumps({"features": row, "labels": label}) for row, label in rows))


def test_help_lists_formats_in_the_order_of_messages(monkeypatch):
    """Without names of entry points that are no extension, and without loading those that are."""
    others = dict.fromkeys((".arrow", "hdf", ".A", ".tar.gz"))
    monkeypatch.setitem(vars(formats._FORMATS), "_others", others)
    assert formats.format_list() == "npz, npy, safetensors, parquet, csv, arrow or jsonl"
    monkeypatch.setitem(vars(formats._FORMATS), "_others", {})
    with pytest.raises(ValueError, match=r"one of \.npz, \.npy, \.safetensors, \.parquet, \.csv, \.jsonl$"):
        formats.find_format(Path("birds.xls"))


def run(*arguments):
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    return end.value.code or 0


@pytest.fixture
def folder(tmp_path, monkeypatch):
    fit = HierarchicalEmbedder.fit
    monkeypatch.setattr(
        HierarchicalEmbedder, "fit", lambda self, *given: fit(self.set_params(max_iter=3), *given)
    )
    write_lines(tmp_path / "train.jsonl", NAMES.tolist())
    TREE.write(tmp_path / "tree.json")
    return tmp_path


def test_it_is_a_data_set_to_train_on(folder):
    pytest.importorskip("lightning")
    options = [
        "data.options.train=train.jsonl", "data.options.tree_file=tree.json", "objective.options={}",
        "epochs=1", "seeds=[0]",
    ]  # fmt: skip
    train(load_recipe("vectors", overrides=options), folder / "run", data_dir=folder, progress=False)
    run = Run.open(folder / "run")
    assert run.tree == TREE
    assert run.info["input_shape"] == [5]


def test_the_commands_embed_predict_and_search_read_and_write_it(folder, capsys):
    file, model = folder / "train.jsonl", folder / "model"
    options = ["--tree", folder / "tree.json", "--save", model]
    assert run("embed", file, *options, "-o", folder / "out.jsonl") == 0
    loaded = HierarchicalEmbedder.load(model)
    features, labels = read_vectors(folder / "out.jsonl")
    np.testing.assert_allclose(features, loaded.transform(ROWS), rtol=1e-5)
    assert labels == NAMES.tolist()
    assert run("predict", file, "--model", model, "-o", folder / "answers.jsonl") == 0
    answers = [json.loads(line) for line in (folder / "answers.jsonl").read_text().splitlines()]
    assert [answer["prediction"] for answer in answers] == loaded.predict(ROWS).tolist()
    assert run("search", file, "--model", model, "--index", file, "-k", 1, "-o", folder / "best.jsonl") == 0
    best = [json.loads(line) for line in (folder / "best.jsonl").read_text().splitlines()]
    assert [answer["row"] for answer in best] == list(range(len(ROWS)))
    capsys.readouterr()


def test_the_command_measure_maps_it(folder, capsys):
    positions = [TREE.index(name) for name in NAMES]
    write_lines(folder / "test.jsonl", positions)
    np.save(folder / "features.npy", ROWS)
    np.save(folder / "labels.npy", positions)
    printed = []
    for name in ("test.jsonl", "features.npy"):
        assert run("measure", folder / name, "--tree", folder / "tree.json") == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1] != ""


def test_it_is_in_the_lists_of_errors():
    with pytest.raises(ValueError, match=r"must be one of .npz, .npy, .safetensors, .parquet, .csv, .jsonl"):
        read_vectors(Path("a.xls"))


def test_an_extension_has_one_format():
    with pytest.raises(ValueError, match=r"format named '.jsonl' exists already"):
        register_format(type("Other", (VectorFormat,), {"extension": ".jsonl"}))
