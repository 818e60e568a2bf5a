"""Random syncs with deletes, crashes and restarts, against the newest row of each key in plain Python."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakebed.errors import StorageError
from lakebed.testing import Crash, Fault, FaultyStorage, Planned
from lakebed.upserts.store import Budget, UpsertStore, settle
from unit_tests.effort import IS_SOAK, examples
from unit_tests.lakebed.datasets import copy_of, create_on, kill, new_memory, open_on
from unit_tests.lakebed.upserts.streams import (
    AT_ONCE,
    BLIND,
    TINY,
    Expected,
    Row,
    batch,
    numbered,
    prepared,
    read,
    store,
    tombstones,
)

cells = st.none() | st.sampled_from(["", "a", "é" * 3])
rows_in_any_order = st.lists(
    st.builds(
        Row,
        id=st.integers(0, 6),
        part=st.sampled_from([None, None, ""]),
        cursor=st.none() | st.sampled_from(["", "1", "2", "3"]),
        text=cells,
        doc=st.none() | st.sampled_from(["{}", '{"a": 1}']),
        extracted=st.integers(0, 2),
    ),
    max_size=8,
)
rows_with_deletes = st.lists(
    st.builds(
        Row,
        id=st.integers(0, 6),
        part=st.sampled_from([None, None, ""]),
        cursor=st.none() | st.sampled_from(["", "1", "2", "3"]),
        text=cells,
        extracted=st.integers(0, 2),
        deleted=st.sampled_from([None, None, "now"]),
    ),
    max_size=8,
)
# A crash where something is read leaves what one at the next change leaves.
CHANGES = ("put", "put_many", "put_if", "copy", "delete", "delete_prefix")
faults = st.builds(
    Fault,
    when=st.sampled_from(["before", "after", "torn"]),
    nth=st.integers(0, 20),
    methods=st.just(CHANGES),
    seed=st.integers(0, 99),
)


def steps(rows: st.SearchStrategy[list[Row]]) -> st.SearchStrategy[list[tuple[str, Any, Fault | None]]]:
    step = st.one_of(
        st.tuples(st.just("publish"), rows, faults),
        st.tuples(st.just("publish"), rows, st.none()),
        st.tuples(st.sampled_from(["merge", "commit", "restart", "settle"]), st.none(), st.none() | faults),
    )
    return st.lists(step, max_size=8)


class Run:
    """A dataset that is written by one process after the other."""

    def __init__(self, **choices: Any) -> None:
        self.inner = new_memory()
        prepared(create_on(self.inner)).close()
        self.choices = choices
        self.expected = Expected()
        self.commits: dict[str, list[Row]] = {}
        self.open(None)

    def open(self, fault: Fault | None) -> None:
        """Begin a process in which one call of the storage may fail."""
        self.dataset = open_on(FaultyStorage(self.inner, Planned(*([fault] if fault else []))))
        self.store: UpsertStore = store(self.dataset, **self.choices)

    def restart(self, fault: Fault | None = None) -> None:
        kill(self.inner)
        self.open(fault)

    def attempt(self, work: Callable[[], object], fault: Fault | None) -> None:
        """Do something; if the process crashes meanwhile, do it again in a new one, as the platform does."""
        done = False
        if fault is not None:
            with contextlib.suppress(Crash, StorageError):  # where another thread asked, its error tells
                self.restart(fault)
                work()
                done = True
            self.restart()
        if not done:
            work()

    def publish(self, rows: Sequence[Row]) -> None:
        if rows:
            self.store.publish(batch(rows))
            self.store.make_room()
        # Before a merge readers see an older state, but never a key twice.
        keys = [row.key for row in read(self.dataset)]
        assert len(set(keys)) == len(keys)

    def commit(self) -> None:
        self.store.merge()
        self.commits[self.dataset.commit(allow_empty=True)] = read(self.dataset)

    def settle(self) -> None:
        settle(self.dataset, tombstones=tombstones(self.dataset))
        self.store = store(self.dataset, **self.choices)

    def follow(self, name: str, rows: Sequence[Row] | None, fault: Fault | None) -> None:
        if name == "publish":
            assert rows is not None
            self.attempt(lambda: self.publish(rows), fault)
            self.expected.take(rows)
        elif name == "restart":
            self.restart()
        else:
            work = {"merge": lambda: self.store.merge(), "commit": self.commit, "settle": self.settle}[name]
            self.attempt(work, fault)

    def check(self) -> None:
        """Compare what readers see after a merge, in this process and in the next, and at every commit."""
        self.store.merge()
        self.expected.check(self.dataset)
        assert self.dataset.branches in (["main"], ["main", "deleted"])
        kill(self.inner)
        self.expected.check(open_on(self.inner, read_only=True))
        for commit, rows in self.commits.items():
            assert read(open_on(self.inner, commit, read_only=True)) == rows


def follow(script: Sequence[tuple[str, Any, Fault | None]], **choices: Any) -> None:
    run = Run(**choices)
    for step in script:
        run.follow(*step)
    run.check()


FEW = settings(max_examples=examples(8, soak=3000), suppress_health_check=[HealthCheck.too_slow])
# Of the last one a few rows wait, and the others are merged as they come.
budgets = st.sampled_from(
    [{}, *({"budget": budget} for budget in (TINY, BLIND, AT_ONCE, Budget(unlearned=2.0, at_once=600)))]
)


def in_turn(script: Sequence[tuple[str, Any, Fault | None]]) -> list[tuple[str, Any, Fault | None]]:
    """Give every row of a script a cursor above all before it."""
    first, result = 0, []
    for name, rows, fault in script:
        result.append((name, None if rows is None else numbered(rows, first), fault))
        first += len(rows or [])
    return result


@FEW
@given(steps(rows_in_any_order), budgets)
def test_the_newest_row_of_each_key_survives_any_order_and_any_crash(
    script: list[tuple[str, Any, Fault | None]], choices: dict[str, Any]
) -> None:
    follow(script, **choices)


@FEW
@given(steps(rows_with_deletes), budgets)
def test_deletions_outlive_their_sync_in_any_order_and_any_crash(
    script: list[tuple[str, Any, Fault | None]], choices: dict[str, Any]
) -> None:
    follow(script, **choices)


@settings(FEW, max_examples=examples(4))
@given(steps(rows_with_deletes), budgets)
def test_hard_deletes_that_nobody_remembers_survive_any_crash(
    script: list[tuple[str, Any, Fault | None]], choices: dict[str, Any]
) -> None:
    # Nothing comes late.
    follow(in_turn(script), **choices, tombstones=None)


@settings(FEW, max_examples=examples(4))
@given(steps(rows_with_deletes))
def test_soft_deletes_are_rows(script: list[tuple[str, Any, Fault | None]]) -> None:
    # What is deleted stays, marked.
    run = Run(deleted=None)
    for step in in_turn(script):
        run.follow(*step)
    run.store.merge()
    assert {row.key: row for row in read(run.dataset)} == run.expected.rows


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_at_any_change_of_a_merge_loses_nothing(when: Literal["before", "after"]) -> None:
    before = [Row(1), Row(2, text="a"), Row(3)]
    after = [Row(1, text="new"), Row(2, deleted="now"), Row(4), Row(3, text="new")]
    start = Run(budget=BLIND)
    start.follow("publish", before, None)
    start.follow("publish", after, None)
    kill(start.inner)
    # After one change is before the next one.
    for nth in itertools.count(step=1 if IS_SOAK else 3):
        run = copy(start)
        run.inner = copy_of(start.inner)
        run.restart(Fault(when, nth=nth, methods=CHANGES))
        has_crashed = True
        with contextlib.suppress(Crash, StorageError):
            run.store.merge()
            has_crashed = False
        run.restart()
        run.check()
        if not has_crashed:
            break
    assert nth > 8
