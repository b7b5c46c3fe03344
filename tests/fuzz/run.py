"""Fuzz for as long as wanted, or so many inputs: all targets of this folder in turn.

    python tests/fuzz/run.py --minutes 60
    python tests/fuzz/run.py --inputs 2300 --seed 0

Inputs of a target follow from the seed alone, one seed each. What fails is saved in `corpus/<target>/`, where
the tests try it again; the process goes on. It ends with how many inputs each target has seen, and exit code
1 if any failed. Before each input, the file given by `--log` says how to try it again, for those that end the
process itself.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import math
import os
import sys
import tempfile
import time
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

# How long one target has its turn.
_SECONDS = 1.0
# Failures of one target; more are seldom of another kind.
_MOST_SAVED = 20
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "src"), str(HERE.parent)]


def find_targets() -> list[Any]:
    """What the modules of this folder list in `TARGETS`."""
    from fuzz.harness import Target  # noqa: F401 - so that modules find it by the same name

    targets = []
    for file in sorted(HERE.glob("*.py")):
        if file.name not in ("run.py", "harness.py") and not file.name.startswith("test_"):
            module = importlib.import_module(f"fuzz.{file.stem}")
            targets += getattr(module, "TARGETS", ())
    return targets


def main() -> int:
    """Parse, fuzz, print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, help="for so long; 60 if no --inputs are given")
    parser.add_argument("--inputs", type=int, help="so many of every target, in place of a time")
    parser.add_argument("--target", action="append", help="only these, as 'tree-*'; may be repeated")
    parser.add_argument("--seed", type=int, help="of the first input of a target; the time if not given")
    parser.add_argument("--log", type=Path, default=Path(tempfile.gettempdir()) / "cophenet-fuzz.log")
    given = parser.parse_args()
    patterns = given.target or ["*"]
    targets = [target for target in find_targets() if any(fnmatch(target.name, one) for one in patterns)]
    tried, failed = fuzz(targets, given)
    for name in tried:
        print(f"{name}: {tried[name]} inputs, {failed[name]} failures")
    print(f"{sum(tried.values())} inputs, {sum(failed.values())} failures")
    return 1 if failed else 0


def fuzz(targets: list[Any], given: argparse.Namespace) -> tuple[Counter[str], Counter[str]]:
    """How many inputs of each target were tried, and how many failed."""
    first = int(time.time()) * 1000 if given.seed is None else given.seed
    most = math.inf if given.inputs is None else given.inputs
    minutes = given.minutes or (60.0 if given.inputs is None else math.inf)
    end = time.monotonic() + 60 * minutes
    tried: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    memory = Path("/dev/shm")
    with (
        tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder,
        given.log.open("wb") as log,
    ):
        while time.monotonic() < end and any(tried[target.name] < most for target in targets):
            for target in targets:
                turn = time.monotonic() + _SECONDS
                while time.monotonic() < turn and tried[target.name] < most:
                    seed = first + tried[target.name]
                    text = f"--target {target.name} --inputs 1 --seed {seed}\n"
                    os.pwrite(log.fileno(), text.ljust(80).encode(), 0)
                    tried[target.name] += 1
                    if not _succeeds(target, seed, Path(folder), save=failed[target.name] < _MOST_SAVED):
                        failed[target.name] += 1
    return tried, failed


def _succeeds(target: Any, seed: int, folder: Path, *, save: bool) -> bool:
    from fuzz.harness import CORPUS, Failure

    try:
        target.run(seed, folder)
    except Failure as failure:
        print(f"{target.name}, seed {seed}: {failure}", flush=True)
        if save:
            place = CORPUS / target.name
            place.mkdir(parents=True, exist_ok=True)
            (place / hashlib.sha256(failure.content).hexdigest()[:12]).write_bytes(failure.content)
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
