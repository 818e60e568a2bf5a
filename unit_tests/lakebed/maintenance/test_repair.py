"""Repair of datasets of ours, of lost histories, of displaced publishes; and what opening has to do with it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lakebed
from lakebed.documents.version_tree import FIRST, OURS, CommitNode, VersionTree, new_id
from lakebed.errors import (
    DatasetCorruptError,
    DatasetNotFoundError,
    DisplacedWarning,
    HistoryMissingError,
    LockedException,
)
from lakebed.maintenance.repair import recover, repair
from lakebed.maintenance.verify import verify
from lakebed.storage.local import LocalStorage
from lakebed.storage.memory import MemoryStorage
from lakebed.versions.chunk_table import folder_of
from lakebed.versions.locks.marker import lock_key, read_lock
from lakebed.versions.opening import TREE_KEY, manifest_key, open_version, read_tree
from unit_tests.lakebed.afar import Afar, made_on
from unit_tests.lakebed.crash_states import State
from unit_tests.lakebed.datasets import content, copy_of, create_on, new_memory, objects, open_on, visible

WORDS = [f"word {i}" for i in range(20)]


@pytest.fixture
def storage() -> MemoryStorage:
    """Two commits on main, changes after them, and a branch with a commit."""
    storage = new_memory()
    ds = create_on(storage)
    ds.create_tensor("x", dtype="int64")
    ds.create_tensor("g/words", htype="text")
    ds.extend({"x": np.arange(20), "g/words": WORDS})
    ds.commit("first")
    ds.checkout("side", create=True)
    ds.x.append(100)
    ds.commit("on the side")
    ds.checkout("main")
    ds.x[3] = 33
    ds.commit("second")
    ds.extend({"x": [20, 21], "g/words": ["later", "latest"]})
    ds.close()
    return storage


def branches(storage: MemoryStorage) -> dict[str, Any]:
    """Everything on every branch but random ids."""
    names = open_on(storage, read_only=True).branches
    return {name: visible(open_on(storage, name, read_only=True)) for name in names}


def files(storage: MemoryStorage, end: str) -> list[str]:
    """Keys in versions of the history that end so, the longest files first."""
    versions = read_tree(storage).commits
    found = [
        (stat.size, key)
        for key, stat in storage.list()
        if key.endswith(end) and any(version in key for version in versions)
    ]
    return [key for _, key in sorted(found, reverse=True)]


def flip(storage: MemoryStorage, key: str, at: int = -1) -> None:
    """Change one byte."""
    data = bytearray(storage.get(key))
    data[at] ^= 1
    storage.put(key, bytes(data))


def test_there_is_nothing_to_do_for_a_sound_dataset(storage: MemoryStorage) -> None:
    """And nothing is written."""
    before = objects(storage)
    report = repair(storage, apply=True)
    assert (report.steps, report.versions, report.is_needed) == ([], {}, False)
    assert objects(storage) == before


@pytest.mark.parametrize(
    "end", ["tensor_meta.json", "chunks_index/unsharded", "dataset_meta.json", "commit_diff"]
)
def test_files_that_the_manifest_has_are_put_back(storage: MemoryStorage, end: str) -> None:
    """Byte for byte, whether they were changed or are gone."""
    before = objects(storage)
    changed, gone = files(storage, end)[:2]
    flip(storage, changed, 2)
    storage.delete(gone)
    assert not verify(storage).is_sound
    report = repair(storage, apply=True)
    assert report.lost_rows == 0
    assert objects(storage) == before
    assert verify(storage, deep=True).is_sound


def test_a_lock_that_vouches_for_a_manifest_stays() -> None:
    """On a store a released lock is no leftover, and one whose writer was killed is given back: it has the seal."""
    store = Afar()
    ds = made_on(store)
    ds.create_tensor("x", dtype="int64").extend([1, 2])
    ds.commit("one")
    ds.close()
    head = read_tree(store).branches["main"]
    released = read_lock(store, head).lock
    assert not repair(store, apply=True).is_needed
    assert released is not None
    assert read_lock(store, head).lock == released
    store.put(lock_key(head), replace(released, expiry=1.0).to_bytes())
    store.delete(f"{folder_of(head)}x/tensor_meta.json")
    assert [step.kind for step in repair(store).steps] == ["lock", "document"]
    assert repair(store, apply=True).lost_rows == 0
    assert read_lock(store, head).lock == released
    assert verify(store, deep=True).is_sound
    assert not repair(store, apply=True).is_needed


@pytest.mark.parametrize("branch", ["main", "side"])
def test_a_version_whose_schema_is_gone_is_no_branch_that_was_being_deleted(
    storage: MemoryStorage, branch: str
) -> None:
    """The manifest has it, of the head and of the commit below."""
    before = branches(storage)
    head = read_tree(storage).head(branch)
    for version in (head.id, str(head.parent)):
        storage.delete(f"{folder_of(version)}dataset_meta.json")
    repair(storage, apply=True)
    assert branches(storage) == before
    assert verify(storage).is_sound


@pytest.mark.parametrize("lost_chunk", [False, True])
def test_a_head_of_which_only_chunks_are_left_is_rebuilt_from_the_manifest(
    storage: MemoryStorage, lost_chunk: bool
) -> None:
    """Its last chunk has the rows of the chunk before, too; only the manifest tells which rows it replaces."""
    before = branches(storage)
    folder = folder_of(read_tree(storage).head("main").id)
    for key, _ in list(storage.list(folder)):
        if "/chunks/" not in key or (lost_chunk and "/x/" in key):
            storage.delete(key)
    lost = repair(storage, apply=True).lost_rows
    assert verify(storage, deep=True).is_sound
    if lost_chunk:
        ds = open_on(storage, read_only=True)
        assert lost > 0
        assert ds.x[:20].numpy().ravel().tolist() == [*range(3), 33, *range(4, 20)]
    else:
        assert lost == 0
        assert branches(storage) == before


def test_commit_infos_are_written_anew(storage: MemoryStorage) -> None:
    """From the history, whose copies they are."""
    before = objects(storage)
    storage.put(files(storage, "commit_info.json")[0], b"{")
    repair(storage, apply=True)
    assert objects(storage) == before


@pytest.mark.parametrize("version", ["head", "commit"])
@pytest.mark.parametrize("change", ["missing", "damaged"])
def test_manifests_are_made_again(storage: MemoryStorage, version: str, change: str) -> None:
    """Of heads and of commits; what is read stays the same."""
    before = branches(storage)
    tree = read_tree(storage)
    head = tree.head("main")
    key = manifest_key(head.id if version == "head" else str(head.parent))
    if change == "missing":
        storage.delete(key)
    else:
        flip(storage, key, 100)
    assert repair(storage, apply=True).lost_rows == 0
    assert branches(storage) == before
    assert verify(storage, deep=True).is_sound
    assert not repair(storage, apply=True).steps


def test_a_damaged_chunk_of_a_head_loses_its_samples_only(storage: MemoryStorage) -> None:
    """Which are named; nothing else changes, and commits that have the chunk keep it as it is."""
    head = folder_of(read_tree(storage).head("main").id)
    (key,) = [key for key, _ in storage.list(head + "x/chunks/")]  # all rows, as short tails are merged
    flip(storage, key)
    report = repair(storage, apply=True)
    assert [step.rows for step in report.steps if "from the parent version" in step.message] == [(0, 19)]
    assert [(step.tensor, step.rows, step.lost_rows) for step in report.steps if step.lost_rows] == [
        ("x", (20, 21), 2)
    ]
    ds = open_on(storage)
    assert len(ds.x) == len(ds["g/words"]) == 22
    assert [value.tolist() for value in ds.x.numpy(aslist=True)[:20]] == [
        [i] for i in (0, 1, 2, 33, *range(4, 20))
    ]
    assert ds["g/words"].numpy()[-1].tolist() == ["latest"]
    assert verify(storage, deep=True).is_sound
    assert report.versions == {"main": ds._session.snapshot.version_id}


def test_damage_in_a_commit_is_told_and_stays(storage: MemoryStorage) -> None:
    """A commit is what its id says; the head that shares the chunk is mended all the same."""
    first = next(i for i, node in read_tree(storage).commits.items() if node.message == "first")
    (shared,) = [key for key, _ in storage.list(folder_of(first)) if "g/words/chunks/" in key]
    storage.delete(shared)
    report = repair(storage, apply=True)
    assert {step.version for step in report.remaining} >= {first}
    assert all("commits are never changed" in step.message for step in report.remaining)
    assert open_on(storage)["g/words"].numpy()[-1].tolist() == ["latest"]
    damage = verify(storage, deep=True).damage
    assert damage
    assert not {d.version for d in damage} & set(read_tree(storage).branches.values())
    assert not repair(storage, apply=True).is_needed


def test_a_lost_history_is_made_again(storage: MemoryStorage) -> None:
    """With all commits, messages, branches and what they hold; a damaged one gives names of branches, too."""
    before, tree = branches(storage), read_tree(storage)
    for damage in ("missing", "half", "empty", "flipped"):
        copy = copy_of(storage)
        data = copy.get(TREE_KEY)
        if damage == "missing":
            copy.delete(TREE_KEY)
        else:
            changed = {
                "half": data[: len(data) // 2],
                "empty": b"",
                "flipped": data.replace(b'"main"', b'"mai\xff"'),
            }
            copy.put(TREE_KEY, changed[damage])
        with pytest.raises(DatasetCorruptError, match=r"version_control_info.json .*lakebed repair"):
            open_on(copy)
        assert not verify(copy).is_sound if damage != "missing" else True
        report = repair(copy, apply=True)
        assert report.lost_rows == 0
        found = branches(copy)
        assert found["main"] == before["main"], damage
        assert before["side"] in found.values(), damage
        again = read_tree(copy)
        assert {i for i, node in again.commits.items() if node.is_committed} == {
            i for i, node in tree.commits.items() if node.is_committed
        }
        assert verify(copy, deep=True).is_sound
        assert not repair(copy, apply=True).steps


def test_a_missing_history_is_no_dataset_that_was_never_there() -> None:
    """Two errors in one: what handles either goes on to work. An empty folder is just empty."""
    storage = State("commit again", 0).stored()
    storage.delete(TREE_KEY)
    with pytest.raises(HistoryMissingError, match="lakebed repair"):
        open_on(storage)
    assert issubclass(HistoryMissingError, DatasetNotFoundError)
    with pytest.raises(DatasetNotFoundError) as caught:
        open_on(new_memory())
    assert not isinstance(caught.value, DatasetCorruptError)
    with pytest.raises(DatasetNotFoundError):
        repair(new_memory())


def test_a_history_of_3_x_is_made_again_too() -> None:
    """Its heads have a commit_info.json, and before the first commit there is none at all."""
    for operation, rows in (("append", 5), ("commit again", 7), ("merge", 6)):
        storage = State(operation, 0).stored()
        storage.put(TREE_KEY, b"")
        assert repair(storage, apply=True).lost_rows == 0
        assert len(open_on(storage).number) == rows
        assert verify(storage, deep=True).is_sound


def test_a_flipped_byte_anywhere_is_mended_or_told(storage: MemoryStorage) -> None:
    """After a repair every version opens, and verify finds no damage but what the repair said would stay."""
    rng = random.Random(4)
    keys = sorted(key for key, _ in storage.list() if not key.endswith(".lock"))
    for key in rng.sample(keys, 25):
        copy = copy_of(storage)
        if not (size := len(copy.get(key))):
            continue
        flip(copy, key, rng.randrange(size))
        report = repair(copy, apply=True)
        remaining = {step.version for step in report.remaining}
        damage = [d for d in verify(copy, deep=True).damage if d.version not in remaining]
        assert not damage, (key, [str(d) for d in damage], [str(step) for step in report.steps])


# -- opening -------------------------------------------------------------------------------------------------


def test_a_head_that_contradicts_itself_is_read_but_not_changed() -> None:
    """Until it is repaired; a change on top would make it worse."""
    storage = State("append", 50).stored()
    ds = open_on(storage)
    assert ds.number.numpy()[:5].ravel().tolist() == [1000, 1001, 1002, 1003, 1004]
    with pytest.raises(DatasetCorruptError, match=r"can be read, but not changed.*lakebed repair"):
        ds.number.append(7)
    with pytest.raises(DatasetCorruptError, match="can be read, but not changed"):
        open_on(storage).commit("no")
    repair(storage, apply=True)
    open_on(storage).number.append(7)


def test_reset_repairs_what_does_not_open_and_keeps_what_does(tmp_path: Path) -> None:
    """3.x goes back to the last commit then; here everything that decodes stays."""
    for operation, writes in (("append after commit", 30), ("append", 20)):
        path = tmp_path / operation.replace(" ", "_")
        storage, memory = LocalStorage(path), State(operation, writes).stored()
        storage.put_many([(key, memory.get(key)) for key, _ in memory.list()], durable=False)
        with pytest.raises(DatasetCorruptError, match="lakebed repair"):
            lakebed.load(path, check_integrity=True)
        ds = lakebed.load(path, reset=True)
        assert len(ds.number) == len(ds.words) == 5
        ds.number.append(1)
        ds.close()
        ds = lakebed.load(path, reset=True, check_integrity=True)
        assert len(ds.number) == 6
        ds.checkout("main", reset=True)
        assert len(ds.number) == 6


def test_recover_leaves_a_sound_dataset_alone(storage: MemoryStorage) -> None:
    """Uncommitted changes are no damage."""
    before = objects(storage)
    recover(storage, "main")
    recover(storage, None)
    assert objects(storage) == before


def test_nobody_else_may_write_meanwhile() -> None:
    """A repair takes the writer's lock."""
    storage = State("append after commit", 30).stored()
    other = open_on(storage)
    other._session.acquire_lock()
    with pytest.raises(LockedException):
        repair(storage, apply=True)
    other._session.unlock()
    assert repair(storage, apply=True).is_needed


