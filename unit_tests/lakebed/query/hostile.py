"""Statements that mean harm: each ends in an answer or an error of queries, within bounds of time and memory.

``python -m unit_tests.lakebed.query.hostile [PATTERN] [--every N]`` tries them in this process, under a limit of
memory, and says what each took.
"""

from __future__ import annotations

import argparse
import re
import resource
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import lakebed
from lakebed.errors import QueryError

SECONDS = 4.0
"""CPU that one statement may take."""

MEMORY = 1 << 30
"""Address space that all of them may take beyond what is there when they begin."""

ROWS = 3000


def made() -> lakebed.Dataset:
    """Return the dataset that is asked: some thousand rows, so that products of it with itself are large."""
    ds = lakebed.empty("mem://hostile", overwrite=True)
    ds.create_tensor("i", dtype="int64")
    ds.create_tensor("f", dtype="float32")
    ds.create_tensor("b", dtype="bool")
    ds.create_tensor("t", htype="text")
    ds.create_tensor("k", htype="class_label", class_names=["a", "b"])
    ds.create_tensor("box", htype="bbox")
    ds.create_tensor("js", htype="json")
    ds.create_tensor("v", dtype="float32")
    deep: Any = 1
    for _ in range(300):
        deep = [deep]
    ds.extend(
        {
            "i": np.arange(ROWS),
            "f": np.arange(ROWS, dtype=np.float32) - 5,
            "b": np.arange(ROWS) % 2 == 0,
            "t": ["a" * (n % 40) for n in range(ROWS)],
            "k": np.arange(ROWS, dtype=np.uint32) % 2,
            "box": [np.ones((n % 3, 4), np.float32) for n in range(ROWS)],
            "js": [{"a": n, "deep": deep if n == 7 else None} for n in range(ROWS)],
            "v": np.ones((ROWS, 8), np.float32),
        }
    )
    return ds


def statements() -> Iterator[tuple[str, str, list[Any]]]:
    """Yield a name, the statement, and its parameters."""
    number = 0
    for text in [*_deep(), *_long(), *_numbers(), *_patterns(), *_products(), *_large(), *_odd()]:
        yield f"{number:03} {_short(text)!r}", text, []
        number += 1
    for text, parameters in _given():
        yield f"{number:03} {text[:70]!r}", text, parameters
        number += 1


def _short(text: str) -> str:
    return re.sub(r"(.{1,12}?)\1{9,}", r"\1...", text[:400])[:70]


def _deep() -> Iterator[str]:
    n = 5_000
    for inner in ("1", "i", ""):
        yield f"SELECT * WHERE {'(' * 100_000}{inner}{')' * 100_000}"
        yield f"SELECT * WHERE {'(' * n}{inner}{')' * n}"
    yield f"SELECT * WHERE {'(' * n}"
    yield f"SELECT * WHERE i{')' * n}"
    for piece in (
        "-",
        "+",
        "NOT ",
        "- -",
        "NOT -",
        "i + ",
        "i = ",
        "i AND ",
        "i OR NOT ",
        "i || ",
        "i ^ ",
        "i BETWEEN ",
    ):
        yield f"SELECT * WHERE {piece * n}i"
    for opened, closed in (("[", "]"), ("ARRAY[", "]"), ("abs(", ")"), ("CAST(", " AS int)"), ("if(i, i, ", ")"),
                           ("coalesce(i, ", ")"), ("CASE WHEN ", " THEN 1 END"), ("i[", "]"), ("(i, ", ")"),
                           ("max_weight(i: ", ")"), ("EXTRACT(year FROM ", ")"), ("i IN (", ")"), ("i IN (1, ", ")"),
                           ("any(i > ", ")"), ("CASE i WHEN 1 THEN ", " ELSE 2 END")):  # fmt: skip
        yield f"SELECT * WHERE {opened * n}i{closed * n}"
        yield f"SELECT {opened * 60}i{closed * 60} AS x"
    for opened, closed in (
        ("(SELECT i WHERE i IN ", ")"),
        ("(SELECT * FROM ", " AS a)"),
        ("EXISTS (SELECT * WHERE ", ")"),
    ):
        yield f"SELECT * WHERE {opened * 2000}(1){closed * 2000}"
    yield f"{'(' * n}SELECT *{')' * n}"
    yield f'SELECT * FROM {"(SELECT * FROM " * 40}"mem://hostile"{") AS a" * 40}'
    yield f"SELECT * WHERE i{'[0]' * n}"
    yield f"SELECT * WHERE js{'[0]' * 60} == 1"
    yield f"SELECT * WHERE js['deep']{'[0]' * 80} == 1"
    yield f"SELECT * WHERE a{'.b' * n}"
    yield "SELECT * " + "UNION SELECT * " * 5000
    yield "SELECT * " + "UNION SELECT * " * 60
    yield "SELECT * FROM " + ", ".join(f'"mem://hostile" AS a{n}' for n in range(3000))
    yield (
        "WITH "
        + ", ".join(f"a{n} AS (SELECT * FROM a{n - 1})" for n in range(1, 3000))
        + " SELECT * FROM a2999"
    )
    # 2 ** 59 times as many rows.
    yield (
        "WITH a0 AS (SELECT *), "
        + ", ".join(
            f"a{n} AS (SELECT * FROM a{n - 1} UNION ALL SELECT * FROM a{n - 1})" for n in range(1, 60)
        )
        + " SELECT * FROM a59"
    )


