"""Training of the default ensemble: cross entropy at every level of the tree, and CPCC of unit vectors.

With s_v the logit of node v of the tree, p_l(v) = exp(s_v) / sum of exp(s_u) over the nodes u of level l, and
m_c the mean of a member's unit vectors of class c in the batch, each member has

    loss = -log p_classes(y) - a / sqrt(L) sum_l log p_l(y_l) + b (1 - CPCC(|m_c - m_d|, t_cd))

where l are the L levels above the classes, and t_cd is the distance of two classes in the tree;
`tree_strength` sets a and b. A node of several levels, such as a class high up in the tree, has the same
logit in all of them. Inputs are mixed (mixup: Zhang et al., 2018, https://arxiv.org/abs/1710.09412): an input
is q x + (1 - q) x' with another sample x' of the batch, and the cross entropies are q times those of y and
1 - q times those of y'; q is max(r, 1 - r) with one r from Beta(0.2, 0.2) per batch. Predictions use all
levels: after training the logit of class c is (s_c + k mean_l s_{c_l}) / (1 + k / 2), with k = a (1 - 1 / L)
and c_l the ancestor of c at level l. With few samples it is (s_c + s cos(z, m_c)) / 2 instead, with m_c over
all samples of the class. All samples are used in training: each sample that calibrates decisions is left out
by one member only, which then scores it. All members see the same batches. With many samples they are trained
in pairs, each pair in its own thread if torch has several: threads that share every small matrix product
would wait for one another most of the time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from cophenet._common.progress import Progress
from cophenet.cpcc.pearson import correlation, unit_vector
from cophenet.estimator.ensemble import (
    MEMBERS,
    SCALE,
    EnsembleNetwork,
    Members,
    final_ensemble,
    main_directions,
)
from cophenet.estimator.labels import classes_below
from cophenet.estimator.level_loss import LevelLoss, find_levels, tree_weights
from cophenet.estimator.neighbors import Neighbors, held_out_answers
from cophenet.estimator.one_cycle import OneCycle
from cophenet.estimator.samples import TrainingSet, blocks, draw_epoch

if TYPE_CHECKING:
    from cophenet.estimator.embedder import HierarchicalEmbedder

__all__ = ["EnsembleTrainer", "Team"]

Ints = NDArray[np.int64]

# Learning rate for vectors of up to _WIDTH numbers; longer ones need a lower rate, as a step of AdamW moves a
# hidden value by at most the rate times the sum of the inputs' sizes.
_LEARNING_RATE, _WIDTH = 2e-3, 384
_WEIGHT_DECAY = 1e-2
# Number of samples from which members train in pairs; with fewer, a step of each pair takes longer than one
# step of all members.
_PAIRS = 10_000
# Largest and smallest number of epochs, samples seen in total in between, and smallest number of steps.
_MOST_EPOCHS, _LEAST_EPOCHS, _SEEN, _STEPS = 20, 6, 280_000, 300
# From _LARGE samples on: fewer samples seen in total, batches twice as large, a higher learning rate.
_LARGE, _SEEN_LARGE = 20_000, 240_000
_BATCH, _LARGE_BATCH = 256, 512
# Largest number of classes of a batch in CPCC.
_COMPARED = 64
# CPCC is computed in one of this many steps, with this many times the weight.
_CPCC_STEPS = 2
# Mixup: the share of a sample is drawn from the beta distribution with this value for both parameters.
_MIXING = 0.2
# With fewer samples per class on average, dropout is higher and predictions use class means.
_FEW = 15
_DROPOUT, _DROPOUT_FEW = 0.3, 0.5
# With many classes, cosines need a larger scale for one class to outweigh the sum of all others.
_LEAST_SCALE, _SCALE_PER_LOG = 16.0, 4.5
# Smallest default size of reshaped vectors. One direction per class separates the classes and drops noise,
# but fewer than this would lose groups of classes.
_COMPONENTS = 64


@dataclass
class Team:
    """Members that are trained together.

    Attributes:
        members: The networks.
        first: Index of their first member among all members.
        steps: Their optimizer.
        rng: Random generator for batches and mixup, with the same state in every team.
        generator: Random generator for dropout.
    """

    members: Members
    first: int
    steps: OneCycle
    rng: np.random.Generator
    generator: torch.Generator


class EnsembleTrainer:
    """Trains the members of an ensemble.

    Args:
        samples: Training samples; each sample of `split.calibrate` is left out by one member.
        settings: The estimator, for its parameters.
        seed: Seed of everything random.
    """

    def __init__(self, samples: TrainingSet, settings: HierarchicalEmbedder, seed: int) -> None:
        self.samples, self.settings, self.seed = samples, settings, seed
        self.rows, self.targets, self.tree = samples.rows, samples.targets, samples.tree
        self.device, self.terms = torch.device(settings.device), tree_weights(settings.tree_strength)
        targets, members = find_levels(self.tree, samples.inner)
        if not self.terms.levels:
            targets, members = targets[-1:], members[-1:, : self.tree.num_classes]
        self.levels, self.nodes = targets.numpy(), members.to(self.device)
        above = len(self.levels) - 1
        shares = [self.terms.levels / max(1, above) ** 0.5] * above + [1.0]
        self.level_weights = np.array(shares, dtype=np.float32)
        self.below = torch.from_numpy(classes_below(self.tree, samples.inner)).to(self.device)
        held_out = samples.split.calibrate
        self.left_out_by = np.full(len(self.rows), -1)
        self.left_out_by[held_out] = np.arange(len(held_out)) % MEMBERS
        self.is_few = len(self.rows) < _FEW * self.tree.num_classes
        self.has_cpcc = bool(self.terms.cpcc) and not self.tree.is_equidistant

    def fit(self) -> tuple[EnsembleNetwork, list[dict[str, float]]]:
        """Train; the number of epochs depends on the number of samples unless `max_iter` is given.

        Returns:
            The network, and the number, loss and held-out loss of every epoch (NaN if nothing is held out).
        """
        steps, epochs = self._plan()
        size = 2 if len(self.rows) >= _PAIRS else MEMBERS
        teams = [self.team(first, steps * epochs, size) for first in range(0, MEMBERS, size)]
        scored = int((self.targets[self.left_out_by >= 0] < self.tree.num_classes).sum())
        history: list[dict[str, float]] = []
        with (
            side_by_side(len(teams)) as each,
            Progress("", epochs, show=bool(self.settings.verbose), count=lambda *_: "") as bar,
        ):
            for epoch in range(1, epochs + 1):
                sums = each(lambda team: self._epoch(team, steps), teams)
                loss, held = np.sum(sums, axis=0) / (len(self.rows) * MEMBERS, scored or math.nan)
                if not math.isfinite(loss):
                    raise ValueError(f"training diverged: the loss is {loss}; learning_rate must be lower")
                history.append({"epoch": epoch, "loss": float(loss), "held_out": float(held)})
                bar.update(epoch, f"loss {loss:.4f}", f"held-out {held:.4f}", label=f"epoch {epoch}/{epochs}")
        return self._final([team.members for team in teams]), history

    def team(self, first: int, steps: int, count: int) -> Team:
        """Create `count` members, from index `first` on, with an optimizer for some number of steps."""
        seed = self.seed + first
        dropout, width = _DROPOUT_FEW if self.is_few else _DROPOUT, self.rows.shape[1]
        scale = max(_LEAST_SCALE, _SCALE_PER_LOG * math.log(self.tree.num_classes))
        size, rate = self.settings.hidden_size, self.settings.learning_rate
        members = Members(width, size, self.nodes.shape[1], dropout, scale, seed, count).to(self.device)
        most = _LEARNING_RATE * (2**0.5 if len(self.rows) >= _LARGE else 1.0)
        rate = most * min(1.0, _WIDTH / width) if rate == "auto" else float(rate)
        decay = self.settings.weight_decay
        decay = _WEIGHT_DECAY if decay == "auto" else float(decay)
        generator = torch.Generator(self.device).manual_seed(seed)
        steps_down = OneCycle(members, rate, decay, steps)
        return Team(members, first, steps_down, np.random.default_rng(self.seed), generator)

    def _plan(self) -> tuple[int, int]:
        """Steps per epoch, and number of epochs."""
        count, size, epochs = len(self.rows), self.settings.batch_size, self.settings.max_iter
        if size == "auto":
            size = min(_LARGE_BATCH if count >= _LARGE else _BATCH, max(32, count // 8))
        steps = max(1, count // max(2, int(size)))
        if epochs == "auto":
            seen = _SEEN_LARGE if count >= _LARGE else _SEEN
            epochs = min(_MOST_EPOCHS, max(_LEAST_EPOCHS, round(seen / count)))
            epochs = max(epochs, math.ceil(_STEPS / steps))
        return steps, int(epochs)

    def _epoch(self, team: Team, steps: int) -> tuple[float, float]:
        """Train an epoch; return the sum of the losses of members and samples, and of held-out losses."""
        team.members.train()
        total = torch.zeros((), device=self.device)
        order = draw_epoch(np.arange(len(self.rows)), self.samples.weights, team.rng)
        with torch.enable_grad():
            for part in np.array_split(order, steps):
                share = team.rng.beta(_MIXING, _MIXING)
                others = team.rng.permutation(len(part))
                loss = self.loss(team, part, others, max(share, 1 - share))
                team.steps.step(loss)
                total += loss.detach() * len(part)
        return float(total), self._held_out_loss(team)

    def loss(self, team: Team, chosen: Ints, others: Ints, share: float) -> Tensor:
        """Sum of the members' losses on some samples; CPCC is in every second step, with twice the weight.

        `others` are the positions in `chosen` of the samples that are mixed into each sample; `share` is the
        share of the sample itself.
        """
        inputs, parts = self._inputs(chosen), [(chosen, share), (chosen[others], 1 - share)]
        inputs = inputs.lerp(inputs.index_select(0, torch.from_numpy(others).to(self.device)), 1 - share)
        vectors = team.members(inputs, team.generator)
        loss = self._level_loss(team, vectors, parts)
        if self.has_cpcc and team.steps.done % _CPCC_STEPS == 0:
            left_out = np.logical_or.reduce([self.left_out_by[samples] >= 0 for samples, _ in parts])
            term = self._cpcc_loss(vectors, self.targets[chosen], ~left_out, team.rng)
            loss = loss + _CPCC_STEPS * self.terms.cpcc * term
        return loss

    def _level_loss(self, team: Team, vectors: Tensor, parts: list[tuple[Ints, float]]) -> Tensor:
        """Cross entropies of all levels; for labels that are inner nodes v, also -log(sum of p(c) below v).

        (members, B, size) -> (), summed over members. `parts` are the samples mixed in each row, with their
        shares; a member skips rows with a sample that it leaves out. Everything about labels is computed on
        the host, so that nothing here waits for a device.
        """
        classes, numbers = self.tree.num_classes, np.arange(team.first, team.first + len(vectors))[:, None]
        used = np.logical_and.reduce([self.left_out_by[samples] != numbers for samples, _ in parts])
        codes = np.stack([self.targets[samples] for samples, _ in parts])
        targets = self.levels[:, codes].transpose(1, 2, 0)
        partly = codes >= classes
        # (parts, 1, B, levels), whether the label determines the node of a level; at the last level all are
        # used.
        known = targets[:, None] >= 0
        known[..., -1] = True
        shares = np.array([share for _, share in parts], dtype=np.float32)[:, None, None, None]
        shares = shares * known * used[:, :, None]
        shares *= self.level_weights / np.maximum(shares.sum((0, 2)), 1e-12)[:, None]
        own = shares.copy()
        own[..., -1] *= ~partly[:, None]
        weights, own, at = (
            torch.from_numpy(values).to(self.device)
            for values in (shares.sum(0), np.concatenate(own, axis=2), np.concatenate(targets, axis=1))
        )
        at, rows = at.clamp(min=0).expand(len(vectors), -1, -1), team.members.rows()
        loss: Tensor = LevelLoss.apply(vectors, rows, self.nodes, weights, at, own)  # type: ignore[no-untyped-call]
        for part in np.flatnonzero(partly.any(1)):
            few = np.flatnonzero(partly[part])
            below = self.below[torch.from_numpy(codes[part, few] - classes).to(self.device)]
            logits = torch.bmm(vectors[:, torch.from_numpy(few).to(self.device)], rows[:, :classes].mT)
            share = torch.from_numpy(shares[part][:, few, -1]).to(self.device)
            loss = loss - (share * (logits.exp() * below).sum(2).log()).sum()
        return loss

    def _inputs(self, chosen: Ints) -> Tensor:
        return self.samples.inputs(chosen, self.device)

    def _cpcc_loss(
        self, vectors: Tensor, labels: Ints, seen: NDArray[np.bool_], rng: np.random.Generator
    ) -> Tensor:
        """1 - CPCC of the class means of a batch, summed over members; 0 where it is undefined.

        `seen` marks the rows that no member leaves out.
        """
        used = np.flatnonzero((labels < self.tree.num_classes) & seen)
        classes = np.unique(labels[used])
        if len(classes) > _COMPARED:
            classes = np.sort(rng.choice(classes, _COMPARED, replace=False))
            used = used[np.isin(labels[used], classes)]
        _, place, counts = np.unique(labels[used], return_inverse=True, return_counts=True)
        distances = self.tree.condensed(classes)
        if len(distances) < 2 or distances.max() == distances.min():
            return vectors.new_zeros(())
        shares = np.zeros((len(classes), len(labels)), dtype=np.float32)
        shares[place, used] = 1 / counts[place]
        # Members are concatenated, so that this is one product of two matrices.
        row = vectors.transpose(0, 1).flatten(1)
        means = (torch.from_numpy(shares).to(row) @ row).view(len(classes), len(vectors), -1).transpose(0, 1)
        squares = means.square().sum(2)
        squares = squares[:, :, None] + squares[:, None] - 2 * torch.bmm(means, means.transpose(1, 2))
        pairs = np.triu_indices(len(classes), 1)
        places = torch.from_numpy(np.ravel_multi_index(pairs, squares.shape[1:])).to(self.device)
        # The clamp bounds the gradient of the square root where two means are equal.
        rho = squares.flatten(1).index_select(1, places).clamp(min=1e-6).sqrt()
        return correlation(rho, -unit_vector(torch.from_numpy(distances)), 1.0, 1.0)[0].sum()

    def _held_out_loss(self, team: Team) -> float:
        """Sum of the cross entropies of samples that a member of the team has left out, by that member."""
        classes, members = self.tree.num_classes, team.members.eval()
        member = self.left_out_by - team.first
        chosen = np.flatnonzero((member >= 0) & (member < members.count) & (self.targets < classes))
        total = 0.0
        with torch.no_grad():
            for part in blocks(len(chosen), self.rows.shape[1] + members.count * (members.size + classes)):
                at = chosen[part]
                logits = members.logits(members(self._inputs(at)), classes)
                own = logits[member[at], np.arange(len(at))]
                labels = torch.from_numpy(self.targets[at]).to(self.device)
                total += float(cross_entropy(own, labels, reduction="sum"))
        return total

    def _final(self, teams: Sequence[Members]) -> EnsembleNetwork:
        """Build the network, with the mean and main directions of the training samples' unit vectors."""
        width = MEMBERS * teams[0].size
        moments, total = torch.zeros(width, width, dtype=torch.float64), torch.zeros(width).double()
        prototypes = torch.cat([members.eval().unit_prototypes() for members in teams]).detach()
        sums = torch.zeros_like(prototypes[:, : self.tree.num_classes])
        with torch.no_grad():
            for part in blocks(len(self.rows), self.rows.shape[1] + 2 * width):
                chosen = np.arange(part.start, part.stop)
                inputs = self._inputs(chosen)
                vectors = torch.cat([members(inputs) for members in teams])
                row = vectors.transpose(0, 1).reshape(-1, width)
                moments += (row.T @ row).double().cpu()
                total += row.sum(0).double().cpu()
                self._add_to_classes(sums, vectors, chosen)
        mean = total / len(self.rows)
        moments -= torch.outer(total, mean)
        most = max(_COMPONENTS, min(self.tree.num_classes, self.rows.shape[1]))
        outputs = self.settings.n_components or min(most, width)
        directions = main_directions(moments, outputs).float()
        rows = self._class_rows(prototypes, sums) * (teams[0].scale / SCALE)
        return final_ensemble(teams, rows, mean.float(), directions)

    def held_out_answers(self, network: EnsembleNetwork) -> tuple[Neighbors | None, Tensor]:
        """Neighbors, if they help, and probabilities (m, C) of the left-out samples that have a class.

        Neighbors are not used with few samples, where predictions use class means already, nor with sample
        weights, which they do not support.
        """
        helpful = not self.is_few and self.samples.weights is None
        return held_out_answers(network, self.samples, self.left_out_by, use_neighbors=helpful)

    def _add_to_classes(self, sums: Tensor, vectors: Tensor, chosen: Ints) -> None:
        """Add unit vectors to the sums of their classes, except for members that leave the sample out."""
        known = np.flatnonzero(self.targets[chosen] < self.tree.num_classes)
        labels, at = (torch.from_numpy(each).to(self.device) for each in (self.targets[chosen[known]], known))
        used = self.left_out_by[chosen[known]] != np.arange(MEMBERS)[:, None]
        sums.index_add_(1, labels, vectors[:, at] * torch.from_numpy(used).to(vectors)[:, :, None])

    def _class_rows(self, prototypes: Tensor, sums: Tensor) -> Tensor:
        """Weights of the final head, from the prototypes of each member and its class sums of unit vectors.

        (members, nodes, size), (members, C, size) -> (members, C, size). A class without samples has no mean:
        its prototype is used alone.
        """
        above, own = self.levels[:-1, : self.tree.num_classes], prototypes[:, : self.tree.num_classes]
        if self.is_few:
            return (own + torch.where(sums.any(2, keepdim=True), normalize(sums, dim=2), own)) / 2
        if len(above) > 1:
            share = self.terms.levels * (1 - 1 / len(above))
            return (own + share * prototypes[:, torch.from_numpy(above)].mean(1)) / (1 + share / 2)
        return own


@contextmanager
def side_by_side(count: int) -> Iterator[Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]]:
    """A `map` that runs up to `count` tasks at a time, in at most as many threads as torch has.

    torch's threads are divided between the tasks; their number is restored afterwards.

    Example:
        >>> with side_by_side(2) as each:
        ...     each(abs, [-1, 2])
        [1, 2]
    """
    threads = torch.get_num_threads()
    workers = min(count, threads)
    if workers == 1:
        yield lambda task, items: [task(item) for item in items]
        return
    share = threads // workers
    try:
        with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(share,)) as pool:
            yield lambda task, items: list(pool.map(task, items))
    finally:
        torch.set_num_threads(threads)
