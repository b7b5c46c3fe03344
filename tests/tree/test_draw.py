import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cophenet.tree import Hierarchy

from .trees import animals, cifar100, trees


def test_small_tree():
    assert str(animals().with_level_weights({1: 2.5})).splitlines() == [
        "root",
        "├── animal :2.5",
        "│   ├── cat",
        "│   └── dog",
        "├── vehicle :2.5",
        "│   └── car",
        "└── boat :2.5",
    ]
    assert repr(animals()) == "Hierarchy(4 classes, 7 nodes, height 2)"


def test_long_tree_is_shortened():
    lines = str(cifar100()).splitlines()
    assert len(lines) == 40
    assert lines[-1].startswith("└── … ")
    assert len(cifar100().draw(max_lines=None).splitlines()) == 121


def test_wide_and_deep():
    wide = Hierarchy.from_paths([(f"c{label}",) for label in range(500)])
    assert str(wide).splitlines()[-1] == "└── … 462 more"
    deep = Hierarchy.from_paths([tuple(f"n{depth}" for depth in range(90))])
    assert str(deep).splitlines()[-1].strip() == "└── … 1 class below"


@settings(max_examples=80, deadline=None)
@given(tree=trees(max_nodes=40), limit=st.integers(2, 50))
def test_never_longer_than_asked(tree, limit):
    lines = tree.draw(limit).splitlines()
    assert len(lines) <= limit
    if tree.num_nodes <= limit:
        assert len(lines) == tree.num_nodes
    else:
        assert len(lines) >= limit - 1  # a child with others below it takes two


def test_names_stay_on_their_line():
    tree = Hierarchy.from_paths([("a\u200bb", "soft\xadhyphen"), ("é", "漢字")])
    drawn = ["root", "├── a\\u200bb", "│   └── soft\\xadhyphen", "└── é", "    └── 漢字"]
    assert str(tree).splitlines() == drawn


def test_too_few_lines():
    with pytest.raises(ValueError, match="max_lines must be at least 2"):
        cifar100().draw(1)


def test_a_picture_keeps_names_that_look_like_branches():
    assert ">├── a</text>" in Hierarchy.from_paths([("├── a", "b")]).to_svg()
