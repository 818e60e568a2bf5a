"""States go once all records of their partitions are published, in the order of their numbers."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from destination_deeplake.partitions import PartitionLedger
from destination_deeplake.wire import StateEvent, Wire

A, B = (None, "a"), ("n", "b")


def state(number: int | None, partition: str | None, count: float | None, **body: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "STREAM", "stream": {"stream_descriptor": {"name": "a"}}} | body
    if number is not None:
        found["id"] = number
    if partition is not None:
        found["partition_id"] = partition
    if count is not None:
        found["sourceStats"] = {"recordCount": count}
    return found


def arrived(ledger: PartitionLedger, body: dict[str, Any]) -> None:
    line = json.dumps({"type": "STATE", "state": body}).encode() + b"\n"
    (event,) = Wire({}).feed(line)
    assert isinstance(event, StateEvent)
    ledger.arrived(event)


def released(lines: Any) -> list[tuple[Any, float, float]]:
    found = []
    for line in lines:
        body = json.loads(line)["state"]
        stats = body["destinationStats"]
        found.append((body.get("id"), stats["recordCount"], stats.get("rejectedRecordCount", 0)))
    return found


def test_a_state_waits_for_its_partition_and_for_the_one_before() -> None:
    ledger = PartitionLedger()
    arrived(ledger, state(2, "q", 1.0))
    ledger.published({}, 0, {A: {"q": 1}})
    assert released(ledger.release()) == []
    arrived(ledger, state(1, "p", 3))
    ledger.published({}, 0, {A: {"p": 2}, B: {"p": 1}})
    assert released(ledger.release()) == []  # the third is of another stream
    ledger.published({}, 0, {A: {"p": 1}})
    assert released(ledger.release()) == [(1, 3.0, 0), (2, 1.0, 0)]
    assert len(ledger) == 0


def test_dead_letters_count_where_they_are_published() -> None:
    ledger = PartitionLedger()
    arrived(ledger, state(1, "p", 3))
    ledger.published({}, 0, {A: {"p": 2}}, {})
    assert released(ledger.release()) == []
    ledger.published({}, 1, {}, {A: {"p": 1}})
    assert released(ledger.release()) == [(1, 2.0, 1.0)]


def test_a_global_state_names_the_partitions_of_all_its_streams() -> None:
    ledger = PartitionLedger()
    streams = [{"stream_descriptor": {"name": "b", "namespace": "n"}, "id": 1, "partition_id": "b1"}, 5]
    body = {"type": "GLOBAL", "global": {"stream_states": streams}, "id": 1, "partition_id": "cdc"}
    arrived(ledger, body | {"sourceStats": {"recordCount": 5}})
    ledger.published({}, 0, {A: {"cdc": 2}, B: {"cdc": 1}})
    assert released(ledger.release()) == []
    ledger.published({}, 0, {B: {"b1": 2}})
    assert released(ledger.release()) == [(1, 5.0, 0)]


@pytest.mark.parametrize(
    "body",
    [state(None, "p", 1), state(1, None, 1), state(1, "p", None), state(3, "p", 1), state(1, "p", 1.5)],
)
def test_what_a_state_does_not_say_only_the_end_makes_up_for(body: dict[str, Any]) -> None:
    ledger = PartitionLedger()
    arrived(ledger, body)
    ledger.published({}, 0, {A: {"p": 1}})
    assert released(ledger.release()) == []
    assert ledger.unfinished() == set()
    assert len(released(ledger.release_all())) == 1
    assert len(ledger) == 0


def test_records_that_are_missing_at_the_end_are_told() -> None:
    ledger = PartitionLedger()
    arrived(ledger, state(1, "p", 3))
    ledger.published({}, 0, {A: {"p": 1}})
    assert ledger.unfinished(1) == {A}
    assert ledger.unfinished(2) == set()  # two lines of which nobody knows the partition
    assert released(ledger.release_all()) == [(1, 1.0, 2.0)]


@given(st.integers(0, 2**32), st.integers(1, 5), st.integers(1, 6))
def test_any_order_gives_each_state_once_and_never_too_early(
    seed: int, partitions: int, records: int
) -> None:
    chosen = random.Random(seed)
    sizes = {
        (key, f"{number}"): chosen.randrange(records) for key in (A, B) for number in range(1, partitions + 1)
    }
    rows = [one for one, size in sizes.items() for _ in range(size)]
    names = {A: {"name": "a"}, B: {"name": "b", "namespace": "n"}}
    states = [
        (key, number, state(int(number), number, size, stream={"stream_descriptor": names[key]}))
        for (key, number), size in sizes.items()
    ]
    turns: list[Any] = [*rows, *states]
    chosen.shuffle(turns)
    ledger, published = PartitionLedger(), Counter[Any]()
    seen: list[tuple[Any, int]] = []
    for turn in turns:
        if len(turn) == 2:
            published[turn] += 1
            ledger.published({}, 0, {turn[0]: {turn[1]: 1}})
        else:
            arrived(ledger, turn[2])
        for line in ledger.release():
            body = json.loads(line)["state"]
            descriptor = body["stream"]["stream_descriptor"]
            key = descriptor.get("namespace"), descriptor["name"]
            assert published[key, body["partition_id"]] == sizes[key, body["partition_id"]]
            assert body["destinationStats"]["recordCount"] == sizes[key, body["partition_id"]]
            seen.append((key, body["id"]))
    assert sorted(seen, key=repr) == sorted(((key, int(number)) for key, number, _ in states), key=repr)
    for key in (A, B):
        assert [number for stream, number in seen if stream == key] == list(range(1, partitions + 1))
