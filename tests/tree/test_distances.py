from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cophenet.tree import Hierarchy

from .trees import animals, cifar100, slow_ancestor, slow_distances, trees


@settings(max_examples=100, deadline=None)
@given(tree=trees(max_nodes=25))
def test_path_distances(tree):
    fast = tree.distances()
    np.testing.assert_allclose(fast, slow_distances(tree), rtol=1e-12, atol=1e-9)
    assert (fast == fast.T).all()
    assert (np.diag(fast) == 0).all()
    assert fast.dtype == np.float64


@settings(max_examples=60, deadline=None)
@given(tree=trees(max_nodes=25))
def test_other_kinds(tree):
    height, similarity = tree.distances(kind="lca-height"), tree.distances(kind="wu-palmer")
    for one, u in enumerate(tree.leaves.tolist()):
        for other, v in enumerate(tree.leaves.tolist()):
            lowest = slow_ancestor(tree, u, v)
            assert height[one, other] == tree.heights[lowest]
            depth = tree.depths + 1
            assert similarity[one, other] == 2 * depth[lowest] / (depth[u] + depth[v])
    assert (np.diag(similarity) == 1).all()


@settings(max_examples=60, deadline=None)
@given(data=st.data(), kind=st.sampled_from(["path", "lca-height", "wu-palmer"]))
def test_chosen_classes(data, kind):
    tree = data.draw(trees(max_nodes=20))
    chosen = data.draw(st.lists(st.integers(0, tree.num_classes - 1), max_size=12))
    every = tree.distances(kind=kind)
    some = tree.distances(chosen, kind=kind)
    np.testing.assert_array_equal(some, every[np.ix_(chosen, chosen)])
    np.testing.assert_array_equal(tree.distances([tree.classes[label] for label in chosen], kind=kind), some)
    pairs = [some[i, j] for i, j in combinations(range(len(chosen)), 2)]
    np.testing.assert_array_equal(tree.condensed(chosen, kind=kind), pairs)


@given(tree=trees(max_nodes=12))
def test_classes_without_groups_are_equally_far_apart(tree):
    assert not tree.is_equidistant or np.ptp(tree.condensed()) <= 1e-9 * tree.condensed().max()


@pytest.mark.parametrize(
    ("paths", "equidistant"),
    [
        (["cat", "car"], True),
        (["pet/cat", "car"], True),  # any two classes
        (["cat", "dog", "car"], True),
        (["thing/cat", "thing/dog", "thing/car"], True),
        (["cat", "dog", "toy/car"], False),
        (["pet/cat", "pet/dog", "toy/car"], False),
    ],
)
def test_trees_without_groups(paths, equidistant):
    assert Hierarchy.from_paths(paths, sep="/").is_equidistant is equidistant


def test_ratios_of_a_two_level_tree():
    tree = cifar100()
    assert set(tree.condensed()) == {2.0, 4.0}
    assert set(tree.with_level_weights({"coarse": 2.0}).condensed()) == {2.0, 6.0}


def test_many_classes_without_a_table():
    tree = Hierarchy.from_paths([(f"g{label // 100}", f"c{label}") for label in range(20_000)])
    assert tree.condensed([19_999, 0, 1]).tolist() == [4.0, 4.0, 2.0]


@pytest.mark.parametrize(
    ("classes", "kind", "message"),
    [
        ([0], "cosine", "kind must be one of .*'path'.* got 'cosine'"),
        ([0, 4], "path", "labels from 0 to 3, got 4"),
        ([-1], "path", "labels from 0 to 3, got -1"),
        ([[0]], "path", "one-dimensional"),
        (["cow"], "path", "unknown class 'cow'"),
        ([0.5], "path", "unknown class 0.5"),
    ],
)
def test_bad_requests(classes, kind, message):
    with pytest.raises(ValueError, match=message):
        animals().distances(classes, kind=kind)


@settings(max_examples=150, deadline=None)
@given(data=st.data(), kind=st.sampled_from(["path", "lca-height", "wu-palmer"]))
def test_pairs_are_those_of_the_table(data, kind):
    tree = data.draw(trees(max_nodes=30))
    label = st.integers(0, tree.num_classes - 1)
    pairs = np.array(data.draw(st.lists(st.tuples(label, label), max_size=40)), dtype=np.int64).reshape(-1, 2)
    found = tree.pair_distances(pairs[:, 0], pairs[:, 1], kind=kind)
    np.testing.assert_array_equal(found, tree.distances(kind=kind)[pairs[:, 0], pairs[:, 1]])
    assert found.dtype == np.float64
    assert found.shape == (len(pairs),)


def test_all_pairs_of_cifar100():
    tree = cifar100()
    first, second = np.divmod(np.arange(10_000), 100)
    for kind in ("path", "lca-height", "wu-palmer"):
        square = tree.pair_distances(first, second, kind=kind).reshape(100, 100)
        np.testing.assert_array_equal(square, tree.distances(kind=kind))
    assert tree.pair_distances(["bee", "bee"], ["beetle", "ray"]).tolist() == [2.0, 4.0]


def test_pairs_need_no_table_of_all_classes():
    count = 100_000
    tree = Hierarchy.from_paths([(f"g{label // 100}", f"c{label}") for label in range(count)])
    first = np.arange(count)
    assert (tree.pair_distances(first, first[::-1]) == 4).all()
    assert (tree.pair_distances(first, first // 100 * 100 + (first + 1) % 100) == 2).all()


@pytest.mark.parametrize(
    ("first", "second", "kind", "message"),
    [
        ([0], [1], "cosine", "kind must be one of .*'path'.* got 'cosine'"),
        ([0, 4], [1, 1], "path", "first must be labels from 0 to 3, got 4"),
        ([0], [-1], "path", "second must be labels from 0 to 3, got -1"),
        ([0, 1], [1], "path", "same length, got 2 and 1 classes"),
        (0, [1], "path", "first must be a one-dimensional list"),
        ([0], None, "path", "second must be a one-dimensional list"),
        ([0.5], [1], "path", "unknown class 0.5"),
        ([True], [1], "path", "unknown class"),
    ],
)
def test_bad_pairs(first, second, kind, message):
    with pytest.raises(ValueError, match=message):
        animals().pair_distances(first, second, kind=kind)
