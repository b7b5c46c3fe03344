"""Tree Wasserstein: the closed form against EMD, the fits against explicit design matrices."""

import itertools
import pickle
from dataclasses import replace

import numpy as np
import ot
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from cophenet.transport import twd
from cophenet.transport.base import create_distance
from cophenet.transport.grouping import group_by_class
from cophenet.transport.twd import TreeWasserstein, tree_wasserstein
from cophenet.tree import Hierarchy
from support import DEVICE, double, pair_loop, random_batch, random_weights

SIZES = st.lists(st.integers(1, 5), min_size=2, max_size=7)
SEEDS = st.integers(0, 2**32 - 1)


def random_tree(seed, classes):
    """A tree of any shape with the given number of classes: chains, twins below the root, uneven depths."""
    rng = np.random.default_rng(seed)
    inner = [-1, *(int(rng.integers(i)) for i in range(1, int(rng.integers(1, 7))))]
    barren = np.setdiff1d(np.arange(len(inner)), inner[1:])
    # A childless inner node gets a class; the rest go anywhere. Too many barren ones: a flat tree.
    if len(barren) > classes:
        inner, barren = [-1], np.array([0])
    homes = np.concatenate((barren, rng.integers(len(inner), size=classes - len(barren))))
    parents = np.concatenate((inner, rng.permutation(homes)))
    return Hierarchy.from_parents(parents, weights=np.append(0.0, rng.uniform(0.1, 2, len(parents) - 1)))


def non_negative(design, target, penalty=0.0):
    """1/2 |Xw - y|^2 + penalty sum w over w >= 0; a touch of ridge makes one w of many equal ones."""
    gram = design.T @ design
    root = np.linalg.cholesky(gram + 1e-9 * np.trace(gram) * np.eye(len(gram)))
    return nnls(root.T, np.linalg.solve(root, design.T @ target - penalty), maxiter=5000)[0]


def slow_batch_fit(tree, features, labels, weights, penalty=0.0):
    """Every edge of the augmented tree a column, chains and all; every pair of samples a row."""
    labels = labels.cpu().numpy()
    below = np.zeros((len(labels), tree.num_nodes + len(labels)), dtype=bool)
    for i, label in enumerate(labels):
        below[i, tree.num_nodes + i] = True
        node = tree.leaves[label]
        while node >= 0:
            below[i, node] = True
            node = tree.parents[node]
    i, j = np.triu_indices(len(labels), 1)
    design = (below[i] ^ below[j]).astype(float)
    distance = torch.cdist(features, features).cpu().numpy()
    lengths = non_negative(design, distance[i, j], penalty)
    metric = (below[:, None] ^ below[None]) @ lengths
    weights = weights.cpu().numpy()
    out = []
    for u, v in itertools.combinations(np.unique(labels), 2):
        a, b = (np.where(labels == c, weights, 0) for c in (u, v))
        out.append(a / a.sum() @ metric @ b / b.sum())
    return np.array(out)


def slow_pair_fit(penalty):
    def cost(x, y, a, b):
        m, n = len(x), len(y)
        i, j = np.divmod(np.arange(m * n), n)
        design = np.zeros((m * n, m + n + 1))
        design[np.arange(m * n), i] = design[np.arange(m * n), m + j] = design[:, -1] = 1
        a, b = a.cpu().numpy(), b.cpu().numpy()
        scale = np.sqrt(m * n * a[i] * b[j])
        target = scale * torch.cdist(x, y).cpu().numpy().ravel()
        lengths = non_negative(scale[:, None] * design, target, penalty)
        return double(a @ lengths[:m] + b @ lengths[m:-1] + lengths[-1])

    return cost


@settings(deadline=None, max_examples=50)
@given(SEEDS, st.integers(1, 12))
def test_closed_form_is_emd_in_the_tree_metric(seed, classes):
    tree = random_tree(seed, classes)
    a, b = np.random.default_rng(seed).dirichlet(np.full(classes, 0.5), size=2)
    value = tree_wasserstein(tree, torch.tensor(a), torch.tensor(b))
    assert value == pytest.approx(ot.emd2(a, b, tree.distances()), abs=1e-9)


