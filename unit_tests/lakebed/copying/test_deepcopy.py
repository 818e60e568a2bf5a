"""Whole datasets made again elsewhere: cut off anywhere and continued, damage found on the way."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lakebed
from lakebed import config
from lakebed.copying import copy, transfer
from lakebed.copying.deepcopy import deepcopy
from lakebed.maintenance.verify import verify
from lakebed.session import copy_journal, places
from lakebed.storage.base import Storage
from lakebed.storage.local import LocalStorage
from lakebed.storage.memory import MemoryStorage
from lakebed.testing.faulty import Crash, FaultyStorage
from lakebed.versions.opening import TREE_KEY
from unit_tests.lakebed.datasets import content, create_on, new_memory, objects, open_on


@pytest.fixture(autouse=True)
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every object is a step of its own, which the journal notes at once; no disk is waited for."""
    monkeypatch.setattr(config, "FSYNC", False)
    monkeypatch.setattr(transfer, "_TOGETHER", 1)
    monkeypatch.setattr(copy_journal, "_EVERY", 0.0)


@pytest.fixture
def source() -> MemoryStorage:
    """Two commits, a branch, a tag, a saved view's file, names of credentials."""
    storage = new_memory()
    ds = create_on(storage)
    for name in ("a", "g/b"):
        ds.create_tensor(name, dtype="int64").extend(range(50))
    ds.commit("first")
    ds.create_tag("v1")
    ds.checkout("side", create=True)
    ds.a.extend(range(50, 60))
    ds["g/b"].extend(range(50, 60))
    ds.checkout("main")
    ds.a[0] = 100
    ds.close()
    storage.put("linked_creds.json", b'{"creds_keys": ["k"]}')
    storage.put(".queries/v/version_control_info.json", b"{}")
    return storage


class Reads(FaultyStorage):
    """Remembers what was read as a whole."""

    def __init__(self, inner: Storage) -> None:
        super().__init__(inner)
        self.read: list[str] = []

    def get(self, key: str) -> bytes:
        self.read.append(key)
        return super().get(key)


def same(source: Storage, target: Storage) -> bool:
    """Tell whether a copy reads like its source, in every branch, and holds no object less or more."""
    for ref in ("main", "side"):
        assert content(open_on(target, ref, read_only=True)) == content(open_on(source, ref, read_only=True))
    assert set(open_on(target, read_only=True).get_tags()) == set(open_on(source, read_only=True).get_tags())
    return objects(source) == objects(target)


def chunk(storage: Storage, tensor: str = "a") -> str:
    """Key of a chunk file."""
    return next(key for key, _ in storage.list("") if f"{tensor}/chunks/" in key)


def test_everything_comes_along(source: MemoryStorage) -> None:
    """History, branches, tags, views, names of credentials: byte for byte, and no trace of the copying."""
    target = new_memory()
    deepcopy(source, target, None, progressbar=False)
    assert same(source, target)
    assert checked(target)
    assert open_on(target).get_tags().keys() == {"v1"}
    assert not [key for key, _ in target.list(copy_journal.FOLDER)]


@pytest.mark.parametrize(
    "failing", [Crash, lambda: lakebed.errors.StorageError("cut off"), KeyboardInterrupt]
)
def test_cut_off_anywhere_and_continued(source: MemoryStorage, failing: Any) -> None:
    """After every number of changes: no dataset yet, and the next attempt ends like one that was never cut off."""
    number = 0
    while True:
        target = new_memory()
        faulty = FaultyStorage(target, fail_after=number, error=failing)
        try:
            deepcopy(source, faulty, None, progressbar=False)
            break
        except (Crash, lakebed.errors.StorageError, KeyboardInterrupt):
            whole = target.stat("version_control_info.json") is not None
            assert not whole or same(source, target) or copy_journal.unfinished(target)
        counting = FaultyStorage(source)
        deepcopy(counting, target, None, progressbar=False)
        assert same(source, target), number
        number += 17
    assert number > 60


