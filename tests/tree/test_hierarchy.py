import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings

from cophenet.tree import Hierarchy

from .trees import animals, line_up, trees, walk


@settings(max_examples=60, deadline=None)
@given(tree=trees())
def test_derived_arrays(tree):
    for node in range(tree.num_nodes):
        chain = line_up(tree, node)
        assert tree.depths[node] == len(chain) - 1
        assert tree.weighted_depths[node] == pytest.approx(walk(tree, 0)[node])
        below = [leaf for leaf in tree.leaves.tolist() if node in line_up(tree, leaf)]
        assert tree.heights[node] == max(tree.depths[leaf] for leaf in below) - tree.depths[node]
        assert tree.sizes[node] == sum(node in line_up(tree, other) for other in range(tree.num_nodes))
        assert tree.node(tree.path(node)) == node
    assert tree.height == tree.num_levels == tree.depths.max()
    assert [tree.index(name) for name in tree.classes] == list(range(tree.num_classes))


@settings(max_examples=30, deadline=None)
@given(tree=trees())
def test_copies_are_equal(tree):
    tree.distances()
    for other in (pickle.loads(pickle.dumps(tree)), copy.deepcopy(tree), copy.copy(tree)):
        assert other == tree
        assert hash(other) == hash(tree)
        assert not other.parents.flags.writeable


def test_what_makes_trees_differ():
    tree = animals()
    others = [
        tree.reorder(["dog", "car", "cat", "boat"]),
        tree.with_weights("animal", 2.0),
        tree.with_level_names(["coarse", "fine"]),
        Hierarchy.from_paths([tree.path(leaf) for leaf in tree.leaves], root="top"),
        tree.subset([0, 1, 2]),
    ]
    assert len({tree, *others}) == 6
    assert tree != "tree"


def test_trees_never_change():
    tree = animals()
    for array in (tree.parents, tree.edge_weights, tree.leaves, tree.depths, tree.heights, tree.sizes):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 5
    with pytest.raises(AttributeError, match="immutable"):
        tree.names = ()
    with pytest.raises(AttributeError, match="immutable"):
        del tree.names


def test_nodes_are_found():
    tree = animals()
    assert tree.node("animal") == tree.node(("animal",)) == tree.node(np.int64(1)) == 1
    assert tree.node(()) == tree.node("root") == 0
    assert tree.path(0) == ()


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("x", "'x' is not in the tree"),
        ("other", "2 nodes; give its path"),
        (("a", "x"), "'a' has no child 'x'"),
        (True, "node must be an index, a name or a path, got True"),
        (np.True_, "node must be an index, a name or a path"),
        (1.0, "node must be an index, a name or a path, got 1.0"),
        (None, "node must be an index, a name or a path, got None"),
        (99, "index from 0 to 6"),
        (-1, "index from 0 to 6"),
    ],
)
def test_nodes_not_found(where, message):
    tree = Hierarchy.from_paths([("a", "other", "one"), ("b", "other", "two")])
    with pytest.raises(ValueError, match=message):
        tree.node(where)


def test_unknown_class():
    with pytest.raises(ValueError, match="unknown class 'cow'"):
        animals().index("cow")


def test_deep_chain():
    depth = 100_000
    tree = Hierarchy.from_parents(np.arange(-1, depth))
    assert tree.height == depth
    assert tree.distances().tolist() == [[0.0]]
    assert len(tree.path(depth)) == depth
    assert len(str(tree).splitlines()) <= 40
    assert tree.collapse().num_nodes == 3 - 1
    assert pickle.loads(pickle.dumps(tree)) == tree


def test_deep_caterpillar():
    spine = 50_000
    edges = [(f"s{i}", f"s{i + 1}") for i in range(spine)] + [(f"s{i}", f"c{i}") for i in range(spine)]
    tree = Hierarchy.from_edges(edges)
    assert tree.num_classes == spine + 1
    # The classes at the top and at the bottom of the spine.
    assert tree.condensed(["c0", f"s{spine}", "c10"]).tolist() == [spine + 1, 12, spine - 9]
    assert tree.condensed(["c0", f"c{spine - 1}"], kind="lca-height").tolist() == [spine]
    assert len(str(tree).splitlines()) <= 40
    assert tree.cut(3)[0].num_classes == 4
    assert tree.subset(["c5", "c9"]).num_nodes == 12
