"""Feature vectors in files: read as a whole, in parts or memory-mapped, and written.

Each format is a separate module; `formats` defines their interface.
"""

from cophenet.vectors.formats import VectorFormat, register_format
from cophenet.vectors.reading import label_facts, map_arrays, map_rows, read_parts, read_vectors
from cophenet.vectors.writing import check_columns, check_output, write_vectors

__all__ = [
    "VectorFormat",
    "check_columns",
    "check_output",
    "label_facts",
    "map_arrays",
    "map_rows",
    "read_parts",
    "read_vectors",
    "register_format",
    "write_vectors",
]
