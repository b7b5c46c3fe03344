"""parquet: a column "label", and columns of numbers or of lists of numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from cophenet._common.files import replaced_file
from cophenet._common.limits import check_unpacked
from cophenet._common.packages import import_optional
from cophenet.vectors.formats import (
    Array,
    Columns,
    LabelFacts,
    Part,
    VectorFormat,
    check_label_column,
    fewer_rows,
    register_format,
)
from cophenet.vectors.parquet_footer import count_values

__all__ = ["Parquet"]


@register_format
class Parquet(VectorFormat):
    """A column `label`, all others are features; (n, d) is written as one column of lists."""

    extension: ClassVar[str] = ".parquet"
    order: ClassVar[int] = 3

    def read(self, path: Path, rows: int | None, labelled: bool) -> Iterator[Part]:
        """Batches of rows, in the float type of the columns."""
        with _opened(path) as file:
            cells = count_values(path)
            # A table that has so many by compression only is refused, with eight bytes for each.
            check_unpacked(path.stat().st_size, 8 * max(cells, file.metadata.num_rows))
            if labelled:
                check_label_column(file.schema_arrow.names)
            width = cells // max(1, file.metadata.num_rows)
            for batch in [file.read()] if rows is None else file.iter_batches(fewer_rows(rows, width)):
                columns = {name: batch.column(name) for name in batch.schema.names}
                for name, column in columns.items():
                    if column.null_count:
                        raise ValueError(f"column {name!r} has {column.null_count} empty cells")
                labels = np.array(columns.pop("label").to_pylist()) if "label" in columns else None
                if not columns:
                    raise ValueError("columns other than 'label' must hold numbers or lists of numbers")
                yield np.concatenate([_numbers(*item) for item in columns.items()], axis=1), labels

    def write(self, path: Path, parts: Iterable[Columns]) -> None:
        """One column for each."""
        pa, pq = _packages()
        with replaced_file(path) as temporary:
            writer = None
            try:
                for columns in parts:
                    cells = {name: _arrow(pa, values) for name, values in columns.items()}
                    table = pa.table({"label" if name == "labels" else name: cells[name] for name in cells})
                    writer = writer or pq.ParquetWriter(temporary, table.schema)
                    writer.write_table(table)
            finally:
                if writer is not None:
                    writer.close()

    def label_facts(self, path: Path) -> LabelFacts:
        """From the schema."""
        pa, _ = _packages()
        with _opened(path) as file:
            schema = file.schema_arrow
            numbers = "label" in schema.names and pa.types.is_integer(schema.field("label").type)
            return LabelFacts(numbers, logits=False)


def _packages() -> tuple[Any, Any]:
    pyarrow = import_optional("pyarrow.parquet", "parquet files need", "cophenet[data]")
    return pyarrow, pyarrow.parquet


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    pa, pq = _packages()
    try:
        # Columns are read piece by piece, and not whole.
        with pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file:
            yield file
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"truncated, damaged or not a parquet file: {error}") from error


def _numbers(name: str, column: Any) -> Array:
    """(n, 1) numbers, or (n, d) if every cell is a list, in the float type of the column."""
    pa, _ = _packages()
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    is_list = hasattr(column.type, "value_type")
    flat = column.flatten() if is_list else column
    lengths = np.unique(column.value_lengths()).tolist() if is_list else [1]
    whole = pa.types.is_integer(flat.type)
    if flat.null_count or not (whole or pa.types.is_floating(flat.type)) or lengths == [0]:
        raise ValueError(f"column {name!r} must hold numbers or lists of numbers")
    if len(lengths) > 1:
        raise ValueError(f"column {name!r} is ragged, with lists of {lengths[:5]} numbers")
    values: Array = flat.to_numpy(zero_copy_only=False).reshape(len(column), *(lengths or [1]))
    return values.astype(np.result_type(values, np.int64)) if whole else values


def _arrow(pa: Any, values: Array) -> Any:
    flat = pa.array(values.ravel().tolist() if values.dtype.kind in "OU" else values.ravel())
    return pa.FixedSizeListArray.from_arrays(flat, values.shape[1]) if values.ndim == 2 else flat
