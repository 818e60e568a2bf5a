"""Upserts of peers: the rows of a Parquet file, then records of an NDJSON file by key.

    upserting.py NAME fill STORE ROWS
    upserting.py NAME upsert STORE MESSAGES

A process each; what a process costs is measured from outside. Every peer keeps the newest record of each key before it
touches the store, as none takes a key twice.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS = {"id": "BIGINT", "updated": "BIGINT", "amount": "DOUBLE", "name": "VARCHAR", "note": "VARCHAR"}
NEWEST = "QUALIFY row_number() OVER (PARTITION BY id ORDER BY updated DESC) = 1"


def records(messages: str) -> str:
    """SQL of the newest record of each key, by DuckDB's reader of JSON."""
    data = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    columns = f"{{type: 'VARCHAR', record: 'STRUCT(data STRUCT({data}))'}}"
    source = f"read_json('{messages}', format='newline_delimited', columns={columns})"
    chosen = ", ".join(f"record.data.{name} AS {name}" for name in COLUMNS)
    return f"SELECT {chosen} FROM {source} WHERE type = 'RECORD' {NEWEST}"


def table(messages: str) -> pa.Table:
    """The newest record of each key as an Arrow table."""
    import duckdb

    found = duckdb.sql(records(messages))
    assert found is not None
    return found.to_arrow_table()


def duckdb_merge(step: str, store: str, given: str, *, keyed: bool = False) -> None:
    """A DuckDB table; `keyed`: with a primary key and its index, by INSERT OR REPLACE instead of MERGE."""
    import duckdb

    with duckdb.connect(store) as connection:
        if step == "fill":
            columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
            connection.execute(f"CREATE TABLE items ({columns}{', PRIMARY KEY (id)' if keyed else ''})")
            connection.execute("INSERT INTO items SELECT * FROM read_parquet(?)", [given])
        elif keyed:
            connection.execute(f"INSERT OR REPLACE INTO items {records(given)}")
        else:
            connection.execute(
                f"MERGE INTO items USING ({records(given)}) AS new ON items.id = new.id "
                "WHEN MATCHED AND new.updated >= items.updated THEN UPDATE WHEN NOT MATCHED THEN INSERT"
            )
        connection.execute("CHECKPOINT")


def duckdb_keyed(step: str, store: str, given: str) -> None:
    """A DuckDB table with a primary key."""
    duckdb_merge(step, store, given, keyed=True)


def lance(step: str, store: str, given: str) -> None:
    """A Lance dataset."""
    import lance as library
    import pyarrow.parquet as pq

    if step == "fill":
        file = pq.ParquetFile(given)
        library.write_dataset(file.iter_batches(), store, schema=file.schema_arrow)
        return
    merge = library.dataset(store).merge_insert("id")
    merge.when_matched_update_all("source.updated >= target.updated").when_not_matched_insert_all()
    merge.execute(table(given))


def delta(step: str, store: str, given: str) -> None:
    """A Delta table."""
    import deltalake
    import pyarrow as pa
    import pyarrow.parquet as pq

    if step == "fill":
        file = pq.ParquetFile(given)
        batches = pa.RecordBatchReader.from_batches(file.schema_arrow, file.iter_batches())
        deltalake.write_deltalake(store, batches)
        return
    merge = deltalake.DeltaTable(store).merge(
        table(given), predicate="target.id = source.id", source_alias="source", target_alias="target"
    )
    merge.when_matched_update_all("source.updated >= target.updated").when_not_matched_insert_all().execute()


PEERS: dict[str, Callable[[str, str, str], None]] = {
    "duckdb": duckdb_merge,
    "duckdb-keyed": duckdb_keyed,
    "lance": lance,
    "delta": delta,
}


if __name__ == "__main__":
    PEERS[sys.argv[1]](*sys.argv[2:5])
