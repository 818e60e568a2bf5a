"""Rows of a real PostgreSQL, read by a source of ours over the protocol, are in the lake bit for bit."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psycopg
import pyarrow as pa
import pytest

from integration_tests import lake
from integration_tests.connector import Connection, write_json
from integration_tests.messages import Json, configure, parse, read
from integration_tests.postgres import UnavailableError, server

SOURCE = Path(__file__).with_name("postgres_source.py")

TABLE = """
    create table shop.orders (
        id bigint primary key, small smallint, quantity integer, total bigint, price double precision,
        note text, paid boolean, day date, placed timestamp, shipped timestamptz, details jsonb
    )
"""

ROWS = r"""
    insert into shop.orders select
        g, (g %% 30000)::smallint, nullif(hashint4(g), hashint4(g - g %% 7)), hashint8(g),
        case when g %% 5 > 0 then hashint8(g) / 997.0 end,
        case g %% 11 when 0 then null when 1 then '' else 'é€𐍈 "q" \ ' || chr(10) || md5(g::text) end,
        nullif(g %% 3, 2)::int::boolean, '1850-01-01'::date + g %% 100000,
        timestamp '1969-12-31' + g * interval '1.000001 second',
        case when g %% 13 > 0 then timestamptz '2026-01-01 00:00:00+00' - g * interval '61.000013 second' end,
        case when g %% 4 > 0 then
            jsonb_build_object('n', g, 'tags', array['x', null, 'ü'], 'deep', '{"a": []}'::jsonb) end
    from generate_series(1, %s) g
"""

# Bytes of a value in SQL; the lake's side of each is in `digest`. Nulls are left out and counted apart.
MICROSECONDS = "int8send((extract(epoch from {0}) * 1000000)::bigint)"
SQL_BYTES = {
    "id": "int8send(id)",
    "small": "int8send(small)",
    "quantity": "int8send(quantity)",
    "total": "int8send(total)",
    "price": "float8send(price)",
    "note": "convert_to(note, 'UTF8') || '\\x00'",
    "paid": "case when paid then '\\x01'::bytea else '\\x00' end",
    "day": "int8send(day - date '1970-01-01')",
    "placed": MICROSECONDS.format("placed"),
    "shipped": MICROSECONDS.format("shipped"),
    "details": "convert_to(details::text, 'UTF8') || '\\x00'",
}


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    try:
        with server() as dsn:
            yield dsn
    except UnavailableError as reason:
        pytest.skip(f"no PostgreSQL: {reason}")


def digest(column: pa.ChunkedArray) -> tuple[str, str]:
    """MD5 of the non-null values and of the null flags, in the order of the rows."""
    nulls = column.is_null().to_numpy().astype(np.uint8)
    values = column.drop_null().combine_chunks()
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        content = b"".join(text.encode() + b"\0" for text in values.to_pylist())
    elif pa.types.is_boolean(values.type):
        content = values.cast(pa.int8()).to_numpy().tobytes()
    elif pa.types.is_floating(values.type):
        content = values.to_numpy().astype(">f8").tobytes()
    else:
        content = lake.integers(values).astype(">i8").tobytes()
    return hashlib.md5(content).hexdigest(), hashlib.md5((nulls + ord("0")).tobytes()).hexdigest()


def sql_digests(connection: psycopg.Connection) -> dict[str, tuple[str, str]]:
    """The same of each column, computed by PostgreSQL."""
    found = {}
    for column, content in SQL_BYTES.items():
        query = f"""
            select md5(string_agg({content}, ''::bytea order by id) filter (where {column} is not null)),
                   md5(string_agg(({column} is null)::int::text, '' order by id)) from shop.orders
        """
        found[column] = connection.execute(query.encode()).fetchone()
    return found  # type: ignore[return-value] # each query returns one row of two texts


def fill(connection: psycopg.Connection, rows: int) -> None:
    for statement in ("drop schema if exists shop cascade", "create schema shop", TABLE):
        connection.execute(statement.encode())
    connection.execute(ROWS.encode(), [rows])


def source(command: str, folder: Path, *options: str | Path) -> subprocess.Popen[bytes]:
    line = [sys.executable, SOURCE, command, "--config", folder / "source.json", *options]
    return subprocess.Popen(line, stdout=subprocess.PIPE)


def sync(connection: Connection, dsn: str) -> list[Json]:
    """Pipe the source into the destination; the messages that came back."""
    folder = connection.folder
    write_json(folder / "source.json", {"dsn": dsn, "schema": "shop", "state_every": 7000})
    found, _ = source("discover", folder).communicate()
    catalog = configure(parse(found)["catalog"]["streams"])
    command = connection.command(catalog)
    sending = source("read", folder, "--catalog", folder / "catalog.json")
    with sending:
        done = subprocess.run(command, stdin=sending.stdout, stdout=subprocess.PIPE, check=True)
    assert sending.returncode == 0
    return list(read(done.stdout))


MILLION = pytest.param(1_000_000, marks=[pytest.mark.soak, pytest.mark.timeout(900)])


@pytest.mark.parametrize("rows", [50_000, MILLION])
def test_every_column_has_the_checksum_that_the_database_computes(
    database: str, connection: Connection, rows: int
) -> None:
    with psycopg.connect(database, autocommit=True) as sql:
        fill(sql, rows)
        answered = sync(connection, database)
        wanted = sql_digests(sql)

    states = [message["state"] for message in answered if message["type"] == "STATE"]
    assert states[-1]["stream"]["stream_state"] == {"position": rows}
    assert sum(state["destinationStats"]["recordCount"] for state in states) == rows
    table = lake.table(connection.lake, ("shop", "orders"))
    assert table.num_rows == rows
    assert {name: digest(table[name]) for name in SQL_BYTES} == wanted
