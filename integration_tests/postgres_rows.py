"""Rows of every common type in a PostgreSQL, and checksums of their columns, made by the database and by a reader."""

from __future__ import annotations

import psycopg
import pyarrow as pa

from integration_tests import lake
from integration_tests.databases import BLOCK, Content, Digest

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


def integers(values: pa.Array) -> bytes:
    return lake.integers(values).astype(">i8").tobytes()


def texts(values: pa.Array) -> bytes:
    return b"".join(text.encode() + b"\0" for text in values.to_pylist())


def doubles(values: pa.Array) -> bytes:
    return values.to_numpy().astype(">f8").tobytes()  # type: ignore[no-any-return] # pyarrow has no types


def flags(values: pa.Array) -> bytes:
    return values.cast(pa.int8()).to_numpy().tobytes()  # type: ignore[no-any-return] # pyarrow has no types


CONTENT: dict[str, Content] = {
    **dict.fromkeys(["id", "small", "quantity", "total", "day", "placed", "shipped"], integers),
    **dict.fromkeys(["note", "details"], texts),
    "price": doubles,
    "paid": flags,
}


def sql_digests(connection: psycopg.Connection) -> dict[str, list[Digest]]:
    """The same of each column, computed by PostgreSQL."""
    found = {}
    for column, content in SQL_BYTES.items():
        query = f"""
            select md5(coalesce(string_agg({content}, ''::bytea order by id) filter (where {column} is not null), '')),
                   md5(string_agg(({column} is null)::int::text, '' order by id))
            from shop.orders group by (id - 1) / {BLOCK} order by (id - 1) / {BLOCK}
        """
        found[column] = connection.execute(query.encode()).fetchall()
    return found


def fill(connection: psycopg.Connection, rows: int) -> None:
    for statement in ("drop schema if exists shop cascade", "create schema shop", TABLE):
        connection.execute(statement.encode())
    connection.execute(ROWS.encode(), [rows])
