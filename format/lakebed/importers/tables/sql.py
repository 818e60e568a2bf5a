"""Databases by ADBC: PostgreSQL, SQLite, DuckDB, Snowflake, BigQuery, and others whose driver is installed.

The rows of one statement are read as a stream of Arrow batches. Types without an equivalent in Arrow become text, which
the database itself writes: intervals, addresses, ranges, times with a zone. With a cursor, an import reads only rows
that are newer than the last import; :mod:`lakebed.importers.core.upserting` imports rows by key.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Unpack
from urllib.parse import parse_qsl, quote, unquote, urlsplit

import pyarrow as pa

from lakebed.errors import IngestionError, InvalidPathException, LakebedError
from lakebed.importers.core.columns import ColumnOptions
from lakebed.importers.core.described_columns import is_number
from lakebed.importers.core.packages import check_installed, is_installed
from lakebed.importers.core.plan import Plan, Problem
from lakebed.importers.core.source import Elsewhere, Source
from lakebed.importers.tables.streams import column_of, plan_of_stream, stream_ended, stream_rows
from lakebed.storage.address import path_of, scheme_of, shown

BATCHED = True

_BATCH_ROWS = 65_536

_SCHEMES = {"postgres": "postgresql", "sqlite3": "sqlite"}
"""Scheme of an address -> the driver, where they differ."""
_EXTRAS = ("postgresql", "sqlite", "duckdb", "snowflake", "bigquery")
_FILES = ("sqlite", "duckdb")
"""Drivers whose databases are files."""
_PACKAGES = {"duckdb": "duckdb"}
"""Driver -> the package that contains it; packages of other drivers are called adbc-driver-NAME."""

_SQLITE = b"SQLite format 3"
"""First bytes of a file of SQLite."""

_NAME = r'(?:[\w$-]+|"[^"]+"|`[^`]+`)'
_TABLE = re.compile(rf"{_NAME}(?:\.{_NAME})*")
_SECRET = re.compile(r"pass|pwd|token|secret|key|credential", re.IGNORECASE)
_NO_LITERAL = re.compile(r"['\\\x00-\x1f]")

_CASTS = {"money": "numeric", "oid": "bigint"}
"""Type of PostgreSQL that the driver returns as another number -> the type to which it is cast."""


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
    scheme = scheme_of(text).partition("+")[0]  # SQLAlchemy adds the name of its driver after "+"
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
        raise IngestionError(f'a table must be named as in SQL, shop.orders or shop."Orders", not {table!r}')
    if since is not None and not cursor:
        raise IngestionError("since= (--since) is a value of the cursor: name the cursor, cursor= (--cursor)")
    if overlap and not key:
        raise IngestionError(
            "overlap= (--overlap) reads rows twice: without key= (--key), they are stored twice"
        )
    text = f"SELECT * FROM {table}" if query is None else query.strip().rstrip(";")  # noqa: S608 - the user's statement
    with _connected(source) as connection:
        found = _schema(connection, text, source)
        keys = [column_of(one, found) for one in key]
        at = column_of(cursor, found) if cursor else None
        begin = _lowered(since, overlap)
        statement = _statement(text, found, _driver(source), at, begin, is_keyed=bool(keys))
        found = _schema(connection, statement, source) if statement != text else found
    problems = []
    if since is not None and not keys:
        told = f"later rows with the last value of the cursor, {since}, are not read; with a key they are"
        problems.append(Problem(str(at), told, 0))
    about = {**_asked(query, table, source), **({"since": since} if since is not None else {})}
    return plan_of_stream(
        f"{table or 'a query'}, {_driver(source)}" + (f", {at} since {begin}" if begin is not None else ""),
        found,
        partial(_batches, source, statement),
        source,
        options,
        key=keys,
        cursor=at,
        of=table or _scrubbed(text, source),
        about=about,
        problems=problems,
    )


rows = stream_rows


def _batches(source: Source, statement: str) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a statement, then close the connection."""
    with _connected(source) as connection, connection.cursor() as cursor:
        _execute(cursor, statement, source)
        yield from cursor.fetch_record_batch()


def resumed(
    source: Source, options: Mapping[str, Any], records: Sequence[Mapping[str, Any]]
) -> Mapping[str, Any]:
    """Return the options with which an import continues after the last import of the same rows by the same cursor."""
    cursor = options.get("cursor")
    if not cursor or options.get("since") is not None:
        return options
    asked = _asked(options.get("query"), options.get("table"), source)
    for record in reversed(records):
        about = record.get("about") or {}
        is_same = record.get("source") == source.shown and asked.items() <= about.items()
        is_continued = str(about.get("cursor")).lower() == cursor.lower()
        if is_same and is_continued and about.get("highest") is not None:
            return {**options, "since": about["highest"]}
    return options


ended = stream_ended


# -- the statement ---------------------------------------------------------------------------------------------


