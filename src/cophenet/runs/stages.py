"""When each phase of an objective is trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cophenet.objectives import Phase

__all__ = ["Stage", "plan_stages", "stage_at"]


@dataclass(frozen=True)
class Stage:
    """A phase with its place in the training.

    Attributes:
        index: Position of the phase in `objective.phases`.
        phase: The phase.
        start: Its first epoch, from 0.
        end: The epoch after its last.
    """

    index: int
    phase: Phase
    start: int
    end: int


def plan_stages(phases: Sequence[Phase], epochs: int) -> tuple[Stage, ...]:
    """The phases one after the other.

    Args:
        phases: `objective.phases`.
        epochs: Length of a phase that does not say its own.

    Example:
        >>> from cophenet.objectives import Phase
        >>> stages = plan_stages([Phase("coarse", ("coarse",), 5), Phase("fine", ("fine",))], 20)
        >>> [(stage.phase.name, stage.start, stage.end) for stage in stages]
        [('coarse', 0, 5), ('fine', 5, 25)]
    """
    stages: list[Stage] = []
    for index, phase in enumerate(phases):
        start = stages[-1].end if stages else 0
        stages.append(Stage(index, phase, start, start + (epochs if phase.epochs is None else phase.epochs)))
    return tuple(stages)


def stage_at(stages: Sequence[Stage], epoch: int) -> Stage:
    """The stage of an epoch; the last one for what comes after it."""
    return next((stage for stage in stages if epoch < stage.end), stages[-1])
