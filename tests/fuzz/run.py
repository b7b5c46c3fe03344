"""Fuzz for as long as wanted: all targets of this folder in turn, each input from its own seed.

    python tests/fuzz/run.py --minutes 60

What fails is saved in `corpus/<target>/`, where the tests try it again; the process goes on. It ends with how
many inputs each target has seen, and exit code 1 if any failed. Before each input, the file given by `--log`
says how to try it again, for those that end the process itself.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

# How long one target has its turn.
_SECONDS = 1.0
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "src"), str(HERE.parent)]


def find_targets() -> list[Any]:
    """What the modules of this folder list in `TARGETS`."""
    from fuzz.harness import Target  # noqa: F401 - so that modules find it by the same name

    targets = []
    for file in sorted(HERE.glob("*.py")):
        if file.name not in ("run.py", "harness.py", "test_readers.py"):
            module = importlib.import_module(f"fuzz.{file.stem}")
            targets += getattr(module, "TARGETS", ())
    return targets


def main() -> int:
    """Parse, fuzz, print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--target", action="append", help="only this one; may be given several times")
    parser.add_argument("--seed", type=int, default=None, help="the first seed; the time if not given")
    parser.add_argument("--log", type=Path, default=Path(tempfile.gettempdir()) / "cophenet-fuzz.log")
    given = parser.parse_args()
    targets = [target for target in find_targets() if not given.target or target.name in given.target]
    from fuzz.harness import CORPUS, Failure

    seed = int(time.time()) * 1000 if given.seed is None else given.seed
    end = time.monotonic() + 60 * given.minutes
    tried: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    memory = Path("/dev/shm")
    with (
        tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder,
        given.log.open("wb") as log,
    ):
        while time.monotonic() < end and targets:
            for target in targets:
                turn = time.monotonic() + _SECONDS
                while time.monotonic() < turn:
                    os.pwrite(log.fileno(), f"--target {target.name} --seed {seed}\n".ljust(80).encode(), 0)
                    tried[target.name] += 1
                    try:
                        target.run(seed, Path(folder))
                    except Failure as failure:
                        failed[target.name] += 1
                        print(f"{target.name}, seed {seed}: {failure}", flush=True)
                        if failure.content and failed[target.name] <= 20:
                            place = CORPUS / target.name
                            place.mkdir(parents=True, exist_ok=True)
                            name = hashlib.sha256(failure.content).hexdigest()[:12]
                            (place / name).write_bytes(failure.content)
                    seed += 1
    for name in tried:
        print(f"{name}: {tried[name]} inputs, {failed[name]} failures")
    print(f"{sum(tried.values())} inputs, {sum(failed.values())} failures")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
