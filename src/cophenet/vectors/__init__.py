"""Feature vectors in files: read whole, in parts or mapped, and written.

Each format is known once, in one file; `formats` says what a format must know.
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
