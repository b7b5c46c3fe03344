"""Commands in processes of their own that are killed with `kill -9`, and what they leave behind."""

from __future__ import annotations

import json
import os
import random
import re
import shlex
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cophenet._common.safe_paths import is_temporary
from cophenet.cli import main as cophenet

# File -> its content; of text with times, the content without them.
Files = Mapping[str, bytes]

_CHANGES = ("os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.truncate")
# What is nobody's result: logs, locks, events with the time in them.
_NO_RESULT = re.compile(r"(.*/)?(lock|[^/]*\.lock|log\.txt|tensorboard/.*)")


@dataclass(frozen=True)
class Moment:
    """When to kill: after some seconds, or just before one of the changes of files, counted from 0."""

    seconds: float | None = None
    change: int | None = None

    @classmethod
    def draw(cls, rng: random.Random, whole: Ended) -> Moment:
        """Any moment of a command that was left alone, or any of its changes of files, as likely."""
        if whole.changes and rng.random() < 0.5:
            return cls(change=rng.randrange(whole.changes))
        return cls(seconds=rng.uniform(0, whole.seconds))


@dataclass(frozen=True)
class Ended:
    """What became of a command.

    Attributes:
        code: Its exit code, negative for a signal.
        seconds: How long it took.
        changes: How many files and folders it made, replaced or removed; 0 if it was killed.
    """

    code: int
    seconds: float
    changes: int

    @property
    def killed(self) -> bool:
        """Whether it was."""
        return self.code == -signal.SIGKILL


def run(line: str, folder: Path, moment: Moment | None = None) -> Ended:
    """Run a command line in a folder, in a process group of its own, and kill the group at a moment, if any.

    The process is forked from this one, which has imported everything already, so that most moments are such
    at which it works.

    Raises:
        RuntimeError: If the command ends with an error by itself.
    """
    log, began = folder.with_suffix(".log"), time.monotonic()
    moment = moment or Moment()
    pid = os.fork()
    if pid == 0:
        _be_the_command(line, folder, log, moment.change)
    code = _exit_code(pid, moment.seconds)
    if code is None:
        os.kill(pid, signal.SIGKILL)  # it may have no group of its own yet
        code = _exit_code(pid)
    _kill_group(pid)  # its workers
    assert code is not None
    if code not in (0, -signal.SIGKILL):
        raise RuntimeError(f"{line}: ended with {code}:\n{log.read_text()[-2000:]}")
    changes = log.with_suffix(".changes")
    counted = int(changes.read_text()) if code == 0 else 0
    return Ended(code, time.monotonic() - began, counted)


def _be_the_command(line: str, folder: Path, log: Path, last_change: int | None) -> None:
    """Become the process of a command; does not return."""
    code = 1
    try:
        os.setsid()
        with log.open("w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        os.chdir(folder)
        changes = _watch_changes(folder, last_change)
        code = _call(line)
        log.with_suffix(".changes").write_text(str(len(changes)))
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", flush=True)
    finally:
        os._exit(code)


def _call(line: str) -> int:
    program, *words = shlex.split(line)
    assert program == "cophenet"
    try:
        cophenet(words)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return 0


def _watch_changes(folder: Path, last: int | None) -> list[str]:
    """Note the changes of files in a folder from now on; before that of this number, kill the group."""
    noted: list[str] = []
    here = os.getpid()

    def note(event: str, arguments: tuple[Any, ...]) -> None:
        if not (event in _CHANGES or (event == "open" and _writes(*arguments[1:]))) or os.getpid() != here:
            return
        if not isinstance(arguments[0], (str, bytes, os.PathLike)):
            return
        if folder in (folder / os.fsdecode(arguments[0])).parents:
            if len(noted) == last:
                _kill_group(here)
                time.sleep(60)
            noted.append(event)

    sys.addaudithook(note)
    return noted


def _writes(mode: str | None, flags: int) -> bool:
    return bool(flags & (os.O_WRONLY | os.O_RDWR)) if mode is None else any(sign in mode for sign in "wax+")


def _kill_group(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def _exit_code(pid: int, timeout: float | None = None) -> int | None:
    """The exit code of a process, negative for a signal; None if it is still running after the timeout."""
    end = None if timeout is None else time.monotonic() + timeout
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if end is not None and time.monotonic() >= end:
            return None
        time.sleep(0.002)


def read_files(folder: Path) -> dict[str, bytes]:
    """All results in a folder; files that are not yet whole are none."""
    files = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if path.is_file() and not (
            any(map(is_temporary, name.parts)) or _NO_RESULT.fullmatch(name.as_posix())
        ):
            files[name.as_posix()] = _without_times(name, path.read_bytes())
    return files


def left_over(folder: Path) -> list[str]:
    """Temporary files that nobody has removed."""
    return [f"{path.name} left over" for path in sorted(folder.rglob("*")) if is_temporary(path.name)]


def _without_times(name: Path, content: bytes) -> bytes:
    """The same content without the time that something took; what is cut off as it is."""
    with suppress(ValueError):
        if name.suffix == ".json":
            return json.dumps(_without_seconds(json.loads(content))).encode()
        if name.name == "metrics.csv":
            rows = [line.split(",") for line in content.decode().splitlines()]
            place = rows[0].index("seconds") if rows else 0
            return "\n".join(",".join([*row[:place], *row[place + 1 :]]) for row in rows).encode()
    return content


def _without_seconds(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_seconds(item) for key, item in value.items() if not key.startswith("seconds")}
    return [_without_seconds(item) for item in value] if isinstance(value, list) else value


def half_written(before: Files, after: Files, now: Files, folders: tuple[str, ...] = ()) -> list[str]:
    """What is neither as it was before a command nor as it is after it.

    Args:
        before: The files before the command.
        after: Those it leaves if it is left alone.
        now: Those it has left when it was killed.
        folders: Folders that change as a whole; all other files change one by one.

    Example:
        >>> old, new = {"m/a": b"1", "m/b": b"1"}, {"m/a": b"2", "m/b": b"2", "c": b"2"}
        >>> half_written(old, new, {"m/a": b"2", "m/b": b"1"}), half_written(old, new, {**old, "c": b""})
        ([], ['c'])
        >>> half_written(old, new, {"m/a": b"2", "m/b": b"1"}, folders=("m",))
        ['m']
    """
    wrong = []
    for folder in folders:
        old, new, there = (_within(files, folder) for files in (before, after, now))
        wrong += [folder] * (there not in (old, new))
    for name in sorted({*before, *after, *now}):
        if not any(name.startswith(f"{folder}/") for folder in folders):
            wrong += [name] * (now.get(name) not in (before.get(name), after.get(name)))
    return wrong


def _within(files: Files, folder: str) -> dict[str, bytes]:
    return {name: content for name, content in files.items() if name.startswith(f"{folder}/")}


def different(one: Files, other: Files) -> list[str]:
    """Names of files that are not the same, or only in one of two folders."""
    return [name for name in sorted({*one, *other}) if one.get(name) != other.get(name)]
