"""The command that compiles what would else be compiled at its first use."""

from __future__ import annotations

__all__ = ["warm_up"]


def warm_up() -> None:
    """Compile the solver of the distance emd now, once on this machine: about 20 seconds.

    Without it, that happens in the background at its first use, and SciPy and POT solve meanwhile.

    Example: cophenet warm-up
    """
    from cophenet.transport.emd import warm_up as compile_solver

    print(f"emd: its solver is compiled and loaded, {compile_solver():.1f} s")
