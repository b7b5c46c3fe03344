"""Saved models, ONNX files, trained runs, and the commands on files of vectors."""

import itertools
import json

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from safetensors.torch import load_file, save_file

from cophenet import HierarchicalEmbedder, Hierarchy
from cophenet.cli import main
from cophenet.estimator.comparison import METHODS
from cophenet.vectors import read_vectors
from estimator.vectors import TREE, clouds
from support import killed_at

ROWS, NAMES = clouds(width=3)
ROWS = ROWS.astype(np.float32)
QUICK = {"max_iter": 20, "hidden_size": 16, "random_state": 0}


@pytest.fixture(scope="module")
def fitted():
    return HierarchicalEmbedder(TREE, error_target=0.2, **QUICK).fit(ROWS, NAMES).build_index(ROWS, NAMES)


@pytest.fixture
def one_epoch(monkeypatch):
    """The estimator fits for one epoch."""
    fit = HierarchicalEmbedder.fit
    monkeypatch.setattr(
        HierarchicalEmbedder, "fit", lambda self, *data: fit(self.set_params(max_iter=1), *data)
    )


def run(*arguments):
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    return end.value.code


def test_a_saved_model_is_the_same(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    fitted.save(tmp_path / "model")
    assert {file.name for file in tmp_path.rglob("*")} == {
        "model", "model.safetensors", "tree.json", "given_tree.json", "config.json"
    }  # fmt: skip
    loaded = HierarchicalEmbedder.load(tmp_path / "model")
    assert_array_equal(loaded.transform(ROWS), fitted.transform(ROWS))
    for decision in ("argmax", "expected-cost", "specific-if-confident"):
        assert_array_equal(loaded.predict(ROWS, decision), fitted.predict(ROWS, decision))
    assert_array_equal(loaded.search(ROWS, 3).rows, fitted.search(ROWS, 3).rows)
    assert loaded.get_params()["error_target"] == 0.2
    assert loaded.classes_.dtype == fitted.classes_.dtype
    assert loaded.decision_report_ == fitted.decision_report_


def test_a_killed_save_leaves_a_model(fitted, tmp_path):
    """At every moment the old or the new one can be loaded."""
    other = HierarchicalEmbedder(TREE, n_components=2, **QUICK).fit(ROWS, NAMES)
    path, seen = tmp_path / "model", []
    for step in itertools.count():
        other.save(path)
        killed = killed_at(step, lambda: fitted.save(path))
        seen.append(HierarchicalEmbedder.load(path).n_components)
        if not killed:
            break
    assert seen[0] == other.n_components
    assert seen[-1] == fitted.n_components
    assert set(seen) == {other.n_components, fitted.n_components}


@pytest.mark.parametrize("place", [0.3, 0.9])
def test_a_changed_byte_of_a_saved_model_is_noticed(fitted, tmp_path, place):
    fitted.save(tmp_path / "model")
    file = tmp_path / "model" / "model.safetensors"
    data = bytearray(file.read_bytes())
    header = 8 + int.from_bytes(data[:8], "little")
    data[int(header + place * (len(data) - header))] ^= 1
    file.write_bytes(data)
    with pytest.raises(ValueError, match=r"damaged .*bytes have changed since it was written"):
        HierarchicalEmbedder.load(tmp_path / "model")


@pytest.mark.parametrize(
    "options",
    [
        {"n_components": 2},
        {"hidden_size": 0},
        {"n_components": 5, "objective": "fastft"},
        {"hidden_size": 0, "objective": "l2"},
    ],
)
def test_other_shapes_are_saved_and_exported(options, tmp_path):
    pytest.importorskip("onnxruntime")
    embedder = HierarchicalEmbedder(TREE, **{**QUICK, **options}).fit(ROWS, NAMES)
    embedder.save(tmp_path / "model")
    loaded = HierarchicalEmbedder.load(tmp_path / "model")
    assert_array_equal(loaded.transform(ROWS), embedder.transform(ROWS))
    loaded.to_onnx(tmp_path / "model.onnx")


def test_what_cannot_be_loaded_is_reported(fitted, tmp_path):
    with pytest.raises(ValueError, match=r"config.json is missing"):
        HierarchicalEmbedder.load(tmp_path)
    fitted.save(tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({**config, "format": 4}))
    with pytest.raises(ValueError, match=r"format 4, but this version reads format 3; .*update cophenet"):
        HierarchicalEmbedder.load(tmp_path / "model")
    path.write_text(json.dumps(config))
    (tmp_path / "model" / "model.safetensors").write_bytes(b"cut off")
    with pytest.raises(ValueError, match="damaged or incomplete"):
        HierarchicalEmbedder.load(tmp_path / "model")


@pytest.mark.parametrize(
    ("config", "other"),
    [
        (None, "notes.txt"),
        ({"format": 1, "model_type": "bert"}, None),
        ({"format": 1, "cophenet": "1"}, "my.txt"),
        ([], None),
    ],
)
def test_what_is_no_saved_model_is_never_replaced(fitted, tmp_path, config, other):
    folder = tmp_path / "there"
    folder.mkdir()
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config))
    if other is not None:
        (folder / other).write_text("mine")
    before = sorted(folder.iterdir())
    with pytest.raises(ValueError, match="exists and is no saved model"):
        fitted.save(folder)
    assert sorted(folder.iterdir()) == before


