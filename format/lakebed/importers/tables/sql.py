"""Databases by ADBC: PostgreSQL, SQLite, DuckDB, Snowflake, BigQuery, and others whose driver is installed.

The rows of one statement stream through as Arrow batches. Types without a meaning in Arrow come as text, which the
database itself makes: intervals, addresses, ranges, times with a zone. With a cursor, an import takes the rows that came
since the last one; :mod:`lakebed.importers.core.upserting` has the rows by key.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from importlib import import_module
from pathlib import Path
from typing import Any, Unpack
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import pyarrow as pa

from lakebed.errors import IngestionError, InvalidPathException, LakebedError
from lakebed.importers.core.columns import ColumnOptions, Table, Wishes, is_number, owned, table_of
from lakebed.importers.core.packages import check_installed, is_installed
from lakebed.importers.core.plan import Plan, Problem, Upsert
from lakebed.importers.core.source import Elsewhere, Source
from lakebed.storage.address import path_of, scheme_of, shown

BATCHED = True

_BATCH_ROWS = 65_536

_SCHEMES = {"postgres": "postgresql", "sqlite3": "sqlite"}
"""Scheme of an address -> the driver, where they differ."""
_EXTRAS = ("postgresql", "sqlite", "duckdb", "snowflake", "bigquery")
_FILES = ("sqlite", "duckdb")
"""Drivers whose databases are files."""
_PACKAGES = {"duckdb": "duckdb"}
"""Driver -> the package that brings it; others are adbc-driver-NAME."""

_SQLITE = b"SQLite format 3"
"""First bytes of its files."""

_NAME = r'(?:[\w$-]+|"[^"]+"|`[^`]+`)'
_TABLE = re.compile(rf"{_NAME}(?:\.{_NAME})*")
_SECRET = re.compile(r"pass|pwd|token|secret|key|credential", re.IGNORECASE)
_NO_LITERAL = re.compile(r"['\\\x00-\x1f]")

_CASTS = {"money": "numeric", "oid": "bigint"}
"""Type of PostgreSQL that the driver hands out as another number -> the type it is cast to."""


@dataclass(frozen=True)
class _Rows(Table):
    """A statement, and the highest value of its cursor.

    Parameters
    ----------
    database
        The database.
    statement
        Selects the rows.
    schema
        Columns as they are imported.
    cursor
        Tensor whose highest value is kept; empty for none.
    is_exact
        The cursor has numbers as text.
    highest
        That value, once rows are read; empty before, and if all are null.
    """

    database: Source
    statement: str
    schema: pa.Schema
    cursor: str
    is_exact: bool
    highest: list[Any] = field(default_factory=list)


def address(src: Any) -> Elsewhere | None:
    """Return the database that an address names: ``postgresql://...``, ``duckdb:///path``, or the path of a file.

    Raises
    ------
    InvalidPathException
        If no file is at the path.
    """
    if not isinstance(src, str | os.PathLike):
        return None
    text = os.fspath(src)
    scheme = scheme_of(text).partition("+")[0]  # SQLAlchemy names its own driver behind it
    scheme = _SCHEMES.get(scheme, scheme)
    rest = text.partition("://")[2]
    if scheme not in ("file", *_FILES):
        return Elsewhere(f"{scheme}://{rest}", shown(text))
    path = Path(path_of(text) if scheme == "file" else rest.removeprefix("/"))
    if not path.is_file():
        raise InvalidPathException(f"no database is at {os.fspath(path)!r}")
    with path.open("rb") as file:
        is_sqlite = file.read(len(_SQLITE)) == _SQLITE
    kind = scheme if scheme != "file" else "sqlite" if is_sqlite else "duckdb"
    return Elsewhere(f"{kind}://{path.resolve()}", os.fspath(path.resolve()))


def recognise(source: Source) -> str | None:
    """Name the kind of database."""
    return f"a database of {_driver(source)}" if isinstance(source.data, Elsewhere) else None


def plan(
    source: Source,
    *,
    query: str | None = None,
    table: str | None = None,
    cursor: str | None = None,
    since: str | None = None,
    overlap: float = 0.0,
    key: Sequence[str] = (),
    **options: Unpack[ColumnOptions],
) -> Plan:
    """Plan a tensor for each column of a table, or of the result of a query.

    Parameters
    ----------
    source
        The database.
    query
        Statement whose rows are imported: SELECT ...
    table
        Table whose rows are imported, as SQL names it: shop.orders
    cursor
        Column that grows with each change, such as updated_at: a later import takes only what is new.
    since
        Value of the cursor to begin with; by default the highest one that earlier imports have read.
    overlap
        Seconds (units, for numbers) below that value that are read again, for rows that were committed late.
    key
        Columns that identify a row: newer rows take the place of older ones.
    options
        Options of columns.

    Raises
    ------
    IngestionError
        If not exactly one of query and table is given, the driver is missing, or the database refuses.
    """
    if (query is None) == (table is None):
        raise IngestionError("a database needs --table NAME, or --query 'SELECT ...'")
    if table is not None and not _TABLE.fullmatch(table):
        raise IngestionError(f'a table is named as in SQL, shop.orders or shop."Orders", not {table!r}')
    if overlap and not key:
        raise IngestionError("rows that are read again need a key, or they would be there twice: --key")
    wishes = Wishes.of(options)
    if key and (wishes.media or wishes.labels or wishes.link):
        raise IngestionError("rows by key hold no media, links or labels: import them without a key")
    text = f"SELECT * FROM {table}" if query is None else query.strip().rstrip(";")  # noqa: S608 - of the user
    with _connected(source) as connection:
        found = _schema(connection, text, source)
        keys = [_column(one, found) for one in key]
        at = _column(cursor, found) if cursor else None
        begin = _lowered(since, overlap)
        statement = _statement(text, found, _driver(source), at, begin, is_keyed=bool(keys))
        found = _schema(connection, statement, source) if statement != text else found
    schema = _as_imported(found, wishes)
    problems: list[Problem] = []
    below = Source("", None, source.creds)
    columns, tensors = table_of(schema, wishes, None, below, problems)
    names = {column.name: column.tensor for column in columns.columns}
    if since is not None and not keys:
        problems.append(
            Problem(str(at), f"later rows with {since}, the last value, are not read; a key lets them be", 0)
        )
    about = {**_asked(query, table, source), "cursor": at, "since": since, "key": keys or None}
    told = f"{table or 'a query'}, {_driver(source)}"
    return Plan(
        told + (f", {at} since {begin}" if begin is not None else ""),
        tensors,
        [told],
        _Rows(
            *(below, wishes, columns.columns, source, statement, schema),
            cursor=names[at] if at else "",
            is_exact=at is not None and _is_exact(found.field(at).type),
        ),
        problems=problems,
        about={name: value for name, value in about.items() if value is not None},
        upsert=Upsert(tuple(names[one] for one in keys), names[at] if at else None) if keys else None,
        of=f"{table or text}/{at or ''}/{','.join(keys)}",
        may_be_empty=True,
    )


def rows(item: str, context: _Rows) -> Iterator[Any]:
    """Read the rows, in batches; the connection ends with them."""
    with _connected(context.database) as connection, connection.cursor() as cursor:
        _execute(cursor, context.statement, context.database)
        for batch in cursor.fetch_record_batch():
            found = _converted(owned(batch), context.schema)
            for start in range(0, found.num_rows, _BATCH_ROWS):
                for made in context.rows(found.slice(start, _BATCH_ROWS), item):
                    if context.cursor and isinstance(made, Mapping):
                        _note(made[context.cursor], context)
                    yield made


def resumed(
    source: Source, options: Mapping[str, Any], records: Sequence[Mapping[str, Any]]
) -> Mapping[str, Any]:
    """Return the options of an import that goes on after the last one of the same rows by the same cursor."""
    cursor = options.get("cursor")
    if not cursor or options.get("since") is not None:
        return options
    asked = _asked(options.get("query"), options.get("table"), source)
    for record in reversed(records):
        about = record.get("about") or {}
        is_same = record.get("source") == source.shown and asked.items() <= about.items()
        if (
            is_same
            and str(about.get("cursor")).lower() == cursor.lower()
            and about.get("highest") is not None
        ):
            return {**options, "since": about["highest"]}
    return options


def ended(plan: Plan) -> dict[str, Any]:
    """Return the highest value of the cursor, from which the next import goes on."""
    highest = [_told(one) for one in plan.context.highest] or [plan.about.get("since")]
    return {"highest": highest[0]} if plan.context.cursor else {}


# -- the statement ---------------------------------------------------------------------------------------------


def _asked(query: str | None, table: str | None, source: Source) -> dict[str, str]:
    """Return the table, or the query without secrets of the address, as the info names it."""
    return {"table": table} if table is not None else {"query": _scrubbed(query or "", source)}


def _column(name: str, schema: pa.Schema) -> str:
    """Return the column with a name; letters of another case do if no other column is meant.

    Raises
    ------
    IngestionError
        If the rows have no such column, or several.
    """
    found = [one for one in schema.names if one == name] or [
        one for one in schema.names if one.lower() == name.lower()
    ]
    if len(found) != 1:
        raise IngestionError(f"there is no column {name!r}: {', '.join(schema.names)}")
    return str(found[0])


def _statement(
    text: str, schema: pa.Schema, driver: str, cursor: str | None, since: str | None, *, is_keyed: bool
) -> str:
    """Return the statement for the rows from the cursor's value on, with columns as text that Arrow has no type for."""
    selected = [_selected(field, driver) for field in schema]
    is_cast = any(one != _quoted(field.name, driver) for one, field in zip(selected, schema, strict=True))
    if not is_cast and (cursor is None or since is None):
        return text
    made = f"SELECT {', '.join(selected) if is_cast else '*'} FROM (\n{text}\n) AS q"  # noqa: S608 - of the user
    if cursor is None or since is None:
        return made
    name, kind = _quoted(cursor, driver), schema.field(cursor).type
    is_text = driver == "postgresql" and (pa.types.is_string(kind) or pa.types.is_large_string(kind))
    compared = f'{name} COLLATE "C"' if is_text else name  # as Arrow finds the highest value
    # Without a key, rows with the last value would come twice.
    condition = f"{compared} {'>=' if is_keyed else '>'} {_literal(since, kind)}"
    return f"{made} WHERE {condition}" + (f" OR {name} IS NULL" if is_keyed else "")


