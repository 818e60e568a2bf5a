"""The source of sockets, and the checks on what it is answered, tried on a model of a destination."""

from __future__ import annotations

import contextlib
import json
import random
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integration_tests.acknowledgements import not_durable, partition_violations
from integration_tests.messages import (
    Json,
    Message,
    completed,
    configure,
    lines,
    read,
    record,
    records,
    state,
    status,
    stream,
)
from integration_tests.sockets.model import Model, decoded
from integration_tests.sockets.script import Order, deal, is_status, partitions_of, with_partitions
from integration_tests.sockets.source import FORMATS, Behaviour, SocketSource
from unit_tests.effort import PATIENCE

CATALOG = configure([stream(name, n={"type": "integer"}) for name in "ab"])
STREAMS = [("", "a"), ("", "b")]


def of_streams(count: int = 40) -> list[Message]:
    """Records of two streams in turn, with states of either now and then, and one before any record."""
    chosen = random.Random(count)
    sent = [state("a", {"n": None})]
    for n in range(count):
        name = chosen.choice("ab")
        sent.append(record(name, {"n": n}, emitted_at=n))
        if chosen.random() < 0.2:
            sent.append(state(chosen.choice("ab"), {"n": n}))
    return [*sent, *(state(name, {"n": count}) for name in "ab"), *completed(CATALOG)]


def of_all(count: int = 40) -> list[Message]:
    """The same with global states."""
    chosen = random.Random(count)
    sent = []
    for n in range(count):
        sent.append(record(chosen.choice("ab"), {"n": n}, emitted_at=n))
        if n % 8 == 7:
            sent.append({"type": "STATE", "state": {"type": "GLOBAL", "global": {"shared_state": {"n": n}}}})
    return [*sent, *completed(CATALOG)]


SCRIPTS = {
    "stream": with_partitions(of_streams()),
    "global": with_partitions(of_all()),
    "snapshot": with_partitions(of_all(), snapshots=True),
}


# -- partitions -------------------------------------------------------------------------------------------------------


def test_a_state_names_the_records_since_the_one_before() -> None:
    sent = [
        state("a", {}),
        record("a", {"n": 1}),
        record("b", {"n": 2}),
        state("a", {}, sourceStats={"recordCount": 7.0, "other": 1}),
        record("a", {"n": 3}),
    ]
    first, one, other, second, last = with_partitions(sent)
    assert (first["state"]["id"], first["state"]["sourceStats"]) == (1, {"recordCount": 0.0})
    assert (second["state"]["id"], second["state"]["sourceStats"]) == (2, {"recordCount": 1.0, "other": 1})
    assert second["state"]["partition_id"] == one["record"]["partition_id"]
    named = [each["record"]["partition_id"] for each in (one, other, last)] + partitions_of(first["state"])
    assert len(set(named)) == 4
    assert "partition_id" not in sent[1]["record"]


@pytest.mark.parametrize("name", ["global", "snapshot"])
def test_global_states_are_counted_over_all_and_name_every_record(name: str) -> None:
    script = SCRIPTS[name]
    states = [message["state"] for message in script if message["type"] == "STATE"]
    assert [each["id"] for each in states] == [1, 2, 3, 4, 5]
    sizes = Counter(message["record"]["partition_id"] for message in script if message["type"] == "RECORD")
    for each in states:
        assert each["sourceStats"]["recordCount"] == 8
        assert sum(sizes[partition] for partition in partitions_of(each)) == 8
    inner = [part for each in states for part in each["global"].get("stream_states", [])]
    assert bool(inner) is (name == "snapshot")
    assert all({"id", "partition_id"} <= set(part) for part in inner)


