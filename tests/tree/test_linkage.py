import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.cluster.hierarchy import cophenet, linkage

from cophenet.tree import Hierarchy


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    count=st.integers(2, 15),
    method=st.sampled_from(["single", "complete", "average", "weighted", "ward"]),
)
def test_distances_are_cophenetic(seed, count, method):
    points = np.random.default_rng(seed).normal(size=(count, 3))
    merges = linkage(points, method=method)
    tree = Hierarchy.from_linkage(merges)
    assert tree.classes == tuple(str(label) for label in range(count))
    np.testing.assert_allclose(tree.condensed(), cophenet(merges), rtol=1e-9)
    np.testing.assert_allclose(
        Hierarchy.infer(points, np.arange(count), method=method).condensed(), cophenet(merges)
    )


def test_ties_become_one_node():
    points = np.array([[0.0], [1.0], [2.0], [3.0], [10.0]])
    tree = Hierarchy.from_linkage(linkage(points, "single"), names=list("abcde"))
    assert [len(tree.nodes_at(depth)) for depth in (1, 2)] == [2, 4]
    np.testing.assert_allclose(tree.condensed(), cophenet(linkage(points, "single")))


def test_means_of_classes():
    features = [[0.0, 0.0], [2.0, 0.0], [10.0, 0.0], [11.0, 0.0]]
    tree = Hierarchy.infer(features, [7, 7, 10, 9])
    assert tree.classes == ("7", "9", "10")
    assert tree.condensed().tolist() == [9.5, 9.5, 1.0]
    named = Hierarchy.infer(features, [7, 7, 10, 9], names=["a", "b", "c"])
    assert named.classes == ("a", "b", "c")


def test_tensors():
    features = torch.tensor([[0.0], [1.0], [5.0]], dtype=torch.bfloat16, requires_grad=True)
    assert Hierarchy.infer(features, torch.tensor([2, 1, 0])).classes == ("0", "1", "2")


def test_string_labels_of_any_kind():
    for labels in (["b", "a"], np.array(["b", "a"]), np.array(["b", "a"], dtype=object)):
        assert Hierarchy.infer([[0.0], [1.0]], labels).classes == ("a", "b")


def test_equal_means_make_a_star():
    tree = Hierarchy.infer(np.ones((4, 2)), ["a", "b", "c", "d"])
    assert set(tree.condensed()) == {2.0}
    assert tree.height == 1


@pytest.mark.parametrize(
    ("features", "labels", "options", "message"),
    [
        ([[0.0], [0.0], [1.0]], ["a", "b", "c"], {}, "'a', 'b'.* at distance 0"),
        ([[0.0], [1.0]], [0, 0], {}, "at least two classes, got 1"),
        ([[0.0], [1.0]], [0, 1, 2], {}, r"shape \(2,\)"),
        ([[0.0], [1.0]], [0.0, 1.0], {}, "integers or strings, got dtype float64"),
        ([0.0, 1.0], [0, 1], {}, r"shape \(N, d\)"),
        ([[0.0], [np.nan]], [0, 1], {}, "must be finite"),
        ([[0.0], [1.0]], [0, 1], {"method": "centroid"}, "method must be one of"),
        ([[0.0], [1.0]], [0, 1], {"names": ["a"]}, "names must name the 2 classes"),
    ],
)
def test_bad_features(features, labels, options, message):
    with pytest.raises(ValueError, match=message):
        Hierarchy.infer(features, labels, **options)


@pytest.mark.parametrize(
    ("merges", "message"),
    [
        ([], "shape"),
        ([[0, 1, 1.0]], "shape"),
        ([[0, 1, np.nan, 2]], "finite"),
        ([[0, 1, -1.0, 2]], "not negative"),
        ([[0, 2, 1.0, 2]], "does not exist yet"),
        ([[0, 0.5, 1.0, 2]], "does not exist yet"),
        ([[0, 1, 1.0, 2], [0, 2, 2.0, 3]], "merged twice"),
        ([[0, 1, 2.0, 2], [2, 3, 1.0, 3]], "not monotone"),
        ([[0, 1, 0.0, 2], [2, 3, 1.0, 3]], "at distance 0"),
    ],
)
def test_bad_linkage(merges, message):
    with pytest.raises(ValueError, match=message):
        Hierarchy.from_linkage(merges)


def test_names_of_a_linkage():
    with pytest.raises(ValueError, match="name the 2 classes of the linkage, got 1"):
        Hierarchy.from_linkage([[0, 1, 1.0, 2]], names=["a"])


def test_room_imports_neither_torch_nor_scipy_nor_yaml():
    code = "import sys, cophenet.tree; print({'torch', 'scipy', 'yaml'} & set(sys.modules) or '[]')"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "[]\n"
    )
