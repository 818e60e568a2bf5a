"""Garbage goes, and nothing else: superseded heads little by little, everything that nobody needs in a full sweep."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lakebed
from lakebed import config
from lakebed.documents.lock import DatasetLock
from lakebed.documents.version_tree import VersionTree
from lakebed.maintenance.verify import verify
from lakebed.runtime import clock
from lakebed.session import branches
from lakebed.session import checkout as checkout_module
from lakebed.storage.base import Storage
from lakebed.storage.local import LocalStorage
from lakebed.storage.memory import MemoryStorage
from lakebed.testing import Crash, FaultyStorage, VirtualClock
from lakebed.testing.schedule import Fault, Planned, refused
from lakebed.versions.chunk_table import folder_of
from lakebed.versions.gc import collect as collect_module
from lakebed.versions.gc import sweep as sweep_module
from lakebed.versions.gc.collect import collect
from lakebed.versions.gc.tombstones import Tombstones
from lakebed.versions.refs import Tag, drop_tag, set_tag
from unit_tests.lakebed.datasets import content, copy_of, create_on, kill, new_memory, objects, open_on


@pytest.fixture
def virtual() -> Iterator[VirtualClock]:
    """A clock that begins now: files have times of their own."""
    found = VirtualClock(time.time())
    with clock.replaced(found):
        yield found


@pytest.fixture(autouse=True)
def few_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few heads are kept, and garbage is looked for often."""
    monkeypatch.setattr(config, "KEEP_HEADS", 4)
    monkeypatch.setattr(collect_module, "_EVERY", 2)


def started(storage: Storage) -> lakebed.Dataset:
    """A dataset with one tensor and its hidden companions."""
    ds = create_on(storage)
    ds.create_tensor("n", dtype="int64")
    ds.flush()
    return ds


def publish(ds: lakebed.Dataset, times: int, virtual: VirtualClock | None = None) -> None:
    """Publish rows that say where they are, ten at a time."""
    for _ in range(times):
        rows = len(ds.n)
        ds.n.extend(np.arange(rows, rows + 10))
        ds.flush()
        if virtual is not None:
            virtual.advance(3)


def assert_rows(ds: lakebed.Dataset, rows: int) -> None:
    """Every row is there and says where it is."""
    assert ds.n.numpy().ravel().tolist() == list(range(rows))


def folders(storage: Storage) -> set[str]:
    """Ids of the versions that have files."""
    return {key.split("/")[1] for key, _ in storage.list("versions/")}


def heads(storage: Storage) -> set[str]:
    """Ids of the versions that can be opened."""
    return {v for v in folders(storage) if storage.stat(f"{folder_of(v)}dataset_meta.json")}


def only_what_is_needed(storage: Storage) -> None:
    """Nothing is left to collect, and the dataset is sound."""
    findings = verify(storage, None, deep=True)
    assert findings.is_sound, findings.damage
    assert collect(storage, grace=0).removed == []


# -- what a writer leaves behind ---------------------------------------------------------------------------------------


def test_a_writer_keeps_few_of_its_replaced_heads(virtual: VirtualClock) -> None:
    """However often it publishes, only the newest replaced heads stay, with no chunk that they do not need."""
    storage = new_memory()
    ds = started(storage)
    publish(ds, 60, virtual)
    assert len(heads(storage)) <= config.KEEP_HEADS + 4
    assert_rows(open_on(storage, read_only=True), 600)
    names = {key for key, _ in storage.list() if "/chunks/" in key}
    collect(storage, grace=0)
    assert len(names) - len({key for key, _ in storage.list() if "/chunks/" in key}) <= 3 * (
        config.KEEP_HEADS + 4
    )
    only_what_is_needed(storage)
    publish(ds, 1)
    assert_rows(open_on(storage), 610)


def test_everything_stays_for_the_grace_period_without_newer_heads(virtual: VirtualClock) -> None:
    """A few heads stay until they are old, and go then though nothing newer replaced them."""
    storage = new_memory()
    ds = started(storage)
    publish(ds, 3, virtual)
    assert len(heads(storage)) >= 4
    virtual.advance(config.GRACE_SECONDS)
    publish(ds, 2)
    assert len(heads(storage)) <= 3


def test_young_heads_stay_however_many_there_are(virtual: VirtualClock) -> None:
    """Who has just read the tree has time to read the version it names."""
    del virtual
    storage = new_memory()
    ds = started(storage)
    publish(ds, 12)
    assert len(heads(storage)) >= 12


