"""Classes that share their last name are known by their path, whatever the tree was made from."""

import pickle

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cophenet.tree import AmbiguousNameError, Hierarchy
from cophenet.tree.linkage import parts_from_linkage

from .trees import line_up, there_and_back

PATHS = [("computer", "hardware"), ("computer", "mouse"), ("garden", "hardware")]
NESTED = '{"computer": ["hardware", "mouse"], "garden": ["hardware"]}'
NEWICK = "((hardware,mouse)computer,(hardware)garden)root;"
CLASSES = ("computer/hardware", "mouse", "garden/hardware")
FLAT = (
    '{"format": "cophenet-tree", "names": ["root", "computer", "hardware", "mouse", "garden", "hardware"],'
    ' "parents": [-1, 0, 1, 1, 0, 4], "classes": ["computer/hardware", "mouse", "garden/hardware"]}'
)


@st.composite
def lookalikes(draw: st.DrawFn, names: tuple[str, ...] = ("a", "b", "x", "a/x", "x (2)")) -> Hierarchy:
    """Trees in which only the children of one node are sure to have different names."""
    size = draw(st.integers(2, 14))
    parents, called = [-1], ["root"]
    for node in range(1, size):
        parents.append(draw(st.integers(max(0, node - 4), node - 1)))
        taken = {called[other] for other in range(1, node) if parents[other] == parents[node]}
        called.append(draw(st.sampled_from([name for name in names if name not in taken] or [f"n{node}"])))
    return Hierarchy.from_parents(parents, called)


def test_the_rule():
    tree = Hierarchy.from_paths(PATHS)
    assert tree.classes == CLASSES
    assert [tree.path(leaf) for leaf in tree.leaves] == PATHS
    assert str(tree).splitlines()[2].endswith("── hardware")
    assert Hierarchy.from_paths([("x",), ("a", "x"), ("a/x",)]).classes == ("x", "a/x (2)", "a/x")


def test_all_makers_agree(tmp_path):
    tree = Hierarchy.from_paths(PATHS)
    assert Hierarchy.from_paths(["/".join(path) for path in PATHS], sep="/") == tree
    assert Hierarchy.from_nested({"computer": ["hardware", "mouse"], "garden": {"hardware": None}}) == tree
    names = ["hardware", "garden", "hardware", "computer", "mouse", "root"]
    parents = [1, 5, 3, 5, 3, -1]
    for classes in (CLASSES, PATHS, [PATHS[0], "mouse", "garden/hardware"]):
        assert Hierarchy.from_parents(parents, names, classes=classes) == tree
    edges = [("root", "computer"), ("root", "garden"), ("garden", "garden/hardware")]
    edges += [("computer", "computer/hardware"), ("computer", "mouse")]
    assert Hierarchy.from_edges(edges, classes=CLASSES) == tree
    files = {"t.json": NESTED, "t.yaml": NESTED, "t.nwk": NEWICK, "u.json": FLAT, "u.yaml": FLAT}
    files |= {"t.csv": "".join(",".join(path) + "\n" for path in PATHS)}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        assert Hierarchy.read(tmp_path / name, header=False if name == "t.csv" else None) == tree


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda tree: tree.index("hardware"),
            "class 'hardware' is the name of 2 classes; give its path: LIST",
        ),
        (lambda tree: tree.node("hardware"), "node 'hardware' is the name of 2 nodes; give its path: LIST"),
        (lambda tree: tree.subset(["mouse", "hardware"]), "class 'hardware' is the name of 2 .*LIST"),
        (
            lambda tree: Hierarchy.from_parents(
                tree.parents, tree.last_names, classes=["hardware", "mouse", "hardware"]
            ),
            "classes: class 'hardware' is the name of 2 .*LIST",
        ),
    ],
)
def test_ambiguous_names(make, message):
    tree = Hierarchy.from_paths(PATHS)
    listed = "'computer/hardware' or 'garden/hardware'"
    with pytest.raises(AmbiguousNameError, match=message.replace("LIST", listed)):
        make(tree)


def test_a_long_list_is_shortened():
    tree = Hierarchy.from_paths([(f"g{group}", "other") for group in range(9)])
    with pytest.raises(ValueError, match=r"9 classes; .*'g4/other' or one of 4 more$"):
        tree.index("other")


def test_classes_by_path():
    tree = Hierarchy.from_paths(PATHS)
    assert tree.index("computer/mouse") == tree.index(("computer", "mouse")) == tree.index("mouse") == 1
    assert tree.subset([("garden", "hardware"), "mouse"]).classes == ("garden/hardware", "mouse")
    assert tree.condensed(["garden/hardware", "mouse"]).tolist() == [4]
    half = tree.subset(["garden/hardware"])
    assert half.classes == ("garden/hardware",)
    assert half.path(half.leaves[0]) == ("garden", "hardware")
    assert half.index("hardware") == half.index("garden/hardware") == 0
    for wrong in ("computer", ("computer",), "garden/mouse", ("hardware", "computer"), (), 3, None):
        with pytest.raises(ValueError, match="unknown class"):
            tree.index(wrong)


