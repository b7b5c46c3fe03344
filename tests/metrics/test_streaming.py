import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cophenet import Hierarchy, class_distances, cpcc
from cophenet._common import progress
from cophenet.metrics import class_prototypes, level_accuracy, prototype_map
from cophenet.metrics.streaming import (
    FeatureShards,
    distances,
    scores,
    stream_accuracy,
    stream_cpcc,
    stream_distances,
    stream_map,
    stream_prototypes,
)
from metrics.streaming_rank import measure
from ranks import process_group
from support import greedy_cost, pair_loop

TREE = Hierarchy.from_paths([(f"p{c // 2}", f"c{c}") for c in range(6)])


def problem(sizes=(7, 1, 12, 5, 40, 9), width=4, dtype=torch.float32, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    centres = rng.normal(size=(len(sizes), width)) * 2
    features = centres[labels] + rng.normal(size=(len(labels), width))
    return torch.tensor(features).to(dtype), torch.tensor(labels)


def sharded(features, labels, cuts=(11, 30)):
    return FeatureShards(torch.tensor_split(features, cuts), labels)


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks and slices so small that there are many of them."""
    monkeypatch.setattr(scores, "_BLOCK_NUMBERS", 40)
    monkeypatch.setattr(distances, "_SLICE_NUMBERS", 30)
    monkeypatch.setattr(distances, "_LEAST_SAMPLES", 1)


@pytest.fixture(params=["numba", "torch"])
def way(request, monkeypatch):
    if request.param == "torch":
        monkeypatch.setattr(distances, "find_spec", lambda _: None)
    else:
        pytest.importorskip("numba")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("distance", ["l2", "fastft"])
@pytest.mark.usefixtures("small_blocks", "way")
def test_distances_are_those_of_memory(distance, dtype):
    features, labels = problem(dtype=dtype)
    classes, rho = stream_distances(sharded(features, labels), distance)
    expected_classes, expected = class_distances(features, labels, distance)
    assert torch.equal(classes, expected_classes)
    assert rho.dtype == expected.dtype
    tolerance = 1e-12 if dtype == torch.float64 else 2e-6
    torch.testing.assert_close(rho, expected, rtol=tolerance, atol=0)


@given(
    st.lists(st.integers(1, 30), min_size=2, max_size=5), st.integers(1, 40), st.integers(0, 5), st.booleans()
)
@settings(max_examples=40, deadline=None)
def test_slices_of_any_size_give_the_greedy_plan(sizes, numbers, seed, compiled):
    features, labels = problem(sizes, width=2, dtype=torch.float64, seed=seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distances, "_SLICE_NUMBERS", 2 * numbers)
        patch.setattr(distances, "_LEAST_SAMPLES", 0)
        if not compiled:
            patch.setattr(distances, "find_spec", lambda _: None)
        _, rho = stream_distances(sharded(features, labels, (3,)), "fastft")
    torch.testing.assert_close(rho, pair_loop(features, labels, greedy_cost), rtol=1e-10, atol=1e-12)


def test_every_sample_is_read_about_once(monkeypatch):
    monkeypatch.setattr(distances, "_SLICE_NUMBERS", 4 * 200)
    read = []
    take = FeatureShards.take
    monkeypatch.setattr(FeatureShards, "take", lambda self, rows: read.append(len(rows)) or take(self, rows))
    features, labels = problem((400, 700, 900))
    stream_distances(sharded(features, labels), "fastft")
    assert len(read) == 10
    assert max(read) <= 200 + 2 * 3  # what is held at once does not grow with N
    assert 2000 <= sum(read) <= 2000 + 2 * 3 * 10


@pytest.mark.parametrize("level", [None, 2])
@pytest.mark.parametrize("distance", ["l2", "fastft"])
@pytest.mark.usefixtures("small_blocks")
def test_cpcc_and_levels(distance, level):
    features, labels = problem()
    deep = Hierarchy.from_paths([(f"g{c // 4}", f"p{c // 2}", f"c{c}") for c in range(6)])
    tree, grouped = deep, labels
    if level is not None:
        tree, ancestors = deep.cut(level)
        grouped = torch.tensor(ancestors)[labels]
    _, rho = class_distances(features, grouped, distance)
    value = stream_cpcc(sharded(features, labels), deep, distance, level=level)
    torch.testing.assert_close(value, cpcc(rho, tree.condensed()).double(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("known", [None, torch.tensor([4, 0, 9, 2])])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
@pytest.mark.usefixtures("small_blocks")
def test_retrieval_is_that_of_memory(known, dtype):
    features, labels = problem(dtype=dtype)
    features[3] = 0
    features[12:15] = features[12]  # equal scores
    train, train_labels = problem(seed=1)
    classes, prototypes = stream_prototypes(sharded(train, train_labels))
    expected_classes, expected = class_prototypes(train, train_labels)
    assert torch.equal(classes, expected_classes)
    torch.testing.assert_close(prototypes, expected, rtol=1e-6, atol=1e-7)
    if known is not None:
        classes, prototypes = known, expected[: len(known)]
    value = stream_map(sharded(features, labels), prototypes, classes)
    torch.testing.assert_close(value, prototype_map(features, labels, prototypes, classes))


def test_retrieval_without_a_common_class_is_undefined():
    features, labels = problem()
    with pytest.warns(RuntimeWarning, match="prototype MAP is undefined"):
        assert stream_map(sharded(features, labels), torch.eye(4)[:1], torch.tensor([77])).isnan()


@pytest.mark.parametrize("by", ["sum", "argmax"])
@pytest.mark.usefixtures("small_blocks")
def test_accuracy_from_a_head_and_from_logits(by):
    features, labels = problem()
    head = torch.nn.Linear(4, 6)
    logits = head(features).detach()
    given = FeatureShards([features[:9], features[9:]], labels, [logits[:9], logits[9:]])
    expected = level_accuracy(logits.softmax(1) if by == "sum" else logits, labels, TREE, by)
    assert stream_accuracy(given, TREE, by=by) == expected
    assert stream_accuracy(sharded(features, labels), TREE, head, by=by) == expected
    with pytest.raises(ValueError, match="shards have no logits; give head="):
        stream_accuracy(sharded(features, labels), TREE)


def write(folder, kind, dtype=torch.float16, parts=2):
    features, labels = problem(dtype=dtype)
    logits = torch.randn(len(labels), 6)
    arrays = {"features": features, "labels": labels, "logits": logits}
    paths = []
    for number in range(parts):
        own = {name: torch.tensor_split(a, parts)[number].clone() for name, a in arrays.items()}
        if kind == "npy":
            for name, values in own.items():
                np.save(folder / f"part{number}-{name}.npy", values.numpy())
            paths.append(folder / f"part{number}-features.npy")
        else:
            safetensors = pytest.importorskip("safetensors.torch")
            paths.append(folder / f"part{number}.safetensors")
            safetensors.save_file(own, paths[-1])
    return paths, arrays


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [("npy", torch.float16), ("safetensors", torch.float16), ("safetensors", torch.bfloat16)],
)
def test_files_are_mapped_as_they_were_written(tmp_path, kind, dtype):
    paths, arrays = write(tmp_path, kind, dtype)
    shards = FeatureShards.open(paths)
    assert [values.dtype for values in shards.features] == [dtype] * 2
    assert torch.equal(torch.cat(list(shards.features)), arrays["features"])
    assert torch.equal(torch.cat(list(shards.logits)), arrays["logits"])
    assert torch.equal(shards.labels, arrays["labels"])
    rows = torch.randperm(len(shards))[:20]
    assert torch.equal(shards.take(rows), arrays["features"][rows].float())
    one = FeatureShards.open(str(paths[0]))
    assert torch.equal(one.take(torch.tensor([3, 1])), arrays["features"][[3, 1]].float())


@pytest.mark.parametrize("damage", ["truncated", "header", "text"])
def test_damaged_files_are_one_sentence(tmp_path, damage):
    (path, *_), _ = write(tmp_path, "safetensors")
    raw = path.read_bytes()
    path.write_bytes(
        {"truncated": raw[:-4], "header": b"\xff" * 16, "text": b"hello world, no tensors"}[damage]
    )
    with pytest.raises(ValueError, match=r"part0.safetensors: truncated, damaged or not a safetensors file"):
        FeatureShards.open(path)


def test_wrong_files_are_refused(tmp_path):
    (path, other), _ = write(tmp_path, "npy")
    with pytest.raises(ValueError, match=r"the extension must be .npy or .safetensors"):
        FeatureShards.open(tmp_path / "a.csv")
    with pytest.raises(FileNotFoundError, match="is missing"):
        FeatureShards.open(tmp_path / "features.npy")
    with pytest.raises(ValueError, match="needs 'features' in its name"):
        FeatureShards.open(tmp_path / "part0-labels.npy")
    with pytest.raises(ValueError, match="at least one shard, got none"):
        FeatureShards.open([])
    np.save(other, np.zeros((40, 9), dtype=np.float16))
    with pytest.raises(ValueError, match=r"part1-features.npy: labels must be integers of shape \(40,\)"):
        FeatureShards.open(other)
    np.save(other, np.zeros((37, 9), dtype=np.float16))
    with pytest.raises(ValueError, match="one width and dtype in all shards"):
        FeatureShards.open([path, other])
    np.save(path, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="cannot be read as an array of numbers"):
        FeatureShards.open(path)
    path.with_name("part0-labels.npy").unlink()
    with pytest.raises(FileNotFoundError, match=r"part0-labels.npy is missing; put the labels of"):
        FeatureShards.open(path)


def test_wrong_arguments_are_refused():
    features, labels = problem()
    shards = sharded(features, labels)
    with pytest.raises(ValueError, match="distance must be one of l2, fastft, got 'emd'"):
        stream_distances(shards, "emd")
    with pytest.raises(ValueError, match=r"labels must lie in 0\.\.1, got 5"):
        stream_cpcc(shards, Hierarchy.from_paths([("a",), ("b",)]))
    with pytest.raises(ValueError, match=r"prototypes must have shape \(k, 4\), got \(2, 3\)"):
        stream_map(shards, torch.ones(2, 3))
    with pytest.raises(ValueError, match="at least one sample"):
        stream_distances(FeatureShards([torch.zeros(0, 3)], torch.zeros(0, dtype=torch.int64)))
    with pytest.raises(ValueError, match=r"labels must be int64 of shape \(74,\)"):
        FeatureShards([features], labels[:3])
    with pytest.raises(ValueError, match="logits must have the rows of the features"):
        FeatureShards([features], labels, [torch.zeros(3, 6)])


@pytest.mark.parametrize("distance", ["l2", "fastft"])
def test_features_that_are_not_finite_are_refused(distance):
    features, labels = problem()
    features[50, 1] = torch.nan
    with pytest.raises(ValueError, match="features must be finite, got NaN or inf"):
        stream_distances(sharded(features, labels), distance)


@pytest.mark.usefixtures("small_blocks")
def test_a_bar_shows_progress_if_asked(capsys, monkeypatch):
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN", 0)
    features, labels = problem()
    stream_cpcc(sharded(features, labels), TREE, "fastft")
    assert capsys.readouterr().err == ""
    stream_cpcc(sharded(features, labels), TREE, "fastft", progress=True)
    shown = capsys.readouterr().err
    assert shown.count("\r") > 3
    assert shown.endswith("[##############################] 100%, 0 s left \n")


def test_two_processes_share_the_work_and_both_know_the_result(tmp_path):
    paths, arrays = write(tmp_path, "npy")
    with process_group(2) as ranks:
        results = ranks(measure, paths)
    features, labels = arrays["features"], arrays["labels"]
    means = class_prototypes(features, labels)[1]
    expected = {
        "l2": cpcc(class_distances(features, labels, "l2")[1], TREE.condensed()),
        "fastft": cpcc(class_distances(features, labels, "fastft")[1], TREE.condensed()),
        "map": prototype_map(features, labels, means),
        "accuracy": level_accuracy(arrays["logits"].softmax(1), labels, TREE)["level1"],
    }
    assert results[0]["other error"] == "RuntimeError: process 1: IndexError: list index out of range"
    assert results[1]["other error"] == "IndexError: list index out of range"
    for one in results:
        assert one["error"] == "ValueError: process 1: features must be finite, got NaN or inf"
        assert "ValueError: all processes must be set up alike, but number of blocks is " in one["difference"]
        assert sum(one["rows"]) > 0
        for name, value in expected.items():
            assert one[name] == pytest.approx(float(value), rel=1e-5)
    # Each of the two read about half of what one process alone would read.
    assert sum(results[0]["rows"]) + sum(results[1]["rows"]) < 1.5 * len(labels)