def test_closed_form_broadcasts_and_has_a_gradient():
    tree = random_tree(3, 6)
    a, b = double(np.random.default_rng(0).dirichlet(np.ones(6), size=(2, 4, 1)))
    b = b.transpose(0, 1)
    value = tree_wasserstein(tree, a, b)
    assert value.shape == (4, 4)
    torch.testing.assert_close(value[2, 1], tree_wasserstein(tree, a[2, 0], b[0, 1]))
    assert torch.autograd.gradcheck(lambda x, y: tree_wasserstein(tree, x, y), (a.requires_grad_(), b))
    assert tree_wasserstein(tree, a.float(), b.float()).dtype == torch.float32
    eye = torch.eye(6, dtype=torch.float64, device=DEVICE)
    np.testing.assert_allclose(tree_wasserstein(tree, eye[:, None], eye).cpu(), tree.distances(), atol=1e-12)


def test_closed_form_on_a_deep_chain():
    depth = 20_000
    tree = Hierarchy.from_parents([-1, *range(depth), 0])
    # Two classes: the end of the chain and a child of the root.
    a, b = torch.tensor([1.0, 0.0]), torch.tensor([0.25, 0.75])
    assert tree_wasserstein(tree, a, b) == pytest.approx(0.75 * (depth + 1))


def test_closed_form_names_a_wrong_mass():
    with pytest.raises(ValueError, match=r"b must be floating point of shape \(..., 3\), got .* \(2,\)"):
        tree_wasserstein(random_tree(0, 3), torch.ones(3), torch.ones(2))


@settings(deadline=None, max_examples=60)
@given(SEEDS, SIZES, st.sampled_from([1, 3, 30]), st.booleans(), st.sampled_from([0.0, 0.7]))
def test_batch_fit_equals_an_explicit_design_matrix(seed, sizes, width, weighted, penalty):
    features, labels = random_batch(seed, sizes, width)
    tree = random_tree(seed, len(sizes) + 3)
    labels = torch.tensor(np.random.default_rng(seed).permutation(tree.num_classes), device=DEVICE)[labels]
    weights = random_weights(seed, len(labels)) if weighted else torch.ones_like(features[:, 0])
    batch = group_by_class(features, labels, flow_weights=weights if weighted else "uniform")
    rho = TreeWasserstein(tree, penalty=penalty)(batch)
    expected = slow_batch_fit(tree, features, labels, weights, penalty)
    np.testing.assert_allclose(rho.cpu(), expected, rtol=1e-6, atol=1e-6 * expected.max())


@settings(deadline=None, max_examples=60)
@given(SEEDS, SIZES, st.sampled_from([1, 3, 30]), st.booleans(), st.sampled_from([0.0, 0.7]))
def test_pair_fit_equals_an_explicit_design_matrix(seed, sizes, width, weighted, penalty):
    features, labels = random_batch(seed, sizes, width)
    weights = random_weights(seed, len(labels)) if weighted else None
    batch = group_by_class(features, labels, flow_weights="uniform" if weights is None else weights)
    rho = TreeWasserstein(fit="pair", penalty=penalty)(batch)
    expected = pair_loop(features, labels, slow_pair_fit(penalty), weights)
    torch.testing.assert_close(rho, expected, rtol=1e-6, atol=1e-6)


def mean_distance(x, y, a, b):
    return a @ torch.cdist(x, y) @ b


@settings(deadline=None, max_examples=40)
@given(SEEDS, SIZES, st.booleans())
def test_pair_fit_is_the_mean_distance_unless_the_path_would_be_negative(seed, sizes, weighted):
    features, labels = random_batch(seed, sizes, 2)
    weights = random_weights(seed, len(labels)) if weighted else None
    batch = group_by_class(features, labels, flow_weights="uniform" if weights is None else weights)
    rho = TreeWasserstein(fit="pair")(batch)
    mean = pair_loop(features, labels, mean_distance, weights)

    def path(x, y, a, b):
        distance = torch.cdist(x, y)
        return (distance @ b).min() + (a @ distance).min() - a @ distance @ b

    holds = pair_loop(features, labels, path, weights) >= 0
    torch.testing.assert_close(rho[holds], mean[holds])
    assert (rho >= mean - 1e-9).all()


