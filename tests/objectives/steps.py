"""Networks of the heads that an objective asks for, and the batches they give."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, normalize

from cophenet import Hierarchy
from cophenet.objectives import Objective, StepOutput, create_objective
from support import DEVICE

# Uneven: a class right below the root, one at depth 2, the others at depth 3, labels out of tree order.
DEEP = Hierarchy.from_paths(
    [
        ("animal", "pet", "cat"),
        ("vehicle", "car", "bus"),
        ("animal", "pet", "dog"),
        ("moon",),
        ("animal", "wild", "fox"),
        ("vehicle", "car", "van"),
        ("animal", "eel"),
        ("animal", "wild", "wolf"),
        ("vehicle", "boat", "ferry"),
    ],
    level_names=["kingdom", "group", "kind"],
)
FLAT_TREE = Hierarchy.from_paths([("a",), ("b",), ("c",)])
WIDTH = 6


def total(terms: dict[str, Tensor]) -> Tensor:
    return torch.stack(list(terms.values())).sum()


def make_heads(
    objective: Objective, seed: int = 0, dtype: torch.dtype = torch.float64
) -> dict[str, nn.Linear]:
    torch.manual_seed(seed)
    return {h.name: nn.Linear(WIDTH, h.num_outputs, dtype=dtype).to(DEVICE) for h in objective.heads}


def make_features(count: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    z = torch.randn(count, WIDTH, generator=generator, dtype=torch.float64)
    return z.to(DEVICE, dtype).requires_grad_()


def run_heads(
    objective: Objective, features: Tensor, labels: Tensor, heads: dict[str, nn.Linear], phase: int = 0
) -> StepOutput:
    logits = {}
    for spec in objective.heads:
        head = heads[spec.name]
        rows = normalize(head.weight) if spec.normalize_rows else head.weight
        logits[spec.name] = linear(features, rows, head.bias)
    return StepOutput(features, logits, labels, heads, phase)


def make_step(
    objective: Objective, labels: list[int], seed: int = 0, dtype: torch.dtype = torch.float64
) -> StepOutput:
    y = torch.tensor(labels, device=DEVICE)
    return run_heads(
        objective, make_features(len(labels), seed, dtype), y, make_heads(objective, seed, dtype)
    )


def permute(step: StepOutput, order: Tensor) -> StepOutput:
    logits = {name: values[order] for name, values in step.logits.items()}
    return replace(step, features=step.features[order], logits=logits, labels=step.labels[order])


def relabel(step: StepOutput, old: Objective, new: Objective) -> StepOutput:
    """The same batch for an objective whose tree has the same classes in another order."""
    logits, heads = {}, {}
    for spec in old.heads:
        before, after = old.tree.cut(spec.level)[0], new.tree.cut(spec.level)[0]
        columns = [before.classes.index(name) for name in after.classes]
        logits[spec.name] = step.logits[spec.name][:, columns]
        head = heads[spec.name] = nn.Linear(WIDTH, spec.num_outputs, dtype=torch.float64).to(DEVICE)
        head.weight = nn.Parameter(step.heads[spec.name].weight[columns])
    place = torch.tensor([new.tree.index(name) for name in old.tree.classes], device=DEVICE)
    return replace(step, logits=logits, heads=heads, labels=place[step.labels])


def make(name: str, tree: Hierarchy = DEEP, **options) -> Objective:
    return create_objective(name, tree, **options).to(DEVICE)
