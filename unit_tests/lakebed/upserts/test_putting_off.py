"""Merges that are broken off at any step: nothing of them is seen, nothing is lost."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from lakebed.upserts.putting_off import MergePutOffError
from lakebed.upserts.store import UpsertStore, settle
from unit_tests.lakebed.datasets import copy_of, create_on, kill, new_memory, open_on
from unit_tests.lakebed.upserts.streams import (
    BLIND,
    TINY,
    Expected,
    Row,
    batch,
    prepared,
    read,
    store,
)

BEFORE = [Row(1, "p"), Row(2, text="a"), Row(3)]
AFTER = [Row(1, "p", text="new"), Row(2, deleted="now"), Row(4), Row(3, text="new")]


class Limit:
    """A checkpoint that gives up at the n-th call."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def __call__(self) -> None:
        self.steps -= 1
        if self.steps < 0:
            raise MergePutOffError


@pytest.mark.parametrize(
    ("next_merge", "rekeyed"),
    [
        *(("the same", True), ("settle", False)),
        *(pytest.param(*pair, marks=pytest.mark.soak) for pair in (("the same", False), ("settle", True))),
    ],
)
def test_whoever_has_no_time_leaves_all_as_it_was(next_merge: str, rekeyed: bool) -> None:
    start, expected = new_memory(), Expected()
    store(prepared(create_on(start))).publish(batch(BEFORE))
    kill(start)
    expected.take([*BEFORE, *AFTER])
    for steps in itertools.count():
        inner = copy_of(start)
        base = open_on(inner)
        limit = Limit(steps)
        target = store(base, budget=BLIND, rekeyed=rekeyed, checkpoint=limit)
        target.publish(batch(AFTER))
        seen = read(base)
        try:
            target.merge()
        except MergePutOffError:
            is_whole = False
            assert read(base) == seen
            assert target.pending
            base.commit("put off", allow_empty=True)
        else:
            is_whole = True
        assert read(open_on(inner, read_only=True)) == (read(base) if is_whole else seen)
        if next_merge == "the same":
            limit.steps = 1000
            target.merge()
        else:
            kill(inner)
            base = open_on(inner)
            assert (settle(base) is None) == is_whole
        expected.check(base)
        assert set(base.branches) - {"deleted"} == {"main"}  # nothing is left of the delta
        if is_whole:
            break
    # Keys of both, every column, removals, additions.
    assert steps >= 9 + rekeyed


def test_rows_are_taken_in_where_there_is_no_time_to_make_room() -> None:
    base, expected = prepared(create_on(new_memory())), Expected()
    limit = Limit(10_000)
    target: UpsertStore = store(base, budget=TINY, checkpoint=limit)
    rows: list[Any] = [[Row(number, text=text) for number in range(8)] for text in "abc"]
    target.publish(batch(rows[0]))
    limit.steps = 0
    for newer in rows[1:]:
        target.publish(batch(newer))
        target.make_room()
    assert target.pending > TINY.rows
    assert read(base) == rows[0]
    limit.steps = 10_000
    target.merge()
    expected.take(list(itertools.chain(*rows)))
    expected.check(base)
