"""Compilation of the Numba kernels: once, by one process at a time, while others work without them.

Numba caches machine code on disk, but two processes that fill an empty cache can give two kernels the same
file. So kernels are compiled only under a lock, and a marker file in the cache shows when all are there.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import torch
from torch import Tensor

from cophenet._common.locks import InUseError, locked

__all__ = [
    "compile_once",
    "compiled_at_first_use",
    "is_compiled",
    "is_compiled_meanwhile",
    "loops_when_hot",
    "readable",
    "why_none",
]

_LOCK = "cophenet-kernels.lock"
_CODE = "from cophenet.transport.warm_up import warm_up; warm_up()"
_compiler: subprocess.Popen[bytes] | OSError | None = None  # the error if it could not be started
# Calls before the loops are loaded, which takes a second; they save less than a millisecond per call.
_COLD_CALLS = 64
_TYPES = (torch.float32, torch.float64)
_calls = 0


@cache
def why_none() -> str | None:
    """The reason why kernels cannot be compiled here; None if they can."""
    if find_spec("numba") is None:
        return "the package numba is not installed: pip install cophenet[fast]"
    try:
        from cophenet.transport.solvers import difference_loops, flowtree_kernel, host_loops, kernels  # noqa: F401
    except RuntimeError as error:
        return f"set NUMBA_CACHE_DIR to a folder that can be written ({error})"
    except Exception as error:
        return f"the package numba does not work here ({error})"
    return None


@cache
def _marker() -> Path | None:
    """The file that marks all kernels as compiled; None if Numba's JIT is disabled."""
    import llvmlite.binding as llvm
    import numba

    from cophenet.transport.solvers import difference_loops, flowtree_kernel, host_loops, kernels

    state = getattr(kernels.solve_pairs, "stats", None)
    if state is None:
        return None
    modules = (difference_loops, flowtree_kernel, host_loops, kernels)
    sources = [Path(str(module.__file__)).stat() for module in modules]
    features = llvm.get_host_cpu_features().flatten()
    chosen = [os.environ.get(name) for name in ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES")]
    parts = (sys.version, numba.__version__, llvm.get_host_cpu_name(), features, chosen)
    stamps = [(source.st_mtime_ns, source.st_size) for source in sources]
    key = hashlib.sha256(repr((*parts, stamps)).encode()).hexdigest()[:16]
    return Path(state.cache_path) / f"cophenet-kernels-{key}"


def is_compiled() -> bool:
    """Whether the kernels' machine code is on disk, from where it is loaded in half a second."""
    marker = _marker()
    return marker is None or marker.exists()


def compile_once(run: Callable[[], object]) -> None:
    """Compile the kernels, unless they are; if another process is compiling them, wait for it.

    Args:
        run: A function that calls all kernels, which compiles them.
    """
    marker = _marker()
    while not is_compiled():
        assert marker is not None
        marker.parent.mkdir(parents=True, exist_ok=True)
        try:
            with locked(marker.parent, _LOCK):
                warnings.warn(
                    "emd, ft and fastft have their kernels compiled: half a minute, once on this machine",
                    stacklevel=3,
                )
                run()
                marker.touch()
        except InUseError:
            time.sleep(0.1)
    _loops.cache_clear()
    compiled_at_first_use.cache_clear()


def _let_go(compiler: subprocess.Popen[bytes]) -> None:
    """At exit: leave the compiler running, for the next process, without a `ResourceWarning`."""
    if compiler.poll() is None:
        compiler.returncode = 0


def _start_compiler() -> subprocess.Popen[bytes] | OSError:
    """Start a process that compiles the kernels; the error if that is impossible."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    # A reader of this process's output must not wait for the compiler to end.
    no = subprocess.DEVNULL
    command = [sys.executable, "-c", _CODE]
    try:
        compiler = subprocess.Popen(command, env=environment, stdin=no, stdout=no, stderr=no)
    except OSError as error:
        return error
    atexit.register(_let_go, compiler)
    return compiler


def is_compiled_meanwhile() -> bool:
    """Whether the kernels are compiled; if not, start a process that compiles them, and warn once."""
    global _compiler
    if why_none() is not None or _marker() is None:
        return False
    if is_compiled():
        if _loops() is None:  # they were not when it was asked last
            _loops.cache_clear()
        return True
    if _compiler is None:
        _compiler = _start_compiler()  # before the warning, which may be an error
        if isinstance(_compiler, OSError):
            message = (
                f"emd, ft and fastft go on without compiled loops: no process can be started ({_compiler}); "
                "`cophenet warm-up` compiles them"
            )
        else:
            message = (
                "emd (by SciPy and POT), ft and, in large batches, fastft take two to three times as long "
                "until their loops are compiled in the background: half a minute, once on this machine; "
                "fastft then uses them from the next process on; `cophenet warm-up` does it ahead"
            )
        warnings.warn(message, stacklevel=2)
    elif not isinstance(_compiler, OSError) and _compiler.poll():  # it ended with an error
        _compiler.returncode = 0  # warn only once
        warnings.warn(
            "emd goes on with SciPy and POT, ft and fastft with torch: their loops could not be compiled; "
            "`cophenet warm-up` says why",
            stacklevel=2,
        )
    return False


@cache
def _loops() -> ModuleType | None:
    """The module `host_loops` if it is compiled, which is checked once; else None."""
    marker = None if why_none() else _marker()
    if marker is None or not marker.exists():
        return None
    from cophenet.transport.solvers import host_loops

    return host_loops


def readable(*values: Tensor) -> bool:
    """Whether loops can read values."""
    if torch.compiler.is_compiling():
        return False
    for value in values:
        if type(value) is not Tensor or value.device.type != "cpu" or value.dtype not in _TYPES:
            return False
        if not value.is_contiguous() or value.is_neg():
            return False
    return True


def loops_when_hot(*values: Tensor) -> ModuleType | None:
    """The module `host_loops`, if compiled, able to read the values, and requested often; else None."""
    global _calls
    if not readable(*values):
        return None
    if _calls < _COLD_CALLS:
        _calls += 1
        return None
    return _loops()


@cache
def compiled_at_first_use() -> bool:
    """Whether the loops were compiled when this was first called; if not, that begins in the background.

    What is computed otherwise without them, in other last digits, does not change while a process runs.
    """
    return is_compiled_meanwhile()
