"""Create optimizers and learning rates from settings, for whole networks and for heads."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch
from torch import nn

if TYPE_CHECKING:
    from cophenet.recipes.settings import OptimizerSettings, ScheduleSettings

__all__ = ["create_optimizer", "learning_rate", "set_learning_rate"]


def create_optimizer(
    parameters: Iterable[nn.Parameter], settings: OptimizerSettings
) -> torch.optim.Optimizer:
    """Create the optimizer of some parameters, with the initial learning rate.

    Example:
        >>> from cophenet.recipes.settings import OptimizerSettings
        >>> settings = OptimizerSettings(name="adamw", lr=1e-3)
        >>> type(create_optimizer(nn.Linear(2, 1).parameters(), settings)).__name__
        'AdamW'
    """
    weights = list(parameters)
    if settings.name == "adamw":
        # The fused kernel makes one pass over the weights instead of about ten; only CPU and CUDA have it.
        fused = all(weight.device.type in ("cpu", "cuda") for weight in weights)
        return torch.optim.AdamW(weights, settings.lr, weight_decay=settings.weight_decay, fused=fused)
    return torch.optim.SGD(
        weights, settings.lr, momentum=settings.momentum, weight_decay=settings.weight_decay
    )


def learning_rate(
    settings: OptimizerSettings, schedule: ScheduleSettings | None, epoch: int, epochs: int
) -> float:
    """Compute the learning rate of an epoch.

    One cycle (Smith and Topin 2018, arXiv:1708.07120) rises from zero to `settings.lr` and falls back to
    zero, both as half a cosine; the rate of an epoch is that of its midpoint.

    Args:
        settings: Settings of the optimizer.
        schedule: How the rate changes; None for a constant rate.
        epoch: Number of the epoch, 0 at the start of the schedule.
        epochs: Number of epochs of the schedule.

    Example:
        >>> from cophenet.recipes.settings import OptimizerSettings, ScheduleSettings
        >>> schedule = ScheduleSettings(divide_by=10, every=2)
        >>> [learning_rate(OptimizerSettings(lr=0.5), schedule, epoch, 5) for epoch in range(5)]
        [0.5, 0.5, 0.05, 0.05, 0.005]
        >>> schedule = ScheduleSettings(one_cycle=0.25)
        >>> [round(learning_rate(OptimizerSettings(lr=1.0), schedule, epoch, 4), 3) for epoch in range(4)]
        [0.5, 0.933, 0.5, 0.067]
    """
    if schedule is None:
        return settings.lr
    if schedule.one_cycle is not None:
        place, peak = (epoch + 0.5) / epochs, schedule.one_cycle
        from_peak = 1 - place / peak if place < peak else (place - peak) / (1 - peak)
        return settings.lr * (1 + math.cos(math.pi * from_peak)) / 2
    assert schedule.divide_by is not None
    assert schedule.every is not None
    return float(settings.lr * schedule.divide_by ** -(epoch // schedule.every))


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate of all parameters of an optimizer.

    Example:
        >>> optimizer = torch.optim.SGD(nn.Linear(2, 1).parameters(), lr=1.0)
        >>> set_learning_rate(optimizer, 0.5)
        >>> optimizer.param_groups[0]["lr"]
        0.5
    """
    for group in optimizer.param_groups:
        group["lr"] = rate
