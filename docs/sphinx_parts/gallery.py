"""The gallery of examples: beside each link the last figure of that notebook, made as the site is built."""

from __future__ import annotations

from typing import TYPE_CHECKING

from docutils import nodes

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_GALLERY = "examples/README"


def _add_figures(app: Sphinx, page: nodes.document, name: str) -> None:
    if name != _GALLERY:
        return
    for link in [one for cell in page.findall(nodes.entry) for one in cell.findall(nodes.reference)]:
        example = link["refuri"].removesuffix(".html")
        document = app.env.get_doctree(f"examples/{example}")
        figures = [image for image in document.findall(nodes.image) if image["uri"].endswith(".png")]
        if not figures:
            raise ValueError(f"the example {example} has no figure for the gallery")
        figure = figures[-1].deepcopy()
        figure.update_all_atts({"alt": f"A figure of {link.astext()}", "width": "320px"}, replace=True)
        link.insert(0, figure)


def setup(app: Sphinx) -> dict[str, bool]:
    """Listen to pages that are about to be written, when all notebooks have been run."""
    app.connect("doctree-resolved", _add_figures)
    return {"parallel_read_safe": True}
