"""A stream of records among which lines are bad in many ways, each with what must become of it.

Every line holds the word `CANARY`, which must never appear in a log.
"""

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

CANARY = "CANARY"
STREAM = "s"
ROW, REJECTED, STRAY, IGNORED, BLANK = "row", "rejected", "stray", "ignored", "blank"


@dataclass(frozen=True)
class Line:
    """A line, and what must become of it.

    Attributes
    ----------
    text : bytes
        Without its newline.
    fate : str
        ROW; REJECTED with its stream; STRAY: rejected without; IGNORED: valid and of no use; BLANK.
    id : int or None
        Of the row.
    nulled : str or None
        The column of the row whose value did not fit.
    """

    text: bytes
    fate: str
    id: int | None = None
    nulled: str | None = None


def message(data: str, stream: str = STREAM) -> str:
    return f'{{"type":"RECORD","record":{{"stream":"{stream}","data":{data},"emitted_at":1}}}}'


def row(number: int, more: str = "") -> str:
    return message(f'{{"id":{number},"name":"{CANARY} {number}"{more}}}')


def kept(number: int, more: str, nulled: str | None = None) -> Line:
    return Line(row(number, more).encode(), ROW, number, nulled)


def rejected(number: int, more: str | bytes) -> Line:
    head, tail = row(number, ",@").encode().split(b",@")
    return Line(head + (more.encode() if isinstance(more, str) else more) + tail, REJECTED)


def stray(text: str) -> Line:
    return Line(text.encode(), STRAY)


WAYS: dict[str, Callable[[int], Line]] = {
    "invalid JSON": lambda n: rejected(n, ',"x":}'),
    "NaN": lambda n: rejected(n, ',"price":NaN'),
    "Infinity": lambda n: rejected(n, ',"price":-Infinity'),
    "1e400": lambda n: kept(n, ',"price":1e400', "price"),
    "half a surrogate pair": lambda n: kept(n, ',"name":"CANARY \\ud800"', "name"),
    "30 digits": lambda n: kept(n, ',"age":' + "9" * 30, "age"),
    "wrong type": lambda n: kept(n, ',"age":{"CANARY":1}', "age"),
    "date that is none": lambda n: kept(n, ',"born":"CANARY-02-30"', "born"),
    "NUL": lambda n: rejected(n, b',"name":"\x00"'),
    "escaped NUL": lambda n: kept(n, ',"name":"\\u0000CANARY"'),
    "long string": lambda n: kept(n, f',"name":"{"x" * (5_000_000 if n % 5000 == 0 else 5000)}"'),
    "depth 500": lambda n: kept(n, ',"any":' + "[" * 500 + "]" * 500),
    "depth 1001": lambda n: rejected(n, ',"any":' + "[" * 1001 + "]" * 1001),
    "duplicate keys": lambda n: kept(n, f',"id":"CANARY","name":[],"id":{n}'),
    "unknown stream": lambda n: Line(message(f'{{"id":{n},"name":"CANARY"}}', "unknown").encode(), IGNORED),
    "unknown field": lambda n: kept(n, ',"CANARY":[1,2,{"a":"CANARY"}]'),
    "unknown message": lambda n: Line(b'{"type":"NEWS","news":"CANARY"}', IGNORED),
    "no data": lambda n: Line(b'{"type":"RECORD","record":{"stream":"s","CANARY":1}}', REJECTED),
    "data null": lambda n: Line(
        b'{"type":"RECORD","record":{"stream":"s","data":null,"CANARY":1}}', REJECTED
    ),
    "no stream": lambda n: stray('{"type":"RECORD","record":{"data":{"id":1,"name":"CANARY"}}}'),
    "no type": lambda n: stray('{"record":{"data":{"id":1,"name":"CANARY"}}}'),
    "text": lambda n: stray(f"CANARY {n}: Traceback (most recent call last):"),
    "mark in the middle": lambda n: Line(b"\xef\xbb\xbf" + row(n).encode(), STRAY),
    "CR": lambda n: Line(row(n).encode() + b" \t\r", ROW, n),
    "blank": lambda n: Line(b" \t\r", BLANK),
    "cut off": lambda n: Line(row(n)[: 60 + n % 20].encode(), REJECTED),
    "two in one line": lambda n: Line(row(n).encode() + row(n).encode(), REJECTED),
    "invalid UTF-8": lambda n: rejected(n, b',"name":"CANARY \xe9"'),
    "raw tab": lambda n: rejected(n, ',"name":"CANARY\t"'),
    "bad escape": lambda n: rejected(n, ',"name":"CANARY \\x41"'),
    "Python": lambda n: stray(str({"type": "RECORD", "record": {"stream": "s", "data": {"name": CANARY}}})),
}


def lines(records: int, bad: int, seed: int) -> Iterator[Line]:
    """Yield as many lines, `bad` of them bad, in all `WAYS` alike."""
    choose = random.Random(seed)
    ways = [*WAYS.values()]
    places = {place: ways[turn % len(ways)] for turn, place in enumerate(choose.sample(range(records), bad))}
    for number in range(records):
        make = places.get(number)
        yield Line(row(number).encode(), ROW, number) if make is None else make(number)


def catalog(mode: str = "append") -> dict[str, Any]:
    """Return the configured catalog of the stream."""
    types = {
        "id": {"type": "integer"},
        "name": {"type": "string"},
        "age": {"type": "integer"},
        "price": {"type": "number"},
        "born": {"type": "string", "format": "date"},
        "any": {},
    }
    stream = {
        "name": STREAM,
        "json_schema": {"type": "object", "properties": types},
        "supported_sync_modes": ["full_refresh"],
    }
    return {"streams": [{"stream": stream, "sync_mode": "full_refresh", "destination_sync_mode": mode}]}


def state(number: int) -> bytes:
    """Return a STATE line of the stream."""
    descriptor = {"stream_descriptor": {"name": STREAM}, "stream_state": {"at": number}}
    return json.dumps(
        {"type": "STATE", "state": {"type": "STREAM", "stream": descriptor}, "id": number}
    ).encode()
