"""Every distance at every scale of the features, and classes of very unlike sizes in one batch."""

import itertools

import numpy as np
import pytest
import torch

from cophenet import CPCCLoss, Hierarchy, class_distances
from cophenet.transport import Sinkhorn, distance_names, group_by_class
from cophenet.transport.batch import times_power_of_two
from support import DEVICE, random_batch, random_weights

TREE = Hierarchy.from_paths([(f"group{c // 3}", f"class{c}") for c in range(9)])
SIZES = [3, 1, 5, 2, 4, 3, 2, 6, 1]
VARIANTS = [(name, {}) for name in sorted(distance_names())] + [
    ("emd", {"solver": "pot"}),
    ("fastft", {"order": "principal", "n_orders": 2}),
    ("twd", {"penalty": 0.5}),
    ("twd", {"fit": "pair"}),
    ("twd", {"fit": "pair", "penalty": 0.5}),
    ("swd", {"p": 1.0}),
    ("sinkhorn", {"reg": 0.5, "relative": True, "differentiate": "through"}),
]
IDS = [f"{name}-{'-'.join(options)}".rstrip("-") for name, options in VARIANTS]
EXPONENTS = {
    torch.float32: [-122, -77, -40, -20, 20, 62, 100, 124],  # 1e-23 is 2^-77, 5e18 is 2^62
    torch.float64: [-1000, -500, -150, 150, 500, 1018],
}


def gradients_of(value, z):
    (gradient,) = torch.autograd.grad(value, z)
    return gradient.detach()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", list(EXPONENTS))
@pytest.mark.parametrize(("name", "options"), VARIANTS, ids=IDS)
def test_a_power_of_two_times_the_features(name, options, dtype, weighted):
    """The same numbers times that power, and the same gradients; the loss of CPCC is the same."""
    z, y = random_batch(0, SIZES, dtype=dtype)
    weights = random_weights(0, len(y)) if weighted else torch.ones(len(y), device=DEVICE)
    z.requires_grad_()
    rho = class_distances(z, y, name, flow_weights=weights, tree=TREE, **options)[1]
    slope = gradients_of(rho.sum(), z)
    loss = CPCCLoss(TREE, name, **options)(z, y, weights)
    push = gradients_of(loss, z)
    degree = int(name != "poincare")
    close = {"rtol": 1e-5, "atol": 0} if dtype == torch.float32 else {"rtol": 1e-12, "atol": 0}
    for exponent in EXPONENTS[dtype]:
        own = dict(options)
        for absolute in {"reg", "penalty"} & set(options):
            if not options.get("relative"):
                own[absolute] = float(np.ldexp(options[absolute], exponent))
        if name == "sinkhorn" and not options:
            own["reg"] = float(np.ldexp(10.0, exponent))
        x = times_power_of_two(z.detach(), exponent).requires_grad_()
        scaled = class_distances(x, y, name, flow_weights=weights, tree=TREE, **own)[1]
        expected = times_power_of_two(rho.detach(), exponent * degree)
        torch.testing.assert_close(scaled.detach(), expected, **close)
        pulled = gradients_of(scaled.sum(), x)
        atol = close["rtol"] * float(slope.abs().max())
        back = pulled if degree else times_power_of_two(pulled, exponent)
        torch.testing.assert_close(back, slope, rtol=close["rtol"], atol=atol)
        same = CPCCLoss(TREE, name, **own)(x, y, weights)
        torch.testing.assert_close(same.detach(), loss.detach(), rtol=0, atol=10 * close["rtol"])
        pushed = times_power_of_two(gradients_of(same, x), exponent)
        atol = 100 * close["rtol"] * float(push.abs().max())
        torch.testing.assert_close(pushed, push, rtol=0, atol=atol)


@pytest.mark.parametrize("scheme", ["distance", "inverse"])
def test_flow_weights_by_distance_at_any_scale(scheme):
    """A softmax of distances sees their scale: equal weights for small ones, one sample's for large ones."""
    z, y = random_batch(0, SIZES, dtype=torch.float32)
    batch = group_by_class(z, y)
    offset = (batch.features - batch.means()[batch.segments]).norm(dim=1)
    for exponent in (-120, 120):
        weights = group_by_class(times_power_of_two(z, exponent), y, flow_weights=scheme).weights
        assert torch.isfinite(weights).all()
        torch.testing.assert_close(batch.class_sums(weights), torch.ones(9, device=DEVICE))
        for c in (0, 2, 4, 7):
            own, distances = weights[batch.segments == c], offset[batch.segments == c]
            if exponent < 0:
                torch.testing.assert_close(own, torch.full_like(own, 1 / len(own)))
            else:
                best = distances.argmax() if scheme == "distance" else distances.argmin()
                assert own[best] == 1


@pytest.mark.filterwarnings("ignore:sinkhorn did not converge")
@pytest.mark.parametrize("name", sorted(distance_names()))
def test_the_largest_and_the_smallest_numbers_of_the_type(name):
    """Where the distance or the gradient itself leaves the type: infinite or saturated, never NaN."""
    for dtype, scale in itertools.product((torch.float32, torch.float64), ("max", "tiny", "smallest_normal")):
        z, y = random_batch(1, SIZES, dtype=dtype)
        size = getattr(torch.finfo(dtype), scale)
        z = (z / z.abs().max() * size).requires_grad_()
        loss = CPCCLoss(TREE, name)(z, y)
        loss.backward()
        assert 0 <= loss <= 2
        assert torch.isfinite(z.grad).all()
        rho = class_distances(z, y, name, tree=TREE)[1]
        assert not rho.isnan().any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", sorted(distance_names()))
