"""Lines of bytes -> rows and events."""

import json
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from destination_deeplake.columns import Column, Kind, RecordTable
from destination_deeplake.wire import StateEvent, Wire, WireError
from unit_tests.destination_deeplake.lines import ids, line, make, read, record, stream_state
from unit_tests.destination_deeplake.oracle import parsed
from unit_tests.destination_deeplake.spellings import json_values
from unit_tests.destination_deeplake.tables import batch
from unit_tests.effort import examples


def error(data: bytes) -> WireError:
    wire, _ = make()
    with pytest.raises(WireError) as caught:
        read(wire, data)
    return caught.value


# --- which lines are messages ------------------------------------------------------------------------------------


def is_message(text: bytes) -> bool:
    """Tell what the line is by Python's own parser."""
    try:
        found = parsed(text.decode())
    except ValueError:
        return not text.decode("utf-8", "replace").strip(" \t\r")
    if not isinstance(found, dict) or type(found.get("type")) is not str:
        return False
    if found["type"] == "RECORD":
        body = found.get("record")
        return (
            isinstance(body, dict)
            and type(body.get("stream")) is str
            and (body.get("namespace") is None or type(body["namespace"]) is str)
            and isinstance(body.get("data"), dict)
        )
    if found["type"] == "STATE":
        body = found.get("state")
        if not isinstance(body, dict):
            return False
        descriptor = body
        if type(body.get("type")) is str and body["type"] == "STREAM":
            for key in ("stream", "stream_descriptor"):
                descriptor = descriptor.get(key) if isinstance(descriptor, dict) else None
            return isinstance(descriptor, dict) and type(descriptor.get("name")) is str
    return True


def is_accepted(text: bytes, split: int = 0) -> bool:
    wire, tables = make()
    (table,) = tables.values()
    before = [record(1), record(2)]
    try:
        assert list(wire.feed(b"".join(before) + text[:split])) == []
        events = [*wire.feed(text[split:]), *wire.finish()]
    except WireError:
        assert (wire.line_number, ids(table)) == (3, [1, 2])
        return False
    assert ids(table)[:2] == [1, 2]
    assert len(events) <= 1
    return True


VALID = [
    record(3).rstrip(),
    line(
        stream="s",
        data={
            "id": 1.5e3,
            "name": "é\n\ud83d\ude00 \u2028",
            "any": [{"a": [1, "x", None, True]}, {}],
            "b": -0.5,
        },
    ).rstrip(),
    '{"type":"RECORD","record":{"stream":"s","data":{"id":-12,"name":"é€😀","any":[]}}}'.encode(),
    b' {\t"record" : { "data" : { "name" : "a\\u00e9\\"" , "id" : 0 } , "stream" : "s" } , "type" : "RECORD" } \r',
    stream_state("s").rstrip(),
    line(
        "TRACE", type="STREAM_STATUS", stream_status={"stream_descriptor": {"name": "s"}, "status": "R"}
    ).rstrip(),
    b'{"type":"LOG","log":{"level":"INFO","message":"hello, a little longer than sixteen bytes"}}',
]


@pytest.mark.parametrize("text", VALID)
def test_valid_messages_are_accepted_wherever_the_block_ends(text: bytes) -> None:
    assert is_message(text)
    assert all(is_accepted(text, split) for split in range(len(text) + 1))


@pytest.mark.parametrize("text", VALID)
def test_a_message_that_ends_early_is_an_error_wherever_it_does(text: bytes) -> None:
    complete = len(text.rstrip())
    assert not any(is_accepted(text[:end]) for end in range(len(text[:2]), complete))


MUTATIONS = [
    *(bytes([letter]) for letter in b'"\\{}[],:0-e. \t\x00\x1f\x7f\xff\xc3'),
    *(b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"\xef\xbb\xbf"),
    *(b"\\u12", b"\\ud800", b"null", b"NaN", b"01", b"1.", b'"type":1,', b'"stream":2,'),
]


