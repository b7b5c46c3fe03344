"""The numbers of a run as they are found: each a float, or None with the reason."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from torch import Tensor

__all__ = ["Numbers"]


class Numbers:
    """Numbers by key, in the order they were found.

    Attributes:
        values: Key -> number, None where it is undefined or cannot be computed.
        missing: Key -> why it is None.

    Example:
        >>> import torch
        >>> from cophenet import cpcc
        >>> numbers = Numbers()
        >>> with numbers.found() as found:
        ...     found["source/cpcc/l2"] = cpcc(torch.ones(3), torch.tensor([2.0, 4.0, 4.0]))
        >>> numbers.values, numbers.missing
        ({'source/cpcc/l2': None}, {'source/cpcc/l2': 'one side is constant'})
    """

    def __init__(self) -> None:
        self.values: dict[str, float | None] = {}
        self.missing: dict[str, str] = {}

    @contextmanager
    def found(self) -> Iterator[dict[str, Tensor | float]]:
        """Put numbers into what this gives; NaN becomes None, for the reason that the metric warned of."""
        given: dict[str, Tensor | float] = {}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", RuntimeWarning)
            yield given
        values = {key: float(value) for key, value in given.items()}
        undefined = [key for key, value in values.items() if not math.isfinite(value)]
        self.values.update({key: None if key in undefined else value for key, value in values.items()})
        if undefined:
            told = [str(warning.message).rpartition("returning NaN: ")[2] for warning in caught]
            self.missing.update(dict.fromkeys(undefined, "; ".join(dict.fromkeys(told)) or "not finite"))
            return
        for warning in caught:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)

    def lack(self, keys: Iterable[str], reason: str) -> None:
        """Numbers that cannot be computed, and why."""
        for key in keys:
            self.values[key] = None
            self.missing[key] = reason
