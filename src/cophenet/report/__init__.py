"""Reports: tables, charts and the HTML page, made from result files only.

Nothing is trained or measured here. The paper's numbers are stored in `published_numbers.json`. Charts of the
page are drawn in the browser from `page_data`; matplotlib figures of other packages use the style of `style`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cophenet._common.lazy import lazy_names

if TYPE_CHECKING:
    from cophenet.report.answer import Command, Detail
    from cophenet.report.comparison import compare, make_table
    from cophenet.report.page import render_report, write_report
    from cophenet.report.published_numbers import Published, PublishedTable, published, published_tables
    from cophenet.report.table import Cell, Column, Row, Table

__all__ = [
    "Cell",
    "Column",
    "Command",
    "Detail",
    "Published",
    "PublishedTable",
    "Row",
    "Table",
    "compare",
    "make_table",
    "published",
    "published_tables",
    "render_report",
    "write_report",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "answer": ["Command", "Detail"],
        "comparison": ["compare", "make_table"],
        "page": ["render_report", "write_report"],
        "published_numbers": ["Published", "PublishedTable", "published", "published_tables"],
        "table": ["Cell", "Column", "Row", "Table"],
    },
)