def test_what_has_arrived_is_not_copied_again(source: MemoryStorage) -> None:
    """The journal of the first attempt spares the second its reads."""
    whole = FaultyStorage(source)
    deepcopy(whole, new_memory(), None, progressbar=False)
    files = len(objects(source))
    target = new_memory()
    with pytest.raises(Crash):
        deepcopy(source, FaultyStorage(target, fail_after=files), None, progressbar=False)
    again = FaultyStorage(source)
    deepcopy(again, target, None, progressbar=False)
    # Half of the changes were entries of the journal, one for each object.
    assert whole.counts["get"] - again.counts["get"] > files // 2 - 5
    assert same(source, target)


class Unfinished(FaultyStorage):
    """Takes everything but the last file."""

    def put(self, key: str, data: Any) -> str:
        if key == TREE_KEY:
            raise Crash
        return super().put(key, data)


def test_what_has_changed_since_is_copied_again(source: MemoryStorage) -> None:
    """Objects that were replaced, added or removed between the attempts."""
    target = new_memory()
    with pytest.raises(Crash):
        deepcopy(source, Unfinished(target), None, progressbar=False)
    assert target.stat("linked_creds.json") is not None
    assert target.stat(TREE_KEY) is None
    ds = open_on(source)
    ds.a.append(7)
    ds.commit("second")
    ds.close()
    source.put("linked_creds.json", b'{"creds_keys": ["j"]}')
    source.delete(".queries/v/version_control_info.json")
    deepcopy(source, target, None, progressbar=False)
    assert same(source, target)
    assert target.get("linked_creds.json") == b'{"creds_keys": ["j"]}'


def test_damage_is_reported_and_not_copied(source: MemoryStorage) -> None:
    """With its key; the rest arrives, and when the object is whole again only that is fetched."""
    key, other = chunk(source), chunk(source, "g/b")
    good, missing = source.get(key), source.get(other)
    for damaged in (good[:-1] + bytes([good[-1] ^ 1]), good[:-1], good + b"\0"):
        source.put(key, damaged)
        source.delete(other)
        target = new_memory()
        with pytest.raises(lakebed.errors.ChecksumError, match="damaged") as caught:
            deepcopy(source, target, None, progressbar=False)
        assert key in str(caught.value)
        assert f"{other}: it is missing" in str(caught.value)
        assert target.stat(key) is None
        with pytest.raises(lakebed.DatasetHandlerError):
            open_on(target)
        source.put(key, good)
        source.put(other, missing)
        again = FaultyStorage(source)
        deepcopy(again, target, None, progressbar=False)
        assert same(source, target)


def test_checksums_are_made_where_there_are_none(source: MemoryStorage) -> None:
    """Of versions as Deep Lake 3.x writes them; each chunk is read once for both."""
    tree = json.loads(source.get(TREE_KEY))
    tree.pop("lakebed")
    for node in tree["commits"].values():
        node.pop("lakebed_seal")
    source.put(TREE_KEY, json.dumps(tree).encode())
    for key, _ in list(source.list(".lakebed/manifest-")):
        source.delete(key)
    target = new_memory()
    counting = Reads(target)
    deepcopy(source, counting, None, progressbar=False)
    assert len(list(target.list(".lakebed/manifest-"))) >= 3
    assert not [key for key in counting.read if "/chunks/" in key]
    for ref in ("main", "side"):
        assert content(open_on(target, ref)) == content(open_on(source, ref))
        assert checked(target, ref)


def checked(storage: Storage, ref: str = "main") -> bool:
    """Tell whether checksums are known of all chunks of a version."""
    snapshot = open_on(storage, ref, read_only=True)._session.snapshot
    return all(bool((state.table.places.sizes > 0).all()) for state in snapshot.tensors.values())


