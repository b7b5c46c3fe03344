"""Base class of training objectives, their input, and their specification of heads and phases."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cophenet.cpcc.batch_plan import LateCheck
from cophenet.cpcc.exchange import DTYPES, Gather, Shards, gather_rows, meet, process_count
from cophenet.cpcc.module_setup import Setup, setup_of
from cophenet.transport.batch import without_autocast
from cophenet.transport.grouping import check_batch
from cophenet.tree import Hierarchy

if TYPE_CHECKING:
    from cophenet.cpcc.loss import CPCCLoss

__all__ = ["HeadSpec", "Objective", "Phase", "StepOutput", "level_heads", "phase_lengths"]

_HALF = (torch.float16, torch.bfloat16)


@dataclass(frozen=True, eq=False)
class StepOutput:
    """The output of a forward pass, input of an objective.

    Attributes:
        features: (B, d) floating point, the input of the heads.
        logits: Head name -> (B, outputs of the head); only the heads of the phase are needed.
        labels: (B,) integers, positions in the tree's classes. If they are on the host while features are on
            an accelerator, nothing waits for the device.
        heads: Head name -> module; used only by objectives that read classifier weights.
        phase: Position in the objective's `phases`.
        shards: Sizes and flags of all processes, if features and labels are those of all of them.
        host_labels: The labels on the host, if `labels` is a copy of them on the accelerator.
    """

    features: Tensor
    logits: Mapping[str, Tensor]
    labels: Tensor
    heads: Mapping[str, nn.Module] = field(default_factory=dict)
    phase: int = 0
    shards: Shards | None = None
    host_labels: Tensor | None = None


@dataclass(frozen=True)
class HeadSpec:
    """A linear head that an objective needs.

    Attributes:
        name: Name of its level in the tree.
        level: Depth of the level whose nodes are its outputs; a class above the level is its own node.
        num_outputs: Number of these nodes; they are in the order of `tree.cut(level)`.
        normalize_rows: Whether its logits are computed with weight rows of norm one.
        scale: If given, its logits are the cosines of features and weight rows times this, without a bias.
    """

    name: str
    level: int
    num_outputs: int
    normalize_rows: bool = False
    scale: float | None = None


@dataclass(frozen=True)
class Phase:
    """One of the consecutive phases of a training.

    Attributes:
        name: Name in logs.
        heads: Names of the heads that are trained.
        epochs: Its length relative to the other phases; the phases share the epochs of a training.
    """

    name: str
    heads: tuple[str, ...]
    epochs: int = 1


def phase_lengths(phases: Sequence[Phase], epochs: int) -> tuple[int, ...]:
    """Divide the epochs of a training between phases: in proportion, rounded, at least one for each.

    Raises:
        ValueError: If there are fewer epochs than phases.

    Example:
        >>> phase_lengths([Phase("coarse", ("coarse",), 50), Phase("fine", ("fine",), 200)], 20)
        (4, 16)
    """
    if epochs < len(phases):
        names = ", ".join(phase.name for phase in phases)
        raise ValueError(f"epochs must be at least {len(phases)}, one for each phase ({names}), got {epochs}")
    shares = np.cumsum([phase.epochs for phase in phases])
    ends = np.floor(epochs * shares / shares[-1] + 0.5).astype(int)
    places = np.arange(1, len(phases) + 1)
    ends = np.maximum.accumulate(np.maximum(ends, places) - places) + places
    ends = np.minimum(ends, epochs - places[::-1] + 1)
    return tuple(np.diff(ends, prepend=0).tolist())


def level_heads(
    tree: Hierarchy, *, normalize_rows: bool = False, scale: float | None = None
) -> tuple[HeadSpec, ...]:
    """One head per level, the coarsest first.

    Example:
        >>> tree = Hierarchy.from_paths([("pet", "cat"), ("pet", "dog"), ("car", "bus")])
        >>> [(head.name, head.num_outputs) for head in level_heads(tree)]
        [('level1', 2), ('level2', 3)]
    """
    return tuple(
        HeadSpec(name, depth, tree.cut(depth)[0].num_classes, normalize_rows, scale)
        for depth, name in enumerate(tree.level_names, start=1)
    )


class Objective(nn.Module, ABC):
    """A training loss as named terms whose sum is the loss.

    Subclasses take their options as typed constructor arguments after `tree`, and implement `terms`, and
    `batch_terms` if they compare samples with each other. Before these are called, batches are checked and
    half precision is converted to float32.

    On several processes of torch.distributed the loss is that of the whole batch of all processes: averaged
    over processes, as in DistributedDataParallel, gradients and terms equal those of one process with the
    whole batch, even if the processes have different numbers of samples, or one has none.

    Args:
        tree: The label tree.

    Attributes:
        name: Its registered name; with CPCC added, a combination of both names.
        order_dependent: Whether the order of samples within a class changes the value.
        tree: The label tree.
        heads: The heads to build: one for the classes, unless a subclass sets others.
        gather: "all"; or "none" for the loss of each process's own batch, without any exchange.
        generator: Random generator of its terms, if they draw random numbers; the same on all processes.
        default_cpcc: Arguments of `CPCCLoss` with which `create_objective` adds CPCC by default; empty to add
            none.
        level_options: Options that name a level of the tree, which can only be checked with the tree of the
            data.
        compares_features: Whether NaN and inf must raise an error, because comparisons would hide them.
        compares_samples: Whether it has `batch_terms`; true for every subclass that defines them.
    """

    name: str
    order_dependent: bool = False
    default_cpcc: ClassVar[Mapping[str, Any]] = {}
    level_options: tuple[str, ...] = ("level",)
    compares_features: bool = False
    compares_samples: bool = False
    gather: Gather = "all"
    generator: torch.Generator | None = None
    _setup: Setup | None = None  # set at the first exchange

    def __init_subclass__(cls) -> None:
        """Detect whether the class has terms that compare samples: only then are samples gathered."""
        super().__init_subclass__()
        cls.compares_samples = cls.compares_samples or "batch_terms" in vars(cls)

    def __init__(self, tree: Hierarchy) -> None:
        super().__init__()
        if not isinstance(tree, Hierarchy):
            raise ValueError(f"tree must be a cophenet.Hierarchy, got {type(tree).__name__}")
        self.tree = tree
        self._late = LateCheck()
        self.heads: tuple[HeadSpec, ...] = (HeadSpec(self.finest, tree.height, tree.num_classes),)

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The phases of training, in order: one that trains all heads, unless a subclass has others."""
        return (Phase("train", tuple(head.name for head in self.heads)),)

    @property
    def cpcc(self) -> CPCCLoss | None:
        """The CPCC that was added to the objective; None if there is none."""
        return None

    def name_with(self, distance: str) -> str:
        """Name of the objective with CPCC of a distance added."""
        return f"{self.name}+{distance}"

    @property
    def finest(self) -> str:
        """Name of the head of the classes."""
        return self.tree.level_names[-1]

    def check_levels(self, reason: str) -> None:
        """Raise if the tree has no level above its classes."""
        if self.tree.height < 2:
            raise ValueError(f"objective {self.name!r} cannot use a tree of one level: {reason}")

    def register_exact_buffer(self, name: str, values: NDArray[np.float64]) -> None:
        """Register float64 values that `.float()` and `.half()` do not change.

        They are stored as a buffer of integers with the same bits, which casts of precision ignore.
        """
        bits = torch.from_numpy(np.ascontiguousarray(values, dtype=np.float64)).view(torch.int64)
        self.register_buffer(name, bits, persistent=False)

    def exact_buffer(self, name: str) -> Tensor:
        """The float64 values given to `register_exact_buffer`, on the module's device."""
        return self.get_buffer(name).view(torch.float64)

    @abstractmethod
    def terms(self, step: StepOutput) -> dict[str, Tensor]:
        """The loss terms of a checked batch that are means over its samples, or use weights only.

        Called with at least float32, outside autocast.
        """

    def batch_terms(self, step: StepOutput) -> dict[str, Tensor]:
        """The loss terms that compare samples with each other: none, unless a subclass has some.

        On several processes `step` holds the features and labels of all of them, and no logits.
        """
        _ = step
        return {}

    def check_heads(self, step: StepOutput) -> None:
        """Raise if heads are unusable, before processes exchange anything; a no-op unless overridden.

        Raises:
            ValueError: If a module is missing or its weights have a wrong shape.
        """
        _ = step

    def forward(self, step: StepOutput) -> dict[str, Tensor]:
        """The loss terms of a batch, scalars whose sum is the loss.

        Raises:
            ValueError: If the batch is empty, a shape, type or label is wrong, or a head is missing; raised
                on all processes.
        """
        if process_count(self.gather) > 1:
            return self._of_all_processes(step)
        self._check(step)
        if len(step.labels) == 0:
            raise ValueError("the batch is empty; a loss needs at least one sample")
        flags = self._flags(step)
        if flags is not None:
            # The only read from the device: a label out of range would otherwise silently select a wrong row.
            low, high, infinite = flags.cpu().numpy().tolist()
            self._check_flags(low, high, infinite, len(step.labels))
        with without_autocast(step.features):
            step = _full_precision(step)
            compared = self.batch_terms(step)  # first, because CPCC checks the labels
            return {**self.terms(step), **compared}

    def _of_all_processes(self, step: StepOutput) -> dict[str, Tensor]:
        problem, flags, terms = None, None, None
        try:
            self._setup = self._setup or setup_of(self)
            self._check(step)
            flags = self._flags(step)
            if not self._draws_in_terms:
                terms = self._own_terms(step)  # before the exchange, which reports errors to all processes
        except Exception as error:
            problem = error
        given: Any = getattr(step, "features", None)
        shards = meet(given, problem=problem, flags=flags, generators=self._generators, setup=self._setup)
        lowest, highest, infinite = shards.flags.T
        self._check_flags(lowest.min(), highest.max(), infinite.sum(), shards.sizes.sum())
        with without_autocast(step.features):
            compared: dict[str, Tensor] = {}
            if self.compares_samples:
                whole, labels, _ = gather_rows(shards, step.features, step.labels)
                all_rows = replace(step, features=whole, labels=labels, logits={}, shards=shards)
                compared = self.batch_terms(_full_precision(all_rows))
        terms = self._own_terms(step) if terms is None else terms
        if shards.scale != 1:
            terms = {name: term * shards.scale for name, term in terms.items()}
        return {**terms, **compared}

    @property
    def _generators(self) -> list[torch.Generator | None]:
        """The generators that must be the same on all processes."""
        return [self.generator]

    @property
    def _draws_in_terms(self) -> bool:
        """Whether `terms` may use the generator, which is equal on all processes only after an exchange."""
        return self.generator is not None

    def _own_terms(self, step: StepOutput) -> dict[str, Tensor]:
        """The terms of this process's samples, whose labels may not have been checked yet."""
        with without_autocast(step.features):
            own = _full_precision(step if len(step.labels) else _one_row(step))
            # A label out of range would crash a device before all processes can raise an error.
            return self.terms(replace(own, labels=own.labels.clamp(0, self.tree.num_classes - 1)))

    def _check(self, step: StepOutput) -> None:
        if not isinstance(step, StepOutput):
            raise ValueError(f"step must be a StepOutput, got {type(step).__name__}")
        features, labels = step.features, step.labels
        _check_tensor("features", features)
        _check_tensor("labels", labels)
        check_batch(features, labels, host_labels=True)
        if features.dtype not in DTYPES:
            raise ValueError(f"features must be one of {', '.join(map(str, DTYPES))}, got {features.dtype}")
        self._check_logits(step)
        self.check_heads(step)
        self._late.next_step()

    def _flags(self, step: StepOutput) -> Tensor | None:
        """(3,) smallest and largest label, and number of non-finite samples, on the device of the labels."""
        labels = step.labels.long()
        if len(labels) == 0:
            return None
        bad = torch.zeros_like(labels[0])
        if self.compares_features and labels.device != step.features.device:
            self._late.note(torch.linalg.vector_norm(step.features.detach(), torch.inf))
        elif self.compares_features:
            bad = (~torch.isfinite(step.features)).any(1).sum()
        return torch.stack((*labels.aminmax(), bad))

    def _check_flags(self, low: int, high: int, infinite: int, samples: int) -> None:
        if low < 0 or high >= self.tree.num_classes:
            wrong = low if low < 0 else high
            raise ValueError(
                f"labels must lie in 0..{self.tree.num_classes - 1}, the classes of the tree, got {wrong}"
            )
        if infinite:
            raise ValueError(f"features must be finite, got NaN or inf in {infinite} of {samples} samples")

    def _check_logits(self, step: StepOutput) -> None:
        if not isinstance(step.phase, int) or not 0 <= step.phase < len(self.phases):
            raise ValueError(f"phase must be from 0 to {len(self.phases) - 1}, got {step.phase!r}")
        if not isinstance(step.logits, Mapping):
            raise ValueError(f"logits must be tensors by head name, got {type(step.logits).__name__}")
        for name, values in step.logits.items():
            _check_tensor(f"logits of head {name!r}", values)
        phase = self.phases[step.phase]
        for head in self.heads:
            if head.name not in phase.heads:
                continue
            if head.name not in step.logits:
                has = ", ".join(step.logits) or "none"
                raise ValueError(f"logits must hold head {head.name!r} in phase {phase.name!r}, got {has}")
            logits, shape = step.logits[head.name], (len(step.labels), head.num_outputs)
            if logits.shape != shape or not logits.is_floating_point():
                given = f"{tuple(logits.shape)} {logits.dtype}"
                raise ValueError(f"logits of head {head.name!r} must be floats of shape {shape}, got {given}")


def _check_tensor(argument: str, value: object) -> None:
    if not isinstance(value, Tensor):
        raise ValueError(f"{argument} must be a torch tensor, got {type(value).__name__}")


def _full_precision(step: StepOutput) -> StepOutput:
    """Convert labels to int64 on the device of the features, and half precision to float32."""
    logits = {name: _raised(values) for name, values in step.logits.items()}
    features, given = _raised(step.features), step.labels.long()
    labels = given.to(features.device, non_blocking=True)
    host = None if labels is given else given
    return replace(step, features=features, labels=labels, logits=logits, host_labels=host)


def _raised(values: Tensor) -> Tensor:
    return values.float() if values.dtype in _HALF else values


def _one_row(step: StepOutput) -> StepOutput:
    """Replace an empty batch by one sample of zeros, so that means exist; attached, with gradient zero."""
    logits = {name: _zero_row(values) for name, values in step.logits.items()}
    return replace(step, features=_zero_row(step.features), labels=step.labels.new_zeros(1), logits=logits)


def _zero_row(values: Tensor) -> Tensor:
    return values.new_zeros(1, *values.shape[1:]) + values.sum()