def _long() -> Iterator[str]:
    million = 1_000_000
    yield f"SELECT {'x' * million}"
    yield f'SELECT "{"x" * million}"'
    yield f"SELECT * WHERE {'x' * million} == 1"
    yield f"SELECT * WHERE {'f' * million}(i) == 1"
    yield f"SELECT i AS {'x' * million}"
    yield f'SELECT * FROM "{"x" * million}"'
    yield f'SELECT * FROM "mem://hostile"@{"x" * million}'
    yield f"SELECT * WHERE t == '{'x' * million}'"
    yield f"SELECT * WHERE t == '{chr(39) * million}'"
    yield f"SELECT * WHERE k == '{'x' * million}'"
    yield f"SELECT * WHERE CAST(i AS {'x' * million}) == 1"
    yield f"SELECT * WHERE js['{'x' * million}'] == 1"
    yield f"SELECT * WHERE EXTRACT({'x' * million} FROM i) == 1"
    yield f"SELECT *{' ' * million}"
    yield f"SELECT * --{'x' * million}"
    yield f"SELECT * WHERE i == 1{' AND i == 1' * 20_000}"
    yield f"SELECT * WHERE i IN ({', '.join(map(str, range(100_000)))})"
    yield f"SELECT * WHERE i NOT IN ({', '.join(f'{n}.5' for n in range(30_000))})"
    yield f"SELECT * WHERE t IN ({', '.join(repr(str(n)) for n in range(30_000))})"
    yield f"SELECT * WHERE js['a'] IN ({', '.join(map(str, range(20_000)))})"
    yield f"SELECT * WHERE v == ARRAY[{', '.join(map(str, range(50_000)))}]"
    yield f"SELECT * WHERE any(v == ARRAY[{', '.join(['ARRAY[1, 2, 3, 4, 5, 6, 7, 8]'] * 3_000)}])"
    yield f"SELECT {', '.join(f'i AS x{n}' for n in range(10_000))}"
    yield f"SELECT {', '.join(['i'] * 10_000)}"
    yield f"SELECT * ORDER BY {', '.join(['i'] * 300)}"
    yield f"SELECT * GROUP BY {', '.join(['i'] * 60)}"
    yield f"SELECT * WHERE CASE {'WHEN i == 1 THEN 2 ' * 2_000}END == 2"
    yield f"SELECT * WHERE concat({', '.join(['t'] * 300)}) == 'x'"
    yield f"SELECT * WHERE greatest({', '.join(['i'] * 2_000)}) == 1"
    yield f"SELECT * WHERE coalesce({', '.join(['null'] * 2_000)}, i) == 1"
    yield "\ufeff" * million
    yield "\0" * million
    yield "é" * million
    yield "'" * 1_000_001
    yield '"' * 1_000_001
    yield "--" * million
    yield ";" * million
    yield "SELECT" * 100_000
    yield "SELECT " * 100_000
    yield "?" * million
    yield "EXPLAIN " * 100_000
    yield " " * million
    yield "SELECT * WHERE i == 1" + " " * 5 * million