def test_a_source_that_is_written_meanwhile(source: MemoryStorage) -> None:
    """What it loses while it is copied is looked up again; what is copied is one state of it."""

    class Busy(FaultyStorage):
        """Publishes, and sweeps up what nobody needs then, when the first chunk is read."""

        busy = False

        def get(self, key: str) -> bytes:
            if "/chunks/" in key and not self.busy:
                self.busy = True
                ds = open_on(source)
                ds.a[1] = 200
                ds.close()
                lakebed.gc(source.url, grace=0)
            return super().get(key)

    target = new_memory()
    deepcopy(Busy(source), target, None, progressbar=False)
    found = open_on(target).a.numpy().ravel().tolist()
    assert found[0] == 100
    assert found[1] in (1, 200)
    assert lakebed.load(target.url).a.numpy().ravel().tolist() == found


def test_other_datasets_below_stay_where_they_are(source: MemoryStorage) -> None:
    """A dataset in a folder of another is none of its content; nor is a copy that is on its way there."""
    for key in ("inner/version_control_info.json", "inner/x", "half/.lakebed/copy/source.json", "half/x"):
        source.put(key, b"{}")
    target = new_memory()
    deepcopy(source, target, None, progressbar=False)
    assert not [key for key, _ in target.list("") if key.startswith(("inner/", "half/"))]


def test_tensors_that_had_other_names(source: MemoryStorage) -> None:
    """A tensor that is kept has its older chunks, where it had another name."""
    ds = open_on(source)
    ds.commit("second")
    ds.rename_tensor("a", "z")
    ds.close()
    target = new_memory()
    deepcopy(source, target, ["z"], progressbar=False)
    copied = open_on(target)
    assert list(copied.tensors) == ["z"]
    assert copied.z.numpy().ravel().tolist() == [100, *range(1, 50)]
    assert not [key for key, _ in target.list("") if "g/b" in key]
    assert checked(target)
    copied.checkout("side")
    assert list(copied.tensors) == []


def test_some_tensors_cut_off_anywhere_and_continued(source: MemoryStorage) -> None:
    """After every number of changes, the next attempt makes a copy in which nothing is missing, in any version."""
    number = 0
    while True:
        target = new_memory()
        try:
            deepcopy(source, FaultyStorage(target, fail_after=number, error=Crash), ["a"], progressbar=False)
            is_cut = False
        except Crash:
            is_cut = True
            deepcopy(source, target, ["a"], progressbar=False)
        assert verify(target).damage == [], number
        assert list(open_on(target).tensors) == ["a"]
        assert open_on(target, "side").a.numpy().tolist() == open_on(source, "side").a.numpy().tolist()
        if not is_cut:
            break
        number += 3
    assert number > 30


