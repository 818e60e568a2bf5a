"""Ordinary syncs of a platform over one socket end as those of standard input, by the same model.

Two rules are others: a stream that no COMPLETE speaks of is never complete, and a legacy state has the count of its
source.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from integration_tests.acknowledgements import LEGACY, scope
from integration_tests.connector import Connection
from integration_tests.everyday import Sync, from_platform
from integration_tests.everyday_model import Lake
from integration_tests.in_process import sync
from integration_tests.messages import read, states
from integration_tests.sockets.carrier import STDIN, Carrier
from integration_tests.sockets.script import is_status
from integration_tests.sockets.source import FORMATS
from integration_tests.test_everyday_syncs import rows, said


def follow(folder: Path, history: list[Sync], carrier: Carrier) -> None:
    """Run syncs, and compare each with the model."""
    model = Lake()
    connection = Connection.make(folder)
    for number, each in enumerate(history):
        stamped = list(read(STDIN.lines(each.messages)))
        expected = model.sync(replace(each, messages=stamped, torn=b""))
        script = carrier.script(each.messages)
        outcome = sync(connection, each.catalog, each.messages, carrier, complete_without_status=each.rule)
        what = f"sync {number} of {[one.name for one in history]}: {each}"
        failure = expected.failure
        if not any(map(is_status, script)) and failure is None:
            failure = "transient_error"
        found = said(outcome)
        assert found.failure == failure, (what, outcome.failures)
        ordinals = dict(zip((one["id"] for one in states(stamped)), states(script), strict=True))
        wanted = [(scope(ordinals[place]), ordinals[place]["id"], count) for place, count in expected.states]
        answered = [
            (scope(one), one["id"], int(one["destinationStats"]["recordCount"]))
            for one in states(outcome.messages)
        ]
        if any(scope(one) == LEGACY for one in states(stamped)):
            wanted, answered = ([(of, place, 0) for of, place, _ in found] for found in (wanted, answered))
        assert sorted(answered) == sorted(wanted), what
        for entry in each.catalog["streams"]:
            key = entry["stream"].get("namespace") or "", entry["stream"]["name"]
            assert sorted(rows(connection.lake, key)) == sorted(model.tables[key].rows), (what, key)


@pytest.mark.parametrize("form", FORMATS)
def test_ordinary_syncs_over_a_socket(form: str) -> None:
    for seed in range(12):
        with tempfile.TemporaryDirectory() as folder:
            follow(Path(folder), from_platform(seed), Carrier(form, 1))


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("form", FORMATS)
def test_many_ordinary_syncs_over_a_socket(form: str) -> None:
    for seed in range(1000, 2000):
        with tempfile.TemporaryDirectory() as folder:
            follow(Path(folder), from_platform(seed), Carrier(form, 1))
