"""Commands run one after the other in one new process, with other modules to be found than in this one."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from forked import call_forked

__all__ = ["Outcome", "copy_library", "forget_library", "run_commands"]

# Exit code and what was printed.
Outcome = tuple[int, str]


def run_commands(
    folder: Path, commands: Sequence[Sequence[str]], then: str = "", arguments: Sequence[str] = ()
) -> tuple[list[Outcome], Any]:
    """Run commands in a folder whose modules come before the installed ones.

    Args:
        folder: The folder.
        commands: Words of each command.
        then: Code to run after them, which may set `answer` to something that can be pickled.
        arguments: What the code finds in `arguments`.

    Returns:
        The outcome of each command, and the answer.
    """
    outcomes, answer = call_forked(_run, folder, commands, then, arguments)
    return outcomes, answer


def _run(folder: Path, commands: Sequence[Sequence[str]], then: str, arguments: Sequence[str]) -> Any:
    os.chdir(folder)
    os.environ["COLUMNS"] = "200"
    sys.path.insert(0, str(folder))
    forget_library()
    main = importlib.import_module("cophenet.cli").main
    outcomes = []
    for command in commands:
        with contextlib.redirect_stdout(io.StringIO()) as text, contextlib.redirect_stderr(text):
            try:
                main(command)
            except SystemExit as end:
                outcomes.append((end.code, text.getvalue()))
    names = {"arguments": arguments, "answer": None}
    exec(then, names)
    return outcomes, names["answer"]


def forget_library() -> None:
    """Have the modules of the library imported anew, from where they are found first."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "cophenet"]:
        del sys.modules[name]
    importlib.invalidate_caches()


def copy_library(folder: Path) -> Path:
    """A copy of the library in a folder, to which files can be added."""
    import shutil

    import cophenet

    package = folder / "cophenet"
    shutil.copytree(Path(cophenet.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    return package
