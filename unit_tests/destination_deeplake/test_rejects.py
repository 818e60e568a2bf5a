"""Lines that are no messages, when somebody keeps them: each once, in order, and reading goes on."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from destination_deeplake.columns import RecordTable
from destination_deeplake.wire import Rejected, StateEvent, Wire, WireError
from unit_tests.destination_deeplake.lines import COLUMNS, ids, line, record, state, stream_state
from unit_tests.destination_deeplake.test_wire import MUTATIONS, is_message
from unit_tests.effort import examples

S, T = (None, "s"), ("n", "t")


def make(*keys: tuple[str | None, str]) -> tuple[Wire, dict[Any, RecordTable], list[Rejected]]:
    tables = {key: RecordTable(COLUMNS, sync_id=1, generation_id=1) for key in keys or (S, T)}
    refused: list[Rejected] = []
    return Wire(tables, refused.append), tables, refused


def one(text: bytes, *keys: tuple[str | None, str]) -> Rejected:
    """Return what becomes of a line between two good ones."""
    wire, tables, refused = make(*keys)
    key = next(iter(tables))
    good = line(stream=key[1], namespace=key[0], data={"id": 1})
    assert list(wire.feed(good + text + b"\n" + good)) == []
    assert ids(tables[key]) == [1, 1]
    (rejected,) = refused
    assert (rejected.line_number, wire.rejected) == (2, 1)
    assert (rejected.raw, rejected.size) == (text[: 1 << 20], len(text))
    counted = {name: table.rejected for name, table in tables.items() if table.rejected}
    assert counted == ({rejected.key: 1} if rejected.key in tables else {})
    return rejected


@pytest.mark.parametrize(
    ("text", "key", "reason"),
    [
        (b"nonsense", None, "invalid JSON at byte 0"),
        (b'"RECORD"', None, "not a JSON object"),
        (b"{}", None, "no string `type`"),
        (b'{"type":"RECORD"', None, "ends inside a JSON value"),
        (b'{"type":"RECORD"}', None, "RECORD without an object `record`"),
        (b'{"type":"RECORD","record":{"data":{}}}', None, "RECORD without a string `stream`"),
        (b'{"type":"RECORD","record":{"stream":"s"}}', S, "RECORD without an object `data`"),
        (b'{"type":"RECORD","record":{"stream":"t","data":[],"namespace":"n"}}', T, "RECORD without an object `data`"),
        (b'{"type":"RECORD","record":{"stream":"s","data":{"id":NaN}}}', S, "invalid JSON at byte 53"),
        (b'{"type":"RECORD","record":{"stream":"s","data":{"id":-Infinity}}}', S, "invalid number at byte 54"),
        (b'{"type":"RECORD","record":{"stream":"s","data":{"name":"\xff"}}}', S, "invalid UTF-8 at byte 56"),
        (b'{"type":"RECORD","record":{"str\\u0065am":"\\u0073","data":{"id":01}}}', S, "invalid JSON at byte 64"),
        (b'{"type":"RECORD","record":{"namespace":"n","stream":"t","data":{"id":1', T, "ends inside a JSON value"),
        (b'{"record":{"stream":"s","namespace":null,"data":{"id":1}', S, "ends inside a JSON value"),
        (b'{"type":"RECORD","record":{"stream":"x","data":{"id":1', (None, "x"), "ends inside a JSON value"),
        (b'{"type":"RECORD","record":{"stream":"s","namespace":"x"}}', ("x", "s"), "RECORD without an object `data`"),
        (b'{"type":"RECORD","record":{"data":{"id":+1},"stream":"s"}}', None, "invalid JSON at byte 40"),
        (b'{"type":"LOG","log":{"message":"x}', None, "ends inside a JSON value"),
    ],
)  # fmt: skip
def test_a_bad_line_is_handed_on_with_its_stream_and_reason(text: bytes, key: Any, reason: str) -> None:
    rejected = one(text)
    assert (rejected.key, rejected.reason) == (key, reason)


def test_a_line_that_lost_its_namespace_is_of_the_only_stream_of_its_name() -> None:
    broken = b'{"type":"RECORD","record":{"stream":"t","data":{"id":'
    assert one(broken, T).key == T
    assert one(broken, T, (None, "t")).key == (None, "t")
    assert one(broken, T, ("m", "t")).key is None
    # A source that writes namespaces behind the data has lost it here.
    wire, tables, refused = make(T, (None, "t"))
    late = line(stream="t", data={"id": 1}, namespace="n")
    assert list(wire.feed(late + broken + b"\n")) == []
    assert ids(tables[T]) == [1]
    assert ([rejected.key for rejected in refused], wire.rejected_strays) == ([None], 1)


def test_lines_of_no_stream_count_as_strays_if_they_may_have_been_records() -> None:
    wire, tables, _ = make()
    bad = [
        b"x",
        b"{}",
        b'{"type":"RECORD"}',
        b'{"type":"LOG","log":',
        b'{"type":"RECORD","record":{"stream":"s"}}',
    ]
    assert list(wire.feed(b"\n".join([*bad, b'{"type":"RECORD","record":{"stream":"else"}}', b""]))) == []
    assert (wire.rejected, wire.rejected_strays) == (6, 3)  # the LOG was none, two name their stream
    assert [table.rejected for table in tables.values()] == [1, 0]


@pytest.mark.parametrize(
    "text",
    [
        stream_state("s")[:-4],
        b'{"type":"STATE"}',
        b'{"type":"STATE","state":{"type":"STREAM"}}',
        b'{"type":"STATE","sta',
        b'{"state":{"type":"GLOBAL"},"typ',
        b'{"state":{"data":NaN}}',
        b"{'type':1}" + stream_state("s").rstrip(),
        b'log text {"type" : "STATE", "state": {}}',
        b'{"type":"ST\\u0041TE","state":7}',
        b'{"type":"TRACE","trace":{"type":"STREAM_STATUS","stream_status":{"status":"COMPLETE"}',
        b'{"type":"STATE","state":{"data":"' + b"x" * (2 << 20),
    ],
)
def test_a_bad_state_or_status_ends_the_input_all_the_same(text: bytes) -> None:
    wire, tables, refused = make()
    with pytest.raises(WireError) as caught:
        list(wire.feed(record(1) + text + b"\n" + record(2)))
    assert caught.value.line_number == 2
    assert refused == []
    assert ids(tables[S]) == [1]


@pytest.mark.parametrize(
    "text", [b'"STATE"', b"STATE", b'{"type":"RECORD","record":{"x":"STATE"', b'{"a":"STATE"', b'xx"STATE"']
)
def test_the_word_alone_makes_no_state(text: bytes) -> None:
    assert one(text).key is None


@pytest.mark.parametrize("size", [1 << 20, (1 << 20) + 1, 9 << 20])
def test_of_a_long_bad_line_the_beginning_is_kept(size: int) -> None:
    text = b'{"type":"RECORD","record":{"stream":"s","data":{"name":"'
    assert one(text + b"x" * (size - len(text))).key == S


@pytest.mark.parametrize("blocks", [pytest.param(1, marks=pytest.mark.soak), 200])
def test_a_line_that_is_too_long_is_cut_and_reading_goes_on(blocks: int) -> None:
    wire, tables, refused = make()
    head = b'{"type":"RECORD","record":{"stream":"s","data":{"name":"'
    data = record(1) + head + b"x" * ((256 << 20) + 5_000_000) + b'"}}}\n' + record(2)
    size = -(-len(data) // blocks)
    view = memoryview(data)
    for at in range(0, len(data), size):
        assert list(wire.feed(view[at : at + size])) == []
    assert list(wire.finish()) == []
    assert ids(tables[S]) == [1, 2]
    (rejected,) = refused
    assert (rejected.line_number, rejected.key, rejected.reason) == (2, S, "longer than 256 MiB")
    assert rejected.raw == (head + b"x" * (1 << 20))[: 1 << 20]
    assert wire.line_number == 3


def test_a_tail_that_is_cut_off_is_a_bad_line() -> None:
    wire, tables, refused = make()
    assert list(wire.feed(record(1) + record(2)[:40])) == []
    assert refused == []
    assert list(wire.finish()) == []
    assert ids(tables[S]) == [1]
    assert [(rejected.line_number, rejected.reason) for rejected in refused] == [
        (2, "ends inside a JSON value")
    ]


def test_states_among_bad_lines_come_out_in_their_places() -> None:
    wire, tables, refused = make()
    data = b"bad\n" + record(1) + stream_state("s") + b"worse\n" + record(2) + b"[]\n" + state(type="GLOBAL")
    seen = [
        (tables[S].total_rows, len(refused)) for event in wire.feed(data) if isinstance(event, StateEvent)
    ]
    assert seen == [(1, 1), (2, 3)]
    tables[S].take()


@pytest.mark.parametrize("mark", [b"\xef\xbb\xbf", b""])
@pytest.mark.parametrize("split", [0, 1, 2, 3, 4, 50])
def test_a_byte_order_mark_may_come_first_and_only_there(mark: bytes, split: int) -> None:
    wire, tables, refused = make()
    data = mark + record(1) + b"\r\n" + b"\xef\xbb\xbf" + record(2)
    assert list(wire.feed(data[:split])) == []
    assert list(wire.feed(data[split:])) == []
    assert ids(tables[S]) == [1]
    assert [rejected.line_number for rejected in refused] == [3]
    assert list(make()[0].feed(mark + b"\n")) == []


def test_a_state_behind_a_byte_order_mark_comes_back_without_it() -> None:
    wire, _, _ = make()
    (event,) = wire.feed(b"\xef\xbb\xbf" + stream_state("s"))
    assert isinstance(event, StateEvent)
    assert event.raw == stream_state("s").rstrip()
    assert json.loads(event.acknowledged(3, 2))["state"]["destinationStats"] == {
        "recordCount": 3.0,
        "rejectedRecordCount": 2.0,
    }


@settings(max_examples=examples(150))
@given(
    st.lists(st.tuples(st.integers(0, 60), st.sampled_from(MUTATIONS)), min_size=1, max_size=8),
    st.integers(1, 400),
)
def test_every_line_is_a_row_or_is_rejected(mutations: list[tuple[int, bytes]], block: int) -> None:
    lines = []
    for number, (at, new) in enumerate(mutations):
        text = record(number).rstrip()
        lines += [record(number).rstrip(), text[:at] + new + text[at + 1 :]]
    wire, tables, refused = make(S)
    data = b"\n".join(lines)
    for at in range(0, len(data), block):
        assert list(wire.feed(data[at : at + block])) == []
    assert list(wire.finish()) == []
    wanted = [number for number, text in enumerate(lines, 1) if not is_message(text)]
    assert [rejected.line_number for rejected in refused] == wanted
    assert [rejected.raw for rejected in refused] == [lines[number - 1] for number in wanted]
    assert (
        wire.rejected
        == len(wanted)
        == tables[S].rejected
        + wire.rejected_strays
        + sum(rejected.key not in (None, S) for rejected in refused)
    )
    assert tables[S].total_rows + sum(wire.ignored.values()) == len(lines) - len(wanted)
    tables[S].take()