def test_nothing_goes_early_where_nobody_knows_the_readers(virtual: VirtualClock) -> None:
    """On a storage without leases, only the grace period counts."""
    inner = new_memory()

    class Elsewhere:
        """Another storage, as far as anybody can tell."""

        traits = replace(MemoryStorage.traits, reader_leases=False)

        def __init__(self) -> None:
            self.url = inner.url

        def __getattr__(self, name: str) -> object:
            if name == "inner":
                raise AttributeError(name)
            return getattr(inner, name)

    storage: Storage = Elsewhere()  # type: ignore[assignment]
    ds = started(storage)
    publish(ds, 12, virtual)
    assert len(heads(inner)) >= 12
    virtual.advance(config.GRACE_SECONDS + 60)
    publish(ds, 2, virtual)
    assert len(heads(inner)) <= 4


@pytest.mark.parametrize("place", ["memory", "local"])
def test_a_reader_keeps_its_version(virtual: VirtualClock, tmp_path: Path, place: str) -> None:
    """What was opened is read to its end while the writer goes on and garbage is collected; then it goes."""
    storage: Storage = new_memory() if place == "memory" else LocalStorage(tmp_path / "d")
    ds = started(storage)
    publish(ds, 5, virtual)
    first = open_on(storage, read_only=True)
    publish(ds, 5, virtual)
    second = open_on(storage, read_only=True)
    read = {first._session.snapshot.version_id, second._session.snapshot.version_id}
    publish(ds, 30, virtual)
    assert read <= heads(storage)
    assert len(heads(storage)) <= config.KEEP_HEADS + 6
    kept = collect(storage, grace=0).kept
    assert {(k.name, k.why) for k in kept} == {(v, "somebody reads it") for v in read}
    assert_rows(first, 50)
    assert_rows(second, 100)
    del first, second
    publish(ds, 2, virtual)
    assert not read & heads(storage)
    collect(storage, grace=0)
    only_what_is_needed(storage)


def test_a_reader_keeps_chunks_that_later_heads_dropped(virtual: VirtualClock) -> None:
    """A chunk stays as long as any head that had it is read, however many publishes lie between, and no longer."""
    storage = new_memory()
    ds = started(storage)
    ds.n.extend(np.arange(2000))
    ds.flush()
    (chunk,) = {k for k, _ in storage.list("versions/") if "/n/chunks/" in k}
    publish(ds, 3, virtual)
    reader = open_on(storage, read_only=True)
    publish(ds, 3, virtual)
    ds.n[0] = 0
    ds.flush()
    publish(ds, 30, virtual)
    assert storage.stat(chunk) is not None
    assert_rows(reader, 2030)
    del reader
    publish(ds, 2, virtual)
    assert storage.stat(chunk) is None
    assert_rows(ds, 2380)


def test_a_reader_that_outlives_a_publish_of_its_own_keeps_what_it_reads(virtual: VirtualClock) -> None:
    """Samples that were asked for before this dataset published on are still there afterwards."""
    storage = new_memory()
    ds = started(storage)
    publish(ds, 5, virtual)
    reader = ds._session.reader(ds.n.key, "n")
    version = ds._session.snapshot.version_id
    publish(ds, 30, virtual)
    assert version in heads(storage)
    assert reader.value(49).tolist() == [49]
    del reader
    publish(ds, 2, virtual)
    assert version not in heads(storage)


def test_commits_and_branches_stay(virtual: VirtualClock) -> None:
    """What a commit holds is never garbage, whatever the heads after it do with it."""
    storage = new_memory()
    ds = started(storage)
    seen = {}
    for name in ("one", "two", "three"):
        publish(ds, 6, virtual)
        seen[ds.commit(name)] = len(ds.n)
        publish(ds, 3, virtual)
    ds.checkout("side", create=True)
    publish(ds, 9, virtual)
    ds.n.pop(0)
    ds.flush()
    ds.checkout("main")
    publish(ds, 9, virtual)
    virtual.advance(2 * config.GRACE_SECONDS)
    publish(ds, 2, virtual)
    collect(storage, grace=0)
    for commit, rows in seen.items():
        assert_rows(open_on(storage, commit), rows)
    assert len(open_on(storage, "side").n) == 27 * 10 + 90 - 1
    assert len(open_on(storage, "main").n) == 27 * 10 + 90 + 20
    only_what_is_needed(storage)