def test_locks_of_the_dead_are_removed() -> None:
    """One that was cut short, which 3.9.52 can not read, and one that ran out."""
    storage = State("commit again", 0).stored()
    locks = [key for key, _ in storage.list() if key.endswith(".lock")]
    head = folder_of(read_tree(storage).head("main").id)
    storage.put(f"{head}dataset_lock.lock", b"\1\2")
    storage.put("version_control_info.lock", b"")
    assert not verify(storage).is_sound
    report = repair(storage, apply=True)
    assert {step.kind for step in report.steps} == {"lock"}
    assert len(report.steps) == len({*locks, f"{head}dataset_lock.lock", "version_control_info.lock"})
    assert not [key for key, _ in storage.list() if key.endswith("_lock.lock")]


# -- displaced publishes ---------------------------------------------------------------------------------------


def displace(storage: MemoryStorage, change: Callable[[lakebed.Dataset], Any]) -> str:
    """Publish a change, and let a stale 3.9.52 take the branch back and append a row; returns the displaced head."""
    before, old = read_tree(storage), {key: storage.get(key) for key, _ in storage.list()}
    head = before.head("main").id
    ds = open_on(storage)
    change(ds)
    ds.close()
    after = read_tree(storage)
    lost = after.head("main")
    # Its own files as it left them, the union of both trees, and no key that it does not know.
    for key, data in old.items():
        if key.startswith(folder_of(head)) and storage.stat(key) is None:
            storage.put(key, data)
    commits = {**after.commits, **before.commits, lost.id: lost}
    parent = commits[str(lost.parent)]
    children = tuple(dict.fromkeys((*parent.children, lost.id, head)))
    nodes = {i: CommitNode(**_fields(node)) for i, node in commits.items()}
    nodes[parent.id] = CommitNode(**{**_fields(parent), "children": children})
    storage.put(TREE_KEY, VersionTree(nodes, before.branches).to_bytes())
    return lost.id


