"""The command that compiles kernels before their first use."""

from __future__ import annotations

__all__ = ["warm_up"]


def warm_up() -> None:
    """Compile the kernels of emd, ft, fastft, l2 and swd now, once on this machine: about half a minute.

    Without it, that happens in the background when they are first wanted; slower code is used meanwhile.

    Example: cophenet warm-up
    """
    from cophenet.transport.warm_up import warm_up as compile_kernels

    print(f"emd, ft, fastft, l2 and swd: their kernels are compiled and loaded, {compile_kernels():.1f} s")
