"""Training curves: one quantity over the epochs, for all seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from cophenet.runs.run import Run

__all__ = [
    "ACCURACY",
    "CPCC",
    "LOSS",
    "Curve",
    "Quantity",
    "phase_starts",
    "quantity",
    "training_curves",
]

# No loss comes near it, and pictures of larger numbers fail.
_LARGEST = 1e100


@dataclass(frozen=True)
class Quantity:
    """What a picture of curves shows.

    Attributes:
        title: What is measured.
        percent: Whether values are fractions, to be shown as percent.
    """

    title: str
    percent: bool


ACCURACY = Quantity("Accuracy on samples that are not trained on", percent=True)
CPCC = Quantity("CPCC of training batches", percent=True)
LOSS = Quantity("Training loss", percent=False)


def quantity(column: str) -> Quantity:
    """The picture in which a column of `metrics.csv` is drawn.

    Example:
        >>> quantity("train/cpcc").title, quantity("train/cpcc_loss").title
        ('CPCC of training batches', 'Training loss')
    """
    kind = column.split("/")[1]
    return {"accuracy": ACCURACY, "cpcc": CPCC}.get(kind, LOSS)


@dataclass(frozen=True, eq=False)
class Curve:
    """A quantity over the epochs.

    Attributes:
        name: For the legend.
        values: (seeds, epochs), NaN where nothing was measured.
    """

    name: str
    values: npt.NDArray[np.float64]

    @property
    def mean(self) -> npt.NDArray[np.float64]:
        """(epochs,) mean over the seeds that have a value; NaN where none has."""
        known = np.isfinite(self.values)
        count = known.sum(axis=0)
        total = np.where(known, self.values, 0.0).sum(axis=0)
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def training_curves(run: Run) -> dict[str, Curve]:
    """What `metrics.csv` holds, by column, over all seeds of a run; columns without numbers are left out.

    Raises:
        ValueError: If a number is too large to be drawn.
    """
    tables = [part.metrics for part in run.parts]
    columns = dict.fromkeys(key for table in tables for row in table for key in row)
    curves = {}
    for column in columns:
        if "/" not in column:
            continue
        rows = [[_number(row.get(column)) for row in table] for table in tables]
        values = np.array(list(zip_longest(*rows, fillvalue=np.nan)), dtype=np.float64).T
        large = np.argwhere(np.isfinite(values) & (np.abs(values) > _LARGEST))
        if len(large):
            part, row = large[0].tolist()
            number = f"{column} is {values[part, row]:g} in epoch {row + 1}"
            raise ValueError(f"{run.parts[part].path / 'metrics.csv'}: {number}, too large to be drawn")
        if np.isfinite(values).any():
            curves[column] = Curve(column.partition("/")[2], values)
    return curves


def phase_starts(rows: Sequence[Mapping[str, float | str | None]]) -> list[int]:
    """Epochs, counted from 1, with which a new phase of the training begins.

    Example:
        >>> phase_starts([{"phase": 0.0}, {"phase": 0.0}, {"phase": 1.0}])
        [3]
    """
    phases = [row.get("phase") for row in rows]
    return [i + 1 for i in range(1, len(phases)) if phases[i] != phases[i - 1]]


def _number(value: float | str | None) -> float:
    return value if isinstance(value, float) else np.nan
