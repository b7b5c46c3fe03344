import numpy as np
import pytest

from cophenet.paper import best_components, count_modes


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


def test_no_more_components_than_samples():
    assert best_components(np.eye(3)[:2], most=10)[0] <= 2


def test_wrong_input_is_refused():
    with pytest.raises(ValueError, match="at least 2 samples"):
        count_modes(np.ones((3, 2)), np.array([0, 0, 1]))
    with pytest.raises(ValueError, match="finite"):
        count_modes(np.full((2, 2), np.nan), np.array([0, 0]))
    with pytest.raises(ValueError, match="covariance must be one of"):
        best_components(np.eye(4), "tied")