def _numbers() -> Iterator[str]:
    digits = "1" * 100_000
    yield f"SELECT * WHERE i == {digits}"
    yield f"SELECT * WHERE i == 0{digits}"
    yield f"SELECT * WHERE i == {digits}.{digits}"
    yield f"SELECT * WHERE i == 1e{digits}"
    yield f"SELECT * WHERE i == 1e-{digits}"
    yield f"SELECT * WHERE i == -{digits}e-99999"
    yield f"SELECT * LIMIT {digits}"
    yield f"SELECT * WHERE CAST('{digits}' AS int) == i"
    yield f"SELECT * WHERE CAST('{digits}' AS float) == i"
    yield f"SELECT * WHERE CAST('1e{digits}' AS float) == i"
    yield f"SELECT * WHERE CAST('{digits}' AS date) == i"
    yield f"SELECT * WHERE CAST('{digits}' AS json) == i"
    for value in ("9223372036854775807", "9223372036854775808", "-1", "1e300", "1e400", "-1e400", "0.5", "'a'", "i",
                  "null", "true", "ARRAY[1]", "0/0"):  # fmt: skip
        yield f"SELECT * LIMIT {value}"
        yield f"SELECT * LIMIT {value} PERCENT"
        yield f"SELECT * LIMIT 2 OFFSET {value}"
        yield f"SELECT * SAMPLE BY i LIMIT {value}"
    yield "SELECT * SAMPLE BY i LIMIT 9223372036854775807 PERCENT"
    yield "SELECT * SAMPLE BY i SEED 9223372036854775808 LIMIT 2"
    yield "SELECT * SAMPLE BY 1e300 * i * 1e300 LIMIT 2"
    yield "SELECT * SAMPLE BY 0 * i LIMIT 2"
    yield "SELECT TOP 9223372036854775808 *"
    yield "SELECT * EXPAND BY 9223372036854775807 9223372036854775807"
    yield "SELECT * EXPAND BY 100000 100000 OVERLAP"
    yield "SELECT * FROM (SELECT * GROUP BY k) UNGROUP BY 9223372036854775807"
    yield "SELECT * WHERE 2 ^ 3 ^ 4 ^ 5 ^ 6 ^ 7 > 1"
    yield "SELECT i ^ i ^ i AS x"
    yield "SELECT f ^ f ^ f AS x"
    yield "SELECT i / 0 AS x, 0 / 0 AS y, f / (f - f) AS z"
    yield "SELECT i % 0 AS x"
    yield "SELECT 1 % 0 AS x"
    yield "SELECT 9223372036854775807 + 1 AS x, -9223372036854775808 - 1 AS y, i * 9223372036854775807 AS z"
    yield "SELECT -(-9223372036854775808) AS x, abs(-9223372036854775808) AS y"
    yield "SELECT exp(i) AS a, ln(i - 5) AS b, sqrt(-i) AS c, power(i, 1e308) AS d"
    yield "SELECT round(f, 400) AS e, round(f, -400) AS g"
    yield "SELECT * WHERE any(i[9223372036854775807:-9223372036854775808:9223372036854775807] == 1)"
    yield "SELECT * WHERE any(v[::-9223372036854775808] == 1)"


def _patterns() -> Iterator[str]:
    evil = "*a" * 400
    for word in ("LIKE", "ILIKE", "NOT LIKE"):
        yield f"SELECT * WHERE t {word} '{evil}b'"
        yield f"SELECT * WHERE t {word} '{'*' * 100_000}'"
        yield f"SELECT * WHERE t {word} '{'?' * 100_000}'"
        yield f"SELECT * WHERE t {word} '{'a*' * 20_000}b'"
        yield f"SELECT * WHERE '{'a' * 3000}' {word} '{'*a' * 30}b'"
        yield f"SELECT * WHERE CAST(CAST(t AS json) AS text) {word} '{evil}b'"
        yield f"SELECT * WHERE if(i > 5, t, js['a']) {word} '{'*a' * 12}b'"
        yield f"SELECT * WHERE js['a'] {word} '{'a*' * 2_000}b'"
        yield f"SELECT * WHERE split(reverse(t), 'x')[0] {word} '{'*a' * 12}b'"
    for pattern in ("(a+)+$", "(a|a)*b", "(a*)*b", "(.*)(.*)(.*)(.*)(.*)x", "a{1,1000}", "((a{1,100}){1,100}){1,100}",
                    "(", "[", "\\\\", "(?=a)", "(a)\\1", "(?P<x>a)(?P<x>b)", "\\p{Greek}",
                    "(" * 2000 + ")" * 2000):  # fmt: skip
        yield f"SELECT * WHERE matches(t, '{pattern}')"
    yield f"SELECT * WHERE contains(k, '{'*a' * 30}b')"
    yield f"SELECT * WHERE contains(k, '{'?*' * 5000}')"
    yield f"SELECT * WHERE contains(t, '{'a' * 500_000}')"
    yield "SELECT * WHERE date_format(i, '" + "%Y" * 3000 + "') == 'a'"


