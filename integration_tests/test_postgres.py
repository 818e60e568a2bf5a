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
import pytest

from integration_tests import lake
from integration_tests.connector import Connection
from integration_tests.databases import ROOT, check_states, digests, sync
from integration_tests.postgres import UnavailableError, server
from integration_tests.postgres_rows import CONTENT, fill, sql_digests

SOURCE = "integration_tests.postgres_source"


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    try:
        with server() as dsn:
            yield dsn
    except UnavailableError as reason:
        pytest.skip(f"no PostgreSQL: {reason}")


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
