"""The exact earth mover's distance: golden numbers, closed forms, bounds, gradients."""

import itertools
import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import ot
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cophenet.transport import emd as emd_module
from cophenet.transport.base import create_distance
from cophenet.transport.emd import EMD
from cophenet.transport.fastft import FastFlowTree
from cophenet.transport.grouping import group_by_class
from cophenet.transport.solvers import dispatch, library, machine_code
from cophenet.transport.warm_up import warm_up

GOLDEN = Path(__file__).resolve().parents[3] / "shared" / "golden"
FLOW_WEIGHTS = {0: "uniform", 1: "distance", 2: "inverse"}

# POT's value for seven against seven samples of unequal weight: case emd2_s1_weighted of the golden numbers.
SEVEN_X = """
0.31678345739300906 -0.4934170968496873 1.217945810732723 0.43677076291530953
-0.7276926737493439 0.4303074387970929 -0.686665322407783 -0.45301800688497423
-0.7328592057475519 -0.7536274296613148 -0.8325189244516618 0.44987186700987064
1.8075230399832747 -0.4895313637067342 0.8815887432384311 -0.6983408720762916
-0.04997470437498782 1.9075223632308842 -0.3276226741106594 1.150031852142896
-0.448680178909367 -1.0893038649387463 3.1536883150948114 0.43117868731923215
0.7338898513139304 -0.5882106044374845 -0.26371766368575805 -0.713346280395537
"""
SEVEN_Y = """
1.5703094769713268 2.0752895341817688 2.078919803466886 2.032856886806126
0.3034371658131827 1.5579262287021858 1.082520977120506 0.5285699654205713
1.0638483788506825 -0.07036801185354058 -0.1444967224744167 -0.5739730062037154
2.2681847600299987 1.7823812287095742 1.4109907727734445 1.6277361990536674
2.668370450017948 1.372604503726675 0.47924114239563953 -2.3295658127859333
1.6951755373519002 -0.07735609636066076 3.062781980035245 0.03258192248456704
0.6956502110723349 1.6715369350351146 1.0031650386447215 -0.06120932554530667
"""
SEVEN_A = (
    "0.17613575775139487 0.026799844937380312 0.02532591133461553 0.20993325969864474 0.11752927742696145 \
0.24515145334845337 0.19912449550254957"
)
SEVEN_B = "0.11768272301928981 0.10891939926802206 0.24519803413559108 0.02853174383378827 0.185131718194648 \
0.17312721918461194 0.141409162364049"
SEVEN_VALUE = 2.173311897713001


def golden_cases(file, wanted):
    path = GOLDEN / file
    cases = json.loads(path.read_text())["cases"] if path.exists() else []
    return [pytest.param(case, id=case["name"]) for case in cases if wanted(case)]


def numbers(text):
    return torch.tensor(
        [[float(x) for x in line.split()] for line in text.strip().splitlines()], dtype=torch.float64
    )


def between(x, y, weights="uniform", solver="auto"):
    """Distance of two clouds."""
    labels = torch.tensor([0] * len(x) + [1] * len(y))
    return EMD(solver)(group_by_class(torch.cat((x, y)), labels, flow_weights=weights))[0]


def random_batch(seed, counts, d=3):
    rng = np.random.default_rng(seed)
    labels = torch.from_numpy(rng.permutation(np.repeat(np.arange(len(counts)), counts)))
    return (
        torch.from_numpy(rng.standard_normal((sum(counts), d))),
        labels,
        torch.from_numpy(rng.random(sum(counts))),
    )


def slow_loop(z, labels, weights):
    """What a user would write; the plan is a constant."""
    values = []
    for u, v in itertools.combinations(labels.unique().tolist(), 2):
        cost = torch.linalg.vector_norm(z[labels == u][:, None] - z[labels == v][None], dim=2)
        a, b = weights[labels == u], weights[labels == v]
        plan = ot.emd((a / a.sum()).numpy(), (b / b.sum()).numpy(), cost.detach().numpy())
        values.append((torch.from_numpy(plan) * cost).sum())
    return torch.stack(values)


