"""The exact gradient of a batch that does not fit into memory, by caching gradients of the network's outputs.

A loss of the whole batch, such as one with CPCC, is not a sum of losses of its parts. But it needs the whole
batch only at the network's outputs, which are small: they are computed in chunks without a graph, the loss
yields the gradient of each output, and a second pass backpropagates these gradients in chunks. The cost is
one more forward pass; the memory is that of the graph of one chunk. The method is that of Gao, Zhang, Han and
Callan, "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup", 2021, arXiv:2101.06983.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeAlias, TypeVar

import torch
from torch import Tensor, nn
from torch.random import fork_rng
from torch.utils.checkpoint import get_device_states, set_device_states

from cophenet._common.checks import check_whole

__all__ = ["cached_backward"]

Loss = TypeVar("Loss", Tensor, dict[str, Tensor])
RandomState: TypeAlias = tuple[Tensor, list[int], list[Tensor]]


def cached_backward(
    network: Callable[[Tensor], Any],
    inputs: Tensor,
    loss: Callable[[Any], Loss],
    chunk_size: int,
    *,
    backward: Callable[[Tensor], object] = Tensor.backward,
) -> Loss:
    """Add the gradient of a loss of the whole batch to the parameters, with the graph of one chunk at a time.

    Equal to `loss(network(inputs)).backward()` if the network treats every sample independently. Random
    numbers of torch's generators, such as those of dropout, are the same in both passes. Batch normalization
    in training mode uses the statistics of each chunk, and updates its running statistics once per chunk;
    other buffers also change as in one pass over the chunks, which are of about equal size.

    A network in `DistributedDataParallel` exchanges gradients once, with the last chunk; processes may have
    different numbers of chunks.

    Args:
        network: Maps inputs (n, ...) to a tensor (n, ...), or tuples, lists and dicts of such tensors.
        inputs: (B, ...) the batch.
        loss: Maps the outputs of all B samples to a scalar, or to named scalars whose sum is the loss, as
            objectives return them. Parameters that it uses itself get their gradient too.
        chunk_size: Largest number of samples per chunk.
        backward: Function that starts the backward pass of the loss; a gradient scaler can scale it first.

    Returns:
        The result of `loss`, without graph.

    Raises:
        ValueError: If `chunk_size` is not a positive integer, or an output does not have one row per sample.

    Example:
        >>> from cophenet import CPCCLoss, Hierarchy
        >>> tree = Hierarchy.from_paths(["pet/cat", "pet/dog", "car/bus", "car/van"], sep="/")
        >>> criterion, network = CPCCLoss(tree, distance="fastft"), nn.Linear(5, 3)
        >>> inputs, labels = torch.randn(64, 5), torch.arange(64) % 4
        >>> value = cached_backward(network, inputs, lambda z: criterion(z, labels), chunk_size=16)
        >>> value.requires_grad, network.weight.grad.shape
        (False, torch.Size([3, 5]))
    """
    check_whole("chunk_size", chunk_size, 1)
    # An empty batch is one empty chunk, so that all processes take part. Chunks are of about equal size:
    # batch normalization has no statistics of a last chunk with a single sample.
    chunks = torch.tensor_split(inputs, max(1, math.ceil(len(inputs) / chunk_size)))
    states, parts = _first_pass(network, chunks)
    sizes = [len(chunk) for chunk in chunks]
    whole = _joined([list(_tensors(part)) for part in parts], sizes)
    result = loss(_rebuilt(parts[0], iter(whole)))
    backward(_total(result))
    gradients = [None if z.grad is None else torch.split(z.grad, sizes) for z in whole]
    del whole, parts
    for number, (chunk, state) in enumerate(zip(chunks, states, strict=True)):
        with _no_sync(network, number + 1 < len(chunks)), _restored(*state):
            outputs = list(_tensors(network(chunk)))
            pulls = [None if one is None else one[number] for one in gradients]
            _pull(outputs, pulls, with_zeros=hasattr(network, "no_sync"))
    return _detached(result)


def _first_pass(
    network: Callable[[Tensor], Any], chunks: Sequence[Tensor]
) -> tuple[list[RandomState], list[Any]]:
    """The random state before each chunk, and the outputs of each chunk, without graph."""
    states, parts = [], []
    with torch.no_grad(), _same_buffers(network):
        for chunk in chunks:
            states.append((torch.get_rng_state(), *get_device_states(chunk)))
            parts.append(network(chunk))
    # Older releases of torch would reuse weights that autocast has cast without graph.
    torch.clear_autocast_cache()
    return states, parts


def _pull(outputs: list[Tensor], gradients: list[Tensor | None], with_zeros: bool) -> None:
    """Backpropagate gradients of outputs; zeros too if other processes wait for all parameters."""
    used, pulls = [], []
    for output, gradient in zip(outputs, gradients, strict=True):
        if output.requires_grad and (gradient is not None or with_zeros):
            used.append(output)
            pulls.append(torch.zeros_like(output) if gradient is None else gradient)
    if used:
        torch.autograd.backward(used, pulls)


def _joined(parts: list[list[Tensor]], sizes: list[int]) -> list[Tensor]:
    """Concatenate the outputs of all chunks; each result is a leaf of a new graph."""
    for part, size in zip(parts, sizes, strict=True):
        for values in part:
            if values.ndim == 0 or len(values) != size:
                given = f"shape {tuple(values.shape)} for {size} samples"
                raise ValueError(f"outputs of network must have one row per sample, got {given}")
    whole = [torch.cat(pieces) for pieces in zip(*parts, strict=True)]
    return [values.requires_grad_(values.is_floating_point()) for values in whole]


def _tensors(outputs: Any) -> Iterator[Tensor]:
    """Yield the tensors of an output, in order."""
    if isinstance(outputs, Tensor):
        yield outputs
        return
    if not isinstance(outputs, tuple | list | Mapping):
        kind = type(outputs).__name__
        raise ValueError(f"outputs of network must be tensors in tuples, lists and dicts, got {kind}")
    for part in outputs.values() if isinstance(outputs, Mapping) else outputs:
        yield from _tensors(part)


def _rebuilt(like: Any, tensors: Iterator[Tensor]) -> Any:
    """A copy of the structure of another output with other tensors."""
    if isinstance(like, Tensor):
        return next(tensors)
    if isinstance(like, Mapping):
        return {name: _rebuilt(part, tensors) for name, part in like.items()}
    parts = [_rebuilt(part, tensors) for part in like]
    return type(like)(*parts) if hasattr(like, "_fields") else type(like)(parts)


def _total(result: Tensor | dict[str, Tensor]) -> Tensor:
    return result if isinstance(result, Tensor) else torch.stack(list(result.values())).sum()


def _detached(result: Loss) -> Loss:
    if isinstance(result, Tensor):
        return result.detach()
    return {name: term.detach() for name, term in result.items()}


@contextmanager
def _same_buffers(network: object) -> Iterator[None]:
    """Restore the buffers at the end."""
    buffers = list(network.buffers()) if isinstance(network, nn.Module) else []
    before = [buffer.clone() for buffer in buffers]
    try:
        yield
    finally:
        for buffer, values in zip(buffers, before, strict=True):
            buffer.copy_(values)


def _no_sync(network: object, wanted: bool) -> AbstractContextManager[None]:
    """Context in which a distributed network accumulates gradients without synchronizing, if wanted."""
    context: AbstractContextManager[None] = (
        network.no_sync() if wanted and hasattr(network, "no_sync") else nullcontext()
    )
    return context


@contextmanager
def _restored(host: Tensor, devices: list[int], states: list[Tensor]) -> Iterator[None]:
    """Restore a random state inside the context, and the current state afterwards."""
    with fork_rng(devices):
        torch.set_rng_state(host)
        set_device_states(devices, states)
        yield
