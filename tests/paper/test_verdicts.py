"""Verdicts from tables with made-up numbers: what decides, and whether it is more than noise."""

import math

import numpy as np
import pytest

from cophenet.paper import (
    verdicts_features,
    verdicts_runs,
    verdicts_studies,
    verdicts_tables,
)
from cophenet.paper.verdicts import Number, gap, settle

from .tables import cells, table


def test_noise_is_two_standard_errors_of_the_difference():
    found = gap(Number(0.8, 0.03, 3), Number(0.7, 0.06, 4), 0.02)
    assert found.size == pytest.approx(0.08)
    assert found.noise == pytest.approx(2 * math.sqrt(0.03**2 / 3 + 0.06**2 / 4))
    # A single run is taken to spread as the other side does.
    assert gap(Number(0.8, 0.03, 3), Number(0.7)).noise == pytest.approx(0.06 * math.sqrt(1 / 3 + 1))
    assert gap(Number(20.0, unit="seconds"), Number(10.0, unit="seconds")).noise == pytest.approx(2.0)
    assert gap(Number(0.8), Number(0.7)).noise == pytest.approx(0.02)


def test_a_single_doubtful_difference_makes_all_doubtful():
    sure, doubtful = gap(Number(0.8), Number(0.7)), gap(Number(0.8), Number(0.795))
    lost, barely = gap(Number(0.7), Number(0.8)), gap(Number(0.795), Number(0.8))
    assert settle("", []) is None
    for gaps, holds, close in (
        ([sure], True, False),
        ([sure, doubtful], True, True),
        ([sure, barely], False, True),
        ([doubtful, barely, lost], False, False),
    ):
        found = settle("x", gaps)
        assert (found.holds, found.close, found.measured) == (holds, close, "x; one seed")


def by_objective(values, *more, columns=("data", "objective", "TestCPCC", "by l2")):
    rows = [
        ["cifar100", name, cells(value), *(cells(m[name]) for m in more)] for name, value in values.items()
    ]
    return table(columns, rows)


def test_best_by_its_own_distance_and_by_l2_can_differ():
    own = {"l2": 0.8, "FastFT": 0.9, "SWD": 0.5}
    found = verdicts_runs.ot_best(by_objective(own, {"l2": 0.8, "FastFT": 0.6, "SWD": 0.7}))
    assert (found.holds, found.close, found.data) == (True, False, ("cifar100",))
    assert "FastFT 90.0, l2 80.0, by l2 alone l2 is best" in found.measured
    assert not verdicts_runs.ot_best(by_objective({**own, "l2": 0.95}, own)).holds


def generalisation(values):
    columns = ("data", "objective", "sAcc")
    rows = [["cifar100", name, cells(*numbers)] for name, numbers in values.items()]
    detail = table(columns, rows)["tables"][0]
    return {"tables": [detail, detail, detail]}


def test_generalisation_says_which_metrics_are_lost():
    values = {"Flat": (0.8, 0.82), "l2": (0.7, 0.72), "FastFT": (0.9, 0.92), "EMD": (0.6, 0.62)}
    document = generalisation(values)
    fine, coarse = verdicts_tables.fine_over_l2(document), verdicts_tables.coarse_over_flat(document)
    assert (fine.holds, fine.close, coarse.holds) == (True, False, False)
    assert "FastFT 1 of 1, EMD 0 of 1; their mean, which decides, is above it in 1 of 1" in fine.measured
    lost = "mean 76.0 ± 1.4, best FastFT 91.0 ± 1.4, worst EMD 61.0 ± 1.4, Flat 81.0 ± 1.4"
    assert f"not in cifar100 sAcc: {lost}" in coarse.measured
    assert not verdicts_tables.flat_bounds(document).holds
    assert verdicts_tables.flat_bounds(generalisation({**values, "FastFT": (0.5,)})).holds
    assert not verdicts_tables.l2_bounds(document).holds
    assert verdicts_tables.competitive(document).holds
    assert not verdicts_tables.emd_separates(document).holds


def test_baselines_are_compared_by_l2():
    columns = ("objective", "TestCPCC", "by l2")
    rows = [["SWD", cells(0.9), cells(0.3)], ["Soft", cells(0.4), cells(0.4)]]
    found = verdicts_runs.above_baselines(table(columns, rows))
    assert not found.holds
    assert "lowest SWD 30.0, highest other Soft 40.0" in found.measured
    assert "by their own distances the lowest is SWD 90.0" in found.measured


def test_others_are_like_flat():
    columns = ("objective", "TestCPCC", "mean coarse", "mean fine")
    rows = [["l2", None, cells(0.7), cells(0.4)], ["HXE", None, cells(0.6), cells(0.5)]]
    found = verdicts_runs.baselines_like_flat(table(columns, rows))
    assert (found.holds, found.part) == (True, "2 of 13 objectives")
    rows.append(["Soft", None, cells(0.8), cells(0.5)])
    found = verdicts_runs.baselines_like_flat(table(columns, rows))
    assert not found.holds
    assert found.measured.endswith("1 of 2 others are below in coarse and above in fine, not Soft; one seed")


