import numpy as np
import pytest
from hypothesis import given, settings

from cophenet.tree import Hierarchy
from cophenet.tree.parts import Parts

from .trees import animals, trees


def test_paths_keep_the_label_order():
    tree = animals()
    assert tree.classes == ("cat", "car", "dog", "boat")
    assert [tree.path(leaf) for leaf in tree.leaves] == [
        ("animal", "cat"),
        ("vehicle", "car"),
        ("animal", "dog"),
        ("boat",),
    ]


def test_all_makers_agree():
    tree = animals()
    edges = [("root", "animal"), ("root", "boat"), ("animal", "cat"), ("animal", "dog")]
    edges += [("vehicle", "car"), ("root", "vehicle")]
    assert Hierarchy.from_edges(edges, classes=tree.classes) == tree
    nested = {"boat": None, "animal": ["cat", "dog"], "vehicle": {"car": {}}}
    assert Hierarchy.from_nested(nested).reorder(tree.classes) == tree
    shuffled = Hierarchy.from_parents(
        [2, 2, -1, 0, 0, 1, 2],
        ["animal", "vehicle", "root", "dog", "cat", "car", "boat"],
        classes=tree.classes,
    )
    assert shuffled == tree
    assert Hierarchy.from_paths(["animal.cat", "vehicle.car", "animal.dog", "boat"], sep=".") == tree


@settings(max_examples=60, deadline=None)
@given(tree=trees())
def test_arrays_are_canonical(tree):
    assert tree.parents[0] == -1
    assert (tree.parents[1:] < np.arange(1, tree.num_nodes)).all()
    assert tree.edge_weights[0] == 0
    assert (np.bincount(tree.parents[1:], minlength=tree.num_nodes)[tree.leaves] == 0).all()
    again = Hierarchy.from_parents(tree.parents, tree.names, tree.edge_weights, tree.classes)
    assert again == tree
    edges = [
        (tree.names[parent], tree.names[node], tree.edge_weights[node])
        for node, parent in reversed(list(enumerate(tree.parents)))
        if node
    ]
    assert Hierarchy.from_edges(edges, tree.classes) == tree


def test_names_of_inner_nodes_may_repeat():
    tree = Hierarchy.from_paths([("a", "other", "x"), ("b", "other", "y"), ("y", "z")])
    assert tree.num_nodes == 9
    assert tree.node(("b", "other")) != tree.node(("a", "other"))


def test_nested_lists_get_free_names():
    tree = Hierarchy.from_nested([["a", "node1"], [["b"]], {"c": ["d"]}])
    assert tree.names == ("root", "node2", "a", "node1", "node3", "node4", "b", "c", "d")


def test_root_and_level_names():
    tree = Hierarchy.from_paths([("a", "b")], root="top", level_names=["coarse", "fine"])
    assert tree.names[0] == "top"
    assert tree.level_names == ("coarse", "fine")
    assert Hierarchy.from_paths([("a", "b")]).level_names == ("level1", "level2")


def test_names_from_numpy_become_plain(tmp_path):
    tree = Hierarchy.from_paths(np.array([["a", "x"], ["b", "y"]]), level_names=np.array(["p", "q"]))
    assert {type(name) for name in tree.names + tree.level_names} == {str}
    tree.write(tmp_path / "tree.yaml")
    assert Hierarchy.read(tmp_path / "tree.yaml") == tree


def test_parents_without_names():
    tree = Hierarchy.from_parents(np.array([1, -1, 1]), weights=[0.5, 0, 2.5])
    assert tree.classes == ("0", "2")
    assert tree.distances()[0, 1] == 3.0


