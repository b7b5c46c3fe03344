"""Trees from data frames and graphs, and under other names."""

import sys

import networkx
import numpy as np
import pandas
import polars
import pytest
from hypothesis import given, settings

from cophenet.tree import Hierarchy

from .test_paths import PATHS, lookalikes
from .trees import animals, trees

COLUMNS = {"kind": ["animal", "boat", "animal", "animal"], "class": ["cat", None, "dog", "cat"]}
KINDS = Hierarchy.from_paths([("animal", "cat"), ("boat",), ("animal", "dog")], level_names=["kind", "class"])


@pytest.mark.parametrize("make", [dict, pandas.DataFrame, polars.DataFrame])
def test_frames_of_levels(make):
    assert Hierarchy.from_levels(make(COLUMNS)) == KINDS
    wide = make({"size": [1.5, 2.5, 3.5, 4.5], **COLUMNS, "empty": [None] * 4})
    assert Hierarchy.from_levels(wide, ["kind", "class", "empty"]) == KINDS
    assert Hierarchy.from_levels(wide, columns=["kind"]).classes == ("animal", "boat")


def test_missing_values_of_pandas():
    for nothing in (np.nan, pandas.NA, pandas.NaT, ""):
        assert (
            Hierarchy.from_levels({"kind": COLUMNS["kind"], "class": ["cat", nothing, "dog", "cat"]}) == KINDS
        )
    twice = {"kind": ["boat", "boat", "car"], "class": [float("nan"), float("nan"), "x"]}
    assert Hierarchy.from_levels(twice).classes == ("boat", "x")
    frame = pandas.DataFrame(COLUMNS).astype("category")
    assert Hierarchy.from_levels(frame, root="root") == KINDS


def test_frames_of_namesakes():
    frame = pandas.DataFrame(PATHS, columns=["level1", "level2"])
    assert Hierarchy.from_levels(frame) == Hierarchy.from_paths(PATHS)


@pytest.mark.parametrize(
    ("frame", "columns", "message"),
    [
        ([("a", "b")], None, "frame must have columns"),
        (
            COLUMNS,
            ["kind", "klass"],
            r"columns: 'klass' is not a column of frame, which has \['kind', 'class'\]",
        ),
        (COLUMNS, [], "columns is empty"),
        ({"a": ["x"], "b": [3]}, None, r"names must be text, column 'b' has 3 \(int\)"),
        ({"a": ["x", None], "b": [None, "y"]}, None, r"an empty cell inside a path: \(None, 'y'\)"),
        ({"a": ["x", ""]}, None, "a row has no names"),
        ({"a": []}, None, "tree is empty"),
        ({"a": ["x", "x"], "b": ["y", None]}, None, "class 'x' is also an inner node"),
    ],
)
def test_bad_frames(frame, columns, message):
    with pytest.raises(ValueError, match=message):
        Hierarchy.from_levels(frame, columns)


@settings(max_examples=60, deadline=None)
@given(tree=trees() | lookalikes())
def test_graphs_there_and_back(tree):
    graph = tree.to_networkx()
    assert networkx.is_arborescence(graph)
    assert Hierarchy.from_networkx(graph, level_names=tree.level_names) == tree
    for label, leaf in enumerate(tree.leaves.tolist()):
        assert graph.nodes[leaf] == {"name": tree.classes[label], "path": tree.path(leaf), "label": label}


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (networkx.Graph([("a", "b")]), "must be a networkx.DiGraph"),
        ([("a", "b")], "must be a networkx.DiGraph"),
        (
            networkx.DiGraph([("r", "a"), ("r", "b"), ("a", "x"), ("b", "x")]),
            r"'x' has 2 parents: \['a', 'b'\]",
        ),
        (networkx.DiGraph([("a", "b"), ("b", "a")]), "cycle"),
        (networkx.DiGraph([(1, 2)]), "a name must be"),
        (networkx.DiGraph(), "empty"),
    ],
)
def test_bad_graphs(graph, message):
    with pytest.raises(ValueError, match=message):
        Hierarchy.from_networkx(graph)


def test_bad_labels_of_a_graph():
    graph = animals().to_networkx()
    graph.nodes[2]["label"] = 7
    with pytest.raises(ValueError, match="labels of leaves must be 0 to 3"):
        Hierarchy.from_networkx(graph)


def test_networkx_is_optional(monkeypatch):
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(ImportError, match="graphs need networkx"):
        animals().to_networkx()


@settings(max_examples=60, deadline=None)
@given(tree=trees() | lookalikes())
def test_renaming_keeps_all_but_names(tree):
    assert tree.rename({}) == tree
    renamed = tree.rename({node: f"new {node}" for node in range(tree.num_nodes)})
    assert renamed.names == tuple(f"new {node}" for node in range(tree.num_nodes))
    for name in ("parents", "edge_weights", "leaves"):
        np.testing.assert_array_equal(getattr(renamed, name), getattr(tree, name))
    assert renamed.level_names == tree.level_names
    assert renamed.rename(dict(enumerate(tree.names))) == tree


def test_display_names():
    tree = Hierarchy.from_paths(PATHS)
    shown = tree.rename({"garden": "outdoors", ("computer", "mouse"): "mice"})
    assert shown.classes == ("computer/hardware", "mice", "outdoors/hardware")
    half = tree.subset(["garden/hardware"]).rename({"garden": "outdoors"})
    assert half.classes == ("outdoors/hardware",)
    birds = Hierarchy.from_paths([("bird", "n1"), ("machine", "n2")]).rename({"n1": "crane", "n2": "crane"})
    assert birds.classes == ("bird/crane", "machine/crane")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"cow": "calf"}, "node 'cow' is not in the tree"),
        ({"cat": "dog"}, "'animal' has two children called 'dog'"),
        ({"cat": ""}, "a name must be a non-empty string"),
        ({"cat": "x", "animal/cat": "y"}, "names gives 'animal/cat' two names"),
        (["cat"], "names must map nodes"),
    ],
)
def test_bad_names(names, message):
    with pytest.raises(ValueError, match=message):
        animals().rename(names)


def test_a_table_is_read_where_its_first_line_is_a_comment(tmp_path):
    Hierarchy.from_paths([("#a", "#b"), ("c", "d")]).write(tmp_path / "tree.csv")
    read = pandas.read_csv(tmp_path / "tree.csv", comment="#")
    assert read.to_numpy().tolist() == [["#a", "#b"], ["c", "d"]]
