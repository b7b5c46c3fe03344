"""Kill commands with `kill -9` at random moments, give them again, and compare with those left alone.

    python tests/soak/kill_and_resume.py --kills 50

Trainings are resumed; evaluate, embed, predict, search, report and reproduce are given once more. After every
kill each file is the old one or the new one, and at the end all are those of a command that was never killed,
bit for bit but for the times in them, and no temporary file is left over. Prints a line for each round and a
summary; exits with 1 if anything differs.
"""

from __future__ import annotations

import argparse
import importlib
import os
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from cophenet.models.vector_cache import VectorCache
from killed_commands import COMMANDS, CommandCase, prepare
from trainings import CACHE, TRAININGS, TrainingCase, write_images

_NAMES = (*TRAININGS, *COMMANDS)


def main(words: Sequence[str] | None = None) -> int:
    """Go through the cases, as many kills in each, until there were enough."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--per-run", type=int, default=3, help="Most kills of one run before it may end.")
    parser.add_argument("--cases", nargs="+", default=list(_NAMES), choices=_NAMES)
    parser.add_argument("--seed", type=int, default=None)
    arguments = parser.parse_args(words)
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(10**6)
    torch.set_num_threads(1)
    os.environ["COPHENET_CACHE"] = CACHE
    VectorCache.shard = 64  # so that the few images are several
    import_all(arguments.cases)
    with tempfile.TemporaryDirectory() as name:
        kills, differences = kill_all(arguments, Path(name).resolve(), random.Random(seed))
    print(f"seed {seed}\n{kills} kills, {differences} differences")
    return int(differences > 0)


def kill_all(arguments: argparse.Namespace, root: Path, rng: random.Random) -> tuple[int, int]:
    """Kill the cases in turn; how many kills there were, and how many rounds with a difference."""
    write_images(root / "data")
    began = time.monotonic()
    prepare(root / "prepared", tuple(name for name in arguments.cases if name in COMMANDS))
    print(f"prepared in {time.monotonic() - began:.0f} s", flush=True)
    counts = dict.fromkeys(arguments.cases, 0)
    cases: dict[str, TrainingCase | CommandCase] = {}
    differences = 0
    while (total := sum(counts.values())) < arguments.kills:
        name = min(counts, key=counts.__getitem__)
        began = time.monotonic()
        if name not in cases:
            cases[name] = (TrainingCase if name in TRAININGS else CommandCase)(name, root)
        share = max(arguments.kills // len(counts) - counts[name], 1)
        kills, wrong = cases[name].kill(min(share, arguments.per_run, arguments.kills - total), rng)
        counts[name] += kills
        differences += bool(wrong)
        result = "DIFFERS: " + ", ".join(wrong) if wrong else "same"
        print(f"{name}: {kills} kills, {result}, {time.monotonic() - began:.0f} s", flush=True)
    return total, differences


def import_all(names: list[str]) -> None:
    """Import what the commands will, so that killed processes were at work, not at importing."""
    modules = ["lightning.pytorch.loggers", "torch.utils.tensorboard", "cophenet.runs.callbacks"]
    if COMMANDS.keys() & names:
        modules += ["cophenet.estimator.vector_files", "cophenet.evaluation.protocol", "safetensors.torch"]
    if {"report", "reproduce"} & {*names}:
        modules += ["cophenet.paper.pipeline", "cophenet.report.page_data", "sklearn.manifold", "umap"]
    for module in modules:
        importlib.import_module(module)


if __name__ == "__main__":
    sys.path.append(str(Path(__file__).resolve().parent))
    sys.exit(main())
