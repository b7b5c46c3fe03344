"""Commands run one after the other in one new process, with other modules to be found than in this one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["Outcome", "copy_library", "run_commands"]

# Exit code and what was printed.
Outcome = tuple[int, str]

_RUN = """
import contextlib, io, json, sys
from cophenet.cli import main
outcomes = []
for command in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as text, contextlib.redirect_stderr(text):
        try:
            main(command)
        except SystemExit as end:
            outcomes.append((end.code, text.getvalue()))
answer = None
{then}
print(json.dumps([outcomes, answer]))
"""


def run_commands(
    folder: Path, commands: Sequence[Sequence[str]], then: str = "", arguments: Sequence[str] = ()
) -> tuple[list[Outcome], object]:
    """Run commands in a folder whose modules come before the installed ones.

    Args:
        folder: The folder.
        commands: Words of each command.
        then: Code to run after them, which may set `answer` to something that JSON can hold.
        arguments: What the code finds in `sys.argv[2:]`.

    Returns:
        The outcome of each command, and the answer.
    """
    import cophenet

    source = Path(cophenet.__file__).parents[1]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(folder), str(source)]),
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "200",
    }
    done = subprocess.run(
        [sys.executable, "-c", _RUN.replace("{then}", then), json.dumps(commands), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    outcomes, answer = json.loads(done.stdout.splitlines()[-1])
    return [(code, text) for code, text in outcomes], answer


def copy_library(folder: Path) -> Path:
    """A copy of the library in a folder, to which files can be added."""
    import shutil

    import cophenet

    package = folder / "cophenet"
    shutil.copytree(Path(cophenet.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    return package
