"""Formulas as MathML, which browsers draw themselves: no script and no font is needed."""

from __future__ import annotations

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator


def _mathml(formula: str, display: str) -> str:
    result = convert(formula, display=display)
    if "\\" in result:
        raise ValueError(f"a command is not known to latex2mathml, in the formula {formula}")
    return result


def _inline(writer: HTML5Translator, node: nodes.math) -> None:
    writer.body.append(_mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def _block(writer: HTML5Translator, node: nodes.math_block) -> None:
    # Wide formulas scroll by themselves on a phone.
    formula = _mathml(node.astext(), "block")
    writer.body.append(f'<div class="math" style="overflow-x: auto; margin: 1em 0">{formula}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
