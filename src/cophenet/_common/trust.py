"""Code that a file names: refused, unless the user has said that it may run."""

from __future__ import annotations

from pathlib import Path

__all__ = ["TrustError", "refused_code"]


class TrustError(ValueError):
    """A folder, which is data, names code to run, and nobody has said that it may."""


def refused_code(folder: Path | str, code: str) -> TrustError:
    """The error that a folder names code which may not run.

    Args:
        folder: What names it.
        code: What would be run, in a few words.

    Example:
        >>> raise refused_code("runs/sent", "backbone 'os:system'")
        Traceback (most recent call last):
        cophenet._common.trust.TrustError: runs/sent wants to run backbone 'os:system', which was refused ...
    """
    return TrustError(
        f"{folder} wants to run {code}, which was refused because a folder is data: "
        "if you know and trust that code, allow it with --trust (in Python trust=True)"
    )
