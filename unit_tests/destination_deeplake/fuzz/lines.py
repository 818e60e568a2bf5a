"""Fuzz targets: the reader of messages, fed with lines of every kind that were cut, joined and overwritten at random.

They run in the suite, and under AddressSanitizer and UndefinedBehaviorSanitizer (ext/fuzz/run.py), which see a read or
write outside a buffer even where nothing comes of it. Every block lies in memory of exactly its size.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable

import numpy as np

from destination_deeplake.columns import Column, Kind, RecordTable
from destination_deeplake.wire import Rejected, StateEvent, Wire, WireError
from unit_tests.destination_deeplake.hostile import WAYS

PIECES = [
    *(bytes([letter]) for letter in b'"\\{}[],:0-e. \t\r\n\x00\x1f\x7f\xff\xc3=+/A'),
    *(b"\xed\xa0\x80", b"\xf0\x9f\x98\x80", b"\xef\xbb\xbf", b"\\u003d", b"\\ud800", b"\\n", b"\\/"),
    *(b"null", b"NaN", b"1e400", b"01", b"1" * 40, b'"data:;base64,', b"[[1,2],[3,4]]", b'"QUI="', b'{"a":'),
    *(
        b'"type":"STATE"',
        b'"stream":"s"',
        b'"namespace":"n"',
        b'"record":{',
        b'"data":{',
        b'"a":{"b":{"c":1}}',
    ),
]
PATHS = [("id",), ("a",), ("a", "b"), ("a", "b", "c"), ("a", "v"), ("g", "a"), ("long" * 9,), ("é\n",)]
LETTERS = "QUJDRA+/-_ =\\/"
MOMENTS = (
    ("2024", "0044", "+12024", "-1", "999999999"),
    ("-", "/", ".", " ", "", "\\u002d"),
    ("05", "5", "May", "dEC", "Ma", "99"),
    ("-", "/", ".", " ", "", "\\u0020"),
    ("06", "6", "31", "", "99999"),
    ("", "T", " ", "t"),
    ("07:08", "7:08:09", "23:59:60.999999999999", "07:", ":", ""),
    ("", "Z", " UTC", "GM", "+02", "-02:30:", " +9999", " "),
    ("", " BC", " AD", " A", " B"),
)
"""Parts of dates and times; some are escaped, some end too early."""


def _value(rng: random.Random, depth: int = 0) -> str:
    """Return a value as a source might write it, or nearly."""
    turn = rng.randrange(12 if depth < 4 else 8)
    if turn < 2:
        return str(rng.choice((0, -1, 1.5, 2**63, 10**30, -(2**63), 1e-7)))
    if turn == 2:
        return '"' + "".join(map(rng.choice, MOMENTS[: rng.randrange(len(MOMENTS) + 1)])) + '"'
    if turn == 3:
        return json.dumps(
            "".join(rng.choices('2024-05-06T07:08:09.+Z \u00e9\U0001f600\\"\n', k=rng.randrange(30)))
        )
    if turn < 6:
        return '"' + "".join(rng.choices(LETTERS, k=rng.randrange(40))).replace("\\", "\\u002f") + '"'
    if turn < 8:
        return rng.choice(("null", "true", '"true"', "[1,2,3]", '"[1, 2.5e0]"', "[[1,2],[3,4]]", "{}", "[]"))
    inner = [_value(rng, depth + 1) for _ in range(rng.randrange(4))]
    if turn < 10:
        return "[" + ", ".join(inner) + "]"
    return "{" + ",".join(f"{json.dumps(rng.choice('abcgv'))}: {value}" for value in inner) + "}"


def _line(rng: random.Random) -> bytes:
    names = ["id", "a", "g", "a", "x", "long" * 9, "é\n"]
    members = ",".join(
        f"{json.dumps(rng.choice(names), ensure_ascii=rng.random() < 0.5)}:{_value(rng)}"
        for _ in range(rng.randrange(7))
    )
    turn = rng.randrange(8)
    if turn == 0:
        return json.dumps(
            {
                "type": "STATE",
                "state": {"type": "STREAM", "stream": {"stream_descriptor": {"name": "s"}}},
                "id": 1,
            }
        ).encode()
    if turn == 1:
        return rng.choice([*WAYS.values()])(rng.randrange(1, 99)).text
    more = rng.choice(
        (
            "",
            ',"emitted_at":1.5',
            ',"meta":{"changes":[{"a":1}]}',
            ',"file_reference":{"staging_file_url":"/a","file_size_bytes":3}',
            ',"file":{"bytes":"x","file_url":7}',
            ',"file_reference":7',
        )
    )
    return (
        f'{{"type":"RECORD","record":{{"stream":"{rng.choice("sst")}","data":{{{members}}}{more}}}}}'.encode()
    )


def _mutated(rng: random.Random, line: bytes) -> bytes:
    for _ in range(rng.choice((0, 0, 1, 1, 2, 5))):
        at = rng.randrange(len(line) + 1)
        line = line[:at] + rng.choice(PIECES) + line[at + rng.choice((0, 0, 1, 2, 10)) :]
    return line


def _table(rng: random.Random) -> RecordTable:
    paths = rng.sample(PATHS, rng.randrange(len(PATHS) + 1))
    shapes = (None, (3,), (2, 2), (1,))
    return RecordTable(
        [
            Column(
                path, rng.choice([*Kind]), shape=rng.choice(shapes), dtype=rng.choice(("float32", "float64"))
            )
            for path in paths
        ],
        sync_id=1,
        generation_id=1,
        files=rng.random() < 0.5,
        keep_refused=rng.random() < 0.7,
    )


def check(table: RecordTable) -> None:
    """Take the rows out, and see that they are whole."""
    for taken in table.take():
        if taken.refused is not None:
            taken.refused.validate(full=True)
        for array in taken.columns.values():
            array.validate(full=True)
        assert {len(array) for array in taken.columns.values()} == {taken.rows}


def _records(rng: random.Random) -> None:
    """Read lines in blocks that end anywhere; take the rows now and then."""
    tables = {(None, "s"): _table(rng), ("n", "t"): _table(rng)}
    seen: list[Rejected] = []
    wire = Wire(tables, seen.append if rng.random() < 0.8 else None)
    data = b"\n".join(_mutated(rng, _line(rng)) for _ in range(rng.randrange(12)))
    try:
        while data:
            size = rng.choice((1, 3, 50, 400, len(data)))
            block = np.frombuffer(data[:size], np.uint8).copy()
            for event in wire.feed(block.data):
                if isinstance(event, StateEvent):
                    json.loads(event.acknowledged(3, rng.randrange(2)))
            data = data[size:]
            if rng.random() < 0.2:
                for table in tables.values():
                    check(table)
        list(wire.finish())
    finally:
        for table in tables.values():
            check(table)
    assert all(len(rejected.raw) <= rejected.size for rejected in seen)


CALLS: dict[str, Callable[[random.Random], None]] = {"records": _records}


def call(name: str, number: int) -> bool:
    """Make call `number` of a target, always the same one; return whether it was accepted."""
    try:
        CALLS[name](random.Random(f"{name} {number}"))
    except WireError:
        return False
    return True
