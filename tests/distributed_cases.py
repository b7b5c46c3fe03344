"""What the processes of test_distributed.py run: modules that every process can import."""

from __future__ import annotations

from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
import torch.distributed as dist
from benchmarks.pretend_device import Counts, PretendDevice
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from cophenet import CPCCLoss, Hierarchy
from cophenet.models import Network as BackboneNetwork
from cophenet.models import build_heads, create_backbone
from cophenet.objectives import Flat, Objective, StepOutput, create_objective
from cophenet.objectives.cpcc import WithCPCC
from cophenet.transport import EMD

TREE = Hierarchy.from_paths([(f"group{c // 3}", f"class{c}") for c in range(9)])
WIDTH = 5
Parts = list[tuple[Tensor, Tensor]]


class Network(nn.Module):
    """A small encoder and the heads of an objective."""

    def __init__(self, outputs: dict[str, int], dtype: torch.dtype) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.encoder = nn.Sequential(nn.Linear(7, 6), nn.Tanh(), nn.Linear(6, WIDTH)).to(dtype)
        self.heads = nn.ModuleDict({n: nn.Linear(WIDTH, size).to(dtype) for n, size in outputs.items()})

    def forward(self, x: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        z = self.encoder(x)
        return z, {name: head(z) for name, head in self.heads.items()}


def objective_step(name: str, options: dict[str, Any], x: Tensor, y: Tensor, parallel: bool) -> Any:
    """Terms and parameter gradients of an objective on one batch, in its last phase."""
    objective = create_objective(name, TREE, **options)
    network = Network({head.name: head.num_outputs for head in objective.heads}, x.dtype)
    model: nn.Module = DistributedDataParallel(network, find_unused_parameters=True) if parallel else network
    z, logits = model(x)
    step = StepOutput(z, logits, y, dict(network.heads.items()), phase=len(objective.phases) - 1)
    terms = objective(step)
    torch.stack(list(terms.values())).sum().backward()
    grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in network.parameters()]
    return {key: term.item() for key, term in terms.items()}, torch.cat([grad.flatten() for grad in grads])


def objective_case(rank: int, name: str, options: dict[str, Any], parts: Parts) -> Any:
    return objective_step(name, options, *parts[rank], parallel=True)


def loss_steps(
    criterion: CPCCLoss, batches: list[tuple[Tensor, Tensor]], parallel: bool, weights: list[Tensor | None]
) -> Any:
    """Losses and gradients of some steps of CPCCLoss with the user's own cross entropy beside it."""
    network = Network({"fine": TREE.num_classes}, batches[0][0].dtype)
    model: nn.Module = DistributedDataParallel(network) if parallel else network
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = []
    for (x, y), mass in zip(batches, weights, strict=True):
        optimizer.zero_grad()
        z, logits = model(x)
        loss = criterion(z, y, mass)
        (loss + 0.0 * cross_entropy(logits["fine"], y)).backward()
        seen.append((loss.item(), torch.cat([p.grad.flatten() for p in network.parameters()])))
        optimizer.step()
    return seen


def loss_case(
    rank: int, options: dict[str, Any], batches: list[Parts], weights: list[list[Tensor] | None]
) -> Any:
    criterion = CPCCLoss(TREE, **options)
    own = [batch[rank] for batch in batches]
    return loss_steps(criterion, own, True, [None if w is None else w[rank] for w in weights])


def seeded_case(rank: int, name: str, parts: Parts) -> Any:
    """Generators that differ before the first step."""
    criterion = CPCCLoss(TREE, name, generator=torch.Generator().manual_seed(5 + rank))
    return loss_steps(criterion, [parts[rank]] * 2, True, [None, None])


class Noisy(Flat):
    """Cross entropy, and random numbers of its own."""

    def __init__(self, tree: Hierarchy, seed: int) -> None:
        super().__init__(tree)
        self.generator = torch.Generator().manual_seed(seed)

    def terms(self, step: StepOutput) -> dict[str, Tensor]:
        noise = torch.rand((), generator=self.generator, dtype=torch.float64)
        return {**super().terms(step), "noise": noise}


def two_generators_case(rank: int, distance: str, parts: Parts) -> Any:
    """Steps of an objective with CPCC, both with generators that differ before the first step."""
    x, y = parts[rank]
    options = {} if distance == "l2" else {"generator": torch.Generator().manual_seed(5 + rank)}
    objective = WithCPCC(Noisy(TREE, 7 + rank), {"distance": distance, **options})
    step = StepOutput(x, {"level2": torch.zeros(len(y), TREE.num_classes)}, y)
    return [{name: term.item() for name, term in objective(step).items()} for _ in range(2)]


def message_of(function: Any) -> str:
    try:
        function()
    except ValueError as error:
        return str(error)
    return "no error"


def error_case(rank: int, name: str, parts: Parts) -> list[str]:
    """The error of the loss, of the objective, and whether a good batch still works after it."""
    x, y = parts[rank]
    heads = {"level2": torch.zeros(len(y), TREE.num_classes)}
    return [
        message_of(lambda: CPCCLoss(TREE, name)(x, y)),
        message_of(lambda: create_objective(name, TREE)(StepOutput(x, heads, y))),
        message_of(lambda: CPCCLoss(TREE, name)(torch.randn(4, 3), torch.arange(4) * 2)),
    ]


