"""Verdicts on part of what a claim is about, and on differences that may be noise."""

import pytest

from cophenet.paper import verdicts_features, verdicts_runs, verdicts_studies, verdicts_tables
from cophenet.paper.verdicts import ALL_CPCC, OT, OTHERS, Number, average

from .tables import cells, table


def generalisation(values):
    detail = table(
        ("data", "objective", "sAcc"), [["cifar100", name, cells(*v)] for name, v in values.items()]
    )["tables"][0]
    return {"tables": [detail, detail, detail]}


def test_the_mean_of_objectives_is_taken_seed_by_seed():
    pair = [Number(0.5, 0.1, 2, values=(0.4, 0.6)), Number(0.7, 0.1, 2, values=(0.8, 0.6))]
    assert average(pair) == Number(
        pytest.approx(0.6), pytest.approx(0), 2, "percent", pytest.approx((0.6, 0.6))
    )
    # Other numbers of seeds: each as if it were independent, a single run as spread as the others.
    mixed = average([Number(0.5, 0.1, 2, values=(0.4, 0.6)), Number(0.7, values=(0.7,))])
    assert (mixed.mean, mixed.seeds) == (pytest.approx(0.6), 1)
    assert mixed.std == pytest.approx((0.1**2 / 2 + 0.1**2) ** 0.5 / 2)
    assert average([Number(0.5), Number(0.7)]) == Number(pytest.approx(0.6))


def test_the_best_of_several_does_not_decide():
    """One of four objectives is far above l2 by luck, the others are below."""
    values = {"l2": (0.7, 0.71, 0.72), "FastFT": (0.73, 0.74, 0.75)}
    values |= dict.fromkeys(("EMD", "Sinkhorn", "SWD"), (0.66, 0.67, 0.68))
    found = verdicts_tables.fine_over_l2(generalisation(values))
    assert (found.holds, found.part) == (False, "")
    assert "mean 68.8 ± 1.0, best FastFT 74.0 ± 1.0, worst EMD 67.0 ± 1.0, l2 71.0 ± 1.0" in found.measured


def test_tables_say_how_many_objectives_are_there():
    document = generalisation({"Flat": (0.9,), "l2": (0.8,), "FastFT": (0.7,), "EMD": (0.7,)})
    for check, part in (
        (verdicts_tables.fine_over_l2, "2 of 4 objectives"),
        (verdicts_tables.coarse_over_flat, "2 of 4 objectives"),
        (verdicts_tables.l2_bounds, "2 of 4 objectives"),
        (verdicts_tables.flat_bounds, "3 of 5 objectives"),
        (verdicts_tables.competitive, ""),
    ):
        assert check(document).part == part
    whole = generalisation({"Flat": (0.9,), **dict.fromkeys(ALL_CPCC, (0.7,))})
    assert verdicts_tables.flat_bounds(whole).part == ""


def test_an_objective_counts_where_it_is_on_every_data_set():
    columns = ("data", "objective", "TestCPCC", "by l2")
    rows = [["cifar100", name, cells(0.9), cells(0.9)] for name in ALL_CPCC]
    rows += [["cifar10", "l2", cells(0.9), cells(0.9)], ["cifar10", "EMD", cells(0.91), cells(0.9)]]
    rows += [[data, "Flat", cells(0.2), cells(0.2)] for data in ("cifar10", "cifar100")]
    found = verdicts_runs.above_flat(table(columns, rows))
    assert (found.holds, found.part, found.data) == (True, "2 of 5 objectives", ("cifar100", "cifar10"))
    assert verdicts_runs.ot_best(table(columns, rows)).part == "1 of 4 objectives"


def test_a_cpcc_by_the_own_distance_may_be_missing():
    rows = [["cifar100", "Flat", cells(0.2), cells(0.2)], ["cifar100", "EMD", None, cells(0.8)]]
    found = verdicts_runs.above_flat(table(("data", "objective", "TestCPCC", "by l2"), rows))
    assert found.holds
    assert "own distances" not in found.measured
    rows = [["cifar100", "EMD", None, cells(0.8)]]
    assert verdicts_runs.above_flat(table(("data", "objective", "TestCPCC", "by l2"), rows)) is None
    rows = [["EMD", None, cells(0.8)], ["Soft", cells(0.4), cells(0.4)]]
    found = verdicts_runs.above_baselines(table(("objective", "TestCPCC", "by l2"), rows))
    assert (found.holds, found.part) == (True, "2 of 15 objectives")
    assert "own distances" not in found.measured


def test_all_baselines_are_all_objectives():
    rows = [[name, cells(0.8), cells(0.8)] for name in ALL_CPCC]
    rows += [[name, cells(0.4), cells(0.4)] for name in ("Flat", *OTHERS)]
    found = verdicts_runs.above_baselines(table(("objective", "TestCPCC", "by l2"), rows))
    assert (found.holds, found.close, found.part) == (True, False, "")


