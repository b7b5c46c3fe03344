"""Timing studies in a separate process with one thread."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

from cophenet._common.checks import check_choice
from cophenet.paper.synthetic import StudySettings, synthetic_study
from cophenet.paper.timing import time_steps

__all__ = ["run_isolated"]

_HUGE = str(1 << 40)
# If the C library returns large blocks to the system, every call pays for fresh pages, which makes times jump
# regardless of the work. These settings make glibc keep the blocks; other libraries ignore them.
_ENVIRONMENT = {
    "MALLOC_MMAP_THRESHOLD_": _HUGE,
    "MALLOC_TRIM_THRESHOLD_": _HUGE,
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
_RESULT = "= "
# Modules are searched where this process searches them, not in the current folder, which may be untrusted.
_START = (
    "import sys; sys.path[:] = sys.argv.pop(1).split(chr(10)); "
    "from cophenet.paper.isolated import _main; _main(*sys.argv[1:])"
)
_RUNNERS: dict[str, Callable[[dict[str, Any], Callable[[str], None]], dict[str, Any]]] = {
    "synthetic": lambda settings, tell: synthetic_study(StudySettings(**settings), tell=tell),
    "steps": lambda settings, tell: time_steps(**settings, tell=tell),
}


def run_isolated(
    study: str, settings: Mapping[str, Any] | None = None, tell: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """Run a timing study in a new process with one thread.

    Args:
        study: "synthetic" for `synthetic_study`, "steps" for `time_steps`.
        settings: Its settings by name; None for its defaults.
        tell: Called with a line about every step.

    Returns:
        What the study returns.

    Raises:
        RuntimeError: If the process fails; the message says why.
        ValueError: If there is no such study.

    Example:
        >>> run_isolated("speed")
        Traceback (most recent call last):
        ValueError: study must be one of synthetic, steps, got 'speed'
    """
    check_choice("study", study, _RUNNERS)
    path, given = "\n".join(sys.path), json.dumps(dict(settings or {}))
    command = [sys.executable, "-c", _START, path, study, given]
    lines: list[str] = []
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **_ENVIRONMENT},
    ) as child:
        assert child.stdout is not None
        for line in child.stdout:
            lines.append(line.rstrip("\n"))
            if line.startswith("- "):
                tell(lines[-1][2:])
    results = [line.removeprefix(_RESULT) for line in lines if line.startswith(_RESULT)]
    if child.returncode or not results:
        raise RuntimeError(f"the study {study!r} failed: {lines[-1] if lines else 'it said nothing'}")
    result: dict[str, Any] = json.loads(results[-1])
    return result


def _main(study: str, settings: str) -> None:
    """Run the study in the new process; print a line about every step, and the result as a line of JSON.

    Each line begins with a marker, because packages may print at any time, even while the process ends.
    """
    result = _RUNNERS[study](json.loads(settings), lambda line: print(f"- {line}", flush=True))
    print(_RESULT + json.dumps(result, allow_nan=False), flush=True)
