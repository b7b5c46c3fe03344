"""Backward passes that are derivatives of first order only, and say so."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch

__all__ = ["first_order"]


def first_order(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Refuse a backward pass that is to be differentiated again, instead of silently dropping its graph."""

    @wraps(backward)
    def checked(ctx: Any, *grads: Any) -> Any:
        if torch.is_grad_enabled():
            raise RuntimeError("class distances have first derivatives only; leave out create_graph=True")
        return backward(ctx, *grads)

    return checked
