"""The rank loss against a loop over pairs."""

import itertools

import pytest
import torch
from torch.nn.functional import cross_entropy

from cophenet.objectives import rank_loss
from support import DEVICE, double

from .steps import DEEP, make, make_features, make_step


def slow_rank(features, tree_distances, published):
    pairs = [(features[i] - features[j]).norm() for i, j in itertools.combinations(range(len(features)), 2)]
    in_order = sorted(range(len(pairs)), key=lambda p: pairs[p].item())
    ranks = sorted(set(tree_distances))
    loss, start = 0.0, 0
    for rank in ranks:
        members = [p for p, t in enumerate(tree_distances) if t == rank]
        places = in_order[start : start + len(members)]
        goal = torch.stack([pairs[p] for p in places]).mean().detach()
        if published:
            goal = pairs[in_order[min(int(rank), len(pairs) - 1)]]
        loss = loss + sum((pairs[p] - goal) ** 2 for p in members if p not in places)
        start += len(members)
    return loss / len(pairs)


@pytest.mark.parametrize("target", ["mean", "published"])
@pytest.mark.parametrize("labels", [[0, 2, 4, 0, 1, 5, 3, 8, 6, 2, 7, 1], [0, 0, 0], [0, 1], [6, 3, 0]])
def test_against_a_loop(labels, target):
    features = make_features(len(labels))
    tree = DEEP.distances()
    apart = [float(tree[a, b]) for a, b in itertools.combinations(labels, 2)]
    expected = slow_rank(features, apart, target == "published")
    objective = make("rank", weight=0.5, target=target)
    step = make_step(objective, labels)
    terms = objective(step)
    torch.testing.assert_close(
        terms["rank"], torch.as_tensor(0.5 * expected, device=DEVICE, dtype=torch.float64)
    )
    torch.testing.assert_close(terms["cross_entropy"], cross_entropy(step.logits["kind"], step.labels))
    loss = rank_loss(features, double(apart), target)
    (gradient,) = torch.autograd.grad(loss, features)
    if torch.is_tensor(expected) and expected.requires_grad:
        torch.testing.assert_close(gradient, torch.autograd.grad(expected, features)[0])


def test_numbers_by_hand():
    """Samples at 0, 2, 1: distances 2, 1, 1, but the first pair is the one of one class."""
    features = double([[0.0], [2.0], [1.0]])
    # The pair of rank 0 wants 1 and has 2; of the others the one at place 0 wants 1.5 and has 1.
    assert rank_loss(features, double([0.0, 4.0, 4.0])).item() == pytest.approx((1 + 0.25) / 3)


def test_pairs_in_the_order_of_the_tree_cost_nothing():
    features = double([[0.0], [1.0], [3.0], [10.0]])
    tree = double([0.0, 2.0, 4.0, 2.0, 4.0, 4.0])
    features.requires_grad_()
    loss = rank_loss(features, tree)
    loss.backward()
    assert loss == 0
    assert (features.grad == 0).all()


def test_equal_feature_distances_do_not_depend_on_the_order():
    """Three equal distances, two ranks: the smaller rank takes the first place whatever the order."""
    corners = double([[1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]])
    for tree in ([0.0, 4, 4], [4.0, 0, 4], [4.0, 4, 0]):
        assert rank_loss(corners, double(tree)) == 0


def test_distances_that_differ_by_rounding_share_a_rank():
    tree = DEEP.with_level_weights({1: 0.1, 2: 0.2, 3: 0.3})
    labels = [0, 2, 1, 5, 4, 7]
    objective, plain = make("rank", tree), make("rank", DEEP.with_level_weights({1: 1.0, 2: 2.0, 3: 3.0}))
    ours, expected = (o(make_step(o, labels))["rank"] for o in (objective, plain))
    torch.testing.assert_close(ours, expected)


@pytest.mark.parametrize("cast", ["float", "half", "bfloat16"])
def test_casting_the_module_keeps_the_tree_exact(cast):
    """1000.3 beside 0.001 and less needs more digits than float32 has; rounding would lose ranks."""
    tree = DEEP.with_level_weights({1: 1000.3, 2: 0.001, 3: 0.00001})
    labels = [0, 2, 4, 0, 1, 5, 3, 8, 6, 2, 7, 1]
    objective = make("rank", tree)
    step = make_step(objective, labels)
    apart = [float(tree.distances()[a, b]) for a, b in itertools.combinations(labels, 2)]
    expected = rank_loss(step.features, double(apart))
    torch.testing.assert_close(objective(step)["rank"], expected)
    torch.testing.assert_close(getattr(objective, cast)()(step)["rank"], expected)


def test_refusals():
    with pytest.raises(ValueError, match="edge weights are not whole numbers"):
        make("rank", DEEP.with_level_weights({1: 0.5}), target="published")
    with pytest.raises(ValueError, match="target must be one of mean, published, got 'median'"):
        make("rank", target="median")
    objective = make("rank")
    step = make_step(objective, [0, 2, 0, 1])
    step.features.data[0, 0] = torch.inf
    with pytest.raises(ValueError, match="features must be finite"):
        objective(step)
