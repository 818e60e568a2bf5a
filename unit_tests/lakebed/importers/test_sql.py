"""Rows of databases: types, what is new, rows by key; and nobody learns a password."""

from __future__ import annotations

import datetime as dt
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

import lakebed
from lakebed.cli import main
from lakebed.errors import DatasetExistsError, IngestionError, InvalidPathException
from lakebed.importers.core import upserting
from lakebed.importers.core.packages import is_installed
from lakebed.importers.core.source import Elsewhere, Source
from lakebed.importers.tables import sql, streams
from lakebed.upserts import store
from lakebed.upserts.store import Budget

HAS_DRIVERS = is_installed("adbc-driver-manager") and is_installed("adbc-driver-sqlite")
drivers = pytest.mark.skipif(not HAS_DRIVERS, reason="no ADBC drivers")


def imported(src: Any, dest: Any, **options: Any) -> Any:
    return lakebed.import_from("sql", src, dest, progressbar=False, **options)


@pytest.fixture
def shop(tmp_path: Path) -> Callable[..., Path]:
    """Run statements in a database of SQLite, and return its path."""
    path = tmp_path / "shop.db"

    def run(*statements: str, rows: Sequence[Any] = ()) -> Path:
        with sqlite3.connect(path) as database:
            for statement in statements:
                if rows:
                    database.executemany(statement, rows)
                else:
                    database.execute(statement)
        database.close()
        return path

    run("CREATE TABLE orders (id INTEGER PRIMARY KEY, note TEXT, price REAL, data BLOB, at TEXT)")
    return run


def fill(shop: Callable[..., Path], *rows: tuple[Any, ...]) -> Path:
    return shop("INSERT OR REPLACE INTO orders VALUES (?, ?, ?, ?, ?)", rows=rows)


def notes(ds: lakebed.Dataset) -> dict[int, Any]:
    found = ds.to_arrow(["id", "note"]).to_pydict()
    assert len(set(found["id"])) == len(found["id"])
    return dict(zip(found["id"], found["note"], strict=True))


@drivers
def test_a_table_and_a_query_come_in(shop: Callable[..., Path]) -> None:
    path = fill(shop, (1, "a", 0.5, b"\0\xff", "2026-01-01"), (2, None, None, None, None))
    ds = imported(path, "mem://sql-table", table="orders").dataset
    assert ds.to_arrow().to_pylist() == [
        {"id": 1, "note": "a", "price": 0.5, "data": [0, 255], "at": "2026-01-01"},
        {"id": 2, "note": None, "price": None, "data": None, "at": None},
    ]
    query = "SELECT id * 2 AS twice FROM orders -- all of them\n;"
    assert imported(
        f"sqlite:///{path}", "mem://sql-query", query=query
    ).dataset.twice.to_arrow().to_pylist() == [2, 4]


