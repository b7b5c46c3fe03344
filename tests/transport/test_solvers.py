"""The exact solvers against POT, on random, tied and badly scaled problems."""

import sys

import numpy as np
import ot
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from cophenet.transport.solvers import dispatch, library
from cophenet.transport.solvers.decorators import borrowed
from cophenet.transport.solvers.kernels import remove_cycles
from cophenet.transport.solvers.problem import WHOLE, CostStrip, PairProblems, integer_shares, run_all

SOLVERS = {"numba": dispatch.solve, "pot": library.solve}


def solve_pair(solve, cost, a=None, b=None):
    """Plan (dense) of one pair by one of the solvers, with checks that every plan must pass."""
    m, n = cost.shape
    starts = np.array([0, m, m + n])
    shares = None if a is None else integer_shares(np.concatenate((a, b)), starts)
    pair = np.zeros(1, dtype=np.int64)
    problems = PairProblems.empty(starts, pair, pair + 1, shares, cost.dtype)
    solve(problems, CostStrip(cost, 0, m), pair, None)
    dense = np.zeros((m, n))
    np.add.at(dense, (problems.source, problems.target - m), problems.mass)
    assert (problems.mass >= 0).all()
    assert np.count_nonzero(problems.mass) <= m + n - 1
    np.testing.assert_array_equal(problems.distance, cost[problems.source, problems.target - m])
    rows, columns = (np.full(m, 1 / m), np.full(n, 1 / n)) if a is None else (a / a.sum(), b / b.sum())
    np.testing.assert_allclose(dense.sum(1), rows, rtol=0, atol=1e-15 * (m + n))
    np.testing.assert_allclose(dense.sum(0), columns, rtol=0, atol=1e-15 * (m + n))
    return dense


def optimum(cost, a=None, b=None):
    m, n = cost.shape
    a = np.full(m, 1 / m) if a is None else a / a.sum()
    b = np.full(n, 1 / n) if b is None else b / b.sum()
    # POT asks for equal sums to the last bit or so; it is given float64 throughout.
    return float(ot.emd2(a, b * (a.sum() / b.sum()), cost, numItermax=10**7))


