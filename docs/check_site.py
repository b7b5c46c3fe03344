"""Follows every link of the built site: to a file and an anchor that are there, and to nothing on a network.

Links to other sites are allowed where a reader clicks, not where a browser loads: scripts, styles, fonts and
pictures must lie in the folder. Every public name must have its place in the reference.
"""

from __future__ import annotations

import importlib
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote, urlsplit

# Where a browser loads by itself.
_LOADED = {("script", "src"), ("img", "src"), ("source", "src"), ("iframe", "src"), ("object", "data")}
_IN_PARTS = ("Hierarchy", "HierarchicalEmbedder")


class Page(HTMLParser):
    """The anchors of a page, what it links to and what it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note one element."""
        values = dict(attrs)
        self.anchors.update(filter(None, (values.get("id"), values.get("name"))))
        self.loaded.update(value for name, value in attrs if value and (tag, name) in _LOADED)
        if href := values.get("href"):
            (self.loaded if tag == "link" and values.get("rel") == "stylesheet" else self.links).add(href)


def problems(folder: Path) -> list[str]:
    """What is wrong, a sentence each."""
    pages = {path.resolve(): Page(path) for path in sorted(folder.rglob("*.html"))}
    wrong = []
    for path, page in pages.items():
        shown = path.relative_to(folder.resolve())
        wrong += [f"{shown}: loads {link}" for link in page.loaded if urlsplit(link).netloc]
        for link in page.links | page.loaded:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchors = pages[target].anchors if target in pages else None
            if not target.exists():
                wrong.append(f"{shown}: {link} leads nowhere")
            elif parts.fragment and anchors is not None and unquote(parts.fragment) not in anchors:
                wrong.append(f"{shown}: {link} leads to no heading")
    for path in sorted(folder.rglob("*.css")):
        loaded = re.findall(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//[^)\"']+", path.read_text())
        wrong += [f"{path.relative_to(folder)}: loads {link}" for link in loaded]
    return wrong + _missing_names(folder)


def _missing_names(folder: Path) -> list[str]:
    wrong = []
    for path in sorted((folder / "api").glob("*.html")):
        room = f"cophenet.{path.stem.replace('-', '.')}"
        if path.stem == "README":
            continue
        anchors = Page(path).anchors
        module = importlib.import_module(room)
        names = [*module.__all__, *_methods(module)]
        wrong += [f"{path.name}: {name} is missing" for name in names if f"{room}.{name}" not in anchors]
    return wrong


def _methods(module: ModuleType) -> list[str]:
    """Public methods of the classes whose parts stand in several files."""
    classes = [getattr(module, name) for name in module.__all__ if name in _IN_PARTS]
    return [
        f"{cls.__name__}.{name}"
        for cls in classes
        for base in cls.__mro__
        for name, member in vars(base).items()
        if base.__module__.startswith("cophenet.") and callable(member) and not name.startswith("_")
    ]


if __name__ == "__main__":
    found = problems(Path(sys.argv[1]))
    print("\n".join(found), file=sys.stderr)
    raise SystemExit(bool(found))
