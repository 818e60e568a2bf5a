"""`lakebed import sql` from a real PostgreSQL: every type, what is new, rows by key, and no password anywhere."""

from __future__ import annotations

import datetime as dt
import json
import threading
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pyarrow as pa
import pytest

import lakebed
from integration_tests.databases import BLOCK, digests_of
from integration_tests.postgres import UnavailableError, server
from integration_tests.postgres_rows import CONTENT, fill, sql_digests
from lakebed.errors import IngestionError

pytest.importorskip("adbc_driver_postgresql")

SECRET = "s3cr3t/ü"
QUOTED = "s3cr3t%2F%C3%BC"


@pytest.fixture(scope="module")
def dsn() -> Iterator[str]:
    try:
        with server() as found:
            yield found
    except UnavailableError as reason:
        pytest.skip(f"no PostgreSQL: {reason}")


@pytest.fixture(scope="module")
def address(dsn: str) -> str:
    port = dict(part.split("=") for part in dsn.split())["port"]
    return f"postgresql://postgres:{QUOTED}@127.0.0.1:{port}/postgres"


def imported(address: str, dest: Any, **options: Any) -> Any:
    return lakebed.import_from("sql", address, dest, progressbar=False, **options)


MILLIONS = pytest.param(10_000_000, marks=[pytest.mark.soak, pytest.mark.timeout(7200)])


@pytest.mark.parametrize("rows", [50_000, MILLIONS])
def test_every_column_has_the_checksum_that_the_database_computes(
    dsn: str, address: str, tmp_path: Path, rows: int
) -> None:
    with psycopg.connect(dsn, autocommit=True) as sql:
        fill(sql, rows)
        ds = imported(address, tmp_path / "lake", query="SELECT * FROM shop.orders ORDER BY id").dataset
        wanted = sql_digests(sql)
    blocks = (pa.table(ds[start : start + BLOCK]) for start in range(0, len(ds), BLOCK))
    assert digests_of(blocks, CONTENT) == wanted


TYPES = {
    "numeric '12345678901234567890.125'": "12345678901234567890.125",
    "1.50::numeric(10, 2)": "1.50",
    "timestamp '2026-01-02 03:04:05.678901'": dt.datetime(2026, 1, 2, 3, 4, 5, 678_901),  # noqa: DTZ001
    "timestamptz '2026-01-02 03:04:05+02'": dt.datetime(2026, 1, 2, 1, 4, 5, tzinfo=dt.UTC),
    "date '1850-01-01'": dt.date(1850, 1, 1),
    "time '01:02:03.5'": dt.time(1, 2, 3, 500_000),
    "timetz '01:02:03+02'": "01:02:03+02",
    "interval '1 mon 2 days'": "1 mon 2 days",
    """json '{"a": [1, null]}'""": '{"a": [1, null]}',
    """jsonb '{"a": [1, null]}'""": '{"a": [1, null]}',
    "uuid '4100c3e8-aa7d-4ecc-8ade-663d9c0e4314'": "4100c3e8-aa7d-4ecc-8ade-663d9c0e4314",
    r"'\x00ff'::bytea": [0, 255],
    "array[1, 2]": [1, 2],
    "array['a', null]": '["a", null]',
    "array[1.5::numeric]": "[1.5]",
    "array['{}'::jsonb]": "[{}]",
    "true": True,
    "'ok'::shop.mood": "ok",
    "inet '10.0.0.1'": "10.0.0.1/32",
    "int4range(1, 3)": "[1,3)",
    "money '1.50'": "1.50",
    "4000000000::oid": 4_000_000_000,
    "'NaN'::float8": float("nan"),
    "'text'::varchar(9)": "text",
}


def test_every_type_comes_in_and_so_do_nulls(dsn: str, address: str) -> None:
    selected = ", ".join(f"{value} AS c{at}" for at, value in enumerate(TYPES))
    with psycopg.connect(dsn, autocommit=True) as sql:
        for statement in ("drop schema if exists shop cascade", "create schema shop"):
            sql.execute(statement.encode())
        sql.execute("create type shop.mood as enum ('sad', 'ok')")
        sql.execute(f"create table shop.types as select {selected}".encode())
        sql.execute("insert into shop.types select")
    ds = imported(address, "mem://pg-types", table="shop.types").dataset
    first, second = ds.to_arrow().to_pylist()
    found = dict(zip(TYPES, first.values(), strict=True))
    assert str(found.pop("'NaN'::float8")) == "nan"
    assert found == {name: value for name, value in TYPES.items() if "NaN" not in name}
    assert set(second.values()) == {None}
    assert ds.c8.htype == ds.c13.htype == "json"