@settings(max_examples=examples(2000))
@given(st.sampled_from(VALID), st.randoms(use_true_random=False))
def test_a_mutated_message_is_accepted_exactly_if_python_accepts_it(
    text: bytes, choose: random.Random
) -> None:
    for _ in range(choose.randint(1, 2)):
        at = choose.randrange(len(text))
        until = at + choose.choice([0, 1, 1, 2])
        new = choose.choice(
            [choose.choice(MUTATIONS), b"", bytes([choose.randrange(256)]).replace(b"\n", b"")]
        )
        text = text[:at] + new + text[until:]
    assert is_accepted(text, choose.randrange(len(text) + 1)) == is_message(text), text


@settings(max_examples=examples(300))
@given(
    json_values,
    st.sampled_from([(",", ":"), (", ", ": "), (" ,\t", "\r :\t\t")]),
    st.booleans(),
    st.sampled_from([0, 0, 0, 1, 2, 5]),
)
def test_any_json_value_passes_and_comes_back_as_it_was(
    value: Any, separators: tuple[str, str], ensure_ascii: bool, cut: int
) -> None:
    text = json.dumps(value, ensure_ascii=ensure_ascii, separators=separators)
    text = text[: len(text) - cut]
    message = f'{{"type":"RECORD","record":{{"stream":"s","data":{{"any":{text}}}}}}}'.encode(
        "utf-8", "surrogatepass"
    )
    assert is_accepted(message) == is_message(message)
    if is_message(message):
        wire, tables = make()
        read(wire, message)
        assert batch(tables[None, "s"]).columns["any"].to_pylist() == [None if text == "null" else text]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"nonsense", "invalid JSON at byte 0"),
        (b"\xef\xbb\xbf" + VALID[0], "invalid JSON at byte 0"),
        (b'{"type":"LOG","log":NaN}', "invalid JSON at byte 20"),
        (b'{"type":"LOG","log":-Infinity}', "invalid number at byte 21"),
        (b'{"type":"LOG","log":01}', "invalid JSON at byte 21"),
        (b'{"type":"LOG","log":"\x01"}', "control character in a string at byte 21"),
        (b'{"type":"LOG","log":"\xff"}', "invalid UTF-8 at byte 21"),
        (b'{"type":"LOG","log":"\\x"}', "invalid escape in a string at byte 21"),
        (b'{"type":"LOG","log":"', "ends inside a JSON value"),
        (b'{"type":"LOG"', "ends inside a JSON value"),
        (b'{"type":"LOG"}{}', "something follows the message at byte 14"),
        (b'{"type":"RECORD","record":{"stream":"s","data":{"any":1{"id":2}}}', "invalid JSON at byte 55"),
        (b"[]", "not a JSON object"),
        (b'"RECORD"', "not a JSON object"),
        (b"{}", "no string `type`"),
        (b'{"type":null}', "no string `type`"),
        (b'{"type":"RECORD"}', "RECORD without an object `record`"),
        (b'{"type":"RECORD","record":[]}', "RECORD without an object `record`"),
        (b'{"type":"RECORD","record":{"data":{}}}', "RECORD without a string `stream`"),
        (b'{"type":"RECORD","record":{"stream":"s"}}', "RECORD without an object `data`"),
        (b'{"type":"RECORD","record":{"stream":"s","data":null}}', "RECORD without an object `data`"),
        (
            b'{"type":"RECORD","record":{"stream":"s","namespace":1,"data":{}}}',
            "RECORD with a `namespace` that is neither string nor null",
        ),
        (b'{"type":"STATE"}', "STATE without an object `state`"),
        (b'{"type":"STATE","state":{"type":"STREAM"}}', "STATE of type STREAM without the name of a stream"),
    ],
)
def test_what_is_no_message_is_an_error_that_says_why(text: bytes, reason: str) -> None:
    problem = error(b"\n" + text)
    assert (problem.line_number, problem.reason) == (2, reason)
    assert str(problem) == f"line 2: {reason}"


