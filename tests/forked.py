"""Processes forked from this one, which has imported everything already: a new one takes seconds for that."""

from __future__ import annotations

import multiprocessing
import traceback
import warnings
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from typing import Any

__all__ = ["call_forked", "fork"]


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
        fine, answer = ours.recv()
    except EOFError:
        fine, answer = False, "the process ended without an answer"
    process.join()
    assert fine, answer
    return answer


def _answer(pipe: Any, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    try:
        answer = True, function(*arguments)
    except BaseException:
        answer = False, traceback.format_exc()
    pipe.send(answer)