def test_what_is_new_comes_in_by_key(dsn: str, address: str, tmp_path: Path) -> None:
    """In the order of the database's own moments, with rows of the same moment; numbers of any size as cursors, too."""
    how: dict[str, Any] = {"table": "shop.news", "key": ["id"], "append": True}
    with psycopg.connect(dsn, autocommit=True) as sql:
        for statement in ("drop schema if exists shop cascade", "create schema shop"):
            sql.execute(statement.encode())
        sql.execute(
            "create table shop.news as select g as id, 'old' as note, timestamptz '2026-01-01 00:00:00.000001+00' "
            "+ g * interval '1 second' as at, (g * 1e20)::numeric as large, 'a' || g as text "
            "from generate_series(1, 9) g"
        )
        for cursor in ("at", "large", "text"):
            dest = tmp_path / cursor
            sql.execute("delete from shop.news where id > 9; update shop.news set note = 'old'")
            assert imported(address, dest, cursor=cursor, **how).written == 9
            sql.execute(
                "update shop.news set note = 'new' where id = 9; "
                "insert into shop.news select id + 1, 'same', at, large, text from shop.news where id = 9"
            )
            report = imported(address, dest, cursor=cursor, **how)
            assert report.written == 2
            assert report.merged == {"added": 1, "replaced": 1}
            told = dict(zip(*report.dataset.to_arrow(["id", "note"]).to_pydict().values(), strict=True))
            assert told == {**dict.fromkeys(range(1, 9), "old"), 9: "new", 10: "same"}
            highest = report.dataset.info["imports"][-1]["about"]["highest"]
            assert highest == {"at": "2026-01-01 00:00:09.000001Z", "text": "a9"}.get(cursor, highest)
            assert cursor != "large" or Decimal(highest) == 9 * 10**20


def test_no_password_is_seen(dsn: str, address: str, tmp_path: Path) -> None:
    """Not in reports, the info, the history, messages of errors or their tracebacks."""
    dest = tmp_path / "lake"
    query = f"SELECT 1 AS id, '{SECRET}' = '' AS same"
    report = imported(address, dest, query=query)
    ds = report.dataset
    seen = [
        str(report),
        repr(report),
        json.dumps(report.to_dict(), default=str),
        json.dumps(dict(ds.info), default=str),
    ]
    seen += [str(ds.commits)]
    wrong = address.replace("/postgres", "/missing") + "?connect_timeout=2&bad=x"
    for place, asked in ((address, f"SELECT '{SECRET}' FROM missing"), (wrong, "SELECT 1")):
        with pytest.raises(IngestionError) as caught:
            imported(place, tmp_path / "none", query=asked)
        assert caught.value.__suppress_context__
        seen.append(str(caught.value))
    assert urlsplit(address).netloc.rpartition("@")[2] in seen[0]
    assert not [text for text in seen if SECRET in text or QUOTED in text]
    files = (path for path in dest.rglob("*") if path.is_file())
    hidden = [QUOTED.encode(), SECRET.encode(), json.dumps(SECRET).strip('"').encode()]
    assert not [path for path in files if any(secret in path.read_bytes() for secret in hidden)]


def test_a_lost_connection_leaves_nothing_behind(dsn: str, address: str, tmp_path: Path) -> None:
    """A statement that fails after many rows, and a server process that is ended, publish no part of the rows."""
    dest = tmp_path / "lake"
    query = "SELECT g AS id, 1 / (300000 - g) AS x FROM generate_series(1, 400000) g"
    with pytest.raises(IngestionError, match="division by zero"):
        imported(address, dest, query=query)
    assert not lakebed.exists(dest)
    ds = imported(address, dest, query="SELECT 0::int AS id, 0::int AS x").dataset
    with pytest.raises(IngestionError, match="division by zero"):
        imported(address, dest, query=query, append=True)
    assert len(lakebed.load(dest)) == 1
    slow = "SELECT g AS id, (pg_sleep(0.0005) IS NULL)::int AS x FROM generate_series(1, 1000000) g"
    others = "query like '%pg_sleep%' and pid <> pg_backend_pid()"

    def end() -> None:
        with psycopg.connect(dsn, autocommit=True) as sql:
            sql.execute(f"select pg_terminate_backend(pid) from pg_stat_activity where {others}".encode())

    timer = threading.Timer(1, end)
    timer.start()
    with pytest.raises(IngestionError, match=r"terminating connection|server closed"):
        imported(address, tmp_path / "slow", query=slow)
    timer.join()
    assert not lakebed.exists(tmp_path / "slow")
    assert len(ds) == 1
