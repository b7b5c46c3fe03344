import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cophenet.tree import Hierarchy

from .trees import animals, cifar100, trees


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_subset_keeps_distances(data):
    tree = data.draw(trees(max_nodes=20))
    labels = data.draw(st.lists(st.integers(0, tree.num_classes - 1), min_size=1, unique=True))
    small = tree.subset(labels)
    assert small.classes == tuple(tree.classes[label] for label in labels)
    np.testing.assert_array_equal(small.distances(), tree.distances(labels))
    assert small.level_names == tree.level_names[: small.height]
    assert small == tree.subset([tree.classes[label] for label in labels])


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_reorder(data):
    tree = data.draw(trees(max_nodes=20))
    order = data.draw(st.permutations(range(tree.num_classes)))
    other = tree.reorder(order)
    np.testing.assert_allclose(other.distances(), tree.distances(order))
    assert other.reorder(tree.classes) == tree


@settings(max_examples=60, deadline=None)
@given(tree=trees(max_nodes=20))
def test_collapse_keeps_distances(tree):
    short = tree.collapse()
    np.testing.assert_allclose(short.distances(), tree.distances(), rtol=1e-12, atol=1e-9)
    assert short.classes == tree.classes
    children = np.bincount(short.parents[1:], minlength=short.num_nodes)
    assert (children[1:] != 1).all()
    assert short.collapse() is short


def test_subtree_weights_of_cifar100():
    tree = cifar100()
    heavy = tree.with_weights("aquatic_mammals", 4.0)
    assert heavy.condensed(["beaver", "dolphin", "ray"]).tolist() == [8.0, 7.0, 7.0]
    assert heavy.with_weights("aquatic_mammals", 0.25) == tree
    assert tree.with_weights("root", 2.0).condensed(["bee", "ray"]).tolist() == [8.0]
    assert tree.with_weights(("aquatic_mammals",), 4.0) == heavy


def test_level_weights():
    tree = animals()
    assert tree.with_level_weights({"level1": 3.0, "level2": 0.5}).condensed().tolist() == [
        7,
        1,
        6.5,
        7,
        6.5,
        6.5,
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tree: tree.subset([]), "classes is empty"),
        (lambda tree: tree.subset([0, 0]), "'cat' more than once"),
        (lambda tree: tree.subset(["cow"]), "unknown class 'cow'"),
        (lambda tree: tree.reorder([0, 1]), "each of the 4 classes once: got 2 classes, 2 of"),
        (lambda tree: tree.reorder([0, 1, 2, 2]), "got 4 classes, 3 of"),
        (lambda tree: tree.with_weights("animal", 0.0), "factor must be positive"),
        (lambda tree: tree.with_weights("animal", float("nan")), "factor must be positive"),
        (lambda tree: tree.with_weights("animal", "2"), "factor must be positive"),
        (lambda tree: tree.with_weights("animal", True), "factor must be positive and finite, got True"),
        (lambda tree: tree.with_weights(True, 2.0), "node must be an index, a name or a path, got True"),
        (lambda tree: tree.with_level_weights({1: "2"}), "weight of level 1 must be positive .* got '2'"),
        (lambda tree: tree.with_level_weights({"level2": True}), "level 'level2' must be .* got True"),
        (lambda tree: tree.with_level_weights({True: 2.0}), "level must be a depth .* got True"),
        (lambda tree: tree.with_weights("cat", 2.0), "is a class and has no edges below"),
        (lambda tree: tree.with_level_weights({1: -1.0}), "positive and finite"),
        (lambda tree: tree.with_level_weights([2.0, 1.0]), "weights must map levels to weights"),
        (lambda tree: tree.with_level_weights({"x": 1.0}), "level must be one of"),
        (lambda tree: tree.with_level_names(["x"]), "must name 2 levels"),
    ],
)
def test_bad_changes(change, message):
    with pytest.raises(ValueError, match=message):
        change(animals())


def test_collapse_names_the_upper_node():
    tree = Hierarchy.from_paths([("cats", "other", "x"), ("cats", "other", "y"), ("dogs", "other", "z")])
    assert tree.collapse().names == ("root", "cats", "x", "y", "z")
