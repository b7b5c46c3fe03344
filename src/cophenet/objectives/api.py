"""Objectives made by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from cophenet._common.checks import check_choice, check_options
from cophenet.cpcc.exchange import Gather
from cophenet.objectives.base import Objective
from cophenet.objectives.cpcc import WithCPCC, cpcc_arguments
from cophenet.objectives.flat import Flat
from cophenet.objectives.registry import objective_names, registered
from cophenet.tree import Hierarchy

__all__ = ["create"]


def create(
    name: str,
    tree: Hierarchy,
    *,
    cpcc: str | Mapping[str, Any] | None = None,
    gather: Gather | None = None,
    **options: Any,
) -> Objective:
    """Make an objective by name.

    Args:
        name: A registered name; or the name of a class distance, which is cross entropy with CPCC on
            that distance.
        tree: The label tree.
        cpcc: CPCC to add to a baseline: a class distance, or the arguments of `CPCCLoss` as a mapping.
        gather: "all" (the default) for the loss of the batch of all processes; "none" for that of each
            process's own. A mapping `cpcc` may hold it instead.
        **options: The objective's own options; for a class distance those of `CPCCLoss`.

    Raises:
        ValueError: If a name or an option is unknown or wrong, or the objective cannot use the tree.

    Example:
        >>> import torch
        >>> from cophenet.objectives import StepOutput, create
        >>> tree = Hierarchy.from_paths([("pet", "cat"), ("pet", "dog"), ("car", "bus"), ("car", "van")])
        >>> objective = create("hxe", tree, alpha=0.5, cpcc={"distance": "l2", "weight": 0.1})
        >>> features, labels = torch.eye(4), torch.arange(4)
        >>> terms = objective(StepOutput(features, {"level2": features @ torch.eye(4)}, labels))
        >>> sorted(terms), sum(terms.values()).shape
        (['cpcc', 'hxe'], torch.Size([]))
    """
    check_choice("objective", name, objective_names())
    gathered = {} if gather is None else {"gather": gather}
    if gather is not None:
        check_choice("gather", gather, get_args(Gather))
    cls = registered(name)
    if cls is None:
        if cpcc is not None:
            raise ValueError(f"objective {name!r} is CPCC already; give its options directly, not as cpcc=")
        if "distance" in options:
            raise ValueError(
                f"objective {name!r} has no option 'distance', because its name says the distance; "
                f"got {options['distance']!r}"
            )
        return WithCPCC(Flat(tree), {"distance": name, **gathered, **options})
    check_options(f"objective {name!r}", cls, options)
    objective = cls(tree, **options)
    if cpcc is not None:
        return WithCPCC(objective, {**gathered, **cpcc_arguments(cpcc)})
    if gather is not None:
        objective.gather = gather
    return objective