def _selected(field: pa.Field, driver: str) -> str:
    name, kind = _quoted(field.name, driver), field.type
    if driver == "postgresql":
        told = ((field.metadata or {}).get(b"POSTGRESQL:type") or b"").decode()
        if told in _CASTS:
            return f"{name}::{_CASTS[told]} AS {name}"
        if pa.types.is_list(kind) and isinstance(kind.value_type, pa.BaseExtensionType):
            return f"to_jsonb({name}) AS {name}"
    is_opaque = isinstance(kind, pa.OpaqueType) and pa.types.is_binary(kind.storage_type)
    if is_opaque or kind == pa.month_day_nano_interval():
        return f"CAST({name} AS {'VARCHAR' if driver == 'snowflake' else 'TEXT'}) AS {name}"
    return name


def _quoted(name: str, driver: str) -> str:
    mark = "`" if driver == "bigquery" else '"'
    return mark + name.replace(mark, mark * 2) + mark


def _literal(value: str, kind: pa.DataType) -> str:
    """Return a value of the cursor as SQL writes it.

    Raises
    ------
    IngestionError
        If it has characters that databases read in several ways.
    """
    if is_number(kind) or pa.types.is_decimal(kind):
        try:
            return str(Decimal(value))
        except InvalidOperation:
            raise IngestionError(f"the cursor is a number, and {value!r} is none") from None
    if _NO_LITERAL.search(value):
        raise IngestionError(
            f"a cursor cannot begin with {value!r}: quotes, backslashes and control characters"
        )
    return f"'{value}'"


