"""The default network: an ensemble of small networks, each with unit vectors and a cosine head.

Member m maps a standardised vector x to the unit vector z_m = u(drop(relu(norm(A_m x)))), u(v) = v / |v|.
During training, its logit of a node v of the tree is s cos(z_m, w_mv), with a fixed s. Afterwards the logit
of a class c is 16 <z_m, v_mc>, where v_mc is computed from the row w of the class, and from those of its
ancestors or the class mean (see `ensemble_training`). The logits of the ensemble are the means over its
members. The reshaped vector is the concatenation of the members' unit vectors, divided by the square root of
their number, centred on the training samples and projected on the directions of most variance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from scipy.linalg import eigh
from torch import Tensor, nn
from torch.nn.functional import normalize
from torch.random import fork_rng

__all__ = ["MEMBERS", "SCALE", "EnsembleNetwork", "Members", "final_ensemble", "main_directions"]

MEMBERS = 4
SCALE = 16.0


class Members(nn.Module):
    """Ensemble members that are trained together: one wide hidden layer, of which each member has a part.

    Args:
        inputs: Size of a vector.
        hidden: Size of a member's hidden layer; 0 for linear members, whose output has the size of a vector.
        outputs: Number of logits; those of the classes come first.
        dropout: Share of hidden values that are dropped.
        scale: Factor from cosines to logits.
        seed: Seed of the initial weights; torch's global random state is not changed.
        count: Number of members.

    Example:
        >>> Members(5, 8, 3, 0.3, 16.0, seed=0, count=2).eval()(torch.zeros(7, 5)).shape
        torch.Size([2, 7, 8])
    """

    def __init__(
        self, inputs: int, hidden: int, outputs: int, dropout: float, scale: float, seed: int, count: int
    ) -> None:
        super().__init__()
        self.dropout, self.scale, self.count = dropout, scale, count
        self.is_linear, self.size = hidden == 0, hidden or inputs
        with fork_rng(devices=[]):
            self.hidden = nn.Linear(inputs, count * self.size, dtype=torch.float32)
        self.norm = nn.BatchNorm1d(count * self.size)
        generator = torch.Generator().manual_seed(seed)
        bound = inputs**-0.5
        with torch.no_grad():
            for parameter in self.hidden.parameters():
                parameter.uniform_(-bound, bound, generator=generator)
        start = torch.randn(count, outputs, self.size, generator=generator)
        self.prototypes = nn.Parameter(start * self.size**-0.5)

    def forward(self, inputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Unit vectors of every member, (B, inputs) -> (members, B, size)."""
        values: Tensor = self.norm(self.hidden(inputs))
        if not self.is_linear:
            values = values.relu()
        if self.training:
            values = _drop(values, self.dropout, generator)
        return _unit_vectors(values.view(len(inputs), self.count, self.size)).transpose(0, 1)

    def logits(self, vectors: Tensor, count: int | None = None) -> Tensor:
        """Logits of all or the first `count` nodes: (members, B, size) -> (members, B, count)."""
        return torch.bmm(vectors, self.rows()[:, :count].transpose(1, 2))

    def rows(self) -> Tensor:
        """Weights of the head, prototypes times the scale: (members, nodes, size)."""
        return self.unit_prototypes() * self.scale

    def unit_prototypes(self) -> Tensor:
        """Prototypes of length one, (members, nodes, size)."""
        return _unit_vectors(self.prototypes)


