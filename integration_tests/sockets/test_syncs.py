"""Whole syncs over sockets: in whatever order messages come, tables and states are the same; deaths lose nothing."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import tempfile
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from integration_tests import lake
from integration_tests.acknowledgements import not_durable, partition_violations
from integration_tests.connector import Connection, Outcome
from integration_tests.in_process import sync
from integration_tests.messages import (
    Json,
    Message,
    StreamName,
    completed,
    configure,
    lines,
    record,
    state,
    stream,
)
from integration_tests.sockets.carrier import Carrier
from integration_tests.sockets.encode import Misfits, Nulls
from integration_tests.sockets.script import Order, is_status
from integration_tests.sockets.source import FORMATS, Behaviour
from unit_tests.effort import EFFORT, PATIENCE, examples

NAMES = ("a", "b")
FIELDS: dict[str, Message] = {
    "n": {"type": "integer"},
    "text": {"type": ["null", "string"]},
    "at": {"type": "string", "format": "date-time"},
    "more": {"type": "object"},
}
CATALOG = configure([stream(name, **FIELDS) for name in NAMES], generation_id=1, minimum_generation_id=0)
KEYED = configure(
    [stream(name, **FIELDS) for name in NAMES],
    "append_dedup",
    generation_id=1,
    minimum_generation_id=0,
    primary_key=[["more"]],
    cursor_field=["n"],
)


def row(name: str, n: int) -> Message:
    """A record; no two have the same `n`, and keys come again."""
    data = {
        "n": n,
        "text": None if n % 5 == 0 else "é" * (n % 7),
        "at": f"2024-01-01T00:00:{n % 60:02}Z",
        "more": {"k": n % 11},
    }
    return record(name, data, emitted_at=1000 + n)


def messages(count: int, seed: int, kind: str = "stream") -> list[Message]:
    """Records of two streams, states now and then, COMPLETE of both."""
    chosen = random.Random(seed)
    sent: list[Message] = []
    for n in range(count):
        sent.append(row(chosen.choice(NAMES), n))
        if kind == "stream" and chosen.random() < 0.15:
            sent.append(state(chosen.choice(NAMES), {"n": n}))
        elif kind == "global" and chosen.random() < 0.15:
            sent.append({"type": "STATE", "state": {"type": "GLOBAL", "global": {"shared_state": {"n": n}}}})
    if kind == "stream":
        sent += [state(name, {"n": count}) for name in NAMES]
    return [*sent, *completed(CATALOG)]


def table(connection: Connection, name: str) -> list[str]:
    """Rows of a stream without what each sync draws anew, sorted."""
    found = lake.rows(connection.lake, ("", name))
    return sorted(repr({**row, "_airbyte_raw_id": None}) for row in found)


def answers(outcome: Outcome) -> list[str]:
    """States without the counts, sorted: between streams there is no order."""
    found = []
    for message in outcome.messages:
        if message["type"] == "STATE":
            rest = {key: value for key, value in message["state"].items() if key != "destinationStats"}
            found.append(repr({key: value for key, value in rest.items() if not key.startswith("committed")}))
    return sorted(found)


@pytest.mark.parametrize("kind", ["stream", "global"])
@pytest.mark.parametrize("catalog", [CATALOG, KEYED], ids=["append", "dedup"])
@settings(max_examples=examples(10), suppress_health_check=list(HealthCheck))
@given(
    sockets=st.integers(1, 4),
    form=st.sampled_from(FORMATS),
    order=st.sampled_from(Order),
    seed=st.integers(0, 10**6),
    piece=st.sampled_from([1, 7, 1 << 30]),
    nulls=st.sampled_from(Nulls),
)
def test_the_order_of_messages_changes_neither_tables_nor_states(
    kind: str, catalog: Message, sockets: int, form: str, order: Order, seed: int, piece: int, nulls: Nulls
) -> None:
    sent = messages(60, 1, kind)
    carriers = [
        Carrier("JSONL", 1, seed=seed),
        Carrier(form, sockets, Behaviour(order, probes=0.2, piece=piece), seed, Misfits.OWN, nulls),
    ]
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for number, carrier in enumerate(carriers):
            connection = Connection.make(Path(folder) / str(number))
            outcome = sync(connection, catalog, sent, carrier).succeeded()
            assert carrier.violations(sent, outcome) == []
            found.append(([table(connection, name) for name in NAMES], answers(outcome)))
    one, other = found
    assert other == one


@pytest.mark.parametrize("form", FORMATS)
def test_what_a_sync_over_sockets_writes_is_what_one_of_standard_input_writes(
    connection: Connection, tmp_path: Path, form: str
) -> None:
    sent = messages(200, 2)
    sync(connection, KEYED, sent).succeeded()
    other = Connection.make(tmp_path / "other")
    sync(other, KEYED, sent, Carrier(form, 4, Behaviour(Order.ANY), 2)).succeeded()
    for name in NAMES:
        assert table(other, name) == table(connection, name)


# -- sources that die -------------------------------------------------------------------------------------------------


def stored(connection: Connection) -> Mapping[StreamName, Counter[Any]]:
    """How often each record is there."""
    return {
        ("", name): Counter(row["n"] for row in lake.rows(connection.lake, ("", name)))
        for name in NAMES
        if ("", name) in lake.datasets(connection.lake)
    }


def identity(data: Json) -> Any:
    return data["n"]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("torn", [False, True])
def test_what_came_whole_before_a_source_died_is_kept_and_only_its_states_go_out(
    form: str, torn: bool
) -> None:
    sent = messages(40, 3)
    for place in random.Random(3).sample(range(len(sent) - 1), max(3, round(12 * EFFORT.examples))):
        carrier = Carrier(form, 3, Behaviour(ends_before=place, torn=torn), place)
        script = carrier.script(sent)
        with tempfile.TemporaryDirectory() as folder:
            connection = Connection.make(Path(folder))
            outcome = sync(connection, CATALOG, sent, carrier)
            assert [failure["failure_type"] for failure in outcome.failures] == ["transient_error"], place
            assert partition_violations(script, outcome.messages, complete=False) == []
            came = Counter(
                message["record"]["data"]["n"] for message in script[:place] if message["type"] == "RECORD"
            )
            rows = stored(connection)
            assert sum(rows.values(), Counter()) == came
            assert not_durable(script, outcome.messages, rows, identity) == []
            # In the order of the script, all that is due goes out.
            due = [message for message in script[:place] if message["type"] == "STATE"]
            assert len(answers(outcome)) == len(due)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("torn", [False, True])
def test_a_socket_that_ends_early_makes_its_streams_incomplete(
    connection: Connection, form: str, torn: bool
) -> None:
    """The other sockets say COMPLETE; old rows of a refresh stay."""
    before = Carrier(form, 2)
    sync(connection, CATALOG, messages(20, 4), before).succeeded()
    old = [table(connection, name) for name in NAMES]
    refresh = configure([stream(name, **FIELDS) for name in NAMES], generation_id=2, minimum_generation_id=2)
    carrier = Carrier(form, 2, Behaviour(ends_on={1: 8}, torn=torn), 5)
    outcome = sync(connection, refresh, messages(40, 5), carrier)
    assert [failure["failure_type"] for failure in outcome.failures] == ["transient_error"]
    assert partition_violations(carrier.script(messages(40, 5)), outcome.messages, complete=False) == []
    assert [table(connection, name) for name in NAMES] == old


@pytest.mark.parametrize("form", FORMATS)
def test_a_partition_that_lacks_a_record_makes_its_stream_incomplete(
    connection: Connection, form: str
) -> None:
    """Every socket said COMPLETE; only the count of a state tells that a record is missing."""
    sent = messages(40, 6)
    carrier = Carrier(form, 2, seed=6)
    script = carrier.script(sent)
    lost = next(place for place, message in enumerate(script) if message["type"] == "RECORD")
    name = script[lost]["record"]["stream"]

    class Losing(Carrier):
        def script(self, messages: bytes | Any) -> list[Message]:
            return [message for place, message in enumerate(script) if place != lost]

    outcome = sync(connection, CATALOG, sent, Losing(form, 2, seed=6))
    [failure] = outcome.failures
    assert failure["failure_type"] == "transient_error"
    assert f"'{name}'" in failure["message"]
    answered = [message["state"] for message in outcome.messages if message["type"] == "STATE"]
    assert {answer["stream"]["stream_descriptor"]["name"] for answer in answered} == set(NAMES) - {name}


def test_a_refresh_over_sockets_takes_the_place_of_the_old_rows(connection: Connection) -> None:
    sync(connection, CATALOG, messages(20, 4), Carrier("PROTOBUF", 2)).succeeded()
    refresh = configure([stream(name, **FIELDS) for name in NAMES], generation_id=2, minimum_generation_id=2)
    sync(connection, refresh, messages(30, 5), Carrier("PROTOBUF", 3)).succeeded()
    assert sorted(sum(stored(connection).values(), Counter())) == list(range(30))
    assert sum(stored(connection).values(), Counter()).total() == 30


def test_an_overwrite_over_sockets_takes_the_place_of_the_old_rows(connection: Connection) -> None:
    plain = configure([stream(name, **FIELDS) for name in NAMES], "overwrite")
    for number, form in enumerate(FORMATS):
        carrier = Carrier(form, 3, Behaviour(Order.ANY), number)
        outcome = sync(connection, plain, messages(30, number), carrier).succeeded()
        assert carrier.violations(messages(30, number), outcome) == []
        assert sum(stored(connection).values(), Counter()) == Counter(range(30))


# -- processes: sockets that are late or silent, and signals ----------------------------------------------------------


def process(connection: Connection, environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
    command = connection.command(CATALOG)
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env={**os.environ, **environ}
    )


def finished(running: subprocess.Popen[bytes], said: Sequence[bytes] = ()) -> Outcome:
    output, _ = running.communicate(timeout=PATIENCE)
    return Outcome(running.returncode, [*said, *output.splitlines()], "")


def test_a_socket_may_come_late(connection: Connection) -> None:
    sent = messages(40, 7)
    carrier = Carrier("PROTOBUF", 3, Behaviour(late={1: 1.5}))
    with carrier.source(CATALOG, carrier.script(sent)) as source:
        outcome = finished(process(connection, source.environ)).succeeded()
        paths = source.paths
    assert carrier.violations(sent, outcome) == []
    log = [message["log"]["message"] for message in outcome.messages if message["type"] == "LOG"]
    assert sorted(line for line in log if line.endswith("connected for reading")) == [
        f"Socket {path} connected for reading" for path in paths
    ]


@pytest.mark.parametrize(
    "behaviour", [Behaviour(never=frozenset({1})), Behaviour(silent=frozenset({1}))], ids=["never", "silent"]
)
def test_a_signal_ends_a_sync_whose_source_says_nothing(connection: Connection, behaviour: Behaviour) -> None:
    """What came on the other sockets is published and acknowledged."""
    sent = messages(40, 8)
    # Everything that counts goes to the first socket.
    sent = [message for message in sent if not is_status(message)]
    carrier = Carrier("JSONL", 2, behaviour)
    with carrier.source(CATALOG, carrier.script(sent)) as source:
        running = process(connection, source.environ)
        assert running.stdout is not None
        said: list[bytes] = []
        while not any(b"connected for reading" in line for line in said):
            said.append(running.stdout.readline())
        threading.Event().wait(0.5)
        running.send_signal(signal.SIGTERM)
        outcome = finished(running, said)
        played = source.messages_sent
    assert outcome.status == 143
    assert not outcome.failures
    script = carrier.script(sent)
    assert partition_violations(script, outcome.messages, complete=False) == []
    assert not_durable(script, outcome.messages, stored(connection), identity) == []
    assert bool(sum(stored(connection).values(), Counter())) is bool(1 not in behaviour.never)
    assert played[1] == 0


@pytest.mark.parametrize("sockets", [1, 2])
def test_a_message_that_is_none_ends_the_sync_and_names_its_socket(
    connection: Connection, sockets: int
) -> None:
    class Damaged(Carrier):
        def script(self, messages: bytes | Any) -> list[Message]:
            script = super().script(messages)
            return [*script[:20], {"type": "STATE", "state": 5}, *script[20:]]

    sent = messages(40, 9)
    carrier = Damaged("PROTOBUF", sockets)
    outcome = sync(connection, CATALOG, sent, carrier)
    [failure] = outcome.failures
    assert failure["failure_type"] == "system_error"
    assert ".sock" in failure["message"]
    script = Carrier("PROTOBUF", sockets).script(sent)
    assert partition_violations(script, outcome.messages, complete=False) == []
    assert not_durable(script, outcome.messages, stored(connection), identity) == []
    if sockets == 1:
        # The states before it go out.
        assert len(answers(outcome)) == sum(message["type"] == "STATE" for message in script[:20])


def test_the_program_of_the_tests_reads_a_line_as_it_was_sent() -> None:
    """`lines` and the carriers do not change what a test says."""
    sent = messages(5, 0)
    assert replace(Carrier("JSONL", 1), seed=3).script(lines(sent)) == replace(
        Carrier("JSONL", 2), seed=3
    ).script(sent)


# -- much at once -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMATS)
def test_a_large_record_arrives_whole(connection: Connection, form: str) -> None:
    """Larger than what is read at once, between small ones."""
    wide = configure([stream("a", n={"type": "integer"}, text={"type": "string"}, more={"type": "array"})])
    large = {"text": "é" * 9_000_000, "more": [["x" * 1000] * 1000] * 8}
    sent = [record("a", {"n": n, **(large if n == 5 else {"text": "", "more": [n]})}) for n in range(10)]
    sent += [state("a", {}), *completed(wide)]
    carrier = Carrier(form, 2, seed=1)
    outcome = sync(connection, wide, sent, carrier).succeeded()
    assert carrier.violations(sent, outcome) == []
    rows = sorted(lake.rows(connection.lake, ("", "a")), key=lambda row: int(row["n"]))
    assert [row["n"] for row in rows] == list(range(10))
    assert {key: rows[5][key] for key in large} == large
    assert rows[6]["more"] == [6]
