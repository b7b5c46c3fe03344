"""Processes forked from this one, which has imported everything already: a new one takes seconds for that."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import sys
import traceback
import warnings
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

__all__ = ["HANGS", "as_a_user", "call_forked", "fork", "show_warnings"]

# Seconds after which something hangs; on a busy machine all else takes its time.
HANGS = 600


def fork(target: Callable[..., object], *arguments: Any, daemon: bool = False) -> BaseProcess:
    """Start a process."""
    process = multiprocessing.get_context("fork").Process(target=target, args=arguments, daemon=daemon)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # it uses no thread of this process
        process.start()
    return process


def call_forked(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function returns in a process of its own; its error is one here."""
    ours, theirs = multiprocessing.Pipe()
    process = fork(_answer, theirs, function, arguments)
    theirs.close()
    try:
        assert ours.poll(HANGS), "the process hangs"
        fine, answer = ours.recv()
    except EOFError:
        fine, answer = False, "the process ended without an answer"
    finally:
        process.kill()
        process.join()
    assert fine, answer
    return answer


def show_warnings() -> None:
    """In a forked process: print warnings, which pytest makes errors and records."""
    importlib.reload(warnings)
    warnings.resetwarnings()


def as_a_user(log: Path) -> None:
    """In a forked process: let what is printed and warned of go to a file, as if no test were running."""
    show_warnings()
    with log.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.stdout = sys.stderr = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115


def _answer(pipe: Any, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    try:
        answer = True, function(*arguments)
    except BaseException:
        answer = False, traceback.format_exc()
    pipe.send(answer)