# -- dealing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", Order)
@pytest.mark.parametrize("sockets", [1, 3])
def test_each_message_goes_to_one_socket_and_complete_to_all(order: Order, sockets: int) -> None:
    script = SCRIPTS["stream"]
    dealt = deal(script, sockets, 5, order)
    places = Counter(place for socket in dealt for place, _ in socket)
    assert places == {
        place: sockets if is_status(message, "COMPLETE") else 1 for place, message in enumerate(script)
    }
    assert all(each for each in dealt)
    in_order = all(carried == sorted(carried, key=lambda each: each[0]) for carried in dealt)
    assert in_order is (order is Order.KEPT)
    for carried in dealt:
        assert [is_status(message) for _, message in carried[-2:]] == [True, True]
    assert dealt == deal(script, sockets, 5, order)
    assert sockets == 1 or dealt != deal(script, sockets, 6, order)


def test_partitions_side_by_side_keep_the_order_within_each() -> None:
    [carried] = deal(SCRIPTS["stream"], 1, 1, Order.PARTITIONS)
    orders: dict[str, list[int]] = {}
    for place, message in carried:
        inner = message.get("record") or message.get("state") or {}
        orders.setdefault(inner.get("partition_id", ""), []).append(place)
    assert all(places == sorted(places) for places in orders.values())
    ids = [message["state"]["id"] for _, message in carried if message["type"] == "STATE"]
    assert ids != sorted(ids)


# -- the model, and the checks on it ----------------------------------------------------------------------------------


def answers(script: Sequence[Message], sockets: int, seed: int, order: Order) -> list[Message]:
    """What the model answers to some interleaving of the sockets."""
    chosen = random.Random(seed)
    waiting = [(number, list(queue)) for number, queue in enumerate(deal(script, sockets, seed, order))]
    model = Model(sockets)
    while waiting := [each for each in waiting if each[1]]:
        number, queue = chosen.choice(waiting)
        model.take(number, queue.pop(0)[1])
    assert all(model.is_complete(name) for name in STREAMS)
    sent = {name: sorted(each["data"]["n"] for each in rows) for name, rows in records(script).items()}
    assert {name: sorted(data["n"] for data in rows) for name, rows in model.stored.items()} == sent
    return model.answers


@pytest.mark.parametrize("name", SCRIPTS)
@given(sockets=st.integers(1, 4), seed=st.integers(0, 10**6), order=st.sampled_from(Order))
def test_the_order_of_messages_changes_no_answer(name: str, sockets: int, seed: int, order: Order) -> None:
    assert partition_violations(SCRIPTS[name], answers(SCRIPTS[name], sockets, seed, order)) == []


def changed(answered: list[Message], number: int, **fields: Json) -> list[Message]:
    """Answers of which one state has other fields."""
    kept = list(answered)
    kept[number] = {"type": "STATE", "state": {**answered[number]["state"], **fields}}
    return kept


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_breach_of_the_rules_is_told(name: str) -> None:
    script = SCRIPTS[name]
    good = answers(script, 2, 3, Order.KEPT)
    first = good[0]["state"]
    assert partition_violations(script, good) == []
    assert partition_violations(script, good[:2], complete=False) == []
    assert partition_violations(script, good[:2])
    assert partition_violations(script, good[1:], complete=False)
    assert partition_violations(script, [good[0], *good])
    assert partition_violations(script, changed(good, 0, id=99), complete=False)
    assert partition_violations(script, changed(good, 0, partition_id="x"))
    assert partition_violations(script, changed(good, 0, sourceStats={"recordCount": 99.0}))
    assert partition_violations(script, changed(good, 0, destinationStats={"recordCount": 99.0}))
    assert partition_violations(script, changed(good, 0, destinationStats={}))
    rejected = {"recordCount": first["destinationStats"]["recordCount"] - 1, "rejectedRecordCount": 1.0}
    more = {"committedRecordsCount": 3, "committedBytesCount": 90, "destinationStats": rejected}
    assert partition_violations(script, changed(good, 0, **more)) == []


def test_states_out_of_order_are_told() -> None:
    good = answers(SCRIPTS["global"], 1, 0, Order.KEPT)
    assert partition_violations(SCRIPTS["global"], [good[1], good[0], *good[2:]])


