"""When each phase of an objective is trained, and with which learning rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cophenet.objectives import Phase
    from cophenet.training.settings import ScheduleSettings

__all__ = ["Stage", "learning_rate_factor", "plan_stages", "stage_at"]


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


def learning_rate_factor(stages: Sequence[Stage], schedule: ScheduleSettings | None, epoch: int) -> float:
    """What the learning rate is multiplied by in an epoch; every phase begins anew.

    Example:
        >>> from cophenet.objectives import Phase
        >>> from cophenet.training.settings import ScheduleSettings
        >>> stages = plan_stages([Phase("coarse", (), 2), Phase("fine", (), 3)], 20)
        >>> schedule = ScheduleSettings(divide_by=10, every=2)
        >>> [learning_rate_factor(stages, schedule, epoch) for epoch in range(5)]
        [1.0, 1.0, 1.0, 1.0, 0.1]
    """
    if schedule is None:
        return 1.0
    steps = (epoch - stage_at(stages, epoch).start) // schedule.every
    return float(schedule.divide_by**-steps)
