"""Records of Protocol Buffers become the same rows as the lines of JSON that say the same."""

from __future__ import annotations

import datetime as dt
import json
import math
import struct
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from destination_deeplake.columns import Batch, Column, Kind, Lanes, PartitionIds, RecordTable
from destination_deeplake.wire import Rejected, StateEvent, StatusEvent, Wire, WireError
from integration_tests.sockets.encode import delimited, varint
from integration_tests.sockets.schema import AirbyteMessage, AirbyteValue
from unit_tests.destination_deeplake.tables import batch
from unit_tests.effort import examples

S = (None, "s")
DAY = 86_400 * 10**9


def table(columns: Sequence[Column], fields: Sequence[str], **more: Any) -> RecordTable:
    return RecordTable(
        columns,
        sync_id=1,
        generation_id=1,
        keep_refused=True,
        fields=fields,
        lanes=Lanes((), PartitionIds.PROTOBUF),
        **more,
    )


def message(values: Sequence[Any], *, partition: str = "p", name: str = "s", **more: Any) -> bytes:
    whole = AirbyteMessage()
    whole.record.stream_name = name
    whole.record.emitted_at_ms = 1_700_000_000_123
    whole.record.partition_id = partition
    for value in values:
        whole.record.data.add().CopyFrom(value)
    for key, value in more.items():
        setattr(whole.record, key, value)
    return delimited(whole.SerializeToString())


def other(body: dict[str, Any]) -> bytes:
    return delimited(AirbyteMessage(airbyte_protocol_message=json.dumps(body)).SerializeToString())


def read(target: RecordTable, *blocks: bytes, rejects: list[Rejected] | None = None) -> list[object]:
    wire = Wire({S: target}, None if rejects is None else rejects.append, protobuf=True)
    events: list[object] = []
    for block in blocks:
        events += wire.feed(block)
    return [*events, *wire.finish()]


def clock(nanos: int) -> str:
    seconds, rest = divmod(nanos, 10**9)
    fraction = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{fraction}"


def offset_text(seconds: int) -> str:
    if not seconds:
        return "Z"
    sign, left = "+" if seconds > 0 else "-", abs(seconds)
    text = f"{sign}{left // 3600:02d}:{left // 60 % 60:02d}"
    return text + (f":{left % 60:02d}" if left % 60 else "")


def spelled(value: Any) -> str | None:
    """Return a value as JSON, by Python's own means; None for no value."""
    kind = value.WhichOneof("value")
    found = None if kind is None else getattr(value, kind)
    if kind in (None, "null"):
        return None
    if kind == "string":
        return json.dumps(found, ensure_ascii=False)
    if kind in ("boolean", "integer"):
        return json.dumps(found)
    if kind == "number":
        if not math.isfinite(found):
            return '"NaN"' if math.isnan(found) else '"Infinity"' if found > 0 else '"-Infinity"'
        text = next(text for digits in (15, 16, 17) if float(text := f"{found:.{digits}g}") == found)
        return text if "." in text or "e" in text else f"{text}.0"
    if kind in ("big_integer", "big_decimal"):
        return str(found)
    if kind == "json":
        return str(found.decode())
    day = dt.date(1970, 1, 1)
    if kind == "date":
        return f'"{day + dt.timedelta(found)}"'
    if kind == "time_without_timezone":
        return f'"{clock(found)}"'
    if kind == "time_with_timezone":
        return f'"{clock(found.nanos_of_day)}{offset_text(found.offset_seconds)}"'
    if kind == "timestamp_without_timezone":
        return f'"{day + dt.timedelta(found.date_days_since_epoch)}T{clock(found.nanos_of_day)}"'
    days, second = divmod(found.epoch_second + found.offset_seconds, 86_400)
    return f'"{day + dt.timedelta(days)}T{clock(second * 10**9 + found.nano)}{offset_text(found.offset_seconds)}"'


