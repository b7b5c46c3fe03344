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
