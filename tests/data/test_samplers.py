import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader, TensorDataset

from cophenet import Hierarchy
from cophenet.data import ArrayInputs, HierarchicalBatchSampler, Loader, Samples
from cophenet.data.samplers import enough_rows, fill_up

TREE = Hierarchy.from_paths([(f"p{c // 3}", f"c{c}") for c in range(12)])
LABELS = np.random.default_rng(0).permutation(np.repeat(np.arange(12), np.arange(5, 17)))


def make(labels=LABELS, tree=TREE, classes=6, samples=3, parents=2, **options):
    return HierarchicalBatchSampler(labels, tree, classes, samples, parents, **options)


@st.composite
def problems(draw):
    """A tree, labels and settings that are possible."""
    children = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    tree = Hierarchy.from_paths([(f"p{p}", f"c{p}-{c}") for p, n in enumerate(children) for c in range(n)])
    samples = draw(st.integers(1, 4))
    counts = draw(st.lists(st.integers(samples, 25), min_size=sum(children), max_size=sum(children)))
    labels = np.repeat(np.arange(sum(children)), counts)
    labels = np.random.default_rng(draw(st.integers(0, 9))).permutation(labels)
    if draw(st.booleans()):
        return labels, tree, draw(st.integers(1, sum(children))), samples, None
    parents = draw(st.integers(1, len(children)))
    return labels, tree, parents * draw(st.integers(1, min(children))), samples, parents


