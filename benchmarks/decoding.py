"""JPEG folders: images per second against bare decoding of the same files with pillow."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageEnhance
from torch import Tensor

from cophenet import Hierarchy
from cophenet.data.augmentation import BREEDS_CROP, CentreCrop
from cophenet.data.dataset import Samples
from cophenet.data.image_files import ImageFiles
from cophenet.data.image_folders import IMAGENET_MEAN, IMAGENET_STD
from cophenet.data.loader import Loader
from timing import best_times, table, write_json

COUNT = 192
# Worker processes take a while to start, so loaders go through the files this many times.
ROUNDS = 6
BATCH = 32
WIDTH, HEIGHT = 500, 375
SIDE = 224


def photograph(draw: np.random.Generator) -> Image.Image:
    """Noise of all scales, as much to decode as a photograph of ImageNet (about 110 kB)."""
    pixels = np.zeros((HEIGHT, WIDTH, 3))
    for cells, strength in ((3, 60.0), (12, 40.0), (50, 20.0), (250, 18.0)):
        coarse = draw.normal(0, strength, (cells * 3 // 4, cells, 3)).astype(np.float32)
        layers = [np.asarray(Image.fromarray(coarse[:, :, c]).resize((WIDTH, HEIGHT))) for c in range(3)]
        pixels += np.stack(layers, axis=2)
    return Image.fromarray(np.clip(pixels + 128, 0, 255).astype(np.uint8))


def decode(paths: Iterable[str]) -> None:
    """Decode files with pillow, and nothing else."""
    for path in paths:
        with Image.open(path) as image:
            image.load()


def step_by_step(path: str, seed: int) -> Tensor:
    """The training view as commonly written: decode all, cut, resize, mirror, one filter for each light."""
    with Image.open(path) as opened:
        image = opened.convert("RGB")
    view = BREEDS_CROP.view(image.width, image.height, seed)
    left, top, right, bottom = (round(edge) for edge in view.box)
    image = image.crop((left, top, right, bottom)).resize((SIDE, SIDE), Image.Resampling.BILINEAR)
    if view.mirrored:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    filters = (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color)
    for kind, factor in zip(filters, view.light or (1.0, 1.0, 1.0), strict=True):
        image = kind(image).enhance(factor)
    return torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous()


def tasks(paths: list[str], pool: ThreadPoolExecutor) -> dict[str, Callable[[], object]]:
    """Ways to go through all files once, with a loader several times."""
    files = ImageFiles(paths, CentreCrop(SIDE, 256), BREEDS_CROP)
    rows = np.arange(COUNT)
    batches: list[NDArray[np.int64]] = [rows[i : i + BATCH] for i in range(0, COUNT, BATCH)]
    tree = Hierarchy.from_paths([("all", "one"), ("all", "two")])
    often = np.tile(rows, ROUNDS)
    samples = Samples(files, often, often % 2, tree)

    def load(workers: int) -> None:
        loader = Loader(
            samples,
            BATCH,
            mean=IMAGENET_MEAN,
            std=IMAGENET_STD,
            shuffle=True,
            augment="views",
            workers=workers,
        )
        for _ in loader:
            pass

    return {
        "pillow decoding only": lambda: decode(paths),
        "pillow decoding only, 2 threads": lambda: list(pool.map(decode, (paths[::2], paths[1::2]))),
        "training, step by step": lambda: [
            torch.stack([step_by_step(paths[row], row) for row in batch]) for batch in batches
        ],
        "evaluation": lambda: [files.take(batch) for batch in batches],
        "training": lambda: [files.augmented(batch, batch) for batch in batches],
        "training, 2 threads": lambda: list(pool.map(lambda batch: files.augmented(batch, batch), batches)),
        "Loader, 0 workers": lambda: load(0),
        "Loader, 2 workers": lambda: load(2),
    }


def counting(name: str, task: Callable[[], object], least: dict[str, float]) -> Callable[[], None]:
    """A task that notes its least seconds of processor time, its workers' included."""

    def run() -> None:
        before = sum(os.times()[:4])
        task()
        least[name] = min(least.get(name, float("inf")), sum(os.times()[:4]) - before)

    return run


def sentence(results: dict[str, Any]) -> str:
    """What was measured, for a page."""
    rates = {name: f"{rate:,.0f}" for name, rate in results["images per second"].items()}
    return (
        f"JPEG files ({WIDTH} x {HEIGHT}, to {SIDE} x {SIDE}), training view: {rates['training']} images/s "
        f"by the clock on one core and {rates['training, 2 threads']} on two, where bare Pillow decoding "
        f"makes {rates['pillow decoding only']} and {rates['pillow decoding only, 2 threads']}; "
        f"a step-by-step Pillow pipeline makes {rates['training, step by step']} on one."
    )


def main() -> None:
    """Print the table and write it."""
    # As in a worker process; and other threads would only wait for each other on a busy machine.
    torch.set_num_threads(1)
    draw = np.random.default_rng(0)
    used: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        paths = [str(Path(folder) / f"{number}.jpg") for number in range(COUNT)]
        for path in paths:
            photograph(draw).save(path, quality=95)
        kilobytes = sum(Path(path).stat().st_size for path in paths) / COUNT / 1000
        ways = {name: counting(name, task, used) for name, task in tasks(paths, pool).items()}
        seconds = best_times(ways, repeats=5)
    counts = {name: COUNT * (ROUNDS if name.startswith("Loader") else 1) for name in ways}
    rates = {name: counts[name] / seconds[name] for name in ways}
    milliseconds = {name: 1000 * used[name] / counts[name] for name in ways}
    bare = rates["pillow decoding only"]
    rows = [
        [name, f"{rates[name]:.0f}", f"{rates[name] / bare:.2f}", f"{milliseconds[name]:.2f}"]
        for name in ways
    ]
    title = f"{WIDTH} x {HEIGHT} JPEG of {kilobytes:.0f} kB to {SIDE} x {SIDE}"
    print(table(title, ["what", "images/s", "of bare decoding", "processor ms/image"], rows))
    results = {"images per second": rates, "processor milliseconds per image": milliseconds}
    write_json("decoding", {"kilobytes per file": kilobytes, **results})


if __name__ == "__main__":
    main()
