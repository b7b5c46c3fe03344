"""Base classes and registry of class distances; `class_distances` computes those of a batch in one call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Literal, TypeVar, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cophenet._common.checks import check_options, wrong_argument
from cophenet._common.registry import Registry
from cophenet.transport.batch import ClassBatch, times_power_of_two, without_autocast
from cophenet.transport.class_layout import ClassLayout
from cophenet.transport.ground import planned_cost
from cophenet.transport.grouping import FlowWeights, check_batch, group_read
from cophenet.transport.plan import TransportPlan
from cophenet.transport.solvers.machine_code import why_none
from cophenet.transport.warm_up import warm_up
from cophenet.tree import Hierarchy

__all__ = [
    "DISTANCES",
    "ClassDistance",
    "PlanDistance",
    "SeededDistance",
    "class_distances",
    "create_distance",
    "distance_names",
    "measure_classes",
    "register_distance",
]

_Distance = TypeVar("_Distance", bound="type[ClassDistance]")


class ClassDistance(nn.Module, ABC):
    """A distance between the feature clouds of two classes, for all pairs of a batch at once.

    Subclasses take their options as typed constructor arguments and implement `forward`.

    Attributes:
        name: The name it is registered under.
        order_dependent: Whether the order of samples within a class changes the value.
        needs_tree: Whether it must be given the label tree, as the argument `tree`.
        plans_on_host: Whether it reads the features on the host, through `batch.on_host`.
        pair_cost: Whether the cost of a pair scales with the sum or the product of its class sizes; used to
            balance the pairs over several processes. "none" if most of the cost is shared by all pairs:
            every process then computes all of them.
        degree: Degree of homogeneity. If all features are multiplied by c > 0, the distances are multiplied
            by c (1), do not change (0), or neither (None). Unless it is None, very large and very small
            features are divided by a power of two (see `ClassBatch.rescaled`) before `forward`.
        wide: Whether, with uniform weights, it accepts float32 features of any size: on an accelerator it
            computes in float64 and returns float64, on the host it checks itself that they are finite.
        traceable: Whether `torch.compile` can trace it, with uniform weights and a batch planned ahead.
        compares_samples: Whether it computes distances between samples, for which there are compiled loops.
        stateless: Whether calls leave it as it is, so that one object serves all calls of `class_distances`.
        lazy_checks: Whether convergence on an accelerator is read only in the next call, so that a training
            step does not wait for the device; `CPCCLoss` sets it.
    """

    name: ClassVar[str]
    order_dependent: ClassVar[bool] = False
    needs_tree: ClassVar[bool] = False
    plans_on_host: ClassVar[bool] = False
    pair_cost: ClassVar[Literal["none", "sum", "product"]] = "sum"
    degree: ClassVar[Literal[0, 1] | None] = None
    wide: ClassVar[bool] = False
    compares_samples: ClassVar[bool] = False
    stateless: ClassVar[bool] = False
    traceable: bool = False
    lazy_checks: bool = False

    def __init__(self) -> None:
        super().__init__()

    def __call__(self, batch: ClassBatch) -> Tensor:
        """(P,) distances of the batch's pairs, at any scale of its features."""
        with without_autocast(batch.given):
            rho: Tensor = super().__call__(self.in_range(batch))
            return self.back_from_range(rho, batch)

    @abstractmethod
    def forward(self, batch: ClassBatch) -> Tensor:
        """(P,) distances of the batch's pairs, differentiable in its features."""

    def in_range(self, batch: ClassBatch) -> ClassBatch:
        """The batch as passed to `forward`: rescaled if its features are very large or very small."""
        return batch if self.degree is None else batch.rescaled(straight=self.degree == 1)

    def back_from_range(self, rho: Tensor, batch: ClassBatch) -> Tensor:
        """Undo the rescaling of `in_range` in distances (P,)."""
        return times_power_of_two(rho, batch.excess, straight=True) if self.degree and batch.excess else rho

    def rounding(self, batch: ClassBatch) -> Tensor:
        """Largest difference of two distances that rounding of the features alone can cause, a scalar."""
        return self.magnitude(batch) * batch.resolution

    def magnitude(self, batch: ClassBatch) -> Tensor:
        """Size of the largest features in the norm of the distance, a scalar; 0 unless `degree` is 1."""
        return batch.largest_norm() if self.degree else batch.given.new_zeros(())

    def with_plan(self, batch: ClassBatch) -> tuple[Tensor, TransportPlan]:
        """The distances and the plan behind them.

        Raises:
            ValueError: If the distance has no transport plan.
        """
        _ = batch
        members, none = DISTANCES.members().items(), ClassDistance.with_plan
        *names, last = (name for name, cls in members if cls.with_plan is not none)
        raise ValueError(
            f"distance {self.name!r} has no transport plan; {', '.join(names)} and {last} have one"
        )

    def arrays(self, layout: ClassLayout) -> Mapping[str, NDArray[np.generic]]:
        """Arrays that depend on class sizes only (uniform weights), for `forward` in `batch.ahead`."""
        _ = layout
        return {}

    def skip(self, batch: ClassBatch) -> None:
        """Change the state as a call would, without computing: a no-op unless it draws random numbers."""

    def warm_up(self) -> None:
        """Compile the loops that it uses now, if that is possible and not done yet."""
        if self.compares_samples and why_none() is None:
            warm_up()


