import pytest

from cophenet.tree import Hierarchy

from .trees import there_and_back


def test_newick_with_100_000_nodes(tmp_path):
    tree = Hierarchy.from_parents([-1] + [(node - 1) // 2 for node in range(1, 100_001)])
    assert there_and_back(tree, tmp_path, "nwk") == tree


def test_newick_names_inner_nodes(tmp_path):
    (tmp_path / "t.nwk").write_text("((a,b),(c,(d,node1)));")
    assert Hierarchy.read(tmp_path / "t.nwk").names == (
        "root",
        "node2",
        "a",
        "b",
        "node3",
        "c",
        "node4",
        "d",
        "node1",
    )


def test_newick_of_other_tools(tmp_path):
    text = "(((a:1,b:1)100:1,(c_1:1,'d e':1)100:1)95:2[95],((f:1,g:1)100:1,h:2)95:2,(k:1)'95':1,95:3)r:0.5;"
    (tmp_path / "t.nwk").write_text(text)
    tree = Hierarchy.read(tmp_path / "t.nwk")
    assert tree.edge_weights[0] == 0
    assert tree.names[0] == "r"
    assert [tree.path(leaf)[:-1] for leaf in tree.leaves] == [
        ("95 (2)", "100"),
        ("95 (2)", "100"),
        ("95 (2)", "100 (2)"),
        ("95 (2)", "100 (2)"),
        ("95 (3)", "100"),
        ("95 (3)", "100"),
        ("95 (3)",),
        ("95 (4)",),
        (),
    ]
    assert tree.classes == ("a", "b", "c_1", "d e", "f", "g", "h", "k", "95")
    assert there_and_back(tree, tmp_path, "nwk") == tree


@pytest.mark.parametrize("length", ["0", "0.5", "-1", "1e-9"])
def test_newick_ignores_the_length_of_the_root(length, tmp_path):
    (tmp_path / "t.nwk").write_text(f"((cat,dog)animal,car)root:{length};")
    assert Hierarchy.read(tmp_path / "t.nwk").edge_weights.tolist() == [0, 1, 1, 1, 1]