def share_error_case(rank: int, name: str) -> str:
    """An error in the pairs of process 1 alone."""
    criterion = CPCCLoss(TREE, name)

    def fail(*_: Any) -> None:
        if rank == 1:
            raise ValueError("these pairs have no distance")

    criterion.distance.register_forward_pre_hook(fail)
    return message_of(lambda: criterion(torch.randn(4, 3), torch.arange(4) * 2))


def collapsed_case(rank: int, name: str, parts: Parts) -> Any:
    """Loss and gradient of features that are all equal."""
    x, y = parts[rank]
    z = x.clone().requires_grad_()
    loss = CPCCLoss(TREE, name)(z, y)
    loss.backward()
    return loss.item(), z.grad


def objective_error_case(rank: int, name: str, parts: Parts) -> str:
    x, y = parts[rank]
    heads = {"level2": torch.zeros(len(y), TREE.num_classes)}
    return message_of(lambda: create_objective(name, TREE)(StepOutput(x, heads, y)))


def heads_error_case(rank: int, options: dict[str, Any]) -> str:
    """Consistency of weights, of which process 1 has none."""
    objective = create_objective("gc", TREE, **options)
    sizes = {head.name: head.num_outputs for head in objective.heads}
    heads = {} if rank == 1 else {name: nn.Linear(3, size) for name, size in sizes.items()}
    logits = {name: torch.zeros(4, size) for name, size in sizes.items()}
    return message_of(lambda: objective(StepOutput(torch.randn(4, 3), logits, torch.arange(4) * 2, heads)))


def weights_error_case(rank: int) -> list[str]:
    x, y = torch.randn(4, 3), torch.arange(4) * 2
    some = torch.ones(4) if rank == 0 else None
    bad = torch.tensor([1.0, 1.0, 1.0, -1.0 if rank else 1.0])
    criterion = CPCCLoss(TREE, "l2")
    return [message_of(partial(criterion, x, y, mass)) for mass in (some, bad)]


def shard_case(rank: int, parts: Parts) -> Any:
    """gather="none": every process has the loss of its own batch."""
    x, y = parts[rank]
    z = x.clone().requires_grad_()
    loss = CPCCLoss(TREE, "fastft", gather="none")(z, y)
    loss.backward()
    flat = create_objective("flat", TREE, gather="none")(
        StepOutput(z, {"level2": x @ torch.ones(7, 9).to(x)}, y)
    )
    return loss.item(), z.grad, flat["cross_entropy"].item()


def work_case(rank: int, name: str, parts: Parts) -> list[int]:
    """How many pairs this process was asked for in each step."""
    criterion = CPCCLoss(TREE, name)
    asked = []
    handle = criterion.distance.register_forward_pre_hook(lambda _, given: asked.append(given[0].num_pairs))
    x, y = parts[rank]
    criterion(x, y)
    handle.remove()
    return asked


def memory_case(rank: int, options: dict[str, Any], batches: list[Parts]) -> Any:
    criterion = CPCCLoss(TREE, **options)
    seen = loss_steps(criterion, [batch[rank] for batch in batches], True, [None] * len(batches))
    return seen, criterion.state_dict()


def no_grad_case(rank: int, name: str, parts: Parts) -> Any:
    x, y = parts[rank]
    with torch.no_grad():
        return CPCCLoss(TREE, name)(x, y).item()


def half_case(rank: int, name: str, parts: Parts) -> Any:
    x, y = parts[rank]
    z = x.bfloat16().requires_grad_()
    loss = CPCCLoss(TREE, name)(z, y)
    loss.backward()
    return loss.item(), loss.dtype, z.grad


def resnet_steps(name: str, parts: Parts, parallel: bool) -> list[float]:
    """Losses of ten steps, at a usual rate, of a residual network without batch statistics."""
    objective = create_objective(name, TREE)
    torch.manual_seed(0)
    backbone = create_backbone("resnet10-w8", input_shape=(1, 8, 8), stem="cifar", norm="group")
    network = BackboneNetwork(backbone, build_heads(objective.heads, backbone.num_features)).double()
    model: nn.Module = DistributedDataParallel(network) if parallel else network
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for images, labels in parts:
        terms = objective(StepOutput(*model(images), labels))
        loss = torch.stack(list(terms.values())).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(terms["cpcc"].item())
    return losses


def resnet_case(rank: int, name: str, steps: list[Parts]) -> list[float]:
    return resnet_steps(name, [parts[rank] for parts in steps], parallel=True)


class Broken(EMD):
    """A distance with an error of its own on one process, in the distances or in their gradient."""

    def __init__(self, where: str, rank: int) -> None:
        super().__init__()
        self.where, self.rank = where, rank

    def forward(self, batch: Any) -> Tensor:
        rho = super().forward(batch)
        if dist.get_rank() == self.rank and self.where == "forward":
            raise KeyError("a key")
        if dist.get_rank() == self.rank and self.where == "backward":
            rho.register_hook(_fail)
        return rho