LOOP: list = ["a"]
LOOP.append(LOOP)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Hierarchy.from_paths([]), "empty"),
        (lambda: Hierarchy.from_edges([]), "empty"),
        (lambda: Hierarchy.from_nested({}), "empty"),
        (lambda: Hierarchy.from_nested([]), "empty"),
        (lambda: Hierarchy.from_parents([]), "empty"),
        (lambda: Hierarchy.from_parents([-1]), "empty"),
        (lambda: Hierarchy.from_paths([("a",), ()]), "paths must not be empty"),
        (lambda: Hierarchy.from_paths(["a/b"]), "give sep="),
        (lambda: Hierarchy.from_paths([("a",)], sep="/"), "must be strings when sep"),
        (lambda: Hierarchy.from_paths(["a//b"], sep="/"), "non-empty string"),
        (
            lambda: Hierarchy.from_paths([("a", 3)]),
            "string of valid Unicode without control characters, got 3",
        ),
        (lambda: Hierarchy.from_paths([("a", "b\0")]), r"without control characters, got 'b.x00'"),
        (lambda: Hierarchy.from_paths([("a", "\ud800")]), "valid Unicode"),
        (lambda: Hierarchy.from_paths([("a", "x"), ("a", "x")]), "same path twice"),
        (lambda: Hierarchy.from_paths([("a",), ("a", "x")]), "class 'a' is also an inner node"),
        (lambda: Hierarchy.from_paths([("a", "x"), ("a",)]), "class 'a' is also an inner node"),
        (lambda: Hierarchy.from_paths([3]), "sequences of names, got 3"),
        (lambda: Hierarchy.from_paths([(["a"], "b")]), r"got \['a'\]"),
        (lambda: Hierarchy.from_edges([None]), "an edge must be"),
        (lambda: Hierarchy.from_edges([("a", "b", True)]), "must be a number, got True"),
        (lambda: Hierarchy.from_edges([("a", "b", 1e308), ("b", "c", 1e308)]), "must not overflow"),
        (lambda: Hierarchy.from_edges([("r", "a"), ("r", "b")], classes="ab"), "the string 'ab'"),
        (lambda: Hierarchy.from_paths([("a", "b")], level_names="xy"), "the string 'xy'"),
        (lambda: Hierarchy.from_nested({"a": []}), "group 'a' is empty"),
        (lambda: Hierarchy.from_nested({"a": ["b", []]}), "in the list below 'a' is empty"),
        (lambda: Hierarchy.from_nested({"a": ["b", {}]}), "in the list below 'a' is empty"),
        (lambda: Hierarchy.from_nested({"a": ["b", None]}), "got None"),
        (lambda: Hierarchy.from_nested({"a": "cat"}), "below 'a' a dict, a list or None"),
        (lambda: Hierarchy.from_nested({"a": [1]}), "got 1"),
        (lambda: Hierarchy.from_nested({1: ["a"]}), "got 1"),
        (lambda: Hierarchy.from_nested("cat"), "must be a dict or a list"),
        (lambda: Hierarchy.from_nested(["a", "a"]), "two children called 'a'"),
        (lambda: Hierarchy.from_nested(LOOP), "cycle"),
        (lambda: Hierarchy.from_edges(["ab"]), "an edge must be"),
        (lambda: Hierarchy.from_edges([("a",)]), "an edge must be"),
        (lambda: Hierarchy.from_edges([("a", "b", "2")]), "must be a number, got '2'"),
        (lambda: Hierarchy.from_edges([("a", "b", np.True_)]), "must be a number, got"),
        (lambda: Hierarchy.from_edges([("a", "b", 1j)]), "must be a number, got 1j"),
        (lambda: Hierarchy.from_edges([("a", "b", 10**400)]), "must be finite"),
        (lambda: Hierarchy.from_edges(np.array([["a", "b", "2"]])), "must be a number, got"),
        (
            lambda: Hierarchy.from_parents([-1, 0], weights=["0", "1"]),
            "must be numbers: .* '0' has weight '0'",
        ),
        (lambda: Hierarchy.from_parents([-1, 0], weights=[0, True]), "must be numbers: .* has weight True"),
        (lambda: Hierarchy.from_edges([("a", 2)]), "got 2"),
        (lambda: Hierarchy.from_edges([("a", "b"), ("b", "a")]), "cycle: '[ab]' -> '[ab]' -> '[ab]'"),
        (lambda: Hierarchy.from_edges([("r", "x"), ("a", "b"), ("b", "a")]), "cycle: '[ab]' -> '[ab]'"),
        (lambda: Hierarchy.from_edges([("a", "a")]), "cycle: 'a' -> 'a'"),
        (
            lambda: Hierarchy.from_edges([(str(i), str((i + 1) % 9)) for i in range(9)]),
            r"cycle: .* -> \.\.\.",
        ),
        (lambda: Hierarchy.from_edges([("a", "c"), ("b", "c")]), "two parents: 'a' and 'b'"),
        (lambda: Hierarchy.from_edges([("a", "c"), ("a", "c")]), "'c' is given twice"),
        (lambda: Hierarchy.from_edges([("a", "c"), ("b", "d")]), r"2 roots \('a', 'b'\)"),
        (lambda: Hierarchy.from_edges([("a", "b")], classes=["x"]), "class 'x' is not in the tree"),
        (lambda: Hierarchy.from_edges([("r", "a"), ("a", "b")], classes=["a"]), "class 'a' is an inner node"),
        (lambda: Hierarchy.from_edges([("a", "b")], classes=["b", "b"]), "'b' 2 times"),
        (lambda: Hierarchy.from_edges([("a", "b"), ("a", "c")], classes=["b"]), r"leaves out 1 .*'c'"),
        (lambda: Hierarchy.from_edges([("a", "b")], classes=[[1]]), "non-empty string"),
        (lambda: Hierarchy.from_edges([("a", "b", 0.0)]), "edge above 'b' has weight 0.0"),
        (lambda: Hierarchy.from_edges([("a", "b", -1)]), "edge above 'b' has weight -1.0"),
        (lambda: Hierarchy.from_edges([("a", "b", float("nan"))]), "edge above 'b' has weight nan"),
        (lambda: Hierarchy.from_edges([("a", "b", float("inf"))]), "edge above 'b' has weight inf"),
        (lambda: Hierarchy.from_parents([[-1, 0]]), "one-dimensional"),
        (lambda: Hierarchy.from_parents([-1, 0.5]), "array of integers"),
        (lambda: Hierarchy.from_parents([-1, 2]), "between -1 .* and 1, got 2 at 1"),
        (lambda: Hierarchy.from_parents([-1, -1]), "2 roots"),
        (lambda: Hierarchy.from_parents([1, 0]), "cycle"),
        (lambda: Hierarchy.from_parents([-1, 0], names=["a"]), "names must have one entry per node"),
        (lambda: Hierarchy.from_parents([-1, 0], weights=[1.0]), "weights must have one entry per node"),
        (lambda: Hierarchy.from_parents([-1, 0], weights=[1.0, 1.0]), "weight of the root must be 0"),
        (lambda: Hierarchy.from_parents([-1, 0], weights=["a", "b"]), "weights must be numbers"),
        (lambda: Hierarchy.from_paths([("a",)], level_names=["x", "y"]), "level_names must name 1 levels"),
        (lambda: Hierarchy.from_paths([("a", "b")], level_names=["x", "x"]), "must differ"),
        (lambda: Hierarchy.from_paths([("a",)], level_names=[""]), "non-empty string"),
        (lambda: Hierarchy(Parts([-1, 0, 0], ["r", "a", "a"])), "two children called 'a'"),
    ],
)
def test_bad_trees(make, message):
    with pytest.raises(ValueError, match=message):
        make()
