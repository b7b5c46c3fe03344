"""The contract of scikit-learn: its own battery, pipelines, searches, copies, frames."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_classifiers_train, parametrize_with_checks

from cophenet import HierarchicalEmbedder
from estimator.vectors import TREE, clouds

ROWS, NAMES = clouds()
QUICK = {"max_iter": 25, "learning_rate": 0.01, "hidden_size": 32, "random_state": 0}


# The interface is asked with fewer and larger steps, the accuracy with the defaults too.
BATTERY = HierarchicalEmbedder(max_iter=25, learning_rate=0.01, hidden_size=16)
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


def test_pipeline_grid_search_and_clone():
    pipeline = make_pipeline(StandardScaler(), HierarchicalEmbedder(TREE, **QUICK))
    search = GridSearchCV(pipeline, {"hierarchicalembedder__objective": ["flat", "l2"]}, cv=2)
    search.fit(ROWS, NAMES)
    assert search.best_score_ > 0.9
    copy = clone(search.best_estimator_[-1])
    assert copy.get_params() == search.best_estimator_[-1].get_params()
    assert not hasattr(copy, "network_")


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
    from cophenet.estimator import scaling

    monkeypatch.setattr(scaling, "_BLOCK", 60)
    read = []
    original = scaling.Scale.__call__
    monkeypatch.setattr(scaling.Scale, "__call__", lambda s, r, d: read.append(len(r)) or original(s, r, d))
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
