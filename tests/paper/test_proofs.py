"""Claims of the paper that are proofs: examples, counterexamples and formulas."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.optimize import linear_sum_assignment
from scipy.stats import spearmanr

from cophenet import Hierarchy, class_distances, cpcc
from cophenet.data.cifar import cifar100_tree
from cophenet.objectives.paths import TreePaths
from cophenet.objectives.soft import soft_label_loss
from cophenet.objectives.sumloss import level_cross_entropies
from cophenet.paper.proofs import PROOFS
from cophenet.transport import create_distance, tree_wasserstein
from support import greedy_cost, random_batch, random_weights

ROOT = Path(__file__).parents[2]
UNEVEN = Hierarchy.from_paths([("a",), ("b",), ("c",), ("g", "h", "d"), ("g", "e")])


def between(x, y, name="emd", **options):
    """The distance of two clouds."""
    labels = torch.cat((torch.zeros(len(x)), torch.ones(len(y)))).long()
    return class_distances(torch.cat((x, y)), labels, name, **options)[1].squeeze()


def cloud(seed, count, width=4):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(count, width)))


@pytest.mark.parametrize("proof", PROOFS, ids=lambda proof: proof.text)
def test_the_tests_that_proofs_name_are_there(proof):
    assert proof.verdict in ("holds", "does not hold")
    assert proof.tests
    for path, names in proof.tests.items():
        written = re.findall(r"^def (test_\w+)\(", (ROOT / path).read_text(), re.MULTILINE)
        assert names
        assert set(names) <= set(written)


def test_the_printed_cpcc_has_exponents_of_the_wrong_sign():
    t, rho = np.array([2.0, 4.0, 4.0, 2.0]), np.array([1.0, 3.0, 2.5, 1.5])
    both = ((t - t.mean()) * (rho - rho.mean())).sum()
    squares = ((t - t.mean()) ** 2).sum() * ((rho - rho.mean()) ** 2).sum()
    right = cpcc(torch.from_numpy(rho), torch.from_numpy(t)).item()
    assert right == pytest.approx(both / squares**0.5)
    assert both / squares**-0.5 > 1


def test_l2_is_the_mean_discrepancy_of_a_linear_kernel():
    x, y = cloud(0, 5), cloud(1, 7) + 1
    squared = (x @ x.T).mean() + (y @ y.T).mean() - 2 * (x @ y.T).mean()
    assert between(x, y, "l2").item() == pytest.approx(squared.sqrt().item())


def test_means_do_not_see_modes():
    one = torch.tensor([[-0.5, 0.0], [0.5, 0.0]], dtype=torch.float64)
    two = torch.tensor([[0.0, -9.0], [0.0, 9.0]], dtype=torch.float64)
    assert between(one, two, "l2").item() == pytest.approx(0, abs=1e-12)
    assert between(one, two).item() > 9


def embedding(distances):
    """Eigenvalues and points of classical scaling; the distances embed if no eigenvalue is below zero."""
    centre = np.eye(len(distances)) - 1 / len(distances)
    values, vectors = np.linalg.eigh(-centre @ distances**2 @ centre / 2)
    return values, vectors * np.sqrt(values.clip(0))


def test_a_star_with_its_centre_has_no_euclidean_embedding():
    leaves = 2 * (1 - np.eye(3))
    star = np.block([[leaves, np.ones((3, 1))], [np.ones((1, 3)), np.zeros((1, 1))]])
    assert embedding(leaves)[0].min() > -1e-9
    assert embedding(star)[0].min() < -0.1


def test_centroids_reach_the_tree_where_leaves_have_equal_depth():
    tree = Hierarchy.from_paths([(f"g{c // 3}", f"c{c}") for c in range(9)])
    values, points = embedding(tree.distances())
    assert values.min() > -1e-9
    rho = class_distances(torch.from_numpy(points), torch.arange(9), "l2")[1]
    assert cpcc(rho, tree.condensed()).item() == pytest.approx(1.0)


def test_centroids_reach_a_cpcc_of_one_on_a_tree_that_does_not_embed():
    # A leaf near the centre of a star: as a star with its centre, it does not embed.
    tree = Hierarchy.from_edges(
        [("root", "a", 1.0), ("root", "b", 1.0), ("root", "c", 1.0), ("root", "near", 0.05)]
    )
    assert embedding(tree.distances())[0].min() < -0.1
    raised = tree.distances() + 10 * (1 - np.eye(4))
    values, points = embedding(raised)
    assert values.min() > -1e-9
    rho = class_distances(torch.from_numpy(points), torch.arange(4), "l2")[1]
    assert cpcc(rho, tree.condensed()).item() == pytest.approx(1.0)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_emd_and_bures_are_at_most_the_2_wasserstein_distance(seed):
    x, y = cloud(seed, 9), 2 * cloud(seed + 10, 9) + 1
    squared = torch.cdist(x, y).square().numpy()
    w2 = squared[linear_sum_assignment(squared)].mean() ** 0.5
    assert between(x, y).item() <= w2 + 1e-12
    assert between(x, y, "bures").item() <= w2 + 1e-12


def test_sliced_distances_can_be_below_l2():
    features, labels = random_batch(0, [20, 20], width=30)
    swd, l2 = (class_distances(features, labels, name)[1] for name in ("swd", "l2"))
    assert (swd < l2).all()


def test_with_flow_weights_emd_can_be_below_the_plain_means():
    x = torch.tensor([[0.0], [10.0]], dtype=torch.float64)
    y = torch.tensor([[0.0], [-10.0]], dtype=torch.float64)
    weights = torch.tensor([0.9, 0.1, 0.9, 0.1], dtype=torch.float64)
    assert between(x, y, flow_weights=weights).item() == pytest.approx(2)
    assert between(x, y, "l2").item() == pytest.approx(10)


@pytest.mark.parametrize(("m", "n"), [(5, 5), (4, 7)])
def test_sorted_greedy_matching_is_optimal_on_a_line(m, n):
    x, y = (cloud(seed, count, 1).sort(0).values for seed, count in ((0, m), (1, n)))
    weights = random_weights(0, m + n)
    a, b = weights[:m] / weights[:m].sum(), weights[m:] / weights[m:].sum()
    assert between(x, y, flow_weights=weights).item() == pytest.approx(greedy_cost(x, y, a, b).item())


def random_plan(seed, m, n):
    """A plan with uniform marginals: greedy, with samples in a random order."""
    rng = np.random.default_rng(seed)
    rows, columns = rng.permutation(m), rng.permutation(n)
    plan, left, right = np.zeros((m, n)), np.full(m, n), np.full(n, m)
    i = j = 0
    while i < m and j < n:
        moved = min(left[i], right[j])
        plan[rows[i], columns[j]] += moved / (m * n)
        left[i] -= moved
        right[j] -= moved
        i, j = i + (left[i] == 0), j + (right[j] == 0)
    return plan


def test_order_matters_in_the_features_and_not_in_the_tree():
    x, y = cloud(0, 4), cloud(1, 6)
    costs = torch.cdist(x, y).numpy()
    plans = [random_plan(seed, 4, 6) for seed in range(5)]
    in_tree = [(plan * 6.0).sum() for plan in plans]
    assert in_tree == pytest.approx([6.0] * 5)
    assert np.ptp([(plan * costs).sum() for plan in plans]) > 0.01
    forward, backward = (between(x, z, "fastft").item() for z in (y, y.flip(0)))
    assert forward != pytest.approx(backward, abs=0.01)


def test_sample_edges_of_any_weight_leave_every_plan_optimal():
    rng = np.random.default_rng(0)
    edges = rng.uniform(1, 5, 4)[:, None] + rng.uniform(1, 5, 6)[None, :] + 4.0
    costs = [(random_plan(seed, 4, 6) * edges).sum() for seed in range(5)]
    assert costs == pytest.approx([edges.mean()] * 5)


def test_fastft_does_not_see_the_tree():
    features, labels = random_batch(0, [3, 5, 4, 2, 6])
    even = Hierarchy.from_paths([(f"g{c // 2}", name) for c, name in enumerate(UNEVEN.classes)])
    heavy = Hierarchy.from_edges([("root", name, 1.0 + c) for c, name in enumerate(UNEVEN.classes)])
    values = [class_distances(features, labels, "fastft", tree=tree)[1] for tree in (UNEVEN, even, heavy)]
    torch.testing.assert_close(values[0], values[1], rtol=0, atol=0)
    torch.testing.assert_close(values[0], values[2], rtol=0, atol=0)


@pytest.mark.parametrize("name", ["fastft", "emd", "l2"])
def test_fastft_depends_on_every_entry_of_every_sample(name):
    features, labels = random_batch(0, [7, 9])
    (gradient,) = torch.autograd.grad(
        class_distances(features.requires_grad_(), labels, name)[1].sum(), features
    )
    assert (gradient.abs() > 1e-6).all()


def test_gradients_are_those_of_the_paper():
    x, y = cloud(0, 4).requires_grad_(), cloud(1, 6) + 2
    shift = x.mean(0) - y.mean(0)
    (pull,) = torch.autograd.grad(between(x, y, "l2"), x)
    torch.testing.assert_close(pull, (shift / shift.norm() / 4).detach().expand(4, -1))
    labels = torch.tensor([0] * 4 + [1] * 6)
    plan = class_distances(torch.cat((x.detach(), y)), labels, "emd", return_plan=True)[2]
    apart = x.detach()[plan.source] - y[plan.target - 4]
    flows = plan.mass[:, None] * apart / apart.norm(dim=1, keepdim=True)
    (pull,) = torch.autograd.grad(between(x, y), x)
    torch.testing.assert_close(pull, torch.zeros_like(pull).index_add(0, plan.source, flows))


def test_more_projections_make_swd_steadier_but_not_nearer_to_emd():
    x, y = cloud(0, 40, 64), cloud(1, 40, 64) + 1
    emd = between(x, y).item()
    spreads = []
    for count in (5, 500):
        distance = create_distance("swd", n_projections=count)
        values = [between(x, y, distance).item() for _ in range(12)]
        assert np.mean(values) < 0.3 * emd
        spreads.append(np.std(values))
    assert spreads[1] < spreads[0] / 3


def test_tree_wasserstein_of_predictions_is_at_most_twice_sumloss():
    tree = Hierarchy.from_paths([(f"g{c // 3}", f"c{c}") for c in range(9)])
    for seed in range(20):
        logits, label = cloud(seed, 1, 9) * 3, torch.tensor([seed % 9])
        p, truth = logits.softmax(1)[0], torch.eye(9, dtype=torch.float64)[label[0]]
        transport = tree_wasserstein(tree, p, truth).item()
        group = slice(label[0] // 3 * 3, label[0] // 3 * 3 + 3)
        groups = [p.reshape(3, 3).sum(1), truth.reshape(3, 3).sum(1)]
        # The l1 distance of the distributions on both levels: twice the mass that is misplaced.
        assert transport == pytest.approx(
            ((p - truth).abs().sum() + (groups[0] - groups[1]).abs().sum()).item()
        )
        assert transport == pytest.approx(2 * (2 - p[label[0]] - p[group].sum()).item())
        sumloss = level_cross_entropies(logits, label, TreePaths(tree)).sum().item()
        assert transport <= 2 * sumloss


def test_cpcc_sees_what_ranks_do_not():
    t = np.array([2.0, 4.0, 4.0, 4.0, 4.0, 2.0])
    near, far = np.array([1.0, 2.0, 2.1, 2.2, 2.3, 1.1]), np.array([1.0, 2.0, 2.1, 2.2, 23.0, 1.1])
    assert spearmanr(t, near).statistic == pytest.approx(spearmanr(t, far).statistic)
    values = [cpcc(torch.from_numpy(rho), torch.from_numpy(t)).item() for rho in (near, far)]
    assert values[0] > values[1] + 0.3
    heavier = np.array([2.0, 4.0, 4.0, 4.0, 4.0, 3.0])
    assert cpcc(torch.from_numpy(near), torch.from_numpy(heavier)).item() != pytest.approx(
        values[0], abs=0.01
    )


def test_soft_labels_embed_the_tree_where_their_loss_is_least():
    """With logits equal to the logarithms of the targets: whoever learns them learns the tree, CPCC is 1."""
    tree = cifar100_tree()
    heights = torch.from_numpy(tree.distances() / tree.distances().max())
    logits = torch.log_softmax(-10.0 * heights, dim=1)
    assert soft_label_loss(logits, heights, beta=10.0).item() == pytest.approx(0.0, abs=1e-12)
    _, rho = class_distances(logits, torch.arange(tree.num_classes), "l2")
    assert cpcc(rho, tree.condensed()).item() == pytest.approx(1.0)
    # What is learned last: the shares of the four siblings and of the 95 others.
    shares = logits.exp()[0]
    siblings = torch.from_numpy(tree.ancestors(1) == tree.ancestors(1)[0])
    assert shares[siblings][1:].sum().item() == pytest.approx(0.026, abs=1e-3)
    assert shares[~siblings].sum().item() == pytest.approx(0.004, abs=1e-3)
