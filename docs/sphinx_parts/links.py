"""Links that lead out of docs work on GitHub as they stand; here they are led to pages of the site."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

# Files of the repository that a page of the site includes.
PAGES = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md", "README.md": "index.md"}
# Headings that carry an anchor of their own.
_ANCHOR = re.compile(r'^(#+ )<a id="([\w-]+)"></a>', re.MULTILINE)
_OUTSIDE = re.compile(r"\]\(((?:\.\./)+)(" + "|".join(map(re.escape, PAGES)) + r")(#[^)]*)?\)")


def lead_inside(text: str, depth: int) -> str:
    """Markdown of a page that lies `depth` folders below docs, its links to files above docs replaced.

    Example:
        >>> lead_inside("see [the rooms](../CONTRIBUTING.md#the-rooms)", 0)
        'see [the rooms](contributing.md#the-rooms)'
    """

    def replaced(match: re.Match[str]) -> str:
        ups, name, anchor = match.groups()
        if ups.count("../") != depth + 1:
            return match[0]
        return f"]({'../' * depth}{PAGES[name]}{anchor or ''})"

    return _OUTSIDE.sub(replaced, text)


def _read(_app: Sphinx, page: str, content: list[str]) -> None:
    content[0] = _ANCHOR.sub(r"(\2)=\n\1", lead_inside(content[0], page.count("/")))
    if page.startswith("results/") and page.count("/") > 1:
        # Pages of items are linked from that of all results, and in no list of contents.
        content[0] = f"---\norphan: true\n---\n{content[0]}"


def setup(app: Sphinx) -> dict[str, bool]:
    """Listen to pages being read."""
    app.connect("source-read", _read)
    return {"parallel_read_safe": True}