def test_an_error_leaves_the_rows_before_it_and_nothing_of_the_line() -> None:
    # The broken record has a null, a bit and a text in every column before it breaks.
    columns = [
        Column("t", Kind.TEXT),
        Column("b", Kind.BOOL),
        Column("n", Kind.INT64),
        Column("m", Kind.INT64),
    ]
    table = RecordTable(columns, sync_id=None, generation_id=None)
    wire = Wire({(None, "s"): table})
    good = line(stream="s", data={"t": "x", "b": True, "n": 1})
    bad = line(stream="s", data={"t": None, "b": None, "n": None, "m": None, "o": 1}).rstrip()[:-1] + b"\n"
    with pytest.raises(WireError):
        list(wire.feed(good + bad + good))
    assert (table.rows, table.total_rows, table.unknown_fields, table.nulled) == (1, 1, 0, 0)
    taken = batch(table).columns
    for array in taken.values():
        array.validate(full=True)
    assert [taken[name].null_count for name in "tbnm"] == [0, 0, 0, 1]
    assert taken["t"].to_pylist() == ["x"]


def test_nesting_has_a_limit() -> None:
    def nested(depth: int) -> bytes:
        return b'{"type":"LOG","log":' + b'[{"a":' * (depth // 2) + b"1" + b"}]" * (depth // 2) + b"}"

    assert is_accepted(nested(998))
    assert error(nested(1000)).reason.startswith("nested deeper than 1000")
    in_data = b'{"type":"RECORD","record":{"stream":"s","data":{"any":' + b"[" * 998 + b"]" * 998 + b"}}}"
    assert error(in_data).reason.startswith("nested deeper than 1000")
    assert error(b"[" * 10_000_000).reason.startswith("nested deeper than 1000")


# --- blocks ------------------------------------------------------------------------------------------------------


def test_blank_lines_count_as_lines_only() -> None:
    wire, tables = make()
    assert read(wire, b"\n \t\r\n" + record(1) + b"\r\n" + record(2)[:-1] + b"\r\n  ") == []
    assert ids(tables[None, "s"]) == [1, 2]
    assert (wire.line_number, wire.ignored) == (6, {})


@given(st.lists(st.integers(1, 300)), st.sampled_from([bytes, bytearray, memoryview]))
def test_blocks_may_end_anywhere(sizes: list[int], kind: Callable[[bytes], Any]) -> None:
    lines = [record(n) if n % 5 else stream_state("s") for n in range(1, 30)]
    data = b"".join(lines).rstrip()
    wire, tables = make()
    events = []
    for size in [*sizes, len(data)]:
        events += wire.feed(kind(data[:size]))
        data = data[size:]
    events += wire.finish()
    assert [event.raw for event in events if isinstance(event, StateEvent)] == [
        stream_state("s").rstrip()
    ] * 5
    assert ids(tables[None, "s"]) == [n for n in range(1, 30) if n % 5]
    assert wire.line_number == 29


def test_an_event_comes_out_between_the_records_around_it() -> None:
    wire, tables = make()
    table = tables[None, "s"]
    data = record(1) + stream_state("s") + record(2) + record(3) + stream_state("s") + record(4)
    seen = [table.total_rows for _ in wire.feed(data)]
    assert (seen, table.total_rows) == ([1, 3], 4)
    table.take()


def test_the_block_must_be_read_before_the_next_one() -> None:
    wire, _ = make()
    events = wire.feed(stream_state("s") + record(1))
    next(events)
    with pytest.raises(RuntimeError, match="not read to its end"):
        wire.feed(record(2))
    assert list(events) == []
    assert list(wire.feed(record(2))) == []


def test_one_buffer_serves_all_blocks() -> None:
    wire, tables = make()
    buffer = bytearray(100)
    data = b"".join(line(stream="s", data={"id": n, "name": f"row {n}"}) for n in range(50))
    for at in range(0, len(data), 100):
        part = data[at : at + 100]
        buffer[: len(part)] = part
        assert list(wire.feed(memoryview(buffer)[: len(part)])) == []
        buffer[:] = b"\xff" * 100
    assert batch(tables[None, "s"]).columns["name"].to_pylist() == [f"row {n}" for n in range(50)]


def test_lines_of_many_megabytes_come_in_small_blocks() -> None:
    wire, tables = make()
    texts = ["x" * 20_000_000, "short", "é\\" * 5_000_000]
    data = b"".join(line(stream="s", data={"name": text, "any": [text[:5]]}) for text in texts)
    for at in range(0, len(data), 1 << 16):
        assert list(wire.feed(data[at : at + (1 << 16)])) == []
    assert batch(tables[None, "s"]).columns["name"].to_pylist() == texts


def test_a_line_without_end_is_an_error_before_memory_is() -> None:
    wire, _ = make()
    block = b" " * (8 << 20)
    for _ in range(32):
        assert list(wire.feed(block)) == []
    with pytest.raises(WireError, match="longer than 256 MiB"):
        list(wire.feed(block))


def test_two_wires_may_run_in_two_threads() -> None:
    def run(seed: int) -> list[bool]:
        wire, tables = make()
        texts = [f"{seed} {n} " + "x" * (n * seed % 300) for n in range(3000)]
        data = b"".join(line(stream="s", data={"name": text}) for text in texts)
        batches = []
        for _ in range(8):
            assert list(wire.feed(data)) == []
            batches.append(batch(tables[None, "s"]).columns["name"])
        return [batch.to_pylist() == texts for batch in batches]

    with ThreadPoolExecutor(4) as threads:
        assert all(map(all, threads.map(run, range(1, 9))))


# --- envelopes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        '{"type":"RECORD","record":{"stream":"s","data":{"id":1},"emitted_at":1}}',
        '{"record":{"emitted_at":1,"data":{"id":1},"stream":"s"},"type":"RECORD"}',
        '{"record":{"stream":"s","data":{"id":1}},"type":"RECORD"}',
        '{"\\u0074ype":"RECORD","record":{"stream":"s","data":{"id":1}}}',
        '{"type":"\\u0052ECORD","record":{"stream":"s","data":{"id":1}}}',
        '{"type":"RECORD","r\\u0065cord":{"str\\u0065am":"\\u0073","d\\u0061ta":{"\\u0069d":1}}}',
        '{"type":"LOG","type":"RECORD","record":{"stream":"s","data":{"id":1}}}',
        '{"type":"RECORD","record":{"stream":"s","data":{"id":2}},"record":{"stream":"s","data":{"id":1}}}',
        '{"type":"RECORD","record":7,"record":{"stream":"s","data":{"id":1}}}',
        '{"type":"RECORD","record":{"stream":"t","data":{"id":2},"stream":"s","data":{"id":1}}}',
        '{"type":"RECORD","record":{"stream":"s","data":{"id":2},"data":{"id":1}}}',
        '{"type":"RECORD","record":{"stream":"s","data":{"id":3,"id":2,"id":1}}}',
        '{"type":"RECORD","record":{"stream":"s","namespace":"x","data":{"id":1},"namespace":null}}',
        '{"type":"RECORD","record":{"namespace":"","stream":"s","data":{"id":1}}}',
        '{"type":"RECORD","record":{"stream":"s","data":{"id":1},"file_reference":{"a":[1]},"new":null}}',
        '{"type":"RECORD","log":null,"state":{"a":1},"record":{"stream":"s","data":{"id":1}},"trace":null}',
        ' {\t"type" : "RECORD" , "record" : { "stream" : "s" , "data" : { "id" : 1 } } } ',
    ],
)
def test_the_envelope_of_a_record_has_many_forms(text: str) -> None:
    wire, tables = make()
    assert read(wire, text.encode() + b"\n" + text.encode()) == []
    assert ids(tables[None, "s"]) == [1, 1]
    assert wire.ignored == {}