def _fields(node: CommitNode) -> dict[str, Any]:
    names = ("id", "branch", "parent", "children", "message", "time", "user")
    return {name: getattr(node, name) for name in names}


def ours(ds: lakebed.Dataset) -> None:
    """Publish two rows."""
    ds.extend({"x": [500, 501], "g/words": ["our", "rows"]})


def test_a_displaced_publish_is_appended_again(storage: MemoryStorage, tmp_path: Path) -> None:
    """Behind the rows that are there now, once, in one step; opening says so before."""
    lost = displace(storage, ours)
    tree = read_tree(storage)
    assert lost in tree.commits
    assert OURS not in tree.extra
    plan = repair(storage)
    assert [(step.kind, step.tensor, step.rows) for step in plan.steps] == [
        ("rebase", "x", (22, 23)),
        ("rebase", "g/words", (22, 23)),
    ]
    report = repair(storage, apply=True)
    assert [str(step) for step in report.steps] == [str(step) for step in plan.steps]
    ds = open_on(storage)
    assert ds.x.numpy().ravel().tolist()[-4:] == [20, 21, 500, 501]
    assert ds["g/words"].numpy().ravel().tolist()[-2:] == ["our", "rows"]
    assert lost not in read_tree(storage).commits
    assert verify(storage, deep=True).is_sound
    assert not repair(storage, apply=True).steps


