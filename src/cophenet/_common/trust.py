"""Code that a file names: refused, unless the user allows it to run."""

from __future__ import annotations

from pathlib import Path

__all__ = ["TrustError", "refused_code"]


class TrustError(ValueError):
    """A folder, which is data, names code to run, and the user has not allowed it."""


def refused_code(folder: Path | str, code: str) -> TrustError:
    """Create the error for a folder that names code which is not allowed to run.

    Args:
        folder: The folder.
        code: Short description of the code that would be run.

    Example:
        >>> raise refused_code("runs/sent", "backbone 'os:system'")
        Traceback (most recent call last):
        cophenet._common.trust.TrustError: runs/sent wants to run backbone 'os:system', which was refused ...
    """
    return TrustError(
        f"{folder} wants to run {code}, which was refused because a folder is data: "
        "if you know and trust that code, allow it with --trust (in Python trust=True)"
    )
