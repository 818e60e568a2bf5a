"""The publish protocol: whatever change is the last one before the end, readers see the old or the new state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import StorageError
from lakebed.storage.base import Tail
from lakebed.storage.memory import MemoryStorage
from lakebed.testing.faulty import Crash, FaultyStorage
from lakebed.versions.create import create
from unit_tests.effort import IS_SOAK
from unit_tests.lakebed.datasets import copy_of, create_on, kill, new_memory, open_on, visible

Step = Callable[[lakebed.Dataset], None]


def first_rows(ds: lakebed.Dataset) -> None:
    """Make tensors and publish the first rows."""
    ds.create_tensor("n", dtype="int64")
    ds.create_tensor("g/t", htype="text")
    ds.extend({"n": np.arange(5), "g/t": pa.array(["a", None, "", "d", "e"])})
    ds.info["source"] = "test"
    ds.flush()


def more_rows(ds: lakebed.Dataset) -> None:
    """Publish a second time; the small tails are merged."""
    ds.extend({"n": np.arange(3), "g/t": ["x", "", "z"]})
    ds.flush()


def commit(ds: lakebed.Dataset) -> None:
    """Commit rows that were not published before."""
    ds.extend({"n": [7], "g/t": ["seven"]})
    ds.commit("a commit")


def commit_published(ds: lakebed.Dataset) -> None:
    """Commit what readers see already."""
    ds.commit("a commit")


def branch(ds: lakebed.Dataset) -> None:
    """Start a branch at a commit and write to it."""
    ds.checkout("side", create=True)


def start_overwrite(ds: lakebed.Dataset) -> None:
    """Begin to build new content beside the old one."""
    side = ds.start_overwrite("next")
    side.create_tensor("n", dtype="int64")
    side.extend({"n": [100, 200]})
    side.flush()


def finish_overwrite(ds: lakebed.Dataset) -> None:
    """Put the new content in place."""
    ds.finish_overwrite("next")


def schema(ds: lakebed.Dataset) -> None:
    """Add a tensor, a group and infos."""
    ds.create_tensor("late", htype="class_label", class_names=["a"])
    ds.create_group("empty")
    ds.n.info["unit"] = "m"
    ds.flush()


HISTORY: dict[str, list[Step]] = {
    "first rows": [first_rows],
    "more rows": [first_rows, more_rows],
    "commit": [first_rows, commit],
    "commit published": [first_rows, commit_published],
    "rows after a commit": [first_rows, commit, more_rows],
    "schema": [first_rows, commit, schema],
    "branch": [first_rows, commit, branch],
    "branch with rows": [first_rows, commit, branch, more_rows],
    "start overwrite": [first_rows, commit, start_overwrite],
    "restart overwrite": [first_rows, commit, start_overwrite, start_overwrite],
    "finish overwrite": [first_rows, commit, start_overwrite, finish_overwrite],
    "finish overwrite before any commit": [first_rows, start_overwrite, finish_overwrite],
    "commit overwrite": [first_rows, commit, start_overwrite, finish_overwrite, commit_published],
}


def prepared(steps: list[Step]) -> MemoryStorage:
    """A dataset after some steps."""
    storage = new_memory()
    ds = create_on(storage)
    for step in steps:
        step(ds)
    ds.close()
    return storage


def branches(storage: MemoryStorage) -> dict[str, Any]:
    """What another process's readers see of every branch."""
    names = open_on(storage, read_only=True).branches
    return {name: visible(open_on(storage, name, read_only=True)) for name in names}


def writes_go_on(storage: MemoryStorage, before: dict[str, Any]) -> None:
    """The next writer adds a row to each branch and publishes and commits it."""
    for name in before:
        ds = lakebed.load(f"{storage.url}@{name}")
        ds.n.append(4711)
        ds.flush()
        ds.commit("afterwards")
        seen = lakebed.load(f"{storage.url}@{name}", read_only=True)
        assert seen.n[-1].numpy().tolist() == [4711]
        assert len(seen.n) == len(before[name]["tensors"]["n"][1]) + 1


@pytest.mark.parametrize("name", HISTORY)
def test_a_crash_at_any_change_leaves_the_old_or_the_new_state(name: str) -> None:
    check_crashes(name)


def check_crashes(name: str, step: int = 1) -> None:
    """Killed after 0, 1, 2, ... changes, or every ``step``: load sees one of the two states, and the next writer works.

    The next writer is tried where the state turns, and after every third change.
    """
    *before, last = HISTORY[name]
    start = prepared(before)
    old, new = branches(start), branches(prepared(HISTORY[name]))
    states, last_seen = [], old
    for fail_after in range(0, 500, step):
        storage = copy_of(start)
        faulty = FaultyStorage(storage, fail_after=fail_after)
        ds = open_on(faulty, "side" if name == "branch with rows" else None)
        try:
            last(ds)
        except Crash:
            kill(storage)
        else:
            ds.close()
            break
        seen = branches(storage)
        assert seen in allowed(name, old, new), f"after {faulty.changed[-3:]}"
        states.append(seen == new)
        is_tried = IS_SOAK or fail_after % 3 == 0 or seen != last_seen
        last_seen = seen
        if is_tried and all("n" in branch["tensors"] for branch in seen.values()):
            writes_go_on(storage, seen)
    else:
        pytest.fail("the work never ends")
    assert branches(storage) == new
    assert fail_after > 5
    # Once visible, always visible: nothing that comes after the swap takes it back.
    assert states == sorted(states) or old == new


