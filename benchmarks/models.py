"""Forward and backward of ResNets on CPU by memory layout and precision."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn.functional import cross_entropy

from cophenet.models import Network, build_heads, create_backbone
from cophenet.objectives import HeadSpec
from timing import best_times, table, write_json

CLASSES = 100
CASES = {
    "resnet18-w16": (128, (3, 32, 32)),
    "resnet10-w24": (128, (1, 8, 8)),
    "resnet18": (32, (3, 32, 32)),
}
LAYOUTS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}


def step(name: str, batch: int, shape: tuple[int, ...], layout: str, half: bool) -> Callable[[], None]:
    """Forward and backward with cross entropy, the weights in a layout; maps take on that of the weights."""
    torch.manual_seed(0)
    backbone = create_backbone(name, input_shape=shape, stem="cifar")
    network = Network(backbone, build_heads([HeadSpec("class", 1, CLASSES)], backbone.num_features))
    network.to(memory_format=LAYOUTS[layout])  # type: ignore[call-overload]
    images, labels = torch.randn(batch, *shape), torch.randint(CLASSES, (batch,))

    def run() -> None:
        network.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            logits = network(images).logits["class"]
        cross_entropy(logits.float(), labels).backward()  # type: ignore[no-untyped-call]

    return run


def measure(name: str) -> dict[str, float]:
    """Images per second of each variant."""
    batch, shape = CASES[name]
    tasks = {
        f"{layout}{' bf16' if half else ''}": step(name, batch, shape, layout, half)
        for half in (False, True)
        for layout in LAYOUTS
    }
    return {variant: batch / seconds for variant, seconds in best_times(tasks, repeats=5).items()}


def main() -> None:
    """Print the table and write it."""
    torch.set_num_threads(2)
    results = {name: measure(name) for name in CASES}
    rows = []
    for name, speeds in results.items():
        batch, shape = CASES[name]
        size = " x ".join(map(str, (batch, *shape)))
        base = speeds["contiguous"]
        rows += [[name, size, v, f"{s:.0f}", f"{s / base:.2f}"] for v, s in speeds.items()]
    title = "Forward + backward, CIFAR stem, 2 threads"
    print(table(title, ["backbone", "inputs", "variant", "images/s", "of contiguous"], rows))
    write_json("models", {"capability": torch.backends.cpu.get_cpu_capability(), "images_per_s": results})


if __name__ == "__main__":
    main()