def test_an_error_of_deletion_fails_no_publish(
    virtual: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged, nothing is lost, and the garbage goes later."""
    inner = new_memory()
    started(inner).close()
    faults = [Fault(nth=n, methods={"delete"}, keys="versions/*.json", error=refused) for n in (0, 3, 9)]
    ds = open_on(FaultyStorage(inner, Planned(*faults)))
    with caplog.at_level(logging.WARNING):
        publish(ds, 40, virtual)
    assert sum("garbage of" in r.message for r in caplog.records) == len(faults)
    assert len(heads(inner)) <= config.KEEP_HEADS + 4
    assert_rows(open_on(inner), 400)
    collect(inner, grace=0)
    only_what_is_needed(inner)


def test_a_crash_of_the_writer_at_any_deletion_leaves_a_sound_dataset(virtual: VirtualClock) -> None:
    """It opens, verifies, and the next collection finishes the work."""
    for stop in range(0, 60, 7):
        inner = new_memory()
        ds = started(inner)
        publish(ds, 8, virtual)
        kill(inner)
        crash = Fault(nth=stop, methods={"delete"}, keys="*", error=Crash)
        ds = open_on(FaultyStorage(inner, Planned(crash)))
        with pytest.raises(Crash):
            publish(ds, 30, virtual)
        kill(inner)
        again = open_on(inner)
        assert_rows(again, len(again.n))
        assert verify(inner, None, deep=True).is_sound
        publish(again, 2, virtual)
        virtual.advance(400)  # the locks of the writer that was killed run out
        collect(inner, grace=0)
        only_what_is_needed(inner)


def test_opening_looks_again_when_its_version_was_collected(
    virtual: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between reading the tree and reading the version, a writer may have gone on."""
    storage = new_memory()
    ds = started(storage)
    read, calls = checkout_module.read_tree_at, []

    def slowly(storage: Storage) -> object:
        at = read(storage)
        if not calls:
            calls.append(1)
            publish(ds, 12, virtual)
            assert at.tree.branches["main"] not in heads(storage)
        return at

    monkeypatch.setattr(checkout_module, "read_tree_at", slowly)
    assert_rows(open_on(storage, read_only=True), 120)


# -- what others leave behind ------------------------------------------------------------------------------------------


def test_writers_of_one_publish_each_leave_a_bounded_number_of_heads(
    virtual: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever opens, appends and closes, again and again, collects what those before left behind."""
    monkeypatch.setattr(collect_module, "_EVERY", 1)
    monkeypatch.setattr(collect_module, "_MANY", 12)
    monkeypatch.setattr(collect_module, "_TOO_MANY", 12)
    storage = new_memory()
    started(storage).close()
    most = 0
    for _ in range(60):
        ds = open_on(storage)
        publish(ds, 1, virtual)
        ds.close()
        most = max(most, len(heads(storage)))
    assert most <= config.KEEP_HEADS + 14
    assert_rows(open_on(storage), 600)


def test_what_left_lately_is_collected_without_a_look_at_old_commits(
    virtual: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the history, a writer's sweep reads only versions that can refer to what it removes."""
    monkeypatch.setattr(collect_module, "_MANY", 12)
    monkeypatch.setattr(collect_module, "_TOO_MANY", 12)
    storage = new_memory()
    ds = started(storage)
    with clock.replaced(VirtualClock(time.time() - 10 * config.GRACE_SECONDS)):
        old = []
        for _ in range(20):
            ds.n.extend(np.arange(len(ds.n), len(ds.n) + 10))
            old.append(ds.commit("old"))
        ds.close()
    marked: list[str] = []
    mark = sweep_module.mark

    def marking(storage: Storage, tree: VersionTree, version: str, *others: Any) -> None:
        marked.append(version)
        mark(storage, tree, version, *others)

    monkeypatch.setattr(sweep_module, "mark", marking)
    for _ in range(40):
        ds = open_on(storage)
        publish(ds, 1, virtual)
        ds.close()
    assert marked
    assert not set(old) & set(marked)
    assert len(heads(storage)) <= len(old) + config.KEEP_HEADS + 14
    monkeypatch.undo()
    collect(storage, grace=0)
    only_what_is_needed(storage)
    assert_rows(open_on(storage, old[3]), 40)
    assert_rows(open_on(storage), 600)


def test_leftovers_of_a_crash_are_collected_by_the_writer_after_it(
    virtual: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not at once, since nobody knows that it is one, but when the grace period is over."""
    storage = new_memory()
    ds = started(storage)
    publish(ds, 2)
    kill(storage)
    crash = Fault(methods={"put_if"}, keys="version*")
    ds = open_on(FaultyStorage(storage, Planned(crash)))
    with pytest.raises(Crash):
        publish(ds, 1)
    kill(storage)
    orphan = folders(storage) - set(open_on(storage)._session.tree.commits) - heads_retired(storage)
    assert len(orphan) == 1
    storage.put(f"versions/{min(orphan)}/dataset_lock.lock", b"\0" * 18)  # of another process, which is gone
    head = open_on(storage)._session.snapshot.version_id
    storage.put(f"versions/{head}/dataset_lock.lock", DatasetLock(b"\1\0\0\0\0\0", 1.0, 1).to_bytes())
    ds = open_on(storage)
    publish(ds, 2, virtual)
    assert Tombstones.of(ds._session.tree).sweep <= clock.now() + config.GRACE_SECONDS
    assert orphan < folders(storage)
    virtual.advance(config.GRACE_SECONDS + 60)
    publish(ds, 4, virtual)
    assert not orphan & folders(storage)


def heads_retired(storage: Storage) -> set[str]:
    """Folders that the tree says have left it."""
    tombstones = Tombstones.of(open_on(storage)._session.tree)
    return {v for v in folders(storage) if tombstones.lists(v)}


def littered(storage: Storage) -> lakebed.Dataset:
    """A dataset with history, and garbage of every kind around it."""
    ds = started(storage)
    publish(ds, 3)
    ds.commit("one")
    publish(ds, 3)
    ds.checkout("side", create=True)
    publish(ds, 2)
    ds.checkout("main")
    ds.n[3] = 3
    ds.n.pop(len(ds.n) - 1)
    ds.flush()
    ds.close()
    head = ds._session.snapshot.version_id
    for key, data in objects(storage).items():
        if key.startswith(f"versions/{head}/"):
            storage.put(key.replace(head, "a" * 40), data)  # a publish that lost its race
    storage.put(f"versions/{'b' * 40}/n/chunks/abc", b"spilled, and killed")
    storage.put(f"versions/{head}/n/chunks/def", b"nobody names it")
    storage.put(f".lakebed/manifest-{'c' * 40}", b"without a version")
    return ds


def test_a_sweep_removes_every_kind_of_leftover_and_nothing_else() -> None:
    """Lost publishes, spilled chunks, chunks without a name and manifests without a version go; data stays."""
    storage = new_memory()
    ds = littered(storage)
    before = {ref: content(open_on(storage, ref)) for ref in ("main", "side", ds.commit_id)}
    dry = collect(storage, grace=0, dry_run=True)
    assert {(key, len(data)) for key, data in objects(storage).items()} >= {
        (f"versions/{'b' * 40}/n/chunks/abc", 19)
    }
    names = set(objects(storage))
    done = collect(storage, grace=0)
    assert dry.removed == done.removed
    assert done.files == len(names) - len(objects(storage))
    gone = names - set(objects(storage))
    for part in ("a" * 40, "b" * 40, "n/chunks/def", "c" * 40):
        assert any(part in key for key in gone), part
    assert {ref: content(open_on(storage, ref)) for ref in before} == before
    only_what_is_needed(storage)
    assert json.loads(json.dumps(done.to_json()))["files"] == done.files


def test_a_sweep_leaves_alone_what_is_within_its_grace_period() -> None:
    """By default nothing of the last hour goes, and the report says why."""
    storage = new_memory()
    littered(storage)
    before = objects(storage)
    report = collect(storage)
    assert report.removed == []
    assert all("within the grace period" in item.why for item in report.kept)
    assert {item.name for item in report.kept} >= {"a" * 40, "b" * 40}
    assert objects(storage) == before


def test_a_sweep_leaves_drafts_of_other_writers_alone(virtual: VirtualClock) -> None:
    """A writer that has written chunks and not published is at work, for as long as it renews its lock."""
    storage = new_memory()
    ds = started(storage)
    publish(ds, 2)
    ds.checkout("side", create=True)
    ds.n.extend(np.arange(20, 40))
    draft = ds._session.draft()
    draft.encode_pending()
    draft.tensors.pack()
    for tensor in draft.tensors.values():
        tensor.spill()
    assert draft.version_id in folders(storage)
    report = collect(storage, grace=0)
    assert (draft.version_id, "a writer is at work on it") in {(k.name, k.why) for k in report.kept}
    ds.flush()
    assert_rows(open_on(storage, "side"), 40)
    virtual.advance(400)
    collect(storage, grace=0)
    only_what_is_needed(storage)


def test_tags_and_views_keep_what_they_name() -> None:
    """A version that left the tree stays while a tag or a saved view refers to it, with what it inherited."""
    storage = new_memory()
    ds = started(storage)
    publish(ds, 2)
    ds.commit("first")
    ds.checkout("side", create=True)
    ds.n.extend(np.arange(20, 2020))
    inherited = ds.commit("on the side")
    ds.n.extend(np.arange(2020, 2030))
    named = ds.commit("named")
    ds.checkout("main")
    views = json.dumps([{"id": "v", "source-dataset-version": named}]).encode()
    storage.put("queries.json", views)
    branches.drop_branch(ds._session, "side")
    ds.close()
    report = collect(storage, grace=0)
    assert (named, "a saved view refers to it") in {(k.name, k.why) for k in report.kept}
    assert named in heads(storage)
    chunks = {key for key, _ in storage.list(folder_of(inherited)) if "/chunks/" in key}
    assert chunks
    storage.delete("queries.json")
    set_tag(storage, Tag("v1", named, None, 0.0, "me"))
    assert {k.why for k in collect(storage, grace=0).kept} == {"tag 'v1' names it"}
    assert chunks <= set(objects(storage))
    drop_tag(storage, "v1")
    collect(storage, grace=0)
    assert not {named, inherited} & folders(storage)
    only_what_is_needed(storage)


def test_nothing_is_removed_where_something_can_not_be_read() -> None:
    """Damage in what says which chunks are needed stops a sweep; the report says where."""
    storage = new_memory()
    ds = littered(storage)
    head = ds._session.snapshot.version_id
    key = next(k for k, _ in storage.list(f"versions/{head}/") if k.endswith("chunk_set"))
    storage.put(key, b"\xff::")
    before = set(objects(storage))
    report = collect(storage, grace=0)
    assert report.removed == []
    assert "nothing is removed" in report.kept[0].why
    chunks = {k for k in before if "/chunks/" in k}
    assert chunks <= set(objects(storage))


def test_a_crash_at_any_deletion_of_a_sweep_leaves_a_sound_dataset() -> None:
    """It opens, reads the same, verifies, and a later sweep finishes."""
    origin = new_memory()
    littered(origin)
    whole = copy_of(origin)
    counting = FaultyStorage(whole)
    collect(counting, grace=0)
    finished = set(objects(whole))
    expected = content(open_on(origin))
    assert counting.changes > 60
    for stop in range(0, counting.changes, 3):
        storage = copy_of(origin)
        with pytest.raises(Crash):
            collect(FaultyStorage(storage, fail_after=stop), grace=0)
        assert content(open_on(storage, read_only=True)) == expected
        assert verify(storage, None, deep=True).is_sound
        collect(storage, grace=0)
        assert set(objects(storage)) == finished


def test_temporary_files_of_dead_writers_go(tmp_path: Path) -> None:
    """Those that are younger than the grace period stay."""
    storage = LocalStorage(tmp_path / "d")
    started(storage).close()
    left = tmp_path / "d" / ".lakebed" / f".lb-{2**22 + 1:x}-1.tmp"
    left.write_bytes(b"123")
    collect(storage)
    assert left.exists()
    os.utime(left, (1, 1))
    assert [item.what for item in collect(storage).removed] == ["temporary file"]
    assert not left.exists()


def test_datasets_of_3_9_52_lose_nothing(golden: Path) -> None:
    """In what Deep Lake 3.9.52 wrote, with branches, merges, resets and views, nothing is garbage."""
    found = sorted(path.parent for path in golden.glob("*/version_control_info.json"))
    assert len(found) > 15
    for path in found:
        report = collect(LocalStorage(path), grace=0, dry_run=True)
        assert report.removed == [], path.name


@pytest.mark.parametrize("order", [*permutations(range(3))])
def test_readers_of_several_old_heads_share_chunks(
    order: tuple[int, int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A chunk of several heads that are read stays until the last reader is gone, in whatever order they go."""
    monkeypatch.setattr(config, "GRACE_SECONDS", 0)
    monkeypatch.setattr(collect_module, "_EVERY", 1)
    ds = lakebed.empty(tmp_path / "ds")
    ds.create_tensor(
        "n", dtype="int64", max_chunk_size=100, create_id_tensor=False, create_shape_tensor=False
    )
    ds.n.extend(np.zeros((4, 10), np.int64))
    readers: dict[int, lakebed.Dataset] = {}

    def put(row: int) -> None:
        ds.n[row] = np.ones(10, np.int64)
        ds.flush()

    for row in range(1, 4):
        put(row)
        readers[row - 1] = lakebed.load(tmp_path / "ds", read_only=True)
    put(0)
    put(0)
    for number in order:
        assert readers.pop(number).n[0].numpy()[0] == 0
        put(0)
        put(0)
    assert lakebed.verify(tmp_path / "ds").is_sound
