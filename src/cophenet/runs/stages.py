"""Assign the epochs of a training to the phases of its objective."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from cophenet.objectives import Phase, phase_lengths

__all__ = ["Stage", "plan_stages", "stage_at"]


@dataclass(frozen=True)
class Stage:
    """A phase and the range of epochs that it is trained in.

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
    """Divide the epochs among the phases, in order and in proportion to the lengths of the phases.

    Args:
        phases: `objective.phases`.
        epochs: Total number of epochs of all phases.

    Example:
        >>> from cophenet.objectives import Phase
        >>> stages = plan_stages([Phase("coarse", ("coarse",), 50), Phase("fine", ("fine",), 200)], 20)
        >>> [(stage.phase.name, stage.start, stage.end) for stage in stages]
        [('coarse', 0, 4), ('fine', 4, 20)]
    """
    ends = [0, *accumulate(phase_lengths(phases, epochs))]
    spans = zip(phases, pairwise(ends), strict=True)
    return tuple(Stage(index, phase, *span) for index, (phase, span) in enumerate(spans))


def stage_at(stages: Sequence[Stage], epoch: int) -> Stage:
    """Return the stage that an epoch belongs to; the last stage if the epoch is past the end."""
    return next((stage for stage in stages if epoch < stage.end), stages[-1])
