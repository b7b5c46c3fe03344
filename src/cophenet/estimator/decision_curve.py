"""What certainty costs: the errors of "specific-if-confident" against how specific its answers are."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cophenet._common.files import write_bytes
from cophenet.estimator.decisions import first_wrong, walk_down
from cophenet.tree import Hierarchy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["CurveCounter", "DecisionCurve", "check_picture"]

Floats = NDArray[np.float64]

# Probabilities lie close to 1 more often than elsewhere.
THRESHOLDS = np.unique(np.concatenate([np.linspace(0, 1, 101), 1 - np.logspace(-6, -2, 25)]))


@dataclass(frozen=True, eq=False)
class DecisionCurve:
    """What "specific-if-confident" does at every threshold, from the lowest one on: (k,) each.

    Attributes:
        thresholds: What a node needs to be sure enough.
        errors: Share of wrong answers; falls.
        depths: Mean depth of the answers; falls.
        classes: Share of answers that are classes; falls.
        roots: Share of answers that are the root, and so say nothing; rises.
    """

    thresholds: Floats
    errors: Floats
    depths: Floats
    classes: Floats
    roots: Floats

    def to_dict(self) -> dict[str, list[float]]:
        """The numbers as lists, for JSON or a data frame."""
        return {name: getattr(self, name).tolist() for name in _NAMES}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> DecisionCurve:
        """From what `to_dict` gives.

        Raises:
            ValueError: If it is something else.
        """
        if set(values) != set(_NAMES) or len({len(row) for row in values.values()}) != 1:
            raise ValueError(f"a curve of decisions needs {', '.join(_NAMES)}, of equal length")
        return cls(**{name: np.array(row, dtype=np.float64) for name, row in values.items()})

    def draw(self, path: str | os.PathLike[str], error_target: float | None = None) -> None:
        """Draw errors against mean depth and against the shares of classes and roots.

        Args:
            path: The file; its ending says the format: svg, png or pdf.
            error_target: To be marked, if given.

        Raises:
            ValueError: If the ending is another one.
            ImportError: If matplotlib is missing.
        """
        ending = check_picture(path)
        import matplotlib

        from cophenet.report.style import styled

        figure, stream = styled(self._figure)(error_target), io.BytesIO()
        with matplotlib.rc_context({"svg.hashsalt": "cophenet", "svg.fonttype": "path"}):
            about = {"Date": None} if ending == "svg" else None
            figure.savefig(stream, format=ending, dpi=200, facecolor="white", metadata=about)
        write_bytes(Path(path), stream.getvalue())

    def _figure(self, error_target: float | None) -> Figure:
        from matplotlib.figure import Figure

        from cophenet.report.style import COLORS, MUTED, show_percent

        figure = Figure(figsize=(6.4, 2.9), layout="constrained")
        depth, shares = figure.subplots(1, 2, sharey=True)
        depth.plot(self.depths, self.errors, color=COLORS[0])
        depth.set(xlabel="mean depth of answers", ylabel="wrong answers")
        shares.plot(self.classes, self.errors, color=COLORS[0], label="are classes")
        shares.plot(self.roots, self.errors, color=COLORS[5], linestyle="--", label="are the root")
        shares.set(xlabel="share of answers that")
        shares.legend()
        show_percent(shares.xaxis)
        show_percent(depth.yaxis)
        if error_target is not None:
            for axes in (depth, shares):
                axes.axhline(error_target, color=MUTED, linestyle=":", linewidth=1)
            depth.annotate(f"target {error_target:.1%}", (depth.get_xlim()[0], error_target), va="bottom")
        return figure


_NAMES = ("thresholds", "errors", "depths", "classes", "roots")


def check_picture(path: str | os.PathLike[str]) -> str:
    """The format of a picture, by the ending of its file.

    Example:
        >>> check_picture("curve.gif")
        Traceback (most recent call last):
        ValueError: the picture must end with .svg, .png or .pdf, got 'curve.gif'
    """
    ending = Path(path).suffix.removeprefix(".").lower()
    if ending not in ("svg", "png", "pdf"):
        raise ValueError(f"the picture must end with .svg, .png or .pdf, got {os.fspath(path)!r}")
    return ending


class CurveCounter:
    """Counts samples for a curve, some of them at a time.

    Args:
        tree: The tree of the classes.

    Example:
        >>> tree = Hierarchy.from_paths(["pet/cat", "pet/dog", "car/bus"], sep="/")
        >>> counter = CurveCounter(tree)
        >>> counter.add(torch.tensor([[0.25, 0.35, 0.4], [0.1, 0.1, 0.8]]), torch.tensor([0, 2]))
        >>> curve = counter.curve()
        >>> half = int(np.searchsorted(curve.thresholds, 0.5))
        >>> curve.errors[[0, half]], curve.depths[[0, half]], curve.roots[-1:]
        (array([0.5, 0. ]), array([2. , 1.5]), array([1.]))
    """

    def __init__(self, tree: Hierarchy) -> None:
        self.tree = tree
        self._sums = np.zeros((4, len(THRESHOLDS)))
        self._count = 0

    def add(self, probabilities: Tensor, labels: Tensor) -> None:
        """Count samples: (n, C) probabilities of the classes, (n,) classes."""
        nodes, masses = walk_down(probabilities, self.tree)
        wrong = first_wrong(probabilities, labels, self.tree).cpu().numpy()
        # A class repeated below itself adds nothing: its depth counts once, where it is reached.
        depths = torch.from_numpy(self.tree.depths.copy())[nodes.cpu()]
        steps = torch.diff(depths, dim=1, prepend=torch.zeros_like(depths[:, :1])).numpy()
        sure = masses.double().cpu().numpy()
        reached = np.argmax(depths.numpy() == depths[:, -1:].numpy(), axis=1)
        leaf = sure[np.arange(len(sure)), reached]
        self._sums[0] += _at_least(wrong[wrong > 0], None)
        self._sums[1] += _at_least(sure.ravel(), steps.ravel())
        self._sums[2] += _at_least(leaf, None)
        self._sums[3] += len(labels) - _at_least(sure[:, 0], None)
        self._count += len(labels)

    def curve(self) -> DecisionCurve:
        """The curve of what was counted, of at least one sample."""
        return DecisionCurve(THRESHOLDS, *(self._sums / self._count))


def _at_least(values: Floats, weights: Floats | None) -> Floats:
    """For each threshold, how many values (or the sum of their weights) are at least as high."""
    order = np.argsort(values)
    amounts = np.ones(len(values)) if weights is None else weights[order]
    above = np.concatenate([np.cumsum(amounts[::-1])[::-1], [0.0]])
    return np.asarray(above[np.searchsorted(values[order], THRESHOLDS, side="left")])