def _tensor(name, change):
    def apply(folder):
        tensors = load_file(folder / "model.safetensors")
        tensors[name] = change(tensors[name])
        save_file(tensors, folder / "model.safetensors")

    return apply


def _config(**values):
    def apply(folder):
        path = folder / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **values}))

    return apply


def _parameter(**values):
    def apply(folder):
        path = folder / "config.json"
        config = json.loads(path.read_text())
        path.write_text(json.dumps({**config, "params": {**config["params"], **values}}))

    return apply


DAMAGES = {
    "long text": (_config(classes_dtype="<U100000000"), r"text of more than 1000 letters \(limit\)"),
    "bytes": (_config(classes_dtype="|S1000000000"), "text of more than 1000 letters"),
    "huge network": (_parameter(hidden_size=10**12), "model.safetensors has tensors .*, config.json needs"),
    "deep": (
        lambda folder: (folder / "config.json").write_text("[" * 10**5),
        "nested deeper than 500 levels",
    ),
    "type": (_config(params=[1]), "damaged or incomplete"),
    "fewer classes": (_config(classes=["bus", "cat", "husky", "poodle"]), "damaged"),
    "twice a class": (_config(classes=["bus", "bus", "husky", "poodle", "van"]), "other classes"),
    "other order": (_config(classes=["cat", "bus", "husky", "poodle", "van"]), "other classes"),
    "other name": (_config(classes=["bus", "cow", "husky", "poodle", "van"]), "other classes"),
    "format": (_config(format=True), "format True"),
    "deviation": (_tensor("scale.deviation", lambda x: x[:2].clone()), "shape"),
    "zero": (_tensor("scale.deviation", lambda x: x * 0), "positive"),
    "node": (_tensor("index.nodes", lambda x: x + 100), "nodes of the index"),
    "nodes": (_tensor("index.nodes", lambda x: x[:-1].clone()), "vectors"),
    "no given tree": (lambda folder: (folder / "given_tree.json").unlink(), "given_tree.json"),
}


@pytest.mark.parametrize("case", DAMAGES)
def test_parts_that_do_not_belong_together_are_refused(fitted, tmp_path, case):
    change, message = DAMAGES[case]
    fitted.save(tmp_path / "model")
    change(tmp_path / "model")
    with pytest.raises(ValueError, match=message):
        HierarchicalEmbedder.load(tmp_path / "model")


