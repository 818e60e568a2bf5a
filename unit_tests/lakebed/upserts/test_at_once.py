"""Rows of a small dataset: each publish brings in newer rows of known keys, too, as a whole or not at all."""

from __future__ import annotations

import contextlib
import io
import itertools
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

import lakebed
from lakebed.errors import StorageError
from lakebed.storage.memory import MemoryStorage
from lakebed.testing import Crash, Fault, FaultyStorage, Planned
from lakebed.upserts.at_once import Allowance
from lakebed.upserts.keys import KeyFilter
from lakebed.upserts.putting_off import MergePutOffError
from lakebed.upserts.store import Budget, MergeCount, UpsertStore
from unit_tests.lakebed.datasets import create_on, kill, new_memory, open_on
from unit_tests.lakebed.upserts.streams import AT_ONCE, Row, batch, prepared, read, store

CHANGES = ("put", "put_many", "put_if", "copy", "delete", "delete_prefix")
BEFORE = [Row(1, text="a"), Row(2), Row(3), Row(4, cursor="5")]
BATCH = [Row(5), Row(3, text="old"), Row(3, text="new"), Row(1), Row(4, cursor="4")]
AFTER = [Row(1), Row(2), Row(3, text="new"), Row(4, cursor="5"), Row(5)]


@pytest.fixture
def place() -> MemoryStorage:
    return new_memory()


@pytest.fixture
def base(place: MemoryStorage) -> lakebed.Dataset:
    return prepared(create_on(place))


def seen(place: MemoryStorage) -> list[Row]:
    """What another process reads."""
    return read(open_on(place, read_only=True))


def never(*_: Any, **__: Any) -> None:
    raise AssertionError


def test_readers_see_what_is_published_and_nothing_waits(place: MemoryStorage, base: lakebed.Dataset) -> None:
    target = store(base, budget=AT_ONCE)
    target.publish(batch(BEFORE))
    assert seen(place) == BEFORE
    target.publish(batch(BATCH))
    assert seen(place) == AFTER
    assert target.pending == 0
    assert base.branches == ["main"]
    assert target.merge() == MergeCount(updated=2, inserted=5, superseded=1)
    assert seen(place) == AFTER
    assert target.merge() == MergeCount()


def test_no_table_of_all_keys_is_made(base: lakebed.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KeyFilter, "__init__", never)
    target = store(base, budget=AT_ONCE)
    for rows in (BEFORE, BATCH):
        target.publish(batch(rows))
    assert read(base) == AFTER


def test_rows_that_another_key_makes_equal_become_one(base: lakebed.Dataset) -> None:
    base.extend(batch([Row(1, cursor="2"), Row(1, cursor="3"), Row(2), Row(2)]))
    base.flush()
    target = store(base, budget=AT_ONCE)
    target.publish(batch([Row(1, cursor="1"), Row(2, text="new")]))
    assert read(base) == [Row(1, cursor="3"), Row(2, text="new")]


def test_tensors_that_a_batch_lacks_keep_what_they_have(base: lakebed.Dataset) -> None:
    target = store(base, budget=AT_ONCE)
    target.publish(batch([Row(1), Row(2)]))
    base.create_tensor("kind", htype="class_label", class_names=["cat", "dog"])
    base.kind.extend([0, 1])
    base.flush()
    target.publish(batch([Row(3), Row(2, text="new")]))
    assert read(base) == [Row(1), Row(2, text="new"), Row(3)]
    assert [base.kind[i].numpy().ravel().tolist() for i in range(3)] == [[0], [1], []]


def test_files_and_links_are_replaced(base: lakebed.Dataset) -> None:
    base.create_tensor("photo", htype="image", sample_compression="png")
    base.create_tensor("page", htype="link[image]", sample_compression="png", verify=False)
    target = store(base, budget=AT_ONCE)

    def rows(count: int, shade: int) -> dict[str, pa.Array]:
        photos = []
        for i in range(count):
            out = io.BytesIO()
            Image.new("L", (2, 2), shade + i).save(out, "png")
            photos.append(out.getvalue())
        links = [f"http://there/{shade + i}.png" for i in range(count)]
        return batch([Row(i) for i in range(count)]) | {"photo": pa.array(photos), "page": pa.array(links)}

    target.publish(rows(3, 10))
    target.publish(rows(2, 20))
    assert base.photo.numpy()[:, 0, 0].ravel().tolist() == [20, 21, 12]
    assert base.page.path() == [f"http://there/{i}.png" for i in (20, 21, 12)]