def test_a_state_may_count_the_rows_of_its_streams() -> None:
    good = answers(SCRIPTS["snapshot"], 1, 0, Order.KEPT)
    inner = good[0]["state"]["global"]
    parts = [{**part, "committedRecordsCount": 3, "destinationStats": {}} for part in inner["stream_states"]]
    counted = changed(good, 0, **{"global": {**inner, "stream_states": parts}})
    assert partition_violations(SCRIPTS["snapshot"], counted) == []
    renamed = [{**part, "partition_id": "x"} for part in parts]
    assert partition_violations(
        SCRIPTS["snapshot"], changed(good, 0, **{"global": {**inner, "stream_states": renamed}})
    )


def test_a_record_that_was_acknowledged_and_is_not_there_is_told() -> None:
    script = SCRIPTS["stream"]
    good = answers(script, 1, 0, Order.KEPT)
    stored = {name: Counter(each["data"]["n"] for each in rows) for name, rows in records(script).items()}

    def missing(answered: list[Message]) -> list[str]:
        return not_durable(script, answered, stored, lambda data: data["n"])

    assert missing(good) == []
    [(name, one)] = [(name, rows[-1]) for name, rows in records(script).items() if name == ("", "a")]
    del stored[name][one["data"]["n"]]
    [told] = missing(good)
    assert one["partition_id"] in told
    assert missing(good[:-2]) == []


# -- sockets ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """The folder of the test, by a path that is short enough for sockets."""
    with contextlib.chdir(tmp_path):
        yield Path()


def paths(folder: Path, count: int) -> list[str]:
    return [str(folder / f"airbyte_socket_{number}.sock") for number in range(count)]


def read_all(path: str) -> bytes:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(PATIENCE)
        client.connect(path)
        data = bytearray()
        while block := client.recv(1 << 16):
            data += block
    return bytes(data)


