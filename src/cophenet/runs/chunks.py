"""The backward pass of a batch chunk by chunk, under Lightning's strategies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.strategies import DDPStrategy
from torch import Tensor

from cophenet.models import Network, cached_backward

__all__ = ["backward_in_chunks"]

Outputs = tuple[Tensor, dict[str, Tensor]]


class _Chunked:
    """A network of which only some heads are wanted; others get no gradient, not even zeros."""

    def __init__(self, network: Network, heads: Sequence[str]) -> None:
        self.network, self.heads = network, heads

    def __call__(self, inputs: Tensor) -> Outputs:
        features, logits = self.network(inputs)
        return features, {name: logits[name] for name in self.heads}


class _SharedChunked(_Chunked):
    """The same in Lightning's DDP, which averages gradients over the processes once, with the last chunk."""

    def __init__(self, network: Network, heads: Sequence[str], strategy: DDPStrategy) -> None:
        super().__init__(network, heads)
        self.strategy: Any = strategy

    def __call__(self, inputs: Tensor) -> Outputs:
        outputs = super().__call__(inputs)
        if torch.is_grad_enabled():
            # Does nothing within no_sync.
            self.strategy.pre_backward(outputs)
        return outputs

    def no_sync(self) -> AbstractContextManager[None]:
        context: AbstractContextManager[None] = self.strategy.block_backward_sync()
        return context


def backward_in_chunks(
    module: pl.LightningModule,
    network: Network,
    heads: Sequence[str],
    inputs: Tensor,
    loss: Callable[[Outputs], dict[str, Tensor]],
    chunk_size: int,
) -> None:
    """Add the gradient of a batch to the parameters, averaged over DDP's processes; see `cached_backward`.

    Args:
        module: What is trained, in manual optimization.
        network: The part of it that is computed in chunks.
        heads: Names of the heads that the loss looks at.
        inputs: (B, ...) this process's batch.
        loss: From features (B, d) and logits by head to the loss terms.
        chunk_size: Samples per chunk.
    """
    strategy = module.trainer.strategy
    if not isinstance(strategy, DDPStrategy):
        cached_backward(_Chunked(network, heads), inputs, loss, chunk_size, backward=module.manual_backward)
        return
    shared = _SharedChunked(network, heads, strategy)

    def backward(total: Tensor) -> None:
        with shared.no_sync():
            module.manual_backward(total)

    cached_backward(shared, inputs, loss, chunk_size, backward=backward)
