import numpy as np
import pytest
from hypothesis import given, settings

from cophenet.tree import Hierarchy

from .trees import animals, cifar100, namesakes, trees


def test_depth_variants_of_cifar100():
    tree = cifar100()
    mid = tree.insert_level("fine", [2, 3], name="mid")
    assert mid.level_names == ("coarse", "mid", "fine")
    assert mid.path(mid.leaves[mid.index("orchid")]) == ("flowers", "orchid+poppy", "orchid")
    assert mid.path(mid.leaves[mid.index("tulip")]) == ("flowers", "rose+sunflower+tulip", "tulip")
    assert mid.condensed(["orchid", "poppy", "rose", "bottle"]).tolist() == [2, 4, 6, 4, 6, 6]
    full = mid.insert_level("coarse", [2], name="coarser")
    assert full.level_names == ("coarser", "coarse", "mid", "fine")
    assert full.cut("coarser")[0].num_classes == 10
    # Pairs are counted from the first in the alphabet, which joins flowers and food containers.
    assert full.path(full.leaves[full.index("bottle")])[0] == "flowers+food_containers"
    assert full.condensed(["orchid", "bottle", "tulip"]).tolist() == [6, 4, 6]
    assert full.merge_level("coarser") == mid
    assert mid.merge_level("mid") == tree


@settings(max_examples=50, deadline=None)
@given(tree=trees())
def test_merge_undoes_insert(tree):
    for depth in range(1, tree.height + 1):
        deeper = tree.insert_level(depth, [2], weight=3.0)
        assert deeper.height == tree.height + 1
        assert deeper.merge_level(depth) == tree


def test_named_groups():
    tree = Hierarchy.from_paths(
        [("a", "other", "x"), ("b", "other", "y"), ("b", "z")], level_names=["p", "q", "r"]
    )
    deeper = tree.insert_level(
        "q", {"g": [("a", "other")], "h": [("b", "other"), "z"]}, name="new", weight=2.5
    )
    assert deeper.level_names == ("p", "new", "q", "r")
    assert deeper.path(deeper.leaves[2]) == ("b", "h", "z")
    assert deeper.edge_weights[deeper.node("h")] == 2.5


@pytest.mark.parametrize(
    ("level", "groups", "message"),
    [
        (2, {"g": ["cat", "dog"]}, "leaves out 1 nodes: .'car'"),
        (2, {"g": ["cat", "car"], "h": ["dog"]}, "members of 'g' must share their parent"),
        (2, {"g": ["cat", "dog"], "h": ["car", "cat"]}, "'cat' in 'h' is grouped twice"),
        (2, {"g": ["cow"]}, "'cow' in 'g' is not one node of level 'level2'"),
        (2, {"g": [("boat",)]}, "elsewhere"),
        (2, {"g": "cat"}, "'g' must list its members"),
        (2, {"g": []}, "'g' must list its members"),
        (2, [], "list of positive sizes"),
        (2, [0], "list of positive sizes"),
        (2, "ab", "list of positive sizes"),
        (3, [2], "depth from 1 to 2"),
    ],
)
def test_bad_groups(level, groups, message):
    with pytest.raises(ValueError, match=message):
        animals().insert_level(level, groups)


def test_insert_checks_weight_and_name():
    with pytest.raises(ValueError, match="positive and finite"):
        animals().insert_level(1, [2], weight=0.0)
    with pytest.raises(ValueError, match="weight must be positive and finite, got '2'"):
        animals().insert_level(1, [2], weight="2")
    with pytest.raises(ValueError, match="must differ"):
        animals().insert_level(1, [2], name="level2")


def test_merge_needs_a_level_below():
    with pytest.raises(ValueError, match="classes only"):
        animals().merge_level(2)


def test_merge_keeps_classes_of_the_level():
    tree = animals().merge_level(1)
    assert tree.classes == animals().classes
    assert tree.height == 1


def test_merge_calls_namesakes_by_the_vanished_parent():
    tree = Hierarchy.from_paths([("a", "other", "x"), ("b", "other", "y"), ("b", "z")])
    merged = tree.merge_level(1)
    assert merged.classes == tree.classes
    assert [merged.path(leaf) for leaf in merged.leaves] == [("a/other", "x"), ("b/other", "y"), ("z",)]


def test_merge_keeps_a_class_and_numbers_what_is_taken():
    tree = Hierarchy.from_paths([("a", "other"), ("b", "other", "y"), ("c", "b/other")])
    merged = tree.merge_level(1)
    assert [merged.path(leaf) for leaf in merged.leaves] == [("other",), ("b/other (2)", "y"), ("b/other",)]


@settings(max_examples=200, deadline=None)
@given(tree=namesakes())
def test_merge_and_collapse_of_namesakes(tree):
    for depth in range(1, tree.height):
        merged = tree.merge_level(depth)
        assert merged.classes == tree.classes
        assert merged.height == tree.height - 1
    short = tree.collapse()
    assert short.classes == tree.classes
    np.testing.assert_allclose(short.distances(), tree.distances())


def test_collapse_numbers_the_namesake_of_a_class():
    tree = Hierarchy.from_paths([("p", "x"), ("x", "y"), ("x", "z")])
    assert tree.collapse().names == ("root", "x", "x (2)", "y", "z")