@pytest.mark.parametrize(
    "text",
    [
        '{"type":"RECORD","record":{"stream":"s","data":{"id":1}},"type":"LOG"}',
        '{"record":{"stream":"s","data":{"id":1}},"type":"LOG"}',
    ],
)
def test_a_type_that_comes_last_decides(text: str) -> None:
    wire, tables = make()
    assert read(wire, text.encode()) == []
    assert (tables[None, "s"].rows, tables[None, "s"].total_rows) == (0, 0)
    assert wire.ignored == {"LOG messages": 1}


STREAMS: list[tuple[str | None, str]] = [
    (None, "a"), (None, "b"), ("a", "a"), ("b", "a"), ("é", "é"), ("a", ""), (None, "a\x00b"), ("a", "b\n\"\\/"),
    ("\ud800", "a"),
]  # fmt: skip


@given(
    st.lists(st.tuples(st.sampled_from(STREAMS), st.integers(0, 7), st.booleans()), min_size=1, max_size=40)
)
def test_interleaved_streams_fill_their_own_tables(
    rows: list[tuple[tuple[str | None, str], int, bool]],
) -> None:
    wire, tables = make(*STREAMS)
    lines = []
    for number, ((namespace, name), form, ensure_ascii) in enumerate(rows):
        members: list[tuple[str, Any]] = [("stream", name), ("data", {"id": number})]
        if namespace is not None or form & 1:
            members.insert(form % 3, ("namespace", "" if namespace is None and form & 2 else namespace))
        if form & 4:
            members.reverse()
        body = {"type": "RECORD", "record": dict(members)}
        text = json.dumps(body, ensure_ascii=ensure_ascii or "\ud800" in (namespace or ""))
        lines.append(text.encode())
    assert read(wire, b"\n".join(lines)) == []
    for key, table in tables.items():
        assert ids(table) == [number for number, (stream, _, _) in enumerate(rows) if stream == key]


