"""The contract of scikit-learn: its own battery, pipelines, searches, copies, frames."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from sklearn.base import clone
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_classifiers_train, parametrize_with_checks

from cophenet import HierarchicalEmbedder, Hierarchy
from cophenet.estimator import TreeDistanceScorer
from estimator.vectors import TREE, clouds

ROWS, NAMES = clouds()
QUICK = {"max_iter": 25, "learning_rate": 0.01, "hidden_size": 32, "random_state": 0}


# The interface is asked with fewer and larger steps, the accuracy with the defaults too.
BATTERY = HierarchicalEmbedder(max_iter=8, learning_rate=0.03, hidden_size=16)
RANDOM = "a sample of weight 2 is seen twice in an epoch, but not at the same places as two samples"
FAILING = {"check_sample_weight_equivalence_on_dense_data": RANDOM}


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([BATTERY], expected_failed_checks=lambda _: FAILING)
def test_scikit_learns_battery(estimator, check):
    if check.func.__name__ == "check_class_weight_classifiers":
        pytest.skip("trains for a thousand epochs; test_weights asks the same")
    check(estimator)


@pytest.mark.filterwarnings("ignore")
def test_the_defaults_learn_what_scikit_learn_asks_of_a_classifier():
    check_classifiers_train("HierarchicalEmbedder", HierarchicalEmbedder())


def test_texts_through_a_vectoriser_with_a_search_for_the_dial():
    words = {"cat": "purr paw fur", "dog": "bark paw fur", "bus": "wheel seat road", "van": "wheel box road"}
    tree = Hierarchy.from_nested({"pet": ["cat", "dog"], "car": ["bus", "van"]})
    names = np.repeat(list(words), 6)
    texts = [f"{words[name]} {('the', 'of', 'a')[i % 3]}" for i, name in enumerate(names)]
    embedder = HierarchicalEmbedder(tree, **QUICK)
    pipeline = make_pipeline(TfidfVectorizer(), TruncatedSVD(6, random_state=0), embedder)
    search = GridSearchCV(pipeline, {"hierarchicalembedder__tree_strength": [0.0, 0.5]}, cv=2)
    search.fit(texts, names)
    assert search.best_score_ == 1
    assert search.predict(["the bark of a paw", "box on the road"]).tolist() == ["dog", "van"]


def test_pipeline_grid_search_and_clone():
    pipeline = make_pipeline(StandardScaler(), HierarchicalEmbedder(TREE, **QUICK))
    search = GridSearchCV(pipeline, {"hierarchicalembedder__objective": ["flat", "l2"]}, cv=2)
    search.fit(ROWS, NAMES)
    assert search.best_score_ > 0.9
    copy = clone(search.best_estimator_[-1])
    assert copy.get_params() == search.best_estimator_[-1].get_params()
    assert not hasattr(copy, "network_")


def test_a_search_over_the_dial_by_tree_distance():
    scorer = TreeDistanceScorer(TREE)
    embedder = HierarchicalEmbedder(TREE, **{**QUICK, "max_iter": 3})
    search = GridSearchCV(make_pipeline(StandardScaler(), embedder), {
        "hierarchicalembedder__tree_strength": [0, "auto", 1.0]
    }, scoring=scorer, cv=2)  # fmt: skip
    search.fit(ROWS, NAMES)
    answers = search.predict(ROWS)
    slow = -np.mean([TREE.distances([a, b])[0, 1] for a, b in zip(NAMES, answers, strict=True)])
    assert search.score(ROWS, NAMES) == pytest.approx(slow)
    assert set(search.cv_results_["param_hierarchicalembedder__tree_strength"]) == {0, "auto", 1.0}
    with pytest.raises(ValueError, match=r"need classes of the tree, got \['pet'\]"):
        scorer(search, ROWS[:1], ["pet"])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_probabilities_of_a_node_are_those_of_its_children(dtype):
    embedder = HierarchicalEmbedder(TREE, **{**QUICK, "max_iter": 3}).fit(ROWS, NAMES)
    tree, small = embedder.tree_, 4 * np.finfo(dtype).eps
    rows = (3 * ROWS).astype(dtype)
    levels = [embedder.predict_proba(rows, level=depth) for depth in range(1, tree.height + 1)]
    np.testing.assert_array_equal(levels[-1], embedder.predict_proba(rows))
    for depth in range(1, tree.height):
        parents = {name: column for column, name in enumerate(tree.cut(depth)[0].classes)}
        sums = np.zeros_like(levels[depth - 1])
        for column, name in enumerate(tree.cut(depth + 1)[0].classes):
            way = tree.path(tree.node(name))
            sums[:, parents[way[min(depth, len(way)) - 1]]] += levels[depth][:, column]
        np.testing.assert_allclose(levels[depth - 1], sums, rtol=0, atol=small)
    for level in levels:
        np.testing.assert_allclose(level.sum(1), 1, rtol=0, atol=small)
        assert level.min() >= 0


def test_names_of_features_go_in_and_come_out():
    frame = pd.DataFrame(ROWS, columns=list("abcdef"))
    embedder = HierarchicalEmbedder(TREE, **{**QUICK, "max_iter": 1}).fit(frame, NAMES)
    assert embedder.feature_names_in_.tolist() == list("abcdef")
    assert embedder.get_feature_names_out().tolist()[:2] == ["hierarchicalembedder0", "hierarchicalembedder1"]
    with pytest.raises(ValueError, match="feature names should match"):
        embedder.transform(frame[list("bacdef")])
    pipeline = make_pipeline(StandardScaler(), embedder).set_output(transform="polars").fit(frame, NAMES)
    out = pipeline[:-1].transform(frame)
    assert isinstance(out, pl.DataFrame)
    out = pipeline[-1].transform(out)
    assert isinstance(out, pl.DataFrame)
    assert out.columns == pipeline[-1].get_feature_names_out().tolist()


def test_frames_in_and_out():
    frame = pd.DataFrame(ROWS, columns=list("abcdef"))
    embedder = HierarchicalEmbedder(TREE, **QUICK).set_output(transform="pandas").fit(frame, pd.Series(NAMES))
    out = embedder.transform(frame)
    assert list(out.columns) == [f"hierarchicalembedder{i}" for i in range(64)]
    same = HierarchicalEmbedder(TREE, **QUICK).fit(pl.DataFrame(frame.to_dict("list")), pl.Series(NAMES))
    np.testing.assert_array_equal(same.transform(pl.DataFrame(frame.to_dict("list"))), out.to_numpy())


def test_tensors_and_memory_maps_give_what_arrays_give(tmp_path):
    rows = ROWS.astype(np.float32)
    np.save(tmp_path / "rows.npy", rows)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    wanted = HierarchicalEmbedder(TREE, **QUICK).fit(rows, NAMES).transform(rows)
    for given in (torch.tensor(rows, requires_grad=True), mapped):
        found = HierarchicalEmbedder(TREE, **QUICK).fit(given, NAMES).transform(given)
        np.testing.assert_array_equal(found, wanted)
        assert found.dtype == np.float32


def test_a_memory_map_is_never_copied_whole(tmp_path, monkeypatch):
    from cophenet.estimator import samples

    monkeypatch.setattr(samples, "_BLOCK", 60)
    read = []
    original = samples.Scale.__call__
    monkeypatch.setattr(samples.Scale, "__call__", lambda s, r, d: read.append(len(r)) or original(s, r, d))
    np.save(tmp_path / "rows.npy", ROWS)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    embedder = HierarchicalEmbedder(TREE, batch_size=8, **QUICK).fit(mapped, NAMES)
    embedder.transform(mapped)
    assert max(read) <= 10


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int64])
def test_output_type_follows_input(dtype):
    rows = np.round(ROWS * 4).astype(dtype)
    embedder = HierarchicalEmbedder(TREE, **QUICK).fit(rows, NAMES)
    wanted = np.float64 if dtype == np.int64 else dtype
    assert embedder.transform(rows).dtype == wanted
    assert embedder.predict_proba(rows).dtype == wanted


def test_seeds_decide_and_nothing_global_is_touched():
    torch.manual_seed(3)
    before, threads = torch.random.get_rng_state(), torch.get_num_threads()
    one, same = (HierarchicalEmbedder(TREE, "swd", **QUICK).fit(ROWS, NAMES) for _ in range(2))
    other = HierarchicalEmbedder(TREE, "swd", **{**QUICK, "random_state": 1}).fit(ROWS, NAMES)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.get_num_threads() == threads
    np.testing.assert_array_equal(one.transform(ROWS), same.transform(ROWS))
    assert np.abs(one.transform(ROWS) - other.transform(ROWS)).max() > 1e-3
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(one)).transform(ROWS), one.transform(ROWS))


def test_progress_and_early_stopping(capsys):
    options = {"max_iter": 200, "n_iter_no_change": 3, "random_state": 0, "verbose": True}
    embedder = HierarchicalEmbedder(TREE, "fastft", **options).fit(ROWS, NAMES)
    held = [epoch["held_out"] for epoch in embedder.history_]
    assert embedder.n_iter_ == len(held) < 200
    assert np.argmin(held) == len(held) - 4
    assert f"epoch {len(held)}/200" in capsys.readouterr().err
