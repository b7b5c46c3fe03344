"""Machine code of the kernels: made once, by one process at a time, while others do without it.

Numba keeps machine code on disk, but two processes that fill an empty cache can give two kernels the same
file. So they are compiled only under a lock, and a file beside them says when all are there.
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

__all__ = ["compile_once", "is_compiled", "is_compiled_meanwhile", "loops_when_hot", "why_none"]

_LOCK = "cophenet-kernels.lock"
_CODE = "from cophenet.transport.warm_up import warm_up; warm_up()"
_compiler: subprocess.Popen[bytes] | None = None
# Calls without the loops, which save less than a millisecond each: to load them takes a second.
_COLD_CALLS = 64
_TYPES = (torch.float32, torch.float64)
_calls = 0


@cache
def why_none() -> str | None:
    """Why there can be no machine code here; None if there can."""
    if find_spec("numba") is None:
        return "the package numba is not installed: pip install cophenet[fast]"
    try:
        from cophenet.transport.solvers import host_loops, kernels, matching  # noqa: F401
    except RuntimeError as error:
        return f"set NUMBA_CACHE_DIR to a folder that can be written ({error})"
    except Exception as error:
        return f"the package numba does not work here ({error})"
    return None


@cache
def _marker() -> Path | None:
    """The file that says that all kernels are compiled; None where Numba runs them as Python."""
    import llvmlite.binding as llvm
    import numba

    from cophenet.transport.solvers import host_loops, kernels, matching

    state = getattr(kernels.solve_pairs, "stats", None)
    if state is None:
        return None
    sources = [Path(str(module.__file__)).stat() for module in (host_loops, kernels, matching)]
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
    """Compile the kernels, unless they are; if another process is at it, wait until it is done.

    Args:
        run: Calls all kernels.
    """
    marker = _marker()
    while not is_compiled():
        assert marker is not None
        marker.parent.mkdir(parents=True, exist_ok=True)
        try:
            with locked(marker.parent, _LOCK):
                warnings.warn(
                    "emd and ft have their kernels compiled: about 25 seconds, once on this machine",
                    stacklevel=3,
                )
                run()
                marker.touch()
        except InUseError:
            time.sleep(0.1)
    _loops.cache_clear()


def _let_go(compiler: subprocess.Popen[bytes]) -> None:
    """At exit: it goes on by itself, for the next process, and that is no leak to be warned of."""
    if compiler.poll() is None:
        compiler.returncode = 0


def is_compiled_meanwhile() -> bool:
    """Whether the kernels are compiled; if not, another process begins to, and a warning says so, once."""
    global _compiler
    if why_none() is not None or _marker() is None:
        return False
    if is_compiled():
        return True
    if _compiler is None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        # Whoever reads the output of this process must not wait for that one.
        no = subprocess.DEVNULL
        command = [sys.executable, "-c", _CODE]
        _compiler = subprocess.Popen(command, env=environment, stdin=no, stdout=no, stderr=no)
        atexit.register(_let_go, _compiler)
        warnings.warn(
            "emd (by SciPy and POT) and ft (by NumPy) take two to three times as long until what they plan "
            "with is compiled in the background: about 25 seconds, once on this machine; `cophenet warm-up` "
            "does it ahead",
            stacklevel=2,
        )
    elif _compiler.poll():  # it ended with an error
        _compiler.returncode = 0  # which is told once
        warnings.warn(
            "emd goes on with SciPy and POT, ft with NumPy: what they plan with could not be compiled; "
            "`cophenet warm-up` says why",
            stacklevel=2,
        )
    return False


@cache
def _loops() -> ModuleType | None:
    """The module of loops, if there is machine code of it, which is looked for once."""
    marker = None if why_none() else _marker()
    if marker is None or not marker.exists():
        return None
    from cophenet.transport.solvers import host_loops

    return host_loops


def loops_when_hot(*values: Tensor) -> ModuleType | None:
    """The kernels of `host_loops`, if they are compiled, can read the values, and were asked for often."""
    global _calls
    if torch.compiler.is_compiling():
        return None
    for value in values:
        if type(value) is not Tensor or value.device.type != "cpu" or value.dtype not in _TYPES:
            return None
        if not value.is_contiguous() or value.is_neg():
            return None
    if _calls < _COLD_CALLS:
        _calls += 1
        return None
    return _loops()
