"""States come back as the platform wants them: each once, in order, unchanged, its records durable."""

from __future__ import annotations

import random

import pytest

from integration_tests import lake
from integration_tests.comparison import assert_lake_equals
from integration_tests.connector import Connection
from integration_tests.in_process import sync
from integration_tests.messages import Json, Message, configure, lines, read, record, records, state, stream
from integration_tests.sockets.carrier import Carrier

CATALOG = configure(
    [stream(name, n={"type": "integer"}, text={"type": "string"}) for name in ("a", "b", "c")]
)


def records_and_states(number: int, count: int) -> list[Message]:
    """Interleaved records of two streams with a state now and then; the third stream never sends a record."""
    source = random.Random(number)
    sent: list[Message] = [state("c", {"cursor": None}), state("a", {"nothing": "yet"})]
    for n in range(count):
        name = source.choice("ab")
        sent.append(record(name, {"n": n, "text": "x" * source.randrange(20)}, emitted_at=n))
        if source.random() < 0.05:
            # Numbers, key order, unknown keys and escapes must survive.
            content = {"z": n, "a": [1.50, 12345678901234567890123, "\ud83d"], "deep": {"": None}}
            sent.append(state(source.choice("abc"), content, partition_id="p1", unknown={"k": [n]}))
    return sent


def global_state(content: Json, kind: str = "GLOBAL") -> Message:
    if kind == "LEGACY":
        return {"type": "STATE", "state": {"data": content}}
    streams = [{"stream_descriptor": {"name": "a"}, "stream_state": content}]
    inner = {"type": "GLOBAL", "global": {"shared_state": content, "stream_states": streams}}
    return {"type": "STATE", "state": inner}


@pytest.mark.parametrize("number", range(3))
def test_stream_states_follow_the_platforms_rules(
    connection: Connection, number: int, carrier: Carrier
) -> None:
    sent = carrier.to_the_end(CATALOG, records_and_states(number, 2000))
    outcome = sync(connection, CATALOG, carrier.lines(sent), carrier).succeeded()
    assert not carrier.violations(sent, outcome)
    assert_lake_equals(connection.lake, CATALOG, records(read(sent)), in_order=carrier.in_order)


@pytest.mark.parametrize("kind", ["GLOBAL", "LEGACY"])
def test_states_of_all_streams_follow_the_platforms_rules(
    connection: Connection, kind: str, carrier: Carrier
) -> None:
    sent = [global_state({"lsn": 0}, kind)]
    for n in range(300):
        sent.append(record("ab"[n % 2], {"n": n}, emitted_at=n))
        if n % 50 == 49:
            sent.append(global_state({"lsn": n}, kind))
    whole = carrier.to_the_end(CATALOG, sent)
    outcome = sync(connection, CATALOG, carrier.lines(whole), carrier).succeeded()
    assert not carrier.violations(whole, outcome)


def test_nothing_but_destination_stats_is_added_to_the_bytes_of_a_state(connection: Connection) -> None:
    line = b'{"state": {"stream":{"stream_state":{"b":1.10,  "a":1e3},"stream_descriptor":{"name":"a"}},'
    line += b' "id": 7,"type":"STREAM"},   "type":"STATE"}'
    outcome = connection.sync(CATALOG, line + b"\n").succeeded()
    (answer,) = [answer for answer in outcome.output if b'"STATE"' in answer]
    added = b'"destinationStats"'
    assert added in answer
    begin = answer.index(added)
    end = answer.index(b"}", begin) + 1
    without = (answer[:begin].rstrip().rstrip(b","), answer[end:].lstrip().lstrip(b","))
    assert b"".join(without).replace(b" ", b"") == line.replace(b" ", b"")
    assert b'"b":1.10,  "a":1e3' in answer


def test_a_line_that_is_no_message_fails_the_sync_before_any_later_state(connection: Connection) -> None:
    sent = [record("a", {"n": 1}), state("a", {"n": 1}, id=1), record("a", {"n": 2})]
    after = [state("a", {"n": 2}, id=2)]
    secret = b'{"type": "RECORD", "record": {"stream": "a", "data": {"n": hunter2}}}\n'
    outcome = connection.sync(CATALOG, lines(sent) + secret + lines(after))
    assert outcome.status != 0
    states = [message["state"]["id"] for message in outcome.messages if message["type"] == "STATE"]
    assert states == [1]
    (failure,) = outcome.failures
    assert "4" in failure["message"]
    everything = b"".join(outcome.output).decode() + outcome.errors
    assert "hunter2" not in everything
    assert [row["n"] for row in lake.rows(connection.lake, ("", "a"))] == [1, 2]


def test_records_of_unknown_streams_fail_the_sync_and_hold_back_their_states(connection: Connection) -> None:
    sent = [
        record("elsewhere", {"n": 0}),
        {"type": "SOMETHING_NEW", "new": 1},
        record("a", {"n": 1}),
        record("a", {"n": 2}, "ns"),
        state("a", {}, id=1),
        state("a", {}, "ns", id=2),
        {**global_state({}), "id": 3},
    ]
    outcome = connection.sync(CATALOG, lines(sent))
    assert outcome.status == 1
    (failure,) = outcome.failures
    assert failure["failure_type"] == "config_error"
    assert "'elsewhere' (1 records), 'ns.a' (1 records; the catalog has 'a')" in failure["message"]
    assert [message["state"]["id"] for message in outcome.messages if message["type"] == "STATE"] == [1]
    assert [row["n"] for row in lake.rows(connection.lake, ("", "a"))] == [1]
    assert set(lake.datasets(connection.lake)) == {("", "a"), ("", "b"), ("", "c")}
