"""Trade-off of "specific-if-confident": its error rate against how specific its predictions are."""

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

# Denser near 1, where most probabilities lie.
THRESHOLDS = np.unique(np.concatenate([np.linspace(0, 1, 101), 1 - np.logspace(-6, -2, 25)]))


@dataclass(frozen=True, eq=False)
class DecisionCurve:
    """Error rate and specificity of "specific-if-confident" at every threshold, ascending: (k,) each.

    Attributes:
        thresholds: Lowest probability of a predicted node.
        errors: Share of wrong predictions; falling.
        depths: Mean depth of the predictions; falling.
        classes: Share of predictions that are classes; falling.
        roots: Share of predictions that are the root, which carry no information; rising.
    """

    thresholds: Floats
    errors: Floats
    depths: Floats
    classes: Floats
    roots: Floats

    def to_dict(self) -> dict[str, list[float]]:
        """The arrays as lists, for JSON or a data frame."""
        return {field.name: getattr(self, field.name).tolist() for field in fields(self)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> DecisionCurve:
        """Create a curve from the output of `to_dict`.

        Raises:
            ValueError: If it has other keys, or lists of different lengths.
        """
        names = [field.name for field in fields(cls)]
        if set(values) != set(names) or len({len(row) for row in values.values()}) != 1:
            raise ValueError(f"a curve of decisions needs {', '.join(names)}, of equal length")
        return cls(**{name: np.array(row, dtype=np.float64) for name, row in values.items()})

    def draw(self, path: str | os.PathLike[str], error_target: float | None = None) -> None:
        """Draw errors against mean depth and against the shares of classes and roots.

        Args:
            path: The file; its extension sets the format: svg, png or pdf.
            error_target: A target to mark in the plot, if given.

        Raises:
            ValueError: If the file has another extension.
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
    """Return the format of a picture, from the extension of its file.

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
    """Compute the curve of n samples, at least one.

    Args:
        walk: Their paths down the tree.
        labels: (n,) true classes.
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
    # A class repeated in deeper levels adds no depth: it counts once, where it is reached.
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