def test_memory_is_bounded(source: MemoryStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever there is to copy: so many bytes at a time."""
    for number in range(40):
        source.put(f"other/{number}", bytes(50_000))
    monkeypatch.setattr(config, "UPLOAD_BYTES", 120_000)
    monkeypatch.setattr(transfer, "_LOCAL_WORKERS", 16)
    held, most = {"now": 0}, [0]
    lock = threading.Lock()

    class Counting(FaultyStorage):
        def get(self, key: str) -> bytes:
            data = super().get(key)
            if key.startswith("other/"):
                with lock:
                    held["now"] += len(data)
                    most[0] = max(most[0], held["now"])
            return data

    class Target(FaultyStorage):
        def put_many(self, items: Any, *, durable: bool = True) -> None:
            batch = [*items]
            super().put_many(batch, durable=durable)
            with lock:
                held["now"] -= sum(len(data) for key, data in batch if key.startswith("other/"))

    deepcopy(Counting(source), Target(new_memory()), None, progressbar=False)
    assert 50_000 <= most[0] <= 120_000


# -- through the public functions --------------------------------------------------------------------------------


def begun(source: MemoryStorage, there: str, changes: int = 30) -> None:
    """Leave a copy behind that was cut off."""
    target = lakebed.storage.url.open_storage(there)
    with pytest.raises(Crash):
        deepcopy(source, FaultyStorage(target, fail_after=changes), None, progressbar=False)


def test_the_same_call_goes_on(source: MemoryStorage) -> None:
    """With and without `overwrite`."""
    for overwrite in (False, True):
        there = new_memory()
        begun(source, there.url)
        assert not lakebed.exists(there.url)
        copied = lakebed.deepcopy(source.url, there.url, overwrite=overwrite, progressbar=False)
        assert copied.a.numpy().ravel().tolist() == [100, *range(1, 50)]
        assert same(source, there)


def test_another_call_does_not_go_on(source: MemoryStorage) -> None:
    """Of another dataset, or of other tensors: it is refused, or begins anew when it is told to."""
    other = new_memory()
    create_on(other).create_tensor("o").append(1)
    lakebed.load(other.url).close()
    for src, how in ((other.url, {}), (source.url, {"tensors": ["a"]})):
        there = new_memory()
        begun(source, there.url)
        with pytest.raises(lakebed.DatasetHandlerError, match="unfinished copy of mem://"):
            lakebed.deepcopy(src, there.url, progressbar=False, **how)
        with pytest.raises(lakebed.DatasetHandlerError):
            lakebed.copy(src, there.url, progressbar=False)
        assert copy_journal.unfinished(there) is not None
        copied = lakebed.deepcopy(src, there.url, overwrite=True, progressbar=False, **how)
        assert list(copied.tensors) == (["o"] if src == other.url else ["a"])
        assert copy_journal.unfinished(there) is None


def test_a_finished_copy_is_not_copied_over(source: MemoryStorage) -> None:
    """A kill after the last file, before the journal was gone: fine, unless somebody has written there since."""
    there = new_memory()
    header = {"source": source.url, "endpoint": "", "tensors": None}
    lakebed.deepcopy(source.url, there.url, progressbar=False)
    there.put(copy_journal.HEADER, json.dumps(header).encode())
    lakebed.deepcopy(source.url, there.url, progressbar=False)
    assert same(source, there)
    ds = open_on(there)
    ds.a.append(1)
    ds.commit("mine")
    ds.close()
    there.put(copy_journal.HEADER, json.dumps(header).encode())
    with pytest.raises(lakebed.DatasetHandlerError, match="written since"):
        lakebed.deepcopy(source.url, there.url, progressbar=False)
    assert len(lakebed.load(there.url).a) == 51
    there.put(copy_journal.HEADER, b"not json")
    with pytest.raises(lakebed.DatasetHandlerError, match="already exists"):
        lakebed.deepcopy(source.url, there.url, progressbar=False)


def test_the_bar_counts_bytes(source: MemoryStorage, capsys: pytest.CaptureFixture[str]) -> None:
    lakebed.deepcopy(source.url, new_memory().url, progressbar=True)
    shown = capsys.readouterr().err
    assert "Copying: 100%" in shown
    assert "B/s" in shown


def test_from_disk_to_disk(source: MemoryStorage, tmp_path: Path) -> None:
    """Folders are made by one thread at a time, and what is new is forced to disk before the journal tells of it."""
    here, there = LocalStorage(tmp_path / "here"), LocalStorage(tmp_path / "there")
    deepcopy(source, here, None, progressbar=False)
    for number in range(60):
        here.put(f"other/{number % 7}/{number}/x", bytes(number))
    deepcopy(here, there, None, progressbar=False)
    assert same(here, there)


def test_a_place_under_two_names(source: MemoryStorage, tmp_path: Path) -> None:
    """A folder and a link to it are one."""
    lakebed.deepcopy(source.url, tmp_path / "d", progressbar=False)
    (tmp_path / "link").symlink_to(tmp_path / "d")
    for make in (lakebed.copy, lakebed.deepcopy):
        with pytest.raises(lakebed.DatasetHandlerError, match="itself"):
            make(tmp_path / "d", tmp_path / "link", overwrite=True)
    assert len(lakebed.load(tmp_path / "d").a) == 50


# -- one version -------------------------------------------------------------------------------------------------


def flat(
    source: MemoryStorage, target: Storage, monkeypatch: pytest.MonkeyPatch, **how: Any
) -> lakebed.Dataset:
    """Copy what the main branch holds to a storage."""
    monkeypatch.setattr(copy, "open_storage", lambda _: target)
    monkeypatch.setattr(places, "open_storage", lambda _: target)
    return open_on(source, read_only=True).copy("mem://anywhere", progressbar=False, **how)


def test_one_version_becomes_a_dataset(source: MemoryStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its chunks, and no others, byte for byte and with their checksums; it can be written like any other."""
    target = new_memory()
    copied = flat(source, target, monkeypatch)
    wanted = content(open_on(source, read_only=True))
    assert content(copied) == {**wanted, "commits": []}
    assert checked(target)
    needed = {table_key.rpartition("/")[2] for table_key in chunk_keys(source)}
    assert {key.rpartition("/")[2] for key, _ in target.list("") if "/chunks/" in key} == needed
    added = copied._session.snapshot.tensor("a").diff
    assert added is not None
    assert (added.created, added.first, added.last) == (True, 0, 50)
    copied.a.append(5)
    copied.commit()
    assert len(open_on(target).a) == 51
    assert not open_on(target).a.is_empty_tensor


def chunk_keys(storage: Storage) -> set[str]:
    """Keys of the chunks that the main branch needs."""
    snapshot = open_on(storage, read_only=True)._session.snapshot
    return {t.table.key(row) for t in snapshot.tensors.values() for row in range(len(t.table))}


def test_one_version_cut_off_anywhere_and_continued(
    source: MemoryStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with the whole history: no dataset before the end, and what has arrived is not copied again."""
    wanted = {**content(open_on(source, read_only=True)), "commits": []}
    number = 0
    while True:
        target = new_memory()
        try:
            flat(source, FaultyStorage(target, fail_after=number), monkeypatch)
            break
        except Crash:
            begun = copy_journal.unfinished(target)
            arrived = sum("/chunks/" in key for key, _ in target.list(""))
        if target.stat(TREE_KEY) is None:
            counting = Reads(target)
            assert content(flat(source, counting, monkeypatch)) == wanted
            written = [key for key in counting.changed if "/chunks/" in key and not key.startswith("-")]
            assert begun is None or len(written) <= len(chunk_keys(source)) - arrived + 4
        number += 3
    assert number > 20


def test_damage_in_one_version(source: MemoryStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Named, and not copied."""
    key = min(chunk_keys(source))
    good = source.get(key)
    source.put(key, good[:-1] + bytes([good[-1] ^ 1]))
    target = new_memory()
    with pytest.raises(lakebed.errors.ChecksumError, match="damaged") as caught:
        flat(source, target, monkeypatch)
    assert key in str(caught.value)
    assert target.stat(TREE_KEY) is None
    source.put(key, good)
    assert content(flat(source, target, monkeypatch))["tensors"] == content(open_on(source))["tensors"]


def test_nulls_are_copied_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a new tensor is laid out otherwise than the old one."""
    source = new_memory()
    ds = create_on(source)
    ds.create_tensor("a", dtype="int64").extend([1, None, 3])
    ds.close()
    copied = flat(source, new_memory(), monkeypatch)
    assert [v.tolist() for v in copied.a.numpy(aslist=True)] == [v.tolist() for v in ds.a.numpy(aslist=True)]


def plain(value: Any) -> Any:
    """Arrays as lists, at any depth."""
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", ["f02", "f05", "f09", "f13", "f17"])
def test_what_3_9_52_wrote(name: str, golden: Path) -> None:
    """Copies of both kinds read like the dataset; checksums are made of chunks that had none."""
    (found,) = [path for path in golden.glob(f"{name}_*") if path.is_dir()]
    source = lakebed.load(found, read_only=True)
    deep, single = new_memory(), new_memory()
    lakebed.deepcopy(found, deep.url, progressbar=False)
    lakebed.copy(found, single.url, progressbar=False)
    for storage in (deep, single):
        copied = open_on(storage, read_only=True)
        assert list(copied.tensors) == list(source.tensors)
        for tensor in source.tensors:
            if not source[tensor].is_link:
                assert repr(plain(copied[tensor].numpy(aslist=True))) == repr(
                    plain(source[tensor].numpy(aslist=True))
                )
    assert checked(single)
