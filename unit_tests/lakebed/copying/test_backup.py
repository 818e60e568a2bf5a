"""Backups: every state that was backed up comes back in every version; whatever happens meanwhile, old or new."""

from __future__ import annotations

import itertools
import json
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lakebed
from lakebed import config
from lakebed.copying import backup as backup_module
from lakebed.copying import backup_source, repository, transfer
from lakebed.copying.backup import backup
from lakebed.copying.check_backups import verify_backups
from lakebed.copying.repository import Repository
from lakebed.copying.restore import restore
from lakebed.copying.retention import Retention
from lakebed.documents.backup import CATALOG_KEY, Catalog, FileList, Run
from lakebed.errors import (
    ChecksumError,
    DatasetExistsError,
    DatasetNotFoundError,
    FormatError,
    InvalidInputError,
    LeaseLost,
    LockedException,
    PathNotEmptyException,
    StorageError,
)
from lakebed.maintenance.verify import verify
from lakebed.runtime import clock
from lakebed.session import copy_journal
from lakebed.storage.base import Storage
from lakebed.storage.memory import MemoryStorage
from lakebed.storage.url import open_storage
from lakebed.testing.faulty import Crash, FaultyStorage
from lakebed.testing.schedule import Fault, Planned, refused
from lakebed.versions.gc.collect import collect
from lakebed.versions.opening import TREE_KEY
from unit_tests.effort import IS_SOAK
from unit_tests.lakebed.datasets import content, create_on, kill, new_memory, objects, open_on

