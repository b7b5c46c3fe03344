"""Classes that differ by rounding of their features alone: the loss is its weight, the gradient zero."""

import math

import pytest
import torch

from cophenet import CPCCLoss, Hierarchy, class_distances
from cophenet.metrics import CPCC
from cophenet.metrics.streaming import FeatureShards, stream_cpcc
from cophenet.transport import distance_names, group_by_class
from cophenet.transport.batch import resolution
from support import DEVICE, random_weights

TREE = Hierarchy.from_paths([(f"group{c // 3}", f"class{c}") for c in range(9)])
LABELS = torch.arange(40, device=DEVICE) * 7 % 9
VARIANTS = [(name, {}) for name in sorted(distance_names())] + [
    ("fastft", {"order": "principal", "n_orders": 2}),
    ("twd", {"fit": "pair"}),
    ("swd", {"p": 1.0}),
    ("swd", {"directions": torch.eye(6, 2)}),
    ("sinkhorn", {"reg": 0.1, "relative": True, "differentiate": "through"}),
]
IDS = [f"{name}-{'-'.join(options)}".rstrip("-") for name, options in VARIANTS]
pytestmark = pytest.mark.filterwarnings("ignore:sinkhorn did not converge")
DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def one_row(dtype, scale=1.0, seed=0):
    """Every sample the same, of numbers whose mean is not exact."""
    row = torch.randn(6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return (row * scale).to(DEVICE, dtype).repeat(len(LABELS), 1)


def last_places(dtype, scale=1.0):
    """The same but for the last place of some entries."""
    z = one_row(dtype, scale)
    chosen = torch.rand(z.shape, generator=torch.Generator().manual_seed(1)).to(DEVICE) < 0.5
    return torch.where(chosen, torch.nextafter(z, torch.full_like(z, torch.inf)), z)


def assert_undefined(z, distance, options, weights=None):
    z = z.detach().requires_grad_()
    loss = CPCCLoss(TREE, distance, weight=0.7, **options)(z, LABELS, weights)
    loss.backward()
    assert loss == torch.tensor(0.7, dtype=loss.dtype)
    assert z.grad is not None
    assert not z.grad.any()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("distance", "options"), VARIANTS, ids=IDS)
