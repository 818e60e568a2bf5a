"""Heads on a store: the lock file that stays with each of them tells who writes, and that 3.9.52 has not been there."""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

import lakebed
from lakebed import config
from lakebed.documents.indexes.tile_index import TileIndex
from lakebed.documents.lock import DatasetLock
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.errors import (
    ChecksumError,
    CommitFailed,
    CorruptError,
    LeaseLost,
    LockedException,
    StorageError,
    StoragePermissionError,
    StorageUnavailableError,
)
from lakebed.runtime import clock
from lakebed.storage.base import Data, Stat
from lakebed.testing import VirtualClock
from lakebed.versions.add_digests import renew_digests
from lakebed.versions.locks.leases import Lease, renew_all
from lakebed.versions.locks.marker import lock_key, read_lock
from lakebed.versions.opening import read_tree, read_tree_at
from lakebed.versions.updates import fences_of
from unit_tests.effort import PATIENCE
from unit_tests.lakebed.afar import Afar, made_on, opened_on

NODE = b"\x01\x02\x03\x04\x05\x06"


def foreign(seconds: float) -> bytes:
    """What 3.9.52 writes on another machine when it opens a head for writing."""
    return DatasetLock(NODE, clock.now() + seconds, 77).to_bytes()


def written(store: Afar) -> lakebed.Dataset:
    ds = made_on(store)
    with ds:
        ds.create_tensor("x", dtype="int64", create_id_tensor=False, create_shape_tensor=False)
        ds.x.extend([1, 2, 3])
    return ds


def head_of(store: Afar) -> str:
    return read_tree(store).branches["main"]


def put_chunk(store: Afar, head: str) -> None:
    """Let the last value of the only chunk be 77."""
    (key,) = [k for k, _ in store.objects.list(f"versions/{head}/x/chunks/")]
    store.objects.put(key, store.objects.get(key)[:-8] + (77).to_bytes(8, "little"))


def put_length(store: Afar, head: str, length: int) -> None:
    key = f"versions/{head}/x/tensor_meta.json"
    meta = TensorMeta.from_bytes(store.objects.get(key))
    store.objects.put(key, meta.with_(length=length).to_bytes())


def encoder_key(head: str) -> str:
    return f"versions/{head}/x/tiles_index/unsharded"


def leave(store: Afar, head: str) -> None:
    store.objects.put(encoder_key(head), TileIndex.empty().to_bytes())
    store.objects.delete(lock_key(head))


def crash(store: Afar, head: str) -> None:
    leave(store, head)
    store.objects.put(lock_key(head), foreign(-1))


def go_on(store: Afar, head: str) -> None:
    leave(store, head)
    store.objects.put(lock_key(head), foreign(200))


VISITS = [leave, crash, go_on]


@pytest.mark.parametrize("visit", VISITS)
def test_after_3_9_52_the_files_of_a_head_count(visit: Callable[[Afar, str], None]) -> None:
    """It closed the dataset, was killed, or still has it open: what it changed in place is read."""
    store = Afar()
    written(store)
    head = head_of(store)
    put_chunk(store, head)
    visit(store, head)
    assert opened_on(store, read_only=True).x.numpy().ravel().tolist() == [1, 2, 77]
    put_length(store, head, 2)
    assert len(opened_on(store, read_only=True)) == 2


def test_until_then_the_manifest_counts_and_nothing_else_is_read() -> None:
    """A file of the head that was damaged since is not even looked at."""
    store = Afar()
    written(store)
    put_length(store, head_of(store), 1)
    assert opened_on(store).x.numpy().ravel().tolist() == [1, 2, 3]
    assert read_lock(store, head_of(store)).lock is not None


class Telling(Afar):
    """A store whose etags are the MD5 of what it holds, as those of S3 are; some it keeps encrypted."""

    encrypted = False

    def list(self, prefix: str = "") -> Iterator[tuple[str, Stat]]:
        for key, stat in super().list(prefix):
            data = self.objects.get(key) + b"salt" * self.encrypted
            yield key, replace(stat, etag=hashlib.md5(data, usedforsecurity=False).hexdigest())


def copied(store: Afar) -> str:
    """Write a dataset as another program copies it from a disk: nobody has the head open, so it has no lock file."""
    written(store)
    head = head_of(store)
    store.objects.delete(lock_key(head))
    store.forget()
    return head


