"""How the default trains: cross entropy at every level of the tree, and CPCC of unit vectors.

With s_v the logit of node v of the tree, p_l(v) = exp(s_v) / sum of exp(s_u) over the nodes u of level l, and
m_c the mean of a member's unit vectors of class c in the batch, each member has

    loss = -log p_classes(y) - a / sqrt(L) sum_l log p_l(y_l) + b (1 - CPCC(|m_c - m_d|, t_cd))

where l are the L levels above the classes, and t_cd is the distance of two classes in the tree;
`tree_strength` sets a and b. A node of several levels, such as a class high up in the tree, is the same in
all of them. Inputs are mixed (mixup: Zhang et al., 2018, https://arxiv.org/abs/1710.09412): an input is
q x + (1 - q) x' with another sample x' of the batch, and the cross entropies are q times those of y and 1 - q
times those of y'; q is max(r, 1 - r) with one r from Beta(0.2, 0.2) for a batch. Answers listen to all
levels: then the logit of class c is (s_c + k mean_l s_{c_l}) / (1 + k / 2), with k = a (1 - 1 / L) and c_l
the ancestor of c at level l. With few samples it is (s_c + s cos(z, m_c)) / 2 instead, m_c over all samples
of the class. All samples train: of those that calibrate decisions each is left out by one member only, which
then scores it.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

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
from cophenet.estimator.scaling import Scale, blocks
from cophenet.estimator.tree_strength import TreeWeights
from cophenet.estimator.weights import draw_epoch
from cophenet.tree import Hierarchy

if TYPE_CHECKING:
    from cophenet.estimator.embedder import HierarchicalEmbedder

__all__ = ["EnsembleTrainer", "Levels", "Mixed", "find_levels"]

Ints = NDArray[np.int64]

# Of vectors of up to so many numbers; a step of AdamW moves a hidden value by at most the rate times these.
_LEARNING_RATE, _WIDTH = 2e-3, 384
_WEIGHT_DECAY = 1e-2
# Epochs for few and for many samples, samples in all between the two, and steps at least.
_MOST_EPOCHS, _LEAST_EPOCHS, _SEEN, _STEPS = 20, 6, 280_000, 300
_BATCH, _LARGE_BATCH, _LARGE = 256, 512, 40_000
# Classes of a batch whose distances are compared with the tree.
_COMPARED = 64
# CPCC is part of one step of so many, with so many times the weight.
_CPCC_STEPS = 2
# Shares of mixed samples come from the beta distribution with this parameter twice.
_MIXING = 0.2
# Below so many samples per class on average, more is left out at random, and class means have a say.
_FEW = 15
_DROPOUT, _DROPOUT_FEW = 0.3, 0.5
# Cosines of many classes need a larger scale, for a class to outweigh the sum of all others.
_LEAST_SCALE, _SCALE_PER_LOG = 16.0, 4.5
# As many directions as classes keep what tells these apart, and lose noise; so few would lose their groups.
_COMPONENTS = 64


class Levels(NamedTuple):
    """Levels of a tree, those left out that tell no more apart than the one above; the classes are the last.

    Attributes:
        targets: (levels, C + m) the node that a sample of each label is at each level, -1 where an inner node
            that is a label says nothing. Nodes are the classes, and then the others in the order of levels.
        members: (levels, nodes) 1 for the nodes of each level.
    """

    targets: Tensor
    members: Tensor


def find_levels(tree: Hierarchy, inner: Ints) -> Levels:
    """The levels of a tree with C classes.

    Args:
        tree: The tree.
        inner: (m,) inner nodes that are labels.

    Example:
        >>> tree = Hierarchy.from_paths(["pet/cat", "pet/dog", "bus"], sep="/")
        >>> find_levels(tree, np.array([tree.node("pet")]))
        Levels(targets=tensor([[ 3,  3,  2,  3],
                [ 0,  1,  2, -1]]), members=tensor([[0., 0., 1., 1.],
                [1., 1., 1., 0.]]))
    """
    below, classes = classes_below(tree, inner), np.arange(tree.num_classes)
    # Levels are parts of one another: nodes with the same first class and as many classes are the same.
    nodes = {(c, 1): c for c in classes.tolist()}
    targets, own, before = [], [], 1
    for depth in range(1, tree.height + 1):
        place = tree.cut(depth)[1]
        count = int(place.max()) + 1
        if count == before:
            continue
        first = np.full(count, tree.num_classes)
        np.minimum.at(first, place, classes)
        keys = zip(first.tolist(), np.bincount(place).tolist(), strict=True)
        node = np.array([nodes.setdefault(key, len(nodes)) for key in keys])
        low = np.where(below, place, count).min(1, initial=count)
        high = np.where(below, place, -1).max(1, initial=-1)
        targets.append(np.concatenate((node[place], np.where(low == high, node[low % count], -1))))
        own.append(node)
        before = count
    members = torch.zeros(len(own), len(nodes))
    for level, node in enumerate(own):
        members[level, node] = 1
    return Levels(torch.from_numpy(np.stack(targets).astype(np.int64)), members)


class Mixed(NamedTuple):
    """Which sample of a batch is mixed into each (B,), and the share of the samples themselves."""

    order: Ints
    share: float


@dataclass
class EnsembleTrainer:
    """Trains members on rows.

    Attributes:
        rows: (n, d) as given, also a memory map: only batches of it are read.
        targets: (n,) classes, or C + position in `inner`.
        inner: Inner nodes of the tree that are labels.
        tree: The tree.
        scale: Standardises rows.
        weights: Of the terms that know the tree.
        held_out: (m,) samples that calibrate, each of them left out by one member.
        seed: Decides all that is random.
        device: Where to train.
        sample_weights: (n,) what each sample counts; None for equally much.
    """

    rows: NDArray[Any]
    targets: Ints
    inner: Ints
    tree: Hierarchy
    scale: Scale
    weights: TreeWeights
    held_out: Ints
    seed: int
    device: torch.device
    sample_weights: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        """Tables of the labels, and who leaves out what."""
        targets, members = find_levels(self.tree, self.inner)
        if not self.weights.levels:
            targets, members = targets[-1:], members[-1:, : self.tree.num_classes]
        self.levels = Levels(targets.to(self.device), members.to(self.device))
        above = len(targets) - 1
        shares = torch.tensor([self.weights.levels / max(1, above) ** 0.5] * above + [1.0])
        self.level_weights = shares.to(self.device)
        self.below = torch.from_numpy(classes_below(self.tree, self.inner)).to(self.device)
        self.left_out_by = np.full(len(self.rows), -1)
        self.left_out_by[self.held_out] = np.arange(len(self.held_out)) % MEMBERS
        self.generator = torch.Generator(self.device).manual_seed(self.seed)
        self.rng = np.random.default_rng(self.seed)
        self.steps = itertools.count()
        self.is_few = len(self.rows) < _FEW * self.tree.num_classes
        self.has_cpcc = bool(self.weights.cpcc) and not self.tree.is_equidistant

    def fit(self, settings: HierarchicalEmbedder) -> tuple[EnsembleNetwork, list[dict[str, float]]]:
        """Train for a number of epochs that the number of samples decides, unless `max_iter` is given.

        Returns:
            The network; and the number, loss and held-out loss of every epoch (NaN if nothing is held out).
        """
        steps, epochs = self._plan(settings)
        dropout, hidden = _DROPOUT_FEW if self.is_few else _DROPOUT, settings.hidden_size
        nodes = self.levels.members.shape[1]
        scale = max(_LEAST_SCALE, _SCALE_PER_LOG * math.log(self.tree.num_classes))
        members = Members(self.rows.shape[1], hidden, nodes, dropout, scale, self.seed).to(self.device)
        optimizer, schedule = _optimizer(members, settings, epochs * steps)
        history: list[dict[str, float]] = []
        with torch.enable_grad(), Progress("", epochs, show=bool(settings.verbose), count=_nothing) as bar:
            for epoch in range(1, epochs + 1):
                loss = self._epoch(members, optimizer, schedule, steps)
                held = self._held_out_loss(members)
                history.append({"epoch": epoch, "loss": loss, "held_out": held})
                bar.update(epoch, f"loss {loss:.4f}", f"held-out {held:.4f}", label=f"epoch {epoch}/{epochs}")
        return self._final(members, settings), history

    def _plan(self, settings: HierarchicalEmbedder) -> tuple[int, int]:
        """Steps of an epoch, and epochs."""
        count, size, epochs = len(self.rows), settings.batch_size, settings.max_iter
        if size == "auto":
            size = min(_LARGE_BATCH if count >= _LARGE else _BATCH, max(32, count // 8))
        steps = max(1, count // max(2, int(size)))
        if epochs == "auto":
            epochs = min(_MOST_EPOCHS, max(_LEAST_EPOCHS, round(_SEEN / count)))
            epochs = max(epochs, math.ceil(_STEPS / steps))
        return steps, int(epochs)

    def _epoch(self, members: Members, optimizer: Any, schedule: Any, steps: int) -> float:
        members.train()
        total = torch.zeros((), device=self.device)
        order = draw_epoch(np.arange(len(self.rows)), self.sample_weights, self.rng)
        for part in np.array_split(order, steps):
            share = self.rng.beta(_MIXING, _MIXING)
            mixed = Mixed(self.rng.permutation(len(part)), max(share, 1 - share))
            loss = self.loss(members, part, next(self.steps), mixed)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
            total += loss.detach() * (len(part) / MEMBERS)
        mean = float(total) / len(self.rows)
        if not math.isfinite(mean):
            raise ValueError(f"training diverged: the loss is {mean}; learning_rate must be lower")
        return mean

    def loss(self, members: Members, chosen: Ints, step: int = 0, mixed: Mixed | None = None) -> Tensor:
        """The sum of the members' losses on some samples; of two steps one has CPCC, with both's weight."""
        inputs, parts = self._inputs(chosen), [(chosen, 1.0)]
        if mixed is not None:
            inputs = inputs.lerp(inputs[torch.from_numpy(mixed.order).to(self.device)], 1 - mixed.share)
            parts = [(chosen, mixed.share), (chosen[mixed.order], 1 - mixed.share)]
        vectors = members(inputs, self.generator)
        loss = self._level_loss(members.logits(vectors), parts)
        if self.has_cpcc and step % _CPCC_STEPS == 0:
            left_out = np.logical_or.reduce([self.left_out_by[samples] >= 0 for samples, _ in parts])
            term = self._cpcc_loss(vectors, self.targets[chosen], ~left_out)
            loss = loss + _CPCC_STEPS * self.weights.cpcc * term
        return loss

    def _level_loss(self, logits: Tensor, parts: list[tuple[Ints, float]]) -> Tensor:
        """Cross entropies of all levels; a sample known by an inner node v pays -log(sum of p(c) below v).

        (members, B, nodes) -> (), summed over members. `parts` are the samples mixed in each row, with their
        shares; a member uses no row with a sample that it leaves out. What must be known of labels is known
        on the host: nothing here waits for a device.
        """
        # Logits are at most their scale, so that their exponentials can be added as they are.
        exponentials = logits.exp()
        totals = (exponentials @ self.levels.members.T).log()
        paid, known, used = totals.new_zeros(()), totals.new_zeros(()), totals.new_ones(())
        for samples, share in parts:
            own, is_known = self._true_logits(logits, exponentials, self.targets[samples])
            paid = paid + share * is_known * (totals - own)
            known, used = known + share * is_known, used * self._weights(samples)[:, :, None]
        means = (paid * used).sum(1) / (known * used).sum(1).clamp(min=1e-12)
        return (means * self.level_weights).sum()

    def _true_logits(self, logits: Tensor, exponentials: Tensor, codes: Ints) -> tuple[Tensor, Tensor]:
        """Logits of the true nodes (members, B, levels), and whether they are known (B, levels)."""
        classes, labels = self.tree.num_classes, torch.from_numpy(codes).to(self.device)
        targets = self.levels.targets[:, labels].T
        own, known = logits.gather(2, targets.clamp(min=0).expand(len(logits), -1, -1)), targets >= 0
        partly = np.flatnonzero(codes >= classes)
        if len(partly):
            at = torch.from_numpy(partly).to(self.device)
            inside = exponentials[:, at, :classes] * self.below[labels[at] - classes]
            own[:, at, -1] = inside.sum(2).log()
            known[:, -1] = True
        return own, known

    def _inputs(self, chosen: Ints) -> Tensor:
        return self.scale(self.rows[chosen], torch.float32).to(self.device)

    def _weights(self, chosen: Ints) -> Tensor:
        """What each sample counts for each member, (members, B)."""
        used = self.left_out_by[chosen] != np.arange(MEMBERS)[:, None]
        return torch.from_numpy(used).to(self.device, torch.float32)

    def _cpcc_loss(self, vectors: Tensor, labels: Ints, seen: NDArray[np.bool_]) -> Tensor:
        """1 - CPCC of the class means of a batch, summed over members; 0 where it is undefined.

        `seen` are the rows that no member leaves out.
        """
        used = np.flatnonzero((labels < self.tree.num_classes) & seen)
        classes = np.unique(labels[used])
        if len(classes) > _COMPARED:
            classes = np.sort(self.rng.choice(classes, _COMPARED, replace=False))
            used = used[np.isin(labels[used], classes)]
        _, place, counts = np.unique(labels[used], return_inverse=True, return_counts=True)
        distances = self.tree.condensed(classes)
        if len(distances) < 2 or distances.max() == distances.min():
            return vectors.new_zeros(())
        shares = np.zeros((len(classes), len(labels)), dtype=np.float32)
        shares[place, used] = 1 / counts[place]
        # Members lie side by side in memory, so that this is one product of two matrices.
        row = vectors.transpose(0, 1).flatten(1)
        means = (torch.from_numpy(shares).to(row) @ row).view(len(classes), MEMBERS, -1).transpose(0, 1)
        squares = means.square().sum(2)
        squares = squares[:, :, None] + squares[:, None] - 2 * torch.bmm(means, means.transpose(1, 2))
        pairs = np.triu_indices(len(classes), 1)
        places = torch.from_numpy(np.ravel_multi_index(pairs, squares.shape[1:])).to(self.device)
        # The root has a bounded gradient where two means are the same.
        rho = squares.flatten(1).index_select(1, places).clamp(min=1e-6).sqrt()
        return correlation(rho, -unit_vector(torch.from_numpy(distances)), 1.0, 1.0)[0].sum()

    def _held_out_loss(self, members: Members) -> float:
        """Mean cross entropy of the samples that one member has left out, by that member."""
        classes = self.tree.num_classes
        chosen = self.held_out[self.targets[self.held_out] < classes]
        if not len(chosen):
            return math.nan
        members.eval()
        total = 0.0
        with torch.no_grad():
            for part in blocks(len(chosen), self.rows.shape[1] + MEMBERS * (members.size + classes)):
                at = chosen[part]
                logits = members.logits(members(self._inputs(at)), classes)
                own = logits[self.left_out_by[at], np.arange(len(at))]
                labels = torch.from_numpy(self.targets[at]).to(self.device)
                total += float(cross_entropy(own, labels, reduction="sum"))
        return total / len(chosen)

    def _final(self, members: Members, settings: HierarchicalEmbedder) -> EnsembleNetwork:
        """The network, with the mean and main directions of the unit vectors of the training samples."""
        members.eval()
        width = MEMBERS * members.size
        moments, total = torch.zeros(width, width, dtype=torch.float64), torch.zeros(width).double()
        sums = torch.zeros_like(members.prototypes[:, : self.tree.num_classes])
        with torch.no_grad():
            for part in blocks(len(self.rows), self.rows.shape[1] + 2 * width):
                chosen = np.arange(part.start, part.stop)
                vectors = members(self._inputs(chosen))
                row = vectors.transpose(0, 1).reshape(-1, width)
                moments += (row.T @ row).double().cpu()
                total += row.sum(0).double().cpu()
                self._add_to_classes(sums, vectors, chosen)
        mean = total / len(self.rows)
        moments -= torch.outer(total, mean)
        most = max(_COMPONENTS, min(self.tree.num_classes, self.rows.shape[1]))
        outputs = settings.n_components or min(most, width)
        directions = main_directions(moments, outputs).float()
        return final_ensemble(members, self._class_rows(members, sums), mean.float(), directions)

    def _add_to_classes(self, sums: Tensor, vectors: Tensor, chosen: Ints) -> None:
        """Add unit vectors to the sums of their classes, but for members that have left them out."""
        known = np.flatnonzero(self.targets[chosen] < self.tree.num_classes)
        labels, at = (torch.from_numpy(each).to(self.device) for each in (self.targets[chosen[known]], known))
        used = self._weights(chosen[known])[:, :, None]
        sums.index_add_(1, labels, vectors[:, at] * used)

    def _class_rows(self, members: Members, sums: Tensor) -> Tensor:
        """Rows of the classes for `final_ensemble`, from trained prototypes and sums of unit vectors.

        (members, C, size) -> (members, C, size). A class without samples of its own has no mean.
        """
        rows, above = members.unit_prototypes(), self.levels.targets[:-1, : self.tree.num_classes]
        own = rows[:, : self.tree.num_classes]
        if self.is_few:
            own = (own + torch.where(sums.any(2, keepdim=True), normalize(sums, dim=2), own)) / 2
        elif len(above) > 1:
            share = self.weights.levels * (1 - 1 / len(above))
            own = (own + share * rows[:, above].mean(1)) / (1 + share / 2)
        return own * (members.scale / SCALE)


def _optimizer(members: Members, settings: HierarchicalEmbedder, steps: int) -> tuple[Any, Any]:
    """AdamW with one cycle of the learning rate; norms and biases do not decay."""
    rate, decay = settings.learning_rate, settings.weight_decay
    width = members.hidden.in_features
    rate = _LEARNING_RATE * min(1.0, _WIDTH / width) if rate == "auto" else float(rate)
    decay = _WEIGHT_DECAY if decay == "auto" else float(decay)
    matrices = [parameter for parameter in members.parameters() if parameter.ndim > 1]
    others = [parameter for parameter in members.parameters() if parameter.ndim == 1]
    groups = [{"params": matrices, "weight_decay": decay}, {"params": others, "weight_decay": 0.0}]
    # In one pass over the memory, where torch can.
    fused = members.hidden.weight.device.type in ("cpu", "cuda")
    optimizer = torch.optim.AdamW(groups, lr=rate, fused=fused)
    return optimizer, torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps)


def _nothing(*_: object) -> str:
    return ""
