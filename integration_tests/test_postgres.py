"""Rows of a real PostgreSQL, read by a source of ours over the protocol, are in the lake bit for bit."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest

from integration_tests import lake
from integration_tests.connector import Connection
from integration_tests.databases import BLOCK, ROOT, Content, Digest, check_states, digests, sync
from integration_tests.postgres import UnavailableError, server

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


SOURCE = "integration_tests.postgres_source"


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    try:
        with server() as dsn:
            yield dsn
    except UnavailableError as reason:
        pytest.skip(f"no PostgreSQL: {reason}")


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


MILLIONS = pytest.param(10_000_000, marks=[pytest.mark.soak, pytest.mark.timeout(7200)])


@pytest.mark.parametrize("rows", [50_000, MILLIONS])
def test_every_column_has_the_checksum_that_the_database_computes(
    database: str, connection: Connection, rows: int
) -> None:
    config = {"dsn": database, "schema": "shop", "state_every": 7000}
    with psycopg.connect(database, autocommit=True) as sql:
        fill(sql, rows)
        answered = sync(connection, SOURCE, config)
        wanted = sql_digests(sql)

    check_states(answered, rows)
    assert len(lake.open_stream(connection.lake, ("shop", "orders"))) == rows
    assert digests(connection.lake, ("shop", "orders"), CONTENT) == wanted


AWKWARD = """
    create table shop.awkward (
        id bigint primary key, t text, "row" text, "order" text, "a ""b" text, updated_at timestamptz,
        _airbyte_meta text
    )
"""


def test_columns_may_have_any_name(database: str, connection: Connection) -> None:
    """Also that of the row in the source's query, and of a column of the connector."""
    names = ["t", "row", "order", 'a "b', "_airbyte_meta"]
    with psycopg.connect(database, autocommit=True) as sql:
        for statement in ("drop schema if exists shop cascade", "create schema shop", AWKWARD):
            sql.execute(statement.encode())
        sql.execute("insert into shop.awkward values (1, 'a', 'b', 'c', 'd', now(), 'e')")
        sync(connection, SOURCE, {"dsn": database, "schema": "shop"})
    dataset = lake.open_stream(connection.lake, ("shop", "awkward"))
    tensors = dataset.info["airbyte"]["columns"]
    assert [dataset[tensors[name]].text() for name in names] == [["a"], ["b"], ["c"], ["d"], ["e"]]


def test_the_way_from_sql_that_the_documentation_shows(database: str, connection: Connection) -> None:
    """Its programs for jq make a catalog, and a state that the next sync goes on from."""
    jq = shutil.which("jq")
    if jq is None:
        pytest.skip("no jq")
    page = (ROOT / "docs/airbyte.md").read_text(encoding="utf-8")
    to_catalog, to_state = re.findall(r"jq -cs?[^']*'([^']+)'", page)
    folder = connection.folder
    (folder / "source.json").write_text(json.dumps({"dsn": database, "schema": "shop", "state_every": 3}))

    def source(command: str, *more: str | Path) -> bytes:
        line = [sys.executable, "-m", SOURCE, command, "--config", folder / "source.json", *more]
        return subprocess.run(line, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout

    def through(given: bytes, into: str, *options: str | Path) -> Path:
        made = subprocess.run([jq, *options], input=given, stdout=subprocess.PIPE, check=True)
        (folder / into).write_bytes(made.stdout)
        return folder / into

    with psycopg.connect(database, autocommit=True) as sql:
        for statement in ("drop schema if exists shop cascade", "create schema shop", AWKWARD):
            sql.execute(statement.encode())
        sql.execute("create table shop.plain (id bigint primary key, n bigint)")
        sql.execute("insert into shop.plain values (1, 1)")
        added = "insert into shop.awkward select g, g from generate_series(%s::int, %s::int) g"
        sql.execute(added, [1, 7])
        catalog = through(source("discover"), "configured.json", "-c", to_catalog)
        configured = json.loads(catalog.read_text())
        modes = [stream["destination_sync_mode"] for stream in configured["streams"]]
        assert sorted(modes) == ["append_dedup", "overwrite"]
        answers = connection.sync(configured, source("read", "--catalog", catalog)).succeeded()
        options = ["-cs", "--slurpfile", "catalog", catalog, to_state]
        state = through(b"\n".join(answers.output), "state.json", *options)
        [kept] = json.loads(state.read_text())
        assert kept["stream"]["stream_descriptor"] == {"name": "awkward", "namespace": "shop"}
        sql.execute(added, [8, 9])
        sent = source("read", "--catalog", catalog, "--state", state)
        assert sent.count(b'"RECORD"') == 3
        connection.sync(configured, sent).succeeded()
    found = lake.rows(connection.lake, ("shop", "awkward"))
    assert sorted(row["id"] for row in found) == list(range(1, 10))
    assert len(lake.rows(connection.lake, ("shop", "plain"))) == 1
