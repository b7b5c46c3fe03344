"""The pairs of clouds of the paper's synthetic study."""

from __future__ import annotations

import torch
from torch import Tensor

from cophenet._common.checks import check_choice, check_whole

__all__ = ["CLOUDS", "draw_clouds"]

# Means of the modes of either cloud, in every coordinate; all have deviation one.
CLOUDS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "gaussian": ((1.0,), (4.0,)),
    "mixture": ((0.0, 5.0), (2.0, 3.0)),
    "mixture, mode by mode": ((0.0, 5.0), (2.0, 3.0)),
}


def draw_clouds(kind: str, size: int, width: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Two clouds of one size.

    Modes have equal shares. Samples come in random order, except in "mixture, mode by mode", where those of
    the lower mode come first in both clouds: an order that happens to suit a greedy plan.

    Args:
        kind: One of `CLOUDS`.
        size: Samples of each cloud, n.
        width: Their dimension, d.
        generator: Source of randomness.

    Returns:
        (2n, d) float32 features and (2n,) labels 0 and 1.

    Raises:
        ValueError: If the kind is unknown or a number too small.

    Example:
        >>> z, y = draw_clouds("gaussian", 500, 8, torch.Generator().manual_seed(0))
        >>> z.shape, [round(z[y == c].mean().item()) for c in (0, 1)]
        (torch.Size([1000, 8]), [1, 4])
    """
    check_choice("kind", kind, CLOUDS)
    check_whole("size", size, 1)
    check_whole("width", width, 1)
    clouds = []
    for means in CLOUDS[kind]:
        mode = torch.arange(size) * len(means) // size
        if kind != "mixture, mode by mode":
            mode = mode[torch.randperm(size, generator=generator)]
        clouds.append(torch.tensor(means)[mode, None] + torch.randn(size, width, generator=generator))
    return torch.cat(clouds), torch.arange(2).repeat_interleave(size)
