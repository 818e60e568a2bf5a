"""Rows of a real MariaDB, read by a source of ours over the protocol, are in the lake value by value."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from integration_tests import lake
from integration_tests.connector import Connection
from integration_tests.databases import BLOCK, Content, Digest, check_states, digests, sync
from integration_tests.mariadb import query, server
from integration_tests.postgres import UnavailableError

SOURCE = "integration_tests.mariadb_source"

TABLE = """
    drop database if exists shop; create database shop character set utf8mb4; create table shop.orders (
        id bigint primary key, small smallint not null, quantity int, total bigint, price double, note text,
        paid boolean, day date, placed datetime(6), shipped timestamp(6) null, details json
    )
"""

ROWS = r"""
    set time_zone = '+00:00';
    insert into shop.orders select
        seq, seq % 30000, if(seq % 7, cast(crc32(seq) as signed) - 2147483648, null),
        cast(conv(substr(md5(seq), 1, 15), 16, 10) as signed) - 500000000000000000,
        if(seq % 5, crc32(seq) / 997.0e0, null),
        case seq % 11 when 0 then null when 1 then '' else concat('é€𐍈 "q" \\ ', char(10), md5(seq)) end,
        nullif(seq % 3, 2), cast('1850-01-01' as date) + interval seq % 100000 day,
        timestamp('1969-12-31') + interval seq * 1000001 microsecond,
        if(seq % 13, timestamp('2026-01-01') - interval seq * 13 + 1 microsecond, null),
        if(seq % 4, json_object('n', seq, 'tags', json_array('x', null, 'ü'), 'deep', json_object('a', json_array())),
            null)
    from shop.{numbers}
"""

# Text of a value in SQL; the lake's side of each is in `CONTENT`.
MOMENT = "date_format({0}, '%Y-%m-%dT%H:%i:%s.%f')"
SQL_TEXT = {
    **{
        name: name for name in ("id", "small", "quantity", "total", "price", "note", "paid", "day", "details")
    },
    "placed": MOMENT.format("placed"),
    "shipped": MOMENT.format("shipped"),
}


def texts(values: pa.Array, kind: str = "") -> bytes:
    """Text of values as MariaDB writes them."""
    if kind == "moment":
        plain = pc.strftime(values.cast(pa.timestamp("us")), format="%Y-%m-%dT%H:%M:%S").to_pylist()
    elif kind == "number":
        plain = [repr(value).removesuffix(".0") for value in values.to_pylist()]
    elif kind == "flag":
        plain = values.cast(pa.int8()).cast(pa.string()).to_pylist()
    else:
        plain = values.cast(pa.string()).to_pylist()
    return "".join(f"{text}\0" for text in plain).encode()


CONTENT: dict[str, Content] = {
    **dict.fromkeys(["id", "small", "quantity", "total", "note", "day", "details"], texts),
    **dict.fromkeys(["placed", "shipped"], partial(texts, kind="moment")),
    "price": partial(texts, kind="number"),
    "paid": partial(texts, kind="flag"),
}


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    try:
        with server() as socket:
            yield socket
    except UnavailableError as reason:
        pytest.skip(f"no MariaDB: {reason}")


def sql_digests(socket: str) -> dict[str, list[Digest]]:
    """Checksums of each column, computed by MariaDB."""
    found = {}
    for column, text in SQL_TEXT.items():
        values = f"md5(coalesce(group_concat(concat({text}, char(0)) order by id separator ''), ''))"
        nulls = f"md5(group_concat({column} is null order by id separator ''))"
        select = f"select {values}, {nulls} from shop.orders group by (id - 1) div {BLOCK} order by min(id)"
        settings = f"set time_zone = '+00:00', group_concat_max_len = {BLOCK * 1000}"
        found[column] = [(first, second) for first, second in query(socket, f"{settings}; {select}")]
    return found


def fill(socket: str, rows: int) -> None:
    query(socket, TABLE)
    query(socket, ROWS.replace("{numbers}", f"seq_1_to_{rows}"))


MILLIONS = pytest.param(10_000_000, marks=[pytest.mark.soak, pytest.mark.timeout(7200)])


@pytest.mark.parametrize("rows", [20_000, MILLIONS])
def test_every_column_has_the_checksum_that_the_database_computes(
    database: str, connection: Connection, rows: int
) -> None:
    fill(database, rows)
    answered = sync(connection, SOURCE, {"socket": database, "schema": "shop", "state_every": 7000})
    check_states(answered, rows)
    assert len(lake.open_stream(connection.lake, ("shop", "orders"))) == rows
    assert digests(connection.lake, ("shop", "orders"), CONTENT) == sql_digests(database)
