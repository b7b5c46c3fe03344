"""The phases of an objective as stages of a training: which epochs are whose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from cophenet.objectives import Phase, phase_lengths

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
    """The phases one after the other, which share the epochs in proportion to their own lengths.

    Args:
        phases: `objective.phases`.
        epochs: Of all phases together.

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
    """The stage of an epoch; the last one for what comes after it."""
    return next((stage for stage in stages if epoch < stage.end), stages[-1])
