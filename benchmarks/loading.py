"""CIFAR batches, padded, cropped, flipped, turned and normalized: whole batches against image by image.

The image-by-image way is what a data loader without workers does: an image of Pillow for each sample, the
steps one after the other, a tensor for each, stacked. One thread for both: Pillow has no more, and where the
cores are shared the wait for a second one costs more than it saves.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from cophenet.data.cifar import CIFAR100_MEAN, CIFAR100_STD, cifar100_tree
from cophenet.data.dataset import ArrayInputs, Samples
from cophenet.data.loader import Loader
from timing import best_times, table, write_json

IMAGES, BATCH, REPEATS = 5120, 128, 10
PAD, DEGREES = 4, 15.0
GOAL_PER_SECOND, GOAL_RATIO = 10_000, 5


def cifar_like() -> Samples:
    """As many images of noise as are measured; how long they take does not depend on what they show."""
    rng = np.random.default_rng(0)
    pixels = torch.from_numpy(rng.integers(0, 256, (IMAGES, 3, 32, 32), dtype=np.uint8))
    return Samples(ArrayInputs(pixels), np.arange(IMAGES), np.arange(IMAGES) % 100, cifar100_tree())


def whole_batches(loader: Loader) -> None:
    """One epoch."""
    for inputs, labels in loader:
        assert len(inputs) == len(labels)


def image_by_image(pixels: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> None:
    """One epoch with Pillow; the pixels are (n, height, width, channels)."""
    rng = np.random.default_rng(0)
    mean, std = (torch.tensor(values)[:, None, None] for values in (CIFAR100_MEAN, CIFAR100_STD))
    order = rng.permutation(len(pixels))
    for start in range(0, len(pixels), BATCH):
        rows = order[start : start + BATCH]
        torch.stack([(augmented(pixels[row], rng) - mean) / std for row in rows])


def augmented(pixels: np.ndarray[tuple[int, ...], np.dtype[np.uint8]], rng: np.random.Generator) -> Tensor:
    """One image through all steps; (3, 32, 32), 0..1."""
    top, left = rng.integers(0, 2 * PAD + 1, 2).tolist()
    image = ImageOps.expand(Image.fromarray(pixels), PAD).crop((left, top, left + 32, top + 32))
    if rng.random() < 0.5:
        image = ImageOps.mirror(image)
    image = image.rotate(rng.uniform(-DEGREES, DEGREES), Image.Resampling.NEAREST)
    return torch.from_numpy(np.array(image)).permute(2, 0, 1).float().div(255)


def sentence(results: dict[str, Any]) -> str:
    """What was measured, for a page."""
    rates = results["images/s"]
    ours, slow = rates["whole batches"], rates["image by image, Pillow"]
    return (
        f"CIFAR batches of {results['batch']} with the paper's pad, crop, flip and rotation, on one core: "
        f"{ours:,.0f} images/s by the clock, {ours / slow:.1f} times a Pillow pipeline image by image "
        f"({slow:,.0f})."
    )


def main() -> None:
    """Print the table and write it."""
    torch.set_num_threads(1)
    samples = cifar_like()
    pixels = samples.take(samples.rows)[0].permute(0, 2, 3, 1).contiguous().numpy()
    augmenting, plain = (
        Loader(samples, BATCH, mean=CIFAR100_MEAN, std=CIFAR100_STD, shuffle=True, augment=augment)
        for augment in ("cifar", "none")
    )
    tasks = {
        "whole batches": lambda: whole_batches(augmenting),
        "whole batches, not augmented": lambda: whole_batches(plain),
        "image by image, Pillow": lambda: image_by_image(pixels),
    }
    rates = {name: IMAGES / seconds for name, seconds in best_times(tasks, REPEATS).items()}
    slow = rates["image by image, Pillow"]
    rows = [[name, f"{rate:,.0f}", f"{rate / slow:.1f}"] for name, rate in rates.items()]
    title = f"CIFAR images a second, batches of {BATCH}, one thread"
    print(table(title, ["way", "images/s", "times Pillow"], rows))
    rate = rates["whole batches"]
    print(
        f"goal: {GOAL_PER_SECOND:,} images/s or {GOAL_RATIO} times Pillow; {rate:,.0f}, {rate / slow:.1f}\n"
    )
    content = {"goal": [GOAL_PER_SECOND, GOAL_RATIO], "batch": BATCH, "threads": 1, "images/s": rates}
    print(write_json("loading", content))


if __name__ == "__main__":
    main()
