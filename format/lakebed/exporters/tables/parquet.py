"""Parquet: a file for each split, with Hugging Face's metadata, so that ``datasets`` shows images and class labels.

``arrow_columns.py`` says what columns are. A row group is a piece of rows. Pieces are made by several threads, and
written in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import lakebed
from lakebed.exporters.core.order import Order
from lakebed.exporters.core.plan import ExportPlan, Piece, Written, without_splits
from lakebed.exporters.core.target import Target
from lakebed.exporters.tables.arrow_columns import (
    ArrowColumn,
    arrow_columns,
    empty_table,
    rows_of_table,
    table_of,
)

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS = 1_000
_ROWS_OF_NUMBERS = 65_536


@dataclass
class _Context:
    """The dataset, its columns, and the files that are open by split."""

    ds: lakebed.Dataset
    columns: Sequence[ArrowColumn]
    compression: str
    order: Order = field(default_factory=Order)
    open: dict[str, Any] = field(default_factory=dict)


def recognise(ds: lakebed.Dataset) -> str | None:
    """Say how many rows and columns there are; None without tensors."""
    return f"{ds.min_len:,} rows of {len(ds.tensors)} columns" if ds.tensors else None


def plan(
    ds: lakebed.Dataset, *, tensors: Sequence[str] = (), links: bool = False, compression: str = "zstd"
) -> ExportPlan:
    """Plan a column for each tensor.

    Parameters
    ----------
    ds
        The dataset.
    tensors
        Tensors that are written; left out, all.
    links
        Write addresses of linked files in place of the files.
    compression
        Compression of the columns: zstd, snappy, lz4, gzip or none.
    """
    problems: list[tuple[str, str]] = []
    columns = arrow_columns(ds, tensors or without_splits(ds), problems, links=links)
    most = _ROWS if any(one.how == "file" for one in columns) else _ROWS_OF_NUMBERS
    return ExportPlan(
        f"{ds.min_len:,} rows of {len(columns)} columns",
        {one.name: one.name for one in columns},
        _Context(ds, columns, compression),
        piece_rows=min(most, rows_of_table(ds, columns)),
        problems=problems,
    )


def write(view: lakebed.Dataset, piece: Piece, context: _Context, target: Target) -> Written:
    """Make the columns of some rows, and write all pieces whose turn it is."""
    table, skipped = table_of(view, piece, context.columns)
    context.order.write(piece.number, lambda: _append(piece.split, table, context, target))
    return Written(rows=len(table), skipped=skipped)


def finish(results: Sequence[Any], context: _Context, target: Target) -> None:
    """End the files; of a dataset without rows, one with the columns alone."""
    del results
    if not context.open:
        _append("", empty_table(context.ds, context.columns), context, target)
    for writer in context.open.values():
        writer.close()


def _append(split: str, table: pa.Table, context: _Context, target: Target) -> None:
    import pyarrow.parquet as pq

    name = f"{split or 'data'}.parquet"
    if name not in context.open:
        path = target.path(name)
        context.open[name] = pq.ParquetWriter(path, table.schema, compression=context.compression)
    context.open[name].write_table(table, row_group_size=max(1, len(table)))
