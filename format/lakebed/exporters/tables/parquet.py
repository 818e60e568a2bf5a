"""Parquet: a file for each split, with the metadata by which ``datasets`` shows images and class labels.

:mod:`arrow_columns` defines the columns. A row group is one piece of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Unpack

from lakebed.exporters.core.plan import ExportPlan, Piece, Written
from lakebed.exporters.core.target import Target
from lakebed.exporters.tables.arrow_columns import TableOptions, Tables, nothing, planned, write

if TYPE_CHECKING:
    from lakebed.dataset.dataset import Dataset

__all__ = ["append", "finish", "plan", "write"]

_ROWS = 1_000
_ROWS_OF_NUMBERS = 65_536


@dataclass
class _Files(Tables):
    """A file for each split."""

    compression: str = "zstd"
    open: dict[str, Any] = field(default_factory=dict)


def plan(ds: Dataset, *, compression: str = "zstd", **options: Unpack[TableOptions]) -> ExportPlan:
    """Plan a column for each tensor.

    Parameters
    ----------
    ds
        The dataset.
    compression
        Compression of the columns: zstd, snappy, lz4, gzip or none.
    options
        Options ``tensors`` and ``links``; see :class:`TableOptions`.
    """
    found = planned(ds, lambda columns: _Files(ds, columns, compression=compression), **options)
    most = _ROWS if any(one.how == "file" for one in found.context.columns) else _ROWS_OF_NUMBERS
    found.piece_rows = min(most, found.piece_rows)
    return found


def append(piece: Piece, done: Written, context: _Files, target: Target) -> None:
    """Write the rows of a piece as a row group."""
    import pyarrow.parquet as pq

    name, table = f"{piece.split or 'data'}.parquet", done.result
    if name not in context.open:
        path = target.path(name)
        context.open[name] = pq.ParquetWriter(path, table.schema, compression=context.compression)
    context.open[name].write_table(table, row_group_size=max(1, len(table)))


def finish(results: Sequence[Any], context: _Files, target: Target) -> None:
    """Close the files."""
    del results
    if not context.open:
        append(*nothing(context), context, target)
    for writer in context.open.values():
        writer.close()
