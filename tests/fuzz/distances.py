"""A fuzz target for each distance: random batches of awkward kinds, and what must hold of any batch."""

from __future__ import annotations

import itertools
import json
import traceback
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cophenet import CPCCLoss, Hierarchy, class_distances
from cophenet.transport import TransportPlan, group_by_class
from cophenet.transport.batch import resolution, times_power_of_two

from .harness import Failure

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
TREE = Hierarchy.from_paths([(f"group{c // 3}", f"class{c}") for c in range(9)])
# Powers of two that normal features may be multiplied by without leaving their type.
EXPONENTS = {
    torch.float16: (-2, 6),
    torch.bfloat16: (-110, 110),
    torch.float32: (-110, 110),
    torch.float64: (-980, 980),
}
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "l2": [{}],
    "l1": [{}],
    "poincare": [{}, {"norm": 0.5}],
    "emd": [{}, {"solver": "pot"}],
    "sinkhorn": [
        {},
        {"reg": 0.05, "relative": True},
        {"reg": 1e-3, "max_iterations": 20},
        {"reg": 0.5, "relative": True, "differentiate": "through"},
    ],
    "swd": [{}, {"p": 1.0}, {"p": 3.5, "n_projections": 3}],
    "twd": [{}, {"penalty": 0.3}, {"fit": "pair"}, {"fit": "pair", "penalty": 2.0}],
    "ft": [{}],
    "fastft": [{}, {"order": "principal"}, {"order": "principal", "n_orders": 3}],
    "bures": [{}],
}
# Options that are in units of distance, with what they are by default.
ABSOLUTE = {"sinkhorn": {"reg": 10.0}, "twd": {"penalty": 0.0}}


@dataclass
class Batch:
    """What a distance is tried on.

    Attributes:
        kind: How the features were made.
        z: (B, d).
        y: (B,) not in order.
        weights: (B,) or the name of a scheme.
    """

    kind: str
    z: Tensor
    y: Tensor
    weights: Tensor | str

    def to_json(self) -> dict[str, Any]:
        """Plain values, to the bit."""
        weights = self.weights if isinstance(self.weights, str) else self.weights.tolist()
        dtype = str(self.z.dtype).removeprefix("torch.")
        z = self.z.double().tolist()
        return {"kind": self.kind, "dtype": dtype, "z": z, "y": self.y.tolist(), "weights": weights}

    @classmethod
    def from_json(cls, case: dict[str, Any]) -> Batch:
        """The batch that `to_json` gave."""
        weights = case["weights"]
        return cls(
            kind=case["kind"],
            z=torch.tensor(case["z"], dtype=torch.float64).to(getattr(torch, case["dtype"])),
            y=torch.tensor(case["y"]),
            weights=weights if isinstance(weights, str) else torch.tensor(weights, dtype=torch.float64),
        )


def random_batch(rng: np.random.Generator) -> Batch:
    """A batch of one of many kinds; those of one class pair, or none, are among them."""
    k = int(rng.integers(1, 6))
    counts = rng.integers(1, 8, k)
    labels = rng.permutation(np.repeat(rng.choice(9, k, replace=False), counts))
    width = int(rng.choice([1, 2, 3, 5, 9, 40]))
    dtype = DTYPES[int(rng.choice(4, p=[0.1, 0.1, 0.4, 0.4]))]
    z = rng.normal(size=(len(labels), width)) + 2 * rng.normal(size=(9, width))[labels]
    kind = str(
        rng.choice(
            [
                "plain",
                "collapsed",
                "last places",
                "far",
                "unlike widths",
                "coincident",
                "whole",
                "stray",
                "line",
            ]
        )
    )
    if kind == "collapsed":
        z = np.repeat(z[:1] * rng.choice([0.0, 1.0]), len(z), axis=0)
    elif kind == "far":
        z = 10.0 ** rng.uniform(1, 5) + z
    elif kind == "unlike widths":
        z *= (10.0 ** rng.uniform(-8, 8, 9))[labels, None]
    elif kind == "coincident":
        z = z[rng.integers(0, min(3, len(z)), len(z))]
    elif kind == "whole":
        z = np.rint(z)
    elif kind == "stray":
        z[rng.integers(len(z))] *= 10.0 ** rng.uniform(0, 8)
    elif kind == "line":
        z = z[:, :1] * rng.normal(size=(1, width))
    if dtype == torch.float16:
        z *= min(1.0, 500 / np.abs(z).max(initial=1))
    features = torch.tensor(z).to(dtype)
    if kind == "last places" and dtype in (torch.float32, torch.float64):
        up = torch.nextafter(features[:1], torch.full_like(features[:1], torch.inf))
        features = torch.where(torch.tensor(rng.random(z.shape) < 0.5), up, features[:1])
    return Batch(kind, features, torch.tensor(labels), _random_weights(rng, labels))