def _fail(gradient: Tensor) -> None:
    raise torch.OutOfMemoryError(f"no memory for {len(gradient)} numbers")


class BrokenTerms(Flat):
    """An objective with a mistake that shows on one process only."""

    def terms(self, step: StepOutput) -> dict[str, Tensor]:
        return {"loss": [step.logits["level2"].sum()][dist.get_rank()]}


def error_of(function: Any) -> tuple[str, str]:
    """Type and message of an error."""
    try:
        function()
    except Exception as error:
        return type(error).__name__, str(error)
    return "none", ""


def any_error_case(rank: int, where: str, parts: Parts) -> list[tuple[str, str]]:
    """The error of one process as all see it; and whether the processes can go on."""
    x, y = parts[rank]
    z = x.clone().requires_grad_()
    step = StepOutput(z, {"level2": torch.zeros(len(y), TREE.num_classes)}, y)
    broken: Any
    if where == "terms":
        broken = partial(BrokenTerms(TREE), step)
    elif where == "checks":
        broken = partial(CPCCLoss(TREE, "emd"), z, y)
    else:
        broken = partial(CPCCLoss(TREE, Broken(where, 1)), z, y)
    check = ZeroDivisionError("no labels") if where == "checks" and rank == 1 else None
    with patch("cophenet.cpcc.loss.check_batch", side_effect=check):
        seen = error_of(broken)
    return [seen, error_of(partial(CPCCLoss(TREE, "emd"), z, y))]


OTHER_TREE = Hierarchy.from_paths([(f"group{c // 2}", f"class{c}") for c in range(9)])


def difference_case(rank: int, kind: str, parts: Parts) -> list[tuple[str, str]]:
    """Losses that process 1 makes otherwise than the rest; and one that all make alike."""
    x, y = parts[rank]
    odd = rank == 1
    made: dict[str, Any] = {
        "tree": lambda: CPCCLoss(OTHER_TREE if odd else TREE, "emd"),
        "distance": lambda: CPCCLoss(TREE, "l2" if odd else "emd"),
        "option": lambda: CPCCLoss(TREE, "sinkhorn", reg=3.0 if odd else 5.0),
        "weight": lambda: CPCCLoss(TREE, "l2", weight=0.5 if odd else 1),
        "memory": lambda: CPCCLoss(TREE, "l2", memory=9),
        "objective": lambda: create_objective("flat" if odd else "hxe", TREE),
        "objective's option": lambda: create_objective(
            "quadruplet", TREE, cpcc={"distance": "emd", "weight": 1 + odd}
        ),
        "the same": lambda: CPCCLoss(TREE, "swd", weight=1.0 if odd else 1),
    }
    criterion = made[kind]()
    if kind == "memory" and odd:
        criterion.memory.store(torch.ones(1, 3), np.array([2]))
    step = StepOutput(x, {"level2": torch.zeros(len(y), TREE.num_classes)}, y)
    call = partial(criterion, step) if isinstance(criterion, Objective) else partial(criterion, x, y)
    return [error_of(call), error_of(partial(CPCCLoss(TREE, "emd"), x, y))]


def exchange_case(rank: int, steps: int, parts: Parts) -> list[int]:
    """How many numbers every exchange of some steps sends."""
    sent: list[int] = []
    gather, reduce = dist.all_gather, dist.all_reduce

    def gathering(out: list[Tensor], own: Tensor) -> None:
        sent.append(own.numel())
        gather(out, own)

    def reducing(values: Tensor) -> None:
        sent.append(values.numel())
        reduce(values)

    dist.all_gather, dist.all_reduce = gathering, reducing
    try:
        criterion = CPCCLoss(TREE, "emd")
        for _ in range(steps):
            criterion(parts[rank][0].clone().requires_grad_(), parts[rank][1])
    finally:
        dist.all_gather, dist.all_reduce = gather, reduce
    return sent


def device_case(rank: int, options: dict[str, Any], batches: list[Parts], on_host: bool) -> Any:
    """Losses, gradients, terms of an objective and waits of some steps on a device that is none."""
    criterion, objective = CPCCLoss(TREE, **options), create_objective("rank", TREE, cpcc=options)
    seen = []
    with PretendDevice() as device:
        for module in objective.modules():
            module._buffers.update({name: device.upload(b) for name, b in module._buffers.items()})
        for x, y in (batch[rank] for batch in batches):
            z, one = device.upload(x.requires_grad_()), device.upload(torch.ones((), dtype=x.dtype))
            weight = device.upload(torch.ones(x.shape[1], TREE.num_classes, dtype=x.dtype))
            labels = y if on_host else device.upload(y)
            device.counts = Counts()
            loss = criterion(z, labels)
            (gradient,) = torch.autograd.grad(loss, z, one)
            terms = objective(StepOutput(z, {"level2": z @ weight}, labels))
            told = {name: term.held.item() for name, term in terms.items()}
            seen.append((loss.held.item(), gradient.held, told, device.counts.waits))
    return seen
