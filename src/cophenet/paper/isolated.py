"""Studies of time in a process of their own, so that what ran before does not show in them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

from cophenet._common.checks import check_choice

__all__ = ["run_isolated"]

_HUGE = str(1 << 40)
# A C library that gives large blocks back to the system makes every call pay for fresh pages, in steps that
# have nothing to do with the work: glibc is told to keep them. Others do not read these.
_ENVIRONMENT = {
    "MALLOC_MMAP_THRESHOLD_": _HUGE,
    "MALLOC_TRIM_THRESHOLD_": _HUGE,
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}


def _synthetic(settings: dict[str, Any], tell: Callable[[str], None]) -> dict[str, Any]:
    from cophenet.paper.synthetic import StudySettings, synthetic_study

    given: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in settings.items()}
    return synthetic_study(StudySettings(**given), tell=tell)


def _steps(settings: dict[str, Any], tell: Callable[[str], None]) -> dict[str, Any]:
    from cophenet.paper.timing import time_steps

    return time_steps(**settings, tell=tell)


_STUDIES = {"synthetic": _synthetic, "steps": _steps}


def run_isolated(
    study: str, settings: Mapping[str, Any] | None = None, tell: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """Run a study of time in a new process with one thread.

    Args:
        study: "synthetic" for `synthetic_study`, "steps" for `time_steps`.
        settings: Its settings by name; None for its own.
        tell: Gets a line about every step.

    Returns:
        What the study returns.

    Raises:
        RuntimeError: If the process fails; says why.
        ValueError: If there is no such study.

    Example:
        >>> run_isolated("speed")
        Traceback (most recent call last):
        ValueError: study must be one of synthetic, steps, got 'speed'
    """
    check_choice("study", study, _STUDIES)
    command = [sys.executable, "-m", "cophenet.paper.isolated", study, json.dumps(dict(settings or {}))]
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
    if child.returncode:
        raise RuntimeError(f"the study {study!r} failed: {lines[-1] if lines else 'it said nothing'}")
    result: dict[str, Any] = json.loads(lines[-1])
    return result


def _main(study: str, settings: str) -> None:
    """Print lines about what is done, then the result as one line of JSON."""
    result = _STUDIES[study](json.loads(settings), lambda line: print(f"- {line}", flush=True))
    print(json.dumps(result, allow_nan=False))


if __name__ == "__main__":
    _main(*sys.argv[1:])