@st.composite
def problems_of_two(draw, largest=14):
    """Costs that are distances, whole numbers (ties), or of duplicated points; weights of many kinds."""
    m, n = draw(st.integers(1, largest)), draw(st.integers(1, largest))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from(["points", "ties", "duplicates", "zero", "huge"]))
    x, y = rng.standard_normal((m, 3)), rng.standard_normal((n, 3))
    if kind == "duplicates":
        x, y = x[rng.integers(0, max(1, m // 3), m)], y[rng.integers(0, max(1, n // 3), n)]
    cost = np.linalg.norm(x[:, None] - y[None], axis=2)
    if kind == "ties":
        cost = rng.integers(0, 4, (m, n)).astype(np.float64)
    cost *= {"zero": 0.0, "huge": 1e12}.get(kind, 1.0)
    weights = []
    weighting = draw(st.sampled_from(["uniform", "random", "tiny", "zeros"]))
    for size in (m, n):
        w = rng.exponential(size=size)
        if weighting == "tiny":
            w = 10.0 ** -rng.uniform(0, 30, size)
        if weighting == "zeros":
            w[rng.permutation(size)[: size // 2]] = 0
        weights.append(None if weighting == "uniform" else w)
    return cost, *weights


@pytest.mark.parametrize("solver", SOLVERS)
@settings(max_examples=250, deadline=None)
@given(problem=problems_of_two())
def test_small_pairs_reach_the_optimum_of_pot(solver, problem):
    cost, a, b = problem
    plan = solve_pair(SOLVERS[solver], cost, a, b)
    assert (plan * cost).sum() == pytest.approx(optimum(cost, a, b), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("m", "n"), [(30, 31), (44, 45), (60, 60), (90, 110), (1, 400), (200, 160), (700, 3)]
)
def test_larger_pairs_reach_the_optimum_of_pot(solver, weighted, m, n):
    rng = np.random.default_rng(m + n)
    cost = np.linalg.norm(rng.standard_normal((m, 1, 5)) - rng.standard_normal((1, n, 5)), axis=2)
    a, b = (rng.exponential(size=m), rng.exponential(size=n)) if weighted else (None, None)
    plan = solve_pair(SOLVERS[solver], cost, a, b)
    assert (plan * cost).sum() == pytest.approx(optimum(cost, a, b), rel=1e-9)


@pytest.mark.parametrize("solver", SOLVERS)
def test_two_thousand_samples_in_one_dimension(solver):
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal(2000), rng.standard_normal(2000)
    cost = np.abs(x[:, None] - y)
    plan = solve_pair(SOLVERS[solver], cost)
    assert (plan * cost).sum() == pytest.approx(np.abs(np.sort(x) - np.sort(y)).mean(), rel=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("m", "n"), [(12, 18), (40, 30), (64, 64)])
def test_many_ties_leave_a_sparse_plan(m, n, weighted):
    rng = np.random.default_rng(0)
    cost = rng.integers(0, 2, (m, n)).astype(np.float64)
    a, b = (rng.integers(1, 9, m) * 1.0, rng.integers(1, 9, n) * 1.0) if weighted else (None, None)
    plan = solve_pair(dispatch.solve, cost, a, b)
    assert (plan * cost).sum() == pytest.approx(optimum(cost, a, b), abs=1e-12)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), m=st.integers(1, 9), n=st.integers(1, 9))
def test_removing_cycles_keeps_the_marginals(seed, m, n):
    flow = np.random.default_rng(seed).integers(0, 5, (n, m))
    rows, columns = flow.sum(0), flow.sum(1)
    remove_cycles(flow)
    assert (flow >= 0).all()
    assert np.count_nonzero(flow) <= m + n - 1
    np.testing.assert_array_equal(flow.sum(0), rows)
    np.testing.assert_array_equal(flow.sum(1), columns)


def test_float32_costs_are_solved_in_float64():
    rng = np.random.default_rng(0)
    cost = (1e4 + rng.random((9, 7))).astype(np.float32)
    starts, pair = np.array([0, 9, 16]), np.zeros(1, dtype=np.int64)
    problems = PairProblems.empty(starts, pair, pair + 1, None, cost.dtype)
    dispatch.solve(problems, CostStrip(cost, 0, 9), pair, None)
    wide = cost.astype(np.float64)
    plan_cost = (problems.mass.astype(np.float64) * wide[problems.source, problems.target - 9]).sum()
    # The masses are rounded to float32 at the end, no more.
    assert plan_cost - 1e4 * problems.mass.astype(np.float64).sum() == pytest.approx(
        optimum(wide) - 1e4, abs=1e-6
    )


def test_shares_are_whole_and_complete():
    weights = np.array([1e-300, 1.0, 0.0, 3.0, 3.0, 3.0])
    shares = integer_shares(weights, np.array([0, 3, 6]))
    assert shares[:3].tolist() == [0, WHOLE, 0]
    assert shares[3:].sum() == WHOLE
    assert np.ptp(shares[3:]) <= 1


def test_a_failed_solve_names_the_sizes(monkeypatch):
    monkeypatch.setattr("ot.lp.emd_wrap.emd_c", lambda *_: (np.zeros((3, 4)), 0.0, None, None, 3))
    with pytest.raises(RuntimeError, match=r"3 and 4 samples \(status 3\)"):
        solve_pair(library.solve, np.ones((3, 4)))


def test_an_error_in_a_thread_is_raised():
    from concurrent.futures import ThreadPoolExecutor

    def fail(part):
        raise RuntimeError(f"part {part}")

    with ThreadPoolExecutor(2) as pool, pytest.raises(RuntimeError, match="part"):
        run_all(fail, [np.arange(2)], pool)


def test_borrowed_arrays_are_read_and_written_and_stay_owned():
    @njit
    def double(wholes, parts):
        wholes = borrowed(wholes)
        for i in range(len(wholes)):
            row = wholes[i]
            row *= 2.0
        one, (other, _) = borrowed(parts)
        one[0], other[0] = other[0], one[0]

    table, numbers = np.ones((3, 2)), [np.arange(2), np.arange(5, 7), np.ones(1)]
    owners = [sys.getrefcount(array) for array in (table, *numbers)]
    for _ in range(3):
        double(table, (numbers[0], (numbers[1], numbers[2])))
    assert [sys.getrefcount(array) for array in (table, *numbers)] == owners
    assert (table == 8).all()
    assert [numbers[0].tolist(), numbers[1].tolist()] == [[5, 1], [0, 6]]


def test_solvers_neither_keep_nor_lose_arrays():
    rng = np.random.default_rng(0)
    cost = rng.random((24, 24))
    starts, first, second = np.array([0, 4, 9, 24]), np.array([0, 0, 1]), np.array([1, 2, 2])
    problems = PairProblems.empty(starts, first, second, None, cost.dtype)
    arrays = (cost, starts, first, second, problems.source, problems.target, problems.mass, problems.distance)
    owners = [sys.getrefcount(array) for array in arrays]
    for _ in range(50):
        dispatch.solve(problems, CostStrip(cost, 0, 0), np.arange(3), None)
    assert [sys.getrefcount(array) for array in arrays] == owners
