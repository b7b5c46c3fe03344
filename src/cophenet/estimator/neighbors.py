"""Blend the network's probabilities with votes of the nearest training samples.

With u(v) = v / |v|, and N the 10 training samples i whose reshaped vectors z_i have the largest cosines with
the reshaped vector z of a sample,

    p(c) = (1 - w) p_network(c) + w sum of a_i over i in N with class c,   a = softmax of 10 <u(z), u(z_i)>

as in k-nearest-neighbor language models (Khandelwal et al., 2020, https://arxiv.org/abs/1911.00172). The
share w maximizes the likelihood of the samples that a member of the ensemble has left out: predicted by that
member, and by the samples that it has seen, compared by its own unit vectors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from cophenet.estimator.ensemble import MEMBERS, EnsembleNetwork
from cophenet.estimator.samples import TrainingSet, blocks

__all__ = ["NEAREST", "SHARPNESS", "Neighbors", "held_out_answers"]

NEAREST, SHARPNESS = 10, 10.0
_SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
# With fewer left-out samples the share cannot be estimated; with more numbers to store, neighbors are not
# used.
_LEAST_HELD_OUT, _MOST_NUMBERS = 100, 1 << 24


@dataclass(frozen=True, eq=False)
class Neighbors:
    """Training samples that vote in predictions.

    Attributes:
        vectors: (m, size) float32, of length one.
        classes: (m,) their classes.
        share: Weight of the votes, above 0.
    """

    vectors: Tensor
    classes: Tensor
    share: float

    def blend(self, probabilities: Tensor, features: Tensor) -> Tensor:
        """Blend the network's probabilities (B, C) with votes of the neighbors of reshaped vectors (B, size).

        Example:
            >>> few = Neighbors(torch.eye(2), torch.tensor([0, 1]), 0.5)
            >>> few.blend(torch.tensor([[0.5, 0.5]]), torch.tensor([[0.0, 3.0]]))
            tensor([[0.2500, 0.7500]])
        """
        votes = _votes(normalize(features.float(), dim=1), self.vectors, self.classes, probabilities.shape[1])
        return torch.lerp(probabilities, votes.to(probabilities), self.share)


def _votes(units: Tensor, vectors: Tensor, classes: Tensor, count: int) -> Tensor:
    """Votes of the nearest of some unit vectors (m, size) with classes (m,): (B, size) -> (B, count)."""
    near = (units @ vectors.T).topk(min(NEAREST, len(vectors)), dim=1)
    shares = (near.values * SHARPNESS).softmax(1)
    return shares.new_zeros(len(units), count).scatter_add_(1, classes[near.indices], shares)


def held_out_answers(
    network: EnsembleNetwork, samples: TrainingSet, left_out_by: NDArray[np.int64], *, use_neighbors: bool
) -> tuple[Neighbors | None, Tensor]:
    """Probabilities of left-out samples, by the member that left them out; with neighbors if these help.

    Args:
        network: The trained network.
        samples: All samples; those without a class are skipped.
        left_out_by: (n,) the member that has not seen each sample; -1 for none.
        use_neighbors: Whether neighbors may be used.

    Returns:
        The neighbors, or None if the network alone predicts best; and probabilities (m, C) on the host, in
        the order of the samples.
    """
    device, count = network.prototypes.device, network.prototypes.shape[1]
    classes = samples.targets
    known = classes < count
    held = np.flatnonzero(known & (left_out_by >= 0))
    size = max(network.num_features, network.size)
    width = samples.rows.shape[1] + network.num_values
    answers = torch.empty(len(held), count)
    with torch.no_grad():
        for part in blocks(len(held), width):
            inputs = samples.inputs(held[part], device)
            logits = network.held_out(inputs, torch.from_numpy(left_out_by[held[part]]).to(device))
            answers[part] = logits.softmax(1).cpu()
        chosen = np.flatnonzero(known)
        if not use_neighbors or len(held) < _LEAST_HELD_OUT or len(chosen) * size > _MOST_NUMBERS:
            return None, answers
        units, embedded = [], []
        for part in blocks(len(chosen), width):
            inputs = samples.inputs(chosen[part], device)
            units.append(network.unit_vectors(inputs))
            embedded.append(normalize(network.reshaped(units[-1]), dim=1))
        labels = torch.from_numpy(classes[chosen]).to(device)
        votes = _left_out_votes(torch.cat(units, 1), labels, torch.from_numpy(left_out_by[chosen]), count)
    truth = torch.from_numpy(classes[held])[:, None]
    own, near = answers.gather(1, truth).double(), votes.gather(1, truth).double()
    likely = [float(torch.lerp(own, near, share).clamp(min=1e-6).log().sum()) for share in _SHARES]
    share = _SHARES[int(np.argmax(likely))]
    neighbors = Neighbors(torch.cat(embedded), labels, share) if share else None
    return neighbors, torch.lerp(answers, votes, share)


def _left_out_votes(units: Tensor, labels: Tensor, left_out_by: Tensor, count: int) -> Tensor:
    """Votes of the samples that a member has seen for those that it has left out, on the host.

    (members, n, size), (n,), (n,) -> (m, count)
    """
    votes = torch.empty(len(left_out_by), count)
    for member in range(MEMBERS):
        out, seen = left_out_by == member, (left_out_by != member).to(units.device)
        vectors = normalize(units[member] - units[member][seen].mean(0), dim=1)
        asked = out.nonzero()[:, 0]
        for part in blocks(len(asked), len(labels)):
            own = vectors[asked[part].to(units.device)]
            votes[asked[part]] = _votes(own, vectors[seen], labels[seen], count).cpu()
    return votes[left_out_by >= 0]
