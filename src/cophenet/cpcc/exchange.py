"""Batches distributed over several processes: differentiable gathering, and sharing of pairs.

A batch statistic is that of the whole batch, wherever its samples are. Every process sends its rows, holds
the whole batch afterwards and returns the same loss; the gradient it returns is that of its own rows,
multiplied by the number of processes, because DistributedDataParallel divides by it. All exchanges happen in
the forward pass, in the same order everywhere, so that they never interleave with those of the backward pass.

An error of any kind in one process is sent to all with the next exchange, and all raise it, so that nobody
waits for a process that has stopped. The message names the first process with an error. Error messages,
shapes and labels are exchanged between hosts if the process group supports it ("cpu:gloo,cuda:nccl", torch's
default), so that no process waits for a device; otherwise ("nccl") through the devices. An error in the
arguments (`ValueError`) is a `ValueError` on all processes; for any other error, such as a device out of
memory, the other processes raise a `RuntimeError`. Errors after the last exchange are not sent to others.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NoReturn

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

from cophenet.cpcc.module_setup import Setup
from cophenet.transport.base import ClassDistance
from cophenet.transport.batch import ClassBatch
from cophenet.transport.class_layout import HostArrays
from cophenet.transport.ground import first_order

__all__ = [
    "DTYPES",
    "Gather",
    "Shards",
    "add_up",
    "add_up_with_errors",
    "check_same_setup",
    "gather_rows",
    "meet",
    "own_pairs",
    "process_count",
    "raise_errors",
    "share_of",
    "tell_all",
]

Gather = Literal["all", "none"]

# Supported dtypes of features; processes exchange a dtype as its index in this tuple.
DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
_FLAGS = 3


def process_count(gather: Gather = "all") -> int:
    """Number of processes that share a batch: 1 without a process group, or if nothing is to be gathered.

    Example:
        >>> process_count()
        1
    """
    if gather == "none" or not dist.is_available() or not dist.is_initialized():
        return 1
    return dist.get_world_size()


def share_of(costs: NDArray[np.int64], rank: int, count: int) -> slice:
    """The pairs that one of several processes computes: consecutive, with about equal cost per process.

    Args:
        costs: (P,) cost of each pair, at least 1, in any unit.
        rank: Rank of the process.
        count: Number of processes.

    Example:
        >>> [share_of(np.array([1, 1, 1, 3]), rank, 2) for rank in range(2)]
        [slice(0, 3, None), slice(3, 4, None)]
    """
    # A pair is assigned to the process whose part of the total cost contains its midpoint.
    middle = np.cumsum(costs) - costs / 2
    start, stop = np.searchsorted(middle, np.arange(rank, rank + 2) * (costs.sum() / count))
    return slice(int(start), int(stop))


def own_pairs(distance: ClassDistance, batch: ClassBatch) -> tuple[slice, Tensor | None, Exception | None]:
    """Compute the distances of this process's share of the pairs of a batch that all processes hold.

    Returns:
        The slice of pairs; their distances, None if there are no pairs or after an error; and the error,
        which is to be sent to all processes, or None.
    """
    m, n = batch.counts[batch.first], batch.counts[batch.second]
    costs = m * n if distance.pair_cost == "product" else m + n
    pairs = share_of(costs, dist.get_rank(), dist.get_world_size())
    first, second = batch.first[pairs], batch.second[pairs]
    copy = None if batch.copy is None else replace(batch.copy, first=first, second=second)
    try:
        if len(first):
            part = replace(batch, first=first, second=second, copy=copy, ahead=HostArrays())
            return pairs, distance(part), None
        distance.skip(batch)
    except Exception as error:
        return pairs, None, error
    return pairs, None, None


@dataclass(frozen=True, eq=False)
class Shards:
    """Metadata of a batch that is distributed over processes, known to all of them.

    Attributes:
        sizes: (n,) number of samples on each process.
        differentiable: Whether any process needs the gradient of its features.
        flags: (n, 3) properties of the values on each process: the smallest and the largest label, and the
            number of samples that are not finite.
    """

    sizes: NDArray[np.int64]
    differentiable: bool
    flags: NDArray[np.int64]

    @property
    def scale(self) -> float:
        """Factor for the mean over this process's samples; the average over processes is then that of all."""
        return float(self.sizes[dist.get_rank()]) * len(self.sizes) / float(self.sizes.sum())