def test_a_loaded_model_fits_as_the_original(tmp_path):
    some = np.isin(NAMES, ["cat", "husky", "van"])
    options = {
        **QUICK,
        "random_state": np.int64(3),
        "error_target": np.float32(0.25),
        "device": torch.device("cpu"),
    }
    one = HierarchicalEmbedder(TREE, **options).fit(ROWS[some], NAMES[some])
    one.save(tmp_path / "model")
    other = HierarchicalEmbedder.load(tmp_path / "model")
    assert other.random_state == 3
    assert_array_equal(other.fit(ROWS, NAMES).transform(ROWS), one.fit(ROWS, NAMES).transform(ROWS))


def test_numbers_as_classes_come_back(tmp_path):
    codes = np.array([TREE.index(name) for name in NAMES])
    kept = codes != 1
    one = HierarchicalEmbedder(TREE, labels="positions", **QUICK).fit(ROWS[kept], codes[kept])
    one.save(tmp_path / "model")
    other = HierarchicalEmbedder.load(tmp_path / "model")
    assert_array_equal(other.classes_, [0, 2, 3, 4])
    inferred = HierarchicalEmbedder(**QUICK).fit(ROWS, codes * 1.0)
    inferred.save(tmp_path / "model")
    assert HierarchicalEmbedder.load(tmp_path / "model").get_params()["tree"] is None