ALL = Retention()
_number = itertools.count()


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No disk is waited for, and files of this moment count as dated."""
    monkeypatch.setattr(config, "FSYNC", False)
    monkeypatch.setattr(backup_source, "_COARSEST_CLOCK", 0.0)


@pytest.fixture
def source() -> MemoryStorage:
    """Two tensors of a few rows, uncommitted."""
    storage = new_memory()
    ds = create_on(storage)
    for name in ("a", "g/b"):
        ds.create_tensor(name, dtype="int64").extend(range(50))
    ds.close()
    return storage


def step(storage: Storage, number: int) -> None:
    """Do what is done to a dataset from one backup to the next."""
    ds = open_on(storage)
    if number == 0:
        ds.append({"a": 7, "g/b": 8})
    elif number == 1:
        ds.commit("first")
        ds.create_tag("v1")
        ds.a[3] = 1000
    elif number == 2:
        ds.checkout("side", create=True)
        ds.a.extend(range(5))
        ds.checkout("main")
        ds["g/b"].pop(0)
        ds.commit("second")
    elif number == 3:
        ds.create_tensor("text", htype="text").extend(["x", "y"])
        ds.info["note"] = "all"
    ds.close()


def versions(storage: Storage) -> dict[str, Any]:
    """What every branch and commit holds, with tags."""
    ds = open_on(storage, read_only=True)
    found: dict[str, Any] = {"tags": {name: tag.commit for name, tag in ds.get_tags().items()}}
    for branch in ds.branches:
        found[branch] = content(open_on(storage, branch, read_only=True))
        for commit in open_on(storage, branch, read_only=True).commits:
            found[commit["commit"]] = content(open_on(storage, commit["commit"], read_only=True))
    return found


def restored(target: Storage, at: str | float | None = None) -> Storage:
    """Restore a point to a new place in memory."""
    place = f"mem://restored-{next(_number)}"
    there = open_storage(place)  # memory lasts as long as anybody has it
    restore(target, place, at, overwrite=False, progressbar=False).session.close()
    return there


def points(target: Storage) -> list[str]:
    return [point.id for point in sorted(Repository(target).catalog().points, key=lambda p: p.time)]


def is_clean(target: Storage) -> bool:
    """Tell whether nothing lies about that no point needs."""
    found = Repository(target)
    catalog = found.catalog()
    wanted = {CATALOG_KEY, *(f"points/{point.id}" for point in catalog.points)}
    wanted |= {key for point in catalog.points for key in found.files(point.id).objects}
    here = {key for key, _ in target.list("") if not key.startswith(".lakebed/")}
    return here == wanted and catalog.run is None and not catalog.removed


# -- ordinary days ------------------------------------------------------------------------------------------------


def test_every_point_comes_back_as_it_was(source: MemoryStorage) -> None:
    """Back up, change, back up, five times: each restores equal in every version, byte for byte, and verifies."""
    target = new_memory()
    states = {}
    for number in range(5):
        made = backup(source, target, ALL)
        states[made.point.id] = versions(source), objects(source)
        step(source, number)
    assert points(target) == list(states)
    for id_, (seen, bytes_) in states.items():
        copy = restored(target, id_)
        assert versions(copy) == seen
        assert objects(copy).items() <= bytes_.items()
        assert verify(copy, deep=True).is_sound
    assert is_clean(target)
    assert verify_backups(target).is_sound
    assert versions(restored(target)) == states[points(target)[-1]][0]


def test_a_restored_dataset_goes_on(source: MemoryStorage) -> None:
    """It is written, committed and backed up to the same place: versions in common tell that it is the same."""
    target = new_memory()
    step(source, 1)
    backup(source, target, ALL)
    copy = restored(target)
    step(copy, 2)
    backup(copy, target, ALL)
    assert versions(restored(target)) == versions(copy)
    assert versions(restored(target, points(target)[0])) == versions(source)


class Reads(FaultyStorage):
    """Remembers what was read as a whole."""

    def __init__(self, inner: Storage) -> None:
        super().__init__(inner)
        self.read: list[str] = []

    def get(self, key: str) -> bytes:
        self.read.append(key)
        return super().get(key)


def test_only_what_is_new_is_read_and_written() -> None:
    """Chunks and commits that the last backup has are not read again; a backup of nothing new writes two files."""
    source, target = new_memory(), new_memory()
    ds = create_on(source)
    ds.create_tensor("a", dtype="int64")
    for number in range(20):
        ds.a.extend(np.arange(1000) + number)
        ds.commit(str(number))
    backup(source, target, ALL)
    ds.a.append(5)
    ds.commit("last")
    ds.close()
    reading, writing = Reads(source), FaultyStorage(target)
    made = backup(reading, writing, ALL)
    folders = {key.split("/")[1] for key in reading.read if key.startswith("versions/")}
    assert len(folders) <= 4
    assert made.point.added_files < 30 < 200 < made.point.files
    assert sum("/chunks/" in key for key in reading.read) <= 3  # of the tensor, and of its shapes and ids
    reading, writing = Reads(source), FaultyStorage(target)
    made = backup(reading, writing, ALL)
    assert (made.point.added_files, made.point.added_bytes) == (0, 0)
    assert not [key for key in reading.read if "/chunks/" in key]
    written = [key for key in writing.changed if not key.startswith("-")]
    assert set(written) == {CATALOG_KEY, f"points/{made.point.id}"}


def test_what_the_source_loses_stays_in_the_backup(source: MemoryStorage) -> None:
    """A branch and rows are removed, garbage is collected: older points still have them, newer ones do not."""
    target = new_memory()
    step(source, 1)
    step(source, 2)
    backup(source, target, ALL)
    before = versions(source)
    ds = open_on(source)
    ds.delete_branch("side")
    ds.a.clear()
    ds.close()
    collect(source, grace=0.0)
    backup(source, target, ALL)
    assert "side" not in versions(restored(target))
    assert versions(restored(target, points(target)[0])) == before


def test_superseded_heads_are_no_part(source: MemoryStorage) -> None:
    """What no version of the tree leads to is not copied; what a tag or a view names is."""
    target = new_memory()
    ds = open_on(source)
    for row in range(10):
        ds.a.append(row)
        ds["g/b"].append(row)
        ds.flush()
    ds.close()
    backup(source, target, ALL)
    here = {key.split("/")[1] for key, _ in source.list("versions/")}
    copied = restored(target)
    there = {key.split("/")[1] for key, _ in copied.list("versions/") if key.endswith("dataset_meta.json")}
    assert len(here) > 5
    assert len(there) == 1
    assert versions(copied) == versions(source)


def test_saved_views_and_credentials_come_along(source: MemoryStorage) -> None:
    """So do the list of views, datasets inside of it, and names of credentials; another dataset below does not."""
    target = new_memory()
    source.put("queries.json", b'[{"id": "v"}]')
    source.put(".queries/v/version_control_info.json", b"{}")
    source.put("linked_creds.json", b'{"creds_keys": ["k"]}')
    source.put("below/version_control_info.json", b"{}")
    source.put("below/a", b"1")
    backup(source, target, ALL)
    found = objects(restored(target))
    assert found["queries.json"] == b'[{"id": "v"}]'
    assert found[".queries/v/version_control_info.json"] == b"{}"
    assert found["linked_creds.json"] == b'{"creds_keys": ["k"]}'
    assert not [key for key in found if key.startswith("below")]


def test_the_rule_decides_what_stays(source: MemoryStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A backup a day for three weeks: seven days and two weeks stay, each restores; what the others had is gone."""
    target, now = new_memory(), 1_790_000_000.0
    monkeypatch.setattr(clock, "now", lambda: now)
    states, all_added = {}, 0
    for day in range(21):
        now = 1_790_000_000.0 + day * 86_400
        ds = open_on(source)
        ds.a[0] = day
        ds.close()
        made = backup(source, target, Retention(daily=7, weekly=2))
        states[made.point.id] = day
        all_added += made.point.added_files
    kept = points(target)
    assert 7 <= len(kept) <= 8
    assert is_clean(target)
    assert len(objects(target)) < all_added
    for id_ in kept:
        assert open_on(restored(target, id_), read_only=True).a[0].numpy() == states[id_]
    moment = 1_790_000_000.0 + 17.5 * 86_400
    assert open_on(restored(target, moment), read_only=True).a[0].numpy() == 17


