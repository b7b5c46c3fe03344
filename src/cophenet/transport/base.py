"""What a class distance is, and how one is made by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, TypeVar

import torch
from torch import Tensor, nn

from cophenet._common.checks import check_options, wrong_argument
from cophenet._common.registry import Registry
from cophenet.transport.batch import ClassBatch
from cophenet.transport.ground import planned_cost
from cophenet.transport.plan import TransportPlan

__all__ = [
    "DISTANCES",
    "ClassDistance",
    "PlanDistance",
    "SeededDistance",
    "create_distance",
    "distance_names",
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
        plans_on_host: Whether it reads the features on the host, as `batch.on_host`.
        pair_cost: What the work of a pair grows with, the sum or the product of its class sizes, by which
            several processes share the pairs; "none" where pairs cost little beside what they have in
            common, so that every process computes them all.
        lazy_checks: Whether to read on an accelerator what shows convergence only in the next call, so that
            a training step does not wait for it; `CPCCLoss` sets it.
    """

    name: ClassVar[str]
    order_dependent: ClassVar[bool] = False
    needs_tree: ClassVar[bool] = False
    plans_on_host: ClassVar[bool] = False
    pair_cost: ClassVar[Literal["none", "sum", "product"]] = "sum"
    lazy_checks: bool = False

    @abstractmethod
    def forward(self, batch: ClassBatch) -> Tensor:
        """(P,) distances of the batch's pairs, differentiable in its features."""

    def with_plan(self, batch: ClassBatch) -> tuple[Tensor, TransportPlan]:
        """The distances and the plan behind them.

        Raises:
            ValueError: If the distance has no transport plan.
        """
        _ = batch
        raise ValueError(
            f"distance {self.name!r} has no transport plan; emd, sinkhorn, ft and fastft have one"
        )

    def skip(self, batch: ClassBatch) -> None:
        """What a call would change in the distance's state, without its value: nothing, unless it draws."""


class PlanDistance(ClassDistance):
    """A distance that is the cost of a plan which is constant in the backward pass."""

    @abstractmethod
    def plan(self, batch: ClassBatch) -> TransportPlan:
        """The plan of every pair, in the batch's rows."""

    def with_plan(self, batch: ClassBatch) -> tuple[Tensor, TransportPlan]:
        """The distances and the plan behind them."""
        plan = self.plan(batch)
        return planned_cost(batch.features, plan, constant=batch.constant), plan

    def forward(self, batch: ClassBatch) -> Tensor:
        """(P,) costs <P, D> of the batch's pairs."""
        return self.with_plan(batch)[0]


class SeededDistance(ClassDistance):
    """A distance that draws random numbers, from a generator of its own.

    Drawn on the host, so that every device and every rank sees the same numbers; its state is
    part of `state_dict`, so that a resumed run goes on where it stopped.
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
        """Draw all the same, so that ranks that see other batches go on alike."""
        self.draw(batch.features.shape[1])

    def get_extra_state(self) -> Tensor:
        """The generator's state, for `state_dict`."""
        return self.generator.get_state()

    def set_extra_state(self, state: Tensor) -> None:
        """Restore the generator's state."""
        self.generator.set_state(state.cpu())

    def __getstate__(self) -> dict[str, Any]:
        """State for pickling and copying; a generator itself does neither everywhere."""
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

    Other packages do without it: they declare an entry point of the group `cophenet.distances`.

    Raises:
        ValueError: If it has no name, or that of another distance.
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
        tree: The label tree, handed to distances that need one.
        also: Arguments that the caller takes itself, named in errors about options.
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
    check_options(f"distance {distance!r}", cls, options, also)
    return cls(tree=tree, **options) if cls.needs_tree else cls(**options)