@given(problems(), st.integers(0, 3), st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_every_batch_is_as_asked_and_every_sample_comes(problem, seed, epoch):
    labels, tree, classes, samples, parents = problem
    sampler = HierarchicalBatchSampler(*problem, seed=seed)
    plan = sampler.plan(epoch)
    assert plan.shape == (len(sampler), classes * samples)
    assert set(plan.ravel().tolist()) == set(range(len(labels)))
    above = tree.parents[tree.leaves]
    for batch in plan:
        assert len(set(batch.tolist())) == len(batch)
        present, counts = np.unique(labels[batch], return_counts=True)
        assert (len(present), set(counts.tolist())) == (classes, {samples})
        if parents is not None:
            _, per_parent = np.unique(above[present], return_counts=True)
            assert (len(per_parent), set(per_parent.tolist())) == (parents, {classes // parents})


@given(problems())
@settings(max_examples=40, deadline=None)
def test_no_shorter_epoch_would_do(problem):
    labels, tree, classes, samples, parents = problem
    sampler = HierarchicalBatchSampler(*problem)
    # What one batch fewer could hold: of each class, of each parent, of all.
    visits = -(-np.bincount(labels) // samples)
    per_parent = classes // (parents or 1)
    group = tree.parents[tree.leaves] if parents else np.zeros_like(visits)
    rows = [max(visits[group == g].max(), -(-visits[group == g].sum() // per_parent)) for g in set(group)]
    assert len(sampler) == max(*rows, -(-sum(rows) // (parents or 1)), 1)


@given(st.lists(st.integers(0, 30), min_size=1, max_size=12), st.integers(1, 12), st.integers(0, 5))
@settings(deadline=None)
def test_places_left_over_go_to_the_least_visited(needs, per_row, extra):
    needs = np.array(needs)
    per_row = min(per_row, len(needs))
    rows = enough_rows(needs, per_row) + extra
    visits = fill_up(needs, per_row, rows, np.random.default_rng(0))
    assert visits.sum() == rows * per_row
    assert (visits >= needs).all()
    assert visits.max() <= rows
    raised = visits[visits > needs]
    assert not len(raised) or raised.max() - visits.min() <= 1


def test_batches_depend_on_seed_and_epoch_alone():
    sampler = make(seed=4)
    np.random.default_rng(0).random(3)
    assert np.array_equal(sampler.plan(2), make(seed=4).plan(2))
    assert not np.array_equal(sampler.plan(2), sampler.plan(3))
    assert not np.array_equal(sampler.plan(2), make(seed=5).plan(2))


def test_company_of_a_class_changes_within_an_epoch():
    batches = [frozenset(LABELS[batch]) for batch in make(classes=3, parents=None)]
    assert len(set(batches)) > len(batches) * 0.8


def test_large_classes_are_spread_over_the_epoch():
    labels = np.repeat(np.arange(12), [200] + [6] * 11)
    has = np.array([0 in labels[batch] for batch in make(labels, classes=2, samples=2, parents=None)])
    assert has.all()  # it is what makes the epoch long
    labels = np.repeat(np.arange(12), [60] + [30] * 11)
    has = np.array([0 in labels[batch] for batch in make(labels, classes=2, samples=2, parents=None)])
    early, late = has[: len(has) // 2].sum(), has[len(has) // 2 :].sum()
    assert min(early, late) > has.sum() / 5


@pytest.mark.parametrize("world_size", [2, 3, 5])
def test_shards_in_order_of_rank_are_the_batch(world_size):
    ranks = [make(rank=rank, world_size=world_size) for rank in range(world_size)]
    for sampler in ranks:
        sampler.set_epoch(1)
    whole = make().plan(1).tolist()
    shards = zip(*ranks, strict=True)
    assert [list(itertools.chain(*step)) for step in shards] == whole
    assert {len(sampler) for sampler in ranks} == {len(whole)}


def test_an_interrupted_epoch_goes_on_where_it_was():
    sampler = make()
    sampler.set_epoch(2)
    whole = list(sampler)
    assert sampler.state_dict() == {"epoch": 3, "start": 0}
    sampler.set_epoch(2)
    first = list(itertools.islice(sampler, 4))
    state = sampler.state_dict()
    assert state == {"epoch": 2, "start": 4}
    resumed = make()
    resumed.load_state_dict(state)
    assert first + list(resumed) == whole
    assert list(resumed) == make().plan(3).tolist()
    assert list(itertools.islice(sampler, 4)) == first  # a new iteration begins anew
    with pytest.raises(ValueError, match=f"start must not exceed the {len(whole)} batches of an epoch"):
        sampler.set_epoch(0, len(whole) + 1)


@pytest.mark.parametrize("workers", [0, 1])
def test_it_serves_a_data_loader(workers):
    data = TensorDataset(torch.arange(len(LABELS)))
    loader = DataLoader(data, batch_sampler=make(seed=1), num_workers=workers)
    assert len(loader) == len(make())
    assert [rows.tolist() for (rows,) in loader] == make(seed=1).plan(0).tolist()


def test_it_serves_the_loader():
    inputs = ArrayInputs(torch.arange(float(len(LABELS)))[:, None])
    samples = Samples(inputs, np.arange(len(LABELS)), LABELS, TREE)
    sampler = make(seed=1, rank=1, world_size=2)
    loader = Loader(samples, 18, sampler=sampler)
    plan = sampler.plan(3)
    assert len(loader) == len(plan)
    batches = list(loader.batches(3, 2))
    assert torch.equal(torch.stack([x for x, _ in batches])[:, :, 0].long(), torch.from_numpy(plan[2:]))
    assert torch.equal(torch.cat([y for _, y in batches]), torch.from_numpy(LABELS[plan[2:].ravel()]))
    halves = [Loader(samples, 18, sampler=sampler, rank=rank, world_size=2).batches(3) for rank in (0, 1)]
    assert [
        torch.cat((a, b)).flatten().tolist() for (a, _), (b, _) in zip(*halves, strict=True)
    ] == plan.tolist()


def test_repeated_samples_are_augmented_anew():
    images = ArrayInputs(torch.arange(4, dtype=torch.uint8).repeat_interleave(64).view(4, 1, 8, 8) * 60)
    images = ArrayInputs(images.values + torch.arange(64, dtype=torch.uint8).view(1, 1, 8, 8))
    labels = np.array([0, 1, 1, 1])
    tree = Hierarchy.from_paths([("a",), ("b",)])
    samples = Samples(images, np.arange(4), labels, tree)
    sampler = HierarchicalBatchSampler(labels, tree, 2, 1)
    loader = Loader(samples, 2, sampler=sampler, augment="cifar")
    alone = [x[y == 0] for x, y in loader]
    assert len(alone) == 3
    assert not torch.equal(alone[0], alone[1])
    again = [x[y == 0] for x, y in loader]
    assert all(torch.equal(a, b) for a, b in zip(alone, again, strict=True))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"classes": 13, "parents": None}, "classes_per_batch must not exceed the 12 classes .*, got 13"),
        ({"samples": 6}, "samples_per_class must not exceed .*: got 6, but class 'c0' has 5"),
        ({"classes": 5}, "classes_per_batch must be a multiple of parents_per_batch, got 5 and 2"),
        ({"parents": 6}, "parents_per_batch must not exceed the 4 parents .*, got 6"),
        (
            {"classes": 8},
            "every parent must have 4 classes with samples, .* but 'p0' has 3; a coarser level=",
        ),
        ({"parents": None, "level": 1}, "level says what a parent is; give parents_per_batch too, got 1"),
        ({"level": 3}, "level must be a depth from 1 to 2"),
        ({"samples": 0}, "samples_per_class must be a whole number of at least 1, got 0"),
        ({"seed": -1}, "seed must be a whole number"),
        ({"rank": 0}, "give both rank and world_size, or none of them; got 0 and None"),
        ({"rank": 2, "world_size": 2}, "rank must be below world_size 2, got 2"),
        ({"labels": np.array([12])}, r"labels must lie in 0\.\.11, the classes of the tree, got 12"),
        ({"labels": np.array([0.5])}, r"labels must be integers of shape \(n,\)"),
        ({"tree": "tree"}, "tree must be a cophenet.Hierarchy, got str"),
    ],
)
def test_impossible_settings_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        make(**options)


def test_the_loader_refuses_what_the_sampler_decides():
    samples = Samples(ArrayInputs(torch.zeros(len(LABELS), 1)), np.arange(len(LABELS)), LABELS, TREE)
    with pytest.raises(ValueError, match="batch_size must be the sampler's 18, got 7"):
        Loader(samples, 7, sampler=make())
    with pytest.raises(ValueError, match="shuffle and drop_last must be False with a sampler"):
        Loader(samples, 18, sampler=make(), shuffle=True)
    with pytest.raises(ValueError, match="sampler is for 126 samples, but there are 3"):
        Loader(samples.subset(np.arange(3)), 18, sampler=make())


def test_a_coarser_level_makes_larger_groups():
    tree = Hierarchy.from_paths([(f"g{c // 6}", f"p{c // 3}", f"c{c}") for c in range(12)])
    sampler = HierarchicalBatchSampler(LABELS, tree, 6, 2, 1, level=1)
    assert all(len(set(LABELS[batch] // 6)) == 1 for batch in sampler)