def test_points_are_chosen_by_id_or_time(source: MemoryStorage, tmp_path: Path) -> None:
    """The beginning of an id, a time as text; what is not there is told with what is."""
    place = tmp_path / "b"
    ds = lakebed.empty(tmp_path / "ds")
    ds.create_tensor("a", dtype="int64").extend([1, 2])
    ds.close()
    first = lakebed.backup(tmp_path / "ds", place, progressbar=False)
    assert [point.id for point in lakebed.backups(place)] == [first.id]
    how: Any = {"progressbar": False}
    assert len(lakebed.restore(place, tmp_path / "1", at=first.id[:6], **how).a) == 2
    assert len(lakebed.restore(place, tmp_path / "2", at="2199-01-01", **how).a) == 2
    for at in ("ffffffffffff", "2001-01-01", 5.0):
        with pytest.raises(InvalidInputError, match=first.id):
            lakebed.restore(place, tmp_path / "3", at=at, **how)
    with pytest.raises(InvalidInputError, match="not an ISO time"):
        lakebed.restore(place, tmp_path / "3", at="yesterday", **how)
    with pytest.raises(DatasetNotFoundError, match="no backups"):
        lakebed.restore(tmp_path / "nothing", tmp_path / "3", **how)
    assert not (tmp_path / "3").exists()


def test_unpublished_rows_of_this_process_are_backed_up(tmp_path: Path) -> None:
    """Rows that wait in a buffer are published first, whether the dataset or its address is given."""
    ds = lakebed.empty(tmp_path / "ds")
    ds.create_tensor("a", dtype="int64").extend([1, 2])
    ds.a.append(3)
    lakebed.backup(ds, tmp_path / "b", progressbar=False)
    ds.a.append(4)
    lakebed.backup(tmp_path / "ds", tmp_path / "b", progressbar=False)
    for number, (point, length) in enumerate(zip(lakebed.backups(tmp_path / "b"), (3, 4), strict=True)):
        made = lakebed.restore(tmp_path / "b", tmp_path / str(number), at=point.id, progressbar=False)
        assert len(made.a) == length
    with pytest.raises(TypeError, match="view"):
        lakebed.backup(ds[:1], tmp_path / "b", progressbar=False)


