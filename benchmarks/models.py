"""Forward and backward of ResNets on CPU by memory layout and precision."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn.functional import cross_entropy

from cophenet.models import Network, build_heads, create_backbone
from cophenet.models.resnet import ResNet
from cophenet.objectives import HeadSpec
from timing import best_times, table, write_json

CLASSES = 100
CASES = {
    "resnet18-w16": (64, (3, 32, 32)),
    "resnet10-w24": (128, (1, 8, 8)),
    "resnet18": (16, (3, 32, 32)),
}
LAYOUTS = {"contiguous": False, "channels_last": True}


def step(name: str, channels_last: bool, half: bool) -> Callable[[], None]:
    """Forward and backward with cross entropy, in a memory layout and precision."""
    torch.manual_seed(0)
    batch, shape = CASES[name]
    backbone = create_backbone(name, input_shape=shape, stem="cifar")
    assert isinstance(backbone, ResNet)
    backbone.channels_last = channels_last
    network = Network(backbone, build_heads([HeadSpec("class", 1, CLASSES)], backbone.num_features))
    images, labels = torch.randn(batch, *shape), torch.randint(CLASSES, (batch,))

    def run() -> None:
        network.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            logits = network(images).logits["class"]
        cross_entropy(logits.float(), labels).backward()  # type: ignore[no-untyped-call]

    return run


def measure(name: str) -> dict[str, float]:
    """Images per second of each variant; bfloat16 once only, it takes long where a CPU emulates it."""
    seconds: dict[str, float] = {}
    for half, repeats in ((False, 6), (True, 1)):
        kind = " bf16" if half else ""
        tasks = {f"{layout}{kind}": step(name, last, half) for layout, last in LAYOUTS.items()}
        seconds |= best_times(tasks, repeats)
    return {variant: CASES[name][0] / time for variant, time in seconds.items()}


def main() -> None:
    """Print the table and write it."""
    torch.set_num_threads(1)  # with more, waiting for a shared core hides the difference
    results = {name: measure(name) for name in CASES}
    rows = []
    for name, speeds in results.items():
        batch, shape = CASES[name]
        size = " x ".join(map(str, (batch, *shape)))
        base = speeds["contiguous"]
        rows += [[name, size, v, f"{s:.1f}", f"{s / base:.2f}"] for v, s in speeds.items()]
    title = "Forward + backward, CIFAR stem, 1 thread"
    print(table(title, ["backbone", "inputs", "variant", "images/s", "of contiguous"], rows))
    write_json("models", {"capability": torch.backends.cpu.get_cpu_capability(), "images_per_s": results})


if __name__ == "__main__":
    main()