def of(**fields: Any) -> Any:
    return AirbyteValue(**fields)


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=70)
NANOS = st.integers(0, DAY - 1) | st.integers(0, DAY // 10**9 - 1).map(lambda second: second * 10**9)
OFFSETS = st.sampled_from([0, 3600, -3600, 5 * 3600 + 1800, -45_296, 86_399, -86_399])
DAYS = st.integers(-700_000, 2_900_000)
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
VALUES = st.one_of(
    st.just(of()),
    st.just(of(null=0)),
    st.just(of(null=1)),
    st.booleans().map(lambda one: of(boolean=one)),
    TEXTS.map(lambda text: of(string=text)),
    st.sampled_from(
        ["12", "-1.5e3", "2024-05-06T07:08:09+02:00", "true", " 7 ", "NaN", "QUJD", "[1,2]", "null"]
    ).map(lambda text: of(string=text)),
    st.integers(-(2**63), 2**63 - 1).map(lambda number: of(integer=number)),
    st.integers(-(10**40), 10**40).map(lambda number: of(big_integer=str(number))),
    st.floats().map(lambda number: of(number=number)),
    st.decimals(allow_nan=False, allow_infinity=False, places=3).map(lambda one: of(big_decimal=f"{one:f}")),
    DAYS.map(lambda days: of(date=days)),
    NANOS.map(lambda nanos: of(time_without_timezone=nanos)),
    st.builds(
        lambda nanos, offset: of(time_with_timezone={"nanos_of_day": nanos, "offset_seconds": offset}),
        NANOS,
        OFFSETS,
    ),
    st.builds(
        lambda days, nanos: of(
            timestamp_without_timezone={"date_days_since_epoch": days, "nanos_of_day": nanos}
        ),
        DAYS,
        NANOS,
    ),
    st.builds(
        lambda second, nano, offset: of(
            timestamp_with_timezone={"epoch_second": second, "nano": nano, "offset_seconds": offset}
        ),
        st.integers(-50_000_000_000, 200_000_000_000),
        st.integers(0, 10**9 - 1),
        OFFSETS,
    ),
    DOCUMENTS.map(lambda one: of(json=json.dumps(one, ensure_ascii=False, separators=(",", ":")).encode())),
)


def rows(taken: Batch) -> dict[str, list[Any]]:
    kept = {name: column for name, column in taken.columns.items() if name != "_airbyte_raw_id"}
    for column in kept.values():
        column.validate(full=True)
    found = {name: [repr(value) for value in column.to_pylist()] for name, column in kept.items()}
    refused = [] if taken.refused is None else taken.refused.drop_columns(["line_number"]).to_pylist()
    numbers = [] if taken.numbers is None else taken.numbers.drop_columns(["line_number"]).to_pylist()
    return found | {"refused": refused, "numbers": numbers}


@settings(max_examples=examples(1200))
@given(
    st.lists(st.tuples(st.sampled_from(Kind), st.booleans()), min_size=1, max_size=5).flatmap(
        lambda kinds: st.tuples(
            st.just(kinds),
            st.lists(st.tuples(*[VALUES] * len(kinds)), min_size=1, max_size=4),
            st.integers(1, 400),
        )
    )
)
def test_rows_are_those_of_json(given: tuple[list[tuple[Kind, bool]], list[tuple[Any, ...]], int]) -> None:
    kinds, records, step = given
    names = [f"f{number}" for number in range(len(kinds))]
    columns = [Column(name, kind) for name, (kind, _) in zip(names, kinds, strict=True)]
    exact = [
        name
        for name, (kind, wanted) in zip(names, kinds, strict=True)
        if wanted and kind in (Kind.INT64, Kind.FLOAT64, *range(Kind.TIMESTAMP_TZ, Kind.JSON))
    ]
    target, beside = table(columns, names, exact=exact), table(columns, names, exact=exact)
    data = b"".join(message(values) for values in records)
    assert read(target, *(data[at : at + step] for at in range(0, len(data), step))) == []
    wire = Wire({S: beside})
    for values in records:
        members = ",".join(
            f'"{name}":{text}'
            for name, value in zip(names, values, strict=True)
            if (text := spelled(value)) is not None
        )
        line = (
            f'{{"type":"RECORD","record":{{"stream":"s","data":{{{members}}},"emitted_at":1700000000123}}}}\n'
        )
        assert list(wire.feed(line.encode())) == []
    mine, theirs = batch(target), batch(beside)
    assert mine.partitions == {"p": len(records)}
    assert rows(mine) == rows(theirs)


def test_paths_and_fields_that_are_left_out() -> None:
    columns = [Column(("o", "x"), Kind.INT64), Column("t", Kind.TEXT)]
    target = table(columns, ["a", "o", "t"])
    read(
        target,
        message([of(json=b'{"not":"wanted"}'), of(json=b'{"x":5,"y":6}'), of(string="one")]),
        message([of(), of(), of()]),
        message([of(string="?"), of(string="no object"), of(integer=7)]),
        message([]),
    )
    taken = batch(target)
    assert taken.columns["o.x"].to_pylist() == [5, None, None, None]
    assert taken.columns["t"].to_pylist() == ["one", None, "7", None]
    changes = [json.loads(meta)["changes"] for meta in taken.columns["_airbyte_meta"].to_pylist()]
    assert [len(one) for one in changes] == [0, 0, 1, 0]
    assert changes[2][0]["field"] == "o"


def test_changes_of_the_source_are_kept_before_our_own() -> None:
    whole = AirbyteMessage()
    whole.record.stream_name = "s"
    whole.record.data.add().string = "x"
    whole.record.meta.changes.add(field='a"\n', change=1, reason=3)
    whole.record.meta.changes.add(field="b", change=0, reason=10)
    target = table([Column("n", Kind.INT64)], ["n"])
    read(target, delimited(whole.SerializeToString()))
    (meta,) = batch(target).columns["_airbyte_meta"].to_pylist()
    assert json.loads(meta)["changes"] == [
        {"field": 'a"\n', "change": "TRUNCATED", "reason": "SOURCE_FIELD_SIZE_LIMITATION"},
        {"field": "b", "change": "NULLED", "reason": "DESTINATION_TYPECAST_ERROR"},
        {"field": "n", "change": "NULLED", "reason": "DESTINATION_SERIALIZATION_ERROR"},
    ]


def test_other_messages_stand_where_they_stand_and_probes_are_nothing() -> None:
    target = table([Column("n", Kind.INT64)], ["n"])
    state = {
        "type": "STATE",
        "state": {"type": "STREAM", "stream": {"stream_descriptor": {"name": "s"}}, "id": 1},
    }
    status = {
        "type": "TRACE",
        "trace": {
            "type": "STREAM_STATUS",
            "stream_status": {"stream_descriptor": {"name": "s"}, "status": "COMPLETE"},
        },
    }
    probe = delimited(b"\x1a\x00")
    data = b"".join((probe, message([of(integer=1)]), other(state), probe, other(status), delimited(b"")))
    for step in (1, 7, len(data)):
        events = read(target, *(data[at : at + step] for at in range(0, len(data), step)))
        found, said = events
        assert isinstance(found, StateEvent)
        assert isinstance(said, StatusEvent)
        assert json.loads(found.acknowledged(5))["state"]["destinationStats"] == {"recordCount": 5.0}
        assert said == StatusEvent(None, "s", "COMPLETE")
        assert batch(target).columns["n"].to_pylist() == [1]


def test_heads_behind_values_and_unknown_fields_change_nothing() -> None:
    value = b"\x2a\x02\x18\x02"  # data: integer 1
    unknown = b"\x9a\x06\x03abc" + b"\xa0\x06\x05" + b"\xa9\x06" + bytes(8) + b"\xab\x06\x08\x01\xac\x06"
    name, partition, emitted = b"\x12\x01s", b"\x22\x01q", b"\x18\x05"
    target = table([Column("n", Kind.INT64)], ["n"])
    for record in (
        value + name + partition + emitted,
        name + unknown + value + unknown + partition + emitted,
    ):
        read(target, delimited(b"\x0a" + varint(len(record)) + record + unknown))
    taken = batch(target)
    assert taken.columns["n"].to_pylist() == [1, 1]
    assert taken.columns["_airbyte_extracted_at"].to_pylist() == [5000, 5000]
    assert taken.partitions == {"q": 2}


def bomb(size: int) -> bytes:
    return varint(size) + b"x"


GROUPS = b"\x0b" * 1000
CUT = [bytes([number << 3 | kind]) for number in range(1, 14) for kind in (0, 1, 2, 5)]
"""Values of which there is only what says what comes."""
BROKEN = {
    "too few values": (message([of(integer=1)]), "more or fewer values"),
    "too many values": (message([of(integer=1)] * 3), "more or fewer values"),
    "bad text": (delimited(b"\x0a\x0c\x12\x01s\x2a\x02\x18\x02\x2a\x03\x12\x01\xff"), "UTF-8"),
    "cut text": (delimited(b"\x0a\x0c\x12\x01s\x2a\x02\x18\x02\x2a\x03\x12\x01\xc3"), "UTF-8"),
    "no JSON": (message([of(integer=1), of(json=b'{"a":')]), "invalid JSON"),
    "two of JSON": (message([of(integer=1), of(json=b'1,"n":2')]), "invalid JSON"),
    "a newline in JSON": (message([of(integer=1), of(json=b'"a\nb"')]), "invalid JSON"),
    "empty JSON": (message([of(integer=1), of(json=b"")]), "invalid JSON"),
    "a value that is longer than its record": (
        delimited(b"\x0a\x07\x12\x01s\x2a\x7f\x18\x02"),
        "Protocol Buffers",
    ),
    "no stream": (message([of(), of()], name=""), "without a string `stream`"),
    "an endless group": (delimited(b"\x0a" + varint(1000) + GROUPS), "Protocol Buffers"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_record_that_is_none_is_left_out_and_its_neighbours_stay(what: str) -> None:
    data, reason = BROKEN[what]
    good = message([of(integer=7), of(json=b"[1]")])
    target = table([Column("n", Kind.INT64), Column("j", Kind.JSON)], ["n", "j"])
    rejects: list[Rejected] = []
    read(target, good + data + good, rejects=rejects)
    taken = batch(target)
    assert taken.columns["n"].to_pylist() == [7, 7]
    (rejected,) = rejects
    assert reason in rejected.reason
    assert rejected.line_number == 2
    with pytest.raises(WireError, match=reason):
        read(table([Column("n", Kind.INT64), Column("j", Kind.JSON)], ["n", "j"]), data)


@pytest.mark.parametrize(
    "text",
    ['{\n "a": [1,\n 2],\n "b": {\n}\n}\n', "\n[1]", "[\n]", '{"a\\n":1}\n\n', "\nnull\n", '["\\\\"\n,2]'],
)
def test_json_over_several_lines_is_one_value(text: str) -> None:
    target = table([Column("n", Kind.INT64), Column("j", Kind.JSON)], ["n", "j"])
    read(target, message([of(integer=1), of(json=text.encode())]) * 2)
    taken = batch(target).columns["j"].to_pylist()
    assert [value if value is None else json.loads(value) for value in taken] == [json.loads(text)] * 2


@pytest.mark.parametrize("value", CUT, ids=bytes.hex)
def test_values_that_are_cut_off_are_none_at_the_end_of_a_block_too(value: bytes) -> None:
    data = delimited(b"\x0a" + delimited(b"\x12\x01s\x2a" + delimited(value)))
    for kind in Kind:
        with pytest.raises(WireError, match="Protocol Buffers"):
            read(table([Column("n", kind)], ["n"]), data)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (bomb(2**31), "256 MiB"),
        (bomb(2**63), "256 MiB"),
        (b"\xff" * 20, "256 MiB"),
        (message([of(integer=1)])[:-1], "ends inside a message"),
        (b"\x80", "ends inside a message"),
        (delimited(b"\x12\x05abc"), "Protocol Buffers"),
        (other({"type": "STATE", "state": 5}), "STATE without"),
    ],
)
@pytest.mark.parametrize("step", [1, 1000])
def test_what_nobody_could_make_up_for_ends_the_input(data: bytes, reason: str, step: int) -> None:
    target = table([Column("n", Kind.INT64)], ["n"])
    good = message([of(integer=1)])
    whole = good + data
    with pytest.raises(WireError, match=reason):
        read(target, *(whole[at : at + step] for at in range(0, len(whole), step)), rejects=[])
    assert batch(target).columns["n"].to_pylist() == [1]


def test_moments_that_no_calendar_has_fit_no_column_of_moments() -> None:
    kinds = {"d": Kind.DATE, "t": Kind.TIME, "u": Kind.TIMESTAMP_TZ, "v": Kind.TIMESTAMP, "z": Kind.TIME_TZ}
    target = table([Column(name, kind) for name, kind in kinds.items()], list(kinds))
    read(
        target,
        message(
            [
                of(date=2**62),
                of(time_without_timezone=DAY),
                of(timestamp_with_timezone={"epoch_second": 5, "nano": 4_000_000_000}),
                of(timestamp_without_timezone={"date_days_since_epoch": -(2**62), "nanos_of_day": 1}),
                of(time_with_timezone={"nanos_of_day": 1, "offset_seconds": 2**30}),
            ]
        ),
    )
    taken = batch(target)
    assert [taken.columns[name].to_pylist() for name in kinds] == [[None]] * 5
    assert taken.refused is not None
    assert taken.refused["field"].to_pylist() == list(kinds)
    assert all(text.startswith('"no such moment') for text in taken.refused["text"].to_pylist())


def test_many_partitions_are_counted_and_forgotten_with_their_rows() -> None:
    target = table([Column("n", Kind.INT64)], ["n"])
    names = [f"part-{number}" for number in range(3000)]
    read(
        target, b"".join(message([of(integer=1)], partition=name) for name in names + names[::-1] + names[:5])
    )
    assert batch(target).partitions == {name: 2 + (number < 5) for number, name in enumerate(names)}
    read(target, message([of(integer=1)], partition=""))
    assert batch(target).partitions == {"": 1}


def test_a_double_keeps_its_bits() -> None:
    target = table([Column("x", Kind.FLOAT64)], ["x"])
    numbers = [5e-324, -0.0, 1.7976931348623157e308, 0.1, math.pi]
    read(target, b"".join(message([of(number=number)]) for number in numbers))
    found = batch(target).columns["x"].to_pylist()
    assert [struct.pack("<d", one) for one in found] == [struct.pack("<d", one) for one in numbers]
