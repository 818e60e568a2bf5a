"""A sync over sockets that is killed at any moment has stored what it acknowledged, and the next one goes on there."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from integration_tests import lake
from integration_tests.acknowledgements import not_durable, partition_violations
from integration_tests.connector import Connection
from integration_tests.killing import Attempt, paced
from integration_tests.messages import Json, Message, completed, configure, read, record, state, stream
from integration_tests.sockets.carrier import Carrier
from integration_tests.sockets.script import Order
from integration_tests.sockets.source import Behaviour
from unit_tests.effort import EFFORT, PATIENCE
from unit_tests.proofs.kill import Nursery

NAMES = ("red", "blue")
FIELDS: dict[str, Message] = {
    "key": {"type": "integer"},
    "number": {"type": "integer"},
    "attempt": {"type": "integer"},
    "text": {"type": ["null", "string"]},
}
KEYS, ROWS = 97, 200


def catalog(mode: str) -> Message:
    keys = {"primary_key": [["key"]], "cursor_field": ["number"]} if mode == "append_dedup" else {}
    streams = [stream(name, **FIELDS) for name in NAMES]
    return configure(streams, mode, generation_id=1, minimum_generation_id=0, **keys)


def delivery(attempt: int, done: Mapping[str, int], of: Message) -> list[Message]:
    """Rows of both streams behind those that are done, in turns of random length, with states."""
    chosen = random.Random(attempt)
    numbers, sent = dict(done), []
    last = {name: done[name] + ROWS for name in NAMES}
    while open_streams := [name for name in NAMES if numbers[name] < last[name]]:
        name = chosen.choice(open_streams)
        numbers[name] += 1
        number = numbers[name]
        text = None if number % 7 == 0 else f"{attempt}:{number} " * (number % 13)
        data = {"key": number * 31 % KEYS, "number": number, "attempt": attempt, "text": text}
        sent.append(record(name, data, emitted_at=number))
        if number % 20 == 0 or number == last[name]:
            sent.append(state(name, {"number": number}))
    return [*sent, *completed(of)]


def identity(data: Json) -> Any:
    return data["attempt"], data["number"]


def waits(seed: int) -> Iterator[Callable[[Attempt], None]]:
    """Moments for a kill: after some of the first states went out; now and then before the first one."""
    chosen = random.Random(seed)
    while True:
        count = 0 if chosen.random() < 0.2 else chosen.randrange(1, 12)
        delay = chosen.uniform(0, 0.5 if count == 0 else 0.05)

        def wait(attempt: Attempt, count: int = count, delay: float = delay) -> None:
            with attempt.heard:
                assert attempt.heard.wait_for(
                    lambda: attempt.ended or sum(b'"STATE"' in line for line in attempt.answers) >= count,
                    PATIENCE,
                )
            time.sleep(delay)

        yield wait


def stored(connection: Connection) -> dict[tuple[str, str], Counter[Any]]:
    found = {}
    for name in lake.datasets(connection.lake):
        table = lake.table(connection.lake, name)
        columns = [table[field].to_pylist() for field in ("attempt", "number")]
        found[name] = Counter(zip(*columns, strict=True))
    return found


@pytest.mark.parametrize(
    ("form", "sockets", "mode", "order"),
    [
        ("JSONL", 2, "append", Order.KEPT),
        pytest.param("PROTOBUF", 3, "append", Order.PARTITIONS, marks=pytest.mark.soak),
        ("PROTOBUF", 4, "append_dedup", Order.PARTITIONS),
    ],
)
def test_a_sync_over_sockets_that_is_killed_loses_nothing_that_it_acknowledged(
    connection: Connection, nursery: Nursery, form: str, sockets: int, mode: str, order: Order
) -> None:
    of, kills = catalog(mode), max(3, EFFORT.sync_kills // 2)
    command = paced(connection, of, publish_bytes=6_000)
    done = dict.fromkeys(NAMES, 0)

    def attempt(number: int, wait: Callable[[Attempt], None] | None) -> int:
        carrier = Carrier(form, sockets, Behaviour(order, probes=0.05, pause=0.01), number)
        script = carrier.script(delivery(number, done, of))
        with carrier.source(of, script) as source:
            trial = Attempt(nursery, command, b"", environ=source.environ)
            status = trial.run(wait)
        answered = list(read(line for line in trial.answers if line.endswith(b"\n")))
        assert partition_violations(script, answered, complete=status == 0) == []
        rows = stored(connection)
        if mode == "append":
            assert not_durable(script, answered, rows, identity) == []
            assert all(count == 1 for counts in rows.values() for count in counts.values())
        done.update(trial.acknowledged())
        return status

    assert attempt(0, None) == 0
    assert done == dict.fromkeys(NAMES, ROWS)
    killed = partly = 0
    number = 0
    for number, wait in enumerate(waits(kills), 1):
        before = dict(done)
        status = attempt(number, wait)
        assert status in (0, -signal.SIGKILL), status
        killed += status != 0
        partly += any(0 < done[name] - before[name] < ROWS for name in NAMES)
        # A busy machine misses the middle of a sync several times; the test is worth something only if it hits one.
        if number >= kills and (partly or number == 10 * kills):
            break
    assert attempt(number + 1, None) == 0
    for name in NAMES:
        numbers = {number for _, number in stored(connection)["", name]}
        if mode == "append":
            assert numbers == set(range(1, done[name] + 1))
        else:
            newest = {number * 31 % KEYS: number for number in range(1, done[name] + 1)}
            assert numbers == set(newest.values())
            assert stored(connection)["", name].total() == KEYS
    assert killed >= kills // 3
    assert partly
