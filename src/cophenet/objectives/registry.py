"""Registry of objectives: register, list and create them by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, get_args

from cophenet._common.checks import check_choice, check_options
from cophenet._common.registry import Registry
from cophenet.cpcc.exchange import Gather
from cophenet.objectives.base import Objective
from cophenet.objectives.cpcc import WithCPCC, cpcc_arguments
from cophenet.transport import distance_names
from cophenet.tree import Hierarchy

__all__ = ["OBJECTIVES", "create_objective", "objective_class", "objective_names", "register_objective"]

_Objective = TypeVar("_Objective", bound="type[Objective]")


def _check_objective(name: str, cls: object) -> None:
    if not (isinstance(cls, type) and issubclass(cls, Objective) and getattr(cls, "name", None) == name):
        raise ValueError(f"an objective is a subclass of Objective whose name is {name!r}, got {cls!r}")
    if name in distance_names():
        raise ValueError(f"an objective named {name!r} exists already")


OBJECTIVES = Registry[type[Objective]](
    "objective", "cophenet.objectives", "cophenet.objectives", _check_objective
)


def register_objective(cls: _Objective) -> _Objective:
    """Class decorator: register an objective under its `name`.

    Other packages do not need it: they declare an entry point of the group `cophenet.objectives`.

    Raises:
        ValueError: If the name is that of another objective or of a class distance.

    Example:
        >>> from cophenet.objectives import Flat
        >>> register_objective(Flat)
        Traceback (most recent call last):
        ValueError: an objective named 'flat' exists already
    """
    OBJECTIVES.register(cls.name)(cls)
    return cls


def objective_names() -> tuple[str, ...]:
    """Names of all objectives: the registered ones, and cross entropy with CPCC for every class distance.

    Example:
        >>> {"flat", "hxe", "fastft"} <= set(objective_names())
        True
    """
    own = OBJECTIVES.names()
    return (*own, *(name for name in distance_names() if name not in own))


def objective_class(name: str) -> type[Objective] | None:
    """The class of a name; None for the name of a class distance, which has no class of its own.

    Raises:
        ValueError: If there is no such objective.
    """
    check_choice("objective", name, objective_names())
    return OBJECTIVES.get(name) if name in OBJECTIVES.names() else None


def create_objective(
    name: str,
    tree: Hierarchy,
    *,
    cpcc: str | Mapping[str, Any] | None = None,
    gather: Gather | None = None,
    **options: Any,
) -> Objective:
    """Create an objective by name.

    Args:
        name: A registered name; or the name of a class distance, for cross entropy with CPCC of that
            distance.
        tree: The label tree.
        cpcc: CPCC to add to a baseline: a class distance, or the arguments of `CPCCLoss` as a mapping.
        gather: "all" (the default) for the loss of the batch of all processes; "none" for that of each
            process's own batch. It may also be given in a mapping `cpcc`.
        **options: The objective's own options; for a class distance those of `CPCCLoss`.

    Raises:
        ValueError: If a name or an option is unknown or invalid, or the objective cannot use the tree.

    Example:
        >>> import torch
        >>> from cophenet.objectives import StepOutput, create_objective
        >>> tree = Hierarchy.from_paths([("pet", "cat"), ("pet", "dog"), ("car", "bus"), ("car", "van")])
        >>> objective = create_objective("hxe", tree, alpha=0.5, cpcc={"distance": "l2", "weight": 0.1})
        >>> features, labels = torch.eye(4), torch.arange(4)
        >>> terms = objective(StepOutput(features, {"level2": features @ torch.eye(4)}, labels))
        >>> sorted(terms), sum(terms.values()).shape
        (['cpcc', 'hxe'], torch.Size([]))
    """
    cls = objective_class(name)
    gathered = {} if gather is None else {"gather": gather}
    if gather is not None:
        check_choice("gather", gather, get_args(Gather))
    if cls is None:
        if cpcc is not None:
            raise ValueError(f"objective {name!r} is CPCC already; give its options directly, not as cpcc=")
        if "distance" in options:
            raise ValueError(
                f"objective {name!r} has no option 'distance', because its name says the distance; "
                f"got {options['distance']!r}"
            )
        return WithCPCC(OBJECTIVES.get("flat")(tree), {"distance": name, **gathered, **options})
    check_options(f"objective {name!r}", cls, options)
    objective = cls(tree, **options)
    if cpcc is not None or cls.default_cpcc:
        given = {} if cpcc is None else cpcc_arguments(cpcc)
        return WithCPCC(objective, {**gathered, **cls.default_cpcc, **given})
    if gather is not None:
        objective.gather = gather
    return objective