def heard(source: SocketSource, form: str) -> list[list[Any]]:
    """What comes on each socket, read side by side."""
    found: list[list[Any]] = [[] for _ in source.paths]

    def listen(number: int) -> None:
        found[number] = decoded(read_all(source.paths[number]), form)

    threads = [threading.Thread(target=listen, args=[number]) for number in range(len(source.paths))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("sockets", [1, 4])
@pytest.mark.parametrize(
    "behaviour", [Behaviour(), Behaviour(piece=1, probes=0.5), Behaviour(Order.ANY, pause=0.002)]
)
def test_everything_is_played(folder: Path, form: str, sockets: int, behaviour: Behaviour) -> None:
    script = SCRIPTS["stream"]
    with SocketSource(paths(folder, sockets), CATALOG, script, form, 1, behaviour) as source:
        model = Model(sockets)
        for number, messages in enumerate(heard(source, form)):
            for message in messages:
                model.take(number, message)
        source.wait()
    assert partition_violations(script, model.answers) == []
    assert all(model.is_complete(name) for name in STREAMS)
    assert {name: len(rows) for name, rows in model.stored.items()} == {
        name: len(rows) for name, rows in records(script).items()
    }
    expected = Counter(message["record"]["partition_id"] for message in script if message["type"] == "RECORD")
    assert source.sent == expected
    assert sum(source.messages_sent) == len(script) + 2 * (sockets - 1)
    assert not list(folder.iterdir())


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("torn", [False, True])
def test_a_source_may_die_before_any_message(folder: Path, form: str, torn: bool) -> None:
    script = SCRIPTS["stream"]
    for place in range(0, len(script), 7):
        behaviour = Behaviour(ends_before=place, torn=torn)
        with SocketSource(paths(folder, 2), CATALOG, script, form, place, behaviour) as source:
            pieces = [read_all(path) for path in source.paths]
            source.wait()
        assert sum(len(decoded(piece, form)) for piece in pieces) == sum(source.messages_sent) == place
        assert sum(source.sent.values()) == sum(each["type"] == "RECORD" for each in script[:place])
    with SocketSource(paths(folder, 2), CATALOG, script, form) as source:
        whole = sum(len(read_all(path)) for path in source.paths)
    assert sum(map(len, pieces)) < whole


@pytest.mark.parametrize("torn", [False, True])
def test_one_socket_may_be_closed_while_the_others_go_on(folder: Path, torn: bool) -> None:
    behaviour = Behaviour(ends_on={1: 3}, torn=torn)
    with SocketSource(paths(folder, 2), CATALOG, SCRIPTS["stream"], "JSONL", 0, behaviour) as source:
        one, other = (read_all(path) for path in source.paths)
        source.wait()
    assert other.count(b"\n") == source.messages_sent[1] == 3
    assert other.endswith(b"\n") is not torn
    assert one.count(b"\n") == source.messages_sent[0] > 3


def test_a_socket_may_be_late_silent_or_never_there(folder: Path) -> None:
    behaviour = Behaviour(late={0: 0.2}, never=frozenset({1}), silent=frozenset({2}))
    with SocketSource(paths(folder, 3), CATALOG, SCRIPTS["stream"], "JSONL", 0, behaviour) as source:
        late, never, silent = map(Path, source.paths)
        assert not late.exists()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.connect(str(silent))
            client.settimeout(0.05)
            with pytest.raises(TimeoutError):
                client.recv(1)
            while not late.exists():
                assert not never.exists()
            assert read_all(str(late))
            source.wait()
            assert source.messages_sent[1:] == [0, 0]
            source.stop()
            assert client.recv(1) == b""


def test_a_source_that_nobody_reads_can_be_stopped(folder: Path) -> None:
    """One socket was never connected to, from the other one nothing is read."""
    script = with_partitions([record("a", {"n": n, "text": "x" * 1000}) for n in range(3000)])
    with SocketSource(paths(folder, 2), CATALOG, script, "JSONL") as source:
        client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        client.connect(source.paths[0])
        while not source.messages_sent[0]:
            time.sleep(0.01)
    with client:
        assert 0 < source.messages_sent[0] < 1500
    assert source.messages_sent[1] == 0


def test_the_variables_for_the_destination_name_its_sockets() -> None:
    source = SocketSource(["/a", "/b"], CATALOG, [], "PROTOBUF")
    assert source.environ == {
        "DATA_CHANNEL_MEDIUM": "SOCKET",
        "DATA_CHANNEL_FORMAT": "PROTOBUF",
        "DATA_CHANNEL_SOCKET_PATHS": "/a,/b",
    }


def test_the_program_plays_a_file(folder: Path) -> None:
    Path("messages.jsonl").write_bytes(lines(of_streams()))
    Path("catalog.json").write_text(json.dumps(CATALOG))
    module = "integration_tests.sockets.source"
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", module, "messages.jsonl", "catalog.json", *paths(folder, 2)]
    command += ["--seed", "3", "--order", "any", "--probes", "0.3", "--late", "1=0.1"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, env={"PYTHONPATH": f"{root}:{root}/format"}
    ) as program:
        assert program.stdout is not None
        environ = json.loads(program.stdout.readline())["environ"]
        model = Model(2)
        for number, path in enumerate(environ["DATA_CHANNEL_SOCKET_PATHS"].split(",")):
            while not Path(path).exists():
                assert program.poll() is None
            for message in decoded(read_all(path), environ["DATA_CHANNEL_FORMAT"]):
                model.take(number, message)
        told = json.loads(program.stdout.readline())
    assert program.returncode == 0
    script = with_partitions(read(lines(of_streams())), 3)
    assert partition_violations(script, model.answers) == []
    expected = Counter(message["record"]["partition_id"] for message in script if message["type"] == "RECORD")
    assert told["partitions"] == expected
    assert sum(told["messages"]) == len(script) + 2


def test_a_status_that_is_not_complete_is_carried_by_one_socket() -> None:
    dealt = deal([status("a", "STARTED"), status("a", "INCOMPLETE")], 3)
    assert sum(map(len, dealt)) == 2