def test_controls_and_flow_weights_say_their_part():
    rows = [["l2", cells(0.7), cells(0.4)]]
    found = verdicts_runs.tree_helps(table(("objective", "coarse sMAP", "shuffled"), rows))
    assert found.part == "1 of 5 objectives"
    rows = [["EMD", "uniform", cells(0.9)], ["EMD", "distance", cells(0.1)]]
    found = verdicts_studies.distance_collapses(table(("objective", "weights", "CPCC"), rows))
    assert found.part == "1 of 2 objectives"


def fits(coarse, fine, points, own=(0.9, -0.9)):
    found = {"coarse metrics, by l2": coarse, "fine metrics, by l2": fine}
    found |= {"coarse metrics, own distance": own[0], "fine metrics, own distance": own[1]}
    return {"fits": {name: {"correlation": r, "points": points} for name, r in found.items()}}


@pytest.mark.parametrize(
    ("coarse", "fine", "points", "holds", "close"),
    [
        (0.8, -0.6, 14, True, False),
        # Two over the root of 14 is 0.53.
        (0.8, -0.5, 14, True, True),
        (0.8, 0.5, 14, False, True),
        (-0.6, -0.6, 14, False, False),
        (0.9, -0.9, 4, True, True),
    ],
)
def test_trends_are_decided_by_l2_and_weak_ones_may_be_noise(coarse, fine, points, holds, close):
    found = verdicts_runs.opposite_trends(fits(coarse, fine, points))
    assert (found.holds, found.close) == (holds, close)
    assert found.part == ("" if points == 14 else "4 of 14 objectives")
    assert (
        f"by l2 (decides): r = {coarse:.2f} with coarse, {fine:.2f} with fine, n = {points}" in found.measured
    )
    assert "own distance: r = 0.90 with coarse, -0.90 with fine" in found.measured


def test_three_points_are_no_trend():
    assert verdicts_runs.opposite_trends(fits(0.99, -0.99, 3)) is None
    assert verdicts_runs.opposite_trends({"fits": {"coarse metrics, by l2": None}}) is None


def flows(target, source):
    columns = ("objective", "weights", "CPCC", "fine sAcc", "coarse sAcc", "fine tAcc")
    rows = [
        ["EMD", "uniform", cells(0.9), cells(0.5, 0.5), cells(0.5, 0.5), cells(0.49, 0.51)],
        ["EMD", "inverse", cells(0.9), cells(*source), cells(0.4, 0.4), cells(*target)],
    ]
    return table(columns, rows)


def test_flow_weights_within_noise():
    sure = verdicts_studies.flow_trade(flows((0.69, 0.71), (0.4, 0.4)))
    assert (sure.holds, sure.close, sure.part) == (True, False, "1 of 2 objectives")
    assert sure.measured == "mean change in points, EMD inverse: target +20.0, source -10.0"
    assert verdicts_studies.flow_trade(flows((0.5, 0.52), (0.4, 0.4))).close


def test_a_block_that_hardly_darkens():
    def panel(title, inside):
        matrix = [[0, inside, 4, 4], [inside, 0, 4, 4], [4, 4, 0, 1], [4, 4, 1, 0]]
        return {"title": title, "cuts": [2], "levels": [[2]], "matrix": matrix}

    panels = [panel(name, inside) for name, inside in (("1x", 1.0), ("2x", 2.0), ("4x", 2.001))]
    document = {"figures": {"m": {"kind": "matrices", "rows": [{"name": "EMD", "panels": panels}]}}}
    found = verdicts_studies.block_darkens(document)
    assert (found.holds, found.close, found.part) == (True, True, "1 of 2 objectives")
    assert "one seed" in found.measured


def modes(**counts):
    rows = [
        ["cifar100", name, cells(value, unit="number"), cells(1.0, unit="number")]
        for name, value in counts.items()
    ]
    return table(("data", "objective", "diagonal", "full, PCA(32)"), rows)


def test_hardly_more_than_one_mode():
    assert verdicts_features.several_modes(modes(l2=1.05)).close
    assert not verdicts_features.several_modes(modes(l2=1.5)).close
    for found in (
        verdicts_features.several_modes(modes(l2=9.9)),
        verdicts_features.modes_with_all(modes(EMD=9.9, SWD=3.0)),
    ):
        assert found.holds
        assert found.close
        assert "samples are too few to tell" in found.measured
    found = verdicts_features.modes_with_all(modes(EMD=3.0, SWD=1.05))
    assert (found.holds, found.close, found.part) == (True, True, "2 of 4 objectives")
    assert verdicts_features.modes_with_all(modes(**dict.fromkeys(OT, 2.0))).part == ""