@pytest.mark.parametrize("kind", [Afar, Telling])
@pytest.mark.parametrize("encrypted", [False, True])
def test_a_copied_head_is_proven_by_one_list(kind: type[Afar], encrypted: bool) -> None:
    """Nothing is read but tree, manifest and lock; checksums of its chunks count; writing gives it a lock file."""
    store = kind()
    store.encrypted = encrypted  # type: ignore[attr-defined]
    head = copied(store)
    ds = opened_on(store, read_only=True)
    assert store.methods() == {"GET": 3, "LIST": 1}
    assert ds.x.numpy().ravel().tolist() == [1, 2, 3]
    put_chunk(store, head)
    with pytest.raises(ChecksumError):
        opened_on(store, read_only=True).x.numpy()
    writer = opened_on(store)
    writer.x.append(4)
    writer.flush()
    store.forget()
    assert len(opened_on(store)) == 4
    assert store.methods() == {"GET": 3}


def test_a_copy_in_which_a_file_is_missing_or_too_much_is_compared() -> None:
    """Whatever the list does not prove is read, and what was read counts."""
    store = Afar()
    head = copied(store)
    opened_on(store)
    for key in [key for key, _ in store.objects.list(f"versions/{head}/")]:
        data = store.objects.get(key)
        store.objects.delete(key)
        store.forget()
        with contextlib.suppress(CorruptError):
            opened_on(store)
        assert store.methods()["GET"] > 10, key
        store.objects.put(key, data)
    for name in ("x/chunks/0123456789abcdef", "x/commit_diff2", "x/tiles_index/unsharded"):
        store.objects.put(f"versions/{head}/{name}", b"")
        store.forget()
        with contextlib.suppress(CorruptError):
            opened_on(store)
        assert store.methods()["GET"] > 10, name
        store.objects.delete(f"versions/{head}/{name}")
    store.objects._objects[f"versions/{head}/"] = (b"", "1", 0)  # as consoles mark folders
    store.forget()
    opened_on(store)
    assert store.methods() == {"GET": 3, "LIST": 1}


def test_a_file_of_the_same_size_is_told_from_ours_where_etags_tell() -> None:
    """On other stores the tile encoders that 3.9.52 makes say it."""
    store = Telling()
    put_length(store, copied(store), 1)
    store.forget()
    assert opened_on(store).x.numpy().ravel().tolist() == [1]
    assert store.methods()["GET"] > 10


def test_a_copied_head_without_a_tensor_that_would_tell_is_compared() -> None:
    """Of an empty tensor nothing would be seen of an append that was taken back."""
    store = Afar()
    ds = made_on(store)
    ds.create_tensor("x", dtype="int64", create_id_tensor=False, create_shape_tensor=False)
    ds.flush()
    store.objects.delete(lock_key(head_of(store)))
    store.forget()
    assert len(opened_on(store)) == 0
    assert "LIST" not in store.methods()
    assert store.methods()["GET"] > 10


class Unlisted(Afar):
    """A store that gives no lists, as one does to whoever may only read."""

    def list(self, prefix: str = "") -> Iterator[tuple[str, Stat]]:
        raise StoragePermissionError(f"{prefix} cannot be listed")


def test_a_copied_head_that_cannot_be_listed_is_compared_and_keeps_its_checksums() -> None:
    """All of its files are as they were written, and none is there that 3.9.52 makes first."""
    store = Unlisted()
    head = copied(store)
    assert opened_on(store, read_only=True).x.numpy().ravel().tolist() == [1, 2, 3]
    put_chunk(store, head)
    with pytest.raises(ChecksumError):
        opened_on(store, read_only=True).x.numpy()