def test_columns_that_do_not_change_together_are_published_by_nobody(
    place: MemoryStorage, base: lakebed.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = store(base, budget=AT_ONCE)
    target.publish(batch(BEFORE))
    with monkeypatch.context() as patched:
        patched.setattr(lakebed.Dataset, "extend", never)
        with pytest.raises(AssertionError):
            target.publish(batch(BATCH))
    base.flush()
    assert seen(place) == BEFORE
    target.publish(batch(BATCH))
    assert seen(place) == AFTER


@pytest.mark.parametrize("when", ["before", "after", "torn"])
def test_a_crash_leaves_all_of_a_publish_or_nothing(when: Literal["before", "after", "torn"]) -> None:
    found = []
    for nth in itertools.count():
        inner = new_memory()
        store(prepared(create_on(inner)), budget=AT_ONCE).publish(batch(BEFORE))
        kill(inner)
        fault = Fault(when, nth=nth, methods=CHANGES)
        is_done = False
        with contextlib.suppress(Crash, StorageError):
            dataset = open_on(FaultyStorage(inner, Planned(fault)))
            store(dataset, budget=AT_ONCE).publish(batch(BATCH))
            is_done = True
        kill(inner)
        found.append(seen(inner))
        assert found[-1] in ([AFTER] if is_done else [BEFORE, AFTER])
        again = open_on(inner)
        store(again, budget=AT_ONCE).publish(batch(BATCH))
        assert read(again) == AFTER
        assert again.branches == ["main"]
        if is_done:
            break
    assert BEFORE in found
    assert nth > 2


# -- what is too much --------------------------------------------------------------------------------------------


def test_rows_of_a_larger_dataset_wait(place: MemoryStorage, base: lakebed.Dataset) -> None:
    store(base).publish(batch(BEFORE))
    target = store(base, budget=Budget(at_once=base.size_approx()))
    target.publish(batch(BATCH))
    assert target.pending == 3
    target.merge()
    assert seen(place) == AFTER


@pytest.mark.parametrize("known", [True, False])
def test_deletions_wait_because_older_rows_may_still_come(base: lakebed.Dataset, known: bool) -> None:
    target = store(base, budget=AT_ONCE)
    target.publish(batch([Row(1, cursor="1")] if known else [Row(2)]))
    target.publish(batch([Row(1, cursor="9", deleted="now")]))
    target.publish(batch([Row(1, cursor="5", text="late")]))
    target.merge()
    assert read(base) == ([] if known else [Row(2)])


def test_what_waits_goes_before_what_comes(base: lakebed.Dataset) -> None:
    store(base).publish(batch(BEFORE))
    store(base).publish(batch([Row(1, text="waits"), Row(2, text="waits")]))
    target = store(base, budget=AT_ONCE)
    target.publish(batch([Row(2, text="comes")]))
    assert [row.text for row in read(base)] == ["waits", "comes", None, None]
    assert base.branches == ["main"]


def test_deletions_wait_for_older_rows_that_come_late(place: MemoryStorage, base: lakebed.Dataset) -> None:
    target = store(base, budget=AT_ONCE)
    target.publish(batch([Row(1, cursor="1"), Row(2)]))
    target.publish(batch([Row(1, cursor="3", deleted="now")]))
    target.publish(batch([Row(1, cursor="2", text="late")]))
    assert target.pending == 2
    target.merge()
    assert seen(place) == [Row(2)]


def test_rows_join_those_that_wait(base: lakebed.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    target = store(base, budget=AT_ONCE)
    target.publish(batch(BEFORE))
    with monkeypatch.context() as patched:
        patched.setattr(Allowance, "take", lambda *_, **__: False)
        target.publish(batch([Row(1, text="b")]))
    target.publish(batch([Row(1, text="c")]))
    assert target.pending == 2
    target.merge()
    assert read(base)[0] == Row(1, text="c")


def test_keys_that_came_at_once_are_known_later(
    base: lakebed.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed = iter([False, False, True, False])
    monkeypatch.setattr(Allowance, "take", lambda *_, **__: next(allowed))
    target = store(base, budget=AT_ONCE)
    target.publish(batch([Row(1)]))
    target.publish(batch([Row(1, text="b")]))  # all keys are learned
    target.merge()
    target.publish(batch([Row(2)]))
    target.publish(batch([Row(2, text="b")]))
    target.merge()
    assert read(base) == [Row(1, text="b"), Row(2, text="b")]


def test_what_is_written_anew_goes_with_what_comes(base: lakebed.Dataset) -> None:
    store(base).publish(batch(Row(i, text="x" * 100) for i in range(100)))
    size = base.size_approx()
    few, many = batch([Row(1)]), batch(Row(i, text="x" * 100) for i in range(100))
    allowance = Allowance(2 * size + 1)
    assert [allowance.take(base, few, is_hurried=False) for _ in range(4)] == [True, True, False, False]
    # As many bytes as the dataset has pay for it; what is saved up has an end.
    assert [allowance.take(base, rows, is_hurried=False) for rows in (many, many)] == [True, True]
    assert [allowance.take(base, few, is_hurried=False) for _ in range(3)] == [True, False, False]


@pytest.mark.parametrize(("spare", "waits"), [(0, 1), (1, 0)])
def test_only_very_little_goes_at_once_where_time_is_short(
    base: lakebed.Dataset, spare: int, waits: int
) -> None:
    store(base).publish(batch(BEFORE))

    def hurry() -> None:
        raise MergePutOffError

    budget = Budget(at_once=Allowance.HURRIED * (base.size_approx() + spare))
    target: UpsertStore = store(base, budget=budget, checkpoint=hurry)
    target.publish(batch([Row(1, text="b")]))
    assert target.pending == waits


def test_a_dataset_of_no_bytes_is_a_small_one(base: lakebed.Dataset) -> None:
    few = batch([Row(1)])
    assert Allowance(1).take(base, few, is_hurried=False)
    assert not Allowance(0).take(base, few, is_hurried=False)


@pytest.mark.parametrize("count", [1, 7, 500])
def test_updates_in_any_order_reach_their_rows(base: lakebed.Dataset, count: int) -> None:
    random = np.random.default_rng(count)
    target = store(base, budget=AT_ONCE)
    rows = [Row(int(i), text=f"old {i}") for i in random.permutation(2 * count)]
    target.publish(batch(rows))
    newer = {int(i): f"new {i}" for i in random.permutation(2 * count)[:count]}
    target.publish(batch(Row(i, text=text) for i, text in newer.items()))
    assert read(base) == [replace(row, text=newer.get(row.id, row.text)) for row in rows]