def _products() -> Iterator[str]:
    yield 'SELECT a.i AS x FROM "mem://hostile" AS a CROSS JOIN "mem://hostile" AS b CROSS JOIN "mem://hostile" AS c'
    yield 'SELECT a.i AS x FROM "mem://hostile" AS a CROSS JOIN "mem://hostile" AS b WHERE a.i + b.i == 7'
    yield (
        'SELECT a.i AS x FROM "mem://hostile" AS a JOIN "mem://hostile" AS b ON a.k = b.k '
        'JOIN "mem://hostile" AS c ON b.k = c.k'
    )
    yield 'SELECT a.i AS x FROM "mem://hostile" AS a JOIN "mem://hostile" AS b ON a.b = b.b AND a.i > b.i'
    yield 'SELECT a.i AS x FROM "mem://hostile" AS a FULL JOIN "mem://hostile" AS b ON a.k = b.k'
    yield 'SELECT a.i AS x FROM "mem://hostile" AS a JOIN "mem://hostile" AS b ON a.box = b.box'
    yield 'SELECT a.i AS x FROM "mem://hostile" AS a JOIN "mem://hostile" AS b ON a.i = b.t'
    yield 'SELECT a.i AS x FROM "mem://hostile" AS a JOIN "mem://hostile" AS b ON a.js = b.js'
    yield 'SELECT a.i AS x FROM "mem://hostile" AS a JOIN "mem://hostile" AS a ON a.i = a.i'
    yield "WITH a AS (SELECT * FROM a) SELECT * FROM a"
    yield "WITH a AS (SELECT * FROM b), b AS (SELECT * FROM a) SELECT * FROM a"
    yield "WITH a AS (SELECT 1 AS n UNION ALL SELECT n + 1 AS n FROM a) SELECT * FROM a"
    yield "WITH RECURSIVE a AS (SELECT 1 AS n UNION ALL SELECT n + 1 AS n FROM a) SELECT * FROM a"
    yield "SELECT " + " UNION ALL SELECT ".join(["*"] * 90)
    yield "SELECT * WHERE i IN (SELECT i) AND i IN (SELECT i WHERE i IN (SELECT i WHERE i IN (SELECT i)))"


def _large() -> Iterator[str]:
    """What makes much of little."""
    concat = "t"
    for _ in range(11):
        concat = f"concat({concat}, {concat})"
    yield f"SELECT {concat} AS x"
    doubled = "'" + "a" * 1000 + "'"
    for _ in range(12):
        doubled = f"({doubled} || {doubled})"
    yield f"SELECT {doubled} AS x"
    replaced = "t"
    for _ in range(30):
        replaced = f"replace({replaced}, 'a', 'aaaa')"
    yield f"SELECT {replaced} AS x"
    yield f"SELECT * WHERE {replaced} == 'a'"
    yield f"SELECT replace(t, 'a', '{'a' * 100_000}') AS x"
    yield f"SELECT * WHERE len(replace(t, 'a', '{'a' * 100_000}')) > 5"
    yield f"SELECT * WHERE any(i == ARRAY[{', '.join(['1'] * 200_000)}])"
    yield "SELECT iou(box, box) AS x, normalize(box, [0, 0, 0, 0]) AS y"
    yield "SELECT split(t, 'a') AS x GROUP BY k"
    yield "SELECT * GROUP BY js"
    yield "SELECT count(DISTINCT js) AS n GROUP BY k"


