"""Where lines of history part, and which rows of a tensor several versions changed together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.documents.commit_diff import CommitDiff
from lakebed.documents.version_tree import CommitNode
from lakebed.versions.changes import Step, fork, modified_rows


def line(*ids: str) -> list[CommitNode]:
    return [CommitNode(i, "main", None) for i in ids]


def ids_of(nodes: list[CommitNode]) -> list[str]:
    return [node.id for node in nodes]


@pytest.mark.parametrize(
    ("left", "right", "ancestor", "only_left", "only_right"),
    [
        ("cba", "xba", "b", "c", "x"),
        ("cba", "cba", "c", "", ""),
        ("cba", "a", "a", "cb", ""),
        ("a", "cba", "a", "", "cb"),
        ("edcba", "yxcba", "c", "ed", "yx"),
    ],
)
def test_two_lines_part_below_the_last_version_in_common(
    left: str, right: str, ancestor: str, only_left: str, only_right: str
) -> None:
    """Each side has its own versions, newest first, without the common one."""
    found = fork(line(*left), line(*right))
    assert (found.ancestor, ids_of(found.left), ids_of(found.right)) == (
        ancestor,
        list(only_left),
        list(only_right),
    )


def test_lines_of_different_datasets_have_nothing_in_common() -> None:
    """That is an error of the caller."""
    with pytest.raises(ValueError, match="no version in common"):
        fork(line("b", "a"), line("y", "x"))


def u64(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.uint64)


def step(diff: CommitDiff, before: int, after: int) -> Step:
    return Step(diff, before, after, lambda: None)


def test_added_and_replaced_rows_are_counted_once() -> None:
    """A row that one version adds and the next replaces is one modified row."""
    steps = [
        step(CommitDiff(first=3, last=5, updated=u64(1)), 3, 5),
        step(CommitDiff(first=5, last=5, updated=u64(1, 4)), 5, 5),
        step(CommitDiff(), 5, 5),
    ]
    assert modified_rows(steps).tolist() == [1, 3, 4]


def test_removed_rows_move_those_behind_them() -> None:
    """What an earlier version changed is found at its present number, or not at all."""
    steps = [
        step(CommitDiff(first=10, last=11, updated=u64(2, 7)), 10, 11),
        step(CommitDiff(first=9, last=10, updated=u64(0), deleted=u64(1, 7)), 11, 10),
    ]
    assert modified_rows(steps).tolist() == [0, 1, 8, 9]


@pytest.mark.parametrize("flags", [{"cleared": True}, {"created": True}, {"data_transformed": True}])
def test_a_tensor_that_starts_anew_is_modified_as_a_whole(flags: dict[str, bool]) -> None:
    """Nothing that was there before is left to be told apart."""
    steps = [step(CommitDiff(first=5, last=5, updated=u64(4)), 5, 5), step(CommitDiff(last=2, **flags), 5, 2)]
    assert modified_rows(steps).tolist() == [0, 1]


def test_added_sequences_are_the_last_rows() -> None:
    """The record of a sequence counts items before the added rows, not rows."""
    assert modified_rows([step(CommitDiff(first=7, last=8, updated=u64(0)), 3, 4)]).tolist() == [0, 3]


@pytest.mark.parametrize(
    "diff",
    [
        CommitDiff(first=7, last=7, deleted=u64(0, 3), deleted_ids=u64(13, 14, 10)),  # one forgotten
        CommitDiff(first=8, last=8, deleted=u64(1, 5), deleted_ids=u64(15, 19, 11)),  # right in number only
        CommitDiff(first=8, last=9, deleted=u64(3, 10), deleted_ids=u64(13)),  # names a row it added itself
    ],
    ids=["forgotten", "number", "added"],
)
def test_a_record_that_contradicts_itself_is_settled_by_sample_ids(diff: CommitDiff) -> None:
    """3.9.52 forgets removals, and counts new rows among them; the ids of the samples tell what is what."""
    before = np.arange(10, 20, dtype=np.uint64)
    after = u64(11, 12, 15, 17, 18, 19, 30) if diff.last == 7 else u64(11, 12, 14, 15, 17, 18, 19, 30)
    if diff.last == 9:
        after = u64(11, 12, 14, 15, 16, 17, 18, 19, 30)
    steps = [
        step(CommitDiff(first=10, last=10, updated=u64(2, 3, 9)), 10, 10),
        Step(diff, 10, len(after), lambda: (before, after)),
    ]
    assert modified_rows(steps).tolist() == [1, len(after) - 2, len(after) - 1]


def test_without_ids_a_wrong_record_is_believed_as_far_as_there_are_rows() -> None:
    """No row is named that is not there."""
    steps = [
        step(CommitDiff(first=4, last=6, updated=u64(3)), 4, 6),
        step(CommitDiff(first=9, last=9, deleted=u64(0)), 6, 3),
    ]
    assert modified_rows(steps).tolist() == [2]


@given(st.data())
def test_any_history_gives_the_rows_whose_values_differ(data: st.DataObject) -> None:
    """Updates, removals and additions in several versions, checked against lists."""
    rows: list[tuple[int, int]] = [(i, 0) for i in range(data.draw(st.integers(0, 8)))]
    steps, fresh = [], 100
    for version in range(1, data.draw(st.integers(0, 4)) + 1):
        before = list(rows)
        gone = data.draw(st.sets(st.integers(0, len(rows) - 1)) if rows else st.just(set()))
        rows = [row for i, row in enumerate(rows) if i not in gone]
        first = len(rows)
        updated = data.draw(st.sets(st.integers(0, first - 1)) if rows else st.just(set()))
        rows = [(row[0], version) if i in updated else row for i, row in enumerate(rows)]
        added = data.draw(st.integers(0, 3))
        rows += [(fresh + i, version) for i in range(added)]
        fresh += added
        diff = CommitDiff(
            first=first, last=len(rows), updated=u64(*sorted(updated)), deleted=u64(*sorted(gone))
        )
        steps.append(step(diff, len(before), len(rows)))
    assert modified_rows(steps).tolist() == [i for i, row in enumerate(rows) if row[1]]
