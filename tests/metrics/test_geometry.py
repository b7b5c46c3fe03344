"""Distortion and hyperbolicity against loops, and on exact tree metrics."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cophenet import CPCCLoss, class_distances, cpcc, metrics
from cophenet.metrics import _blocks
from cophenet.metrics._base import METRIC_OPTIONS
from metrics.cases import TREE
from support import DEVICE, double, random_batch


def slow_delta(condensed):
    size = int((1 + np.sqrt(1 + 8 * len(condensed))) / 2)
    d = np.zeros((size, size))
    d[np.triu_indices(size, 1)] = condensed
    d += d.T
    gaps = [0.0]
    for a, b, c, e in itertools.combinations(range(size), 4):
        sums = sorted((d[a, b] + d[c, e], d[a, c] + d[b, e], d[a, e] + d[b, c]))
        gaps.append(sums[2] - sums[1])
    return max(gaps) / 2


@given(st.integers(0, 99), st.integers(2, 9))
@settings(max_examples=20, deadline=None)
def test_delta_is_the_loop(seed, size):
    rho = np.random.default_rng(seed).uniform(1, 2, size * (size - 1) // 2)
    values = metrics.delta_hyperbolicity(double(rho))
    assert values["delta"].item() == pytest.approx(slow_delta(rho))
    assert values["relative"].item() == pytest.approx(2 * slow_delta(rho) / rho.max())


def test_delta_of_a_tree_is_zero_and_blocks_change_nothing(monkeypatch):
    tree_metric = double(TREE.condensed())
    assert metrics.delta_hyperbolicity(tree_metric)["delta"].item() == pytest.approx(0, abs=1e-12)
    rho = class_distances(*random_batch(0, [3] * 9), "l2")[1]
    whole = metrics.delta_hyperbolicity(rho)["delta"]
    monkeypatch.setattr(_blocks, "BLOCK", 50)
    torch.testing.assert_close(metrics.delta_hyperbolicity(rho)["delta"], whole)


def test_sampled_delta_is_a_lower_bound_that_is_met():
    rho = class_distances(*random_batch(0, [3] * 7), "l2")[1]
    exact = metrics.delta_hyperbolicity(rho)["delta"]
    few, many = (
        metrics.delta_hyperbolicity(rho, samples, torch.Generator().manual_seed(0))["delta"]
        for samples in (5, 5000)
    )
    assert few <= exact
    torch.testing.assert_close(many, exact)


def test_fewer_than_four_classes_always_fit_a_tree():
    for pairs in ([], [2.0], [1.0, 2.0, 3.0]):
        assert metrics.delta_hyperbolicity(double(pairs))["relative"].item() == 0
    assert metrics.delta_hyperbolicity(double([0.0] * 6))["relative"].item() == 0


def test_three_classes_off_the_triangle_are_still_zero():
    """Two are farther apart than by way of the third; no class may count twice in a quadruple."""
    for samples in (None, 50):
        values = metrics.delta_hyperbolicity(double([1.0, 5.0, 1.0]), samples)
        assert (values["delta"].item(), values["relative"].item()) == (0, 0)


@given(st.integers(0, 99), st.integers(4, 7))
@settings(max_examples=20, deadline=None)
def test_delta_off_the_triangle_is_the_loop(seed, size):
    rho = np.random.default_rng(seed).uniform(0, 1, size * (size - 1) // 2) ** 4
    exact = metrics.delta_hyperbolicity(double(rho))["delta"].item()
    assert exact == pytest.approx(slow_delta(rho))
    drawn = metrics.delta_hyperbolicity(double(rho), 2000, torch.Generator().manual_seed(seed))
    assert drawn["delta"].item() == pytest.approx(exact)


def test_distortion():
    tree_metric = double(TREE.condensed())
    perfect = metrics.tree_distortion(7 * tree_metric, tree_metric)
    assert perfect["average"].item() == pytest.approx(0, abs=1e-12)
    assert perfect["worst"].item() == pytest.approx(1)
    rho = double(np.random.default_rng(0).uniform(1, 2, len(tree_metric)))
    stretch = (rho / tree_metric).tolist()
    mean = sum(stretch) / len(stretch)
    values = metrics.tree_distortion(3 * rho, TREE.condensed())
    assert values["average"].item() == pytest.approx(np.mean([abs(r / mean - 1) for r in stretch]))
    assert values["worst"].item() == pytest.approx(max(stretch) / min(stretch))


def test_distortion_where_classes_coincide():
    t = double([2.0, 4.0, 4.0])
    some = metrics.tree_distortion(double([0.0, 1.0, 1.0]), t)
    assert some["worst"].item() == float("inf")
    assert np.isfinite(some["average"].item())
    assert metrics.tree_distortion(t * 0, t)["average"].item() == 1
    nothing = metrics.tree_distortion(t[:0], t[:0])
    assert (nothing["average"].item(), nothing["worst"].item()) == (0, 1)


@pytest.mark.parametrize("distance", ["l2", "fastft", "swd", "twd"])
@pytest.mark.parametrize("level", [None, 2])
def test_cpcc_of_any_distance_and_level(distance, level):
    z, y = random_batch(0, [4] * 9)
    metric = metrics.CPCC(TREE, distance, level)
    metric.update(z[:17], y[:17])
    metric.update(z[17:], y[17:])
    tree, groups = (TREE, np.arange(9)) if level is None else TREE.cut(level)
    labels = torch.tensor(groups, device=DEVICE)[y]
    rho = class_distances(z, labels, distance, tree=tree)[1]
    torch.testing.assert_close(metric.compute(), cpcc(rho, double(tree.condensed())))
    metric.reset()
    metric.update(z, y)
    torch.testing.assert_close(metric.compute(), cpcc(rho, double(tree.condensed())))


DISTANCE_METRICS = [metrics.CPCC, metrics.TreeDistortion, metrics.DeltaHyperbolicity]
every_kind = pytest.mark.parametrize("kind", DISTANCE_METRICS, ids=lambda kind: kind.__name__)


@pytest.mark.parametrize("flow_weights", ["uniform", "distance", "inverse"])
def test_cpcc_with_flow_weights(flow_weights):
    z, y = random_batch(0, [4] * 9)
    metric = metrics.CPCC(TREE, "emd", flow_weights=flow_weights).to(DEVICE)
    rho = class_distances(z, y, "emd", flow_weights=flow_weights)[1]
    torch.testing.assert_close(metric(z, y), cpcc(rho, double(TREE.condensed())))


@every_kind
def test_options_of_torchmetrics_go_to_it(kind):
    def alone():
        return False

    given_ = dict.fromkeys(METRIC_OPTIONS, False)
    given_ |= {"dist_sync_fn": None, "process_group": None, "distributed_available_fn": alone}
    metric = kind(TREE, "sinkhorn", reg=5.0, **given_)
    assert metric.sync_on_compute is metric.compute_with_cache is False
    assert metric.distributed_available_fn is alone
    assert metric.distance.reg == 5.0
    with pytest.raises(
        ValueError, match=r"has no option 'sync_on_computer'; .*did you mean 'sync_on_compute'"
    ):
        kind(TREE, "l2", sync_on_computer=False)


@every_kind
def test_a_distance_that_does_not_converge_says_so_every_time(kind):
    z, y = random_batch(0, [4] * 9)
    metric = kind(TREE, "sinkhorn", reg=0.01, max_iterations=1).to(DEVICE)
    for _ in range(2):
        metric.reset()
        metric.update(z, y)
        with pytest.warns(RuntimeWarning, match="sinkhorn did not converge within 1 iterations"):
            metric.compute()


def test_a_distance_shared_with_a_loss_keeps_its_state():
    z, y = random_batch(0, [4] * 9)
    loss = CPCCLoss(TREE, "swd")
    before = loss.distance.get_extra_state()
    metric = metrics.CPCC(TREE, loss.distance).to(DEVICE)
    values = []
    for _ in range(2):
        metric.reset()
        values.append(metric(z, y))
    assert values[0] == values[1]
    assert torch.equal(loss.distance.get_extra_state(), before)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: metrics.delta_hyperbolicity(double([1.0, 2.0])),
            r"k \(k - 1\) / 2 pairs of k classes, got 2",
        ),
        (lambda: metrics.delta_hyperbolicity(double([-1.0])), "distances must be finite and not negative"),
        (lambda: metrics.delta_hyperbolicity(double([1.0]), 0), "samples must be an integer in 1.."),
        (lambda: metrics.tree_distortion(double([1.0]), double([1.0, 2.0])), "must have one shape"),
        (lambda: metrics.tree_distortion(double([1.0]), double([0.0])), "t must be positive"),
        (lambda: metrics.tree_distortion(double([[1.0]]), double([1.0])), r"rho must be .* shape \(P,\)"),
        (lambda: metrics.CPCC(TREE, "l2", reg=1.0), "has no option 'reg'"),
        (lambda: metrics.CPCC(TREE, level=9), "level must be"),
        (
            lambda: metrics.CPCC(TREE, "l2", flow_weight="inverse"),
            "has no option 'flow_weight'; .*did you mean 'flow_weights'",
        ),
        (lambda: metrics.CPCC(TREE, flow_weights="invers"), "flow_weights must be one of .*'inverse'"),
    ],
)
def test_wrong_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