def test_rank_and_the_control():
    columns = ("objective", "fine sAcc", "coarse sMAP")
    rows = [["Flat", cells(0.5), cells(0.5)], ["Rank", cells(0.4), cells(0.505)]]
    found = verdicts_runs.rank_worse(table(columns, rows))
    assert (found.holds, found.close) == (False, True)
    assert "in 1 of 2 metrics, not in coarse sMAP: Flat 50.0, Rank 50.5" in found.measured
    columns = ("objective", "coarse sMAP", "shuffled")
    rows = [["Flat", cells(0.5), None], ["l2", cells(0.7, 0.71, 0.72), cells(0.4)]]
    found = verdicts_runs.tree_helps(table(columns, rows))
    assert (found.holds, found.close) == (True, False)
    assert found.measured == "coarse sMAP: l2 71.0 ± 1.0 against 40.0; some of one seed"


def test_sizes_of_data_sets():
    def row(name, train, test):
        printed = {"value": 50_000, "std": None, "note": None}
        return [name, *({**cells(n, unit="count"), "paper": printed} if n else None for n in (train, test))]

    columns = ("data", "train", "test")
    rows = [row("cifar100", 50_000, 50_400), row("living17", None, None)]
    found = verdicts_runs.data_sizes(table(columns, rows))
    assert (found.holds, found.part) == (True, "1 of 2 data sets")
    assert found.measured == "cifar100: train 50,000, test 50,400; two percent allowed"
    assert verdicts_runs.data_sizes(table(columns, [row("cifar100", 50_000, 60_000)])).holds is False
    # A part of the data says nothing about the whole.
    found = verdicts_runs.data_sizes(table(columns, [row("cifar100", 15_000, 50_000)]))
    assert (found.holds, found.part) == (None, "whole data is needed")
    assert "a part of the data is here (train 15,000 of 50,000)" in found.measured
    rows = [row("cifar100", 15_000, 50_000), row("cifar10", 50_000, 50_000)]
    found = verdicts_runs.data_sizes(table(columns, rows))
    assert (found.holds, found.part) == (True, "1 of 2 data sets")
    assert verdicts_runs.data_sizes(table(columns, [row("living17", None, None)])) is None


def curves(fastft, emd, l2):
    rows = [[n, *map(cells, values)] for n, values in (("FastFT", fastft), ("EMD", emd), ("l2", l2))]
    return table(("objective", "64", "1024"), rows)


def test_curves():
    assert verdicts_studies.ordered(curves((0.9, 0.9), (0.8, 0.8), (0.7, 0.7))).holds
    found = verdicts_studies.ordered(curves((0.9, 0.9), (0.8, 0.905), (0.7, 0.7)))
    assert (found.holds, found.close) == (False, True)
    assert found.measured.startswith(
        "in 1 of 2 settings, each by its own distance (64: FastFT 90.0, EMD 80.0"
    )
    assert not verdicts_studies.ordered(curves((0.9, 0.6), (0.8, 0.8), (0.7, 0.7))).holds
    assert verdicts_studies.batches_matter(curves((0.75, 0.9), (0.72, 0.85), (0.7, 0.7))).holds
    assert not verdicts_studies.batches_matter(curves((0.75, 0.7), (0.72, 0.85), (0.7, 0.7))).holds


def trees(cpcc, accuracy, words=("weight 1x", "weight 2x", "weight 4x")):
    rows = [
        ["EMD", word, cells(c), cells(a), cells(a)] for word, c, a in zip(words, cpcc, accuracy, strict=True)
    ]
    return table(("objective", "setup", "CPCC", "FineAcc", "CoarseAcc"), rows)


def test_trees():
    steady = trees((0.9, 0.88, 0.85), (0.5, 0.5, 0.505))
    assert verdicts_studies.depth_steady(steady).holds
    assert verdicts_studies.weights_drop(steady).holds
    assert verdicts_studies.accuracy_steady(steady).holds
    moved = trees((0.7, 0.88, 0.85), (0.5, 0.55, 0.5))
    assert not verdicts_studies.depth_steady(moved).holds
    assert not verdicts_studies.weights_drop(moved).holds
    assert not verdicts_studies.accuracy_steady(moved).holds


def matrices(inside):
    """Two blocks of two classes; distances inside the first one for each setting."""
    panels = [
        {
            "title": str(i),
            "cuts": [2],
            "levels": [[2]],
            "matrix": [[0, d, 4, 4], [d, 0, 4, 4], [4, 4, 0, 1], [4, 4, 1, 0]],
        }
        for i, d in enumerate(inside)
    ]
    return {"figures": {"m": {"kind": "matrices", "rows": [{"name": "EMD", "panels": panels}]}}}


def test_blocks_of_distance_matrices():
    assert verdicts_studies.blocks_seen(matrices((1, 2, 3))).measured.endswith(
        "EMD 0 0.25; EMD 1 0.38; EMD 2 0.50; 0.8 or less asked for; one seed"
    )
    assert not verdicts_studies.blocks_seen(matrices((1, 2, 9))).holds
    assert verdicts_studies.block_darkens(matrices((1, 2, 3))).holds
    assert not verdicts_studies.block_darkens(matrices((1, 3, 2))).holds
    assert verdicts_studies.blocks_seen({"figures": {}}) is None


