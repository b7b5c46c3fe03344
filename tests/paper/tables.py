"""Tables of items with made-up numbers."""

from cophenet.evaluation.results import summary
from cophenet.paper.tables import number_cell


def cells(*values, unit="percent"):
    """The cell of a number with one value for each seed."""
    return number_cell(summary(list(values)), unit)


def table(columns, rows):
    """A document of one table."""
    return {"tables": [{"columns": list(columns), "rows": [list(row) for row in rows]}]}


def document(name, **parts):
    """A document as the command writes it; what is not given is empty."""
    empty = {
        "format": 1,
        "title": name,
        "paper": [],
        "scale": "laptop",
        "recipes": [],
        "seeds": [],
        "settings": [],
        "setup": [],
        "runs": [],
        "missing": {},
        "tables": [],
        "figures": {},
    }
    return {**empty, "item": name, **parts}
