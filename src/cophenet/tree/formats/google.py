"""Google's product taxonomy and lists like it: ``1 - Animals > Pets > Cats``, with or without numbers.

Every line is a category with all that are above it. The classes are the categories without others below, in
the order of the file; the numbers are not kept.
"""

from __future__ import annotations

import re

from cophenet.tree.build import parts_from_paths
from cophenet.tree.parts import Parts

_NUMBER = re.compile(r"\d+ - ")


def parse(text: str) -> Parts:
    """Read one category per line; lines that start with ``#`` are comments."""
    paths: list[tuple[str, ...]] = []
    lines: list[int] = []
    numbered: bool | None = None
    for line, content in enumerate(text.split("\n"), start=1):
        stripped = content.strip()
        if not stripped or stripped.startswith("#"):
            continue
        number = _NUMBER.match(stripped)
        numbered = number is not None if numbered is None else numbered
        if numbered and number is None:
            raise ValueError(f"line {line}: expected 'number - A > B > C', got {stripped!r:.200}")
        path = stripped[number.end() :] if numbered and number else stripped
        paths.append(tuple(step.strip() for step in path.split(" > ")))
        lines.append(line)
    return parts_from_paths(paths, lines=lines, groups=True)
