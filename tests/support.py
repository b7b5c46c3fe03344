"""What several test files share: random batches, slow reference loops, published numbers."""

from __future__ import annotations

import itertools
import json
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

SHARED = Path(__file__).resolve().parents[2] / "shared"
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")

needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="needs the shared golden numbers")


@contextmanager
def files_up_to(size: int) -> Iterator[None]:
    """With files of at most so many bytes, as if the disk were full."""
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def killed_at(step: int, work: Callable[[], object]) -> bool:
    """Do some work in a process that dies before its n-th call on files; whether it had so many.

    As after kill -9: nothing is cleaned up.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the child only writes files
        child = os.fork()
    if child == 0:
        left = step

        def count(event: str, _: object) -> None:
            nonlocal left
            if event == "open" or event.startswith(("os.", "shutil.", "ctypes.")):
                left -= 1
                if left < 0:
                    os._exit(9)

        sys.addaudithook(count)
        try:
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, 9)
    return status == 9


def golden(name: str) -> list[dict[str, Any]]:
    """Cases of a golden file, none where the folder is absent."""
    path = SHARED / "golden" / name
    return json.loads(path.read_text())["cases"] if path.is_file() else []


def double(values: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.float64, device=DEVICE)


def random_batch(
    seed: int, sizes: list[int], width: int = 5, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, Tensor]:
    """Features and shuffled labels with given class sizes; class c has its own centre."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    centres = rng.normal(size=(len(sizes), width)) * 3
    features = centres[labels] + rng.normal(size=(len(labels), width))
    return torch.tensor(features, dtype=dtype, device=DEVICE), torch.tensor(labels, device=DEVICE)


def random_weights(seed: int, count: int) -> Tensor:
    return torch.tensor(np.random.default_rng(seed).uniform(0.1, 1, count), device=DEVICE)


def pair_loop(
    features: Tensor,
    labels: Tensor,
    cost: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor],
    weights: Tensor | None = None,
) -> Tensor:
    """Class distances one pair at a time: cost(x, y, a, b) for the two clouds and their masses."""
    weights = torch.ones_like(features[:, 0]) if weights is None else weights
    out = []
    for u, v in itertools.combinations(labels.unique().tolist(), 2):
        (x, a), (y, b) = ((features[labels == c], weights[labels == c]) for c in (u, v))
        out.append(cost(x, y, a / a.sum(), b / b.sum()))
    return torch.stack(out)


def greedy_cost(x: Tensor, y: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Algorithm 1 sample by sample, in exact fractions of what the floats stand for."""
    from fractions import Fraction

    left = [Fraction(float(w)) for w in a]
    right = [Fraction(float(w)) for w in b]
    left = [w / sum(left) for w in left]
    right = [w / sum(right) for w in right]
    i = j = 0
    total = x.new_zeros(())
    while i < len(left) and j < len(right):
        moved = min(left[i], right[j])
        total = total + float(moved) * (x[i] - y[j]).norm()
        left[i] -= moved
        right[j] -= moved
        i += left[i] == 0
        if right[j] == 0:
            j += 1
    return total
