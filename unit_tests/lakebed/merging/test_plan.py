"""Merging rows, against a model of plain dictionaries."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lakebed.merging.plan import (
    Conflict,
    Differ,
    Keep,
    Line,
    Refs,
    RowPlan,
    Steps,
    Value,
    along,
    combined,
    conflicts,
    decide,
    filler_ids,
    plan_rows,
)

Rows = dict[int, int]
"""Values by id, in the order of the rows."""


@dataclass
class Versions:
    """Versions of one tensor; tells differences by value, and counts how often it is asked."""

    rows: list[Rows]
    asked: int = field(default=0)

    def differ(self, left: Refs, right: Refs) -> Any:
        self.asked += len(left[0])
        mine = [self.value(int(v), int(r)) for v, r in zip(*left, strict=True)]
        its = [self.value(int(v), int(r)) for v, r in zip(*right, strict=True)]
        return np.array([a != b for a, b in zip(mine, its, strict=True)], np.bool_)

    def value(self, version: int, row: int) -> int:
        return list(self.rows[version].values())[row]

    def line(self, version: int) -> Line:
        return Line.of(np.array(list(self.rows[version]), np.uint64), version)


def merged(rows: Rows, theirs: Rows, plan: RowPlan, steps: Steps) -> list[tuple[int, int]]:
    """Carry out the steps on plain lists: (id, value) by row."""
    result = list(rows.items())
    other = list(theirs.items())
    for o, t in steps.updates.tolist():
        result[o] = (result[o][0], other[t][1])
    for o, value in steps.values.items():
        result[o] = (result[o][0], value)
    for t in steps.appends.tolist():
        id_, value = other[t]
        result.append((id_, steps.new_values.get(t, value)))
    gone = set(steps.deletes.tolist())
    return [row for number, row in enumerate(result) if number not in gone]


_GONE = object()


def model(base: Rows, ours: Rows, theirs: Rows, choose: Any) -> tuple[list[tuple[int, int]], set[int]]:
    """Merge dictionaries: the rows, and the ids of those that both changed."""
    result, new, clashing = [], [], set()
    for id_ in [*ours, *(i for i in theirs if i not in ours)]:
        was, here, there = (rows.get(id_, _GONE) for rows in (base, ours, theirs))
        if here == there or there == was:
            value = here
        elif here == was:
            value = there
        else:
            clashing.add(id_)
            value = choose(here, there)
        if value is _GONE:
            continue
        (result if id_ in ours else new).append((id_, value))
    place = {id_: number for number, id_ in enumerate(theirs)}
    return result + sorted(new, key=lambda row: place[row[0]]), clashing


@st.composite
def histories(draw: st.DrawFn) -> tuple[Rows, Rows, Rows]:
    """A common ancestor and two versions that come from it."""
    base = dict.fromkeys(range(draw(st.integers(0, 8))), 0)
    lines = []
    for start in (100, 200):
        line = dict(base)
        for id_ in list(base):
            fate = draw(st.sampled_from("sscd"))
            if fate == "c":
                line[id_] = draw(st.integers(1, 2))
            elif fate == "d":
                del line[id_]
        line |= {start + i: start for i in range(draw(st.integers(0, 3)))}
        lines.append(line)
    return base, lines[0], lines[1]


def planned(base: Rows, ours: Rows, theirs: Rows) -> RowPlan:
    versions = Versions([base, ours, theirs])
    return plan_rows(*(versions.line(i) for i in range(3)), versions.differ)


@given(histories(), st.sampled_from([Keep.OURS, Keep.THEIRS]))
def test_rows_merge_as_dictionaries_do(history: tuple[Rows, Rows, Rows], keep: Keep) -> None:
    """Additions, changes and deletions of both lines come out as in a three-way merge of dictionaries."""
    base, ours, theirs = history
    plan = planned(base, ours, theirs)
    steps = decide({"x": plan}, lambda _: keep)["x"]
    wanted, clashing = model(base, ours, theirs, lambda o, t: o if keep is Keep.OURS else t)
    assert merged(ours, theirs, plan, steps) == wanted
    rows = {id_: number for number, id_ in enumerate(ours)}
    others = {id_: number for number, id_ in enumerate(theirs)}
    found = {Conflict("x", rows.get(id_), others.get(id_)) for id_ in clashing}
    assert set(conflicts({"x": plan})) == found
    layout = [others.get(id_, -1) for id_, _ in wanted]
    assert steps.layout(plan).tolist() == layout


@given(histories())
def test_chosen_values_stand(history: tuple[Rows, Rows, Rows]) -> None:
    """A value that was chosen for a conflict takes the place of both, deletions included."""
    base, ours, theirs = history
    plan = planned(base, ours, theirs)
    steps = decide({"x": plan}, lambda _: Value(77))["x"]
    wanted, _ = model(base, ours, theirs, lambda _o, _t: 77)
    assert merged(ours, theirs, plan, steps) == wanted


def test_both_lines_may_change_a_row_to_the_same() -> None:
    """The same new value on both lines is no conflict."""
    plan = planned({1: 0, 2: 0}, {1: 5, 2: 6}, {1: 5, 2: 7})
    assert conflicts({"x": plan}) == (Conflict("x", 1, 1),)


def test_only_rows_in_doubt_are_compared() -> None:
    """Rows of which one line has no other version are never looked at."""
    versions = Versions([{}, {1: 0, 2: 0}, {3: 0, 4: 0}])
    plan_rows(*(versions.line(i) for i in range(3)), versions.differ)
    assert versions.asked == 0


def test_a_row_stays_or_goes_in_all_tensors() -> None:
    """Where one tensor keeps a row that they deleted, the others keep it too, so that rows still belong together."""
    base = {1: 0, 2: 0, 3: 0}
    changed = planned(base, {1: 0, 2: 9, 3: 0}, {1: 0, 3: 0})
    same = planned({i + 10: v for i, v in base.items()}, {11: 0, 12: 0, 13: 0}, {11: 0, 13: 0})
    for keep, deleted in ((Keep.OURS, []), (Keep.THEIRS, [1])):
        steps = decide({"a": same, "b": changed, "c": same}, lambda _, keep=keep: keep)
        assert [steps[name].deletes.tolist() for name in "abc"] == [deleted] * 3


def test_a_row_comes_back_in_all_tensors() -> None:
    """Where one tensor brings back a row that we deleted, the others bring it back too."""
    base = {1: 0, 2: 0, 3: 0}
    changed = planned(base, {1: 0, 3: 0}, {1: 0, 2: 9, 3: 0, 4: 1})
    same = planned(base, {1: 0, 3: 0}, {1: 0, 2: 0, 3: 0, 4: 1})
    for keep, appended in ((Keep.OURS, [3]), (Keep.THEIRS, [1, 3])):
        steps = decide({"a": same, "b": changed}, lambda _, keep=keep: keep)
        assert [steps[name].appends.tolist() for name in "ab"] == [appended] * 2


def test_tensors_without_a_common_ancestor_follow_the_others() -> None:
    """Which rows of such a tensor were deleted, nobody knows but the other tensors; unrelated tensors stay alone."""
    plans = {
        "a": planned({1: 0, 2: 0, 3: 0}, {1: 0, 2: 0, 3: 0}, {1: 0, 3: 0, 4: 0}),
        "kept": planned({}, {11: 0, 12: 0, 13: 0}, {11: 0, 13: 0, 14: 0}),
        "other": planned({}, {21: 0, 22: 0, 23: 0}, {31: 0, 32: 0, 33: 0}),
    }
    steps = decide(plans, lambda _: Keep.OURS)
    assert steps["kept"].deletes.tolist() == []
    plans, steps = along(plans, steps)
    assert [steps[name].deletes.tolist() for name in plans] == [[1], [1], []]
    assert [steps[name].appends.tolist() for name in plans] == [[2], [2], [0, 1, 2]]
    assert steps["kept"].layout(plans["kept"]).tolist() == [0, 1, 2]


def test_fillers_of_the_same_rows_have_the_same_ids() -> None:
    """Two lines that fill up a tensor beside the same rows make the same ids, others for other rows and tensors."""
    rows = np.array([5, 6, 2**63], np.uint64)
    assert filler_ids(rows, "n").tolist() == filler_ids(rows, "n").tolist()
    assert len({*filler_ids(rows, "n").tolist(), *filler_ids(rows, "m").tolist()}) == 6


@given(histories())
def test_two_common_ancestors_are_as_their_merge(history: tuple[Rows, Rows, Rows]) -> None:
    """What two common ancestors have in common is what merging them would have given."""
    base, one, other = history
    versions = Versions([base, one, other])
    differ: Differ = versions.differ
    line = combined(*(versions.line(i) for i in range(3)), differ)
    found = {
        int(id_): versions.value(int(v), int(r))
        for id_, v, r in zip(line.ids, line.version, line.row, strict=True)
    }
    wanted, clashing = model(base, one, other, lambda o, t: o)
    for id_, value in wanted:
        assert id_ in clashing or found[id_] == value
    assert {id_ for id_, _ in wanted} - clashing == set(found) - clashing