def test_opening_tells_of_a_displaced_publish(tmp_path: Path) -> None:
    """Once per opening, and only while the history is the one that 3.9.52 wrote."""
    ds = lakebed.empty(tmp_path / "ds")
    ds.create_tensor("x", dtype="int64")
    ds.create_tensor("g/words", htype="text")
    ours(ds)
    ds.close()
    storage = LocalStorage(tmp_path / "ds")
    displace(storage, ours)  # type: ignore[arg-type]
    with pytest.warns(DisplacedWarning, match=r"displaced 1 versions.*lakebed repair"):
        lakebed.load(tmp_path / "ds", read_only=True)
    repair(storage, apply=True)
    assert len(lakebed.load(tmp_path / "ds", read_only=True).x) == 4


def test_what_can_not_be_appended_stays_as_a_branch(storage: MemoryStorage) -> None:
    """Changed rows and new tensors are for people to merge; nothing is thrown away."""

    def change(ds: lakebed.Dataset) -> None:
        ours(ds)
        ds.x[0] = 1234
        ds.create_tensor("new", dtype="int8")
        ds.new.append(5)

    lost = displace(storage, change)
    report = repair(storage, apply=True)
    assert {step.tensor for step in report.steps if "is kept as branch" in step.message} == {"x", "new"}
    assert open_on(storage).x.numpy().ravel().tolist()[-2:] == [500, 501]
    kept = open_on(storage, f"displaced_{lost[:8]}", read_only=True)
    assert kept.x.numpy().ravel()[0] == 1234
    assert kept.new.numpy().ravel().tolist() == [5]
    assert verify(storage, deep=True).is_sound
    assert not repair(storage, apply=True).steps


