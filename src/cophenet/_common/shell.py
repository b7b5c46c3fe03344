"""Commands in messages, written so that they can be pasted into a shell."""

from __future__ import annotations

import shlex
from pathlib import Path

__all__ = ["command"]


def command(*words: str | Path) -> str:
    """A command of this package with quoted arguments; a path that begins with - is given a prefix "./".

    Example:
        >>> print(command("train", "--resume", Path("my runs/flat")))
        cophenet train --resume 'my runs/flat'
        >>> command("evaluate", Path("-x"))
        'cophenet evaluate ./-x'
    """
    return shlex.join(("cophenet", *map(_argument, words)))


def _argument(word: str | Path) -> str:
    text = str(word)
    return f"./{text}" if isinstance(word, Path) and text.startswith("-") else text