def _lowered(since: str | None, overlap: float) -> str | None:
    """Return the value of a cursor that lies some seconds, or units, below another.

    Raises
    ------
    IngestionError
        If it is neither a number nor a date or a moment.
    """
    if since is None or not overlap:
        return since
    try:
        return str(Decimal(since) - Decimal(str(overlap)))
    except InvalidOperation:
        pass
    try:
        if len(since) == len("2026-01-01"):
            return str(date.fromisoformat(since) - timedelta(days=-(-overlap // 86_400)))
        return str(datetime.fromisoformat(since) - timedelta(seconds=overlap))
    except (ValueError, OverflowError):
        raise IngestionError(
            f"an overlap needs a cursor of numbers, dates or moments, not {since!r}"
        ) from None


# -- values ----------------------------------------------------------------------------------------------------


def _as_imported(schema: pa.Schema, wishes: Wishes) -> pa.Schema:
    """Return the types of the columns as tensors take them: words of enums and exact numbers as text."""
    kinds = []
    for one in schema:
        kind = one.type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        if isinstance(kind, pa.OpaqueType):
            kind = kind.storage_type
        if one.name in wishes.documents and pa.types.is_string(kind):
            kind = pa.json_()
        kinds.append(pa.field(one.name, kind, metadata=one.metadata))
    return pa.schema(kinds)


def _converted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    arrays = []
    for values, one in zip(batch.columns, schema, strict=True):
        found = values.storage if isinstance(values.type, pa.OpaqueType) else values
        found = found.dictionary_decode() if pa.types.is_dictionary(found.type) else found
        if found.type != one.type:
            is_json = isinstance(one.type, pa.JsonType)
            found = pa.ExtensionArray.from_storage(one.type, found) if is_json else found.cast(one.type)
        arrays.append(found)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _is_exact(kind: pa.DataType) -> bool:
    """Return whether numbers become text."""
    return bool(pa.types.is_decimal(kind)) or (
        isinstance(kind, pa.OpaqueType) and kind.type_name == "numeric"
    )


def _note(values: pa.Array, context: _Rows) -> None:
    """Keep the highest value of the cursor."""
    import pyarrow.compute as pc

    if context.is_exact:
        found = [one for one in map(Decimal, values.drop_null().to_pylist()) if one.is_finite()]
        context.highest[:] = [max([*context.highest, *found])] if found else context.highest
        return
    top = pc.max(values)
    if top.is_valid:
        context.highest[:] = [pc.max(pa.array([*context.highest, top], values.type))]


def _told(value: Any) -> str:
    """Return a value of a cursor as text that SQL takes."""
    if isinstance(value, Decimal):
        return str(value)
    if pa.types.is_timestamp(value.type) and value.type.tz:
        value = value.cast(pa.timestamp(value.type.unit, "UTC"))
    return str(value.cast(pa.string()).as_py())


# -- the connection --------------------------------------------------------------------------------------------


def _driver(source: Source) -> str:
    return scheme_of(source.data.address)


@contextmanager
def _connected(source: Source) -> Iterator[Any]:
    """Connect to a database.

    Raises
    ------
    IngestionError
        If its driver is not installed, or the database refuses.
    """
    driver = _driver(source)
    package = _PACKAGES.get(driver, f"adbc-driver-{driver}")
    if driver in _EXTRAS:
        check_installed(f"Databases of {driver}", driver, "adbc-driver-manager", package)
    elif not is_installed(package):
        raise IngestionError(
            f"databases of {driver} need their ADBC driver: pip install {package}; drivers of {', '.join(_EXTRAS)} "
            "are extras of these names"
        )
    failed = import_module("adbc_driver_manager").Error
    try:
        with closing(_connection(driver, source.data.address)) as connection:
            yield connection
    except LakebedError:
        raise
    except (failed, pa.ArrowException, OSError) as error:
        reason = " ".join(_scrubbed(str(error), source).split())
        raise IngestionError(f"{source.shown} refuses: {reason}") from None


def _connection(driver: str, place: str) -> Any:
    """Open a connection; files are opened for reading only."""
    dbapi = import_module(f"adbc_driver_{driver}.dbapi")
    rest = place.partition("://")[2]
    if driver == "sqlite":
        return dbapi.connect(f"file:{quote(rest)}?mode=ro", autocommit=True)
    if driver == "duckdb":
        library = import_module("adbc_driver_duckdb").driver_path()
        options = {"path": rest, "access_mode": "read_only"}
        connect = import_module("adbc_driver_manager.dbapi").connect
        return connect(library, entrypoint="duckdb_adbc_init", db_kwargs=options, autocommit=True)
    if driver == "bigquery":
        project, _, dataset = rest.partition("/")
        prefix = "adbc.bigquery.sql"
        given = {f"{prefix}.project_id": project, f"{prefix}.dataset_id": dataset}
        return dbapi.connect({name: value for name, value in given.items() if value}, autocommit=True)
    return dbapi.connect(rest if driver == "snowflake" else place, autocommit=True)


def _schema(connection: Any, statement: str, source: Source) -> pa.Schema:
    """Return the columns of a statement; of SQLite, which has types of values, those of the first rows."""
    with connection.cursor() as cursor:
        if _driver(source) == "sqlite":
            _execute(cursor, statement, source)
            return cursor.fetch_record_batch().schema
        try:
            return cursor.adbc_execute_schema(statement)
        except import_module("adbc_driver_manager").NotSupportedError:
            cursor.execute(f"SELECT * FROM (\n{statement}\n) AS q LIMIT 0")  # noqa: S608 - of the user
            return cursor.fetch_record_batch().schema


def _execute(cursor: Any, statement: str, source: Source) -> None:
    if _driver(source) == "sqlite":  # the rows that decide the types of columns
        cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(_BATCH_ROWS)})
    cursor.execute(statement)


def _scrubbed(text: str, source: Source) -> str:
    """Return a text without the secrets of the address."""
    found = {source.data.address}
    try:
        parts = urlsplit(source.data.address)
        found |= {parts.password or "", unquote(parts.password or "")}
        found |= {value for name, value in parse_qsl(parts.query) if _SECRET.search(name)}
    except ValueError:
        pass  # the whole address is hidden
    for secret in sorted(found - {""}, key=len, reverse=True):
        text = text.replace(secret, source.shown if secret == source.data.address else "***")
    return text