@pytest.mark.parametrize(
    "case",
    golden_cases(
        "cpcc.json", lambda c: c["inputs"].get("metric") == "emd" and c["expected"]["grad_features"]
    ),
)
@pytest.mark.parametrize("solver", ["numba", "pot"])
def test_golden_losses_and_gradients(case, solver):
    inputs, expected = case["inputs"], case["expected"]
    z = torch.tensor(inputs["features"], dtype=torch.float64, requires_grad=True)
    weights = FLOW_WEIGHTS[inputs.get("emd_weights", 0)]
    rho = EMD(solver)(group_by_class(z, torch.tensor(inputs["fine_labels"]), flow_weights=weights))
    tree = torch.tensor(expected["tree_distances"], dtype=torch.float64)
    loss = 1 - torch.corrcoef(torch.stack((rho, tree)))[0, 1]
    loss.backward()
    distances = torch.tensor(expected["pairwise_class_distances"], dtype=torch.float64)
    torch.testing.assert_close(rho.detach(), distances, rtol=1e-9, atol=1e-12)
    assert loss.item() == pytest.approx(expected["loss"], abs=1e-9)
    gradient = torch.tensor(expected["grad_features"], dtype=torch.float64)
    torch.testing.assert_close(z.grad, gradient, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("case", golden_cases("sliced.json", lambda c: c["name"].startswith("emd2")))
@pytest.mark.parametrize("solver", ["numba", "pot"])
def test_golden_pairs(case, solver):
    x, y, a, b = (torch.tensor(case["inputs"][key], dtype=torch.float64) for key in ("X", "Y", "a", "b"))
    value = between(x, y, torch.cat((a, b)), solver)
    assert value.item() == pytest.approx(case["expected"]["value"], rel=1e-9)


@pytest.mark.parametrize("solver", ["numba", "pot"])
def test_golden_pair_kept_here(solver):
    weights = torch.cat((numbers(SEVEN_A)[0], numbers(SEVEN_B)[0]))
    value = between(numbers(SEVEN_X), numbers(SEVEN_Y), weights, solver)
    assert value.item() == pytest.approx(SEVEN_VALUE, rel=1e-9)


@pytest.mark.parametrize("solver", ["numba", "pot"])
@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    counts=st.lists(st.integers(1, 7), min_size=2, max_size=5),
    weighted=st.booleans(),
)
def test_batched_equals_slow_loop(solver, seed, counts, weighted):
    z, labels, weights = random_batch(seed, counts)
    weights = weights if weighted else torch.ones_like(weights)
    direction = torch.from_numpy(
        np.random.default_rng(seed).standard_normal(len(counts) * (len(counts) - 1) // 2)
    )
    results = []
    for function in (slow_loop, lambda *args: EMD(solver)(group_by_class(*args[:2], flow_weights=args[2]))):
        features = z.clone().requires_grad_()
        rho = function(features, labels, weights)
        (rho @ direction).backward()
        results.append((rho.detach(), features.grad))
    torch.testing.assert_close(results[0], results[1], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("solver", ["numba", "pot"])
@pytest.mark.parametrize("weighted", [False, True])
def test_strips_and_threads_change_nothing(solver, weighted, monkeypatch):
    z, labels, weights = random_batch(0, [40, 1, 33, 30, 8, 52, 1, 33, 90])
    batch = group_by_class(z, labels, flow_weights=weights if weighted else "uniform")
    whole, whole_plan = EMD(solver).with_plan(batch)
    for name, value in (("_STRIP_ROWS", 50), ("_STRIP_ELEMENTS", 5000), ("_THREAD_ELEMENTS", 1)):
        monkeypatch.setattr(emd_module, name, value)
    monkeypatch.setattr("cophenet.transport.solvers.dispatch._CALL_PRODUCTS", 1000)
    for module in ("cophenet.transport.emd", "cophenet.transport.solvers.dispatch"):
        monkeypatch.setattr(f"{module}.thread_count", lambda: 2)
    narrow, narrow_plan = EMD(solver).with_plan(batch)
    torch.testing.assert_close(narrow, whole, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(narrow_plan.mass, whole_plan.mass)


def test_any_pairs_in_any_order():
    z, labels, _ = random_batch(0, [3, 5, 1, 4])
    batch = group_by_class(z, labels)
    full = EMD()(batch)
    turned = replace(batch, first=batch.second[::-1].copy(), second=batch.first[::-1].copy())
    value, plan = EMD().with_plan(turned)
    torch.testing.assert_close(value, full.flip(0))
    segments = batch.segments.numpy()
    owner = np.repeat(np.arange(turned.num_pairs), np.diff(plan.offsets))
    np.testing.assert_array_equal(segments[plan.source.numpy()], turned.first[owner])
    np.testing.assert_array_equal(segments[plan.target.numpy()], turned.second[owner])


@pytest.mark.parametrize("solver", ["numba", "pot"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scheme", ["uniform", "distance", "inverse"])
def test_plan_is_sparse_and_has_the_marginals(solver, dtype, scheme):
    z, labels, _ = random_batch(1, [6, 9, 1, 6, 4])
    batch = group_by_class(z.to(dtype), labels, flow_weights=scheme)
    plan = EMD(solver).plan(batch)
    assert plan.mass.dtype == dtype
    mass = batch.mass.double()
    for pair, (u, v) in enumerate(zip(batch.first, batch.second, strict=True)):
        entries = slice(plan.offsets[pair], plan.offsets[pair + 1])
        for side, c in ((plan.source, u), (plan.target, v)):
            sums = torch.zeros_like(mass).index_add_(0, side[entries], plan.mass[entries].double())
            wanted = torch.where(batch.segments == c, mass, 0.0)
            torch.testing.assert_close(sums, wanted, rtol=0, atol=8 * torch.finfo(dtype).eps)
        assert (plan.mass[entries] > 0).sum() <= batch.counts[u] + batch.counts[v] - 1


def test_one_dimension_is_sorted_matching():
    x, y = torch.randn(40, 1, dtype=torch.float64), torch.randn(40, 1, dtype=torch.float64)
    torch.testing.assert_close(between(x, y), (x.sort(0).values - y.sort(0).values).abs().mean())


@pytest.mark.parametrize("count", [1, 2, 17])
def test_a_translate_is_as_far_as_the_shift(count):
    x, shift = torch.randn(count, 6, dtype=torch.float64), torch.randn(6, dtype=torch.float64)
    weights = torch.rand(count, dtype=torch.float64) + 0.1
    torch.testing.assert_close(between(x, x + shift), shift.norm())
    torch.testing.assert_close(between(x, x + shift, torch.cat((weights, weights))), shift.norm())


def test_diracs_and_single_samples():
    z = torch.tensor([[0.0, 0.0], [3.0, 4.0], [3.0, 4.0], [0.0, 0.0], [3.0, 4.0]], dtype=torch.float64)
    assert EMD()(group_by_class(z, torch.tensor([0, 1, 1, 2, 2]))).tolist() == [5.0, 2.5, 2.5]
    z = torch.randn(6, 4, dtype=torch.float64)
    torch.testing.assert_close(EMD()(group_by_class(z, torch.arange(6))), torch.pdist(z))


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    m=st.integers(1, 8),
    n=st.integers(1, 8),
    scheme=st.sampled_from(["uniform", "distance"]),
)
def test_between_the_means_and_any_plan_and_symmetric(seed, m, n, scheme):
    z, labels, _ = random_batch(seed, [m, n])
    batch = group_by_class(z, labels, flow_weights=scheme)
    value = EMD()(batch)
    means = batch.means()
    assert (means[0] - means[1]).norm() <= value + 1e-12
    assert value <= FastFlowTree()(batch) + 1e-12
    torch.testing.assert_close(value, EMD()(group_by_class(z, 1 - labels, flow_weights=scheme)))


@pytest.mark.parametrize("weighted", [False, True])
def test_gradcheck(weighted):
    z, labels, weights = random_batch(3, [3, 4, 1, 3])

    def value(features):
        return EMD()(group_by_class(features, labels, flow_weights=weights if weighted else "uniform"))

    assert torch.autograd.gradcheck(value, z.requires_grad_())


@pytest.mark.parametrize("solver", ["numba", "pot"])
def test_coincident_samples_have_finite_gradients(solver):
    z = torch.zeros(9, 3, dtype=torch.float64)
    z[4] = 1.0
    z.requires_grad_()
    rho = EMD(solver)(group_by_class(z, torch.tensor([0, 0, 0, 1, 1, 1, 1, 2, 2])))
    rho.sum().backward()
    torch.testing.assert_close(rho[0], torch.tensor(3.0, dtype=torch.float64).sqrt() / 4)
    assert torch.isfinite(z.grad).all()
    assert z.grad[4].abs().sum() > 0


@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_float32_on_tight_classes_far_from_the_origin(offset):
    z, labels, _ = random_batch(5, [5, 7, 6], d=16)
    z = (z + offset).float()
    results = []
    for features in (z.clone().requires_grad_(), z.double().requires_grad_()):
        rho = EMD()(group_by_class(features, labels))
        rho.sum().backward()
        results.append((rho.detach().double(), features.grad.double()))
    torch.testing.assert_close(results[0], results[1], rtol=1e-4, atol=1e-5)


def test_one_class_has_no_pairs():
    z = torch.randn(3, 2, requires_grad=True)
    rho, plan = EMD().with_plan(group_by_class(z, torch.zeros(3, dtype=torch.long)))
    rho.sum().backward()
    assert rho.shape == (0,)
    assert plan.mass.shape == (0,)
    assert z.grad.abs().sum() == 0


def test_by_name_and_wrong_options(monkeypatch):
    assert isinstance(create_distance("emd", solver="pot"), EMD)
    with pytest.raises(ValueError, match="solver must be one of auto, numba, pot, got 'cplex'"):
        EMD("cplex")
    monkeypatch.setattr(machine_code, "why_none", machine_code.why_none.__wrapped__)
    monkeypatch.setattr(machine_code, "find_spec", lambda _: None)
    with pytest.raises(ImportError, match=r"pip install cophenet\[fast\]"):
        EMD("numba")
    z = torch.tensor([[0.0], [1.0], [3.0]])
    assert EMD("auto")(group_by_class(z, torch.tensor([0, 0, 1]))).tolist() == [2.5]


def test_a_numba_that_does_not_work_is_none(tmp_path):
    (tmp_path / "numba.py").write_text("raise ImportError('wrong NumPy')")
    code = """
import torch
from cophenet import class_distances
from cophenet.transport.solvers import machine_code
z, labels = torch.tensor([[0.0], [1.0], [3.0]]), torch.tensor([0, 0, 1])
machine_code._COLD_CALLS = 0
for name in ("l2", "emd", "ft"):
    assert class_distances(z, labels, name)[1].tolist() == [2.5]
print(machine_code.why_none())
"""
    path = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}
    )
    assert "numba does not work here (wrong NumPy)" in done.stdout, done.stderr


def test_where_machine_code_cannot_be_kept_others_solve():
    code = """
import numba.core.caching
numba.core.caching.CacheImpl._locator_classes = []  # no folder can be written
import torch
from cophenet import class_distances
from cophenet.transport.emd import EMD
z, labels = torch.tensor([[0.0], [1.0], [3.0]]), torch.tensor([0, 0, 1])
assert class_distances(z, labels, "emd")[1].tolist() == [2.5] == class_distances(z, labels, "ft")[1].tolist()
EMD("numba")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "ImportError: solver='numba' cannot be used: set NUMBA_CACHE_DIR" in done.stderr


def test_warm_up_tells_the_seconds():
    assert warm_up() >= 0
    assert machine_code.is_compiled()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_both_solvers_give_the_same_bits(dtype, weighted):
    z, labels, weights = random_batch(3, [4, 1, 6, 4, 9, 2, 6, 30, 1])
    results = []
    for solver in ("numba", "pot"):
        features = z.to(dtype).requires_grad_()
        rho = EMD(solver)(
            group_by_class(features, labels, flow_weights=weights.to(dtype) if weighted else "uniform")
        )
        rho.square().sum().backward()
        results.append((rho.detach(), features.grad))
    torch.testing.assert_close(*results, rtol=0, atol=0)


@pytest.fixture
def never_compiled(monkeypatch, tmp_path):
    """A machine on which the kernels have never been compiled; the processes begun to do so."""
    begun = []

    class Process:
        returncode = None

        def __init__(self, *_, **__):
            begun.append(self)

        def poll(self):
            return self.returncode

    monkeypatch.setattr(machine_code, "_marker", lambda: tmp_path / "compiled")
    monkeypatch.setattr(machine_code, "_compiler", None)
    monkeypatch.setattr(machine_code.subprocess, "Popen", Process)
    return begun, tmp_path / "compiled"


def test_the_first_use_does_not_wait_for_the_compiler(never_compiled):
    begun, marker = never_compiled
    with pytest.warns(UserWarning, match="until their loops are compiled"):
        assert emd_module._load("auto") is library.solve
    assert emd_module._load("auto") is library.solve  # without another word or process
    assert len(begun) == 1
    marker.touch()
    assert emd_module._load("auto") is dispatch.solve


def test_a_compiler_that_cannot_be_started_is_told_once(never_compiled, monkeypatch):
    def refuse(*_, **__):
        raise BlockingIOError("too many processes")

    monkeypatch.setattr(machine_code.subprocess, "Popen", refuse)
    with pytest.warns(UserWarning, match=r"no process can be started \(too many processes\)"):
        assert emd_module._load("auto") is library.solve
    assert emd_module._load("auto") is library.solve
    never_compiled[1].touch()  # by another process
    assert emd_module._load("auto") is dispatch.solve


def test_loops_of_the_host_are_used_once_they_are_compiled_meanwhile(never_compiled, monkeypatch):
    monkeypatch.setattr(machine_code, "_COLD_CALLS", 0)
    machine_code._loops.cache_clear()
    assert machine_code.loops_when_hot() is None
    never_compiled[1].touch()
    assert machine_code.is_compiled_meanwhile()
    assert machine_code.loops_when_hot() is not None
    machine_code._loops.cache_clear()


def test_a_compiler_that_still_runs_at_exit_is_no_leak():
    code = """
from pathlib import Path
from cophenet.transport.solvers import machine_code
machine_code._marker = lambda: Path("nowhere")
machine_code._CODE = "import time; time.sleep(1)"
machine_code.is_compiled_meanwhile()
assert machine_code._compiler.poll() is None
"""
    done = subprocess.run([sys.executable, "-W", "always", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0
    assert "by SciPy and POT" in done.stderr
    assert "ResourceWarning" not in done.stderr


def test_a_failed_compiler_is_told_once(never_compiled):
    begun, _ = never_compiled
    with pytest.warns(UserWarning, match="by SciPy and POT"):
        emd_module._load("auto")
    begun[0].returncode = 1
    with pytest.warns(UserWarning, match="could not be compiled; `cophenet warm-up` says why"):
        emd_module._load("auto")
    assert emd_module._load("auto") is library.solve


def test_one_process_at_a_time_compiles(never_compiled):
    _, marker = never_compiled
    calls, inside = [], threading.Event()

    def kernels():
        calls.append(1)
        inside.set()
        time.sleep(0.3)

    def both():
        other = threading.Thread(target=machine_code.compile_once, args=(kernels,))
        other.start()
        inside.wait()
        machine_code.compile_once(kernels)  # waits for the other, and finds the work done
        other.join()

    with pytest.warns(UserWarning, match="once on this machine"):
        both()
    assert len(calls) == 1
    assert marker.exists()
