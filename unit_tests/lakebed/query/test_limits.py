"""Limits of time and memory, and Ctrl-C, end a query soon, whatever it is at."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import lakebed
from lakebed.errors import QueryError
from lakebed.native import equals
from lakebed.query.engine import execution
from lakebed.query.functions.function import forget
from lakebed.query.language import parser
from lakebed.query.relations.relation import Chained, Combined, Picked, Stored
from lakebed.query.values import limits, ordering
from lakebed.query.values.columns import Numbers
from lakebed.query.values.limits import Limits, Watch, tick, ticking
from lakebed.query.values.ordering import Key, ordered

ROWS = 60_000


@pytest.fixture(scope="module")
def ds() -> lakebed.Dataset:
    made = lakebed.empty("mem://query-limits", overwrite=True)
    made.create_tensor("i", dtype="int64")
    made.create_tensor("b", dtype="bool")
    made.create_tensor("js", htype="json")
    made.extend(
        {"i": np.arange(ROWS), "b": np.arange(ROWS) % 2 == 0, "js": [{"a": n % 9} for n in range(ROWS)]}
    )
    return made


SLOW = [
    'SELECT a.i AS x FROM "mem://query-limits" AS a JOIN "mem://query-limits" AS b ON a.b = b.b',
    "SELECT a.i AS x FROM (SELECT i LIMIT 30000) AS a CROSS JOIN (SELECT i LIMIT 30000) AS b",
    "SELECT * EXPAND BY 1000 1000 OVERLAP",
    "SELECT * EXPAND BY 3000 3000",
    "SELECT * SAMPLE BY i LIMIT 30000000",
    'SELECT * WHERE EXISTS (SELECT * FROM "mem://query-limits" AS o WHERE o.i > i + 5 AND o.i < i + 7)',
    "SELECT * WHERE js['a'] > 3",
    "SELECT * ORDER BY js['a']",
    "SELECT DISTINCT js AS x",
    "SELECT * WHERE CAST(CAST(i AS text) AS int) > 3",
    'SELECT a.i AS x FROM "mem://query-limits" AS a JOIN "mem://query-limits" AS b ON a.b = b.b AND a.i > b.i',
]


@pytest.mark.parametrize("text", SLOW)
def test_time_ends_a_query_between_its_rows(
    ds: lakebed.Dataset, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock that goes on by a second with each look, as some machine may answer before any time is over."""
    monkeypatch.setattr(limits, "time", SimpleNamespace(monotonic=itertools.count().__next__))
    # CPU, as others may use the machine; a query that did not look at the clock takes more.
    began = time.thread_time()
    with pytest.raises(QueryError) as caught:
        ds.query(text, timeout=2, max_memory=1 << 40)
    assert caught.value.kind == "limit"
    assert time.thread_time() - began < 0.5