OTHER_CHANGES: dict[str, Callable[[lakebed.Dataset], Any]] = {
    "rows were removed": lambda ds: ds.pop(0),
    "info": lambda ds: ds.x.info.update(unit="m"),
    "info of the dataset": lambda ds: ds.info.update(about="x"),
    "renamed": lambda ds: ds.rename_tensor("x", "y"),
    "deleted": lambda ds: ds.delete_tensor("x"),
    "cleared": lambda ds: ds.x.clear(),
}


@pytest.mark.parametrize("change", OTHER_CHANGES)
def test_changes_that_are_no_new_rows_are_told_and_kept(storage: MemoryStorage, change: str) -> None:
    """On a branch of their own: whoever made them may merge them."""
    lost = displace(storage, OTHER_CHANGES[change])
    before = branches(storage)["main"]
    report = repair(storage, apply=True)
    assert any("is kept as branch" in step.message for step in report.steps)
    assert branches(storage)["main"] == before
    assert f"displaced_{lost[:8]}" in branches(storage)


def test_rows_of_renamed_tensors_find_their_way(storage: MemoryStorage) -> None:
    """By the key, which stays; no row comes without its other half."""

    def change(ds: lakebed.Dataset) -> None:
        ds.rename_tensor("g/words", "g/texts")
        ds.extend({"x": [500], "g/texts": ["ours"]})

    displace(storage, change)
    repair(storage, apply=True)
    ds = open_on(storage)
    assert ds.x.numpy().ravel()[-1] == 500
    assert ds["g/words"].numpy().ravel()[-1] == "ours"
    assert len(ds.x) == len(ds["g/words"])