def _asked(query: str | None, table: str | None, source: Source) -> dict[str, str]:
    """Return the table, or the query without secrets of the address, as the info names it."""
    return {"table": table} if table is not None else {"query": _scrubbed(query or "", source)}


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
    compared = f'{name} COLLATE "C"' if is_text else name  # the order by which Arrow finds the highest value
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
    is_opaque = isinstance(kind, pa.OpaqueType) and not pa.types.is_string(kind.storage_type)
    if is_opaque or kind == pa.month_day_nano_interval():
        return f"CAST({name} AS {'VARCHAR' if driver == 'snowflake' else 'TEXT'}) AS {name}"
    return name


def _quoted(name: str, driver: str) -> str:
    mark = "`" if driver == "bigquery" else '"'
    return mark + name.replace(mark, mark * 2) + mark


def _literal(value: str, kind: pa.DataType) -> str:
    """Return a value of the cursor as an SQL literal.

    Raises
    ------
    IngestionError
        If the value has characters that databases interpret differently.
    """
    if is_number(kind) or pa.types.is_decimal(kind):
        try:
            return str(Decimal(value))
        except InvalidOperation:
            raise IngestionError(
                f"the cursor is a column of numbers, but {value!r} is not a number"
            ) from None
    if _NO_LITERAL.search(value):
        raise IngestionError(
            f"the value of the cursor, {value!r}, must not hold single quotes, backslashes or control characters"
        )
    return f"'{value}'"


def _lowered(since: str | None, overlap: float) -> str | None:
    """Return the value of a cursor that is `overlap` seconds, or units, below `since`.

    Raises
    ------
    IngestionError
        If `since` is neither a number, a date nor a moment.
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


# -- the connection --------------------------------------------------------------------------------------------


def _driver(source: Source) -> str:
    return scheme_of(source.data.address)


@contextmanager
def _connected(source: Source) -> Iterator[Any]:
    """Connect to a database.

    Raises
    ------
    IngestionError
        If the driver of the database is not installed, or the database refuses the connection.
    """
    driver = _driver(source)
    package = _PACKAGES.get(driver, f"adbc-driver-{driver}")
    if driver in _EXTRAS:
        check_installed(f"Databases of {driver}", driver, "adbc-driver-manager", package)
    elif not is_installed(package):
        raise IngestionError(
            f"databases of {driver} need their ADBC driver: pip install {package}; the extras "
            f"{', '.join(_EXTRAS)} install the drivers of these databases"
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
        opened = connect(library, entrypoint="duckdb_adbc_init", db_kwargs=options, autocommit=True)
        with opened.cursor() as cursor:
            # JSON and large integers get types of their own.
            cursor.execute("SET arrow_lossless_conversion = true")
        return opened
    if driver == "bigquery":
        project, _, dataset = rest.partition("/")
        prefix = "adbc.bigquery.sql"
        given = {f"{prefix}.project_id": project, f"{prefix}.dataset_id": dataset}
        return dbapi.connect({name: value for name, value in given.items() if value}, autocommit=True)
    return dbapi.connect(rest if driver == "snowflake" else place, autocommit=True)


def _schema(connection: Any, statement: str, source: Source) -> pa.Schema:
    """Return the columns of a statement."""
    with connection.cursor() as cursor:
        if _driver(source) == "sqlite":
            return _of_sqlite(cursor, statement, source)
        try:
            return cursor.adbc_execute_schema(statement)
        except import_module("adbc_driver_manager").NotSupportedError:
            cursor.execute(f"SELECT * FROM (\n{statement}\n) AS q LIMIT 0")  # noqa: S608 - the user's statement
            return cursor.fetch_record_batch().schema


def _of_sqlite(cursor: Any, statement: str, source: Source) -> pa.Schema:
    """Return the types of the first rows; for whole numbers and nulls, the types that the table declares."""
    _execute(cursor, statement, source)
    found = cursor.fetch_record_batch().schema
    if pa.int64() not in found.types:
        return found
    cursor.execute(f"CREATE TEMP VIEW _lakebed_rows AS {statement}")
    cursor.execute("SELECT type FROM pragma_table_info('_lakebed_rows') ORDER BY cid")
    declared = cursor.fetch_arrow_table().column(0).to_pylist()
    cursor.execute("DROP VIEW _lakebed_rows")
    kinds = [
        _affinity(told or "") if one.type == pa.int64() else one.type
        for one, told in zip(found, declared, strict=True)
    ]
    return pa.schema(list(zip(found.names, kinds, strict=True)))


def _affinity(declared: str) -> pa.DataType:
    """Return the type of values that a declared type of SQLite prefers (https://sqlite.org/datatype3.html, 3.1)."""
    words = {"INT": pa.int64(), **dict.fromkeys(("CHAR", "CLOB", "TEXT"), pa.string()), "BLOB": pa.binary()}
    words |= dict.fromkeys(("REAL", "FLOA", "DOUB"), pa.float64())
    return next((kind for word, kind in words.items() if word in declared.upper()), pa.int64())


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
