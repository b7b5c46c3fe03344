import numpy as np
import pytest

from cophenet.paper import best_components, count_modes
from cophenet.paper.mixture_modes import MODES, one_gaussian


def clouds(modes, size=250, width=4, seed=0):
    """Modes far apart, of equal size."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(modes * size, width)) + 40.0 * np.repeat(np.arange(modes), size)[:, None]


@pytest.mark.parametrize("modes", [1, 2, 3])
@pytest.mark.parametrize("covariance", ["diag", "full"])
def test_known_number_of_modes(modes, covariance):
    assert best_components(clouds(modes), covariance, most=4) == (modes, 0)


def test_mean_over_classes_also_after_projection():
    rows = np.concatenate([clouds(1), clouds(3, seed=1)])
    labels = np.repeat([4, 9], [250, 750])
    found = count_modes(rows, labels, "full", project=2, most=4)
    assert found.components == (1, 3)
    assert found.mean == 2.0


def test_one_gaussian_has_the_moments_of_its_class():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(1000, 3)) @ rng.normal(size=(3, 3)) + 5
    drawn = one_gaussian(rows, rng)
    np.testing.assert_allclose(drawn.mean(0), rows.mean(0), atol=0.15)
    np.testing.assert_allclose(np.cov(drawn.T), np.cov(rows.T), rtol=0.15, atol=0.15)


def test_rectified_features_are_compared_with_rectified_ones():
    rng = np.random.default_rng(0)
    rows = np.column_stack((rng.normal(size=500).clip(min=0), rng.normal(size=500), np.zeros(500)))
    drawn = one_gaussian(rows, rng)
    assert drawn[:, 0].min() == 0
    assert drawn[:, 1].min() < 0
    assert not drawn[:, 2].any()


@pytest.mark.parametrize("options", MODES.values(), ids=MODES)
def test_features_of_one_gaussian_have_the_components_of_the_null_model(options):
    rows = np.random.default_rng(0).normal(size=(300, 24)).clip(min=0)
    counted = count_modes(rows, np.arange(300) % 3, **options, most=6)
    assert abs(counted.mean - counted.null) <= 1


def test_real_modes_exceed_those_of_one_gaussian():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 4)) + 12 * np.eye(4)[rng.integers(0, 4, 400)]
    counted = count_modes(rows, np.arange(400) % 2, "full", most=5)
    assert (counted.components, counted.null) == ((4, 4), 1.0)


def test_no_more_components_than_samples():
    assert best_components(np.eye(3)[:2], most=10)[0] <= 2


def test_wrong_input_is_refused():
    with pytest.raises(ValueError, match="at least 2 samples"):
        count_modes(np.ones((3, 2)), np.array([0, 0, 1]))
    with pytest.raises(ValueError, match="finite"):
        count_modes(np.full((2, 2), np.nan), np.array([0, 0]))
    with pytest.raises(ValueError, match="covariance must be one of"):
        best_components(np.eye(4), "tied")
