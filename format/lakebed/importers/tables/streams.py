"""Tables that are read as one stream of batches: of databases, and of Iceberg and Delta Lake.

The stream is opened when the rows are made, and read once; memory holds a few batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa

from lakebed.errors import IngestionError
from lakebed.importers.core.columns import Table, Wishes, owned, table_of
from lakebed.importers.core.plan import Plan, Problem, Upsert
from lakebed.importers.core.source import Source

_BATCH_ROWS = 65_536


@dataclass(frozen=True)
class Stream(Table):
    """A table that is read as a stream.

    Parameters
    ----------
    schema
        Columns as they are imported.
    batches
        Function that opens the stream.
    cursor
        Tensor whose highest value is kept; empty for none.
    is_exact
        True if the cursor's tensor has numbers as text.
    highest
        Highest value of the cursor in the rows that were read; empty before reading, or if all values are null.
    """

    schema: pa.Schema
    batches: Callable[[], Iterable[pa.RecordBatch]]
    cursor: str = ""
    is_exact: bool = False
    highest: list[Any] = field(default_factory=list)


def plan_of_stream(
    found: str,
    schema: pa.Schema,
    batches: Callable[[], Iterable[pa.RecordBatch]],
    source: Source,
    options: Mapping[str, Any],
    *,
    key: Sequence[str] = (),
    cursor: str | None = None,
    of: str = "",
    about: Mapping[str, Any] | None = None,
    problems: Sequence[Problem] = (),
) -> Plan:
    """Plan a tensor for each column of a stream.

    Parameters
    ----------
    found
        Description of the rows.
    schema, batches
        Columns of the stream, and a function that opens the stream.
    source, options
        The source, and options of columns.
    key, cursor
        Columns that identify a row, and the column that grows with each change.
    of, about
        Part of the source, and facts for the info.
    problems
        Known problems.

    Raises
    ------
    IngestionError
        If rows by key have values that the merge cannot move.
    """
    wishes = Wishes.of(options)
    if key and (wishes.media or wishes.labels or wishes.link):
        raise IngestionError("an import by key cannot have media, links or labels: import without a key")
    told = list(problems)
    imported = _as_imported(schema)
    below = Source("", None, source.creds)
    columns, tensors = table_of(imported, wishes, None, below, told)
    names = {column.name: column.tensor for column in columns.columns}
    more = {"cursor": cursor, "key": list(key) or None}
    return Plan(
        found,
        tensors,
        [found],
        Stream(
            *(below, wishes, columns.columns, imported, batches),
            cursor=names[cursor] if cursor else "",
            is_exact=cursor is not None and _is_exact(schema.field(cursor).type),
        ),
        problems=told,
        about={**(about or {}), **{name: value for name, value in more.items() if value is not None}},
        upsert=Upsert(tuple(names[one] for one in key), names[cursor] if cursor else None) if key else None,
        of=f"{of}/{cursor or ''}/{','.join(key)}",
        may_be_empty=True,
    )


def stream_rows(item: str, stream: Stream) -> Iterator[Any]:
    """Read the rows, in batches."""
    for batch in stream.batches():
        found = _converted(owned(batch), stream.schema)
        for start in range(0, found.num_rows, _BATCH_ROWS):
            for made in stream.rows(found.slice(start, _BATCH_ROWS), item):
                if stream.cursor and isinstance(made, Mapping):
                    _note(made[stream.cursor], stream)
                yield made


def stream_ended(plan: Plan) -> dict[str, Any]:
    """Return the highest value of the cursor, from which the next import continues."""
    found = plan.context.highest
    return {"highest": _told(found[0]) if found else plan.about.get("since")} if plan.context.cursor else {}


def column_of(name: str, schema: pa.Schema) -> str:
    """Return the column with a name; upper and lower case are ignored if no column has exactly this name.

    Raises
    ------
    IngestionError
        If the rows have no such column, or several.
    """
    found = [one for one in schema.names if one == name]
    found = found or [one for one in schema.names if one.lower() == name.lower()]
    if len(found) != 1:
        raise IngestionError(
            f"the rows have no column {name!r}, or several; columns: {', '.join(schema.names)}"
        )
    return str(found[0])


def _as_imported(schema: pa.Schema) -> pa.Schema:
    """Return the types of the columns as tensors take them: words of enums and exact numbers as text."""
    kinds = []
    for one in schema:
        kind = one.type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        if isinstance(kind, pa.OpaqueType):
            kind = kind.storage_type
        kinds.append(pa.field(one.name, kind, metadata=one.metadata))
    return pa.schema(kinds)


def _converted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    arrays = []
    for values, one in zip(batch.columns, schema, strict=True):
        found = values.storage if isinstance(values.type, pa.OpaqueType) else values
        found = found.dictionary_decode() if pa.types.is_dictionary(found.type) else found
        if found.type != one.type:
            # If a column has no values, the driver of SQLite guesses its type: use the planned type.
            is_null = found.null_count == len(found)
            found = pa.nulls(len(found), one.type) if is_null else found.cast(one.type)
        arrays.append(found)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _is_exact(kind: pa.DataType) -> bool:
    """Return whether numbers become text."""
    is_numeric = isinstance(kind, pa.OpaqueType) and kind.type_name == "numeric"
    return is_numeric or bool(pa.types.is_decimal(kind))


def _note(values: pa.Array, stream: Stream) -> None:
    """Keep the highest value of the cursor."""
    import pyarrow.compute as pc

    if stream.is_exact:
        found = [one for one in map(Decimal, values.drop_null().to_pylist()) if one.is_finite()]
        stream.highest[:] = [max([*stream.highest, *found])] if found else stream.highest
        return
    top = pc.max(values)
    if top.is_valid:
        stream.highest[:] = [pc.max(pa.array([*stream.highest, top], values.type))]


def _told(value: Any) -> str:
    """Return a value of a cursor as text that SQL takes."""
    if isinstance(value, Decimal):
        return str(value)
    if pa.types.is_timestamp(value.type) and value.type.tz:
        value = value.cast(pa.timestamp(value.type.unit, "UTC"))
    return str(value.cast(pa.string()).as_py())
