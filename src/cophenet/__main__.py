"""Entry point of the command `cophenet` and of `python -m cophenet`; reports a missing dependency."""

from __future__ import annotations

import os
import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line on the arguments of the process.

    Raises:
        SystemExit: Always, with the exit code.
    """
    try:
        from cophenet.cli import main as command
    except ModuleNotFoundError as error:
        if "--debug" in sys.argv or (error.name or "").startswith("cophenet"):
            raise
        message = f"error: the command line needs {error.name}: pip install 'cophenet[cli]'"
        print(message, file=sys.stderr)
        raise SystemExit(1) from None
    command()


if __name__ == "__main__":
    # `python -m` puts the current folder, perhaps untrusted, on sys.path; only a checkout runs from there.
    here = os.getcwd()  # noqa: PTH109
    if sys.path[0] == here and __file__ != os.path.join(here, "cophenet", "__main__.py"):  # noqa: PTH118
        del sys.path[0]
    main()
