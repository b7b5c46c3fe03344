"""What is odd in a tree, and trees as pictures."""

import re
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings

from cophenet.tree import Hierarchy

from .test_paths import PATHS, lookalikes
from .trees import cifar100, trees

MANY = [f"c{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(60)]


def test_a_good_tree_is_not_odd():
    assert cifar100().review() == []


@pytest.mark.parametrize(
    ("nested", "sentence"),
    [
        (["a", "b", "c"], "equally far apart"),
        ({"a": {"b": ["x", "y"]}, "c": ["z", "w"]}, "1 group has a single child, .* apart: 'a'. collapse"),
        (
            {"a": ["x", "y"], "b": {"c": {"d": ["z", "w"], "e": ["u", "v"]}}, "f": None},
            "depths 1 to 4: 'f' is much nearer to all others than 'z'",
        ),
        ({"a": MANY, "b": ["x", "y"], "c": ["z", "w"]}, "'a' has 60 classes, its 2 siblings 4 together"),
        ({"a": MANY, "b": ["x", "y"]}, "60 of 62 classes lie side by side right below 'a'"),
        ({"a": ["x", "y"], "b": ["x", "z"]}, "2 classes are known by path, .*: 'a/x', 'b/x'"),
        (
            {"a": ["Grey seal", "horse"], "b": ["grey_seal", "horses"]},
            "2 pairs of classes have nearly the same name: 'Grey seal' and 'grey_seal', 'horse' and 'horses'",
        ),
    ],
)
def test_odd_trees(nested, sentence):
    assert re.search(sentence, "\n".join(Hierarchy.from_nested(nested).review()))


def test_names_that_differ_on_purpose():
    names = ["cat", "coat", "boat", "item 1", "item 11", "class 12", "class 2"]
    assert Hierarchy.from_nested({"a": names[:3], "b": names[3:]}).review() == []


@settings(max_examples=60, deadline=None)
@given(tree=trees() | lookalikes())
def test_any_tree_has_a_review_and_a_picture(tree):
    for sentence in tree.review():
        assert sentence.endswith(".")
        assert "\n" not in sentence
    picture = ElementTree.fromstring(tree.to_svg(None))
    texts = [element.text for element in picture.iter() if element.tag.endswith("text")]
    assert [text.split(" :")[0] for text in texts] == list(tree.last_names)


def test_pictures_of_awkward_names():
    tree = Hierarchy.from_paths([*PATHS, ("    a & b", '<script>"</script>'), ("├── x", "漢字")])
    assert tree._repr_svg_() == tree.to_svg()
    picture = ElementTree.fromstring(tree.to_svg())
    texts = [element.text for element in picture.iter() if element.tag.endswith("text")]
    assert texts == list(tree.last_names)
    assert "<script>" not in tree.to_svg()


def test_pictures_of_large_trees_are_shortened():
    assert cifar100().to_svg(20).count("<text") <= 20
