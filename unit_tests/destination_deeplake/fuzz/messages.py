"""Fuzz targets: the reader of messages of Protocol Buffers, fed with messages whose bytes were changed at random.

As `lines`, they run in the suite and under sanitizers. The lengths between the messages stay right most of the time, so
that one that is broken costs only itself; each call reads some hundred.
"""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable

import numpy as np

from destination_deeplake.columns import Column, Kind, Lanes, PartitionIds, RecordTable
from destination_deeplake.wire import Rejected, StateEvent, Wire, WireError
from unit_tests.destination_deeplake.fuzz.lines import MOMENTS, check

MESSAGES = 100
FIELDS = ("a", "b", "c", "d", "long" * 9, "é\n")
TEXTS = (
    *(b"", b"x", b"12", b"-1.5e3", b"QUJD", b"x" * 300, "é😀".encode(), b"\n1"),
    *(b'{"a":[1,2]}', b"[1,2,3]", b'"x"', b"null"),
)
EDGES = (0, 1, 0x7F, 0x80, 2**31, 2**32, 2**63, 2**64 - 1)


def varint(number: int) -> bytes:
    """Return a varint."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def _long(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def _number(rng: random.Random) -> int:
    return rng.choice((rng.choice(EDGES), rng.randrange(256), rng.randrange(2**64)))


def _value(rng: random.Random) -> bytes:
    """Return a value of any kind."""
    kind = rng.randrange(15)
    if kind in (1, 3, 7, 9, 13):
        return varint(kind << 3) + varint(_number(rng))
    if kind == 5:
        return b"\x29" + struct.pack("<Q", _number(rng))
    if kind in (8, 10, 11):
        return _long(kind, b"".join(varint(number << 3) + varint(_number(rng)) for number in (1, 2, 3)))
    if kind in (2, 4, 6, 12):
        text = rng.choice((*TEXTS, "".join(map(rng.choice, MOMENTS)).encode()))
        return _long(kind, text)
    if kind == 0:
        return b""
    found = _value(rng) + _value(rng)
    return found if rng.random() < 0.5 else found[: rng.randrange(len(found) + 1)]


def _message(rng: random.Random) -> bytes:
    """Return a message as a source might write it, without its length."""
    turn = rng.randrange(12)
    if turn == 0:
        state = {"type": "STREAM", "stream": {"stream_descriptor": {"name": "s"}}, "id": 1}
        return _long(2, json.dumps({"type": "STATE", "state": state}).encode())
    if turn == 1:
        return rng.choice((b"", b"\x1a\x00", _long(2, b'{"type":"LOG"}'), _long(2, b"{}")))
    count = rng.choice((len(FIELDS), len(FIELDS), len(FIELDS), 0, 1, 7))
    change = _long(1, b"a") + b"\x10" + varint(rng.randrange(4)) + b"\x18" + varint(rng.randrange(13))
    parts = [
        *([_long(1, b"n")] if rng.random() < 0.2 else []),
        _long(2, rng.choice((b"s", b"s", b"s", b"t"))),
        b"\x18" + varint(_number(rng)),
        _long(4, rng.choice((b"p", b"q", b""))),
        *(_long(5, _value(rng)) for _ in range(count)),
        *([_long(6, _long(1, change))] if rng.random() < 0.3 else []),
    ]
    if rng.random() < 0.1:
        rng.shuffle(parts)
    return _long(1, b"".join(parts))


def _mutated(rng: random.Random, message: bytes) -> bytes:
    """Change a few bytes; where a message begins, and what is no record, seldom: the input ends there."""
    found = bytearray(message)
    first = 0 if rng.random() < 0.002 else 1
    if first and not message.startswith(b"\n"):
        return message
    for _ in range(rng.choice((0, 0, 1, 1, 2, 4))):
        if len(found) <= first:
            break
        at = rng.randrange(first, len(found))
        turn = rng.randrange(4)
        if turn == 0:
            found[at] = rng.randrange(256)
        elif turn == 1:
            found[at] ^= 1 << rng.randrange(8)
        elif turn == 2:
            del found[at : at + rng.choice((1, 2, 9))]
        else:
            found[at:at] = rng.choice(
                (b"\x0b", b"\xff" * 11, b"\n", b"\x80", varint(2**63), bytes([rng.randrange(256)]))
            )
    return bytes(found)


def _table(rng: random.Random) -> RecordTable:
    kinds = [*Kind]
    columns = [Column(name, rng.choice(kinds)) for name in rng.sample(FIELDS, rng.randrange(len(FIELDS) + 1))]
    if rng.random() < 0.3:
        names = {column.path[0] for column in columns}
        columns += [Column((name, "x"), rng.choice(kinds)) for name in FIELDS[:2] if name not in names]
    exact = [
        column.field for column in columns if column.kind in (Kind.INT64, Kind.FLOAT64, Kind.TIME, Kind.DATE)
    ]
    return RecordTable(
        columns,
        sync_id=1,
        generation_id=1,
        keep_refused=rng.random() < 0.7,
        exact=exact if rng.random() < 0.5 else (),
        fields=sorted(FIELDS),
        lanes=Lanes((), PartitionIds.PROTOBUF),
    )


def _messages(rng: random.Random) -> None:
    """Read messages in blocks that end anywhere; take the rows now and then."""
    tables = {(None, "s"): _table(rng), ("n", "t"): _table(rng)}
    seen: list[Rejected] = []
    wire = Wire(tables, seen.append if rng.random() < 0.98 else None, protobuf=True)
    made = [_message(rng) for _ in range(12)]
    found = [_mutated(rng, rng.choice(made)) for _ in range(MESSAGES)]
    # In blocks of their own, what reads beyond a message reads beyond its memory.
    blocks = [varint(len(one)) + one for one in found] if rng.random() < 0.3 else []
    data = b"" if blocks else b"".join(varint(len(one)) + one for one in found)
    if rng.random() < 0.02:
        data = _mutated(rng, data)
    try:
        while data or blocks:
            size = rng.choice((1, 50, 400, 400, len(data), len(data)))
            block = np.frombuffer(blocks.pop() if blocks else data[:size], np.uint8).copy()
            for event in wire.feed(block.data):
                if isinstance(event, StateEvent):
                    json.loads(event.acknowledged(3, rng.randrange(2)))
            data = data[size:]
            if rng.random() < 0.1:
                for table in tables.values():
                    check(table)
        list(wire.finish())
    finally:
        for table in tables.values():
            check(table)
    assert all(len(rejected.raw) <= rejected.size for rejected in seen)


CALLS: dict[str, Callable[[random.Random], None]] = {f"{MESSAGES} messages": _messages}


def call(name: str, number: int) -> bool:
    """Make call `number` of a target, always the same one; return whether it was accepted."""
    try:
        CALLS[name](random.Random(f"{name} {number}"))
    except WireError:
        return False
    return True
