"""The report room: tables, pictures and the HTML page, from result files only.

Nothing is trained or measured here. The paper's own numbers are data in `facts`; every picture is a function
that returns a matplotlib figure in the style of `style`, so that others can be made from the same parts.
"""

from cophenet.report.page import render_report, write_report
from cophenet.report.published_numbers import Published, PublishedTable, published, published_tables
from cophenet.report.comparison import Table, compare, make_table

__all__ = [
    "Published",
    "PublishedTable",
    "Table",
    "compare",
    "make_table",
    "published",
    "published_tables",
    "render_report",
    "write_report",
]
