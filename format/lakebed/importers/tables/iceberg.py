"""Iceberg tables at any snapshot, by the package pyiceberg: from a catalog, a folder, or a file of metadata."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any, Unpack

import pyarrow as pa

from lakebed.errors import IngestionError
from lakebed.importers.core.columns import ColumnOptions
from lakebed.importers.core.packages import check_installed, foreign
from lakebed.importers.core.plan import Plan
from lakebed.importers.core.source import Elsewhere, Source
from lakebed.importers.tables.streams import column_of, plan_of_stream, stream_rows

BATCHED = True

_CATALOG = "iceberg://"
_METADATA = re.compile(r"(?:.*/)?metadata/v?(\d+)[^/]*\.metadata\.json")


def address(src: Any) -> Elsewhere | None:
    """Return the table of a catalog, ``iceberg://CATALOG/NAMESPACE.TABLE``; pyiceberg's own settings name catalogs."""
    text = os.fspath(src) if isinstance(src, str | os.PathLike) else ""
    return Elsewhere(text, text) if text.startswith(_CATALOG) else None


def recognise(source: Source) -> str | None:
    """Recognise a folder with files of metadata, and a table of a catalog."""
    if isinstance(source.data, Elsewhere):
        return "an Iceberg table" if source.data.address.startswith(_CATALOG) else None
    is_table = not source.is_object and any(map(_METADATA.fullmatch, source.files))
    return "an Iceberg table" if is_table else None


def plan(
    source: Source,
    *,
    snapshot: str | None = None,
    key: Sequence[str] = (),
    **options: Unpack[ColumnOptions],
) -> Plan:
    """Plan a tensor for each column.

    Parameters
    ----------
    source
        iceberg://CATALOG/NAMESPACE.TABLE, the folder of a table, or a file of metadata.
    snapshot
        Id of a snapshot, or name of a branch or tag; the current one if left out.
    key
        Columns that identify a row: newer rows take the place of older ones.
    options
        Options of columns.

    Raises
    ------
    IngestionError
        If no such table or snapshot exists, or its files are outside of its folder.
    """
    check_installed("Iceberg tables", "iceberg", "pyiceberg")
    with foreign(source.shown):
        table = _opened(source)
        number = _snapshot(table, snapshot)
        scan = table.scan(snapshot_id=number)
        if not source.is_object:
            _check_below(source, [task.file.file_path for task in scan.plan_files()])
        schema = scan.projection().as_arrow()
    keys = [column_of(one, schema) for one in key]
    return plan_of_stream(
        f"snapshot {number} of an Iceberg table",
        schema,
        partial(_batches, source, number),
        source,
        options,
        key=keys,
        of=f"snapshot {number}",
        about={"snapshot": str(number)},
    )


rows = stream_rows


def _opened(source: Source) -> Any:
    if isinstance(source.data, Elsewhere):
        catalog, _, name = source.data.address.removeprefix(_CATALOG).partition("/")
        return import_module("pyiceberg.catalog").load_catalog(catalog).load_table(name)
    given = source.creds if isinstance(source.creds, Mapping) else {}
    properties = {str(name): str(value) for name, value in given.items()}
    return import_module("pyiceberg.table").StaticTable.from_metadata(_metadata(source), properties)


def _metadata(source: Source) -> str:
    """Return the address of the last file of metadata.

    Raises
    ------
    IngestionError
        If a folder has no file of metadata.
    """
    if source.is_file:
        return source.address
    found = {name: _METADATA.fullmatch(name) for name in source.files}
    numbered = [(int(match[1]), name) for name, match in found.items() if match is not None]
    if not numbered:
        raise IngestionError(
            f"{source.shown} holds no Iceberg table: no file matches metadata/*.metadata.json"
        )
    return source.link(max(numbered)[1])


def _snapshot(table: Any, asked: str | None) -> int | None:
    """Return the id of a snapshot; None for a table without any.

    Raises
    ------
    IngestionError
        If the table has no such snapshot.
    """
    found = table.current_snapshot() if asked is None else table.snapshot_by_name(asked)
    if found is None and asked is not None and asked.isdecimal():
        found = table.snapshot_by_id(int(asked))
    if found is None and asked is not None:
        known = [*table.refs(), *(str(one.snapshot_id) for one in table.snapshots())]
        raise IngestionError(f"the table has no snapshot {asked!r}; snapshots: {', '.join(known)}")
    return None if found is None else int(found.snapshot_id)


def _batches(source: Source, number: int | None) -> Iterator[pa.RecordBatch]:
    with foreign(source.shown):
        yield from _opened(source).scan(snapshot_id=number).to_arrow_batch_reader()


def _check_below(source: Source, files: Sequence[str]) -> None:
    """Refuse files outside of the folder of the table, which metadata may name by any address.

    Raises
    ------
    IngestionError
        If such a file exists.
    """
    root = (source.address.rpartition("/metadata/")[0] if source.is_file else source.address).rstrip("/")
    for file in files:
        name = file.removeprefix("file://")
        if not name.startswith(f"{root}/") or ".." in name.split("/"):
            raise IngestionError(
                f"the file {file!r} of the table is not below {root}: name the table by its catalog, {_CATALOG}..."
            )