def test_files_are_the_same_bytes_on_a_disk(tmp_path: Path) -> None:
    """And the dataset that comes back opens by its manifest, as the source does."""
    ds = lakebed.empty(tmp_path / "ds")
    ds.create_tensor("a", dtype="int64").extend(range(1000))
    ds.commit("x")
    ds.close()
    lakebed.backup(tmp_path / "ds", tmp_path / "b", progressbar=False)
    made = lakebed.restore(tmp_path / "b", tmp_path / "r", progressbar=False)
    assert made._session.snapshot.origin is not None
    here = {
        str(path.relative_to(tmp_path / "r")): path.read_bytes()
        for path in (tmp_path / "r").rglob("*")
        if path.is_file() and not path.name.endswith(".lock")
    }
    assert here
    for name, data in here.items():
        assert (tmp_path / "ds" / name).read_bytes() == data


@pytest.mark.parametrize("name", ["f09_links", "f10_branches_merge", "f13_views", "f19_auto_branch_reset"])
def test_datasets_of_3x_are_the_same_bytes(golden: Path, name: str) -> None:
    """Merges, views, links, what a reset has left: all objects come back, and a second time nothing is new."""
    source, target = open_storage(golden / name), new_memory()
    backup(source, target, ALL)
    assert backup(source, target, ALL).point.added_files == 0
    assert objects(restored(target)) == objects(source)


# -- what is refused ----------------------------------------------------------------------------------------------


def test_places_that_do_not_fit(source: MemoryStorage, tmp_path: Path) -> None:
    """Within the dataset, around it, among other files, or with backups of another dataset."""
    ds = lakebed.empty(tmp_path / "lake" / "ds")
    ds.create_tensor("a", dtype="int64").extend([1])
    ds.close()
    for place in ("lake/ds", "lake/ds/b", "lake"):
        with pytest.raises(DatasetExistsError, match="outside of the dataset"):
            lakebed.backup(tmp_path / "lake" / "ds", tmp_path / place, progressbar=False)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("x")
    with pytest.raises(PathNotEmptyException, match="other files"):
        lakebed.backup(tmp_path / "lake" / "ds", tmp_path / "full", progressbar=False)
    with pytest.raises(DatasetNotFoundError):
        lakebed.backup(tmp_path / "nothing", tmp_path / "b", progressbar=False)
    assert not (tmp_path / "b" / "points").exists()
    lakebed.backup(tmp_path / "lake" / "ds", tmp_path / "b", progressbar=False)
    target = open_storage(tmp_path / "b")
    with pytest.raises(InvalidInputError, match="moved"):
        backup(source, target, ALL)
    backup(source, target, ALL, moved=True)
    assert versions(restored(target)) == versions(source)


def test_one_backup_at_a_time(source: MemoryStorage) -> None:
    """A second one is refused while the first is at work, and told by whom."""
    target = new_memory()
    with Repository(target).running("x"), pytest.raises(LockedException, match="another backup"):
        backup(source, target, ALL)
    backup(source, target, ALL)
    assert is_clean(target)


class Bucket(FaultyStorage):
    """A store without locks of the system."""

    @property
    def traits(self) -> Any:
        return replace(super().traits, local=False, system_locks=False, reader_leases=False)


def other_process(seen: float) -> Run:
    return Run("0123456789ab", "t", 1, "elsewhere", 5, "b", seen)


def test_on_a_store_a_run_is_taken_over_once_it_was_not_seen_for_long(source: MemoryStorage) -> None:
    """And the one before, if it goes on after all, publishes nothing."""
    target = Bucket(new_memory())
    place = Repository(target)
    place.change(lambda _: Catalog(run=other_process(clock.now())))
    with pytest.raises(LockedException, match="elsewhere"):
        backup(source, target, ALL)
    place.change(lambda _: Catalog(run=other_process(clock.now() - config.LEASE_SECONDS - 1)))
    made = backup(source, target, ALL)
    assert made.point.id == "0123456789ab"
    with place.running("x") as run:
        place.change(lambda _: Catalog(points=(made.point,), run=other_process(0.0)))
        files = place.files(made.point.id)
        with pytest.raises(LeaseLost):
            run.publish(made.point, files, ALL)
        with pytest.raises(LeaseLost):
            run.finish()
    assert points(target) == [made.point.id]
    assert versions(restored(target)) == versions(source)


