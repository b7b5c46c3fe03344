"""Steps on one, two and three processes: time, the share of CPCC and of exchanges, and bytes sent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from cophenet import CPCCLoss, Hierarchy
from cophenet.models import create_backbone
from timing import table, write_json

CLASSES, WIDTH = 100, 512
LOSS_BATCH, STEP_BATCH = 480, 24
DISTANCES = ("l2", "fastft", "emd")
COUNTS = (1, 2, 3)
TREE = Hierarchy.from_paths([(f"group{c // 5}", f"class{c}") for c in range(CLASSES)])


class Meter:
    """Seconds and bytes of the exchanges that a process takes part in."""

    def __init__(self) -> None:
        self.seconds, self.sent, self.calls = 0.0, 0, 0

    def watch(self, name: str, which: int) -> None:
        """Count a function of torch.distributed whose argument number `which` is what is sent."""
        plain: Callable[..., Any] = getattr(dist, name)

        def counted(*given: Any, **options: Any) -> Any:
            start = time.perf_counter()
            out = plain(*given, **options)
            self.seconds += time.perf_counter() - start
            self.sent += given[which].numel() * given[which].element_size()
            self.calls += 1
            return out

        setattr(dist, name, counted)


def own_rows(values: Tensor) -> Tensor:
    """This process's part of a batch."""
    return values.tensor_split(dist.get_world_size())[dist.get_rank()]


def loss_alone(name: str, meter: Meter, repeats: int = 5) -> dict[str, float]:
    """Forward and backward of the loss alone, on a global batch of fixed size; best of several."""
    criterion = CPCCLoss(TREE, name)
    torch.manual_seed(0)
    z, y = (
        own_rows(torch.randn(LOSS_BATCH, WIDTH)).requires_grad_(),
        own_rows(torch.arange(LOSS_BATCH) % CLASSES),
    )
    best = {"ms": float("inf")}
    for _ in range(repeats):
        dist.barrier()
        meter.__init__()  # type: ignore[misc]
        start = time.perf_counter()
        criterion(z, y).backward()
        seconds = time.perf_counter() - start
        if 1e3 * seconds < best["ms"]:
            exchange = 1e3 * meter.seconds
            best = {"ms": 1e3 * seconds, "exchange_ms": exchange, "bytes": meter.sent, "calls": meter.calls}
    return best


def network_step(meter: Meter, repeats: int = 1) -> dict[str, float]:
    """A step of ResNet-18 on CIFAR images with fastft, under DistributedDataParallel."""
    torch.manual_seed(0)
    backbone = create_backbone("resnet18", input_shape=(3, 32, 32), stem="cifar")
    model = DistributedDataParallel(backbone)
    head, criterion = nn.Linear(WIDTH, CLASSES), CPCCLoss(TREE, "fastft")
    x, y = own_rows(torch.randn(STEP_BATCH, 3, 32, 32)), own_rows(torch.arange(STEP_BATCH))
    best = {"ms": float("inf")}
    for _ in range(repeats + 1):
        dist.barrier()
        meter.__init__()  # type: ignore[misc]
        start = time.perf_counter()
        z = model(x)
        before = time.perf_counter()
        loss = criterion(z, y)
        inside = time.perf_counter() - before
        (loss + cross_entropy(head(z), y)).backward()
        seconds = time.perf_counter() - start
        if 1e3 * seconds < best["ms"]:
            best = {"ms": 1e3 * seconds, "cpcc_ms": 1e3 * inside, "exchange_ms": 1e3 * meter.seconds}
    return best


def serve(rank: int, count: int, meeting: str) -> None:
    """One of several processes; the first prints what it measured."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=count)
    meter = Meter()
    meter.watch("all_gather", 1)
    meter.watch("all_reduce", 0)
    measured: dict[str, Any] = {name: loss_alone(name, meter) for name in DISTANCES}
    measured["step"] = network_step(meter)
    if rank == 0:
        print(json.dumps(measured))
    dist.destroy_process_group()


def measure(count: int) -> dict[str, Any]:
    """Start the processes and read what the first one measured."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__]
        places = [[str(rank), str(count), str(Path(folder) / "meeting")] for rank in range(count)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        started = [
            subprocess.Popen([*command, *place], stdout=subprocess.PIPE, text=True, env=environment)
            for place in places
        ]
        texts = [process.communicate()[0] for process in started]
    result: dict[str, Any] = json.loads(texts[0].strip().splitlines()[-1])
    return result


def main() -> None:
    """Print the tables and write them."""
    results = {count: measure(count) for count in COUNTS}
    rows = []
    for name in DISTANCES:
        found = [results[count][name] for count in COUNTS]
        times = [f"{one['ms']:.1f}" for one in found]
        shares = [f"{one['exchange_ms']:.1f}" for one in found[1:]]
        rows.append([name, *times, *shares, f"{found[-1]['bytes']}", f"{found[-1]['calls']}"])
    title = f"CPCC forward + backward, ms; global batch {LOSS_BATCH}, k={CLASSES}, d={WIDTH}, 1 thread each"
    header = ["distance", "1", "2", "3 processes", "exchange, 2", "exchange, 3", "bytes sent, 3", "calls"]
    print(table(title, header, rows))
    steps = []
    for count in COUNTS:
        step = results[count]["step"]
        parts = [f"{100 * step[key] / step['ms']:.2f}" for key in ("cpcc_ms", "exchange_ms")]
        steps.append([str(count), f"{step['ms']:.0f}", *parts])
    title = f"ResNet-18 step with fastft, global batch {STEP_BATCH} of 32 x 32 images"
    print(table(title, ["processes", "ms", "% in CPCC", "% in its exchanges"], steps))
    write_json("distributed", {str(count): result for count, result in results.items()})


if __name__ == "__main__":
    if len(sys.argv) > 1:
        serve(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
    else:
        main()
