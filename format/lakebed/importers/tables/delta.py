"""Delta Lake tables at any version, by the package deltalake, which reads no files outside of the table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any, Unpack

import pyarrow as pa

from lakebed.importers.core.columns import ColumnOptions
from lakebed.importers.core.packages import check_installed, foreign
from lakebed.importers.core.plan import Plan
from lakebed.importers.core.source import Source
from lakebed.importers.tables.streams import column_of, plan_of_stream, stream_rows

BATCHED = True

_LOG = "_delta_log"
_BATCH_ROWS = 65_536


def recognise(source: Source) -> str | None:
    """Recognise a folder with a log."""
    is_table = not source.is_object and any(name.startswith(f"{_LOG}/") for name in source.files)
    return "a Delta Lake table" if is_table else None


def plan(
    source: Source,
    *,
    version: int | None = None,
    key: Sequence[str] = (),
    **options: Unpack[ColumnOptions],
) -> Plan:
    """Plan a tensor for each column.

    Parameters
    ----------
    source
        Folder of the table, or its address in a bucket.
    version
        Version of the table; the last one if left out.
    key
        Columns that identify a row: newer rows take the place of older ones.
    options
        Options of columns.

    Raises
    ------
    IngestionError
        If no such table or version exists.
    """
    check_installed("Delta Lake tables", "delta", "deltalake")
    with foreign(source.shown):
        table = _opened(source, version)
        schema = table.to_pyarrow_dataset().schema
        version = table.version()
    keys = [column_of(one, schema) for one in key]
    return plan_of_stream(
        f"version {version} of a Delta Lake table",
        schema,
        partial(_batches, source, version),
        source,
        options,
        key=keys,
        of=f"version {version}",
        about={"version": version},
    )


rows = stream_rows


def _opened(source: Source, version: int | None) -> Any:
    given = source.creds if isinstance(source.creds, Mapping) else {}
    options = {str(name): str(value) for name, value in given.items()}
    return import_module("deltalake").DeltaTable(
        source.address, version=version, storage_options=options or None
    )


def _batches(source: Source, version: int) -> Iterator[pa.RecordBatch]:
    with foreign(source.shown):
        found = _opened(source, version).to_pyarrow_dataset()
        # Read one file at a time, so that memory holds a few batches.
        yield from found.to_batches(batch_size=_BATCH_ROWS, batch_readahead=2, fragment_readahead=1)
