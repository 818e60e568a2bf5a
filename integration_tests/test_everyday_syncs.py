"""Ordinary syncs, one after the other: table, states and ending are those that the platform's rules ask for."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import lakebed
from destination_deeplake.naming import dataset_folder
from integration_tests.acknowledgements import scope, stamp
from integration_tests.connector import Connection, Outcome
from integration_tests.everyday import Sync, deaths, syncs
from integration_tests.everyday_model import Ending, Lake, Row
from integration_tests.in_process import message_by_message, sync
from integration_tests.messages import StreamName, lines, read


def rows(lake: Path, name: StreamName) -> list[Row]:
    """What readers see of a stream."""
    dataset = lakebed.load(str(lake / dataset_folder(*name)), read_only=True)
    if "id" not in dataset:  # nothing was ever complete
        return []
    columns = [dataset[tensor].numpy().reshape(-1).tolist() for tensor in ("id", "at", "n")]
    return list(zip(*columns, strict=True))


def said(outcome: Outcome) -> Ending:
    """How a sync ended, and which states went out."""
    failures = [failure["failure_type"] for failure in outcome.failures]
    assert outcome.status == bool(failures)
    answers = [message["state"] for message in outcome.messages if message["type"] == "STATE"]
    order: dict[StreamName, list[int]] = {}
    for answer in answers:
        order.setdefault(scope(answer), []).append(answer["id"])
    assert all(ids == sorted(ids) for ids in order.values()), order
    counts = [(answer["id"], int(answer["destinationStats"]["recordCount"])) for answer in answers]
    return Ending(failures[0] if failures else None, counts)


def follow(folder: Path, history: list[Sync]) -> None:
    """Run syncs, and compare each with the model."""
    model = Lake()
    connection = Connection.make(folder)
    for number, each in enumerate(history):
        sent = stamp(lines(each.messages))
        expected = model.sync(replace(each, messages=list(read(sent))))
        run = message_by_message if each.at_once else sync
        outcome = run(connection, each.catalog, sent + each.torn, complete_without_status=each.rule)
        what = f"sync {number} of {[one.name for one in history]}: {each}"
        found = said(outcome)
        assert found.failure == expected.failure, (what, outcome.failures)
        assert sorted(found.states) == expected.states, what
        for entry in each.catalog["streams"]:
            key = entry["stream"].get("namespace") or "", entry["stream"]["name"]
            assert sorted(rows(connection.lake, key)) == sorted(model.tables[key].rows), (what, key)


def in_memory(seeds: Iterable[int], of: Callable[[int], Iterable[list[Sync]]]) -> None:
    """Follow histories on a file system without a disk, where there is one: thousands of small syncs."""
    shared = Path("/dev/shm")
    for seed in seeds:
        for history in of(seed):
            with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as folder:
                follow(Path(folder), history)


def one(seed: int) -> list[list[Sync]]:
    return [syncs(seed)]


DECISIVE = (43, 74, 98, 130, 184, 263)
"""Histories in which a single rule decides about a table: a state that is not the last word, records without a place, a
source that says that it failed, an empty input."""


@pytest.mark.parametrize("seeds", [range(10), range(10, 20), DECISIVE], ids=["first", "second", "decisive"])
def test_ordinary_syncs(seeds: Sequence[int]) -> None:
    in_memory(seeds, one)


@pytest.mark.parametrize("seed", range(6))
def test_a_source_may_die_behind_every_message(seed: int) -> None:
    in_memory(range(seed, seed + 1), deaths)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("first", range(1000, 9000, 1000))
def test_many_ordinary_syncs(first: int) -> None:
    in_memory(range(first, first + 1000), one)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("first", range(100, 500, 50))
def test_many_sources_that_die_behind_every_message(first: int) -> None:
    in_memory(range(first, first + 50), deaths)
