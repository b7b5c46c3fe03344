"""The tree a recipe trains with."""

import numpy as np
import pytest

from cophenet import Hierarchy
from cophenet.data.cifar import cifar100_tree
from cophenet.recipes import shaped_tree
from cophenet.recipes.load import load_recipe
from cophenet.recipes.settings import TreeSettings
from cophenet.recipes.trees import target_distances

TREE = cifar100_tree()


def test_nothing_is_changed_unless_asked_for():
    assert shaped_tree(TREE, TreeSettings()) == TREE


def test_subtree_weights_of_the_study():
    tree = shaped_tree(TREE, TreeSettings(node_weights={"aquatic_mammals": 4.0}))
    seal, whale, apple, pear = (tree.index(name) for name in ("seal", "whale", "apple", "pear"))
    t = tree.distances()
    assert (t[seal, whale], t[apple, pear], t[seal, apple]) == (8.0, 2.0, 7.0)


def test_the_published_study_lengthens_distances_inside_the_subtree_alone():
    target = target_distances(TREE, {"aquatic_mammals": 4.0})
    inside = TREE.ancestors(1) == TREE.node("aquatic_mammals")
    expected = TREE.distances() * np.where(inside[:, None] & inside[None, :], 4.0, 1.0)
    assert inside.sum() == 5
    np.testing.assert_array_equal(target, expected)
    # Two whales are farther apart than each of them is from an apple: no tree of equal depths has that.
    assert target.max() == 8.0 > target[TREE.index("seal"), TREE.index("apple")] == 4.0
    overrides = ("objective.name=emd", "objective.cpcc.inside_factors.aquatic_mammals=4.0")
    loss = load_recipe("cifar100", "laptop", overrides).create_objective(TREE).cpcc
    np.testing.assert_array_equal(loss.target, expected)
    with pytest.raises(ValueError, match=r"objective.cpcc.inside_factors must be by .* got 'seals'"):
        target_distances(TREE, {"seals": 2.0})


def test_a_shuffled_tree_has_the_shape_and_the_labels_but_other_groups():
    tree = shaped_tree(TREE, TreeSettings(shuffle_seed=1))
    assert tree.classes == TREE.classes
    assert tree.level_names == TREE.level_names
    assert sorted(tree.condensed()) == sorted(TREE.condensed())
    assert np.corrcoef(tree.condensed(), TREE.condensed())[0, 1] < 0.2
    assert tree == shaped_tree(TREE, TreeSettings(shuffle_seed=1))
    assert tree != shaped_tree(TREE, TreeSettings(shuffle_seed=2))


def test_weights_are_those_of_the_levels_that_training_sees():
    tree = Hierarchy.from_paths(
        [("a", "m", "x"), ("a", "n", "y"), ("b", "o", "z")], level_names=["coarse", "mid", "fine"]
    )
    settings = TreeSettings(merge_levels=["mid"], level_weights={1: 2.0, "fine": 3.0})
    assert shaped_tree(tree, settings).condensed().tolist() == [6.0, 10.0, 10.0]


@pytest.mark.parametrize(
    "settings",
    [{"level_weights": {"midd": 2.0}}, {"node_weights": {"cats": 2.0}}, {"merge_levels": ["fine"]}],
)
def test_what_the_tree_does_not_have_is_refused(settings):
    with pytest.raises(ValueError):
        shaped_tree(TREE, TreeSettings(**settings))
