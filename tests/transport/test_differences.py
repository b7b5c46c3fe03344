"""Lengths of differences and forces along them: by torch, and by compiled loops with the same bits."""

import math

import pytest
import torch

from cophenet.transport import differences, ground
from cophenet.transport.base import class_distances, create_distance
from cophenet.transport.differences import lengths_of_pairs, pair_cost, pull_pairs
from cophenet.transport.solvers import machine_code
from cophenet.transport.warm_up import warm_up
from support import random_batch, random_weights

DTYPES = [torch.float32, torch.float64]


def test_they_take_the_memory_of_one_part(monkeypatch):
    monkeypatch.setattr(differences, "_HOST_ELEMENTS", 12)
    z = torch.randn(9, 4, dtype=torch.float64)
    source, target = torch.randint(9, (2, 8))
    places, parts = [], []
    for gap, a, b in differences._gaps(z, source, target):
        torch.testing.assert_close(gap, z[a] - z[b], rtol=0, atol=0)
        places.append(gap.data_ptr())
        parts.append(len(gap))
    assert parts == [3, 3, 2]
    assert len(set(places)) == 1


@pytest.fixture
def compiled(monkeypatch):
    """Compiled loops, which are used for any number of pairs."""
    pytest.importorskip("numba")
    warm_up()
    monkeypatch.setattr(differences, "_LOOP_ELEMENTS", 0)


def states(monkeypatch):
    """By torch's operations, then by the loops."""
    for cold_calls in (math.inf, 0):
        monkeypatch.setattr(machine_code, "_COLD_CALLS", cold_calls)
        yield


def pairs(size, count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(size, (2, count), generator=generator)


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [*range(1, 34), 48, 63, 64, 65, 100, 512, 4096 + 31])
def test_lengths_and_forces_have_the_same_bits_at_any_time(monkeypatch, width, dtype):
    monkeypatch.setattr(differences, "_HOST_ELEMENTS", 10 * width)
    generator = torch.Generator().manual_seed(width)
    z = torch.randn(12, width, generator=generator, dtype=dtype)
    (source, target), pull = pairs(12, 57), torch.randn(57, generator=generator, dtype=dtype)
    results = []
    for _ in states(monkeypatch):
        out = torch.ones_like(z)
        pull_pairs(out, z, source, target, pull)
        results.append((lengths_of_pairs(z, source, target), out))
    torch.testing.assert_close(*results, rtol=0, atol=0)
    lengths, out = results[0]
    exact = z[source].double() - z[target].double()
    tolerance = {"rtol": 1e-5, "atol": 1e-5} if dtype == torch.float32 else {"rtol": 1e-12, "atol": 1e-12}
    torch.testing.assert_close(lengths.double(), exact.norm(dim=1), **tolerance)
    force = exact * pull.double()[:, None]
    expected = torch.ones_like(z).double().index_add_(0, source, force).index_add_(0, target, -force)
    torch.testing.assert_close(out.double(), expected, **tolerance)


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("threads", [2, 3, 7])
def test_threads_share_the_work_and_change_no_bit(monkeypatch, threads):
    monkeypatch.setattr(machine_code, "_COLD_CALLS", 0)
    z, (source, target), pull = torch.randn(5, 40), pairs(5, 30), torch.randn(30)
    results = []
    for count, limit in ((1, 1 << 60), (threads, 1)):
        monkeypatch.setattr(differences, "thread_count", lambda count=count: count)
        monkeypatch.setattr(differences, "_THREAD_ELEMENTS", limit)
        out = torch.zeros_like(z)
        pull_pairs(out, z, source, target, pull)
        results.append((lengths_of_pairs(z, source, target), out))
    torch.testing.assert_close(*results, rtol=0, atol=0)


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("sample", [-1, 4])
def test_samples_of_no_batch_are_refused(monkeypatch, sample, threads):
    monkeypatch.setattr(differences, "_THREAD_ELEMENTS", 1)
    monkeypatch.setattr(differences, "thread_count", lambda: threads)
    z, source, target = torch.randn(4, 3), torch.tensor([0, 1, sample]), torch.tensor([1, 2, 3])
    for _ in states(monkeypatch):
        for first, second in ((source, target), (target, source)):
            with pytest.raises(IndexError):
                lengths_of_pairs(z, first, second)
            with pytest.raises(IndexError):
                pull_pairs(torch.zeros_like(z), z, first, second, torch.ones(3))


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("name", "options"),
    [("fastft", {}), ("fastft", {"order": "principal", "n_orders": 2}), ("emd", {}), ("ft", {})],
    ids=str,
)
def test_distances_have_the_same_bits_at_any_time(monkeypatch, name, options, weighted, dtype):
    monkeypatch.setattr(ground, "_use_gram", lambda *_: False)
    z, labels = random_batch(3, [4, 1, 6, 4, 9, 2], 37)
    z, labels = z.cpu().to(dtype), labels.cpu()
    weights = random_weights(3, len(labels)).cpu().to(dtype) if weighted else "uniform"
    results = []
    for _ in states(monkeypatch):
        features = z.clone().requires_grad_()
        measure = create_distance(name, **options)
        rho = class_distances(features, labels, measure, flow_weights=weights)[1]
        (rho * torch.linspace(1, 2, len(rho), dtype=dtype)).sum().backward()
        results.append((rho.detach(), features.grad))
    torch.testing.assert_close(*results, rtol=0, atol=0)


def test_large_batches_need_few_calls_before_loops_are_loaded(monkeypatch):
    pytest.importorskip("numba")
    monkeypatch.setattr(machine_code, "_calls", 0)
    loaded = []
    monkeypatch.setattr(machine_code, "is_compiled_meanwhile", lambda: loaded.append(1) or False)
    z, (source, target) = torch.randn(4, 512), pairs(4, 50_000)
    calls = 0
    while not loaded:
        lengths_of_pairs(z, source, target)
        calls += 1
    assert 2 <= calls <= 4


def test_without_numba_torch_computes_them_as_on_a_device(monkeypatch):
    monkeypatch.setattr(differences, "_LOOP_ELEMENTS", 0)
    monkeypatch.setattr(differences, "why_none", lambda: "not installed")
    z, (source, target), pull = torch.randn(5, 40), pairs(5, 30), torch.randn(30)
    gaps, out = z[source] - z[target], torch.zeros_like(z)
    torch.testing.assert_close(lengths_of_pairs(z, source, target), gaps.norm(dim=1))
    pull_pairs(out, z, source, target, pull)
    force = gaps * pull[:, None]
    torch.testing.assert_close(
        out, torch.zeros_like(z).index_add_(0, source, force).index_add_(0, target, -force)
    )


@pytest.mark.parametrize(
    ("numba", "threads", "cost"), [(True, 1, 4), (True, 2, 6), (True, 16, 34), (False, 2, 64)]
)
def test_what_a_pair_costs_does_not_change_during_a_run(monkeypatch, numba, threads, cost):
    monkeypatch.setattr(differences, "why_none", lambda: None if numba else "not installed")
    monkeypatch.setattr(differences, "thread_count", lambda: threads)
    for _ in states(monkeypatch):
        assert pair_cost() == cost
