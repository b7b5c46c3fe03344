"""Saved models, ONNX files, and trained runs."""

import itertools
import json

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from safetensors.torch import load_file, save_file

from cophenet import HierarchicalEmbedder
from estimator.vectors import TREE, clouds
from support import killed_at

ROWS, NAMES = clouds(width=3)
ROWS = ROWS.astype(np.float32)
QUICK = {"max_iter": 20, "hidden_size": 16, "random_state": 0}


@pytest.fixture(scope="module")
def fitted():
    return HierarchicalEmbedder(TREE, error_target=0.2, **QUICK).fit(ROWS, NAMES).build_index(ROWS, NAMES)


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
    # Fitted on vectors, it takes inputs of the run no longer.
    embedder.set_params(objective="auto", tree=None, max_iter=1).fit(np.eye(40), labels)
    assert embedder.predict(np.eye(40)).shape == (40,)
