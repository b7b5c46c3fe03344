"""Docstrings of this project as reStructuredText: `name` is code, and | and * stand for themselves."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_CODE = re.compile(r"(:[\w:]+:`[^`]+`|``[^`]+``|`[^`]+`)")
_EMPHASIS = re.compile(r"(?<![\w*])\*(\w[^*|]*\w|\w)\*(?![\w*])")


def as_rest(lines: list[str]) -> list[str]:
    r"""Lines of a docstring; formulas (`.. math::`) and examples stay as they are.

    Example:
        >>> as_rest(["The *plan* of `a * b` is |x|, and n * m.", "", ">>> 2 * 3"])
        ['The *plan* of ``a * b`` is \\|x\\|, and n \\* m.', '', '>>> 2 * 3']
    """
    result = []
    end = ""  # what the line looks like that ends a formula or an example
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if end and re.match(end, line):
            end = ""
        if line.lstrip().startswith(">>>"):
            end = r"\s*$"
        elif line.lstrip().startswith(".. math::"):
            end = rf"\s{{0,{indent}}}\S"
        result.append(line if end else _prose(line))
    return result


def _prose(line: str) -> str:
    parts = _CODE.split(line)
    parts[::2] = [_escaped(part) for part in parts[::2]]
    parts[1::2] = [f"`{part}`" if re.fullmatch("`[^`]+`", part) else part for part in parts[1::2]]
    return "".join(parts)


def _escaped(text: str) -> str:
    kept = _EMPHASIS.split(text.replace("|", r"\|"))
    kept[::2] = [part.replace("*", r"\*") for part in kept[::2]]
    kept[1::2] = [f"*{part}*" for part in kept[1::2]]
    return "".join(kept)


def _process(_app: Sphinx, _what: str, _name: str, _thing: Any, _options: Any, lines: list[str]) -> None:
    lines[:] = as_rest(lines)


def _skip(_app: Sphinx, _what: str, name: str, thing: Any, _skip: bool, _options: Any) -> bool | None:
    # Fields of named tuples are described in "Attributes"; requests of metadata are scikit-learn's.
    if type(thing).__name__ == "_tuplegetter" or re.fullmatch(r"set_\w+_request", name):
        return True
    return None


def setup(app: Sphinx) -> dict[str, bool]:
    """Listen to autodoc, before napoleon does."""
    app.connect("autodoc-process-docstring", _process, priority=100)
    app.connect("autodoc-skip-member", _skip)
    return {"parallel_read_safe": True}
