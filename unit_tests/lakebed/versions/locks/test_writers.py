"""Two writers: one wins, the other hears of it in plain words."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

import lakebed
from lakebed.documents.lock import DatasetLock
from lakebed.errors import CommitFailed, LockedException, ReadOnlyModeError
from lakebed.storage.memory import MemoryStorage
from lakebed.versions.create import create
from lakebed.versions.opening import TREE_KEY, read_tree
from lakebed.versions.publish import publish
from lakebed.versions.swap import read_tree_at
from lakebed.versions.updates import SwapHead
from unit_tests.effort import PATIENCE
from unit_tests.lakebed.datasets import create_on, kill, new_memory, objects, open_on


def elsewhere(code: str, path: Path) -> str:
    """Run code in another process and return what it prints."""
    program = "import sys, lakebed\npath = sys.argv[1]\n" + textwrap.dedent(code)
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    return done.stdout.strip()


WRITE = """
try:
    ds = lakebed.load(path)
    ds.x.append(2)
    ds.flush()
    print("written")
except lakebed.LockedException as error:
    print(error)
"""


def test_another_process_hears_who_holds_the_lock_and_can_still_read(tmp_path: Path) -> None:
    """LockedException names the process that writes; readers are not kept out and see published rows only."""
    path = tmp_path / "ds"
    ds = lakebed.empty(path)
    ds.create_tensor("x", dtype="int64")
    ds.flush()
    with ds:
        ds.x.append(1)
        said = elsewhere(WRITE, path)
        assert "locked for writing by process" in said
        assert elsewhere("print(len(lakebed.load(path).x))", path) == "0"
    assert elsewhere(WRITE, path) == "written"
    assert lakebed.load(path).x.numpy().ravel().tolist() == [1, 2]


def test_a_writer_goes_on_from_what_another_process_published(tmp_path: Path) -> None:
    """A dataset that was open all the time appends after the rows of others, not over them."""
    path = tmp_path / "ds"
    ds = lakebed.empty(path)
    ds.create_tensor("x", dtype="int64")
    ds.x.append(1)
    ds.flush()
    assert elsewhere(WRITE, path) == "written"
    ds.x.append(3)
    ds.flush()
    assert lakebed.load(path).x.numpy().ravel().tolist() == [1, 2, 3]


def test_two_datasets_of_one_process_take_turns() -> None:
    """Alternating changes through two objects all arrive; each builds on what the other published."""
    storage = MemoryStorage("turns")
    create(storage)
    one, two = open_on(storage), open_on(storage)
    one.create_tensor("x", dtype="int64")
    one.x.append(1)
    two.create_tensor("y", dtype="int64")
    two["x"].append(2)
    one.x.append(3)
    one.flush()
    assert open_on(storage).x.numpy().ravel().tolist() == [1, 2, 3]
    assert [*open_on(storage).tensors] == ["x", "y"]


def test_a_dataset_in_a_with_block_keeps_its_lock_from_its_own_process() -> None:
    """Inside `with ds:` another dataset of the same process is refused."""
    storage = MemoryStorage("kept")
    create(storage)
    one, two = open_on(storage), open_on(storage)
    with one, pytest.raises(LockedException, match="this process"):
        two.create_tensor("y")
    two.create_tensor("y")
    two.flush()
    assert [*open_on(storage).tensors] == ["y"]


def test_a_deep_lake_writer_keeps_us_out_until_its_lock_runs_out() -> None:
    """A live 3.x lock of somebody else is LockedException, one that ran out is taken over."""
    storage = MemoryStorage("foreign")
    create(storage)
    ds = open_on(storage)
    key = f"versions/{ds._session.snapshot.version_id}/dataset_lock.lock"
    storage.put(key, DatasetLock(b"\1\2\3\4\5\6", time.time() + 100, 4615).to_bytes())
    with pytest.raises(LockedException, match="Deep Lake 3"):
        ds.create_tensor("x")
    storage.put(key, DatasetLock(b"\1\2\3\4\5\6", time.time() - 1, 4615).to_bytes())
    ds.create_tensor("x")
    ds.flush()
    assert "x" in open_on(storage)


def test_the_lock_of_a_killed_writer_of_this_machine_does_not_count() -> None:
    """The 3.x lock file of a process that is gone keeps nobody out."""
    storage = MemoryStorage("killed")
    create(storage)
    ds = open_on(storage)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    mine = DatasetLock.own(time.time())
    key = f"versions/{ds._session.snapshot.version_id}/dataset_lock.lock"
    storage.put(key, DatasetLock(mine.node, time.time() + 300, gone.pid).to_bytes())
    ds.create_tensor("x")
    ds.flush()
    assert "x" in open_on(storage)


def test_while_we_write_a_deep_lake_writer_finds_a_live_lock_in_old_and_new_head() -> None:
    """Our own 3.x lock moves with the head and goes when we are done."""
    storage = MemoryStorage("live")
    create(storage)
    ds = open_on(storage)
    with ds:
        for _ in range(2):
            ds.create_tensor(f"x{_}")
            lock = DatasetLock.from_bytes(
                storage.get(f"versions/{ds._session.snapshot.version_id}/dataset_lock.lock")
            )
            assert lock.expiry > time.time() + 200
            ds.flush()
    assert not [key for key, _ in storage.list("versions/") if key.endswith("dataset_lock.lock")]


def test_a_lost_race_is_an_error_and_nothing_of_it_is_visible() -> None:
    """A publish on a head that somebody replaced leaves the version tree as it is."""
    storage = MemoryStorage("race")
    create(storage)
    slow = open_on(storage)
    at = read_tree_at(storage)
    fast = open_on(storage)
    fast.create_tensor("x")
    fast.flush()
    before = storage.get("version_control_info.json")
    with pytest.raises(CommitFailed, match="another writer"):
        publish(storage, at, [SwapHead("main", "0" * 40)], [slow._session.snapshot])
    assert storage.get("version_control_info.json") == before


def test_read_only_datasets_refuse_changes() -> None:
    """Also at an old commit, where a writer would start a branch."""
    storage = MemoryStorage("refuse")
    create(storage)
    ds = open_on(storage)
    ds.create_tensor("x", dtype="int64")
    ds.x.append(1)
    first = ds.commit("one")
    ds.x.append(2)
    ds.commit("two")
    old = open_on(storage, first)
    old.read_only = True
    with pytest.raises(ReadOnlyModeError, match="read-only"):
        old.x.append(3)
    assert len(open_on(storage).x) == 2


def test_writers_on_two_branches_work_at_the_same_time_and_both_survive() -> None:
    """There is one writer per branch, not per dataset."""
    storage = MemoryStorage("branches")
    create(storage)
    one = open_on(storage)
    one.create_tensor("x", dtype="int64")
    one.x.append(0)
    one.commit("base")
    one.checkout("side", create=True)
    one, two = open_on(storage), open_on(storage, "side")
    with one, two:
        one.x.append(1)
        two.x.append(2)
        two.flush()
        one.flush()
        two.x.append(3)
    one.commit("on main")
    two.commit("on side")
    assert open_on(storage).x.numpy().ravel().tolist() == [0, 1]
    assert open_on(storage, "side").x.numpy().ravel().tolist() == [0, 2, 3]


def test_a_lost_race_is_commit_failed_and_publishes_nothing() -> None:
    """If somebody without our lock replaced the head, the publish fails as a whole; a fresh start works."""
    storage = new_memory()
    ds = create_on(storage)
    ds.create_tensor("n", dtype="int64")
    ds.extend({"n": [0]})
    ds.flush()
    ds.append({"n": 100})
    foreign = read_tree(storage).swap_head("main", "f" * 40)
    for key, data in objects(storage).items():
        if key.startswith(f"versions/{read_tree(storage).branches['main']}/"):
            storage.put(key.replace(read_tree(storage).branches["main"], "f" * 40), data)
    storage.put(TREE_KEY, foreign.to_bytes())
    with pytest.raises(lakebed.CommitFailed, match="another writer"):
        ds.flush()
    assert read_tree(storage).branches["main"] == "f" * 40
    assert len(open_on(storage, read_only=True).n) == 1
    ds.append({"n": 101})
    ds.flush()
    assert open_on(storage, read_only=True).n.numpy().ravel().tolist() == [0, 101]


def test_an_unrelated_rewrite_of_the_tree_is_no_conflict() -> None:
    """A rewrite that changes neither branches nor versions, as 3.9.52 makes one, does not cost a publish."""
    storage = new_memory()
    ds = create_on(storage)
    ds.create_tensor("n", dtype="int64")
    ds.extend({"n": [0]})
    ds.flush()
    ds.append({"n": 5})
    document = json.loads(storage.get(TREE_KEY))
    del document["lakebed"]
    storage.put(TREE_KEY, json.dumps(document).encode())
    ds.flush()
    assert len(open_on(storage, read_only=True)) == 2


def test_a_killed_writer_leaves_no_lock() -> None:
    """After a crash the next writer of this machine goes on at once."""
    storage = new_memory()
    ds = create_on(storage)
    ds.create_tensor("n", dtype="int64")
    ds.extend({"n": [0]})
    ds.flush()
    ds.append({"n": 5})
    kill(storage)
    after = open_on(storage)
    after.append({"n": 6})
    after.flush()
    assert open_on(storage, read_only=True).n.numpy().ravel().tolist() == [0, 6]


def test_infos_of_two_writers_add_up() -> None:
    """A change of one key keeps the keys that another writer set meanwhile, in datasets and tensors."""
    storage = new_memory()
    one = create_on(storage)
    one.create_tensor("n")
    one.flush()
    two = open_on(storage)
    for place in (lambda ds: ds.info, lambda ds: ds.n.info):
        one_info, two_info = place(one), place(two)
        one_info["a"] = 1
        one.flush()
        two_info["b"] = 2
        two.flush()
        one_info["c"] = 3
        one.flush()
        assert dict(place(open_on(storage))) == {"a": 1, "b": 2, "c": 3}


def test_a_tensor_that_another_writer_made_is_not_made_twice() -> None:
    """Names are checked against what is published when the lock is taken, not when the dataset was opened."""
    storage = new_memory()
    one = create_on(storage)
    two = open_on(storage)
    one.create_tensor("n", dtype="int64")
    one.n.append(1)
    one.close()
    with pytest.raises(lakebed.TensorAlreadyExistsError):
        two.create_tensor("n", dtype="float32")
    assert two.n.numpy().tolist() == [[1]]
