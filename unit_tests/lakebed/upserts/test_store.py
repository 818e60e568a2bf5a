"""Rows by key: what readers see, what is durable, and what happens when keys change."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lakebed
from lakebed.upserts.collapse import older_duplicates
from lakebed.upserts.delta import Delta
from lakebed.upserts.keying import Keying
from lakebed.upserts.keys import KeyFilter
from lakebed.upserts.store import DELTA_BRANCH, Budget, MergeCount, UpsertStore, settle
from unit_tests.lakebed.datasets import create_on, kill, new_memory, open_on
from unit_tests.lakebed.upserts.streams import (
    AT_ONCE,
    EXTRACTED,
    TINY,
    WAITING,
    Row,
    batch,
    prepared,
    read,
    store,
)

_NUMBER = itertools.count()


@pytest.fixture
def base() -> lakebed.Dataset:
    return prepared(lakebed.empty(f"mem://rows by key {next(_NUMBER)}"))


@pytest.fixture
def path(base: lakebed.Dataset) -> str:
    return base.path


def seen(path: str) -> list[Row]:
    """What another process reads."""
    return read(lakebed.load(path, read_only=True))


def test_new_keys_are_seen_at_once_and_newer_rows_after_a_merge(base: lakebed.Dataset, path: str) -> None:
    target = store(base)
    first, second = Row(1, cursor="1", text="a"), Row(2, cursor="1")
    target.publish(batch([first, second]))
    assert seen(path) == [first, second]
    assert target.pending == 0
    newer, third = replace(first, cursor="2", text=None), Row(3)
    target.publish(batch([newer, third]))
    assert seen(path) == [first, second, third]
    assert target.pending == 1
    assert target.merge() == MergeCount(updated=1)
    assert seen(path) == [newer, second, third]
    assert target.pending == 0
    assert target.merge() == MergeCount()


def test_a_first_sync_goes_straight_to_the_dataset(base: lakebed.Dataset) -> None:
    target = store(base)
    for first in range(0, 3000, 1000):
        target.publish(batch(Row(first + i) for i in range(1000)))
    assert target.pending == 0
    assert base.branches == ["main"]
    assert [row.id for row in read(base)] == list(range(3000))


def test_what_waits_is_merged_by_the_next_process(base: lakebed.Dataset, path: str) -> None:
    target = store(base)
    target.publish(batch([Row(1), Row(2)]))
    target.publish(batch([Row(1, text="x"), Row(2, deleted="now")]))
    base.close()
    again = lakebed.load(path, read_only=False)
    assert settle(again) == MergeCount(updated=1, deleted=1)
    assert settle(again) is None
    assert seen(path) == [Row(1, text="x")]


def test_what_waits_goes_by_the_key_that_it_came_with(base: lakebed.Dataset) -> None:
    target = store(base)
    target.publish(batch([Row(1, "p"), Row(2, "p")]))
    target.publish(batch([Row(1, "p", text="x"), Row(2, "p", text="y")]))
    # By the part alone, both are one row.
    other = store(base, key=["part"])
    other.publish(batch([Row(3, "q")]))
    assert read(base) == [Row(1, "p", text="x"), Row(2, "p", text="y"), Row(3, "q")]


def test_a_branch_without_rows_is_no_trouble(base: lakebed.Dataset) -> None:
    base.start_overwrite(DELTA_BRANCH)
    assert settle(base) == MergeCount()
    assert base.branches == ["main"]


@pytest.mark.parametrize("later", ["publish", "settle"])
def test_rows_that_came_late_or_again_change_nothing(base: lakebed.Dataset, later: str) -> None:
    rows = [Row(1, cursor="5", extracted=9), Row(2, cursor="5", extracted=9)]
    store(base).publish(batch(rows))
    target = store(base)
    target.publish(batch([Row(1, cursor="4", text="late", extracted=10), rows[1]]))
    if later == "publish":
        target.publish(batch([replace(rows[1], cursor=None, text="no cursor", extracted=99)]))
    assert target.merge() == MergeCount(updated=1, superseded=1)
    assert read(base) == rows


def test_without_a_cursor_the_extraction_tells(base: lakebed.Dataset) -> None:
    target = store(base, cursor=None)
    target.publish(batch([Row(1, cursor="9", extracted=1), Row(2, extracted=5)]))
    target.publish(batch([Row(1, cursor="1", extracted=2), Row(2, extracted=4)]))
    target.merge()
    assert read(base) == [Row(1, cursor="1", extracted=2), Row(2, extracted=5)]


def test_deleting_what_is_not_there_adds_nothing(base: lakebed.Dataset) -> None:
    target = store(base)
    target.publish(batch([Row(1, deleted="now"), Row(2), Row(2, deleted="now")]))
    assert read(base) == []
    target.publish(batch([Row(3)]))
    target.publish(batch([Row(3, deleted="now"), Row(4, deleted="now")]))
    target.merge()
    assert read(base) == []
    target.publish(batch([Row(3, deleted="again")]))  # known once, and gone
    assert target.merge() == MergeCount(superseded=1)
    target.publish(batch([Row(3, text="back")]))
    assert target.merge() == MergeCount(inserted=1)
    assert read(base) == [Row(3, text="back")]


def test_too_much_is_merged_before_the_end(base: lakebed.Dataset) -> None:
    target = store(base, budget=TINY)
    target.publish(batch(Row(i) for i in range(9)))
    target.publish(batch(Row(i, text="x") for i in range(3)))
    target.make_room()
    assert target.pending == 3
    target.publish(batch(Row(i, text="y") for i in range(3, 4)))
    assert target.pending == 4
    target.make_room()
    assert target.pending == 0
    wide = store(base, budget=replace(WAITING, column_bytes=1000))
    wide.publish(batch([Row(1, text="z" * 1000)]))
    wide.make_room()
    assert wide.pending == 0
    assert target.merge() == MergeCount(updated=4)


def test_a_few_rows_are_merged_without_learning_all_keys(
    base: lakebed.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(base).publish(batch(Row(i) for i in range(100)))
    target = store(base)
    monkeypatch.setattr(KeyFilter, "__init__", never)
    target.publish(batch([Row(100, cursor="1"), Row(7, text="x")]))
    assert target.pending == 2
    monkeypatch.undo()
    # From here on it is worth it; what waits already is known, too, and goes by arrival.
    target.publish(batch([Row(100, cursor="1", text="later"), Row(101), Row(102, deleted="now")]))
    assert target.pending == 4
    target.publish(batch([Row(101, deleted="now")]))
    assert target.merge() == MergeCount(updated=1, inserted=1, deleted=1, superseded=1)
    assert read(base)[100:] == [Row(100, cursor="1", text="later")]


def test_tensors_of_others_keep_what_they_say_of_a_row(base: lakebed.Dataset) -> None:
    target = store(base)
    target.publish(batch([Row(1), Row(2), Row(3)]))
    base.create_tensor("labels/kind", htype="class_label", class_names=["cat", "dog"])
    base["labels/kind"].extend([0, 1, 0])
    base.create_tensor("vector", htype="embedding", dtype="float32")
    base.vector.extend(np.arange(6, dtype=np.float32).reshape(3, 2))
    base.flush()
    target.publish(batch([Row(4), Row(2, text="new"), Row(1, deleted="now")]))
    target.merge()
    assert [row.id for row in read(base)] == [2, 3, 4]
    assert [base["labels/kind"][i].numpy().ravel().tolist() for i in range(3)] == [[1], [0], []]
    assert [base.vector[i].numpy().ravel().tolist() for i in range(3)] == [[2, 3], [4, 5], []]


def test_a_tensor_that_is_new_in_mid_sync_waits_along(base: lakebed.Dataset) -> None:
    target = store(base)
    target.publish(batch([Row(1), Row(2)]))
    target.publish(batch([Row(1, text="x")]))
    base.create_tensor("late", htype="text", create_id_tensor=False, create_shape_tensor=False)
    base["late"].extend(pa.nulls(2, pa.string()))
    target.publish(batch([Row(2)]) | {"late": pa.array(["here"])})
    assert target.merge() == MergeCount(updated=2)
    assert base.read_columns(0, 2, ["late"])["late"].to_pylist() == [None, "here"]


def test_a_tensor_that_is_new_in_mid_sync_outlives_a_crash() -> None:
    place = new_memory()
    base = prepared(create_on(place))
    target = store(base)
    target.publish(batch([Row(1)]))
    target.publish(batch([Row(1, text="x")]))
    base.create_tensor("late", htype="text", create_id_tensor=False, create_shape_tensor=False)
    base["late"].extend(pa.nulls(1, pa.string()))
    target.publish(batch([Row(1)]) | {"late": pa.array(["here"])})
    kill(place)
    again = open_on(place)
    assert settle(again) == MergeCount(updated=1)
    assert again.read_columns(0, 1, ["late"])["late"].to_pylist() == ["here"]


def test_old_commits_keep_their_rows(base: lakebed.Dataset, path: str) -> None:
    target = store(base)
    target.publish(batch(Row(i) for i in range(50)))
    target.merge()
    commit = base.commit("before")
    target.publish(batch(Row(i, text="new", deleted=None if i % 2 else "now") for i in range(50)))
    target.merge()
    assert len(seen(path)) == 25
    assert read(lakebed.load(f"{path}@{commit}", read_only=True)) == [Row(i) for i in range(50)]


def never(*_: Any) -> None:
    raise AssertionError


# -- other keys, other cursors ---------------------------------------------------------------------------------


def test_rows_that_another_key_makes_equal_become_one(base: lakebed.Dataset) -> None:
    store(base).publish(batch([Row(1, "a", "1"), Row(2, "a", "3"), Row(3, "a", "2"), Row(4, "b", "1")]))
    target = store(base, key=["part"], rekeyed=True)
    target.publish(batch([Row(9, "b", "0"), Row(10, "c", "1")]))
    assert target.merge() == MergeCount(collapsed=2, superseded=1)
    assert read(base) == [Row(2, "a", "3"), Row(4, "b", "1"), Row(10, "c", "1")]
    assert target.merge() == MergeCount()


def test_rows_that_were_only_appended_become_one_for_each_key(base: lakebed.Dataset) -> None:
    base.extend(batch([Row(i % 7, cursor=str(i % 3), extracted=i) for i in range(100)]))
    base.flush()
    target = store(base, rekeyed=True)
    assert target.merge() == MergeCount(collapsed=93)
    newest = [max((i % 3, i) for i in range(100) if i % 7 == key)[1] for key in range(7)]
    assert sorted(row.extracted for row in read(base)) == sorted(newest)


def test_one_key_that_is_there_twice_unexpectedly_becomes_one_row_when_it_comes_again(
    base: lakebed.Dataset,
) -> None:
    base.extend(
        batch([Row(1, cursor="2"), Row(1, cursor="3"), Row(1, cursor="1"), Row(2), Row(2), Row(3), Row(3)])
    )
    base.flush()
    target = store(base)
    target.publish(batch([Row(1, cursor="2", text="late"), Row(2, text="new"), Row(3, deleted="now")]))
    assert target.merge() == MergeCount(updated=1, deleted=1, superseded=1, collapsed=4)
    assert read(base) == [Row(1, cursor="3"), Row(2, text="new")]


@pytest.mark.parametrize("rows_per_pass", [1, 10, 1000])
def test_duplicates_are_found_in_as_many_passes_as_memory_asks_for(
    base: lakebed.Dataset, rows_per_pass: int
) -> None:
    base.extend(batch([Row(i % 5, extracted=i) for i in range(20)]))
    found = older_duplicates(base, Keying(("id",), (EXTRACTED,)), rows_per_pass)
    assert found.tolist() == list(range(15))


def test_another_cursor_orders_rows_from_then_on(base: lakebed.Dataset) -> None:
    store(base).publish(batch([Row(1, cursor="9", text="a"), Row(2, cursor="9", text="b")]))
    target = store(base, cursor="text")
    target.publish(batch([Row(1, cursor="1", text="b"), Row(2, cursor="1", text="a")]))
    target.merge()
    assert read(base) == [Row(1, cursor="1", text="b"), Row(2, cursor="9", text="b")]


# -- keys as they are stored -----------------------------------------------------------------------------------


def keyed(kind: str, dtype: str, budget: Budget = WAITING) -> tuple[lakebed.Dataset, UpsertStore]:
    dataset = lakebed.empty(f"mem://keyed {kind} {dtype}", overwrite=True)
    dataset.create_tensor("k", htype=kind, dtype=dtype, create_shape_tensor=False, create_id_tensor=False)
    dataset.create_tensor("t", dtype="int64", create_shape_tensor=False, create_id_tensor=False)
    return dataset, UpsertStore(dataset, key=["k"], cursor=None, deleted=None, extracted="t", budget=budget)


@pytest.mark.parametrize(
    ("kind", "dtype", "keys"),
    [
        ("generic", "float32", pa.array([0.1, None, float("nan"), -0.0], pa.float32())),
        ("generic", "int32", pa.array([1, None, -1, 7])),
        ("generic", "bool", pa.array([True, None, False, False])),
        (
            "json",
            "unspecified",
            pa.ExtensionArray.from_storage(pa.json_(), pa.array(["1", None, '"a"', "[ 1]"])),
        ),
        ("text", "unspecified", pa.array(["", None, "é", "\0"])),
    ],
)
@pytest.mark.parametrize("budget", [WAITING, AT_ONCE])
def test_keys_are_what_they_are_once_stored(kind: str, dtype: str, keys: pa.Array, budget: Budget) -> None:
    dataset, target = keyed(kind, dtype, budget)
    different = len({repr(key) for key in keys.to_pylist()})
    for moment in range(3):
        target.publish({"k": keys, "t": pa.array([moment] * 4)})
        target.merge()
    assert dataset.max_len == different
    again = UpsertStore(dataset, key=["k"], cursor=None, deleted=None, extracted="t", budget=budget)
    again.publish({"k": keys, "t": pa.array([9] * 4)})
    again.merge()
    assert dataset.t.numpy().ravel().tolist() == [9] * different


def test_a_list_can_be_no_key() -> None:
    dataset, target = keyed("embedding", "float32")
    with pytest.raises(TypeError, match="neither key nor cursor"):
        target.publish({"k": pa.array([[1.0]]), "t": pa.array([1])})
    assert dataset.max_len == 0


def test_a_delta_that_is_gone_says_so(base: lakebed.Dataset) -> None:
    delta = Delta(base, DELTA_BRANCH)
    assert delta.rows == 0
    assert delta.keying is None
    with pytest.raises(LookupError):
        _ = delta.dataset


def test_nothing_published_is_nothing_done(base: lakebed.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakebed.upserts.store.merge", never)
    target = store(base)
    target.publish(batch([]))
    assert target.merge() == MergeCount()