def test_rows_without_ids_are_told_apart_by_position() -> None:
    """The manifest of the other head says how many rows both have in common."""
    storage = new_memory()
    ds = create_on(storage)
    ds.create_tensor("x", dtype="int64", create_id_tensor=False, create_shape_tensor=False)
    ds.create_tensor("g/words", htype="text", create_id_tensor=False)
    ds.extend({"x": [1, 2], "g/words": ["a", "b"]})
    ds.close()
    displace(storage, ours)
    repair(storage, apply=True)
    assert open_on(storage).x.numpy().ravel().tolist() == [1, 2, 500, 501]
    assert open_on(storage)["g/words"].numpy().ravel().tolist() == ["a", "b", "our", "rows"]


def test_what_a_reset_left_over_is_no_publish(golden: Path) -> None:
    """3.9.52 deletes the folder of the head that it resets, and leaves its node."""
    storage = State("reset", 131).stored()
    ends = [node for node in read_tree(storage).commits.values() if not node.is_committed]
    assert len(ends) == 2
    steps = repair(storage, apply=True).steps
    assert {step.kind for step in steps} <= {"lock"}


def test_labels_keep_their_meaning() -> None:
    """Where both lines gave the same number to different names."""
    storage = new_memory()
    ds = create_on(storage)
    ds.create_tensor("label", htype="class_label", class_names=["cat"])
    ds.label.append("cat")
    ds.close()

    def change(ds: lakebed.Dataset) -> None:
        ds.label.append("dog")

    lost = displace(storage, change)
    copy = read_tree(storage)
    assert lost in copy.commits
    ds = open_on(storage)
    ds.label.append("cow")
    ds.close()
    repair(storage, apply=True)
    ds = open_on(storage)
    names = ds.label.info.class_names
    assert [names[int(i)] for i in ds.label.numpy().ravel()] == ["cat", "cow", "dog"]


def test_ids_stay_what_they_were(storage: MemoryStorage) -> None:
    """Rows that were not lost are the same samples for a merge."""
    before = content(open_on(storage))["tensors"]["_x_id"]
    head = folder_of(read_tree(storage).head("main").id)
    (key,) = [key for key, _ in storage.list(head + "g/words/chunks/")]
    storage.delete(key)
    repair(storage, apply=True)
    assert content(open_on(storage))["tensors"]["_x_id"] == before


def test_the_broken_head_stays_until_it_is_collected(storage: MemoryStorage) -> None:
    """A repair adds; what it was made from is still there, byte for byte."""
    tree = read_tree(storage)
    old = tree.head("main").id
    (key,) = [key for key, _ in storage.list(folder_of(old) + "x/chunks/")]
    flip(storage, key)
    before = objects(storage)
    report = repair(storage, apply=True)
    after = objects(storage)
    assert report.versions["main"] != old
    kept = {name for name in before if name.startswith(folder_of(old))}
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}
    assert open_version(storage, read_tree(storage), report.versions["main"]).tensors


def test_reports_are_plain_data(storage: MemoryStorage) -> None:
    """For programs."""
    storage.put(f"versions/{new_id()}/dataset_lock.lock", b"")
    document = json.loads(json.dumps(repair(storage).to_json()))
    assert document["needed"]
    assert document["applied"] is False
    assert document["steps"][0]["kind"] == "lock"
    assert FIRST not in document["versions"]
