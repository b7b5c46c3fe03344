import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cophenet.data.digits import Digits
from cophenet.data.stratified_sampling import k_shot, stratified_split

TRAIN = Digits().load(None).samples("train")


def test_k_shot_takes_k_of_every_class():
    few = k_shot(TRAIN, 3, seed=0)
    assert few.counts().tolist() == [3] * 10
    assert len(set(few.rows)) == 30
    assert set(few.rows) <= set(TRAIN.rows)
    assert few.tree is TRAIN.tree


def test_k_shot_follows_the_seed_and_grows():
    rows = [set(k_shot(TRAIN, k, seed).rows) for k, seed in ((2, 0), (2, 0), (2, 1), (5, 0))]
    assert rows[0] == rows[1] != rows[2]
    assert rows[0] < rows[3]


def test_k_shot_draws_evenly():
    small = TRAIN.subset(np.flatnonzero(TRAIN.labels < 10)[:60])
    drawn = np.concatenate([k_shot(small, 1, seed).rows for seed in range(600)])
    for label, count in enumerate(small.counts()):
        rows = small.rows[small.labels == label]
        seen = np.array([(drawn == row).sum() for row in rows])
        assert abs(seen - 600 / count).max() < 6 * np.sqrt(600 / count)


def test_k_shot_refuses_too_few():
    small = TRAIN.subset(np.flatnonzero(TRAIN.labels != 4))
    with pytest.raises(ValueError, match="got 1, but class '4' has 0"):
        k_shot(small, 1, seed=0)
    for k in (0, 1.5, True):
        with pytest.raises(ValueError, match="k must be a whole number of at least 1"):
            k_shot(TRAIN, k, seed=0)


@settings(deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1), st.floats(0.01, 0.99), st.integers(0, 5))
def test_every_class_gives_its_share(extra, fraction, seed):
    labels = np.array([*extra, *extra])
    first, second = stratified_split(labels, fraction, seed)
    np.testing.assert_array_equal(np.sort(np.concatenate([first, second])), np.arange(len(labels)))
    totals, shares = np.bincount(labels), np.bincount(labels[second], minlength=labels.max() + 1)
    present = totals > 0
    assert (shares[present] >= 1).all()
    assert (shares[present] < totals[present]).all()
    assert (abs(shares - totals * fraction) < 1).all()


@pytest.mark.parametrize("fraction", [0, 1, True, "abc", None, float("nan")])
def test_shares_must_lie_between_0_and_1(fraction):
    with pytest.raises(ValueError, match=f"fraction must lie between 0 and 1, got {fraction!r}"):
        stratified_split(np.array([0, 0]), fraction, seed=0)


def test_single_samples_cannot_be_split():
    with pytest.raises(ValueError, match="class 1 has a single sample"):
        stratified_split(np.array([0, 0, 1]), 0.5, seed=0)
