"""The network of a trained run, wrapped for the estimator."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from cophenet._common.shell import command
from cophenet.data.augmentation import resize_images
from cophenet.estimator.samples import Scale, blocks, to_host
from cophenet.estimator.training import Fitted

if TYPE_CHECKING:
    from cophenet.models.heads import Network
    from cophenet.runs.experiment import Preprocessing

__all__ = ["RunNetwork", "check_bytes", "flat_inputs", "read_run"]


class RunNetwork(nn.Module):
    """Flat, normalized inputs -> features and the logits of the classes.

    Args:
        network: The trained backbone and heads.
        before: The preprocessing: shape of one input of the data set, resizing, a frozen backbone.
        finest: Name of the head of the classes.

    Attributes:
        num_features: Size of a feature vector.
        image_view: The crop that turns an image file into an input; None if inputs are not colour images.
    """

    def __init__(self, network: Network, before: Preprocessing, finest: str) -> None:
        super().__init__()
        self.network, self.finest, self.num_features = network, finest, network.backbone.num_features
        self.shape, self.is_bytes = before.shape, before.is_bytes
        self.image_view = before.view if before.is_bytes else None
        self.resize = partial(resize_images, side=before.size, interpolation=before.images.interpolation)
        self.trunk = None if before.trunk is None else before.trunk.backbone
        self.eval().requires_grad_(False)

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """(B, prod(shape)) -> (B, num_features), (B, classes)."""
        images = self.resize(inputs.reshape(-1, *self.shape))
        features, logits = self.network(images if self.trunk is None else self.trunk(images))
        return features, logits[self.finest]


def check_bytes(rows: NDArray[Any]) -> None:
    """Raise if images are not bytes, such as images scaled to 0..1.

    Raises:
        ValueError: If a number is not an integer from 0 to 255, or the largest number is above 0 and at most
            1.

    Example:
        >>> check_bytes(np.array([[0.0, 0.5, 1.0]]))
        Traceback (most recent call last):
        ValueError: inputs must be bytes, 0 to 255, as the data of the run has them, got float64 from ...
    """
    if rows.dtype == np.uint8 or rows.size == 0:
        return
    low, high, whole = np.inf, -np.inf, True
    for part in blocks(*rows.shape):
        block = rows[part]
        low, high = min(low, float(block.min())), max(high, float(block.max()))
        whole = whole and bool((block == np.rint(block)).all())
    if low < 0 or high > 255 or not whole or 0 < high <= 1:
        raise ValueError(
            "inputs must be bytes, 0 to 255, as the data of the run has them, "
            f"got {rows.dtype} from {low:g} to {high:g}; images scaled to 0..1 are to be multiplied by 255, "
            "and rounded"
        )


def flat_inputs(inputs: Any, shape: Sequence[int]) -> Any:
    """Flatten inputs of the shape of a run's inputs; return others unchanged, to be checked as rows.

    Example:
        >>> flat_inputs(np.zeros((3, 1, 2, 2)), (1, 2, 2)).shape
        (3, 4)
    """
    array = to_host(inputs)
    if getattr(array, "shape", ())[1:] == tuple(shape):
        return array.reshape(len(array), -1)
    return array


def read_run(path: str | os.PathLike[str], *, trust: bool) -> tuple[dict[str, Any], Fitted]:
    """Return the parameters of the estimator, and its fitted state, from a run."""
    from cophenet.runs import Run, load_experiment, load_network

    run = Run.open(os.fspath(path), trust=trust)
    trained = load_network(run)  # raises for unusable runs before the data is read
    try:
        experiment = load_experiment(run.recipe, run.info["data_dir"])
    except FileNotFoundError as error:
        moved = command("train", "--resume", run.path, "--data-dir", "DIR")
        raise FileNotFoundError(f"{error}; if the data of the run has moved: {moved}") from error
    before, tree = experiment.preprocessing, run.tree
    one = 255.0 if before.is_bytes else 1.0
    channels = (before.shape[0], prod(before.shape[1:]))
    mean, std = (
        np.array(given or [empty]) for given, empty in ((before.images.mean, 0.0), (before.images.std, 1.0))
    )
    scale = Scale(*(one * np.broadcast_to(values[:, None], channels).ravel() for values in (mean, std)))
    network = RunNetwork(trained, before, experiment.objective.finest)
    fitted = Fitted(np.array(tree.classes), tree, tree, scale, network)
    return {"tree": tree, "objective": run.recipe.objective.name}, fitted
