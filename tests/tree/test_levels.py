import numpy as np
import pytest
from hypothesis import given, settings

from cophenet.tree import Hierarchy

from .trees import animals, cifar100, line_up, namesakes, trees, walk


@settings(max_examples=60, deadline=None)
@given(tree=trees(max_nodes=20))
def test_ancestors_and_cut(tree):
    for depth in range(1, tree.height + 1):
        nodes = tree.ancestors(depth)
        for leaf, node in zip(tree.leaves.tolist(), nodes.tolist(), strict=True):
            chain = line_up(tree, leaf)[::-1]
            assert node == chain[min(depth, len(chain) - 1)]
        np.testing.assert_array_equal(tree.ancestors(tree.level_names[depth - 1]), nodes)
        assert (tree.depths[tree.nodes_at(depth)] == depth).all()
        small, labels = tree.cut(depth)
        assert small.height == depth
        assert [small.classes[label] for label in labels] == [tree.names[node] for node in nodes]
        # New labels are in the order of the smallest old label.
        assert list(dict.fromkeys(labels.tolist())) == list(range(small.num_classes))
        expected = [[walk(tree, a)[b] for b in nodes.tolist()] for a in nodes.tolist()]
        np.testing.assert_allclose(small.distances(labels), expected, rtol=1e-12, atol=1e-9)


def test_cut_at_the_last_level_changes_nothing():
    tree = cifar100()
    same, labels = tree.cut("fine")
    assert same == tree
    assert (labels == np.arange(100)).all()


def test_cut_by_name():
    coarse, labels = cifar100().cut("coarse")
    assert coarse.num_classes == 20
    assert coarse.level_names == ("coarse",)
    assert (np.bincount(labels) == 5).all()


def test_cut_calls_namesakes_by_path():
    tree = Hierarchy.from_paths([("a", "other", "x"), ("b", "other", "y"), ("b", "z")])
    assert tree.cut(2)[0].classes == ("a/other", "b/other", "z")


def test_cut_numbers_a_path_that_is_another_class():
    tree = Hierarchy.from_paths([("x", "other", "1"), ("z", "other", "2"), ("z", "x/other", "3")])
    assert tree.cut(2)[0].classes == ("x/other (2)", "z/other", "x/other")


def test_cut_numbers_a_path_that_is_an_inner_sibling():
    tree = Hierarchy.from_paths([("a", "x"), ("a", "a/x", "y"), ("b", "c", "x", "z")])
    cut, labels = tree.cut(3)
    assert cut.classes == ("a/x (2)", "y", "b/c/x")
    assert labels.tolist() == [0, 1, 2]


@settings(max_examples=200, deadline=None)
@given(tree=namesakes())
def test_cut_of_namesakes(tree):
    for depth in range(1, tree.height + 1):
        small, labels = tree.cut(depth)
        nodes = tree.ancestors(depth).tolist()
        expected = [[walk(tree, a)[b] for b in nodes] for a in nodes]
        np.testing.assert_allclose(small.distances(labels), expected)
        for node, label in zip(nodes, labels.tolist(), strict=True):
            alone = len({other for other in nodes if tree.names[other] == tree.names[node]}) == 1
            names = "/".join(tree.names[above] for above in line_up(tree, node)[-2::-1])
            assert small.classes[label].startswith(tree.names[node] if alone else names)
            assert not alone or small.classes[label] == tree.names[node]


@pytest.mark.parametrize("level", [0, 3, -1, True, 1.0, None, np.True_])
def test_no_such_depth(level):
    with pytest.raises(ValueError, match="depth from 1 to 2 or a level name"):
        animals().cut(level)


def test_no_such_level():
    with pytest.raises(ValueError, match=r"one of level1, level2, got 'coarse'"):
        animals().ancestors("coarse")
