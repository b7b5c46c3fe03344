import math

import numpy as np
import pytest

from cophenet.paper import fit_line, growth_exponent


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0, 3.0])
def test_exponent_of_a_power(power):
    sizes = [32, 64, 128, 256, 512]
    assert growth_exponent(sizes, [7e-6 * n**power for n in sizes]) == pytest.approx(power)


def test_overhead_at_small_sizes_does_not_count():
    sizes = [2**p for p in range(4, 20)]
    costs = [1e-3 + 1e-6 * n for n in sizes]
    assert growth_exponent(sizes, costs) == pytest.approx(1.0, abs=0.03)
    assert growth_exponent(sizes, costs, last=16) < 0.7


def test_line_is_that_of_numpy():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 30))
    fit = fit_line(x.tolist(), y.tolist())
    slope, intercept = np.polyfit(x, y, 1)
    assert (fit.slope, fit.intercept) == pytest.approx((slope, intercept))
    assert fit.correlation == pytest.approx(np.corrcoef(x, y)[0, 1])
    assert math.isnan(fit_line([0, 1], [2, 2]).correlation)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [([1, 1], [2, 3], "two different"), ([1, 2], [1, float("nan")], "finite"), ([1, 2], [1], "one length")],
)
def test_wrong_points_are_refused(x, y, message):
    with pytest.raises(ValueError, match=message):
        fit_line(x, y)


def test_costs_must_be_positive():
    with pytest.raises(ValueError, match="positive"):
        growth_exponent([1, 2], [0.0, 1.0])
