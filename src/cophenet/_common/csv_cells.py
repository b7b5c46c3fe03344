"""Escaping of text in CSV files, so that spreadsheets do not run it as formulas."""

from __future__ import annotations

import re

__all__ = ["from_cell", "to_cell"]

# Characters with which a formula begins in a spreadsheet (the last four are full-width forms), after any
# number of apostrophes.
_FORMULA = re.compile(r"'*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20].", re.DOTALL)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def to_cell(value: object) -> object:
    """A value as it is written to a CSV file: text that would be a formula gets an apostrophe in front.

    Formulas begin with =, +, -, @, a tab or a line break. Numbers are not changed, also as text.

    Example:
        >>> [to_cell(value) for value in ("cat", "=1+1", "-7", "- cat", -7, None)]
        ['cat', "'=1+1", '-7', "'- cat", -7, None]
    """
    if isinstance(value, str) and _FORMULA.match(value) and not _NUMBER.fullmatch(value):
        return f"'{value}"
    return value


def from_cell(text: str) -> str:
    """Undo `to_cell`: remove the apostrophe in front of a formula.

    Example:
        >>> [from_cell(text) for text in ("cat", "'=1+1", "'cat'", "-7")]
        ['cat', '=1+1', "'cat'", '-7']
    """
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text
