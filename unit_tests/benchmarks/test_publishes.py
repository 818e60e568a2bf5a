"""Tests of the counts of requests on which design 055 rests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from benchmarks import publishes
from benchmarks.publishes import CHUNK, COUNT, SMALL, Bucket, counted, steps, sync
from destination_deeplake.sync import PACE
from lakebed.storage import memory

COLUMNS = 3
TENSORS = COLUMNS + 4
"""The connector adds four columns."""


@pytest.fixture(autouse=True)
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[memory.MemoryStorage]:
    """The bucket of the only stream; nothing is counted yet."""
    monkeypatch.setattr(publishes, "COLUMNS", COLUMNS)
    monkeypatch.setattr(memory, "MemoryStorage", Bucket)
    COUNT.requests, COUNT.owed, COUNT.held = Counter(), Counter(), ()
    yield memory.open_memory("s0")
    COUNT.requests, COUNT.owed, COUNT.held = Counter(), Counter(), ()


def test_a_publish_writes_five_objects_per_column_and_a_commit_two() -> None:
    """Chunk, settings, index, chunk set and changes of each column; settings and index of each in the new head."""
    found = dict(steps(COLUMNS))
    assert found["append and flush"][CHUNK] == COLUMNS
    assert found["append and flush"][SMALL] == 4 * COLUMNS + 2
    assert found["commit"][CHUNK] == 0
    assert found["commit"][SMALL] == 2 * COLUMNS + 2
    assert found["commit"].total() == found["commit"][SMALL] + 6


@pytest.mark.parametrize("count", [1, 3])
def test_a_commit_owes_what_the_publishes_left_out(count: int) -> None:
    """Small files that wait for the commit are written once, so that a sync with one publish saves nothing."""
    sync(1, PACE, counted(1, 1))
    COUNT.take()
    sync(1, PACE, counted(1, count))
    today = COUNT.take()
    COUNT.held = (SMALL,)
    sync(1, PACE, counted(1, count))
    held = COUNT.take()
    assert today[CHUNK] == held[CHUNK] == count * TENSORS
    assert today[SMALL] - held[SMALL] == (count - 1) * (4 * TENSORS + 4)
