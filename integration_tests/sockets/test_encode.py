"""The encoder writes what the package `protobuf` reads back as the same values."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integration_tests.messages import Json, Message, configure, parse, record, stream
from integration_tests.oracle import Misfit, coerce
from integration_tests.sockets import schema
from integration_tests.sockets.encode import (
    Encoder,
    Misfits,
    Nulls,
    alphabetical,
    delimited,
    probe,
    text_of,
    varint,
)
from integration_tests.sockets.model import frames

SCHEMAS: dict[str, Message] = {
    "text": {"type": ["null", "string"]},
    "boolean": {"type": "boolean"},
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "date": {"type": "string", "format": "date"},
    "time": {"type": "string", "format": "time", "airbyte_type": "time_without_timezone"},
    "time_tz": {"type": "string", "format": "time"},
    "timestamp": {"type": "string", "format": "date-time", "airbyte_type": "timestamp_without_timezone"},
    "timestamp_tz": {"type": "string", "format": "date-time"},
    "json": {"type": "object"},
}


def value_of(value: Any) -> Json:
    """What a value of the wire means, in the form of `oracle`."""
    kind = value.WhichOneof("value")
    if kind in (None, "null"):
        return None
    found = getattr(value, kind)
    if kind == "big_integer":
        return int(found)
    if kind == "big_decimal":
        return Decimal(found)
    if kind == "json":
        return parse(found)
    if kind == "time_with_timezone":
        return (found.nanos_of_day // 1000 - found.offset_seconds * 10**6) % 86_400_000_000
    if kind == "time_without_timezone":
        return found // 1000
    if kind == "timestamp_with_timezone":
        return found.epoch_second * 10**6 + found.nano // 1000
    if kind == "timestamp_without_timezone":
        return found.date_days_since_epoch * 86_400_000_000 + found.nanos_of_day // 1000
    return found


def through(value: Json, declared: str, misfits: Misfits = Misfits.NULL, nulls: Nulls = Nulls.UNSET) -> Any:
    """Encode and decode one value."""
    encoded = schema.AirbyteValue()
    Encoder({"streams": []}, misfits, nulls).value(encoded, value, declared)
    return schema.AirbyteValue.FromString(encoded.SerializeToString())


DAYS = st.dates().map(str)
OFFSETS = st.sampled_from(["", "Z", "+02:00", "-0930", " +05"])
FRACTIONS = st.sampled_from(["", ":07", ":07.5", ":59.123456", ":59.123456789"])
CLOCKS = st.builds("{:02}:{:02}{}".format, st.integers(0, 23), st.integers(0, 59), FRACTIONS)
VALUES: dict[str, st.SearchStrategy[Json]] = {
    "text": st.text(),
    "boolean": st.booleans(),
    "integer": st.integers()
    | st.integers(-(2**70), 2**70)
    | st.integers(-99, 99).map(lambda n: Decimal(f"{n}.0")),
    "number": st.integers() | st.decimals(allow_nan=False, allow_infinity=False),
    "date": DAYS,
    "time": CLOCKS,
    "time_tz": st.builds("{}{}".format, CLOCKS, OFFSETS),
    "timestamp": st.builds("{}{}{}".format, DAYS, st.sampled_from("T "), CLOCKS),
    "timestamp_tz": st.builds("{}T{}{}".format, DAYS, CLOCKS, OFFSETS),
    "json": st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.text()
        | st.decimals(allow_nan=False, allow_infinity=False),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=8,
    ).filter(lambda value: value is not None),
}


@pytest.mark.parametrize("declared", SCHEMAS)
@given(data=st.data())
def test_a_value_of_its_declared_type_means_the_same_on_the_wire(declared: str, data: st.DataObject) -> None:
    value = data.draw(VALUES[declared])
    found = through(value, declared)
    assert found.WhichOneof("value") is not None
    if declared == "number":
        assert (
            Decimal(repr(value_of(found)) if isinstance(value_of(found), float) else value_of(found)) == value
        )
    elif declared in ("integer", "json"):
        assert value_of(found) == value
    else:
        assert value_of(found) == coerce(value, declared)


@pytest.mark.parametrize(
    ("value", "declared", "field"),
    [
        (2**63 - 1, "integer", "integer"),
        (2**63, "integer", "big_integer"),
        (-(2**63) - 1, "integer", "big_integer"),
        (Decimal("0.1"), "number", "number"),
        (Decimal("0.1000000000000000001"), "number", "big_decimal"),
        (Decimal("1e400"), "number", "big_decimal"),
        (2**53 + 1, "number", "big_decimal"),
        (False, "boolean", "boolean"),
        (0, "integer", "integer"),
        ("", "text", "string"),
        ("1970-01-01", "date", "date"),
        ([], "json", "json"),
    ],
)
def test_a_value_has_the_field_of_its_type(value: Json, declared: str, field: str) -> None:
    """Zeros too: a value of a choice is there, whatever it is."""
    assert through(value, declared).WhichOneof("value") == field


MISFITS = [
    ("12", "integer"),
    (Decimal("7.5"), "integer"),
    (True, "integer"),
    (1, "boolean"),
    ([1, "é"], "text"),
    (7, "text"),
    ("2024-02-30", "date"),
    ("0044-03-15 BC", "date"),
    ("25:00", "time"),
    ("10:00+01:00", "time"),
    ({"a": None}, "timestamp_tz"),
]


@pytest.mark.parametrize(("value", "declared"), MISFITS)
def test_a_value_that_does_not_fit_its_type_is_null_a_string_or_its_own(value: Json, declared: str) -> None:
    assert through(value, declared).WhichOneof("value") is None
    as_string = through(value, declared, Misfits.STRING)
    assert as_string.string == (value if isinstance(value, str) else text_of(value, ascii_only=False))
    assert value_of(through(value, declared, Misfits.OWN)) == value


@pytest.mark.parametrize(("value", "declared"), MISFITS)
def test_a_string_in_the_place_of_another_value_means_to_a_destination_what_that_means(
    value: Json, declared: str
) -> None:
    def meaning(value: Json) -> Json:
        try:
            return coerce(value, declared)
        except Misfit:
            return Misfit

    if declared != "integer" or value is not True:
        assert meaning(through(value, declared, Misfits.STRING).string) == meaning(value)


@pytest.mark.parametrize(
    ("nulls", "written"), [(Nulls.UNSET, b""), (Nulls.FLAG, b"\x68\x01"), (Nulls.ENUM, b"\x68\x00")]
)
def test_a_null_is_written_as_any_release_writes_it(nulls: Nulls, written: bytes) -> None:
    found = through(None, "integer", nulls=nulls)
    assert found.SerializeToString() == written
    assert value_of(found) is None


def test_names_sort_as_in_java() -> None:
    """U+10000 is a pair of surrogates, which come before U+FFFD."""
    assert alphabetical(["b", "\ufffd", "\U00010000", "B", "a", "_", "é", ""]) == [
        *("", "B", "_", "a", "b", "é"),
        *("\U00010000", "\ufffd"),
    ]
    assert sorted(["\ufffd", "\U00010000"]) == ["\ufffd", "\U00010000"]


def test_values_stand_in_the_order_of_the_names() -> None:
    catalog = configure([stream("s", "ns", **dict(reversed(SCHEMAS.items())))])
    data = {"text": "t", "boolean": True, "unknown": 3}
    message = record("s", data, "ns", emitted_at=2**40)
    message["record"]["partition_id"] = "p"
    message["record"]["meta"] = {
        "changes": [{"field": "date", "change": "TRUNCATED", "reason": "PLATFORM_SERIALIZATION_ERROR"}]
    }
    found = schema.AirbyteMessage.FromString(Encoder(catalog).encode(message)).record
    assert (found.stream_namespace, found.stream_name, found.partition_id) == ("ns", "s", "p")
    assert found.emitted_at_ms == 2**40
    values = dict(zip(sorted(SCHEMAS), map(value_of, found.data), strict=True))
    assert values == {**dict.fromkeys(SCHEMAS), "text": "t", "boolean": True}
    [change] = found.meta.changes
    assert (change.field, change.change, change.reason) == ("date", 1, 8)


def test_a_namespace_that_is_not_there_is_not_on_the_wire() -> None:
    message = record("s", {})
    message["record"]["partition_id"] = "p"
    encoder = Encoder(configure([stream("s")]))
    assert not schema.AirbyteMessage.FromString(encoder.encode(message)).record.HasField("stream_namespace")
    message["record"]["namespace"] = ""
    assert schema.AirbyteMessage.FromString(encoder.encode(message)).record.HasField("stream_namespace")


def test_the_bytes_are_those_of_the_table_of_fields() -> None:
    """Written by hand: tag is number * 8 + kind, sint64 is zigzag, a double has its lowest byte first."""
    catalog = configure([stream("s", a={"type": "integer"}, b={"type": "number"}, c={"type": "string"})])
    message = record("s", {"a": -2, "b": Decimal("1.0"), "c": "é"}, emitted_at=300)
    message["record"]["partition_id"] = "p"
    inner = b"\x12\x01s\x18\xac\x02\x22\x01p"
    inner += b"\x2a\x02\x18\x03"
    inner += b"\x2a\x09\x29\x00\x00\x00\x00\x00\x00\xf0\x3f"
    inner += b"\x2a\x04\x12\x02\xc3\xa9"
    assert Encoder(catalog).encode(message) == b"\x0a" + bytes([len(inner)]) + inner
    assert delimited(probe()) == b"\x02\x1a\x00"


def test_other_messages_keep_their_json() -> None:
    state = {"type": "STATE", "state": {"data": {"z": Decimal("1.50"), "a": [10**30, "\ud83d"]}}}
    found = schema.AirbyteMessage.FromString(Encoder({"streams": []}).encode(state)).airbyte_protocol_message
    assert (
        found
        == r'{"type":"STATE","state":{"data":{"z":1.50,"a":[1000000000000000000000000000000,"\ud83d"]}}}'
    )


@given(st.lists(st.binary(max_size=300), max_size=5), st.integers(0, 400))
def test_messages_come_back_from_behind_their_lengths(messages: list[bytes], cut: int) -> None:
    data = b"".join(map(delimited, messages))
    assert list(frames(data)) == messages
    whole = list(frames(data[:cut]))
    assert whole == messages[: len(whole)]


@pytest.mark.parametrize(
    ("number", "written"),
    [(0, b"\0"), (127, b"\x7f"), (128, b"\x80\x01"), (1 << 28, b"\x80\x80\x80\x80\x01")],
)
def test_lengths_are_varints(number: int, written: bytes) -> None:
    assert varint(number) == written


@given(VALUES["json"])
def test_json_is_written_as_python_reads_it(value: Json) -> None:
    assert parse(text_of(value)) == value
    assert json.loads(text_of(value, ascii_only=False), parse_float=Decimal) == value


def test_dates_before_1970_are_negative() -> None:
    assert through("0001-01-01", "date").date == (dt.date(1, 1, 1) - dt.date(1970, 1, 1)).days
    assert (
        through("1969-12-31T23:59:59.999999999Z", "timestamp_tz").timestamp_with_timezone.epoch_second == -1
    )
