"""Means of the loss terms over an epoch, and detection of non-finite losses."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from cophenet._common.checks import DivergenceError
from cophenet.cpcc.exchange import add_up, process_count
from cophenet.transport.batch import LateRead

__all__ = ["Meter"]


class Meter:
    """Accumulates the loss terms of an epoch on the device, and checks each step's terms one step later.

    The terms of a step are copied to the host asynchronously and checked when the next step has been
    computed, so that the host does not wait for the device. Weights from a non-finite loss are never saved,
    because `check` is called before every checkpoint. All processes have the values of the whole batch.

    Example:
        >>> meter = Meter()
        >>> for step, loss in enumerate((1.0, 3.0)):
        ...     meter.add(step, {"cross_entropy": torch.tensor(loss)}, samples=8)
        >>> meter.means()
        {'cross_entropy': 2.0}
    """

    def __init__(self) -> None:
        self.names: tuple[str, ...] = ()
        self.sums: Tensor | None = None  # of terms weighted by samples; last: number of samples
        self.latest: dict[str, float] = {}
        self._waiting: tuple[int, LateRead] | None = None

    def add(self, step: int, terms: Mapping[str, Tensor], samples: int) -> None:
        """Add the terms of a step.

        Args:
            step: Number of the step in the training, for messages.
            terms: Scalars by name.
            samples: Number of samples in this process's share of the batch.

        Raises:
            DivergenceError: If a term of the previous step was not finite; raised on all processes.
            ValueError: If the names of the terms differ from the previous step.
        """
        if self.names and tuple(terms) != self.names:
            had, got = ", ".join(self.names), ", ".join(terms)
            raise ValueError(
                f"an objective must give the same terms in every step of a phase, {had}; got {got}"
            )
        values = torch.stack([term.detach().float() for term in terms.values()])
        values = torch.cat((values, values.new_full((1,), samples)))
        processes = process_count()
        if processes > 1:
            values = add_up(values)
            values[:-1] /= processes
        self.check()
        self.names = tuple(terms)
        weighted = torch.cat((values[:-1] * values[-1], values[-1:]))
        self.sums = weighted if self.sums is None else self.sums + weighted
        self._waiting = (step, LateRead(values[:-1]))

    def check(self) -> None:
        """Check the terms of the last step.

        Raises:
            DivergenceError: If one is not finite; the message names step and term.
        """
        if self._waiting is None:
            return
        step, values = self._waiting
        self._waiting = None
        self.latest = dict(zip(self.names, values.read().tolist(), strict=True))
        for name, value in self.latest.items():
            if not math.isfinite(value):
                raise DivergenceError(f"loss term {name!r} became {value} in step {step}")

    def means(self) -> dict[str, float]:
        """Return the mean of each term over the samples so far."""
        self.check()
        if self.sums is None:
            return {}
        return dict(zip(self.names, (self.sums[:-1] / self.sums[-1]).tolist(), strict=True))

    def reset(self) -> None:
        """Start a new epoch."""
        self.names, self.sums = (), None

    def state(self) -> dict[str, Any]:
        """Return the state for a checkpoint in the middle of an epoch."""
        return {"names": list(self.names), "sums": self.sums}

    def restore(self, state: Mapping[str, Any], device: torch.device) -> None:
        """Restore a `state`."""
        sums: Tensor | None = state["sums"]
        self.names = tuple(state["names"])
        self.sums = None if sums is None else sums.to(device)