def test_pair_fit_exceeds_the_mean_distance_where_each_class_has_a_stray_in_the_other():
    x, y = double([[0.0], [0.2], [0.1], [5.0]]), double([[5.0], [5.2], [5.1], [0.0]])
    features, labels = torch.cat((x, y)).requires_grad_(), torch.tensor([0] * 4 + [1] * 4, device=DEVICE)
    rho = TreeWasserstein(fit="pair")(group_by_class(features, labels))
    uniform = torch.full((4,), 0.25, dtype=torch.float64, device=DEVICE)
    assert rho > mean_distance(x, y, uniform, uniform) + 0.05
    expected = slow_pair_fit(0.0)(x, y, uniform, uniform)
    torch.testing.assert_close(rho.detach()[0], expected, rtol=1e-6, atol=0)
    spread = features.detach() + double(np.random.default_rng(0).normal(scale=0.01, size=(8, 1)))

    def value(z):
        return TreeWasserstein(fit="pair")(group_by_class(z, labels))

    assert torch.autograd.gradcheck(value, spread.requires_grad_())


@pytest.mark.parametrize("fit", ["batch", "pair"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("penalty", [0.0, 0.3])
def test_gradient_goes_through_the_fit(fit, weighted, penalty):
    features, labels = random_batch(5, [3, 1, 4, 2, 2], 3)
    weights = random_weights(5, len(labels)) if weighted else "uniform"
    distance = TreeWasserstein(random_tree(5, 5), fit=fit, penalty=penalty)

    def value(z):
        return distance(group_by_class(z, labels, flow_weights=weights))

    assert torch.autograd.gradcheck(value, features.requires_grad_())


@pytest.mark.parametrize("fit", ["batch", "pair"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_coincident_samples_stay_finite(fit, dtype):
    labels = torch.tensor([0, 1, 0, 1, 2, 2], device=DEVICE)
    distance = TreeWasserstein(random_tree(1, 3), fit=fit)
    features = torch.zeros(6, 3, dtype=dtype, device=DEVICE, requires_grad=True)
    rho = distance(group_by_class(features, labels))
    rho.sum().backward()
    assert (rho == 0).all()
    assert (features.grad == 0).all()
    twins = torch.randn(3, 3, dtype=dtype, device=DEVICE).repeat(2, 1).requires_grad_()
    distance(group_by_class(twins, labels)).sum().backward()
    assert torch.isfinite(twins.grad).all()


@settings(deadline=None, max_examples=25)
@given(SEEDS, SIZES, st.sampled_from(["batch", "pair"]))
def test_order_scale_and_singletons(seed, sizes, fit):
    features, labels = random_batch(seed, sizes)
    distance = TreeWasserstein(random_tree(seed, len(sizes)), fit=fit)
    rho = distance(group_by_class(features, labels))
    shuffled = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed)).to(DEVICE)
    torch.testing.assert_close(distance(group_by_class(features[shuffled], labels[shuffled])), rho)
    torch.testing.assert_close(distance(group_by_class(5 * features, labels)), 5 * rho)


@pytest.mark.parametrize("fit", ["batch", "pair"])
def test_two_or_three_single_samples_keep_their_distances(fit):
    for count in (2, 3):
        features, labels = random_batch(0, [1] * count)
        rho = TreeWasserstein(random_tree(0, 4), fit=fit)(group_by_class(features, labels))
        torch.testing.assert_close(rho, pair_loop(features, labels, mean_distance))


def test_two_samples_with_penalty_shrink_to_zero():
    batch = group_by_class(double([[0.0], [2.0]]), torch.tensor([0, 1], device=DEVICE))
    for penalty, expected in ((0.5, 1.5), (3.0, 0.0)):
        for fit in ("batch", "pair"):
            rho = TreeWasserstein(random_tree(0, 2), fit=fit, penalty=penalty)(batch)
            assert rho == pytest.approx(expected)


def test_a_tree_metric_in_euclidean_space_is_found_exactly():
    # Leaves at equal depth are an ultrametric, which embeds: classical scaling gives the points.
    samples = Hierarchy.from_paths([("ab"[i // 4], "pqrs"[i // 2], str(i)) for i in range(8)])
    distance = samples.distances() + 0.5 * (1 - np.eye(8))
    centre = np.eye(8) - 1 / 8
    values, vectors = np.linalg.eigh(-centre @ distance**2 @ centre / 2)
    features = double(vectors * np.sqrt(values.clip(0)))
    tree = Hierarchy.from_paths(["a/p", "a/q", "b/r", "b/s"], sep="/")
    batch = group_by_class(features, torch.arange(8, device=DEVICE) // 2)
    np.testing.assert_allclose(TreeWasserstein(tree)(batch).cpu(), tree.condensed() + 2.5, atol=1e-6)


def test_the_pull_of_accelerators_is_that_of_the_host():
    z = random_batch(8, [9])[0]
    z[3] = z[5]
    pull = torch.rand(4, 9, dtype=torch.float64, device=DEVICE)
    rows = slice(3, 7)
    distance = torch.cdist(z[rows], z, compute_mode="donot_use_mm_for_euclid_dist")
    product = twd._pull_by_product(z, z - z.mean(0), rows, distance, pull)
    torch.testing.assert_close(product, twd._pull_by_difference(z, rows, pull))


@pytest.mark.parametrize("fit", ["batch", "pair"])
def test_strips_and_chosen_pairs_change_nothing(fit, monkeypatch):
    features, labels = random_batch(6, [4, 2, 5, 3])
    distance = TreeWasserstein(random_tree(6, 4), fit=fit)

    def run():
        z = features.clone().requires_grad_()
        rho = distance(group_by_class(z, labels))
        rho.square().sum().backward()
        return rho.detach(), z.grad

    whole = run()
    monkeypatch.setattr(twd, "_STRIP_ELEMENTS", 40)
    for part, expected in zip(run(), whole, strict=True):
        torch.testing.assert_close(part, expected)
    batch = group_by_class(features, labels)
    some = replace(batch, first=batch.first[[4, 1]], second=batch.second[[4, 1]])
    torch.testing.assert_close(distance(some), whole[0][[4, 1]])
    one = group_by_class(features, torch.zeros_like(labels))
    assert distance(one).shape == (0,)


@pytest.mark.parametrize("fit", ["batch", "pair"])
def test_float32_holds_on_tight_classes_far_from_the_origin(fit):
    features, labels = random_batch(7, [6, 5, 4, 3], 16)
    features = (1e-3 * features + 1).float()
    distance = TreeWasserstein(random_tree(7, 4), fit=fit)
    results = []
    for z in (features, features.double()):
        z = z.clone().requires_grad_()
        rho = distance(group_by_class(z, labels))
        rho.square().sum().backward()
        results.append((rho.detach().double(), z.grad.double()))
    for single, exact in zip(*results, strict=True):
        assert (single - exact).abs().max() <= 1e-4 * exact.abs().max()


def test_options_are_checked_and_the_distance_pickles():
    tree = random_tree(0, 4)
    with pytest.raises(ValueError, match=r"tree is needed by distance 'twd' with fit='batch'"):
        create_distance("twd")
    with pytest.raises(ValueError, match="fit must be one of batch, pair, got 'all'"):
        create_distance("twd", tree, fit="all")
    for penalty in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="penalty must be finite and at least 0"):
            TreeWasserstein(tree, penalty=penalty)
    batch = group_by_class(*random_batch(0, [2, 3, 1, 2]))
    distance = create_distance("twd", tree)
    torch.testing.assert_close(pickle.loads(pickle.dumps(distance))(batch), distance(batch))
    with pytest.raises(ValueError, match=r"labels must lie in 0..1, got 3"):
        TreeWasserstein(random_tree(0, 2))(batch)
    with pytest.raises(ValueError, match="has no transport plan"):
        distance.with_plan(batch)
