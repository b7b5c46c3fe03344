"""What users really get wrong: each is told in one sentence, and nothing is hidden."""

import numpy as np
import pytest
import torch

import cophenet
from cophenet import CPCCLoss, Hierarchy, class_distances, cpcc
from cophenet.transport import SlicedWasserstein, TreeWasserstein, distance_names, group_by_class
from support import DEVICE, double, random_batch

TREE = Hierarchy.from_paths([(f"x{c // 4}", f"g{c // 2}", f"c{c}") for c in range(8)])
Z, Y = random_batch(0, [2, 3, 1, 2, 2, 3, 1, 2], dtype=torch.float32)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: CPCCLoss(TREE)(Z.cpu().numpy(), Y), "must be torch tensors, got ndarray and Tensor"),
        (lambda: CPCCLoss(TREE)(Z.tolist(), Y), "must be torch tensors, got list and Tensor"),
        (lambda: class_distances(Z, Y.tolist()), "must be torch tensors, got Tensor and list"),
        (lambda: class_distances(Z.to_sparse(), Y), "features must be a dense tensor"),
        (lambda: CPCCLoss({"a": ["b"]}), "tree must be a cophenet.Hierarchy, got dict"),
        (lambda: CPCCLoss(None), "tree must be a cophenet.Hierarchy, got NoneType"),
        (lambda: class_distances(Z, Y, tree="tree.json"), "tree must be a cophenet.Hierarchy, got str"),
        (lambda: class_distances(Z, Y, flow_weights=np.ones(16)), "or a tensor, got ndarray"),
        (lambda: CPCCLoss(TREE, weight="1"), "weight must be finite and at least 0.0, got '1'"),
        (lambda: CPCCLoss(TREE, weight=None), "weight must be finite"),
        (lambda: CPCCLoss(TREE, flow_weights="unifrom"), "did you mean 'uniform'"),
        (lambda: CPCCLoss(TREE, wieght=1), "has no option 'wieght'.*did you mean 'weight'"),
        (lambda: CPCCLoss(TREE, "sinkhorn", reg="10"), "reg must be finite and above 0.0, got '10'"),
        (lambda: CPCCLoss(TREE, "fastft", order="principle"), "did you mean 'principal'"),
        (
            lambda: CPCCLoss(TREE, "fastft", order="principal", n_orders=1.5),
            "n_orders must be a whole number",
        ),
        (lambda: CPCCLoss(TREE, "swd", n_projections=2.5), "n_projections must be a whole number"),
        (lambda: CPCCLoss(TREE, "swd", p=float("inf")), "p must be finite"),
        (lambda: CPCCLoss(TREE, "swd", generator=0), "generator must be a torch.Generator on the CPU, got 0"),
        (lambda: CPCCLoss(TREE, "swd", directions=np.ones((5, 2))), "directions must be .* got float64"),
        (lambda: CPCCLoss(TREE, "swd", directions=torch.ones(5, 0)), "directions must be"),
        (lambda: CPCCLoss(TREE, "swd", directions=torch.full((5, 2), torch.nan)), "NaN or inf"),
        (lambda: CPCCLoss(TREE, "poincare", norm="a"), "norm must be finite"),
        (lambda: CPCCLoss(TREE, "emd", solver="POT"), "solver must be one of auto, numba, pot, got 'POT'"),
        (lambda: CPCCLoss(TREE, level="species"), "species"),
        (lambda: cpcc([1.0, 2.0], [1.0, 2.0]), "rho must be a torch tensor, got list"),
        (lambda: cpcc(double([2, 4, 4]), double([1, 2, 3]).requires_grad_()), "are rho and t swapped"),
        (lambda: CPCCLoss(TREE, TreeWasserstein(TREE), level=2), "was made for another tree"),
    ],
)
def test_each_mistake_gets_one_clear_sentence(call, message):
    with pytest.raises(ValueError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", sorted(distance_names()))
def test_second_derivatives_are_refused_not_dropped(name):
    z = Z.double().requires_grad_()
    loss = CPCCLoss(TREE, name)(z, Y)
    with pytest.raises(RuntimeError):
        torch.autograd.grad(loss, z, create_graph=True)[0].sum().backward()


@pytest.mark.parametrize("name", ["emd", "ft", "fastft", "twd"])
def test_features_whose_squares_overflow_have_the_loss_of_smaller_ones(name):
    # A power of two: the same numbers but for their exponents.
    torch.testing.assert_close(CPCCLoss(TREE, name)(Z * 2.0**83, Y), CPCCLoss(TREE, name)(Z, Y))


def test_a_given_object_for_the_same_tree_is_fine():
    by_name, by_object = CPCCLoss(TREE, "twd"), CPCCLoss(TREE, TreeWasserstein(TREE))
    assert by_name(Z, Y) == by_object(Z, Y)


def test_casting_the_module_keeps_its_directions_exact():
    directions = torch.randn(5, 3, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    criterion = CPCCLoss(TREE, "swd", directions=directions)
    expected = criterion(Z, Y)
    torch.testing.assert_close(criterion.float()(Z, Y), expected)
    assert torch.isfinite(criterion.half()(Z, Y))


@pytest.mark.parametrize("name", ["swd", "ft"])
def test_a_batch_without_a_correlation_draws_all_the_same(name):
    one, two = CPCCLoss(TREE, name), CPCCLoss(TREE, name)
    one(Z, Y)
    two(Z[:3], torch.zeros_like(Y[:3]))
    assert torch.equal(one.distance.generator.get_state(), two.distance.generator.get_state())


def test_a_distance_cannot_change_the_pairs_of_later_batches():
    expected = class_distances(Z, Y, "l2")[1]
    batch = group_by_class(Z, Y)
    batch.on_device(batch.first).zero_()
    assert torch.equal(class_distances(Z, Y, "l2")[1], expected)


@pytest.mark.parametrize("scale", [1e-300, 1e-50, 1e300])
def test_extreme_given_weights(scale):
    weights = torch.linspace(1, 2, len(Y), dtype=torch.float64, device=DEVICE)
    expected = class_distances(Z, Y, "fastft", flow_weights=weights)[1]
    torch.testing.assert_close(class_distances(Z, Y, "fastft", flow_weights=weights * scale)[1], expected)


@pytest.mark.parametrize("n_orders", [1, 3])
def test_principal_order_holds_on_tight_classes_far_out(n_orders):
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(48, device=DEVICE) // 12
    modes = torch.randint(0, 2, (48, 1), generator=generator)
    cloud = 1e-3 * torch.randn(4, 32, generator=generator)[y.cpu()] + 1e-3 * modes
    z = (100 / 32**0.5 + cloud + 1e-4 * torch.randn(48, 32, generator=generator)).to(DEVICE)
    options = {"order": "principal", "n_orders": n_orders}
    exact = class_distances(z.double(), y, "fastft", **options)[1]
    torch.testing.assert_close(
        class_distances(z, y, "fastft", **options)[1].double(), exact, rtol=1e-4, atol=0
    )


def test_correlation_never_leaves_its_range():
    rho = torch.rand(100, generator=torch.Generator().manual_seed(0))
    for scale in (1.0, 3.0, 7.7):
        assert cpcc(rho, rho * scale) <= 1
    assert cpcc(rho.half(), rho).dtype == torch.float32


def test_keyword_only_options_are_options():
    from cophenet._common.checks import check_options

    class Smooth:
        def __init__(self, tree, *, amount=1.0): ...

    check_options("smooth", Smooth, {"amount": 2.0})


def test_directions_can_be_shared_by_two_losses():
    directions = torch.eye(5, device=DEVICE)
    first, second = SlicedWasserstein(directions=directions), SlicedWasserstein(directions=directions)
    batch = group_by_class(Z, Y)
    assert torch.equal(first(batch), second(batch))


def test_rooms_are_attributes_of_the_package():
    assert cophenet.objectives.create_objective is not None
    assert cophenet.tree.Hierarchy is Hierarchy