@drivers
def test_types_of_duckdb_come_in(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "types.duckdb"
    with duckdb.connect(path) as database:
        database.execute(
            "CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE TABLE t AS SELECT 12345.678::DECIMAL(20, 5) AS exact, "
            "'ok'::mood AS mood, INTERVAL 1 DAY AS long, DATE '2026-01-02' AS day, TIME '01:02:03' AS time, "
            "TIMESTAMP '2026-01-02 03:04:05' AS local, [1, 2] AS numbers, {'a': 1} AS struct, true AS flag, "
            """'{"a": [1]}'::JSON AS doc, 170141183460469231731687303715884105727 AS most"""
        )
    ds = imported(path, "mem://sql-duckdb", table="t").dataset
    assert ds.to_arrow().to_pylist() == [
        {
            "exact": "12345.67800",
            "mood": "ok",
            "long": "1 day",
            "day": dt.date(2026, 1, 2),
            "time": dt.time(1, 2, 3),
            "local": dt.datetime(2026, 1, 2, 3, 4, 5),  # noqa: DTZ001
            "numbers": [1, 2],
            "struct": '{"a": 1}',
            "flag": True,
            "doc": '{"a": [1]}',
            "most": str(2**127 - 1),
        }
    ]
    assert ds.doc.data() == {"value": [{"a": [1]}]}
    labels = imported(path, "mem://sql-labels", table="t", labels=["mood"]).dataset
    assert labels.mood.htype == "class_label"


@drivers
def test_only_new_rows_come_in(shop: Callable[..., Path], tmp_path: Path) -> None:
    """Without a key, by what is greater than the last value; the info remembers it, and does not grow."""
    dest = tmp_path / "lake"
    imported(fill(shop, (1, "a", 0, None, "x"), (2, "b", 0, None, "x")), dest, table="orders", cursor="ID")
    with pytest.raises(DatasetExistsError):
        imported(shop(), dest, table="orders", cursor="id")
    path = fill(shop, (2, "changed", 0, None, "x"), (3, "c", 0, None, "x"))
    report = imported(path, dest, table="orders", cursor="id", append=True)
    assert notes(report.dataset) == {1: "a", 2: "b", 3: "c"}
    assert "key" in str(report)
    before = report.dataset.commit_id
    for _ in range(3):
        report = imported(path, dest, table="orders", cursor="id", append=True)
        assert report.written == 0
    assert report.dataset.commit_id == before
    [record] = report.dataset.info["imports"]
    assert record["about"] == {"table": "orders", "cursor": "id", "since": "3", "highest": "3"}
    # another table, and another cursor, begin anew
    report = imported(path, dest, query="SELECT * FROM orders", cursor="id", append=True)
    assert report.written == 3


@drivers
def test_rows_with_a_key_replace_older_ones(shop: Callable[..., Path], tmp_path: Path) -> None:
    """Rows with the last value of the cursor are read again, so that none of its moment is missing."""
    dest = tmp_path / "lake"
    how: dict[str, Any] = {"table": "orders", "cursor": "at", "key": ["id"], "append": True}
    path = fill(
        shop, (1, "a", 0, None, "2026-01-01"), (2, "b", 0, None, "2026-01-02"), (3, "n", 0, None, None)
    )
    ds = imported(path, dest, **how).dataset
    ds.create_tensor("checked", dtype="int8").extend([7, 7, 7])
    ds.commit()
    # one of the same moment, a changed one, one whose moment is null, and one that was committed late
    fill(
        shop,
        (4, "same", 0, None, "2026-01-02"),
        (1, "new", 0, None, "2026-01-03"),
        (3, "null", 0, None, None),
    )
    fill(shop, (5, "late", 0, None, "2025-12-31"))
    report = imported(path, dest, **how)
    assert notes(report.dataset) == {1: "new", 2: "b", 3: "null", 4: "same"}
    assert report.merged == {"added": 1, "replaced": 3}
    assert report.dataset.checked.to_arrow().to_pylist() == [7, 7, 7, None]
    assert (
        imported(path, dest, **how, overlap=86_400 * 5).dataset.info["imports"][-1]["about"]["highest"]
        == "2026-01-03"
    )
    assert notes(lakebed.load(dest)) == {1: "new", 2: "b", 3: "null", 4: "same", 5: "late"}
    # an older row takes the place of no newer one
    fill(shop, (1, "old", 0, None, "2026-01-02"))
    assert notes(imported(path, dest, **how, since="2026-01-01").dataset)[1] == "new"


@drivers
def test_a_key_without_a_cursor_takes_the_row_that_came_last(shop: Callable[..., Path]) -> None:
    path = fill(shop, *((row, f"n{row}", row, None, None) for row in range(3000)))
    query = "SELECT id % 1000 AS id, note FROM orders ORDER BY id"
    ds = imported(path, "mem://sql-key", query=query, key=["id"]).dataset
    assert notes(ds) == {row: f"n{2000 + row}" for row in range(1000)}
    fill(shop, *((row, "new", row, None, None) for row in range(2990, 3000)))
    report = imported(path, ds, query=query, key="id")
    assert {row for row, note in notes(report.dataset).items() if note == "new"} == set(range(990, 1000))


@drivers
def test_a_dataset_that_gets_a_key_keeps_the_newest_rows(shop: Callable[..., Path]) -> None:
    path = fill(shop, (1, "a", 0, None, "2026-01-01"), (2, "b", 0, None, "2026-01-02"))
    ds = imported(path, "mem://sql-rekeyed", table="orders").dataset
    fill(shop, (1, "new", 0, None, "2026-01-03"))
    imported(path, ds, table="orders")
    assert ds.note.text() == ["a", "b", "new", "b"]
    # of the rows that share a key, those that do not come again are examined, too
    imported(path, ds, table="orders", cursor="at", since="2026-01-03", key=["id"])
    assert notes(ds) == {1: "new", 2: "b"}


@drivers
def test_an_import_by_key_that_was_interrupted_begins_again(
    shop: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of its batches are there already, or wait on a branch of their own; nothing is there twice."""
    path = fill(shop, *((row, "old", 0, None, None) for row in range(5000)))
    ds = imported(path, "mem://sql-again", table="orders", key=["id"]).dataset
    fill(shop, *((row, "new", 0, None, None) for row in range(4000, 9000)))
    monkeypatch.setattr(upserting, "_PUBLISH_BYTES", 1)
    monkeypatch.setattr(streams, "_BATCH_ROWS", 1000)
    monkeypatch.setattr(store, "BUDGET", Budget(at_once=0))
    merge = store.UpsertStore.merge

    def interrupted(self: store.UpsertStore) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(store.UpsertStore, "merge", interrupted)
    with pytest.raises(KeyboardInterrupt):
        imported(path, ds, table="orders", key=["id"])
    monkeypatch.setattr(store.UpsertStore, "merge", merge)
    report = imported(path, ds, table="orders", key=["id"])
    assert report.resumed
    assert notes(ds) == {row: "old" if row < 4000 else "new" for row in range(9000)}
    assert ds.branches == ["main"]


@drivers
def test_a_table_without_rows_is_a_dataset_without_rows(shop: Callable[..., Path]) -> None:
    report = imported(shop(), "mem://sql-empty", table="orders", cursor="id")
    assert len(report.dataset) == 0
    assert set(report.dataset.tensors) == {"id", "note", "price", "data", "at"}
    assert (
        imported(fill(shop, (1, "a", 0, None, None)), report.dataset, table="orders", cursor="id").written
        == 1
    )


@drivers
def test_what_cannot_be_read_says_so(shop: Callable[..., Path], tmp_path: Path) -> None:
    path = fill(shop, (1, "a", 0, None, "2026-01-01"))
    for options, told in (
        ({}, "--table"),
        ({"table": "orders", "query": "SELECT 1"}, "--table"),
        ({"table": "orders; DROP TABLE orders"}, "shop.orders"),
        ({"table": "missing"}, "no such table"),
        ({"table": "orders", "cursor": "none"}, "no column 'none', or several; columns: id, note"),
        ({"table": "orders", "cursor": "id", "overlap": 3.0}, "key"),
        ({"table": "orders", "since": "3"}, "--cursor"),
        ({"table": "orders", "cursor": "at", "since": "'; --"}, "quotes"),
        ({"table": "orders", "key": ["id"], "labels": ["note"]}, "without a key"),
        ({"query": "INSERT INTO orders (id) VALUES (9)"}, "readonly"),
    ):
        with pytest.raises(IngestionError, match=told):
            imported(path, tmp_path / "none", **options)
    with pytest.raises(InvalidPathException, match="no database"):
        imported(tmp_path / "gone.db", tmp_path / "none", table="orders")
    assert not (tmp_path / "gone.db").exists()


@drivers
def test_the_command_imports(shop: Callable[..., Path], tmp_path: Path) -> None:
    path = fill(shop, (1, "a", 0, None, None))
    command = ["import", "sql", str(path), str(tmp_path / "lake"), "--query", "SELECT id, note FROM orders"]
    done = CliRunner().invoke(main, [*command, "--key", "id", "--no-progress"])
    assert done.exit_code == 0, done.output
    assert "1 rows written" in done.output
    assert notes(lakebed.load(tmp_path / "lake")) == {1: "a"}


def test_a_missing_driver_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakebed.importers.core.packages.is_installed", lambda package: False)
    monkeypatch.setattr(sql, "is_installed", lambda package: False)
    for scheme in ("postgresql", "snowflake", "bigquery"):
        with pytest.raises(IngestionError, match=rf"pip install 'lakebed\[{scheme}\]'"):
            imported(f"{scheme}://me:hidden@host/shop", "mem://none", table="orders")
    with pytest.raises(IngestionError, match="pip install adbc-driver-flightsql"):
        imported("flightsql://me:hidden@host/shop", "mem://none", table="orders")


def test_no_message_has_a_secret() -> None:
    found = sql.address("postgresql+psycopg://me:p%40ss@host:1/shop?sslpassword=other&x=1")
    assert found is not None
    source = Source("", found)
    assert source.shown == "postgresql+psycopg://host:1/shop?..."
    assert "p%40ss" not in repr(source)
    told = f"no {found.address}: p@ss, p%40ss, other, x"
    assert sql._scrubbed(told, source) == f"no {source.shown}: ***, ***, ***, x"


def test_statements_are_those_of_the_database() -> None:
    schema = pa.schema([("id", pa.int64()), ("At", pa.string()), ("long", pa.month_day_nano_interval())])
    plain = pa.schema([schema.field("id"), schema.field("At")])

    def made(
        driver: str, cursor: str, since: str | None, schema: pa.Schema = plain, *, is_keyed: bool = False
    ) -> str:
        return sql._statement("SELECT 1", schema, driver, cursor, since, is_keyed=is_keyed)

    assert made("sqlite", "id", None) == "SELECT 1"
    assert made("sqlite", "id", "3") == 'SELECT * FROM (\nSELECT 1\n) AS q WHERE "id" > 3'
    keyed = made("bigquery", "id", "3", is_keyed=True)
    assert keyed == "SELECT * FROM (\nSELECT 1\n) AS q WHERE `id` >= 3 OR `id` IS NULL"
    assert made("postgresql", "At", "x").endswith('WHERE "At" COLLATE "C" > \'x\'')
    assert made("duckdb", "id", None, schema).startswith(
        'SELECT "id", "At", CAST("long" AS TEXT) AS "long" FROM'
    )
    with pytest.raises(IngestionError, match="'3 OR 1' is not a number"):
        made("sqlite", "id", "3 OR 1")


@pytest.mark.parametrize(
    ("since", "overlap", "wanted"),
    [
        ("10", 3.5, "6.5"),
        ("2026-01-03", 86_400.0, "2026-01-02"),
        ("2026-01-03", 3600.0, "2026-01-02"),
        ("2026-01-03 00:00:01.500000Z", 2.0, "2026-01-02 23:59:59.500000+00:00"),
        ("x", 0.0, "x"),
    ],
)
def test_an_overlap_begins_earlier(since: str, overlap: float, wanted: str) -> None:
    assert sql._lowered(since, overlap) == wanted


def test_an_overlap_of_text_says_so() -> None:
    with pytest.raises(IngestionError, match="numbers, dates or moments"):
        sql._lowered("x", 1.0)


def test_an_address_is_that_of_a_file_or_a_server(tmp_path: Path) -> None:
    path = tmp_path / "any.file"
    path.write_bytes(b"SQLite format 3\0")
    assert sql.address(path) == Elsewhere(f"sqlite://{path}", str(path))
    assert sql.address(f"file://{path}") == Elsewhere(f"sqlite://{path}", str(path))
    assert sql.address(f"duckdb:///{path}") == Elsewhere(f"duckdb://{path}", str(path))
    assert sql.address(object()) is None
