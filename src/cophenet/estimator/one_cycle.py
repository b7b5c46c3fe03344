"""AdamW with a one-cycle learning rate, as `torch.optim.AdamW` with `OneCycleLR`.

Those classes import a compiler when they are first instantiated, which takes longer than many fits. The
arithmetic is torch's own.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw

__all__ = ["OneCycle"]

_RISE = 0.3
# Learning rate at the start and at the end, relative to the highest; and beta1 of Adam where the rate is
# lowest and highest.
_START, _END = 1 / 25, 1 / 25e4
_SLOW, _QUICK = 0.95, 0.85


class OneCycle:
    """Optimizer of a module; weight decay applies to matrices only, not to norms and biases.

    Args:
        module: The module whose parameters are trained.
        rate: The highest learning rate.
        decay: Weight decay.
        steps: Total number of steps.

    Example:
        >>> layer = nn.Linear(1, 1, bias=False)
        >>> steps = OneCycle(layer, 0.2, 0.0, 200)
        >>> for _ in range(200):
        ...     steps.step((layer.weight - 2).square().sum())
        >>> float(layer.weight.detach().round())
        2.0
    """

    def __init__(self, module: nn.Module, rate: float, decay: float, steps: int) -> None:
        every: list[Tensor] = list(module.parameters())
        parts = ([p for p in every if p.ndim > 1], [p for p in every if p.ndim == 1])
        self.rate, self.steps, self.done = rate, steps, 0
        self.groups = [
            (part, [torch.zeros_like(p) for p in part], [torch.zeros_like(p) for p in part], each)
            for part, each in zip(parts, (decay, 0.0), strict=True)
        ]
        device = every[0].device
        self.counts = [[torch.zeros((), device=device) for _ in part] for part in parts]
        # One pass over memory, where torch supports it.
        self.fused = device.type in ("cpu", "cuda")

    def step(self, loss: Tensor) -> None:
        """Take one step down the gradient of a loss."""
        every = [p for part, *_ in self.groups for p in part]
        gradients = iter(torch.autograd.grad(loss, every))
        rate, first = self.setting(self.done)
        with torch.no_grad():
            for (part, means, squares, decay), counts in zip(self.groups, self.counts, strict=True):
                adamw(
                    part,
                    [next(gradients) for _ in part],
                    means,
                    squares,
                    [],
                    counts,
                    fused=self.fused,
                    amsgrad=False,
                    beta1=first,
                    beta2=0.999,
                    lr=rate,
                    weight_decay=decay,
                    eps=1e-8,
                    maximize=False,
                )
        self.done += 1

    def setting(self, step: int) -> tuple[float, float]:
        """The learning rate and beta1 of Adam at a step, counted from 0."""
        top, end = _RISE * self.steps - 1, self.steps - 1
        if step <= top:
            share, lowest = step / top, _START
        else:
            share, lowest = 1 - (step - top) / (end - top), _END
        high = (1 - math.cos(math.pi * share)) / 2
        return self.rate * (lowest + (1 - lowest) * high), _SLOW + (_QUICK - _SLOW) * high