def test_half_precision_over_its_range(name, dtype):
    for scale in (torch.finfo(dtype).max / 16, 1e-3):
        z, y = random_batch(2, SIZES, dtype=dtype)
        z = z / z.abs().max() * scale
        options = {"relative": True, "reg": 0.5} if name == "sinkhorn" else {}
        rho = class_distances(z, y, name, tree=TREE, **options)[1].double()
        exact = class_distances(z.double(), y, name, tree=TREE, **options)[1]
        torch.testing.assert_close(rho, exact, rtol=2e-3, atol=0)


@pytest.mark.parametrize("name", ["emd", "fastft", "ft"])
def test_plans_do_not_see_the_scale(name):
    z, y = random_batch(3, SIZES, dtype=torch.float32)
    plans = [class_distances(times_power_of_two(z, e), y, name, return_plan=True) for e in (0, -90, 90)]
    for exponent, (_, rho, plan) in zip((0, -90, 90), plans, strict=True):
        assert torch.equal(plan.source, plans[0][2].source)
        assert torch.equal(plan.target, plans[0][2].target)
        torch.testing.assert_close(rho, times_power_of_two(plans[0][1], exponent))


@pytest.mark.parametrize(
    ("name", "options"), [("swd", {}), ("swd", {"p": 1.0}), ("fastft", {"order": "principal"})]
)
@pytest.mark.parametrize("wide", [1e10, 1e16])
def test_a_very_wide_class_leaves_the_order_of_the_others(name, options, wide):
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(40, device=DEVICE) // 10
    # One direction: that along which both sort.
    z = torch.randn(40, 1, generator=generator, dtype=torch.float64).to(DEVICE) * torch.ones(1, 3).to(DEVICE)
    others = class_distances(z[10:], y[10:], name, **options)[1]
    z[:10] *= wide
    rho = class_distances(z, y, name, **options)[1]
    torch.testing.assert_close(rho[3:], others, rtol=1e-9, atol=0)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_more_orders_never_cost_more(seed, dtype):
    z, y = random_batch(seed, [12, 9, 10, 7, 15], width=24, dtype=dtype)
    weights = random_weights(seed, len(y)) if seed % 2 else "uniform"
    costs = [
        class_distances(z, y, "fastft", order="principal", n_orders=count, flow_weights=weights)[1]
        for count in range(1, 7)
    ]
    for fewer, more in itertools.pairwise(costs):
        assert (more <= fewer * (1 + 4 * torch.finfo(dtype).eps)).all()


@pytest.mark.parametrize("penalty", [0.0, 0.3, 20.0, 1e4, 1e300])
def test_pair_fits_with_samples_that_have_no_mass(penalty):
    """As if they were not there, but for the sizes of the classes by which the penalty is shared."""
    z, y = random_batch(4, [4, 3, 5])
    weights = random_weights(4, len(y))
    weights[(y == 0).nonzero()[:2]] = 0
    weights[(y == 2).nonzero()[0]] = 1e-310
    z.requires_grad_()
    rho = class_distances(z, y, "twd", fit="pair", penalty=penalty, flow_weights=weights)[1]
    rho.sum().backward()
    assert torch.isfinite(z.grad).all()
    assert not z.grad[weights == 0].any()
    cost = class_distances(z.detach(), y, "twd", fit="pair", flow_weights=weights)[1]
    assert (rho >= -1e-12).all()
    assert (rho <= cost + 1e-12).all()
    if penalty >= 1e4:
        assert not rho.any()


@pytest.mark.filterwarnings("ignore:sinkhorn did not converge")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("ratio", [1e9, 1e12, 1e16, 1e20, 1e50, 1e300])
def test_sinkhorn_with_hardly_any_entropy(dtype, ratio):
    """Whatever it says of convergence is true, and the mass is one."""
    z, y = random_batch(5, [4, 1, 5, 3], dtype=dtype)
    distance = Sinkhorn(reg=1 / ratio, max_iterations=60)
    judged = []
    distance._judge = judged.append
    batch = group_by_class(z, y, flow_weights=random_weights(5, len(y)))
    rho, plan = distance.with_plan(batch)
    assert torch.isfinite(rho).all()
    error = 0.0
    for pair, (u, v) in enumerate(itertools.combinations(range(4), 2)):
        part = slice(plan.offsets[pair], plan.offsets[pair + 1])
        torch.testing.assert_close(plan.mass[part].sum(), rho.new_ones(()), rtol=0, atol=1e-5)
        for index, c in ((plan.source[part], u), (plan.target[part], v)):
            sums = torch.zeros_like(batch.mass).index_add(0, index, plan.mass[part])
            error = max(error, float((sums - batch.mass)[batch.segments == c].abs().sum()))
    assert judged == [error <= 2e-6]
    exact = class_distances(z, y, "emd", flow_weights=random_weights(5, len(y)))[1]
    if judged == [True]:
        torch.testing.assert_close(rho, exact, rtol=1e-4, atol=1e-6)


def test_sinkhorn_with_one_sample_needs_no_iteration():
    """Its plan is known: all mass goes there, however small reg is."""
    z, y = random_batch(6, [4, 1])
    for reg in (1e-300, 1e-16, 1e-8):
        rho = class_distances(z, y, "sinkhorn", reg=reg, max_iterations=2)[1]
        torch.testing.assert_close(rho, class_distances(z, y, "emd")[1])
