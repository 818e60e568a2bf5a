"""Deletions are remembered past their sync: bounded, and only as long as they mean the rows that are there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import lakebed
from lakebed.upserts import tombstones as module
from lakebed.upserts.store import Budget, settle
from unit_tests.lakebed.datasets import create_on, new_memory
from unit_tests.lakebed.upserts.streams import (
    AT_ONCE,
    BLIND,
    TINY,
    WAITING,
    Row,
    batch,
    prepared,
    read,
    store,
    tombstones,
)

DAY = 24 * 3600.0


@pytest.fixture
def base() -> lakebed.Dataset:
    return prepared(create_on(new_memory()))


def sync(base: lakebed.Dataset, *publishes: Sequence[Row], **choices: Any) -> None:
    """Do a sync in a store of its own, as the next process has it."""
    target = store(base, **choices)
    for rows in publishes:
        target.publish(batch(rows))
        target.make_room()
    target.merge()


def remembered(base: lakebed.Dataset) -> int:
    branch = base.start_overwrite("deleted", resume=True)
    count = branch.max_len if branch.tensors else 0
    branch.close()
    return int(count)


@pytest.mark.parametrize("budget", [AT_ONCE, WAITING, TINY, BLIND, Budget(at_once=0, unlearned=0.0)])
def test_an_older_row_that_comes_late_does_not_bring_a_row_back(
    base: lakebed.Dataset, budget: Budget
) -> None:
    rows = [Row(number, cursor="1") for number in range(9)]
    sync(base, rows, budget=budget)
    sync(base, [Row(2, cursor="3", deleted="now"), Row(7, cursor="3", deleted="now")], budget=budget)
    sync(
        base,
        [Row(2, cursor="2", text="late"), Row(50, cursor="0"), Row(7, cursor="4", text="new")],
        budget=budget,
    )
    assert {row.id for row in read(base)} == {0, 1, 3, 4, 5, 6, 7, 8, 50}
    assert [row.text for row in read(base) if row.id == 7] == ["new"]


def test_one_that_was_never_there_is_remembered_too(base: lakebed.Dataset) -> None:
    # The keys are known, so that new rows go straight to the dataset.
    target = store(base, budget=Budget(at_once=0, unlearned=0.0))
    target.publish(batch([Row(1, cursor="1")]))
    target.publish(batch([Row(2, cursor="3", deleted="now")]))
    target.merge()
    target.publish(batch([Row(2, cursor="2")]))
    target.merge()
    assert [row.id for row in read(base)] == [1]


def test_of_equal_cursors_the_later_one_counts(base: lakebed.Dataset) -> None:
    sync(base, [Row(1, cursor="1"), Row(1, cursor="1", deleted="now")])
    sync(base, [Row(1, cursor="1", text="again")])
    assert read(base) == [Row(1, cursor="1", text="again")]


def test_deletions_are_forgotten_after_some_days(base: lakebed.Dataset) -> None:
    for day, late in ((0, 0.9), (0, 1.1)):
        now = [day * DAY]
        old = tombstones(base, clock=lambda now=now: now[0])
        sync(base, [Row(1, cursor="1")], tombstones=old)
        sync(base, [Row(1, cursor="3", deleted="now")], tombstones=old)
        now[0] = late * DAY
        sync(base, [Row(1, cursor="2")], tombstones=tombstones(base, clock=lambda now=now: now[0]))
        assert len(read(base)) == (late > 1)


def test_no_more_are_remembered_than_asked_for(
    base: lakebed.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LOOSE", 5)
    for first in range(0, 60, 10):
        rows = [Row(number, cursor="2", deleted="now") for number in range(first, first + 10)]
        sync(base, rows, tombstones=tombstones(base, most=20))
        assert remembered(base) <= 25
    sync(base, [Row(number, cursor="1") for number in range(60)], tombstones=tombstones(base, most=20))
    assert {row.id for row in read(base)} == set(range(40))


def test_repeated_deletions_do_not_add_up(base: lakebed.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LOOSE", 5)
    for number in range(20):
        sync(base, [Row(1, cursor=f"{number:02d}", deleted="now"), Row(2, cursor="", deleted="now")])
    assert remembered(base) <= 12
    sync(base, [Row(1, cursor="18")])
    assert read(base) == []


def test_who_wants_none_forgets_them(base: lakebed.Dataset) -> None:
    sync(base, [Row(1, cursor="1"), Row(1, cursor="3", deleted="now")])
    assert base.branches == ["main", "deleted"]
    sync(base, [Row(2, cursor="3", deleted="now")], tombstones=tombstones(base, days=0))
    assert base.branches == ["main"]
    sync(base, [Row(1, cursor="2")], tombstones=tombstones(base, days=0))
    assert [row.id for row in read(base)] == [1]


@pytest.mark.parametrize("choices", [{"cursor": "text"}, {"cursor": None}, {"key": ["id"]}])
def test_deletions_by_another_key_or_cursor_mean_nothing(
    base: lakebed.Dataset, choices: dict[str, Any]
) -> None:
    sync(base, [Row(1, cursor="3", deleted="now", extracted=2)])
    sync(base, [Row(1, cursor="2", text="", extracted=1)], **choices)
    assert [row.id for row in read(base)] == [1]
    sync(base, [Row(1, cursor="3", text="z", deleted="now", extracted=3)], **choices)
    sync(base, [Row(1, cursor="2", text="", extracted=1)], **choices)
    assert read(base) == []


def test_a_key_that_becomes_another_type_is_not_compared(base: lakebed.Dataset) -> None:
    sync(base, [Row(1, cursor="1"), Row(2, cursor="1"), Row(1, cursor="3", deleted="now")])
    base.change_type("id", dtype="float64")
    base.flush()
    sync(base, [Row(2, cursor="2", deleted="now")])
    assert read(base) == []


def test_what_a_crash_left_is_remembered_with_it(base: lakebed.Dataset) -> None:
    target = store(base)
    target.publish(batch([Row(1, cursor="1")]))
    target.publish(batch([Row(1, cursor="3", deleted="now")]))
    settle(base, tombstones=tombstones(base))
    sync(base, [Row(1, cursor="2")])
    assert read(base) == []


def test_soft_deletes_leave_none(base: lakebed.Dataset) -> None:
    sync(base, [Row(1, cursor="1"), Row(1, cursor="3", deleted="now")], deleted=None)
    assert base.branches == ["main"]
    assert read(base) == [Row(1, cursor="3", deleted="now")]
