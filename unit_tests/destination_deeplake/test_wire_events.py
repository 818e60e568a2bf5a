"""STATE and stream-status messages -> events, and the acknowledged state."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from destination_deeplake.wire import StateEvent, StateScope, StatusEvent
from unit_tests.destination_deeplake.lines import line, make, read, state, stream_state
from unit_tests.destination_deeplake.oracle import parsed
from unit_tests.destination_deeplake.spellings import json_values


def one_state(data: bytes) -> StateEvent:
    wire, _ = make()
    (event,) = read(wire, data)
    assert isinstance(event, StateEvent)
    assert event.raw == data.rstrip(b"\n")
    return event


@pytest.mark.parametrize(
    ("data", "scope"),
    [
        (stream_state("s"), StateScope("STREAM", None, "s")),
        (stream_state("s", namespace="n"), StateScope("STREAM", "n", "s")),
        (stream_state("s", namespace=""), StateScope("STREAM", None, "s")),
        (stream_state("é\n\ud83d\ude00", namespace=None), StateScope("STREAM", None, "é\n😀")),
        (state(type="GLOBAL", **{"global": {"shared_state": {}}}), StateScope("GLOBAL", None, None)),
        (state(type="LEGACY", data={}), StateScope("LEGACY", None, None)),
        (state(data={"type": "STREAM"}), StateScope("LEGACY", None, None)),
        (state(type="SOMETHING"), StateScope("LEGACY", None, None)),
        (state(type=None, stream={"stream_descriptor": {"name": "s"}}), StateScope("LEGACY", None, "s")),
        (state(type="NEW", stream={"stream_descriptor": {"name": 3}}), StateScope("LEGACY", None, None)),
        (
            b'{"type":"STATE","state":{"type":"GLOBAL","t\\u0079pe":"STREAM","stream":3,"stream":'
            b'{"stream_descriptor":{"name":"x","n\\u0061me":"s"}}}}'.replace(b"\n", b""),
            StateScope("STREAM", None, "s"),
        ),
    ],
)
def test_a_state_says_what_it_speaks_for(data: bytes, scope: StateScope) -> None:
    assert one_state(data).scope == scope


def acknowledged(before: str, after: str) -> None:
    head, tail = '{"id" : 12345678901234567890123, "type":"STATE","state": ', ', "x":1e400, "y":"\\ud800"}\r'
    assert one_state((head + before + tail).encode()).acknowledged(12) == (head + after + tail).encode()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{}", '{"destinationStats":{"recordCount":12.0}}'),
        ("{ }", '{ "destinationStats":{"recordCount":12.0}}'),
        ('{"data":{"a":1.50}}', '{"data":{"a":1.50},"destinationStats":{"recordCount":12.0}}'),
        ('{"data":"}" }', '{"data":"}" ,"destinationStats":{"recordCount":12.0}}'),
        ('{"destinationStats":{"recordCount":3.0}}', '{"destinationStats":{"recordCount":12.0}}'),
        (
            '{"destinationStats":{"rejectedRecordCount":1.0, "recordCount" : 3 },"data":{}}',
            '{"destinationStats":{"rejectedRecordCount":0.0, "recordCount" : 12.0 },"data":{}}',
        ),
        (
            '{"destinationStats":{"more":{"recordCount":1}},"data":{}}',
            '{"destinationStats":{"more":{"recordCount":1},"recordCount":12.0},"data":{}}',
        ),
        ('{"destinationStats":{ }}', '{"destinationStats":{ "recordCount":12.0}}'),
        ('{"destinationStats":null}', '{"destinationStats":{"recordCount":12.0}}'),
        ('{"destinationStats":[1],"a":2}', '{"destinationStats":{"recordCount":12.0},"a":2}'),
        (
            '{"destinationStats":{"recordCount":1},"destinationStats":{"recordCount":1,"record\\u0043ount":2}}',
            '{"destinationStats":{"recordCount":1},"destinationStats":{"recordCount":1,"record\\u0043ount":12.0}}',
        ),
        (
            '{"data":{"destinationStats":{"recordCount":1}}}',
            '{"data":{"destinationStats":{"recordCount":1}},"destinationStats":{"recordCount":12.0}}',
        ),
    ],
)
def test_an_acknowledged_state_differs_only_in_its_record_count(before: str, after: str) -> None:
    acknowledged(before, after)


@given(st.dictionaries(st.text(max_size=4), json_values, max_size=4), st.integers(0, 2**70))
def test_any_state_comes_back_byte_for_byte_around_the_count(body: dict[str, Any], count: int) -> None:
    data = (
        json.dumps({"type": "STATE", "state": body, "id": 1})
        .replace("NaN", "0")
        .replace("Infinity", "0")
        .encode()
    )
    event = one_state(data)
    done = event.acknowledged(count)
    added = b'"destinationStats":{"recordCount":%d.0}' % count
    assert done.replace(b"," + added, b"").replace(added, b"") == data
    assert parsed(done.decode())["state"]["destinationStats"] == {"recordCount": f"{count}.0"}


def test_stream_statuses_are_events() -> None:
    wire, _ = make()

    def lines() -> Iterator[bytes]:
        for descriptor in ({"name": "s"}, {"name": "s", "namespace": None}, {"name": "é", "namespace": "n"}):
            yield line(
                "TRACE",
                type="STREAM_STATUS",
                stream_status={"stream_descriptor": descriptor, "status": "NEW"},
            )

    assert read(wire, b"".join(lines())) == [
        StatusEvent(None, "s", "NEW"),
        StatusEvent(None, "s", "NEW"),
        StatusEvent("n", "é", "NEW"),
    ]
    assert wire.ignored == {}
