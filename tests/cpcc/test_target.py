"""Any dissimilarities of classes in place of the tree's distances: `target=`."""

import numpy as np
import pytest
import torch

from cophenet import CPCCLoss, Hierarchy, class_distances, cpcc
from support import DEVICE, random_batch

TREE = Hierarchy.from_paths([(f"group{c // 3}", f"class{c}") for c in range(9)])
COUNTS = [2, 3, 1, 2, 2, 3, 1, 2, 4]


def matrix(count=9, seed=0):
    values = np.random.default_rng(seed).uniform(1, 9, (count, count))
    return np.triu(values, 1) + np.triu(values, 1).T


@pytest.mark.parametrize("kind", [np.asarray, torch.tensor])
@pytest.mark.parametrize("tree", [None, TREE])
def test_class_distances_are_correlated_with_the_matrix(tree, kind):
    z, y = random_batch(0, COUNTS, width=6, dtype=torch.float64)
    kept = y != 4  # a class that is absent
    target = matrix()
    loss = CPCCLoss(tree, "emd", weight=0.5, target=kind(target))(z[kept], y[kept])
    classes, rho = class_distances(z[kept], y[kept], "emd")
    some = target[np.ix_(classes.tolist(), classes.tolist())][np.triu_indices(8, 1)]
    torch.testing.assert_close(loss, 0.5 * (1 - cpcc(rho, torch.from_numpy(some))))


def test_the_distances_of_the_tree_are_a_target_like_any_other():
    z, y = random_batch(0, COUNTS, width=6, dtype=torch.float64)
    assert CPCCLoss(TREE, "l2", target=TREE.distances())(z, y) == CPCCLoss(TREE, "l2")(z, y)


def test_a_target_of_the_classes_of_a_level():
    z, y = random_batch(0, COUNTS, width=6, dtype=torch.float64)
    target = matrix(3)
    loss = CPCCLoss(TREE, "l2", level=1, target=target)(z, y)
    expected = CPCCLoss(None, "l2", target=target)(z, torch.tensor(TREE.cut(1)[1], device=DEVICE)[y])
    torch.testing.assert_close(loss, expected)


def test_labels_are_rows_of_the_matrix():
    criterion = CPCCLoss(None, "l2", target=matrix(4))
    with pytest.raises(ValueError, match=r"labels must lie in 0\.\.3"):
        criterion(torch.eye(3, device=DEVICE), torch.tensor([0, 1, 4], device=DEVICE))
    assert "target=matrix" in repr(criterion)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (np.zeros((9, 8)), r"a square matrix, one row for each class, got shape \(9, 8\)"),
        (np.zeros((0, 0)), "a square matrix"),
        (matrix(8), r"must have shape \(9, 9\), one row for each class, got \(8, 8\)"),
        (np.full((9, 9), np.inf), "must be finite"),
        (matrix() + np.eye(9), "must be zero on its diagonal, got 1.0 at class 0"),
        (np.triu(matrix()), r"must be symmetric, got .* and 0.0 for classes 0 and 1"),
        ("near", "must be a matrix of numbers, got str"),
    ],
)
def test_other_matrices_are_refused(target, message):
    with pytest.raises(ValueError, match=f"target {message}|target must be {message}"):
        CPCCLoss(TREE, target=target)


def test_what_needs_a_tree_says_so():
    with pytest.raises(ValueError, match=r"tree must be a cophenet\.Hierarchy, got NoneType"):
        CPCCLoss(None)
    with pytest.raises(ValueError, match="level needs a tree"):
        CPCCLoss(None, level=1, target=matrix())
    with pytest.raises(ValueError, match="tree"):
        CPCCLoss(None, "twd", target=matrix())