# -- damage -------------------------------------------------------------------------------------------------------


def test_a_damaged_source_is_told(source: MemoryStorage) -> None:
    """There is no new point, and the old one stays; with keep_damaged there is one of what there is."""
    target = new_memory()
    backup(source, target, ALL)
    before = versions(source)
    step(source, 0)
    table = open_on(source, read_only=True)._session.snapshot.tensors["a"].table
    chunk = table.key(len(table) - 1)
    data = source.get(chunk)
    source.put(chunk, data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(ChecksumError, match=chunk):
        backup(source, target, ALL)
    assert versions(restored(target)) == before
    made = backup(source, target, ALL, keep_damaged=True)
    assert made.point.damaged == 1
    assert objects(restored(target)).items() <= objects(source).items()
    source.delete(chunk)
    with pytest.raises(ChecksumError, match="missing"):
        backup(source, target, ALL)
    assert backup(source, target, ALL, keep_damaged=True).point.damaged == 1
    source.put(chunk, data)
    assert backup(source, target, ALL).point.damaged == 0
    assert versions(restored(target)) == versions(source)


@pytest.mark.parametrize("how", ["flipped", "cut", "gone"])
def test_damage_in_the_backup_is_named_and_mended(source: MemoryStorage, how: str) -> None:
    """Verifying names point and file, restoring leaves no dataset; a backup with `verify` copies it again."""
    target = new_memory()
    step(source, 1)
    backup(source, target, ALL)
    files = Repository(target).files(points(target)[0]).files
    key = next(key for key in files if "/chunks/" in key)
    content_key = files[key].object
    data = target.get(content_key)
    if how == "gone":
        target.delete(content_key)
    else:
        target.put(content_key, data[:-1] + (b"" if how == "cut" else bytes([data[-1] ^ 1])))
    findings = verify_backups(target)
    assert key in {d.key for d in findings.damage}
    assert {(d.point, d.object) for d in findings.damage} == {(points(target)[0], content_key)}
    place = f"mem://restored-{next(_number)}"
    there, other = open_storage(place), open_storage(place + "-b")
    with pytest.raises(ChecksumError, match=key):
        restore(target, place, None, overwrite=False, progressbar=False)
    with pytest.raises(lakebed.errors.DatasetHandlerError):
        lakebed.load(place)
    # A dataset that is in the way is not removed for it.
    ds = create_on(other)
    ds.create_tensor("mine", dtype="int64")
    ds.close()
    with pytest.raises(ChecksumError, match=key):
        restore(target, place + "-b", None, overwrite=True, progressbar=False)
    assert list(lakebed.load(place + "-b", read_only=True).tensors) == ["mine"]
    backup(source, target, ALL, verify=how == "flipped")
    assert versions(restored(target)) == versions(source)
    assert {d.point for d in verify_backups(target).damage} == {points(target)[0]}
    target.put(content_key, data)
    restore(target, place, points(target)[0], overwrite=False, progressbar=False)  # it goes on where it was
    assert versions(there) == versions(source)


def test_damaged_lists_and_catalogs_are_told(source: MemoryStorage) -> None:
    """A point whose list is damaged is lost alone; without the catalog, points are restored by their ids."""
    target = new_memory()
    backup(source, target, ALL)
    step(source, 0)
    backup(source, target, ALL)
    first, second = points(target)
    good = target.get(f"points/{first}")
    for bad in (b"", good[:-1], good[:40] + b"x" + good[41:], b"LBPOINT1" + bytes(100)):
        target.put(f"points/{first}", bad)
        with pytest.raises(ChecksumError, match=first):
            restored(target, first)
        assert [d.point for d in verify_backups(target).damage] == [first]
    assert versions(restored(target, second)) == versions(source)
    catalog = target.get(CATALOG_KEY)
    target.put(CATALOG_KEY, catalog.replace(b"points", b"pointz"))
    with pytest.raises(ChecksumError, match="--at ID"):
        restored(target)
    with pytest.raises(ChecksumError):
        backup(source, target, ALL)
    assert versions(restored(target, second)) == versions(source)


def test_a_damaged_list_blocks_no_backup(source: MemoryStorage) -> None:
    """Nothing is removed while it cannot be known what stays; once that point is gone, all is."""
    target = new_memory()
    for number in range(3):
        backup(source, target, ALL)
        step(source, number)
    second = points(target)[1]
    target.put(f"points/{second}", b"")
    contents = {key for key, _ in target.list("objects/")}
    backup(source, target, Retention(last=3))
    assert second in points(target)
    assert contents <= {key for key, _ in target.list("objects/")}
    backup(source, target, Retention(last=2))
    assert second not in points(target)
    assert is_clean(target)
    assert versions(restored(target)) == versions(source)


def test_lists_that_lie_are_refused() -> None:
    """Keys that lead out, numbers that lead nowhere, text that inflates without end."""
    import zlib

    import xxhash

    def packed(text: bytes) -> bytes:
        body = zlib.compress(text)
        return b"LBPOINT1" + xxhash.xxh3_64_intdigest(body).to_bytes(8, "little") + body

    digest = "0" * 64
    good: dict[str, Any] = {
        "id": "0" * 12, "tree_time": 1.0, "runs": ["0" * 12], "files": [["a/b", 1, digest, 0, ""]],
        "refs": {"v": [0]},
    }  # fmt: skip
    assert FileList.from_bytes(packed(json.dumps(good).encode())).refs == {"v": ("a/b",)}
    for change in (
        {"files": [["../b", 1, digest, 0, ""]]},
        {"files": [["/b", 1, digest, 0, ""]]},
        {"files": [["a", -1, digest, 0, ""]]},
        {"files": [["a", 1, "../" + digest[3:], 0, ""]]},
        {"files": [["a", 1, digest, 1, ""]]},
        {"files": [["a", 1, digest, 0]]},
        {"runs": ["../../x"]},
        {"refs": {"v": [1]}},
        {"refs": {"../v": [0]}},
        {"files": None},
        {"tree_time": "x"},
    ):
        with pytest.raises(FormatError):
            FileList.from_bytes(packed(json.dumps({**good, **change}).encode()))
    with pytest.raises(FormatError):
        FileList.from_bytes(packed(b" " * (1 << 26)))
    with pytest.raises(FormatError):
        FileList.from_bytes(packed(b"[" * 100_000))


# -- others at work meanwhile -------------------------------------------------------------------------------------


class Busy(FaultyStorage):
    """Another program does something at chosen reads."""

    def __init__(self, inner: Storage, act: Any, at: set[int]) -> None:
        super().__init__(inner)
        self.act, self.at, self.number = act, at, 0
        self.mutex = threading.Lock()

    def get(self, key: str) -> bytes:
        with self.mutex:
            self.number += 1
            if self.number in self.at:
                self.act()
        return super().get(key)


class Unleased(Busy):
    """A storage whose readers nobody knows: what they read may be collected."""

    @property
    def traits(self) -> Any:
        return replace(super().traits, reader_leases=False)


@pytest.mark.parametrize("kind", [Busy, Unleased])
def test_a_writer_goes_on_meanwhile(
    source: MemoryStorage, kind: type[Busy], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Publishes, commits and collections between any two reads: the point is one of the states that there were.

    Where readers are known nothing that is wanted goes, and one look is enough; elsewhere it takes another.
    """
    looks = [0]
    look = backup_module.state_of

    def counted(*arguments: Any) -> Any:
        looks[0] += 1
        return look(*arguments)

    monkeypatch.setattr(backup_module, "state_of", counted)
    step(source, 1)
    ds = open_on(source)
    states = [versions(source)]

    def write() -> None:
        ds.append({"a": len(states), "g/b": len(states)})
        ds.flush()
        if len(states) % 3 == 0:
            ds.commit(f"commit {len(states)}")
        collect(source, grace=0.0)
        states.append(versions(source))

    firsts = range(1, 40, 4 if IS_SOAK else 8)
    for first in firsts:
        target = new_memory()
        backup(kind(source, write, {first, first + 2}), target, ALL)
        copy = restored(target)
        assert versions(copy) in states[-3:]
        assert verify(copy, deep=True).is_sound
        for key, data in objects(copy).items():
            if key.endswith("commit_info.json"):
                version = key.split("/")[1] if "/" in key else "first"
                tree = json.loads(objects(copy)[TREE_KEY])["commits"]
                node = next(node for id_, node in tree.items() if id_.startswith(version))
                assert json.loads(data)["children"] == node["children"]
    assert looks[0] > len(firsts) if kind is Unleased else looks[0] == len(firsts)
    ds.close()


def test_a_thread_writes_meanwhile(tmp_path: Path) -> None:
    """Real files, a writer without a pause: three backups on the way hold what was published, rows in order."""
    ds = lakebed.empty(tmp_path / "ds")
    ds.create_tensor("a", dtype="int64")
    ds.create_tensor("b", dtype="int64")
    ds.flush()
    stop = threading.Event()

    def write() -> None:
        for number in itertools.count():
            if stop.is_set():
                return
            ds.append({"a": number, "b": number})
            ds.flush()
            if number % 7 == 6:
                ds.commit()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(3):
            backup(open_storage(tmp_path / "ds"), open_storage(tmp_path / "b"), ALL)
    finally:
        stop.set()
        thread.join()
    lengths = []
    for id_ in points(open_storage(tmp_path / "b")):
        copy = restored(open_storage(tmp_path / "b"), id_)
        found = open_on(copy, read_only=True)
        assert verify(copy, deep=True).is_sound
        assert found.a.numpy().ravel().tolist() == found.b.numpy().ravel().tolist() == list(range(len(found)))
        lengths.append(len(found))
    assert lengths == sorted(lengths)
    ds.close()


def test_a_writer_in_place_makes_it_look_again(source: MemoryStorage) -> None:
    """A file of a head that Deep Lake 3.x rewrites meanwhile is taken as it is in the end."""
    target = new_memory()
    head = json.loads(source.get(TREE_KEY))["branches"]["main"]
    key = f"versions/{head}/dataset_info.json"

    def write() -> None:
        source.put(key, b'{"x": 1}')

    source.put(key, b'{"x": 0}')
    busy = Busy(source, write, {12})
    backup(busy, target, ALL)
    assert busy.number > 12
    assert objects(restored(target))[key] == b'{"x": 1}'
    always = Busy(source, lambda: source.put(key, b'{"x": 2}'), set(range(1, 10_000)))
    with pytest.raises(lakebed.errors.CommitFailed, match="in place"):
        backup(always, new_memory(), ALL)


# -- cut off anywhere ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def prepared() -> Iterator[tuple[MemoryStorage, MemoryStorage, dict[str, Any], dict[str, Any]]]:
    """A source, a place with two backups of states before, and what the states held; the next removes the first."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(config, "FSYNC", False)
        source, target = new_memory(), new_memory()
        ds = create_on(source)
        ds.create_tensor("a", dtype="int64").extend(range(20))
        ds.close()
        states: dict[str, Any] = {}
        for number in range(2):
            states[backup(source, target, ALL).point.id] = versions(source)
            ds = open_on(source)
            ds.a.append(number)
            ds.commit(str(number))
            ds.close()
        yield source, target, states, versions(source)


def copied(storage: Storage) -> MemoryStorage:
    made = new_memory()
    for key, _ in storage.list():
        made.put(key, storage.get(key))
    return made


@pytest.mark.parametrize("when", ["before", "after", "torn"])
@pytest.mark.parametrize("error", [Crash, refused, KeyboardInterrupt])
def test_old_or_new_wherever_it_is_cut_off(
    prepared: Any, when: Any, error: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault at every call of a backup that also removes one: old points or new ones, each whole; then it goes on."""
    source, before, states, newest = prepared
    monkeypatch.setattr(transfer, "_TOGETHER", 4)
    monkeypatch.setattr(repository, "_EVERY", 0.0)
    rule = Retention(last=2)
    ended, step_ = False, 1 if IS_SOAK else 5 if error is Crash else 11
    for number in itertools.count(("before", "after", "torn").index(when), step_):
        target = copied(before)
        faulty = FaultyStorage(target, Planned(Fault(when, nth=number, error=error, seed=number)))
        try:
            backup(source, faulty, rule)
            ended = not faulty.failed
        except (Crash, StorageError, KeyboardInterrupt, lakebed.errors.ConflictError):
            pass
        now = points(target)
        old = list(states)
        assert now == old or (now[:-1] == old[1:] and len(now) == 2)
        for id_ in now if error is Crash else now[-1:]:
            assert versions(restored(target, id_)) == states.get(id_, newest)
        if ended:
            assert is_clean(target)
            break
        backup(source, target, rule)
        assert versions(restored(target)) == newest
        assert len(points(target)) == 2
        assert is_clean(target)
    assert number > 20


def test_what_has_arrived_is_not_copied_again(source: MemoryStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a crash near the end the next call reads no chunk, and writes no content, that was noted."""
    monkeypatch.setattr(repository, "_EVERY", 0.0)
    monkeypatch.setattr(transfer, "_TOGETHER", 1)
    target = new_memory()
    dying = FaultyStorage(target, Planned(Fault("before", keys="points/*")))
    with pytest.raises(Crash):
        backup(source, dying, ALL)
    reading, writing = Reads(source), FaultyStorage(target)
    backup(reading, writing, ALL)
    assert not [key for key in reading.read if "/chunks/" in key]
    assert sum(key.startswith("objects/") for key in writing.changed) == 1  # the version tree
    assert versions(restored(target)) == versions(source)


def test_temporary_files_of_a_killed_process_go(source: MemoryStorage, tmp_path: Path) -> None:
    """A file that it was writing to a folder that was there; one of a process that lives stays."""
    target = open_storage(tmp_path / "b")
    with pytest.raises(Crash):
        backup(source, FaultyStorage(target, Planned(Fault("before", keys="points/*"))), ALL)
    (folder,) = (tmp_path / "b" / "objects").iterdir()
    dead, living = folder / ".lb-7fffffff-1.tmp", folder / f".lb-{os.getpid():x}-1.tmp"
    for path in (dead, living):
        path.write_bytes(b"half")
    backup(source, target, ALL)
    assert not dead.exists()
    assert living.exists()
    assert versions(restored(target)) == versions(source)


def test_what_has_changed_since_a_crash_is_copied_again(source: MemoryStorage) -> None:
    """The source goes on between the attempts: the point is of its new state, and contents of the old one go."""
    target = new_memory()
    dying = FaultyStorage(target, Planned(Fault("before", keys="points/*")))
    with pytest.raises(Crash):
        backup(source, dying, ALL)
    for number in range(3):
        step(source, number)
    backup(source, target, ALL)
    assert versions(restored(target)) == versions(source)
    assert is_clean(target)


@pytest.mark.parametrize("when", ["before", "after", "torn"])
def test_a_restore_that_is_cut_off_goes_on(source: MemoryStorage, when: Any) -> None:
    """At every change: no dataset, or the whole one; the same call ends it."""
    for number in range(3):
        step(source, number)
    target = new_memory()
    backup(source, target, ALL)
    wanted = versions(source)
    for number in itertools.count(0, 3):
        place = f"mem://restored-{next(_number)}"
        there = open_storage(place)
        faulty = FaultyStorage(there, Planned(Fault(when, nth=number, seed=number)))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("lakebed.copying.restore.open_storage", lambda _, faulty=faulty: faulty)
            patch.setattr("lakebed.session.places.open_storage", lambda _, faulty=faulty: faulty)
            try:
                restore(target, place, None, overwrite=False, progressbar=False)
            except Crash:
                kill(there)
        assert there.stat(TREE_KEY) is None or versions(there) == wanted
        if not faulty.failed:
            break
        if there.stat(TREE_KEY) is None or copy_journal.unfinished(there):
            restore(target, place, None, overwrite=False, progressbar=False).session.close()
        assert versions(there) == wanted
        assert not [key for key, _ in there.list(copy_journal.FOLDER)]
    assert number > 5
    ds = open_on(there)
    ds.a.append(1)
    ds.close()
    with pytest.raises(DatasetExistsError):
        restore(target, place, None, overwrite=False, progressbar=False)
    restore(target, place, None, overwrite=True, progressbar=False).session.close()
    assert versions(there) == wanted