def _odd() -> Iterator[str]:
    for kind in ("int8", "uint8", "float16", "bool", "date", "timestamp", "json", "text", "uint64"):
        for value in ("t", "js", "box", "f * 1e300", "js['deep']", "'9' || t", "null", "ARRAY[1e300]", "k"):
            yield f"SELECT CAST({value} AS {kind}) AS x"
    yield f"SELECT CAST('{'[' * 10_000}{']' * 10_000}' AS json) AS x"
    yield f"SELECT CAST('{'[' * 10_000}' AS json) AS x"
    opened = '{"a":'
    yield f"SELECT CAST('{opened * 10_000}1{'}' * 10_000}' AS json)['a'] AS x"
    yield f"SELECT * WHERE CAST('{'[' * 400}1{']' * 400}' AS json) == 1"
    yield f"SELECT * WHERE any(CAST('{'[' * 400}1{']' * 400}' AS json) == 1)"
    yield "SELECT * WHERE js == js"
    yield "SELECT * WHERE js['deep'] == js['deep']"
    yield "SELECT * ORDER BY js['deep']"
    yield "SELECT DISTINCT js AS x"
    yield "SELECT json_type(js['deep']) AS x, keys(js) AS y, values(js) AS z, len(js) AS n"
    yield "SELECT date_trunc('year', 9223372036854775807 - i) AS x, year(i * 9223372036854775807) AS y"
    yield "SELECT date_diff('microsecond', CAST('0001-01-01' AS date), CAST('9999-12-31' AS date)) AS x"
    yield "SELECT data(v, 9223372036854775807) AS x"
    yield "SELECT row_number() + random() AS x, sample_info(v) AS y"
    yield "SELECT * WHERE"
    yield "SELECT"
    yield ""
    yield "DROP TABLE x"
    yield 'SELECT * FROM "file:///etc/passwd"'
    yield 'SELECT * FROM "/dev/zero"'
    yield 'SELECT * FROM ".."'
    yield 'SELECT * FROM "mem://hostile"@' + "~" * 5000
    yield 'SELECT * FROM "mem://hostile" VERSION \'' + "../" * 500 + "'"
    yield "SELECT * FROM DIFF('a', 'b')"


def _given() -> Iterator[tuple[str, list[Any]]]:
    nested: Any = [1]
    for _ in range(5000):
        nested = [nested]
    cycle: list[Any] = []
    cycle.append(cycle)
    for value in (10**400, 2**64, -(2**64), float("nan"), "\ud800", "\0", nested, cycle, {"a": nested}, b"x",
                  np.empty((0, 5)), np.array(["a"]), np.array(10**30, object), np.ones((3, 0, 2)), complex(1, 2),
                  np.float16("inf"), object(),
                  np.datetime64("2026-01-31"), lambda: 1, ["a", 1], [None], [[1], [1, 2]],
                  np.ones(1 << 20)):  # fmt: skip
        for text in ("SELECT * WHERE i == ?", "SELECT * WHERE i IN (?, 1)", "SELECT ? AS x", "SELECT * WHERE t == ?",
                     "SELECT * LIMIT ?", "SELECT * ORDER BY l2_norm(v - ?)", "SELECT v[?] AS x"):  # fmt: skip
            yield text, [value]


def tried(ds: lakebed.Dataset, text: str, parameters: list[Any]) -> tuple[str, float]:
    """Answer a statement and read what comes of it; return how it ended, and the CPU that it took.

    Raises
    ------
    Exception
        What should have been a QueryError.
    """
    began = time.process_time()
    try:
        found = ds.query(text, parameters=parameters, timeout=2.0, max_memory=1 << 28)
        if not isinstance(found, lakebed.Dataset):
            for column in found[:100].tensors.values():
                column.values()
        how = f"{len(found)} rows"
    except QueryError as error:
        how = f"{error.kind}: {str(error).splitlines()[0][:90]}"
        if len(str(error)) > 3000:
            raise AssertionError(f"an error of {len(str(error)):,} characters") from error
    return how, time.process_time() - began


def main(pattern: str, every: int) -> int:
    """Try all statements, or each so many of those whose name has a pattern in it; return how many failed."""
    ds = made()
    here = _address_space()
    resource.setrlimit(resource.RLIMIT_AS, (here + MEMORY, here + MEMORY))
    signal.signal(signal.SIGVTALRM, _late)
    failed = count = 0
    for number, (name, text, parameters) in enumerate(statements()):
        if pattern not in name or number % every:
            continue
        count += 1
        signal.setitimer(signal.ITIMER_VIRTUAL, 2 * SECONDS)
        try:
            how, took = tried(ds, text, parameters)
        except BaseException as error:  # noqa: BLE001 - that is what is looked for
            how, took = f"FAILED {type(error).__name__}: {str(error)[:300]}", 0.0
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        if took > SECONDS:
            how = f"FAILED it took {took:.1f} s of CPU; {how}"
        failed += how.startswith("FAILED")
        print(f"{took:6.2f}  {name}  {how}", flush=True)  # noqa: T201
    print(  # noqa: T201
        f"{count} statements, {failed} failed, {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MB"
    )
    return failed


def _late(number: int, frame: Any) -> None:
    raise TimeoutError(f"no end after {2 * SECONDS:g} s; at {''.join(traceback.format_stack(frame)[-3:])}")


def _address_space() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("pattern", nargs="?", default="")
    parser.add_argument("--every", type=int, default=1)
    given = parser.parse_args()
    sys.exit(1 if main(given.pattern, given.every) else 0)