class _Normalize(torch.autograd.Function):
    """v / |v|; the backward pass takes a third of the time of torch's `normalize`."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        lengths = values.norm(dim=-1, keepdim=True).clamp_(min=1e-12)
        vectors: Tensor = values / lengths
        ctx.save_for_backward(vectors, lengths)
        return vectors

    @staticmethod
    def backward(ctx: Any, given: Tensor) -> Tensor:
        vectors, lengths = ctx.saved_tensors
        along = (given * vectors).sum(-1, keepdim=True)
        across: Tensor = torch.addcmul(given, vectors, along, value=-1)
        return across.div_(lengths)


def _unit_vectors(values: Tensor) -> Tensor:
    """Scale vectors to length one, (..., d) -> (..., d); zero vectors stay zero."""
    vectors: Tensor = _Normalize.apply(values)  # type: ignore[no-untyped-call]
    return vectors


def _drop(values: Tensor, share: float, generator: torch.Generator | None) -> Tensor:
    """Dropout with random bytes, drawn eight at a time: several times faster than a random number per value.

    The other values are not scaled up, because the vectors are then scaled to length one.
    """
    limit, words = round(256 * share), -(-values.numel() // 8)
    if not limit:
        return values
    drawn = torch.empty(words, dtype=torch.int64, device=values.device)
    drawn.random_(-(2**63), None, generator=generator)
    # 1 for bytes from the limit on, else 0; a comparison would take several times as long.
    kept = drawn.view(torch.uint8)[: values.numel()].view(values.shape).clamp(limit - 1, limit) - (limit - 1)
    return values * kept.to(values.dtype)


class EnsembleNetwork(nn.Module):
    """Standardised vectors -> reshaped vectors and the logits of the classes.

    Args:
        inputs: Size of a vector.
        size: Size of a member's unit vector.
        outputs: Size of a reshaped vector.
        classes: Number of classes.
        linear: Whether members are linear.

    Attributes:
        num_features: Size of a reshaped vector.
        num_values: Numbers computed for one vector, from which block sizes are derived.
    """

    def __init__(self, inputs: int, size: int, outputs: int, classes: int, *, linear: bool) -> None:
        super().__init__()
        self.is_linear, self.size, self.num_features = linear, size, outputs
        self.num_values = MEMBERS * (2 * size + classes) + outputs
        self.hidden = nn.Linear(inputs, MEMBERS * size)
        self.prototypes = nn.Parameter(torch.empty(MEMBERS, classes, size))
        self.projection = nn.Linear(MEMBERS * size, outputs)
        self.eval().requires_grad_(False)

    def unit_vectors(self, inputs: Tensor) -> Tensor:
        """(B, inputs) -> (members, B, size)."""
        values: Tensor = self.hidden(inputs)
        values = values if self.is_linear else values.relu()
        return normalize(values.view(len(inputs), MEMBERS, self.size).transpose(0, 1), dim=2)

    def member_logits(self, vectors: Tensor) -> Tensor:
        """(members, B, size) -> (members, B, classes)."""
        return SCALE * torch.bmm(vectors, self.prototypes.transpose(1, 2))

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """(B, inputs) -> (B, outputs), (B, classes)."""
        vectors = self.unit_vectors(inputs)
        return self.reshaped(vectors), self.member_logits(vectors).mean(0)

    def reshaped(self, vectors: Tensor) -> Tensor:
        """(members, B, size) -> (B, outputs)."""
        reshaped: Tensor = self.projection(vectors.transpose(0, 1).flatten(1) * MEMBERS**-0.5)
        return reshaped

    def held_out(self, inputs: Tensor, member: Tensor) -> Tensor:
        """Logits of one member for each vector: (B, inputs), (B,) -> (B, classes)."""
        logits = self.member_logits(self.unit_vectors(inputs))
        return logits[member, torch.arange(len(member), device=member.device)]


def final_ensemble(
    parts: Sequence[Members], rows: Tensor, mean: Tensor, directions: Tensor
) -> EnsembleNetwork:
    """Build the network for predictions from trained members; batch norm is folded into the hidden layer.

    Args:
        parts: Trained members, `MEMBERS` in all.
        rows: (members, C, size) weights of the head, divided by `SCALE`.
        mean: (members * size,) mean of the concatenated unit vectors.
        directions: (outputs, members * size) from `main_directions`.
    """
    one = parts[0]
    with fork_rng(devices=[]):
        network = EnsembleNetwork(
            one.hidden.in_features, one.size, len(directions), rows.shape[1], linear=one.is_linear
        ).to(rows)
    with torch.no_grad():
        weights, biases = zip(*(_without_norm(part) for part in parts), strict=True)
        network.hidden.weight.copy_(torch.cat(weights))
        network.hidden.bias.copy_(torch.cat(biases))
        network.prototypes.copy_(rows)
        network.projection.weight.copy_(directions)
        network.projection.bias.copy_(directions @ mean * -(MEMBERS**-0.5))
    return network


def _without_norm(members: Members) -> tuple[Tensor, Tensor]:
    """Weight and bias of a linear layer equivalent to the hidden layer followed by batch norm."""
    layer, norm = members.hidden, members.norm
    assert norm.running_mean is not None
    assert norm.running_var is not None
    gain = norm.weight * (norm.running_var + norm.eps).rsqrt()
    return layer.weight * gain[:, None], (layer.bias - norm.running_mean) * gain + norm.bias


def main_directions(moments: Tensor, count: int) -> Tensor:
    """Leading eigenvectors of a matrix of second moments, the largest eigenvalue first.

    Args:
        moments: (k, k) sum of the outer products of the rows, on the host.
        count: Number of eigenvectors, at most k.

    Returns:
        (count, k) orthonormal rows, the entry of largest size in each positive, so that signs do not depend
        on the solver.

    Example:
        >>> rows = torch.tensor([[3.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 2.0, 0.0]])
        >>> main_directions(rows.T @ rows, 2)
        tensor([[1., 0., 0.],
                [0., 1., 0.]])
    """
    # Half the time of torch's eigh, which computes all eigenvectors.
    found = eigh(moments.double().numpy(), subset_by_index=(len(moments) - count, len(moments) - 1))[1]
    vectors = torch.from_numpy(found.T[::-1].copy()).to(moments.dtype)
    largest = vectors.gather(1, vectors.abs().argmax(1, keepdim=True))
    return torch.where(largest < 0, -vectors, vectors)
