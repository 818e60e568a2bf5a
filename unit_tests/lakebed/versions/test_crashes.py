"""A process may end between any two changes of storage: readers see the old state or the new one, never a mixture."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lakebed.dataset.dataset import Dataset
from lakebed.dataset.session import create
from lakebed.errors import DatasetNotFoundError, StorageError
from lakebed.storage.memory import MemoryStorage
from lakebed.testing.faulty import Crash, FaultyStorage
from unit_tests.lakebed.versions.crashes import Operation, end_process, every_crash, history, open_on


def first_rows(ds: Dataset) -> None:
    ds.create_tensor("x", dtype="int32")
    ds.create_tensor("g/t", htype="text")
    ds.create_tensor("c", htype="class_label", class_names=["a"])
    ds.extend(
        {"x": np.arange(5, dtype=np.int32), "g/t": pa.array(["p", None, "", "q", "r"]), "c": list("aabca")}
    )
    ds.info["source"] = "test"
    ds.flush()


def more_rows(ds: Dataset) -> None:
    ds.extend({"x": [7, 8], "g/t": pa.array([None, "s"]), "c": ["new", "a"]})
    ds.flush()


def commit(ds: Dataset) -> None:
    ds.commit("sealed")


def rows_and_commit(ds: Dataset) -> None:
    ds.extend({"x": [7, 8], "g/t": ["u", "v"], "c": ["a", "b"]})
    ds.commit("rows sealed")


def branch(ds: Dataset) -> None:
    ds.checkout("side", create=True)


def rows_on_branch(ds: Dataset) -> None:
    ds.checkout("side")
    more_rows(ds)


def overwrite(ds: Dataset) -> None:
    side = ds.start_overwrite("staging")
    side.create_tensor("x", dtype="int32")
    side.create_tensor("other", htype="text")
    side.extend({"x": [100, 101], "other": ["m", "n"]})
    side.flush()


def finish(ds: Dataset) -> None:
    ds.finish_overwrite("staging")


def dataset_after(*operations: Operation) -> MemoryStorage:
    storage = MemoryStorage("crash-base")
    create(storage)
    ds = open_on(storage)
    for operation in operations:
        operation(ds)
    ds.close()
    return storage


CASES = {
    "first rows": ((), first_rows),
    "more rows": ((first_rows,), more_rows),
    "commit": ((first_rows,), commit),
    "rows and commit": ((first_rows, commit), rows_and_commit),
    "rows after a commit": ((first_rows, commit), more_rows),
    "rows on a branch": ((first_rows, commit, branch), rows_on_branch),
    "finish of an overwrite": ((first_rows, commit, overwrite), finish),
    "finish of an overwrite before any commit": ((first_rows, overwrite), finish),
}


@pytest.mark.parametrize("case", CASES)
def test_every_prefix_of_a_publish_shows_the_old_state_or_the_new_one(case: str) -> None:
    before, operation = CASES[case]
    base = dataset_after(*before)
    old = history(base)
    left = list(every_crash(base, operation, f"crash-{case}"))
    new = history(left[-1][1])
    assert new != old
    seen = [history(storage) for _, storage, _ in left]
    for changes, state in enumerate(seen):
        assert state in (old, new), f"a mixture after {changes} changes"
    switched = [state == new for state in seen]
    assert switched == sorted(switched), "once visible, a publish stays visible"
    assert not switched[0]


@pytest.mark.parametrize("case", CASES)
def test_the_next_writer_works_after_every_crash(case: str) -> None:
    before, operation = CASES[case]
    base = dataset_after(*before)
    for changes, storage, _ in every_crash(base, operation, f"next-{case}"):
        ds = open_on(storage)
        ds.create_tensor("added", dtype="int64")
        ds["added"].extend([1, 2, 3])
        ds.commit(f"after a crash at {changes}")
        again = open_on(storage)
        assert again["added"].numpy().ravel().tolist() == [1, 2, 3]
        assert again.commits[0]["message"] == f"after a crash at {changes}"


@pytest.mark.parametrize("case", ["branch", "overwrite"])
def test_side_branches_appear_whole_or_not_at_all(case: str) -> None:
    operation = {"branch": branch, "overwrite": overwrite}[case]
    base = dataset_after(first_rows, commit)
    main = history(base)["branches"]["main"]
    for _, storage, complete in every_crash(base, operation, f"side-{case}"):
        state = history(storage)
        assert state["branches"]["main"] == main
        if complete:
            assert len(state["branches"]) == 2


def test_a_dataset_is_born_whole_or_not_at_all() -> None:
    for changes in range(100):
        storage = MemoryStorage(f"birth-{changes}")
        try:
            create(FaultyStorage(storage, changes))
        except Crash:
            try:
                found = open_on(storage)
            except DatasetNotFoundError:
                create(storage)
                found = open_on(storage)
            assert found.branches == ["main"]
            assert found.tensors == {}
        else:
            return
    pytest.fail("creation never completed")


def test_a_lost_answer_of_the_last_step_is_settled_by_reading_again() -> None:
    base = dataset_after(first_rows)
    changes = next(
        n for n, storage, _ in every_crash(base, more_rows, "settle") if history(storage) != history(base)
    )
    faulty = FaultyStorage(base, changes - 1, error=lambda: StorageError("no answer"), lost_answer=True)
    ds = open_on(faulty)
    ds.extend({"x": [7, 8], "g/t": pa.array([None, "s"]), "c": ["new", "a"]})
    with pytest.raises(OSError, match="no answer"):
        ds.flush()  # the answer to the swap was lost, then the removal of the old lock fails
    end_process(ds)
    assert len(open_on(base)) == 7


def test_published_folders_are_never_changed_again() -> None:
    storage = dataset_after(first_rows)
    published: dict[str, bytes] = {}

    def check() -> None:
        for key, data in published.items():
            assert storage.get(key) == data, f"{key} was changed after it was published"
        for key, _ in storage.list("versions/"):
            if not key.endswith(("dataset_lock.lock", "commit_info.json")):
                published[key] = storage.get(key)

    check()
    ds = open_on(storage)
    for operation in (more_rows, commit, more_rows, branch, more_rows, commit):
        operation(ds)
        check()
    ds.checkout("main")
    overwrite(ds)
    check()
    finish(ds)
    check()
