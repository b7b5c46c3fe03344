"""The way from the root to a class, against walking up the tree node by node."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from torch.autograd import gradcheck
from torch.utils._python_dispatch import TorchDispatchMode

from cophenet import Hierarchy
from cophenet.objectives import TreePaths, create_objective
from cophenet.objectives.paths import group_logsumexp
from support import DEVICE

from ..tree.trees import line_up, slow_ancestor, trees
from .steps import DEEP, StepOutput, total


def slow_path_logsumexp(tree, logits, labels):
    """One log-sum-exp per sample and ancestor, over the classes found below it."""
    rows = []
    for row, label in zip(logits, labels.tolist(), strict=True):
        way = line_up(tree, int(tree.leaves[label]))[::-1]
        way += way[-1:] * (tree.height + 1 - len(way))
        below = [
            [c for c, leaf in enumerate(tree.leaves) if node in line_up(tree, int(leaf))] for node in way
        ]
        rows.append(torch.stack([row[classes].logsumexp(0) for classes in below]))
    return torch.stack(rows)


@given(trees(max_nodes=18))
@settings(max_examples=30, deadline=None)
def test_shared_values_and_sums_on_any_tree(tree):
    paths, count = TreePaths(tree).to(DEVICE), tree.num_classes
    labels = torch.arange(count, device=DEVICE)
    lowest = np.array([[slow_ancestor(tree, int(a), int(b)) for b in tree.leaves] for a in tree.leaves])
    heights = paths.along(tree.heights).to(DEVICE)
    assert (paths.shared(heights, labels).cpu().numpy() == tree.heights[lowest]).all()
    some = torch.tensor([count - 1, 0, count // 2, 0], device=DEVICE)
    chosen = paths.shared(heights, labels, some).cpu().numpy()
    assert (chosen == tree.heights[lowest][:, some.cpu()]).all()
    logits = torch.randn(count, count, dtype=torch.float64, device=DEVICE)
    torch.testing.assert_close(paths.logsumexp(logits, labels), slow_path_logsumexp(tree, logits, labels))


def test_gradient_of_the_sums():
    paths = TreePaths(DEEP).to(DEVICE)
    labels = torch.tensor([0, 3, 6, 8], device=DEVICE)
    logits = torch.randn(4, 9, dtype=torch.float64, device=DEVICE, requires_grad=True)
    assert gradcheck(lambda x: paths.logsumexp(x, labels), logits)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_extreme_and_excluded_logits(dtype):
    paths = TreePaths(DEEP).to(DEVICE)
    labels = torch.tensor([3, 0, 0], device=DEVICE)
    logits = torch.zeros(3, 9, dtype=dtype, device=DEVICE)
    logits[0, 3], logits[1, 0], logits[2, 1:] = -3e4, 3e4, -torch.inf
    logits.requires_grad_()
    sums = paths.logsumexp(logits, labels)
    assert sums[0, 1:].tolist() == [-3e4] * 3
    assert (sums[1] == 3e4).all()
    assert (sums[2] == 0).all()
    sums.sum().backward()
    assert torch.isfinite(logits.grad).all()
    torch.testing.assert_close(logits.grad.sum(1), torch.full_like(logits[:, 0], 4))


def test_nan_is_not_hidden():
    logits = torch.zeros(1, 9, device=DEVICE)
    logits[0, 7] = torch.nan
    assert TreePaths(DEEP).to(DEVICE).logsumexp(logits, torch.tensor([0], device=DEVICE))[0, 0].isnan()


class Largest(TorchDispatchMode):
    """Elements of the largest tensor that any operation makes."""

    elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        """Note the sizes of what is made."""
        out = func(*args, **(kwargs or {}))
        for item in out if isinstance(out, (tuple, list)) else (out,):
            if isinstance(item, torch.Tensor):
                self.elements = max(self.elements, item.numel())
        return out


@pytest.mark.parametrize("name", ["hxe", "soft", "sumloss"])
def test_ten_thousand_classes_in_bounded_memory(name):
    classes, size = 10_000, 128
    digits = [f"{c:04d}" for c in range(classes)]
    tree = Hierarchy.from_paths([(d[:1], d[:2], d[:3], d) for d in digits])
    objective = create_objective(name, tree).to(DEVICE)
    logits = torch.randn(size, classes, device=DEVICE).requires_grad_()
    labels = torch.arange(size, device=DEVICE) * 9 % classes
    step = StepOutput(logits[:, :2].detach(), {tree.level_names[-1]: logits}, labels)
    with Largest() as largest:
        total(objective(step)).backward()
    assert largest.elements <= size * (classes + 1)
    assert torch.isfinite(logits.grad).all()


def test_group_sums_stay_finite_where_they_underflow():
    values = torch.tensor([[0.0, -1e4, -2e4, 5.0]], dtype=torch.float64, device=DEVICE, requires_grad=True)
    groups = torch.tensor([0, 1, 1, 0], device=DEVICE)
    sums = group_logsumexp(values, groups, 2)
    expected = torch.stack((values[0, [0, 3]].logsumexp(0), values[0, [1, 2]].logsumexp(0)))
    torch.testing.assert_close(sums[0], expected)
    assert gradcheck(lambda v: group_logsumexp(v, groups, 2), values)
