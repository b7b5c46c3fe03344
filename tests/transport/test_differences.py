"""Lengths of differences and forces along them, by torch and by compiled loops."""

import pytest
import torch

from cophenet.transport import base, differences, ground
from cophenet.transport.base import class_distances, create_distance, distance_names
from cophenet.transport.differences import lengths_of_pairs, pull_pairs
from cophenet.transport.solvers import machine_code
from cophenet.transport.warm_up import warm_up
from cophenet.tree import Hierarchy
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
def calls(monkeypatch):
    """Calls of compiled loops, which are used wherever they can be."""
    pytest.importorskip("numba")
    from cophenet.transport.solvers import difference_loops

    warm_up()
    monkeypatch.setattr(differences, "_LOOP_ELEMENTS", 0)
    seen = []
    for name in difference_loops.__all__:
        loop = getattr(difference_loops, name)

        def counted(*arrays, loop=loop, name=name):
            seen.append(name)
            loop(*arrays)

        monkeypatch.setattr(difference_loops, name, counted)
    return seen


def pairs(size, count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(size, (2, count), generator=generator)


def both_ways(monkeypatch, compute):
    """Results by compiled loops and by torch."""
    results = [compute()]
    monkeypatch.setattr(differences, "compiled_at_first_use", lambda: False)
    return [*results, compute()]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [1, 2, 7, 31, 32, 33, 100, 512])
def test_loops_and_torch_compute_the_same(monkeypatch, calls, width, dtype):
    monkeypatch.setattr(differences, "_HOST_ELEMENTS", 10 * width)
    generator = torch.Generator().manual_seed(width)
    z = torch.randn(12, width, generator=generator, dtype=dtype)
    (source, target), pull = pairs(12, 57), torch.randn(57, generator=generator, dtype=dtype)

    def compute():
        out = torch.ones_like(z)
        pull_pairs(out, z, source, target, pull)
        return lengths_of_pairs(z, source, target), out

    by_loops, by_torch = both_ways(monkeypatch, compute)
    assert calls == ["pull_rows", "lengths_of_pairs"]
    tolerance = {"rtol": 1e-5, "atol": 1e-5} if dtype == torch.float32 else {"rtol": 1e-12, "atol": 1e-12}
    exact = z[source].double() - z[target].double()
    force = exact * pull.double()[:, None]
    expected = torch.ones_like(z).double().index_add_(0, source, force).index_add_(0, target, -force)
    for lengths, out in (by_loops, by_torch):
        torch.testing.assert_close(lengths.double(), exact.norm(dim=1), **tolerance)
        torch.testing.assert_close(out.double(), expected, **tolerance)


@pytest.mark.parametrize("threads", [2, 3, 7])
def test_threads_share_the_work_and_change_no_bit(monkeypatch, calls, threads):
    z, (source, target), pull = torch.randn(5, 40), pairs(5, 30), torch.randn(30)
    results = []
    for count, limit in ((1, 1 << 60), (threads, 1)):
        calls.clear()
        monkeypatch.setattr(differences, "thread_count", lambda count=count: count)
        monkeypatch.setattr(differences, "_THREAD_ELEMENTS", limit)
        out = torch.zeros_like(z)
        pull_pairs(out, z, source, target, pull)
        results.append((lengths_of_pairs(z, source, target), out))
        assert len(calls) == 2 * count
    torch.testing.assert_close(*results, rtol=0, atol=0)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("sample", [-1, 4])
def test_samples_of_no_batch_are_refused(monkeypatch, calls, sample, threads):
    monkeypatch.setattr(differences, "_THREAD_ELEMENTS", 1)
    monkeypatch.setattr(differences, "thread_count", lambda: threads)
    z, source, target = torch.randn(4, 3), torch.tensor([0, 1, sample]), torch.tensor([1, 2, 3])

    def compute():
        for first, second in ((source, target), (target, source)):
            with pytest.raises(IndexError):
                lengths_of_pairs(z, first, second)
            with pytest.raises(IndexError):
                pull_pairs(torch.zeros_like(z), z, first, second, torch.ones(3))

    both_ways(monkeypatch, compute)
    assert calls


@pytest.mark.parametrize("enough", [0, 1 << 62])
def test_pairs_that_are_not_whole_are_refused(monkeypatch, calls, enough):
    monkeypatch.setattr(differences, "_LOOP_ELEMENTS", enough)
    z, (source, target) = torch.randn(6, 40), pairs(6, 30)

    def compute():
        for part in (target[:-1], target[:1]):
            with pytest.raises(IndexError, match="as many sources, targets and values"):
                lengths_of_pairs(z, source, part)
        with pytest.raises(IndexError, match="as many"):
            pull_pairs(torch.zeros_like(z), z, source, target, torch.ones(29))

    both_ways(monkeypatch, compute)
    assert not calls