def _random_weights(rng: np.random.Generator, labels: np.ndarray) -> Tensor | str:
    scheme = str(rng.choice(["uniform", "distance", "inverse", "given", "unlike", "zeros"]))
    if scheme in ("uniform", "distance", "inverse"):
        return scheme
    weights = rng.uniform(0.1, 1, len(labels))
    if scheme == "unlike":
        weights = 10.0 ** rng.uniform(-200, 200, len(labels))
    if scheme == "zeros":
        first = np.unique(labels, return_index=True)[1]
        weights *= rng.random(len(labels)) < 0.5
        weights[first] = rng.uniform(0.1, 1, len(first))
    return torch.tensor(weights)


def _scaled(name: str, options: dict[str, Any], exponent: int) -> dict[str, Any]:
    """The options with those in units of distance multiplied by a power of two."""
    own = {**ABSOLUTE.get(name, {}), **options}
    if not options.get("relative"):
        for key in ABSOLUTE.get(name, {}):
            own[key] = float(np.ldexp(own[key], exponent))
    return own


@dataclass(frozen=True)
class DistanceTarget:
    """A distance with all its options."""

    distance: str

    @property
    def name(self) -> str:
        return f"distance-{self.distance}"

    def run(self, seed: int, folder: Path) -> None:
        """Try one batch.

        Raises:
            Failure: If something does not hold of it, or anything at all is raised.
        """
        rng = np.random.default_rng(seed)
        batch = random_batch(rng)
        options = OPTIONS[self.distance][int(rng.integers(len(OPTIONS[self.distance])))]
        exponent = int(rng.integers(*EXPONENTS[batch.z.dtype], endpoint=True))
        self.check(json.dumps({"options": options, "exponent": exponent, **batch.to_json()}).encode(), folder)

    def check(self, content: bytes, folder: Path) -> None:
        """Try a batch that was saved, with its options."""
        _ = folder
        case = json.loads(content)
        options, exponent = case.pop("options"), case.pop("exponent")
        try:
            self._check(Batch.from_json(case), options, exponent)
        except Exception as error:
            where = "".join(traceback.format_exception(error, limit=-3))
            raise Failure(f"{self.distance}: {content.decode()}\n{where}", content) from error

    def _measure(self, batch: Batch, options: dict[str, Any]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Distances, their gradient (of their sum), the loss, its gradient."""
        z = batch.z.clone().requires_grad_()
        rho = class_distances(z, batch.y, self.distance, flow_weights=batch.weights, tree=TREE, **options)[1]
        (slope,) = torch.autograd.grad(rho.sum(), z)
        scheme = batch.weights if isinstance(batch.weights, str) else "uniform"
        criterion = CPCCLoss(TREE, self.distance, weight=0.7, flow_weights=scheme, **options)
        z = batch.z.clone().requires_grad_()
        loss = criterion(z, batch.y, None if isinstance(batch.weights, str) else batch.weights)
        (push,) = torch.autograd.grad(loss, z)
        return rho.detach(), slope, loss.detach(), push

    def _check(self, batch: Batch, options: dict[str, Any], exponent: int) -> None:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warnings.filterwarnings("ignore", "emd.* compiled")  # once, where the solver is not ready yet
            rho, slope, loss, push = self._measure(batch, options)
        converged = not caught
        assert converged or self.distance == "sinkhorn"
        wide = torch.float64 if batch.z.dtype == torch.float64 else torch.float32
        eps = torch.finfo(wide).eps
        size = float(batch.z.double().abs().max())
        assert rho.dtype == loss.dtype == wide
        assert torch.isfinite(rho).all()
        assert (rho >= -1e-12 * size).all()
        # Of the smallest means of float16, gradients of poincare are larger than its numbers.
        assert torch.isfinite(slope).all() or batch.z.dtype == torch.float16
        assert 0 <= loss <= 1.4 * (1 + 4 * eps)
        grouped = group_by_class(batch.z, batch.y)
        share = resolution(wide, int(grouped.counts.max()))
        if batch.kind in ("collapsed", "last places") and batch.z.dtype == wide:
            assert loss == torch.tensor(0.7, dtype=wide)
            assert not push.any()
        if batch.z.dtype == wide:
            assert torch.isfinite(push).all()
            # Nothing below rounding is divided by: one over its share of the features bounds the gradient.
            steep = 1e6 if self.distance == "poincare" else 10.0 * batch.z.shape[1]
            # Of samples that weigh something, in the type of the computation.
            reach = float(group_by_class(batch.z, batch.y, flow_weights=batch.weights).largest_norm())
            assert float(push.double().abs().max()) * max(reach, 1e-300) <= steep / share
        if converged:
            self._check_values(batch, options, rho, size * batch.z.shape[1] * eps)
            self._check_scale(batch, options, exponent, (rho, slope, loss, push), size)

    def _check_values(self, batch: Batch, options: dict[str, Any], rho: Tensor, noise: float) -> None:
        """Against the same in float64, a formula, or bounds."""
        z = batch.z.double()

        def exact(name: str, **own: Any) -> Tensor:
            return class_distances(z, batch.y, name, flow_weights=flow, tree=TREE, **own)[1]

        # Weights by distance are a softmax, which small differences of float32 move.
        flow: Tensor | str = batch.weights
        if isinstance(flow, str) and flow != "uniform":
            return
        near = 4 * noise + 1e-4 * rho.double() + 1e-300
        solved = near + 1e-9 * float(torch.cdist(z, z).max())  # what the linear program is solved to
        if self.distance in ("l2", "l1", "emd", "bures"):
            reference = _reference(self.distance, z, batch.y, flow)
            allowed = solved if self.distance == "emd" else near
            right = (rho.double() - reference).abs() <= allowed
            if self.distance == "bures":  # whose reference is the root of a difference, which rounds
                rounding = 16 * torch.finfo(torch.float64).eps * float(z.abs().max()) ** 2
                right |= torch.maximum(rho.double(), reference).square() <= rounding
            assert right.all(), (rho, reference)
        if self.distance in ("ft", "fastft"):
            assert (rho.double() >= exact("emd") - solved).all(), (rho, exact("emd"))
        if self.distance == "sinkhorn":
            plan = class_distances(
                batch.z, batch.y, "sinkhorn", flow_weights=flow, return_plan=True, **options
            )[2]
            mass = torch.tensor([part.sum() for part in plan.mass.split(np.diff(plan.offsets).tolist())])
            assert torch.allclose(mass, torch.ones_like(mass), rtol=0, atol=1e-4), mass
            # A plan between other masses may cost less: as much as moving what they differ by.
            missing = _marginal_errors(plan, batch.y, flow)
            assert (missing <= (1e-4 if rho.dtype == torch.float32 else 2e-6)).all(), missing
            least = exact("emd") - solved - missing * float(torch.cdist(z, z).max())
            assert (rho.double() >= least).all(), (rho, exact("emd"))
        if options.get("n_orders"):
            one = class_distances(batch.z, batch.y, "fastft", flow_weights=flow, order="principal")[1]
            assert (rho.double() <= one.double() + near).all(), (rho, one)
        if self.distance == "twd" and options.get("fit") == "pair":
            mean = exact("twd", fit="pair")
            assert (rho.double() <= mean + near).all(), (rho, mean)
        if self.distance == "twd" and options == {"fit": "pair"}:
            assert (rho.double() >= exact("emd") - solved).all(), (rho, exact("emd"))

    def _check_scale(
        self,
        batch: Batch,
        options: dict[str, Any],
        exponent: int,
        expected: tuple[Tensor, Tensor, Tensor, Tensor],
        size: float,
    ) -> None:
        """The same batch times a power of two: the same numbers."""
        if batch.weights in ("distance", "inverse") or batch.kind == "unlike widths":
            return  # the first see the scale; of the second some underflow
        smallest, largest = torch.finfo(batch.z.dtype).tiny, torch.finfo(batch.z.dtype).max
        moved = times_power_of_two(batch.z, exponent)
        entries = batch.z[batch.z != 0].abs().double()
        if len(entries) and not (
            float(entries.min()) * 2.0**exponent > smallest
            and size * 2.0**exponent * batch.z.shape[1] < largest / 8
        ):
            return
        own = _scaled(self.distance, options, exponent)
        rho, slope, loss, push = self._measure(Batch(batch.kind, moved, batch.y, batch.weights), own)
        degree = int(self.distance != "poincare")
        tolerance = 1e-9 if rho.dtype == torch.float64 else 1e-4
        near = tolerance * max(float(expected[0].max()) if len(rho) else 0.0, 1e-30)
        wide = torch.finfo(rho.dtype)
        near += float(np.ldexp(wide.tiny * wide.eps, -exponent * degree))  # below it there are no numbers
        back = times_power_of_two(rho.double(), -exponent * degree)
        assert ((back - expected[0].double()).abs() <= near).all(), (rho, expected[0])
        if batch.z.dtype == rho.dtype and degree:
            top = float(expected[1].abs().max())
            assert ((slope - expected[1]).double().abs() <= 10 * tolerance * top).all()
        if not bool(expected[3].any()):
            # Half of the smallest number of half precision is rounded to 0; wider types are not that small.
            info = torch.finfo(batch.z.dtype)
            lost = info.tiny * info.eps / 2 if batch.z.dtype != rho.dtype else 0.0
            assert (push.double().abs() <= float(np.ldexp(lost, -exponent))).all()
        elif float(expected[3].abs().max()) * 2.0**-exponent > smallest:
            assert push.any()
            gap = float((loss - expected[2]).abs())
            spread = float(expected[0].max() - expected[0].min())
            assert gap <= 10 * tolerance * max(1.0, size / spread)


def _marginal_errors(plan: TransportPlan, y: Tensor, flow: Tensor | str) -> Tensor:
    """(P,) by how much the masses that a plan sends and receives differ from the flow weights."""
    weights = torch.ones(len(y), dtype=torch.float64) if isinstance(flow, str) else flow.double()
    errors = []
    pairs = itertools.combinations(torch.unique(y).tolist(), 2)
    for own, pair in zip(
        itertools.starmap(slice, itertools.pairwise(plan.offsets.tolist())), pairs, strict=True
    ):
        error = 0.0
        for side, label in zip((plan.source, plan.target), pair, strict=True):
            share = torch.where(y == label, weights, 0.0)
            share = share / share.max()
            sent = torch.zeros_like(share).index_add_(0, side[own], plan.mass[own].double())
            error += float((sent - share / share.sum()).abs().sum())
        errors.append(error)
    return torch.tensor(errors, dtype=torch.float64)


def _reference(name: str, z: Tensor, y: Tensor, flow: Tensor | str) -> Tensor:
    """Distances pair by pair, by their definitions, on features of about 1."""
    size = float(z.abs().max()) or 1.0
    weights = torch.ones(len(y), dtype=torch.float64) if isinstance(flow, str) else flow.double()
    out = []
    for u, v in itertools.combinations(torch.unique(y).tolist(), 2):
        (x, a), (t, b) = ((z[y == c] / size, weights[y == c] / weights[y == c].max()) for c in (u, v))
        a, b = a / a.sum(), b / b.sum()
        out.append(size * _FORMULAS[name](x, t, a, b))
    return torch.tensor(out, dtype=torch.float64)


def _mean_gap(x: Tensor, t: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return (x - t[0]).T @ a - (t - t[0]).T @ b


def _exact(x: Tensor, t: Tensor, a: Tensor, b: Tensor) -> float:
    """The linear program itself."""
    from scipy.optimize import linprog

    cost = (x[:, None] - t[None]).norm(dim=2).numpy()
    m, n = cost.shape
    rows = np.kron(np.eye(m), np.ones(n))
    columns = np.tile(np.eye(n), m)
    top = cost.max() or 1.0
    bounds = np.concatenate((a.numpy(), b.numpy()))
    close = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    solved = linprog(
        cost.ravel() / top, A_eq=np.vstack((rows, columns)), b_eq=bounds, method="highs", options=close
    )
    return float(solved.fun) * top


def _gaussian(x: Tensor, t: Tensor, a: Tensor, b: Tensor) -> float:
    left, right = ((c - w @ c) * w.sqrt()[:, None] for c, w in ((x, a), (t, b)))
    cross = torch.linalg.svdvals(left @ right.T).sum()
    both = left.square().sum() + right.square().sum()
    square = _mean_gap(x, t, a, b).square().sum() + (both - 2 * cross).clamp(min=0)
    return float(square.sqrt())


_FORMULAS = {
    "l2": lambda *clouds: float(_mean_gap(*clouds).norm()),
    "l1": lambda *clouds: float(_mean_gap(*clouds).abs().sum()),
    "emd": _exact,
    "bures": _gaussian,
}

TARGETS = [DistanceTarget(name) for name in OPTIONS]
