"""What certainty costs: the errors of "specific-if-confident" against how specific its answers are."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from cophenet._common.files import write_bytes
from cophenet.estimator.decisions import Walk, first_wrong
from cophenet.tree import Hierarchy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["DecisionCurve", "check_picture", "decision_curve"]

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
        return {field.name: getattr(self, field.name).tolist() for field in fields(self)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> DecisionCurve:
        """From what `to_dict` gives.

        Raises:
            ValueError: If it is something else.
        """
        names = [field.name for field in fields(cls)]
        if set(values) != set(names) or len({len(row) for row in values.values()}) != 1:
            raise ValueError(f"a curve of decisions needs {', '.join(names)}, of equal length")
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


def decision_curve(walk: Walk, labels: Tensor, tree: Hierarchy) -> DecisionCurve:
    """The curve of n samples, at least one.

    Args:
        walk: Their way down the tree.
        labels: (n,) classes.
        tree: The tree of the classes.

    Example:
        >>> import torch
        >>> from cophenet.estimator.decisions import walk_down
        >>> tree = Hierarchy.from_paths(["pet/cat", "pet/dog", "car/bus"], sep="/")
        >>> walk = walk_down(torch.tensor([[0.25, 0.35, 0.4], [0.1, 0.1, 0.8]]), tree)
        >>> curve = decision_curve(walk, torch.tensor([0, 2]), tree)
        >>> half = int(np.searchsorted(curve.thresholds, 0.5))
        >>> curve.errors[[0, half]], curve.depths[[0, half]], curve.roots[-1:]
        (array([0.5, 0. ]), array([2. , 1.5]), array([1.]))
    """
    wrong, sure = first_wrong(walk, labels, tree).numpy(), walk.masses.double().numpy()
    # A class repeated below itself adds nothing: its depth counts once, where it is reached.
    depths = tree.depths[walk.nodes.numpy()]
    steps = np.diff(depths, axis=1, prepend=0)
    leaf = sure[np.arange(len(sure)), np.argmax(depths == depths[:, -1:], axis=1)]
    counts = (
        _at_least(wrong[wrong > 0]),
        _at_least(sure.ravel(), steps.ravel()),
        _at_least(leaf),
        len(sure) - _at_least(sure[:, 0]),
    )
    return DecisionCurve(THRESHOLDS, *(np.stack(counts) / len(sure)))


def _at_least(values: Floats, weights: NDArray[Any] | None = None) -> Floats:
    """For each threshold, how many values (or the sum of their weights) are at least as high."""
    order = np.argsort(values)
    amounts = np.ones(len(values)) if weights is None else weights[order]
    above = np.concatenate([np.cumsum(amounts[::-1])[::-1], [0.0]])
    return np.asarray(above[np.searchsorted(values[order], THRESHOLDS, side="left")])