def test_equal_features(distance, options, dtype):
    scales = (1.0, 1e-3) if dtype == torch.float16 else (1.0, 1e-6, 1e6, 1e-30, 1e30)
    for scale in scales:
        assert_undefined(one_row(dtype, scale), distance, options)
    assert_undefined(torch.zeros_like(one_row(dtype)), distance, options)
    assert_undefined(one_row(dtype), distance, options, random_weights(0, len(LABELS)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("distance", "options"), VARIANTS, ids=IDS)
def test_features_that_differ_in_their_last_place(distance, options, dtype):
    for scale in (1.0, 1e-6, 1e6):
        assert_undefined(last_places(dtype, scale), distance, options)


@pytest.mark.parametrize("distance", ["l2", "l1", "bures", "swd", "emd"])
def test_classes_with_the_same_samples(distance):
    """Their means differ by what summing many samples in another order rounds."""
    cloud = torch.randn(40, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    orders = [torch.randperm(40, generator=torch.Generator().manual_seed(seed)) for seed in range(9)]
    z = torch.cat([cloud[order] for order in orders]).to(DEVICE).requires_grad_()
    loss = CPCCLoss(TREE, distance)(z, torch.arange(360, device=DEVICE) // 40)
    loss.backward()
    assert loss == 1
    assert not z.grad.any()


@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e6, 1e-30, 1e30])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("distance", ["l2", "l1", "emd", "fastft", "ft", "sinkhorn", "swd", "twd", "bures"])
def test_both_sides_of_the_border(distance, dtype, scale):
    """Classes on a line far from the origin: a spread of 1/4 of the border is rounding, of 4 times is not."""
    size = math.sqrt(6) if distance == "l1" else 1 / math.sqrt(6) if distance == "swd" else 1.0
    border = size * 100 * resolution(dtype, 5)
    options = {"reg": 0.5, "relative": True} if distance == "sinkhorn" else {}
    far = torch.full((6,), 100 / math.sqrt(6), dtype=torch.float64)
    step = torch.tensor([1.0, -1.0, 1.0, -1.0, 1.0, -1.0], dtype=torch.float64) / math.sqrt(6)
    for share, defined in ((1 / 4, False), (4.0, True)):
        # Nine classes in a row, 0 to 8 steps from the first: their distances spread over 7 steps.
        move = share * border / (7 * size)
        z = (far + move * torch.arange(9)[:, None] * step)[torch.arange(45) % 9]
        z = (z * scale).to(DEVICE, dtype).requires_grad_()
        loss = CPCCLoss(TREE, distance, **options)(z, torch.arange(45, device=DEVICE) % 9)
        loss.backward()
        assert bool(z.grad.any()) == defined
        assert (loss != 1) == defined


@pytest.mark.parametrize(("distance", "options"), VARIANTS, ids=IDS)
def test_tight_classes_far_from_the_origin_are_resolved(distance, options):
    """Classes 1e-3 apart at norm 1e2, and an offset of 1e3 spreads: the gradient is that of float64."""
    generator = torch.Generator().manual_seed(0)
    for offset, between, within in ((100.0, 1e-3, 1e-4), (1e3, 1.0, 0.3)):
        centres = torch.randn(9, 6, generator=generator, dtype=torch.float64) * between
        spread = within * torch.randn(len(LABELS), 6, generator=generator, dtype=torch.float64)
        z = (offset / math.sqrt(6) + centres[LABELS.cpu()] + spread).float().to(DEVICE)
        losses, gradients = [], []
        for dtype in (torch.float32, torch.float64):
            x = z.clone().to(dtype).requires_grad_()
            own = {"reg": between, **options} if distance == "sinkhorn" else options
            losses.append(CPCCLoss(TREE, distance, **own)(x, LABELS))
            losses[-1].backward()
            gradients.append(x.grad.double())
        assert losses[0].item() != 1
        torch.testing.assert_close(losses[0].detach().double(), losses[1].detach(), rtol=0, atol=1e-4)
        limit = 1e-3 * float(gradients[1].abs().max())  # one sample may change places with an equal one
        if distance not in ("emd", "ft", "fastft", "swd"):
            torch.testing.assert_close(gradients[0], gradients[1], rtol=0, atol=limit)


def test_a_sample_without_mass_does_not_count():
    z = torch.randn(len(LABELS), 6, generator=torch.Generator().manual_seed(0)).to(DEVICE)
    weights = torch.ones(len(LABELS), device=DEVICE)
    expected = CPCCLoss(TREE, "l2")(z[9:], LABELS[9:], weights[9:])
    z[:9] = 1e12
    weights[:9] = 0
    torch.testing.assert_close(CPCCLoss(TREE, "l2")(z, LABELS, weights), expected)


@pytest.mark.parametrize("distance", ["l2", "l1", "poincare", "swd", "bures"])
def test_a_last_layer_of_zeros_trains(distance):
    """The case that diverged at once: a constant output, to which one step of SGD added 1e14."""
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.ReLU(), torch.nn.Linear(8, 6)).to(DEVICE)
    torch.nn.init.zeros_(network[2].weight)
    before = network[2].bias.detach().clone()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    z = network(torch.randn(len(LABELS), 5, device=DEVICE))
    CPCCLoss(TREE, distance)(z, LABELS).backward()
    optimizer.step()
    assert torch.equal(network[2].bias, before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_poincare_in_one_dimension(dtype):
    """All means on one side of the origin lie in one direction; on both sides, in two."""
    z = torch.rand(len(LABELS), 1, generator=torch.Generator().manual_seed(0), dtype=dtype).to(DEVICE) + 0.5
    assert_undefined(z, "poincare", {})
    assert not class_distances(z, LABELS, "poincare")[1].any()
    z[LABELS >= 3] *= -1
    z.requires_grad_()
    loss = CPCCLoss(TREE, "poincare")(z, LABELS)
    loss.backward()
    assert 0 < loss < 1
    assert z.grad.abs().max() < 1e-3


@pytest.mark.parametrize("distance", ["l2", "swd", "bures"])
def test_levels_memory_and_unit_vectors(distance):
    tree = Hierarchy.from_paths([(f"x{c // 6}", f"y{c // 3}", f"z{c}") for c in range(9)])
    z = one_row(torch.float64).requires_grad_()
    level = CPCCLoss(tree, distance, level=2)(z, LABELS)
    remembering = CPCCLoss(TREE, distance, memory=90)
    for _ in range(3):
        remembered = remembering(z, LABELS)
    unit = CPCCLoss(TREE, distance)(torch.nn.functional.normalize(z * (1 + LABELS[:, None])), LABELS)
    (level + remembered + unit).backward()
    assert level == remembered == unit == 1
    assert not z.grad.any()


@pytest.mark.parametrize("distance", ["l2", "swd", "bures"])
def test_the_metric_is_undefined_too(distance):
    metric = CPCC(TREE, distance=distance)
    metric.update(one_row(torch.float64), LABELS)
    with pytest.warns(RuntimeWarning, match="one side is constant"):
        assert metric.compute().isnan()
    metric = CPCC(TREE, distance="fastft")
    metric.update(one_row(torch.float32, 1e30) * (1 + LABELS[:, None]), LABELS)
    assert metric.compute().isfinite()


@pytest.mark.parametrize("distance", ["l2", "fastft"])
def test_the_streamed_metric(distance):
    for scale in (1.0, 1e-30, 1e30):
        collapsed = FeatureShards([last_places(torch.float32, scale).cpu()], LABELS.cpu())
        with pytest.warns(RuntimeWarning, match="one side is constant"):
            assert stream_cpcc(collapsed, TREE, distance).isnan()
        z = one_row(torch.float32, scale) * (1 + LABELS[:, None])
        metric = CPCC(TREE, distance=distance)
        metric.update(z, LABELS)
        streamed = stream_cpcc(FeatureShards([z.cpu()], LABELS.cpu()), TREE, distance)
        torch.testing.assert_close(streamed, metric.compute().cpu(), rtol=1e-5, atol=1e-5)


def test_the_batch_knows_how_large_it_is():
    z = torch.tensor([[3.0, -4.0], [1e30, 0.0]], device=DEVICE)
    batch = group_by_class(z, torch.tensor([0, 1], device=DEVICE), flow_weights=torch.ones(2, device=DEVICE))
    assert batch.peak == pytest.approx(1e30)
    assert batch.rescaled().largest_norm() * 2.0**99 == pytest.approx(1e30)
    assert batch.rescaled().unit == 2.0**99
    assert batch.rescaled().features.abs().max() < 2