def test_a_copied_head_of_many_chunks_is_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would take as many requests as there are thousands of them."""
    monkeypatch.setattr("lakebed.versions.foreign_writes._MOST_LISTED", 4)
    store = Afar()
    copied(store)
    opened_on(store)
    assert "LIST" not in store.methods()


@pytest.mark.parametrize("visit", [leave, crash])
def test_a_writer_does_not_bring_the_digest_back(visit: Callable[[Afar, str], None]) -> None:
    """Whoever takes the lock after 3.9.52 and gives it back without a publish leaves the head as doubtful as it was."""
    store = Afar()
    written(store)
    head = head_of(store)
    visit(store, head)
    lease = Lease(store, "main")
    lease.acquire()
    renew_all()
    lease.release()
    assert read_lock(store, head).digest == ""
    put_chunk(store, head)
    ds = opened_on(store)
    assert ds.x.numpy().ravel().tolist() == [1, 2, 77]
    ds.x.append(4)
    ds.flush()
    assert read_lock(store, head_of(store)).digest != ""
    assert opened_on(store).x.numpy().ravel().tolist() == [1, 2, 77, 4]


@pytest.mark.parametrize("visit", [leave, crash])
def test_a_commit_of_a_head_that_3_9_52_changed_is_read_from_its_files(
    visit: Callable[[Afar, str], None],
) -> None:
    """As a commit it has no lock file to tell that the manifest is outdated: the tree must not vouch for it."""
    store = Afar()
    written(store)
    put_chunk(store, head_of(store))
    visit(store, head_of(store))
    ds = opened_on(store)
    commit = ds.commit("what 3.9.52 made")
    assert opened_on(store, commit).x.numpy().ravel().tolist() == [1, 2, 77]
    assert read_tree(store).commits[commit].digest is None


@pytest.mark.parametrize("visit", [leave, crash])
def test_a_dataset_that_was_open_meanwhile_sees_the_change_before_it_writes(
    visit: Callable[[Afar, str], None],
) -> None:
    """What 3.9.52 did in place is not published over, though the tree is the one that is known."""
    store = Afar()
    ds = written(store)
    assert len(ds) == 3
    put_chunk(store, head_of(store))
    visit(store, head_of(store))
    ds.x.append(4)
    ds.flush()
    assert ds.x.numpy().ravel().tolist() == [1, 2, 77, 4]
    assert opened_on(store).x.numpy().ravel().tolist() == [1, 2, 77, 4]


def test_a_live_lock_of_3_9_52_keeps_writers_out() -> None:
    """And is named; one that ran out is taken over, with a fence."""
    store = Afar()
    ds = written(store)
    store.objects.put(lock_key(head_of(store)), foreign(100))
    with pytest.raises(LockedException, match="process 77"):
        ds.x.append(4)
    store.objects.put(lock_key(head_of(store)), foreign(-1))
    ds.x.append(4)
    ds.flush()
    assert fences_of(read_tree(store)) == {"main": 1}


def test_a_crashed_writer_of_ours_leaves_the_manifest_right() -> None:
    """Its lock keeps others out until it runs out; reading costs no more, and the next writer raises the fence."""
    store = Afar()
    virtual = VirtualClock(clock.now())
    with clock.replaced(virtual):
        ds = written(store)
        ds.x.append(4)
        lock = read_lock(store, head_of(store))
        assert lock.lock is not None
        assert not lock.lock.is_released
        ds._session.abandon()  # as a kill does
        key = lock_key(head_of(store))
        store.objects.put(key, DatasetLock(NODE, lock.lock.expiry, 4, lock.digest).to_bytes())
        store.forget()
        assert len(opened_on(store)) == 3
        assert store.methods() == {"GET": 3}
        with pytest.raises(LockedException, match="process 4 "):
            opened_on(store).x.append(5)
        virtual.advance(config.LEASE_SECONDS + 1)
        after = opened_on(store)
        after.x.append(5)
        after.flush()
    assert opened_on(store).x.numpy().ravel().tolist() == [1, 2, 3, 5]
    assert fences_of(read_tree(store)) == {"main": 1}


def test_a_renewal_does_not_write_over_whoever_took_over() -> None:
    """It is put on condition that the lock is the one that was written last."""
    store = Afar()
    written(store)
    lease = Lease(store, "main")
    lease.acquire()
    taken = foreign(200)
    store.objects.put(lock_key(head_of(store)), taken)
    renew_all()
    with pytest.raises(LeaseLost, match="process 77"):
        lease.check()
    lease.release()
    assert store.objects.get(lock_key(head_of(store))) == taken


def test_a_lock_file_that_is_gone_is_a_lost_lease() -> None:
    """3.9.52 took it, wrote, and went: the next check of an old lease finds nothing, and that is not ours any more."""
    store = Afar()
    virtual = VirtualClock(clock.now())
    with clock.replaced(virtual):
        written(store)
        lease = Lease(store, "main")
        lease.acquire()
        store.objects.delete(lock_key(head_of(store)))
        virtual.advance(config.LEASE_SECONDS)
        with pytest.raises(LeaseLost, match="is missing"):
            lease.check()
        lease.release()


def test_a_young_lease_is_not_looked_at() -> None:
    """Nobody can have taken it; an old one is renewed before the publish, which looks at the same time."""
    store = Afar()
    virtual = VirtualClock(clock.now())
    with clock.replaced(virtual):
        written(store)
        lease = Lease(store, "main")
        lease.acquire()
        store.forget()
        lease.check()
        assert not store.requests
        virtual.advance(config.LEASE_SECONDS / 2)
        lease.check()
        assert store.methods() == {"PUT-IF": 1}
        lease.check()
        assert store.methods() == {"PUT-IF": 1}
        lease.release()


class Forgetful(Afar):
    """Loses the answers of conditional puts of some keys, which are done all the same."""

    losing: str = ""
    error: type[StorageError] = StorageUnavailableError

    def put_if(self, key: str, data: Data, etag: str | None) -> str:
        found = super().put_if(key, data, etag)
        if self.losing and self.losing in key:
            self.losing = ""
            # As a client that repeats a request finds it done already, or gives up.
            if self.error is StorageUnavailableError:
                raise StorageUnavailableError(f"no answer about {key!r}")
            super().put_if(key, data, etag)
        return found


@pytest.mark.parametrize("repeated", [False, True])
@pytest.mark.parametrize("key", ["dataset_lock", "version_control"])
def test_a_lost_answer_is_recognised_as_ours(key: str, repeated: bool) -> None:
    """Whether the client gives up, or repeats the put and hears that the object is another by now."""
    store = Forgetful()
    ds = written(store)
    store.losing, store.error = key, StorageError if repeated else StorageUnavailableError
    try:
        ds.x.append(4)
        ds.flush()
    except StorageUnavailableError:
        ds.x.append(4)  # the lock was not to be had; nothing was taken in
        ds.flush()
    assert opened_on(store).x.numpy().ravel().tolist() == [1, 2, 3, 4]
    assert fences_of(read_tree(store)) == {}


def test_a_renewal_whose_answer_was_lost_goes_on_with_what_is_there() -> None:
    """The lock is ours, under an identity that nobody told us."""
    store = Forgetful()
    written(store)
    lease = Lease(store, "main")
    lease.acquire()
    store.losing = "dataset_lock"
    renew_all()
    renew_all()
    lease.check()
    lease.release()
    lock = read_lock(store, head_of(store)).lock
    assert lock is not None
    assert lock.is_released


class Weak(Afar):
    """A store that takes conditions and ignores them."""

    conditional = False


def test_on_a_store_that_enforces_nothing_every_publish_looks_first() -> None:
    """Two writers that took the lease at the same moment: the one whose lock was overwritten finds out in time."""
    store = Weak()
    ds = written(store)
    with ds:
        ds.x.append(4)
        store.objects.put(lock_key(head_of(store)), foreign(200))
        with pytest.raises(CommitFailed, match="process 77"):
            ds.flush()
    assert len(opened_on(store, read_only=True)) == 3


def test_many_writers_take_turns() -> None:
    """Threads with datasets of their own: each row is there once, whoever had to wait or try again."""
    store = Afar()
    written(store)
    told: list[int] = []

    def write(number: int) -> None:
        ds = lakebed.Dataset(opened_on(store)._handle)
        ds._session.lock_timeout = 30
        for step in range(5):
            value = 100 * number + step
            while True:
                try:
                    ds.x.append(value)
                    ds.flush()
                except (LockedException, CommitFailed):
                    continue
                break
            told.append(value)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(1, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    found = opened_on(store).x.numpy().ravel().tolist()
    assert found[:3] == [1, 2, 3]
    assert sorted(found[3:]) == sorted(told)
    assert len(told) == 15


def test_a_forked_child_has_neither_the_lease_nor_its_thread() -> None:
    """It reads, and is refused as a writer by the lock of its parent, which goes on."""
    store = Afar()
    ds = written(store)
    with ds:
        ds.x.append(4)
        ds.flush()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                assert len(ds) == 4
                try:
                    ds.x.append(9)
                except LockedException:
                    code = 0
            finally:
                os._exit(code)
        _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        ds.x.append(5)
    assert len(opened_on(store)) == 5


def test_the_lock_file_of_a_head_confirms_its_new_digest_unless_another_writer_is_there() -> None:
    """As a repair does it: the manifest made from the files counts from then on."""
    store = Afar()
    written(store)
    head = head_of(store)
    put_chunk(store, head)
    leave(store, head)
    renew_digests(store, read_tree_at(store), [head])
    store.forget()
    assert opened_on(store).x.numpy().ravel().tolist() == [1, 2, 77]
    assert store.methods() == {"GET": 4}
    go_on(store, head)
    renew_digests(store, read_tree_at(store), [head])
    assert read_lock(store, head).digest == ""
    store.forget()
    assert len(opened_on(store, read_only=True)) == 3
    assert store.methods()["GET"] > 3


def test_a_lock_that_another_machine_gave_back_needs_no_fence() -> None:
    """Only one that ran out may belong to a writer that comes back."""
    store = Afar()
    written(store)
    head = head_of(store)
    store.objects.put(lock_key(head), DatasetLock(NODE, 0.0, 77, read_lock(store, head).digest).to_bytes())
    ds = opened_on(store)
    ds.x.append(4)
    ds.flush()
    assert fences_of(read_tree(store)) == {}
    assert len(opened_on(store)) == 4
