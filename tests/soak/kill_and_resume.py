"""Kill trainings with `kill -9` at random points, resume them, and compare with one that was left alone.

    python tests/soak/kill_and_resume.py --kills 20

Prints one line per run and a summary; exits with 1 if a weight, an optimizer state or a row of metrics.csv
differs in a single bit. Every training is a process of its own, forked from one that has imported everything,
so that most of the time is spent where it can be interrupted.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from cophenet.cli import main as command
from cophenet.runs import Run
from cophenet.runs.checkpoints import read_checkpoint

HERE = Path(__file__).resolve().parent

# Each has something that must survive: a generator, dropout, momentum, phases, batch norm, workers.
CASES: dict[str, tuple[str, list[str]]] = {
    "swd-dropout": (
        "digits",
        ["objective.name=swd", "epochs=6", "model={backbone: 'kill_and_resume:Dropped'}", "batch_size=32"],
    ),
    "curriculum": (
        "digits",
        ["objective.name=curriculum", "objective.options.curriculum.epochs=[2, 3]", "schedule.every=2"],
    ),
    "adamw-features": (
        "digits",
        ["optimizer={name: adamw, lr: 1e-3}", "epochs=5", "save_features_every=2", "data.validation=0.2"],
    ),
    "seeds": ("digits", ["epochs=3", "seeds=[0, 1]", "save_features_every=2"]),
    "images": (
        "folder",
        ["data.image_size=32", "data.workers=0", "model.backbone=resnet10-w8", "epochs=3", "batch_size=16"],
    ),
    "images-workers": (
        "folder",
        ["data.image_size=32", "data.workers=2", "model.backbone=resnet10-w8", "epochs=3", "batch_size=16"],
    ),
}


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


def in_child(action: Callable[[], object], log: Path) -> int:
    """Run something in a process of its own; its id."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        with log.open("a") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        action()
        code = 0
    except KeyboardInterrupt:
        code = 3
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", flush=True)
    finally:
        os._exit(code)


def exit_code(pid: int, timeout: float | None = None) -> int | None:
    """The exit code of a process, negative for a signal; None if it is still running after the timeout."""
    end = None if timeout is None else time.monotonic() + timeout
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if end is not None and time.monotonic() >= end:
            return None
        time.sleep(0.002)


def begin_or_resume(case: str, folder: Path, data: Path, minutes: float) -> None:
    """What a user does: train, and after a crash resume; by the command."""
    name, settings = CASES[case]
    if (folder / "recipe.yaml").is_file():
        arguments = ["--resume", str(folder), "--trust"]
    else:
        changed = [text for setting in settings for text in ("--set", setting)]
        arguments = [name, "-o", str(folder), "--threads", "1", *changed]
    arguments += ["--data-dir", str(data)] if name == "folder" else []
    try:
        command(["train", *arguments, "--checkpoint-minutes", str(minutes)])
    except SystemExit as ended:
        if ended.code:
            raise


def differences(one: Run, other: Run) -> list[str]:
    """What is not the same in the last checkpoints and the rows of two runs, seed by seed."""
    pairs = zip(one.parts, other.parts, strict=True)
    return [found for pair in pairs for found in differences_of_seed(*pair)]


def differences_of_seed(one: Run, other: Run) -> list[str]:
    """What is not the same in two runs of one seed."""
    a, b = (read_checkpoint(run.checkpoint()) for run in (one, other))
    found = [key for key in ("state_dict", "optimizer_states", "lr_schedulers") if not same(a[key], b[key])]
    rows = [[{k: v for k, v in row.items() if k != "seconds"} for row in run.metrics] for run in (one, other)]
    found += ["metrics.csv"] * (rows[0] != rows[1])
    names = [sorted(path.name for path in (run.path / "features").glob("*")) for run in (one, other)]
    found += ["features"] * (names[0] != names[1])
    for name in names[0]:
        path = Path("features", name)
        found += [name] * ((one.path / path).read_bytes() != (other.path / path).read_bytes())
    return found


def same(a: object, b: object) -> bool:
    """Whether two states are equal to the last bit."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


def kill_often(case: str, folder: Path, data: Path, seconds: float, kills: int, rng: random.Random) -> int:
    """Train a case to its end, killing it at random points; how often it was really killed."""
    done = 0
    log = folder.with_suffix(".log")
    while True:
        minutes = rng.choice((0.0, 0.001, 10.0))
        pid = in_child(lambda: begin_or_resume(case, folder, data, minutes), log)  # noqa: B023
        code = exit_code(pid, rng.uniform(0, seconds) if done < kills else None)
        if code is None:
            os.kill(pid, signal.SIGKILL)
            code = exit_code(pid)
            done += code == -signal.SIGKILL
        if code == 0:
            return done
        if code != -signal.SIGKILL:
            raise RuntimeError(f"{case}: training ended with {code}: {log.read_text().splitlines()[-1]}")


def main() -> int:
    """Go through the cases until there were enough kills."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--per-run", type=int, default=3)
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=CASES)
    parser.add_argument("--seed", type=int, default=None)
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(10**6)
    rng, total, wrong, runs = random.Random(seed), 0, 0, 0
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        write_images(root / "data")
        references: dict[str, tuple[Run, float]] = {}
        while total < arguments.kills:
            case = arguments.cases[runs % len(arguments.cases)]
            if case not in references:
                references[case] = reference(case, root)
            left_alone, seconds = references[case]
            folder = root / f"run{runs}"
            count = kill_often(case, folder, root / "data", seconds, arguments.per_run, rng)
            found = differences(left_alone, Run.open(folder))
            print(f"{case}: {count} kills, {'DIFFERS: ' + ', '.join(found) if found else 'same'}", flush=True)
            runs, total, wrong = runs + 1, total + count, wrong + bool(found)
    print(f"{total} kills in {runs} runs, {wrong} differ from an uninterrupted run (seed {seed})")
    return int(wrong > 0)


def reference(case: str, root: Path) -> tuple[Run, float]:
    """A run that is left alone, and how long it took."""
    folder, began = root / f"alone-{case}", time.monotonic()
    log = folder.with_suffix(".log")
    code = exit_code(in_child(lambda: begin_or_resume(case, folder, root / "data", 10.0), log))
    if code != 0:
        raise RuntimeError(f"{case}: training ended with {code}: {log.read_text().splitlines()[-1]}")
    return Run.open(folder), time.monotonic() - began


if __name__ == "__main__":
    import lightning.pytorch
    import lightning.pytorch.loggers
    from torch.utils import tensorboard

    import cophenet.runs.callbacks

    _ = lightning, tensorboard, cophenet
    sys.path.append(str(HERE))
    sys.exit(main())