def test_a_model_of_a_missing_device_is_loaded_on_the_cpu(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    path = tmp_path / "model" / "config.json"
    config = json.loads(path.read_text())
    config["params"]["device"] = "cuda:99"
    path.write_text(json.dumps(config))
    with pytest.warns(UserWarning, match=r"loaded on the cpu: .*'cuda:99'"):
        loaded = HierarchicalEmbedder.load(tmp_path / "model")
    assert loaded.device == "cpu"
    moved = HierarchicalEmbedder.load(tmp_path / "model", device="cpu")
    assert_array_equal(moved.predict(ROWS), fitted.predict(ROWS))
    with pytest.raises(ValueError, match=r"^device must be .*'foo'"):
        HierarchicalEmbedder.load(tmp_path / "model", device="foo")


def test_onnx_computes_the_same(fitted, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    fitted.to_onnx(tmp_path / "model.onnx")
    session = runtime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    embedding, probabilities = session.run(["embedding", "probabilities"], {"vectors": ROWS})
    assert_allclose(embedding, fitted.transform(ROWS), atol=1e-4)
    assert_allclose(probabilities, fitted.predict_proba(ROWS), atol=1e-5)


def test_a_large_offset_is_exported(tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    rows = (ROWS + 1e5).astype(np.float32)
    embedder = HierarchicalEmbedder(TREE, **QUICK).fit(rows, NAMES)
    embedder.to_onnx(tmp_path / "model.onnx")
    session = runtime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    assert_allclose(session.run(["embedding"], {"vectors": rows})[0], embedder.transform(rows), atol=1e-4)


def test_a_wrong_onnx_file_does_not_take_its_place(fitted, tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime")
    monkeypatch.setattr(HierarchicalEmbedder, "_embed", lambda _, rows: np.ones((len(rows), 64)))
    with pytest.raises(RuntimeError, match="computes another embedding"):
        fitted.to_onnx(tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []


def test_embed_predict_and_search_from_a_shell(tmp_path, capsys):
    np.savez(tmp_path / "train.npz", features=ROWS, labels=NAMES)
    np.save(tmp_path / "new.npy", ROWS[:5])
    TREE.write(tmp_path / "tree.json")
    model = tmp_path / "model"
    code = run(
        "embed", tmp_path / "train.npz", "--tree", tmp_path / "tree.json", "--save", model,
        "-o", tmp_path / "out.parquet",
    )  # fmt: skip
    assert code == 0
    loaded = HierarchicalEmbedder.load(model)
    printed = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line[:2] for line in printed[-6:]] == [
        ["metric", "of"], ["accuracy", "kind"], ["accuracy", "group"], ["accuracy", "breed"],
        ["CPCC", "given"], ["CPCC", "reshaped"],
    ]  # fmt: skip
    assert float(printed[-1][2]) > float(printed[-2][2])
    # What embed writes, measure reads.
    measured = ["measure", tmp_path / "out.parquet", "--tree", tmp_path / "tree.json", "--distance", "l2"]
    assert run(*measured) == 0
    assert capsys.readouterr().out.splitlines()[-1].split() == ["CPCC", "l2", printed[-1][2]]
    features, labels = read_vectors(tmp_path / "out.parquet")
    assert_allclose(features, loaded.transform(ROWS), rtol=1e-5)
    assert labels == NAMES.tolist()
    assert run("embed", tmp_path / "new.npy", "--model", model, "-o", tmp_path / "new.csv") == 0
    assert "CPCC" not in capsys.readouterr().out  # there are no labels
    np.savez(tmp_path / "known.npz", features=ROWS[:40], labels=NAMES[:40])
    assert run("embed", tmp_path / "known.npz", "--model", model, "-o", tmp_path / "known.csv") == 0
    rate = capsys.readouterr().out.splitlines()[-3].split()
    assert rate[:2] == ["accuracy", "breed"]
    assert float(rate[2]) == pytest.approx(loaded.score(ROWS[:40], NAMES[:40]), abs=1e-4)
    assert run("predict", tmp_path / "new.npy", "--model", model, "-o", tmp_path / "answers.npz") == 0
    with np.load(tmp_path / "answers.npz") as answers:
        assert answers["prediction"].tolist() == loaded.predict(ROWS[:5]).tolist()
        assert_allclose(answers["probability"], loaded.predict_proba(ROWS[:5]).max(1), rtol=1e-5)
    found = tmp_path / "found.csv"
    gallery = ["--model", model, "--index", tmp_path / "train.npz", "-k", 3, "--level", "kind"]
    assert run("search", tmp_path / "new.npy", *gallery, "-o", found) == 0
    lines = found.read_text().splitlines()
    assert lines[0] == "row,query,rank,similarity,node,group"
    assert len(lines) == 16
    assert lines[1].startswith("0,0,1,")
    capsys.readouterr()
    assert run("search", tmp_path / "new.npy", *gallery) == 0
    assert "query 4\n" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore:all pairs of classes")
@pytest.mark.usefixtures("one_epoch")
def test_a_comparison_without_groups_has_no_cpcc(tmp_path, capsys):
    np.savez(tmp_path / "train.npz", features=ROWS, labels=NAMES)
    Hierarchy.from_paths([(name,) for name in TREE.classes]).write(tmp_path / "flat.json")
    assert run("embed", tmp_path / "train.npz", "--tree", tmp_path / "flat.json", "--compare") == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split()[-1] == "CPCC"
    assert {row.split()[-1] for row in rows} == {"-"}


@pytest.mark.usefixtures("one_epoch")
def test_compare_prints_what_the_tree_gives(tmp_path, capsys):
    np.savez(tmp_path / "train.npz", features=ROWS, labels=NAMES)
    TREE.write(tmp_path / "tree.json")
    assert run("embed", tmp_path / "train.npz", "--compare") == 2
    assert run("embed", tmp_path / "train.npz", "--tree", tmp_path / "tree.json") == 2
    capsys.readouterr()
    assert run("embed", tmp_path / "train.npz", "--tree", tmp_path / "tree.json", "--compare") == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert [row.split("  ")[0] for row in rows[-5:]] == list(METHODS)
    assert "accuracy kind" in header
    assert "MAP breed" in header
    assert sorted(file.name for file in tmp_path.iterdir()) == ["train.npz", "tree.json"]


def test_errors_in_a_shell_are_one_line(tmp_path, capsys):
    np.save(tmp_path / "new.npy", ROWS[:5])
    assert run("embed", tmp_path / "new.npy", "-o", tmp_path / "out.npz") == 2
    assert "has no labels to fit on" in capsys.readouterr().err
    assert run("embed", tmp_path / "new.npy", "-o", tmp_path / "out.txt") == 2
    assert run("predict", tmp_path / "new.npy", "--model", tmp_path, "-o", tmp_path / "out.csv") == 2
    assert capsys.readouterr().err.count("\n") == 2
    assert sorted(file.name for file in tmp_path.iterdir()) == ["new.npy"]


EMBED, SEARCH = "embed {} -o o.npz", "search good.npz --model model {}"
PREDICT = "predict good.npz --model model -o o.csv {}"
SURE = f"{PREDICT} --decision specific-if-confident"


@pytest.mark.parametrize(
    ("command", "options", "message"),
    [
        (EMBED, "cow.npz --tree tree.yaml", "cow.npz: has labels that are not in the tree: ['cow']"),
        (EMBED, "one.npz --tree tree.yaml", "one.npz: has labels of one class only, 'cat'"),
        (EMBED, "good.npz --tree-strength 3", "--tree-strength must be a number from 0 to 1"),
        (EMBED, "good.npz --objective l3", "--objective must be one of"),
        (PREDICT, "--decision sure", "--decision must be one of"),
        (
            f"{PREDICT} --decision specific-if-confident",
            "--error-target 2",
            "--error-target must lie between",
        ),
        (
            f"{PREDICT} --decision specific-if-confident",
            "--error-target 0.001",
            "--error-target 0.001 cannot",
        ),
        (SEARCH, "-k 999", "-k must be at most 120"),
        (SEARCH, "--level 9", "--level must be a depth from 1 to 3"),
        (SEARCH, "--index good.npz --backend x", "--backend must be one of"),
    ],
)
def test_errors_in_a_shell_speak_of_options(fitted, tmp_path, capsys, monkeypatch, command, options, message):
    monkeypatch.chdir(tmp_path)
    TREE.write("tree.yaml")
    fitted.save("model")
    np.savez("good.npz", features=ROWS, labels=NAMES)
    np.savez("cow.npz", features=ROWS, labels=np.where(NAMES == "cat", "cow", NAMES))
    np.savez("one.npz", features=ROWS, labels=np.full(len(ROWS), "cat"))
    assert run(*command.format(options).split()) == 2
    assert message in capsys.readouterr().err


@pytest.mark.usefixtures("one_epoch")
def test_names_in_safetensors_are_written_read_and_measured(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    TREE.write("tree.yaml")
    np.savez("train.npz", features=ROWS, labels=NAMES)
    assert run("embed", "train.npz", "--tree", "tree.yaml", "-o", "out.safetensors") == 0
    assert read_vectors("out.safetensors")[1] == NAMES.tolist()
    capsys.readouterr()
    assert run("measure", "out.safetensors", "--tree", "tree.yaml") == 0
    assert "CPCC" in capsys.readouterr().out
    assert run("embed", "out.safetensors", "--tree", "tree.yaml", "-o", "again.npz") == 0


PERMUTED = Hierarchy.from_paths(["pet/dog/4", "pet/dog/3", "pet/2", "car/1", "car/0"], sep="/")
CODES = np.array([TREE.index(name) for name in NAMES])


def embed_and_read(tmp_path, file, tree, *options):
    """The fitted model, or the exit code of a failure."""
    tree.write(tmp_path / "tree.json")
    code = run(
        "embed", file, "--tree", tmp_path / "tree.json", "--save", tmp_path / "model",
        "-o", tmp_path / "out.npz", *options,
    )  # fmt: skip
    return code or HierarchicalEmbedder.load(tmp_path / "model")


@pytest.mark.usefixtures("one_epoch")
def test_numbers_in_a_file_are_names_or_positions_but_never_guessed(tmp_path, capsys, monkeypatch):
    given, fit = [], HierarchicalEmbedder.fit

    def noting(self, rows, labels):
        given.append((rows.dtype, labels.tolist()))
        return fit(self, rows, labels)

    monkeypatch.setattr(HierarchicalEmbedder, "fit", noting)
    plain, run_file = tmp_path / "plain.npz", tmp_path / "run.safetensors"
    np.savez(plain, features=ROWS, labels=CODES)
    tensors = {"features": torch.from_numpy(ROWS), "labels": torch.from_numpy(CODES)}
    save_file({**tensors, "logits": torch.zeros(len(ROWS), 5)}, run_file)
    # No name is a number: these are positions.
    embed_and_read(tmp_path, plain, TREE)
    assert given.pop()[1] == NAMES.tolist()
    # Names are a permutation of positions: the file of a run has positions, of others it must be said.
    embed_and_read(tmp_path, run_file, PERMUTED)
    assert given.pop()[1] == (4 - CODES).astype(str).tolist()
    capsys.readouterr()
    assert embed_and_read(tmp_path, plain, PERMUTED) == 2
    assert "may be names or positions: say which with --labels" in capsys.readouterr().err
    embed_and_read(tmp_path, plain, PERMUTED, "--labels", "names")
    assert given.pop()[1] == CODES.astype(str).tolist()
    model = embed_and_read(tmp_path, plain, PERMUTED, "--labels", "positions")
    assert given.pop()[1] == (4 - CODES).astype(str).tolist()
    # The same when searching.
    found = ["search", plain, "--model", tmp_path / "model", "--index", plain, "-k", 1, "--level", 1]
    assert run(*found) == 2
    capsys.readouterr()
    assert run(*found, "--labels", "positions", "-o", tmp_path / "found.csv") == 0
    groups = [line.split(",")[-1] for line in (tmp_path / "found.csv").read_text().splitlines()[1:]]
    names = [PERMUTED.path(PERMUTED.leaves[code])[0] for code in CODES]
    assert groups == names
    assert model.classes_.tolist() == ["0", "1", "2", "3", "4"]
    assert embed_and_read(tmp_path, plain, TREE, "--labels", "numbers") == 2


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("out.npy", "needs 'features' in its name"),
        ("none/out.npz", "there is no folder"),
    ],
)
def test_a_wrong_output_is_reported_before_the_work(tmp_path, output, message, capsys, monkeypatch):
    monkeypatch.setattr(HierarchicalEmbedder, "fit", lambda *_: pytest.fail("has begun"))
    np.savez(tmp_path / "train.npz", features=ROWS, labels=NAMES)
    assert run("embed", tmp_path / "train.npz", "-o", tmp_path / output) == 2
    assert message in capsys.readouterr().err
    (tmp_path / "notes").mkdir()
    assert run("embed", tmp_path / "train.npz", "--save", tmp_path / "notes", "-o", tmp_path / "o.npz") == 2
    assert "is no saved model" in capsys.readouterr().err


def test_a_target_without_its_decision_is_refused_in_a_shell(fitted, tmp_path, capsys):
    fitted.save(tmp_path / "model")
    np.save(tmp_path / "new.npy", ROWS[:5])
    options = ["--model", tmp_path / "model", "-o", tmp_path / "out.csv", "--error-target", 0.5]
    assert run("predict", tmp_path / "new.npy", *options) == 2
    assert "error: --error-target is for decision" in capsys.readouterr().err


def test_a_trained_run_behind_the_estimator(tmp_path):
    pytest.importorskip("lightning")
    from cophenet.data import create_source
    from cophenet.recipes import load_recipe
    from cophenet.runs import train

    recipe = load_recipe("digits", scale="laptop", overrides=["epochs=1", "seeds=[0]"])
    train(recipe, tmp_path / "run", progress=False)
    embedder = HierarchicalEmbedder.from_run(tmp_path / "run")
    samples = create_source("digits").load(None).samples("test", recipe.data.domain)
    images, labels = samples.take(np.arange(40))[0], samples.labels[:40]
    assert embedder.score(images, np.array(samples.tree.classes)[labels]) > 0.3
    assert embedder.transform(images.flatten(1)).shape == (40, embedder._n_features_out)
    with pytest.raises(ValueError, match="saved by its run folder"):
        embedder.save(tmp_path / "model")