class PlanDistance(ClassDistance):
    """A distance that is the cost of a transport plan; the plan is constant in the backward pass."""

    degree = 1
    compares_samples = True

    @abstractmethod
    def plan(self, batch: ClassBatch) -> TransportPlan:
        """The plan of every pair; its samples are row numbers of the grouped batch."""

    def with_plan(self, batch: ClassBatch) -> tuple[Tensor, TransportPlan]:
        """The distances and the plan behind them."""
        plan = self.plan(batch)
        return planned_cost(batch, plan), plan

    def forward(self, batch: ClassBatch) -> Tensor:
        """(P,) costs <P, D> of the batch's pairs."""
        return self.with_plan(batch)[0]


class SeededDistance(ClassDistance):
    """A distance that draws random numbers from its own generator.

    The numbers are drawn on the host, so that they are the same on every device and rank. The generator's
    state is part of `state_dict`, so that a resumed run continues with the same numbers.
    """

    def __init__(self, generator: torch.Generator | None = None) -> None:
        super().__init__()
        if generator is None:
            generator = torch.Generator().manual_seed(0)
        elif not isinstance(generator, torch.Generator) or generator.device.type != "cpu":
            given = getattr(generator, "device", repr(generator))
            raise wrong_argument("generator", f"must be a torch.Generator on the CPU, got {given}")
        self.generator = generator

    @abstractmethod
    def draw(self, width: int) -> Tensor:
        """The random numbers of one call for features of some width."""

    def skip(self, batch: ClassBatch) -> None:
        """Draw and discard, so that the generators of all ranks stay in step."""
        self.draw(batch.given.shape[1])

    def get_extra_state(self) -> Tensor:
        """The generator's state, for `state_dict`."""
        return self.generator.get_state()

    def set_extra_state(self, state: Tensor) -> None:
        """Restore the generator's state."""
        self.generator.set_state(state.cpu())

    def __getstate__(self) -> dict[str, Any]:
        """State for pickling and copying, with the generator's state in place of the generator."""
        return {**self.__dict__, "generator": self.generator.get_state()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore from `__getstate__`."""
        generator = torch.Generator()
        generator.set_state(state["generator"])
        super().__setstate__({**state, "generator": generator})  # type: ignore[no-untyped-call]


def _check_distance(name: str, cls: object) -> None:
    if not (isinstance(cls, type) and issubclass(cls, ClassDistance) and getattr(cls, "name", None) == name):
        raise ValueError(f"a distance is a subclass of ClassDistance whose name is {name!r}, got {cls!r}")


DISTANCES = Registry[type[ClassDistance]](
    "distance", "cophenet.transport", "cophenet.distances", _check_distance
)


def register_distance(cls: _Distance) -> _Distance:
    """Class decorator: make a distance available under its `name`.

    Other packages do not need it: they declare an entry point of the group `cophenet.distances`.

    Raises:
        ValueError: If it has no name, or another distance has the same name.
    """
    name = getattr(cls, "name", None)
    if not isinstance(name, str):
        raise ValueError(f"a distance needs a name of its own, {cls.__name__} has {name!r}")
    DISTANCES.register(name)(cls)
    return cls


def distance_names() -> tuple[str, ...]:
    """Names of all distances, those of other packages last.

    Example:
        >>> {"l2", "emd", "fastft"} <= set(distance_names())
        True
    """
    return DISTANCES.names()


def create_distance(
    distance: str | ClassDistance, tree: Any = None, also: Sequence[str] = (), /, **options: Any
) -> ClassDistance:
    """Make a distance by name, or pass one through.

    Args:
        distance: A registered name, or a distance object (then without options).
        tree: The label tree, passed to distances that need one.
        also: The caller's own arguments, listed in error messages about unknown options.
        **options: The distance's own options.

    Raises:
        ValueError: If the name or an option is unknown.
    """
    if isinstance(distance, ClassDistance):
        if options:
            raise ValueError(
                f"options {sorted(options)} go with a distance given by name, not with an object"
            )
        if distance.needs_tree and tree is not None and getattr(distance, "tree", tree) not in (None, tree):
            raise ValueError(f"distance {distance.name!r} was made for another tree; give its name instead")
        return distance
    cls = DISTANCES.get(distance)
    if options:  # inspecting a signature takes longer than a small batch
        check_options(f"distance {distance!r}", cls, options, also)
    given = {"tree": tree, **options} if cls.needs_tree else options
    return cls(**given)


@cache
def _shared(cls: type[ClassDistance]) -> ClassDistance:
    return cls()


def _for_a_call(distance: str | ClassDistance, tree: Any, options: Mapping[str, Any]) -> ClassDistance:
    """As `create_distance`, but one object for all calls if it allows that: a module takes 50 us to make."""
    if isinstance(distance, str) and not options:
        cls = DISTANCES.get(distance)
        if cls.stateless and not cls.needs_tree:
            return _shared(cls)
    return create_distance(distance, tree, **options)


@overload
def class_distances(
    features: Tensor,
    labels: Tensor,
    distance: str | ClassDistance = ...,
    *,
    flow_weights: FlowWeights = ...,
    tree: Hierarchy | None = ...,
    return_plan: Literal[False] = ...,
    **options: Any,
) -> tuple[Tensor, Tensor]: ...


@overload
def class_distances(
    features: Tensor,
    labels: Tensor,
    distance: str | ClassDistance = ...,
    *,
    flow_weights: FlowWeights = ...,
    tree: Hierarchy | None = ...,
    return_plan: Literal[True],
    **options: Any,
) -> tuple[Tensor, Tensor, TransportPlan]: ...


def class_distances(
    features: Tensor,
    labels: Tensor,
    distance: str | ClassDistance = "fastft",
    *,
    flow_weights: FlowWeights = "uniform",
    tree: Hierarchy | None = None,
    return_plan: bool = False,
    **options: Any,
) -> tuple[Tensor, Tensor] | tuple[Tensor, Tensor, TransportPlan]:
    """Distances between the feature clouds of all classes of a batch.

    Args:
        features: (B, d) floating point; half precision is computed in float32.
        labels: (B,) integers; with a tree, positions in its classes.
        distance: One of `distance_names()`, such as "l2", "emd" or "fastft", or a distance object.
        flow_weights: "uniform", "distance", "inverse", or masses (B,), scaled to sum to one in each class.
        tree: The label tree, for distances with `needs_tree`, such as "twd".
        return_plan: Also return the transport plans; their samples are positions in `features`.
        **options: The distance's own options, such as `reg=10.0` for "sinkhorn".

    Returns:
        (k,) the classes present, ascending; (k(k-1)/2,) the distances in the order of
        `itertools.combinations`; and the plans if requested.

    Raises:
        ValueError: If an argument is wrong, or the distance has no plan to return.

    Example:
        >>> import torch
        >>> z = torch.tensor([[0.0, 0.0], [0.0, 2.0], [3.0, 0.0], [3.0, 2.0]])
        >>> classes, rho = class_distances(z, torch.tensor([4, 4, 9, 9]), "fastft")
        >>> classes, rho
        (tensor([4, 9]), tensor([3.]))
    """
    if tree is not None and not isinstance(tree, Hierarchy):
        raise ValueError(f"tree must be a cophenet.Hierarchy, got {type(tree).__name__}")
    measure = _for_a_call(distance, tree, options)
    batch = _grouped(features, labels, measure, flow_weights, tree, wide=measure.wide)
    classes = batch.on_device(batch.classes)
    if not return_plan:
        return classes, measure(batch).to(batch.given.dtype)
    with without_autocast(features):
        rho, plan = measure.with_plan(measure.in_range(batch))
        return classes, measure.back_from_range(rho, batch), plan.in_batch_order(batch)


@dataclass(frozen=True, eq=False)
class MeasuredClasses:
    """Distances between the classes of a batch, with the data that a correlation of them needs.

    Attributes:
        classes: (k,) the classes present, ascending.
        scaled: (P,) distances of their pairs divided by 2^exponent, so that they are finite at any scale.
        exponent: 0 unless the features are very large or very small.
        rounding: Largest difference of two scaled distances that rounding of the features alone can cause.
    """

    classes: Tensor
    scaled: Tensor
    exponent: int
    rounding: Tensor

    @property
    def distances(self) -> Tensor:
        """(P,) distances of the pairs of classes."""
        return times_power_of_two(self.scaled, self.exponent) if self.exponent else self.scaled


def measure_classes(
    features: Tensor,
    labels: Tensor,
    distance: ClassDistance,
    *,
    flow_weights: FlowWeights = "uniform",
    tree: Hierarchy | None = None,
) -> MeasuredClasses:
    """Distances between the classes of a batch, as `class_distances`, for a correlation of them.

    Example:
        >>> import torch
        >>> z = torch.tensor([[0.0, 0.0], [3.0, 4.0]])
        >>> measured = measure_classes(1e30 * z, torch.tensor([0, 1]), create_distance("l2"))
        >>> measured.distances, measured.exponent
        (tensor([5.0000e+30]), 101)
    """
    batch = _grouped(features, labels, distance, flow_weights, tree)
    with without_autocast(features):
        if distance.degree is not None:
            batch = batch.rescaled()
        assert isinstance(batch.exponent, int)  # an int, because the features were read
        exponent = batch.exponent if distance.degree else 0
        rho, rounding = distance(batch).to(batch.given.dtype), distance.rounding(batch)
        return MeasuredClasses(batch.on_device(batch.classes), rho, exponent, rounding)


def _grouped(
    features: Tensor,
    labels: Tensor,
    distance: ClassDistance,
    flow_weights: FlowWeights,
    tree: Hierarchy | None,
    *,
    wide: bool = False,
) -> ClassBatch:
    """The batch, grouped for a distance."""
    known = None if tree is None else tree.num_classes
    with without_autocast(features):
        check_batch(features, labels, flow_weights)
        on_host = distance.plans_on_host
        return group_read(features, labels, flow_weights, known, None, keep_host=on_host, wide=wide)[0]