def meet(
    features: Tensor,
    *,
    problem: Exception | None = None,
    weighted: bool = False,
    flags: Tensor | None = None,
    generators: Sequence[torch.Generator | None] = (),
    setup: Setup | None = None,
) -> Shards:
    """Exchange the shapes and errors of the batches of all processes, in one exchange.

    Args:
        features: (B, d) of this process; B may be 0.
        problem: The error in the batch of this process, if there is one.
        weighted: Whether the samples have flow weights.
        flags: (3,) integers, see `Shards.flags`.
        generators: Random generators of the loss; their states are set to those of the first process
            everywhere.
        setup: Settings of the loss, which must be the same on all processes.

    Raises:
        ValueError: On every process, if the arguments of one are wrong, if the settings of the losses differ,
            or if the batches do not match.
        RuntimeError: If another process has an error of another kind; that process raises its own.
    """
    if problem is None and features.dtype not in DTYPES:
        problem = ValueError(f"features must be one of {', '.join(map(str, DTYPES))}, got {features.dtype}")
    numbers = [_size(problem)] + [0] * 7
    drawing = [generator for generator in generators if generator is not None]
    if problem is None:
        wants = torch.is_grad_enabled() and features.requires_grad
        mark = zlib.crc32(b"".join(generator.get_state().numpy().tobytes() for generator in drawing))
        digest = 0 if setup is None else setup.digest
        numbers[1:] = [*features.shape, DTYPES.index(features.dtype), int(weighted), int(wants), mark, digest]
    device = _message_device(features)
    own = torch.tensor(numbers, dtype=torch.int64, device=device)
    values = own.new_zeros(_FLAGS) if problem is not None or flags is None else flags.to(own)
    table = _all_gather(torch.cat((own, values))).cpu().numpy()
    if table[:, 0].any():
        _raise_first(table[:, 0], problem, device)
    sizes, widths, dtypes, weights, wanted, marks, digests = table[:, 1:8].T
    if setup is not None and len(set(digests.tolist())) > 1:
        _raise_difference(setup, device)
    if not sizes.any():
        raise ValueError("the batch is empty on all processes; a loss needs at least one sample")
    _check_alike("features must have one width on all processes", widths)
    _check_alike("features must have one dtype on all processes", [DTYPES[code] for code in dtypes])
    _check_alike("flow_weights must be given on all processes or on none", weights.astype(bool).tolist())
    if len(set(marks.tolist())) > 1:
        for generator in drawing:
            _align(generator, device)
    return Shards(sizes, bool(wanted.any()), table[:, 8:])


