"""A sync that is killed at any moment loses nothing that it acknowledged, and stops nobody."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pyarrow.compute as pc
import pytest

import lakebed
from integration_tests import lake
from integration_tests.connector import Connection
from integration_tests.killing import Attempt, moments, paced
from integration_tests.messages import Message, completed, configure, lines, record, state, stream
from unit_tests.effort import EFFORT
from unit_tests.proofs.kill import Nursery

STREAMS = ("red", "blue")
PROPERTIES: dict[str, Message] = {
    "attempt": {"type": "integer"},
    "number": {"type": "integer"},
    "text": {"type": ["null", "string"]},
    "more": {"type": "object"},
}
CATALOG = configure(stream(name, **PROPERTIES) for name in STREAMS)


def text_of(attempt: int, number: int) -> str | None:
    return None if number % 7 == 0 else f"{attempt}:{number} " * (number % 13)


def delivery(attempt: int, rows: int, states_every: int = 40) -> list[Message]:
    """Rows of both streams in turn, with states; each row says which attempt sent it as which of its rows."""
    sent = [state(name, {"attempt": attempt, "number": 0}) for name in STREAMS]
    for number in range(1, rows + 1):
        for name in STREAMS:
            text = text_of(attempt, number)
            data = {"attempt": attempt, "number": number, "text": text, "more": {"n": [number]}}
            sent.append(record(name, data))
            if number % states_every == 0 or number == rows:
                sent.append(state(name, {"attempt": attempt, "number": number}))
    return sent


def assert_kept(connection: Connection, name: str, acknowledged: Mapping[int, int], sent: int) -> None:
    """Every attempt's rows are the first that it sent, each once, and at least what was acknowledged."""
    table = lake.table(connection.lake, ("", name))
    ids = table["_airbyte_raw_id"]
    assert pc.count_distinct(ids).as_py() == len(ids)
    attempts, numbers = table["attempt"].to_numpy(), table["number"].to_numpy()
    for attempt, promised in acknowledged.items():
        mine = numbers[attempts == attempt]
        assert np.array_equal(mine, np.arange(1, len(mine) + 1)), f"{name}, attempt {attempt}: {mine}"
        assert promised <= len(mine) <= sent, f"{name}, attempt {attempt}: {len(mine)} of {promised}"
    assert set(attempts.tolist()) <= set(acknowledged)
    last = max(acknowledged)
    rows = table.filter(pc.equal(table["attempt"], last)).to_pylist()
    for row in rows:
        assert row["text"] == text_of(last, row["number"])
        assert json.loads(row["more"]) == {"n": [row["number"]]}


def test_what_was_acknowledged_before_a_kill_is_there_exactly_once(
    connection: Connection, nursery: Nursery
) -> None:
    kills, rows = EFFORT.sync_kills, 600
    command = paced(connection, CATALOG, publish_bytes=8_000)

    def attempt(number: int, wait: Callable[[Attempt], None] | None) -> tuple[int, int]:
        trial = Attempt(nursery, command, lines(delivery(number, rows)))
        status = trial.run(wait)
        for name in STREAMS:
            acknowledged[name][number] = trial.acknowledged().get(name, 0)
        return status, len(trial.answers)

    acknowledged: dict[str, dict[int, int]] = {name: {} for name in STREAMS}
    status, answers = attempt(0, None)
    assert status == 0
    killed = partly = 0
    for number, wait in zip(range(1, kills + 1), moments(kills, answers), strict=False):
        status, _ = attempt(number, wait)
        assert status in (0, -signal.SIGKILL), status
        killed += status != 0
        partly += 0 < acknowledged["red"][number] < rows
        for name in STREAMS:
            assert_kept(connection, name, acknowledged[name], rows)
    status, _ = attempt(kills + 1, None)
    assert status == 0
    for name in STREAMS:
        assert_kept(connection, name, acknowledged[name], rows)
        assert acknowledged[name][kills + 1] == rows
    # The test is worth something only if it hit syncs in their middle.
    assert killed >= kills // 3
    assert partly >= kills // 6


