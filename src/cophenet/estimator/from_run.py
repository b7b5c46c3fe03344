"""The network of a trained run, as the estimator uses it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from cophenet.estimator.scaling import Scale
from cophenet.estimator.training import Fitted
from cophenet.estimator.validation import to_host

if TYPE_CHECKING:
    from cophenet.models.heads import Network

__all__ = ["RunNetwork", "flat_inputs", "read_run"]


class RunNetwork(nn.Module):
    """Flat inputs -> features and the logits of the classes.

    Args:
        network: Backbone and heads.
        shape: Shape of one input of the backbone.
        finest: Name of the head of the classes.
    """

    def __init__(self, network: Network, shape: Sequence[int], finest: str) -> None:
        super().__init__()
        self.network, self.shape, self.finest = network, tuple(shape), finest
        self.eval().requires_grad_(False)

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """(B, prod(shape)) -> (B, num_features), (B, classes)."""
        features, logits = self.network(inputs.reshape(-1, *self.shape))
        return features, logits[self.finest]


def flat_inputs(inputs: Any, shape: Sequence[int]) -> Any:
    """Inputs of the shape of a run as rows; others unchanged, to be checked as rows.

    Example:
        >>> flat_inputs(np.zeros((3, 1, 2, 2)), (1, 2, 2)).shape
        (3, 4)
    """
    array = to_host(inputs)
    if getattr(array, "shape", ())[1:] == tuple(shape):
        return array.reshape(len(array), -1)
    return array


def read_run(path: str | os.PathLike[str], *, trust: bool) -> tuple[dict[str, Any], Fitted]:
    """Parameters of the estimator, and what it would have learned, as the run has them."""
    from cophenet.runs import Run, load_experiment, load_network

    run = Run.open(os.fspath(path), trust=trust)
    network = load_network(run)
    experiment = load_experiment(run.recipe, run.info["data_dir"])
    tree = run.tree
    shape = tuple(run.info["input_shape"])
    first = experiment.train.take(np.zeros(1, dtype=np.int64))[0]
    one = 255.0 if first.dtype == torch.uint8 else 1.0
    channels = (shape[0], prod(shape[1:]))
    mean, std = (
        np.array(given or [empty]) for given, empty in ((experiment.mean, 0.0), (experiment.std, 1.0))
    )
    fitted = Fitted(
        np.array(tree.classes),
        tree,
        tree,
        Scale(*(one * np.broadcast_to(values[:, None], channels).ravel() for values in (mean, std))),
        RunNetwork(network, shape, experiment.objective.finest),
        network.backbone.num_features,
        input_shape=shape,
    )
    return {"tree": tree, "objective": run.recipe.objective.name}, fitted