def test_functions_of_programs_are_left_between_two_rows(ds: lakebed.Dataset) -> None:
    given: list[int] = []

    def many(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        given.append(len(values))
        return values

    lakebed.query.register("nap", lambda x: (time.sleep(0.02), x)[1], arguments=1)
    lakebed.query.register("many_at_once", many, vectorised=True, arguments=1)
    try:
        began = time.monotonic()
        with pytest.raises(QueryError, match=r"more than 0\.1 seconds"):
            ds.query("SELECT * WHERE nap(i) > 3", timeout=0.1)
        assert time.monotonic() - began < 2.0  # 256 rows take 5 s
        assert len(ds.query("SELECT * WHERE many_at_once(i) > 3")) == ROWS - 4
        assert sum(given) == ROWS
        assert max(given) <= 1 << 14
    finally:
        forget("nap")
        forget("many_at_once")


def test_a_long_step_looks_at_the_clock(ds: lakebed.Dataset) -> None:
    """Pieces are small enough, however many there are."""
    calls: list[int] = []
    with ticking(lambda: calls.append(1)):
        numbers = np.arange(3_000_000) % 7
        rows, ends = equals.gathered(numbers[:1_500_000], 7, tick)
        equals.pairs(numbers[:20], rows, ends, tick)
        assert len(calls) >= 2 + 4
        calls.clear()
        keys = numbers * np.int64(1 << 40)  # far from each other: a hash table
        equals.numbered(keys, 1, tick)
        equals.matched(keys, keys, 1, tick)
        assert len(calls) >= 9
        calls.clear()
        ordered([Key(Numbers(np.random.default_rng(0).random(1_000_000)), is_descending=False, nulls="")])
        assert len(calls) >= 20

    def stop() -> None:
        raise KeyboardInterrupt

    for call in (
        lambda: equals.numbered(keys, 1, stop),
        lambda: equals.matched(keys, keys, 1, stop),
        lambda: equals.gathered(numbers, 7, stop),
        lambda: equals.pairs(numbers[:20], rows, ends, stop),
    ):
        with pytest.raises(KeyboardInterrupt):
            call()


@pytest.mark.parametrize("spread", [1, 3, 1000, 1 << 40])
@pytest.mark.parametrize("is_descending", [False, True])
def test_sorting_in_pieces_is_sorting(
    spread: int, is_descending: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ordering, "_AT_ONCE", 50)
    monkeypatch.setattr(ordering, "_SAMPLES", 40)
    monkeypatch.setattr(ordering, "_DEALT", 7)
    chance = np.random.default_rng(spread)
    for count in (0, 1, 51, 4000):
        first = chance.integers(-spread, spread, count)
        if count == 4000:
            first[chance.random(count) < 0.5] = spread // 2
        second = chance.choice([0.5, -0.0, 0.0, np.inf, -np.inf, np.nan, 2.0], count)
        gone = chance.random(count) < 0.2
        keys = [
            Key(Numbers(first, gone), is_descending=is_descending, nulls=""),
            Key(Numbers(second), is_descending=is_descending, nulls="first"),
        ]

        def place(i: int, first: Any = first, second: Any = second, gone: Any = gone) -> tuple[Any, ...]:
            sign = -1 if is_descending else 1
            number = 0 if gone[i] else sign * first[i]
            odd = np.isnan(second[i])
            return gone[i], number, odd, 0 if odd else sign * second[i], sign * i

        assert ordered(keys).tolist() == sorted(range(count), key=place)


@pytest.mark.parametrize(
    "text",
    [
        'SELECT a.i AS x FROM "mem://query-limits" AS a JOIN "mem://query-limits" AS b ON a.b = b.b',
        'SELECT a.i AS x FROM "mem://query-limits" AS a CROSS JOIN "mem://query-limits" AS b',
        "SELECT * EXPAND BY 9000000000000000000 5",
        "SELECT * EXPAND BY 100000 100000 OVERLAP",
        "WITH a0 AS (SELECT *), "
        + ", ".join(
            f"a{n} AS (SELECT * FROM a{n - 1} UNION ALL SELECT * FROM a{n - 1})" for n in range(1, 50)
        )
        + " SELECT * FROM a49",
    ],
)
def test_memory_is_asked_for_before_it_is_taken(ds: lakebed.Dataset, text: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(QueryError, match="max_memory") as caught:
            ds.query(text, max_memory=20_000_000)
        assert caught.value.kind == "limit"
        # Keys and the like are not counted: up to 16 bytes of each row.
        assert tracemalloc.get_traced_memory()[1] < 1.2 * 20_000_000 + 16 * ROWS
    finally:
        tracemalloc.stop()


def test_memory_that_the_system_lacks_is_told(ds: lakebed.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    def join(*_: object) -> None:
        raise MemoryError("unable to allocate 8 TiB")

    monkeypatch.setattr(execution, "join", join)
    with pytest.raises(QueryError, match=r"ran out of memory .*8 TiB") as caught:
        ds.query('SELECT a.i AS x FROM "mem://query-limits" AS a CROSS JOIN "mem://query-limits" AS b')
    assert caught.value.kind == "limit"


def test_holding_looks_at_the_clock() -> None:
    with pytest.raises(QueryError, match="seconds"):
        Watch(Limits(seconds=-1.0)).hold(1)


def test_rows_of_a_join_are_read_as_they_fit_into_memory() -> None:
    made = lakebed.empty("mem://query-windows", overwrite=True)
    made.create_tensor("x", dtype="float32")
    made.extend({"x": np.zeros((64, 1 << 16), np.float32)})
    relation = Stored(made._table())
    rows = np.arange(64)
    for other in (
        Picked(relation, rows),
        Chained([relation, relation]),
        Combined([(relation, rows), (relation, rows)], {"a": (0, "x"), "b": (1, "x")}),
    ):
        name = other.names[0]
        largest = max(len(window) for window in Picked(other, np.tile(rows, 40)).windows([name]))
        assert largest * (1 << 18) <= 1 << 26


def test_large_texts_are_not_kept() -> None:
    parser._parse_kept.cache_clear()
    parser.parse(f"SELECT * WHERE i == 1{' ' * 5000}")
    assert parser._parse_kept.cache_info().currsize == 0
    assert parser.parse("SELECT * WHERE i == 1") is parser.parse("SELECT * WHERE i == 1")


_PROGRAM = """
import sys, threading, numpy as np, lakebed
ds = lakebed.empty("mem://stopped")
ds.create_tensor("i", dtype="int64")
ds.create_tensor("b", dtype="bool")
ds.create_tensor("js", htype="json")
n = 40_000
ds.extend({"i": np.arange(n), "b": np.arange(n) % 2 == 0, "js": [{"a": k % 9} for k in range(n)]})
lakebed.query.register("slow", lambda x: sum(range(3000)) + x)
print("ready", flush=True)
try:
    for _ in range(1000):
        ds.query(sys.argv[1], max_memory=1 << 34)
except KeyboardInterrupt:
    print("stopped", flush=True)
"""


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * WHERE slow(i) > 3",
        'SELECT a.i AS i FROM "mem://stopped" AS a JOIN "mem://stopped" AS b ON a.b = b.b',
        "SELECT * ORDER BY js['a'], slow(i)",
    ],
)
def test_ctrl_c_stops_a_query_at_once(text: str) -> None:
    process = subprocess.Popen([sys.executable, "-c", _PROGRAM, text], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process:
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.3)
        began = cpu(process.pid)
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "stopped\n"
        assert cpu(process.pid) - began < 1.0
        process.wait(60)


def cpu(pid: int) -> float:
    """Return the CPU that a process has used, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize(
    "clause", ["LIMIT -5", "LIMIT 1 OFFSET -1", "LIMIT -1 PERCENT", "SAMPLE BY 1 LIMIT -2"]
)
def test_negative_counts_are_refused(clause: str) -> None:
    """LIMIT and OFFSET below 0 are errors that say so, not answers without rows."""
    ds = lakebed.empty("mem://negative-limit", overwrite=True)
    ds.create_tensor("x", dtype="int64")
    ds.extend({"x": [1, 2, 3]})
    with pytest.raises(QueryError, match=r"cannot be -.*; it is 0 or more"):
        ds.query(f"SELECT * {clause}")