def test_a_namespace_after_the_data_is_read_in_one_go_from_the_second_record_on() -> None:
    wire, tables = make(("n", "s"), (None, "s"))
    late = [line(stream="s", data={"id": n}, namespace="n") for n in range(3)]
    plain = [record(n) for n in range(3)]
    assert read(wire, b"".join([*late, *plain, *late, late[0], plain[0]])) == []
    assert ids(tables["n", "s"]) == [0, 1, 2, 0, 1, 2, 0]
    assert ids(tables[None, "s"]) == [0, 1, 2, 0]


def test_hundreds_of_streams_are_told_apart() -> None:
    keys = [(f"n{n % 7}", f"stream{n}") for n in range(500)]
    wire, tables = make(*keys)
    lines = [
        line(stream=name, namespace=namespace, data={"id": n}) for n, (namespace, name) in enumerate(keys)
    ]
    assert read(wire, b"".join(lines * 2)) == []
    assert [ids(table) for table in tables.values()] == [[n, n] for n in range(500)]


def test_unknown_streams_and_types_are_validated_counted_and_ignored() -> None:
    wire, tables = make()
    lines = [
        record(1, stream="x"),
        record(1, stream="x", namespace="n"),
        record(1, stream="x"),
        line("LOG", level="INFO", message="secret"),
        line("CONTROL"),
        line("NEW_THING", x=1),
        line("TRACE", type="ESTIMATE"),
        line("TRACE", type="STREAM_STATUS"),
        b'{"type":"TRACE"}\n',
        line("LOG", level="INFO", message="secret"),
        record(1),
    ]
    assert read(wire, b"".join(lines)) == []
    assert wire.ignored == {
        "records of unknown stream x": 2,
        "records of unknown stream n.x": 1,
        "LOG messages": 2,
        "CONTROL messages": 1,
        "NEW_THING messages": 1,
        "TRACE ESTIMATE messages": 1,
        "TRACE STREAM_STATUS messages": 1,
        "TRACE messages": 1,
    }
    assert ids(tables[None, "s"]) == [1]
    with pytest.raises(WireError, match="line 12: invalid JSON"):
        read(wire, record(1, stream="x").replace(b"1}", b"1,}"))


def test_what_is_ignored_stays_bounded() -> None:
    wire, _ = make()
    for n in range(3000):
        assert read(wire, record(n, stream=f"x{n}") + line(f"T{n}")) == []
    assert len(wire.ignored) < 1200
    assert sum(wire.ignored.values()) == 6000
    assert wire.ignored["records of other unknown streams"] == 2000
    assert wire.ignored["other messages"] > 2000


def test_a_wire_may_have_no_table() -> None:
    wire = Wire({})
    assert read(wire, record(1) + record(2)) == []
    assert wire.ignored == {"records of unknown stream s": 2}