def allowed(name: str, old: dict[str, Any], new: dict[str, Any]) -> list[dict[str, Any]]:
    """The states that readers may see: an overwrite that starts has two visible steps of its own."""
    if "start overwrite" not in name and "restart" not in name:
        return [old, new]
    bare = {**new, "next": {**new["next"], "tensors": {}}}
    return [old, {k: v for k, v in old.items() if k != "next"}, bare, new]


def test_a_crash_while_creating_leaves_no_dataset_or_an_empty_one() -> None:
    """An interrupted creation is no dataset, and the address can be used again."""
    for fail_after in range(100):
        storage = new_memory()
        try:
            create(FaultyStorage(storage, fail_after=fail_after))
        except Crash:
            pass
        else:
            break
        if lakebed.exists(storage.url):
            assert lakebed.load(storage.url).tensors == {}
        else:
            with pytest.raises(lakebed.DatasetHandlerError):
                lakebed.load(storage.url)
    assert fail_after > 2
    assert lakebed.load(storage.url).branches == ["main"]


def disk_full() -> StorageError:
    """The kind of failure that a process survives."""
    return StorageError("no space left")


@pytest.mark.parametrize("lost_answer", [False, True], ids=["refused", "answer lost"])
@pytest.mark.parametrize("name", ["first rows", "more rows", "commit", "rows after a commit", "schema"])
def test_a_failing_change_can_be_retried(name: str, lost_answer: bool) -> None:
    check_retries(name, lost_answer)


def check_retries(name: str, lost_answer: bool, step: int = 1) -> None:
    """An error of the storage at any change loses nothing: what failed is published by trying again, once."""
    *before, last = HISTORY[name]
    start = prepared(before)
    old, new = branches(start), branches(prepared(HISTORY[name]))
    for fail_after in range(0, 500, step):
        storage = copy_of(start)
        faulty = FaultyStorage(storage, fail_after=fail_after, error=disk_full, lost_answer=lost_answer)
        ds = open_on(faulty)
        try:
            last(ds)
        except StorageError:
            seen = branches(storage)
            assert seen in (old, new)
        else:
            break
        faulty.fail_after = None
        if seen == old and not ds._session.has_unpublished:
            last(ds)  # nothing was taken in: the whole step is repeated
        elif name == "commit" and len(ds.n) == 6:
            ds.commit("a commit")
        else:
            finish(last, ds)
        ds.close()
        assert branches(storage) == new, f"after {faulty.changed}"
    assert branches(storage) == new
    ds.close()


def finish(last: Step, ds: lakebed.Dataset) -> None:
    """Do what is left of a step whose rows were taken in before it failed."""
    if last is first_rows:
        missing = {"n", "g/t"} - set(ds.tensors)
        if missing:
            ds.create_tensor("n", dtype="int64", exist_ok=True)
            ds.create_tensor("g/t", htype="text", exist_ok=True)
        if len(ds.n) == 0:
            ds.extend({"n": np.arange(5), "g/t": pa.array(["a", None, "", "d", "e"])})
        ds.info["source"] = "test"
    if last is schema:
        ds.create_tensor("late", htype="class_label", class_names=["a"], exist_ok=True)
        ds.create_group("empty", exist_ok=True)
        ds.n.info["unit"] = "m"
    ds.flush()


def test_a_failed_flush_keeps_the_rows_for_the_next() -> None:
    """A second flush after an error publishes; it does not return as if there were nothing to do."""
    storage = prepared([first_rows])
    faulty = FaultyStorage(storage, error=disk_full)
    ds = open_on(faulty)
    ds.extend({"n": [1], "g/t": ["x"]})
    faulty.fail_after = faulty.changes
    for _ in range(2):
        with pytest.raises(StorageError, match="no space"):
            ds.flush()
    assert len(open_on(storage, read_only=True)) == 5
    faulty.fail_after = None
    ds.flush()
    assert len(open_on(storage, read_only=True)) == 6
    assert ds.n[-1].numpy().tolist() == [1]


def test_a_lost_answer_of_the_swap_is_settled_by_reading() -> None:
    """If the swap took effect and only its answer was lost, flush succeeds."""
    storage = prepared([first_rows])
    counting = FaultyStorage(copy_of(storage))
    ds = open_on(counting)
    more_rows(ds)
    swap = counting.changed.index("version_control_info.json")
    ds.close()
    faulty = FaultyStorage(storage, fail_after=swap, error=disk_full, lost_answer=True)
    ds = open_on(faulty)
    ds.extend({"n": np.arange(3), "g/t": ["x", "", "z"]})
    ds.flush()
    assert len(open_on(storage, read_only=True)) == 8
    faulty.fail_after = None
    ds.close()


def test_an_answer_that_stays_lost_is_said_to_be_unknown() -> None:
    """If reading again fails too, nobody claims to know: CommitStateUnknown, and a later look tells."""

    class Deaf(FaultyStorage):
        """Also refuses to read once a change has failed."""

        deaf = False

        def get_tail(self, key: str, length: int) -> Tail:
            if self.deaf:
                raise StorageError("unreachable")
            return super().get_tail(key, length)

    def fails() -> StorageError:
        faulty.deaf = True
        return StorageError("connection lost")

    storage = prepared([first_rows])
    faulty = Deaf(storage, error=fails, lost_answer=True)
    ds = open_on(faulty)
    ds.extend({"n": [1], "g/t": ["x"]})
    plain = FaultyStorage(copy_of(storage))
    counted = open_on(plain)
    counted.extend({"n": [1], "g/t": ["x"]})
    counted.flush()
    faulty.fail_after = plain.changed.index("version_control_info.json")
    with pytest.raises(lakebed.CommitStateUnknown, match="lost"):
        ds.flush()
    assert len(open_on(storage, read_only=True)) == 6
    kill(storage)
