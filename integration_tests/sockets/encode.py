"""JSON messages -> Airbyte's messages in Protocol Buffers, as a typed source of a database would write them.

Values have no names on the wire: they stand in the alphabetical order of the properties of the stream's schema, in
which Java sorts, by units of UTF-16. Each has the type that the schema declares:

    integer     `integer`, beyond 64 bits `big_integer`
    number      `number`, or `big_decimal` where a double does not keep the digits
    dates and times     numbers
    arrays, objects, unions, unknown types      `json`

A value that is not what its schema declares is null, as the documentation says, or what `Misfits` says. Numbers are
`Decimal`, as `messages.read` gives them.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from enum import StrEnum
from typing import Any

from integration_tests.messages import Json, Message, StreamName, name_of
from integration_tests.oracle import INT64, kind
from integration_tests.sockets import schema

DATE = r"(\d{4})-(\d{2})-(\d{2})"
CLOCK = r"(\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?"
OFFSET = r" ?(?:(Z)|([+-])(\d{2}):?(\d{2})?)?"
DAY = re.compile(DATE)
TIME = re.compile(CLOCK + OFFSET)
TIMESTAMP = re.compile(f"{DATE}[T ]{CLOCK}{OFFSET}")
EPOCH = dt.date(1970, 1, 1)
NANOS = 10**9


class Misfits(StrEnum):
    """What becomes of a value that is not of its declared type."""

    NULL = "null"
    STRING = "string"
    """Its JSON text; a string as it is."""
    OWN = "own"
    """What JSON says that it is: then the destination sees as much as in a line of JSON."""


class Nulls(StrEnum):
    """How a null is written."""

    UNSET = "unset"
    """A value without a field."""
    FLAG = "flag"
    """Field 13 with 1: true of older releases."""
    ENUM = "enum"
    """Field 13 with 0: the enumeration of newer ones."""


def text_of(value: Json, *, ascii_only: bool = True) -> str:
    """Write JSON with the digits of its numbers, without blanks."""
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, Mapping):
        members = (
            f"{json.dumps(key, ensure_ascii=ascii_only)}:{text_of(item, ascii_only=ascii_only)}"
            for key, item in value.items()
        )
        return f"{{{','.join(members)}}}"
    if isinstance(value, list | tuple):
        return f"[{','.join(text_of(item, ascii_only=ascii_only) for item in value)}]"
    return json.dumps(value, ensure_ascii=ascii_only)


def alphabetical(names: Sequence[str]) -> list[str]:
    """Sort as Java does: by units of UTF-16, in which a surrogate comes before U+E000."""
    return sorted(names, key=lambda name: name.encode("utf-16-be", "surrogatepass"))


def whole_text(text: str) -> str:
    """Return text that UTF-8 can say; half a surrogate pair becomes the replacement character."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class Encoder:
    """Writes the messages of the streams of one catalog."""

    def __init__(self, catalog: Message, misfits: Misfits = Misfits.NULL, nulls: Nulls = Nulls.UNSET) -> None:
        self._misfits = misfits
        self._nulls = nulls
        self._kinds: dict[StreamName, dict[str, str]] = {}
        for configured in catalog["streams"]:
            stream = configured["stream"]
            declared = (stream.get("json_schema") or {}).get("properties") or {}
            kinds = {name: kind(declared[name]) for name in alphabetical(list(declared))}
            self._kinds[name_of(stream, "name")] = kinds

    def encode(self, message: Message) -> bytes:
        """Encode one message."""
        encoded = schema.AirbyteMessage()
        if message["type"] == "RECORD":
            self._fill(encoded.record, message["record"])
        else:
            encoded.airbyte_protocol_message = text_of(message)
        written: bytes = encoded.SerializeToString()
        return written

    def _fill(self, encoded: Any, record: Message) -> None:
        if record.get("namespace") is not None:
            encoded.stream_namespace = whole_text(record["namespace"])
        encoded.stream_name = whole_text(record["stream"])
        encoded.emitted_at_ms = int(record["emitted_at"])
        encoded.partition_id = record["partition_id"]
        kinds = self._kinds.get(name_of(record))
        if kinds is None:
            # A stream that the destination does not know: nobody can tell the order of its values.
            kinds = dict.fromkeys(alphabetical(list(record["data"])), "json")
        for name, declared in kinds.items():
            self.value(encoded.data.add(), record["data"].get(name), declared)
        for change in (record.get("meta") or {}).get("changes") or []:
            encoded.meta.changes.add(
                field=change["field"],
                change=schema.ENUMS["Change"].index(change["change"]),
                reason=schema.ENUMS["Reason"].index(change["reason"]),
            )

    def value(self, encoded: Any, value: Json, declared: str) -> None:
        """Write one value into a message of its own; `declared` as in `oracle.kind`."""
        if value is None:
            self._null(encoded)
        elif not _typed(encoded, value, declared):
            if self._misfits is Misfits.NULL:
                self._null(encoded)
            elif self._misfits is Misfits.OWN:
                _own(encoded, value)
            else:
                text = value if isinstance(value, str) else text_of(value, ascii_only=False)
                encoded.string = whole_text(text)

    def _null(self, encoded: Any) -> None:
        if self._nulls is not Nulls.UNSET:
            encoded.null = int(self._nulls is Nulls.FLAG)