@pytest.mark.parametrize(
    "change",
    [
        lambda z, s, t, p: (z.T.contiguous().T, s, t, p),
        lambda z, s, t, p: (torch._neg_view(z), s, t, p),
        lambda z, s, t, p: (z, s.repeat_interleave(2)[::2], t, p),
        lambda z, s, t, p: (z, s.int(), t.int(), p),
        lambda z, s, t, p: (z, s, t, p.double()),
        lambda z, s, t, p: (z, s, t, p.repeat_interleave(2)[::2]),
    ],
    ids=["transposed", "negated", "strided numbers", "int32", "another type", "strided values"],
)
def test_what_loops_cannot_read_is_left_to_torch(calls, change):
    z, source, target, pull = change(torch.randn(6, 40), *pairs(6, 30), torch.randn(30))
    out = torch.zeros_like(z)
    pull_pairs(out, z, source, target, pull)
    assert not calls
    force = (z[source] - z[target]) * pull[:, None].to(z.dtype)
    expected = torch.zeros_like(z).index_add_(0, source, force).index_add_(0, target, -force)
    torch.testing.assert_close(out, expected)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("name", "options"),
    [("fastft", {}), ("fastft", {"order": "principal", "n_orders": 2}), ("emd", {}), ("ft", {})],
    ids=str,
)
def test_distances_by_loops(monkeypatch, calls, name, options, weighted):
    monkeypatch.setattr(ground, "_use_gram", lambda *_: False)
    z, labels = random_batch(3, [4, 1, 6, 4, 9, 2], 37)
    z, labels = z.cpu().double(), labels.cpu()
    weights = random_weights(3, len(labels)).cpu().double() if weighted else "uniform"

    def compute():
        features = z.clone().requires_grad_()
        rho = class_distances(features, labels, create_distance(name, **options), flow_weights=weights)[1]
        (rho * torch.linspace(1, 2, len(rho), dtype=rho.dtype)).sum().backward()
        return rho.detach(), features.grad

    by_loops, by_torch = both_ways(monkeypatch, compute)
    assert set(calls) >= {"pull_rows"}
    torch.testing.assert_close(by_loops, by_torch, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("samples", "count", "width", "compiled", "product"),
    [
        (64, 1, 64, True, True),  # few samples
        (65, 1, 64, True, False),
        (600, 90_000, 64, True, True),  # whatever a pair costs
        (600, 30_001, 64, True, True),
        (600, 29_999, 64, True, False),
        (400, 3_000, 16, True, True),  # too little for loops
        (400, 3_000, 64, True, False),
        (600, 5_626, 64, False, True),
        (600, 5_624, 64, False, False),
        (4097, 1 << 30, 64, True, False),  # too much memory
    ],
)
def test_a_product_is_used_where_it_costs_less(monkeypatch, samples, count, width, compiled, product):
    monkeypatch.setattr(differences, "compiled_at_first_use", lambda: compiled)
    monkeypatch.setattr(differences, "thread_count", lambda: 2)
    z = torch.empty(samples, width)
    assert ground._use_gram(z, count) is product
    assert not ground._use_gram(z.to("meta"), count)


@pytest.mark.parametrize("classes", [30, 45, 60, 100])
def test_one_decision_whether_or_not_the_plan_is_known(monkeypatch, classes):
    asked = []
    monkeypatch.setattr(ground, "_use_gram", lambda z, entries: asked.append((len(z), entries)) or False)
    z, labels = torch.randn(128, 8), torch.arange(128) % classes
    class_distances(z, labels, "fastft")
    assert len(asked) > 1
    assert len(set(asked)) == 1


def test_distances_compile_ahead_what_they_compute_with(monkeypatch):
    compiled = []
    monkeypatch.setattr(base, "warm_up", lambda: compiled.append(1))
    monkeypatch.setattr(base, "why_none", lambda: None)
    tree = Hierarchy.from_paths([("a", "b"), ("a", "c")])
    for name in distance_names():
        compiled.clear()
        create_distance(name, tree).warm_up()
        assert bool(compiled) == (name in ("emd", "ft", "fastft", "sinkhorn", "twd")), name


def test_what_is_computed_does_not_change_while_a_process_runs(monkeypatch):
    compiled = [False, True]
    monkeypatch.setattr(machine_code, "is_compiled_meanwhile", lambda: compiled.pop(0))
    machine_code.compiled_at_first_use.cache_clear()
    assert [machine_code.compiled_at_first_use() for _ in range(3)] == [False] * 3
    machine_code.compiled_at_first_use.cache_clear()  # as after `warm_up`
    assert [machine_code.compiled_at_first_use() for _ in range(3)] == [True] * 3
    machine_code.compiled_at_first_use.cache_clear()
