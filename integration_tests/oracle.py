"""What a record must look like after a sync: slow, plain Python, written from the protocol alone.

Values come in the form in which `lake.rows` reads them back: text as `str`, integers as `int`, numbers as
`float`, times as integers (microseconds since the epoch or since midnight, or days), all else as parsed JSON
with `Decimal` for fractions.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

from integration_tests.messages import Json, Message

INT64 = range(-(2**63), 2**63)
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
OFFSET = r"(?P<offset>Z|[+-]\d{2}(?::?\d{2})?)?"
CLOCK = r"(?P<hour>\d{2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:\.(?P<fraction>\d+))?)?"
DATE = r"(?P<year>\d{4})-(?P<month>\d{2})-(?P<day>\d{2})"
DATE_TIME = re.compile(f"{DATE}(?:[T ]{CLOCK} ?{OFFSET})?")
TIME = re.compile(f"{CLOCK} ?{OFFSET}")
WELL_KNOWN = {
    "String": "text",
    "BinaryData": "text",
    "Boolean": "boolean",
    "Integer": "integer",
    "Number": "number",
    "Date": "date",
    "TimestampWithTimezone": "timestamp_tz",
    "TimestampWithoutTimezone": "timestamp",
    "TimeWithTimezone": "time_tz",
    "TimeWithoutTimezone": "time",
}


class Misfit(Exception):
    """The value does not fit its column."""


class Row(NamedTuple):
    """One expected row."""

    values: dict[str, Json]
    """Property name -> value, None for null."""
    nulled: set[str]
    """Properties whose value did not fit and became null."""
    incoming_changes: list[Json]
    """Changes that the source or the platform had recorded already."""


def kind(schema: Json) -> str:
    """Name the kind of column that a property gets: text, integer, ..., or json for everything else."""
    if not isinstance(schema, Mapping):
        return "json"
    if "$ref" in schema:
        return WELL_KNOWN[schema["$ref"].rsplit("/", 1)[1]]
    types = schema.get("type")
    for union in ("oneOf", "anyOf"):
        if union in schema:
            options = {kind(option) for option in schema[union] if option.get("type") != "null"}
            return options.pop() if len(options) == 1 else "json"
    if isinstance(types, list):
        types = [name for name in types if name != "null"]
        if len(types) != 1:
            return "json"
        types = types[0]
    if types == "string":
        return _string_kind(schema.get("format"), schema.get("airbyte_type"))
    if types == "number":
        return "integer" if schema.get("airbyte_type") == "integer" else "number"
    return {"integer": "integer", "boolean": "boolean"}.get(types or "", "json")


def _string_kind(form: str | None, airbyte_type: str | None) -> str:
    if form == "date":
        return "date"
    if form == "date-time":
        return "timestamp" if airbyte_type == "timestamp_without_timezone" else "timestamp_tz"
    if form == "time":
        return "time" if airbyte_type == "time_without_timezone" else "time_tz"
    # Without a format, or with one that is none, the airbyte_type counts.
    said = re.fullmatch("(timestamp|time)_with(out)?_timezone", airbyte_type or "")
    return "text" if said is None else said[1] + ("" if said[2] else "_tz")


def coerce(value: Json, column: str) -> Json:
    """Convert one non-null value.

    Raises
    ------
    Misfit
        If it must become null.
    """
    if column == "json":
        return value
    if column == "text":
        return value if isinstance(value, str) else _text(value)
    if column == "boolean":
        if isinstance(value, bool):
            return value
        raise Misfit
    if column in ("integer", "number"):
        return _number(value, column)
    if not isinstance(value, str):
        raise Misfit
    if column in ("time", "time_tz"):
        return _time(value)
    return _date_time(value, column)


def _text(value: Json) -> str:
    return json.dumps(value, default=str, ensure_ascii=False, separators=(",", ":"))


def _number(value: Json, column: str) -> Json:
    if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
        raise Misfit
    try:
        exact = Decimal(value)
    except InvalidOperation:
        raise Misfit from None
    if not exact.is_finite():
        raise Misfit
    if column == "number":
        rounded = float(exact)
        if math.isinf(rounded):
            raise Misfit
        return rounded
    if exact.adjusted() > 30 or exact != exact.to_integral_value() or int(exact) not in INT64:
        raise Misfit
    return int(exact)


def _parts(match: re.Match[str]) -> tuple[int, int]:
    """Microseconds since midnight, and the offset in minutes."""
    if match["hour"] is None:
        return 0, 0
    clock = dt.time(int(match["hour"]), int(match["minute"]), int(match["second"] or 0))
    micros = (clock.hour * 3600 + clock.minute * 60 + clock.second) * 1_000_000
    micros += int((match["fraction"] or "0").ljust(6, "0")[:6])
    offset = match["offset"]
    if offset in (None, "Z"):
        return micros, 0
    minutes = int(offset[1:3]) * 60 + int(offset[3:].lstrip(":") or 0)
    return micros, -minutes if offset[0] == "-" else minutes


def _time(value: str) -> int:
    match = TIME.fullmatch(value)
    try:
        micros, offset = _parts(match) if match else (-1, 0)
    except ValueError:
        raise Misfit from None
    if micros < 0:
        raise Misfit
    return (micros - offset * 60_000_000) % 86_400_000_000


def _date_time(value: str, column: str) -> int:
    match = DATE_TIME.fullmatch(value)
    if match is None:
        raise Misfit
    try:
        day = dt.datetime(int(match["year"]), int(match["month"]), int(match["day"]), tzinfo=dt.UTC)
        micros, offset = _parts(match)
    except ValueError:
        raise Misfit from None
    days = (day - EPOCH).days
    if column == "date":
        return days
    local = days * 86_400_000_000 + micros
    return local - offset * 60_000_000 if column == "timestamp_tz" else local


def kinds(schema: Json) -> dict[str, str]:
    """Name the kind of column of each property."""
    return {name: kind(described) for name, described in schema.get("properties", {}).items()}


def expected(record: Message, columns: Mapping[str, str]) -> Row:
    """Row that one record must have become, in columns of these kinds."""
    values: dict[str, Json] = {}
    nulled: set[str] = set()
    for name, column in columns.items():
        value: Any = record["data"].get(name)
        if value is not None:
            try:
                value = coerce(value, column)
            except Misfit:
                value = None
                nulled.add(name)
        values[name] = value
    return Row(values, nulled, (record.get("meta") or {}).get("changes") or [])