def probe() -> bytes:
    """A message that says nothing but that the source lives."""
    encoded = schema.AirbyteMessage()
    encoded.probe.SetInParent()
    written: bytes = encoded.SerializeToString()
    return written


def varint(number: int) -> bytes:
    """Write a length as Protocol Buffers do: seven bits in a byte, the lowest first."""
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*written, number])


def delimited(encoded: bytes) -> bytes:
    """Put a message behind its length."""
    return varint(len(encoded)) + encoded


def _own(encoded: Any, value: Json) -> None:
    """Write a value by what it is itself."""
    declared = {bool: "boolean", int: "integer", Decimal: "number", str: "text"}.get(type(value), "json")
    assert _typed(encoded, value, declared)


def _typed(encoded: Any, value: Json, declared: str) -> bool:
    """Write a value of its declared type; tell whether it is one."""
    if declared == "json":
        encoded.json = text_of(value).encode()
    elif declared == "boolean" and isinstance(value, bool):
        encoded.boolean = value
    elif (
        declared in ("integer", "number") and isinstance(value, int | Decimal) and not isinstance(value, bool)
    ):
        return _number(encoded, Decimal(value), declared)
    elif declared == "text" and isinstance(value, str):
        encoded.string = whole_text(value)
    elif isinstance(value, str):
        return _moment(encoded, value, declared)
    else:
        return False
    return True


def _number(encoded: Any, value: Decimal, declared: str) -> bool:
    if declared == "integer":
        if value.adjusted() > 1000 or value != value.to_integral_value():
            return False
        if int(value) in INT64:
            encoded.integer = int(value)
        else:
            encoded.big_integer = str(int(value))
    elif Decimal(repr(float(value))) == value:
        encoded.number = float(value)
    else:
        encoded.big_decimal = str(value)
    return True


def _moment(encoded: Any, text: str, declared: str) -> bool:
    """Write a date or a time; texts beyond the calendar, the clock or nanoseconds are none."""
    pattern = {"date": DAY, "time": TIME, "time_tz": TIME, "timestamp": TIMESTAMP, "timestamp_tz": TIMESTAMP}
    match = pattern[declared].fullmatch(text) if declared in pattern else None
    if match is None:
        return False
    try:
        if declared == "date":
            encoded.date = _days(match.groups())
            return True
        *day, hour, minute, second, fraction, utc, sign, off_hours, off_minutes = match.groups()
        if declared in ("time", "timestamp") and (utc or sign):
            return False
        nanos = _nanos(hour, minute, second, fraction)
        days = _days(day) if day else 0
    except ValueError:
        return False
    offset = int(off_hours or 0) * 3600 + int(off_minutes or 0) * 60
    offset = -offset if sign == "-" else offset
    if declared == "time":
        encoded.time_without_timezone = nanos
    elif declared == "time_tz":
        encoded.time_with_timezone.nanos_of_day = nanos
        encoded.time_with_timezone.offset_seconds = offset
    elif declared == "timestamp":
        encoded.timestamp_without_timezone.date_days_since_epoch = days
        encoded.timestamp_without_timezone.nanos_of_day = nanos
    else:
        moment = encoded.timestamp_with_timezone
        moment.epoch_second = days * 86_400 + nanos // NANOS - offset
        moment.nano = nanos % NANOS
        moment.offset_seconds = offset
    return True


def _days(parts: Sequence[str]) -> int:
    year, month, day = map(int, parts)
    return (dt.date(year, month, day) - EPOCH).days


def _nanos(hour: str, minute: str, second: str | None, fraction: str | None) -> int:
    clock = dt.time(int(hour), int(minute), int(second or 0))
    seconds = clock.hour * 3600 + clock.minute * 60 + clock.second
    return seconds * NANOS + int((fraction or "0").ljust(9, "0"))