def test_an_overwrite_that_is_killed_shows_the_old_rows_until_one_succeeds(
    connection: Connection, nursery: Nursery
) -> None:
    kills, rows = max(5, EFFORT.sync_kills // 2), 600

    def overwrite(number: int, wait: Callable[[Attempt], None] | None) -> tuple[int, int]:
        streams = [stream(name, **PROPERTIES) for name in STREAMS]
        generation = {"generation_id": number, "minimum_generation_id": number}
        catalog = configure(streams, "overwrite", **generation)
        command = paced(connection, catalog, publish_bytes=8_000)
        trial = Attempt(nursery, command, lines([*delivery(number, rows), *completed(catalog)]))
        return trial.run(wait), len(trial.answers)

    def shown(name: str) -> set[int]:
        table = lake.table(connection.lake, ("", name))
        assert table["number"].to_pylist() == list(range(1, rows + 1))
        return set(table["attempt"].to_pylist())

    status, answers = overwrite(1, None)
    assert status == 0
    current = dict.fromkeys(STREAMS, 1)
    for number, wait in zip(range(2, kills + 2), moments(5, answers), strict=False):
        status, _ = overwrite(number, wait)
        for name in STREAMS:
            (attempt,) = shown(name)
            # Each stream swaps by itself at the end: the kill may have come between or after the swaps.
            assert attempt in (current[name], number)
            assert status != 0 or attempt == number
            current[name] = attempt
    status, _ = overwrite(kills + 2, None)
    assert status == 0
    assert [shown(name) for name in STREAMS] == [{kills + 2}, {kills + 2}]


# -- syncs that go on where their states say, as the platform has it --------------------------------------------------

SOAK = [pytest.mark.soak, pytest.mark.timeout(1800)]
CHANGES: dict[str, Message] = {
    "key": {"type": "integer"},
    "number": {"type": "integer"},
    "text": {"type": "string"},
}
KEYS = 97


def changes(first: int, last: int) -> Iterator[Message]:
    """Changes of rows, numbered; a state after every 20."""
    for number in range(first, last + 1):
        data = {"key": number * 31 % KEYS, "number": number, "text": f"{number} " * (number % 9)}
        yield record("red", data, emitted_at=number)
        if number % 20 == 0 or number == last:
            yield state("red", {"number": number})


def run_from(
    connection: Connection,
    nursery: Nursery,
    catalog: Message,
    span: tuple[int, int],
    wait: Callable[[Attempt], None] | None,
    at_once: int = 0,
) -> tuple[int, int, int]:
    """Send a span of changes; return the exit status, the last one that was acknowledged, and the number of answers."""
    sent = lines([*changes(*span), *completed(catalog)])
    trial = Attempt(nursery, paced(connection, catalog, 4_000, at_once), sent)
    status = trial.run(wait)
    return status, trial.acknowledged().get("red", span[0] - 1), len(trial.answers)


def red(connection: Connection) -> dict[str, list[int]]:
    table = lakebed.load(str(connection.lake / "red"), read_only=True)
    columns = ("key", "number", "_airbyte_generation_id")
    return {name: table[name].numpy().ravel().tolist() for name in columns}


@pytest.mark.parametrize(
    ("kills", "at_once"),
    [(3, 0), pytest.param(30, 0, marks=SOAK), pytest.param(30, 8_000_000, marks=SOAK)],
)
def test_a_sync_by_key_that_is_killed_is_whole_after_the_next(
    connection: Connection, nursery: Nursery, kills: int, at_once: int
) -> None:
    """Acknowledged changes are not sent again: each that was lost would show."""
    keyed = {"primary_key": [["key"]], "cursor_field": ["number"]}
    catalog = configure(
        [stream("red", **CHANGES)], "append_dedup", generation_id=1, minimum_generation_id=0, **keyed
    )
    status, done, answers = run_from(connection, nursery, catalog, (1, 300), None, at_once)
    assert (status, done) == (0, 300)
    killed = 0
    for wait in moments(kills, answers, ends=0.3):
        last = done + 300
        status, done, _ = run_from(connection, nursery, catalog, (done + 1, last), wait, at_once)
        killed += status != 0
        rows = red(connection)
        assert len(set(rows["key"])) == len(rows["key"])
        assert all(number * 31 % KEYS == key for key, number in zip(rows["key"], rows["number"], strict=True))
        assert max(rows["number"]) <= last
        if killed >= kills:
            break
    status, done, _ = run_from(connection, nursery, catalog, (done + 1, done + 300), None, at_once)
    assert status == 0
    newest = {number * 31 % KEYS: number for number in range(1, done + 1)}
    rows = red(connection)
    assert sorted(zip(rows["key"], rows["number"], strict=True)) == sorted(newest.items())


@pytest.mark.parametrize(
    ("mode", "kills"),
    [
        ("append_dedup", 2),
        pytest.param("append", 20, marks=SOAK),
        pytest.param("append_dedup", 20, marks=SOAK),
    ],
)
def test_a_refresh_that_is_killed_shows_the_old_generation_until_it_is_complete(
    connection: Connection, nursery: Nursery, mode: str, kills: int
) -> None:
    rows, answers, killed, generation = 300, 15, 0, 1

    def catalog() -> Message:
        numbers = {
            "generation_id": generation,
            "minimum_generation_id": generation,
            "primary_key": [["number"]],
        }
        return configure([stream("red", **CHANGES)], mode, **numbers)

    def is_whole(shown: dict[str, list[int]], by: int) -> None:
        assert set(shown["_airbyte_generation_id"]) == {by}
        assert set(shown["number"]) == set(range(1, rows + 1))
        assert mode == "append" or len(shown["number"]) == rows

    status, done, _ = run_from(connection, nursery, catalog(), (1, rows), None)
    waits = moments(kills, answers, ends=0.3)
    while killed < kills:
        assert status == 0
        generation += 1
        done = 0
        for wait in waits:
            status, done, _ = run_from(connection, nursery, catalog(), (done + 1, rows), wait)
            shown = red(connection)
            if status == 0 or killed == kills:
                break
            killed += 1
            # It may have been killed after the swap: then what it did not acknowledge comes once more.
            is_whole(shown, shown["_airbyte_generation_id"][0])
            assert shown["_airbyte_generation_id"][0] in (generation - 1, generation)
        if status != 0:
            status, _, _ = run_from(connection, nursery, catalog(), (done + 1, rows), None)
        is_whole(red(connection), generation)
