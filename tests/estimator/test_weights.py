"""Weights of samples and labels: how often each is seen, with every objective."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cophenet import HierarchicalEmbedder
from cophenet.estimator.samples import draw_epoch
from cophenet.estimator.validation import fit_weights
from estimator.vectors import TREE, clouds

ROWS, NAMES = clouds()
QUICK = {"max_iter": 6, "hidden_size": 8, "random_state": 0, "calibration_fraction": 0.0}


@given(st.lists(st.integers(0, 20), min_size=1, max_size=30).filter(any), st.integers(0, 99))
def test_an_epoch_has_each_sample_as_often_as_its_weight_says(weights, seed):
    chosen = 3 * np.arange(len(weights))
    by_position = np.zeros(3 * len(weights))
    by_position[chosen] = weights
    drawn = draw_epoch(chosen, by_position, np.random.default_rng(seed))
    counts = np.bincount(drawn, minlength=len(by_position))
    expected = by_position * len(chosen) / sum(weights)
    assert len(drawn) == len(chosen)
    assert (np.abs(counts - expected) < 1 + 1e-9).all()
    assert not counts[by_position == 0].any()


def test_counts_are_the_weights_on_average_and_the_order_is_random():
    weights, rng = np.array([0.3, 2.5, 1.0, 0.2]), np.random.default_rng(0)
    drawn = np.stack([draw_epoch(np.arange(4), weights, rng) for _ in range(4000)])
    counts = (drawn[:, :, None] == np.arange(4)).sum(1)
    np.testing.assert_allclose(counts.mean(0), weights, atol=0.04)
    assert len({tuple(row) for row in drawn.tolist()}) > 20


@pytest.mark.parametrize("objective", ["auto", "fastft", "hxe"])
def test_equal_weights_are_no_weights_and_weight_0_is_no_sample(objective):
    def fit(rows, names, **weights):
        return HierarchicalEmbedder(TREE, objective, **QUICK).fit(rows, names, **weights).transform(ROWS)

    same = fit(ROWS[10:], NAMES[10:], sample_weight=np.full(len(ROWS) - 10, 3.0))
    ignored = fit(ROWS, NAMES, sample_weight=[0.0] * 10 + [3.0] * (len(ROWS) - 10))
    np.testing.assert_array_equal(same, ignored)


@pytest.mark.parametrize("objective", ["auto", "flat"])
def test_a_weight_decides_between_contradictory_labels(objective):
    rows, names = np.repeat(ROWS[:30], 3, axis=0), np.tile(["cat", "bus", "van"], 30)
    options = {**QUICK, "max_iter": 25, "validation_fraction": 0.0, "learning_rate": 0.01}
    for heavy in ("cat", "bus"):
        embedder = HierarchicalEmbedder(TREE, objective, class_weight={heavy: 9.0}, **options)
        assert (embedder.fit(rows, names).predict(rows) == heavy).mean() > 0.85
        by_sample = HierarchicalEmbedder(TREE, objective, **options)
        by_sample.fit(rows, names, sample_weight=np.where(names == heavy, 9.0, 1.0))
        np.testing.assert_array_equal(by_sample.predict_proba(rows), embedder.predict_proba(rows))


def test_a_class_whose_samples_all_weigh_0_is_not_known():
    embedder = HierarchicalEmbedder(TREE, class_weight={"cat": 0}, **QUICK).fit(ROWS, NAMES)
    assert "cat" not in embedder.classes_


def test_labels_of_a_class_weight_are_names_positions_or_nodes_that_do_not_occur():
    codes = np.array([0, 0, 4])
    assert fit_weights(codes, None, {0: 2, "4": 3}).tolist() == [2, 2, 3]
    assert fit_weights(codes, None, {1: 9}, TREE).tolist() == [1, 1, 1]
    assert fit_weights(np.array(["cat"]), [2], {"cat": 3, "bus": 4, "pet": 5}, TREE).tolist() == [6]


@pytest.mark.parametrize(
    ("weights", "class_weight", "message"),
    [
        ([1.0], None, r"sample_weight must have shape \(120,\), got \(1,\)"),
        ([-1.0] * 120, None, "sample_weight must be finite, not negative"),
        ([np.nan] * 120, None, "sample_weight must be finite, not negative"),
        ([0.0] * 120, None, "not all zero"),
        (None, {"cat": -1}, "class_weight of 'cat' must be finite and at least 0.0, got -1"),
        (None, {"cow": 1}, r"class_weight has labels that neither y nor the tree has: \['cow'\]"),
        (None, "even", "class_weight must be a mapping, 'balanced' or None, got 'even'"),
        (None, dict.fromkeys(TREE.classes, 0), "leave no sample with a weight above 0"),
    ],
)
def test_wrong_weights_are_refused(weights, class_weight, message):
    with pytest.raises(ValueError, match=message):
        HierarchicalEmbedder(TREE, class_weight=class_weight).fit(ROWS, NAMES, weights)