def test_splits_keep_the_names():
    tree = Hierarchy.from_paths([(group, name) for group in "ab" for name in ("other", "p", "q")])
    split = tree.source_target_split(0.4)
    assert split.target.classes + split.source.classes == ("a/other", "b/other", "a/p", "a/q", "b/p", "b/q")


@settings(max_examples=60, deadline=None)
@given(tree=lookalikes())
def test_every_class_has_one_name_and_every_node_one_path(tree):
    assert len(set(tree.classes)) == tree.num_classes
    paths = [tree.path(node) for node in range(tree.num_nodes)]
    assert len(set(paths)) == tree.num_nodes
    joined = ["/".join(path) for path in paths]
    for node, path in enumerate(paths):
        assert tree.node(path) == node
        assert tree.path(node)[:-1] == tree.path(max(0, tree.parents[node]))
        if joined.count(joined[node]) == 1 and node and joined[node] not in (*tree.names, *tree.last_names):
            assert tree.node(joined[node]) == node
    for label, leaf in enumerate(tree.leaves.tolist()):
        assert tree.index(tree.classes[label]) == tree.index(paths[leaf]) == label
    assert pickle.loads(pickle.dumps(tree)) == tree
    for depth in range(1, tree.height + 1):
        assert tree.insert_level(depth, [2]).classes == tree.classes
        if depth < tree.height:
            assert tree.merge_level(depth).classes == tree.classes
        tree.cut(depth)
    assert tree.collapse().classes == tree.classes
    assert tree.subset(tree.classes[::-1]).classes == tree.classes[::-1]


@pytest.mark.parametrize("extension", ["json", "yaml", "csv", "nwk", "txt"])
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tree=lookalikes())
def test_round_trip(tree, extension, tmp_path):
    if extension == "txt" and len(set(tree.names)) < tree.num_nodes:
        # Edges cannot hold groups of the same name; classes never have the same.
        with pytest.raises(ValueError, match="edges cannot hold"):
            there_and_back(tree, tmp_path, extension)
    else:
        assert there_and_back(tree, tmp_path, extension) == tree


def test_names_that_differ_are_left_alone():
    names = ["root", "a", "a/x", "b", "x", "b/c", "a/y (2)"]
    tree = Hierarchy.from_parents([-1, 0, 1, 0, 3, 3, 0], names)
    assert tree.names == tuple(names)


def test_groups_by_last_name_and_path():
    tree = Hierarchy.from_paths([*PATHS, ("garden", "hose")])
    deeper = tree.insert_level(
        2, {"g": ["computer/hardware", "mouse"], "h": [("garden", "hardware"), "hose"]}
    )
    assert deeper.classes == tree.classes
    assert deeper.path("garden/hardware") == ("garden", "h", "garden/hardware")
    with pytest.raises(ValueError, match="'hardware' in 'g' is not one node of level 'level2'"):
        tree.insert_level(2, {"g": ["hardware"]})


def test_names_of_a_linkage_must_differ():
    with pytest.raises(ValueError, match="names must differ from each other, got 'a' twice"):
        parts_from_linkage(np.array([[0, 1, 1.0, 2]]), ["a", "a"])


def test_edges_of_one_name_are_refused_with_advice():
    with pytest.raises(ValueError, match=r"'x' has two parents: 'a' and 'b'; call two .*'a/x' and 'b/x'"):
        Hierarchy.from_edges([("r", "a"), ("r", "b"), ("a", "x"), ("b", "x")])


def test_paths_of_a_deep_tree_are_limited(tmp_path):
    depth = 12_000
    (tmp_path / "t.nwk").write_text("(" * depth + "z" + ",x)y" * depth + ";")
    message = (
        r"12,000 classes .*such as 'x', .* paths of 144,\d+,\d+ characters in all, more than 50,000,000 .li"
    )
    with pytest.raises(ValueError, match=message):
        Hierarchy.read(tmp_path / "t.nwk")


def test_lowest_common_ancestors_and_children():
    tree = Hierarchy.from_paths([*PATHS, ("boat",)])
    for one in range(tree.num_nodes):
        assert [node for node in range(tree.num_nodes) if tree.parents[node] == one] == tree.children(
            one
        ).tolist()
        for other in range(tree.num_nodes):
            above = set(line_up(tree, other))
            assert tree.lca(one, other) == next(node for node in line_up(tree, one) if node in above)
    assert tree.lca("mouse", "computer/hardware") == tree.node("computer")
