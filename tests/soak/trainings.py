"""Trainings that are killed and resumed, and compared with one that was left alone."""

from __future__ import annotations

import random
import shlex
import shutil
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from cophenet.runs import Run
from cophenet.runs.checkpoints import read_checkpoint
from killing import Moment, different, left_over, read_files, run

SMALL_IMAGES = ["data.image_size=32", "model.backbone=resnet10-w8", "epochs=3", "batch_size=16"]
# Each has something that must survive: a generator, dropout, momentum, phases, batch norm, workers, a cache.
TRAININGS: dict[str, tuple[str, list[str]]] = {
    "swd-dropout": (
        "digits",
        ["objective.name=swd", "epochs=6", "model={backbone: 'trainings:Dropped'}", "batch_size=32"],
    ),
    "curriculum": (
        "digits",
        ["objective.name=curriculum", "epochs=5", "schedule.every=2"],
    ),
    "adamw-features": (
        "digits",
        ["optimizer={name: adamw, lr: 1e-3}", "epochs=5", "save_features_every=2", "data.validation=0.2"],
    ),
    "seeds": ("digits", ["epochs=3", "seeds=[0, 1]", "save_features_every=2"]),
    "images": (
        "folder",
        [*SMALL_IMAGES, "data.workers=0"],
    ),
    "images-workers": (
        "folder",
        [*SMALL_IMAGES, "data.workers=2"],
    ),
    "frozen": (
        "folder",
        [
            "data={name: folder, domain: full, image_size: 32, augment: views}",
            *("model.views=1", "model.neck.hidden=[16]", "epochs=3", "batch_size=16"),
        ],
    ),
}


# Where vectors are kept, in the folder of a training.
CACHE = "cache"


class Dropped(nn.Module):
    """A network whose every step draws random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.3), nn.Linear(64, 32)
        )

    def forward(self, inputs: Tensor) -> Tensor:
        """(B, 1, 8, 8) -> (B, 32)."""
        out: Tensor = self.layers(inputs)
        return out


def write_images(folder: Path, per_class: int = 20) -> None:
    """Two groups of two classes, noise around a colour of each."""
    from PIL import Image

    rng = np.random.default_rng(0)
    for number, name in enumerate(("animal/cat", "animal/dog", "thing/cup", "thing/pen")):
        place = folder / name
        place.mkdir(parents=True)
        for index in range(per_class):
            pixels = rng.integers(0, 120, (32, 32, 3)) + np.array([number * 30, 60, 120 - number * 30])
            Image.fromarray(pixels.astype(np.uint8)).save(place / f"{index}.png")


class TrainingCase:
    """One training: killed at random moments and resumed until it ends.

    Args:
        name: Name of the training.
        root: Folder to work in; `data` has images.
    """

    def __init__(self, name: str, root: Path) -> None:
        self.name, self.root, self.rounds = name, root, 0
        folder = self._new_folder("alone")
        self.whole = run(self._line(folder, 10.0), folder)
        self.alone = Run.open(folder / "run")

    def kill(self, kills: int, rng: random.Random) -> tuple[int, list[str]]:
        """Kill the training some times and let it end; how often it was really killed, and what is wrong."""
        self.rounds += 1
        folder = self._new_folder(str(self.rounds))
        done = 0
        while True:
            moment = Moment.draw(rng, self.whole) if done < kills else None
            if not run(self._line(folder, rng.choice((0.0, 0.001, 10.0))), folder, moment).killed:
                break
            done += 1
        pairs = zip(self.alone.parts, Run.open(folder / "run").parts, strict=True)
        wrong = [name for pair in pairs for name in differences_of_seed(*pair)] + left_over(folder)
        caches = (place / CACHE for place in (self.alone.path.parent, folder))
        wrong += different(*map(read_files, caches))
        shutil.rmtree(folder)
        return done, wrong

    def _new_folder(self, ending: str) -> Path:
        folder = self.root / f"{self.name}-{ending}"
        folder.mkdir()
        return folder

    def _line(self, folder: Path, minutes: float) -> str:
        """What a user types: train, and after a crash resume."""
        data, settings = TRAININGS[self.name]
        words = ["cophenet", "train"]
        if (folder / "run" / "recipe.yaml").is_file():
            words += ["--resume", "run", "--trust"]
        else:
            words += [data, "-o", "run", "--threads", "1"]
            words += ["--scale", "scratch"] if self.name.startswith("images") else []
            words += [word for setting in settings for word in ("--set", setting)]
        words += ["--data-dir", "../data"] if data == "folder" else []
        return shlex.join([*words, "--checkpoint-minutes", str(minutes)])


def differences_of_seed(one: Run, other: Run) -> list[str]:
    """What is not the same in two runs of one seed."""
    a, b = (read_checkpoint(run.checkpoint()) for run in (one, other))
    wrong = [key for key in ("state_dict", "optimizer_states", "lr_schedulers") if not same(a[key], b[key])]
    rows = [[{k: v for k, v in row.items() if k != "seconds"} for row in run.metrics] for run in (one, other)]
    wrong += ["metrics.csv"] * (rows[0] != rows[1])
    features = [read_files(run.path / "features") for run in (one, other)]
    return [*wrong, *different(*features)]


def same(a: object, b: object) -> bool:
    """Whether two states are equal to the last bit."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b