def gather_rows(
    shards: Shards, features: Tensor, labels: Tensor, weights: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Gather the whole batch in the order of ranks, differentiable in the features.

    Uses one exchange; one more if labels are exchanged between hosts and features between devices.

    Args:
        shards: The result of `meet` for this batch.
        features: (B, d) of this process.
        labels: (B,) integers, on the device of the features or on the host.
        weights: (B,) flow weights; None on all processes, or on none.

    Returns:
        Features, labels (int64) and weights (float64) of all processes; labels on the host if the processes
        can exchange there, else with the features.
    """
    device = _message_device(features)
    labels = labels.detach().to(device, torch.int64, non_blocking=device.type != "cpu")
    constants = [labels] if device == features.device else []
    if weights is not None:
        constants.append(weights.detach().double())
    whole: Tensor
    whole, *rest = _GatheredRows.apply(features, shards.sizes, *constants)  # type: ignore[no-untyped-call]
    labels = rest.pop(0) if device == features.device else _gather_parts([labels], shards.sizes)[0]
    return whole, labels, rest[0] if weights is not None else None


def add_up(values: Tensor) -> Tensor:
    """Sum values over the processes, in place."""
    dist.all_reduce(values)
    return values


def add_up_with_errors(problem: Exception | None, values: Tensor) -> tuple[Tensor, Tensor]:
    """Sum values (P,) over the processes, and count processes with an error, for `raise_errors`."""
    if _message_device(values) != values.device:
        return add_up(values), add_up(torch.tensor(float(problem is not None)))
    both = values.new_full((len(values) + 1,), float(problem is not None))
    both[:-1] = values
    add_up(both)
    return both[:-1], both[-1]


def raise_errors(failed: Tensor, problem: Exception | None) -> None:
    """Raise the error of the first process that has one, on every process; reads the count from the device.

    Args:
        failed: Number of processes with an error, from `add_up_with_errors`.
        problem: The error of this process, if there is one.

    Raises:
        ValueError: If that error is a `ValueError`.
        RuntimeError: If it is of another kind; the process that has it raises its own.
    """
    if failed != 0:
        sizes = torch.tensor([_size(problem)], device=failed.device)
        _raise_first(_all_gather(sizes).cpu().numpy()[:, 0], problem, failed.device)


def tell_all(problem: Exception | None, values: Tensor) -> Tensor:
    """Sum values (P,) over the processes; if one of them has an error, raise it on all processes.

    Raises:
        ValueError: As in `raise_errors`.
        RuntimeError: As in `raise_errors`.
    """
    sums, failed = add_up_with_errors(problem, values)
    raise_errors(failed, problem)
    return sums


def check_same_setup(setup: Setup, device: torch.device) -> None:
    """Raise if the settings differ between processes; uses a separate exchange.

    Raises:
        ValueError: On every process, naming the first difference.
    """
    digests = _all_gather(torch.tensor([setup.digest], device=device))
    if len(set(digests.flatten().tolist())) > 1:
        _raise_difference(setup, device)


class _GatheredRows(torch.autograd.Function):
    """Rows of all processes; backward returns the gradient of this process's rows times their number."""

    @staticmethod
    def forward(
        ctx: Any, features: Tensor, sizes: NDArray[np.int64], *constants: Tensor
    ) -> tuple[Tensor, ...]:
        stop = np.cumsum(sizes)
        rank = dist.get_rank()
        ctx.rows, ctx.count = slice(int(stop[rank] - sizes[rank]), int(stop[rank])), len(sizes)
        # Types of 8 bytes first, so that every part is aligned for its type.
        parts = _gather_parts([*constants, features.detach()], sizes)
        ctx.mark_non_differentiable(*parts[:-1])
        return parts[-1], *parts[:-1]

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        return grad[ctx.rows] * ctx.count, *(None for _ in range(1 + len(_)))


def _gather_parts(parts: Sequence[Tensor], sizes: NDArray[np.int64]) -> list[Tensor]:
    """Gather rows of several tensors (B, ...) from all processes, as bytes, padded to the largest shard."""
    rows, count = int(sizes.max()), len(sizes)
    widths = [part[:1].numel() if len(part) else int(np.prod(part.shape[1:])) for part in parts]
    lengths = [rows * width * part.element_size() for width, part in zip(widths, parts, strict=True)]
    starts = np.cumsum([0, *lengths])
    sent = torch.zeros(-(-int(starts[-1]) // 8) * 8, dtype=torch.uint8, device=parts[0].device)
    for part, start in zip(parts, starts, strict=False):
        raw = part.contiguous().view(-1).view(torch.uint8)
        sent[start : start + len(raw)] = raw
    received = _all_gather(sent)
    filled = None
    if len(set(sizes.tolist())) > 1:
        filled = torch.from_numpy(np.flatnonzero(np.arange(rows) < sizes[:, None]))
        filled = filled.to(received.device, non_blocking=True)
    whole = []
    for part, start, length in zip(parts, starts, lengths, strict=False):
        block = received[:, start : start + length].contiguous().view(part.dtype)
        block = block.view(count * rows, *part.shape[1:])
        whole.append(block if filled is None else block.index_select(0, filled))
    return whole


def _all_gather(own: Tensor) -> Tensor:
    """Gather a tensor (...) from each of n processes: (n, ...)."""
    out = own.new_empty(dist.get_world_size(), *own.shape)
    dist.all_gather(list(out.unbind(0)), own)
    return out


def _message_device(features: object) -> torch.device:
    """Device for exchanges that the host reads: the CPU, if the process group supports it."""
    if "cpu:" in dist.get_backend_config():
        return torch.device("cpu")
    return features.device if isinstance(features, Tensor) else torch.device("cuda")


def _message(problem: Exception) -> str:
    return str(problem) if isinstance(problem, ValueError) else f"{type(problem).__name__}: {problem}"


def _size(problem: Exception | None) -> int:
    """Length of an error's message in bytes, negative if it is not a `ValueError`; 0 without an error."""
    if problem is None:
        return 0
    size = max(1, len(_message(problem).encode(errors="replace")))
    return size if isinstance(problem, ValueError) else -size


def _raise_first(sizes: NDArray[np.int64], problem: Exception | None, device: torch.device) -> NoReturn:
    """Raise the error of the first process that has one on every process, with its message."""
    texts = _all_texts("" if problem is None else _message(problem), int(np.abs(sizes).max()), device)
    rank = int(np.flatnonzero(sizes)[0])
    message = f"process {rank}: {texts[rank]}"
    if sizes[rank] > 0:
        raise ValueError(message) from problem
    if problem is not None and rank == dist.get_rank():
        raise problem
    raise RuntimeError(message) from problem


def _raise_difference(setup: Setup, device: torch.device) -> NoReturn:
    """Raise an error on every process that names the first difference between the settings of two."""
    size = torch.tensor([len(setup.text.encode())], device=device)
    longest = int(_all_gather(size).max())
    first, *others = (json.loads(text) for text in _all_texts(setup.text, longest, device))
    rank, other = next((rank, parts) for rank, parts in enumerate(others, 1) if parts != first)
    name = next(name for name in (*first, *other) if first.get(name) != other.get(name))
    raise ValueError(
        f"all processes must be set up alike, but {name} is {first.get(name, 'absent')} on process 0 "
        f"and {other.get(name, 'absent')} on process {rank}"
    )


def _all_texts(own: str, longest: int, device: torch.device) -> list[str]:
    """Gather the texts of all processes.

    Args:
        own: Text of this process.
        longest: Length of the longest text in bytes.
        device: Device for the exchange.
    """
    text = torch.zeros(longest, dtype=torch.uint8)
    raw = bytearray(own.encode(errors="replace"))
    if raw:
        text[: len(raw)] = torch.frombuffer(raw, dtype=torch.uint8)
    received = _all_gather(text.to(device)).cpu()
    return [bytes(row.tolist()).rstrip(b"\0").decode() for row in received]


def _check_alike(wanted: str, values: Sequence[Any] | NDArray[np.int64]) -> None:
    if any(value != values[0] for value in values):
        raise ValueError(f"{wanted}, got {', '.join(map(str, values))}")


def _align(generator: torch.Generator, device: torch.device) -> None:
    """Set the generators of all processes to the state of the generator of the first."""
    state = generator.get_state().to(device)
    dist.broadcast(state, src=0)
    generator.set_state(state.cpu())