def test_blocks_are_looked_for_at_every_level():
    """Pairs of classes 1 apart, then `between` in a group of two pairs, then 10."""

    def panel(between):
        level = np.array([[0, 0], [0, 0], [0, 1], [0, 1], [1, 2], [1, 2], [1, 3], [1, 3]])
        same = (level[:, None] == level[None]).astype(int)
        matrix = np.where(same[..., 1], 1.0, np.where(same[..., 0], between, 10.0))
        np.fill_diagonal(matrix, 0)
        return {"title": "depth 4", "cuts": [4], "levels": [[4], [2, 4, 6]], "matrix": matrix.tolist()}

    for between, holds in ((5.0, True), (1.1, False)):
        rows = [{"name": "EMD", "panels": [panel(between)]}]
        found = verdicts_studies.blocks_seen({"figures": {"m": {"kind": "matrices", "rows": rows}}})
        coarse = (4 * 1 + 8 * between) / 12 / 10
        assert f"EMD depth 4 {coarse:.2f}, {1 / between:.2f};" in found.measured
        assert found.holds == holds


def flows(distance_cpcc, target, source):
    columns = ("objective", "weights", "CPCC", "fine sAcc", "fine tAcc")
    rows = [
        ["EMD", "uniform", cells(0.9), cells(0.5), cells(0.5)],
        ["EMD", "distance", cells(distance_cpcc), cells(source), cells(target)],
    ]
    return table(columns, rows)


def test_flow_weights():
    found = verdicts_studies.distance_collapses(flows(0.1, 0.6, 0.4))
    assert (found.holds, found.close) == (True, False)
    assert not verdicts_studies.distance_collapses(flows(0.5, 0.6, 0.4)).holds
    assert (
        "EMD distance: target +10.0, source -10.0"
        in verdicts_studies.flow_trade(flows(0.1, 0.6, 0.4)).measured
    )
    assert verdicts_studies.flow_trade(flows(0.1, 0.6, 0.4)).holds
    assert not verdicts_studies.flow_trade(flows(0.1, 0.4, 0.6)).holds


def test_times_of_epochs():
    seconds = {"l2": 10.0, "FastFT": 10.8, "EMD": 20.0, "Sinkhorn": 12.0, "SWD": 10.9}
    rows = [["cifar10", name, cells(value, unit="seconds")] for name, value in seconds.items()]
    document = table(("data", "objective", "s per epoch"), rows)
    assert verdicts_studies.epoch_over_emd(document).measured == "cifar10: FastFT 10.8 s, EMD 20 s; one seed"
    others, l2 = verdicts_studies.epoch_over_others(document), verdicts_studies.epoch_like_l2(document)
    assert (others.holds, others.close) == (True, True)
    assert (l2.holds, l2.close) == (True, True)


def test_memory():
    columns = ("objective", "batch size", "memory", "TestCPCC")
    rows = [["EMD", "64", "0", cells(0.5)], ["EMD", "64", "4096", cells(0.6)]]
    found = verdicts_studies.memory_helps(table(columns, rows))
    assert (found.holds, found.measured) == (True, "EMD at 64: 50.0 to 60.0; one seed")
    assert found.part == "1 of 6 objectives and batch sizes"


def test_modes():
    columns = ("data", "objective", "diagonal", "full, PCA(32)")
    rows = [
        ["cifar100", "l2", cells(3.0, unit="number"), cells(1.0, unit="number")],
        ["cifar100", "EMD", cells(1.0, unit="number"), cells(1.0, unit="number")],
    ]
    document = table(columns, rows)
    found = verdicts_features.several_modes(document)
    assert (found.holds, found.measured) == (True, "cifar100: 3 (full covariance 1); one seed")
    assert not verdicts_features.modes_with_all(document).holds
    assert verdicts_features.breeds_least(document) is None
    rows.append(["living17", "l2", cells(2.0, unit="number"), cells(1.0, unit="number")])
    assert verdicts_features.breeds_least(table(columns, rows)).holds


def test_maps_are_compared_by_the_variance_between_groups():
    apart, mixed = [[0, 0], [0, 1], [9, 0], [9, 1]], [[0, 0], [9, 1], [9, 0], [0, 1]]
    panels = [
        {"title": f"{name}-CPCC, UMAP", "points": points, "group": [0, 0, 1, 1]}
        for name, points in (("l2", apart), ("EMD", mixed))
    ]
    found = verdicts_features.clearer_groups({"figures": {"umap": {"panels": panels}}})
    assert found.holds
    assert "l2 98.8 %, EMD 0.0 %" in found.measured


def test_orders():
    studies = {"EMD": {"batch order": {"error": 0.2}, "principal order": {"error": 0.05}}}
    assert verdicts_features.principal_closer({"studies": studies}).holds
    assert verdicts_features.principal_closer({"studies": {}}) is None
