"""Leases: one writer at a time, renewed while it lives, taken over when it does not, and never used afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import lakebed
from lakebed import config
from lakebed.documents.lock import DatasetLock
from lakebed.errors import CommitFailed, LeaseLost, LockedException, LockedWarning
from lakebed.runtime import clock
from lakebed.session.handle import Handle
from lakebed.session.session import Session
from lakebed.storage.base import StorageTraits
from lakebed.storage.local import LocalStorage
from lakebed.storage.memory import MemoryStorage
from lakebed.testing import VirtualClock
from lakebed.versions.create import create
from lakebed.versions.locks.leases import Lease, renew_all
from lakebed.versions.locks.marker import lock_key, read_lock
from lakebed.versions.opening import read_tree
from lakebed.versions.swap import read_tree_at, swap
from lakebed.versions.updates import RaiseFence, fences_of
from unit_tests.effort import PATIENCE

Start = Callable[[str, Path], subprocess.Popen[str]]
FOREIGN = DatasetLock(b"\x01\x02\x03\x04\x05\x06", 0.0, 77)


def foreign(expiry: float) -> bytes:
    """Lock file of a process on another machine."""
    return DatasetLock(FOREIGN.node, expiry, FOREIGN.pid).to_bytes()


class Elsewhere(MemoryStorage):
    """A store whose locks nobody frees, as an object store's: the lock file is all there is."""

    traits = StorageTraits(reader_leases=True)

    @property
    def url(self) -> str:
        return f"store://{id(self)}"


@pytest.fixture
def start() -> Iterator[Callable[[str, Path], subprocess.Popen[str]]]:
    """Run code in another process, with pipes to talk to it."""
    with ExitStack() as stack:

        def run(code: str, path: Path) -> subprocess.Popen[str]:
            command = [sys.executable, "-c", textwrap.dedent(code), str(path)]
            pipe = subprocess.PIPE
            return stack.enter_context(subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True))

        yield run


@pytest.fixture(params=[MemoryStorage, Elsewhere])
def storage(request: pytest.FixtureRequest) -> MemoryStorage:
    made: MemoryStorage = request.param()
    create(made)
    return made


def head_of(storage: MemoryStorage | LocalStorage) -> str:
    return read_tree(storage).branches["main"]


def is_free(storage: MemoryStorage, version: str) -> bool:
    """Whether nothing keeps other writers out of a version."""
    found = read_lock(storage, version)
    if not isinstance(storage, Elsewhere):
        return found.etag is None
    return found.lock is not None and found.lock.is_released


def test_a_lease_shows_in_the_lock_file_until_it_is_released(storage: MemoryStorage) -> None:
    """While it is held the file says so for LEASE_SECONDS; afterwards it is gone, or released where it is a witness."""
    lease = Lease(storage, "main")
    at = lease.acquire()
    found = DatasetLock.from_bytes(storage.get(lock_key(at.tree.branches["main"])))
    assert found.pid == os.getpid()
    assert found.expiry == pytest.approx(time.time() + config.LEASE_SECONDS, abs=5)
    lease.release()
    assert is_free(storage, head_of(storage))


def test_renewing_moves_the_expiry_of_everything_that_is_guarded(storage: MemoryStorage) -> None:
    """Head and draft stay locked however long the writer works."""
    with clock.replaced(VirtualClock(1000.0)) as _:
        lease = Lease(storage, "main")
        lease.acquire()
        lease.protect("d" * 40)
    with clock.replaced(VirtualClock(1200.0)):
        renew_all()
        for version in (head_of(storage), "d" * 40):
            assert (
                DatasetLock.from_bytes(storage.get(lock_key(version))).expiry == 1200 + config.LEASE_SECONDS
            )
        lease.release()
    assert is_free(storage, "d" * 40)


def test_a_fresh_lease_is_not_renewed(storage: MemoryStorage) -> None:
    """The thread comes by at any time; what was written just now would only cost requests."""
    virtual = VirtualClock(1000.0)
    with clock.replaced(virtual):
        lease = Lease(storage, "main")
        lease.acquire()
        assert not lease.is_due
        virtual.advance(config.LEASE_SECONDS / 7)
        assert lease.is_due
        lease.renew()
        assert not lease.is_due
        lease.release()


def test_the_thread_renews_by_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, start: Start) -> None:
    """A writer that works for longer than its lease keeps it, without a call of anybody."""
    code = """
    import sys, time, lakebed
    from lakebed import config
    config.LEASE_SECONDS = 0.4
    ds = lakebed.load(sys.argv[1])
    with ds:
        ds.x.append(1)
        print(flush=True)
        time.sleep(1.5)
        ds.x.append(2)
    """
    monkeypatch.setattr(config, "LEASE_SECONDS", 0.4)
    path = tmp_path / "ds"
    made = lakebed.empty(path)
    made.create_tensor("x", dtype="int64")
    made.flush()
    writer = start(code, path)
    assert writer.stdout is not None
    writer.stdout.readline()
    until = time.monotonic() + 1.2
    while time.monotonic() < until:
        with pytest.raises(LockedException, match=f"process {writer.pid} on .*s ago"):
            made.x.append(3)
        time.sleep(0.2)
    assert writer.wait(PATIENCE) == 0
    assert made.x.numpy().ravel().tolist() == [1, 2] or lakebed.load(path).x.numpy().ravel().tolist() == [
        1,
        2,
    ]


CONTAINER = """
import sys, time, uuid, lakebed
uuid.getnode = lambda: 0x020304050607
ds = lakebed.load(sys.argv[1])
ds.x.append(1)
ds.flush()
with ds:
    ds.x.append(2)
    print(flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("kernel", ["ours", "another"])
def test_a_killed_container_keeps_nobody_out_of_a_folder_that_it_shared(
    tmp_path: Path, start: Start, kernel: str
) -> None:
    """It counts as another machine; but its kernel is ours, and has freed what it had locked."""
    path = tmp_path / "ds"
    lakebed.empty(path).create_tensor("x", dtype="int64")
    lakebed.load(path).flush()
    container = start(CONTAINER, path)
    assert container.stdout is not None
    container.stdout.readline()
    container.send_signal(signal.SIGKILL)
    container.wait()
    if kernel == "another":
        (owner,) = path.glob(".lakebed/writer-*.lock")
        owner.write_text(owner.read_text().replace('"boot": "', '"boot": "f'))
    if kernel == "ours":
        ds = lakebed.load(path, read_only=False)
        ds.x.append(3)
        ds.flush()
        assert ds.x.numpy().ravel().tolist() == [1, 3]
    else:
        with pytest.raises(LockedException, match=r"machine 02:03:04:05:06:07 .*runs out in \d+ s"):
            lakebed.load(path, read_only=False)


def test_a_killed_writer_keeps_nobody_out_if_python_finds_no_network_card(
    tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of the card is then another random one in each process."""
    path = tmp_path / "ds"
    lakebed.empty(path).create_tensor("x", dtype="int64")
    writer = start(CONTAINER.replace("0x020304050607", "0x01aaaaaaaaaa"), path)
    assert writer.stdout is not None
    writer.stdout.readline()
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    monkeypatch.setattr("uuid.getnode", lambda: 0x01BBBBBBBBBB)
    ds = lakebed.load(path)
    ds.x.append(3)
    ds.flush()
    assert ds.x.numpy().ravel().tolist() == [1, 3]


def test_a_live_lock_of_another_machine_keeps_us_out_and_is_named(storage: MemoryStorage) -> None:
    """The error names process, machine and age, and when the lock runs out."""
    key = lock_key(head_of(storage))
    storage.put(key, foreign(clock.now() + 100))
    with pytest.raises(
        LockedException, match=r"process 77 on machine 06:05:04:03:02:01 .*200 s ago.* in 100 s"
    ):
        Lease(storage, "main").acquire()
    assert storage.get(key) == foreign(DatasetLock.from_bytes(storage.get(key)).expiry)


def test_an_expired_lock_is_taken_over_and_where_its_owner_may_live_the_fence_rises() -> None:
    """Where only the lock file keeps others out, its owner may still come back: the tree tells it that it is late."""
    storage = Elsewhere()
    create(storage)
    storage.put(lock_key(head_of(storage)), foreign(clock.now() - 1))
    lease = Lease(storage, "main")
    at = lease.acquire()
    assert fences_of(at.tree) == {"main": 1} == fences_of(read_tree(storage))
    lease.check()
    lease.release()
    Lease(storage, "main").acquire()
    assert fences_of(read_tree(storage)) == {"main": 1}, "a lease that was given back needs no fence"


def test_a_lease_that_another_writer_took_over_is_lost_for_good(storage: MemoryStorage) -> None:
    """check() refuses, also after the other one has gone, and release() leaves the other's lock alone."""
    lease = Lease(storage, "main")
    lease.acquire()
    key = lock_key(head_of(storage))
    storage.put(key, foreign(clock.now() + 100))
    if isinstance(storage, Elsewhere):
        lease.check()  # the lease is young, nobody can have taken it: that costs no request
        lease.renew()
    with pytest.raises(LeaseLost, match=r"process 77 .* has locked it meanwhile"):
        lease.check()
    lease.renew()
    assert DatasetLock.from_bytes(storage.get(key)).pid == 77
    storage.delete(key)
    with pytest.raises(LeaseLost):
        lease.check()
    lease.release()


@pytest.mark.parametrize("leaving", [False, True])
def test_a_renewal_in_the_middle_of_a_publish_costs_nobody_the_lease(
    storage: MemoryStorage, leaving: bool
) -> None:
    """The folder of a draft has our lock already when the publish writes the one that names the manifest."""
    lease, draft = Lease(storage, "main"), "d" * 40
    at = lease.acquire()
    lease.protect(draft)
    lease.publish(draft, "5" * 16, leaving=leaving)
    renew_all()
    lease.moved(draft)
    if isinstance(storage, Elsewhere):
        found = read_lock(storage, draft)
        assert (found.digest, found.lock is not None and found.lock.is_released) == ("5" * 16, leaving)
    if not leaving:
        renew_all()
        lease.check()
    lease.release()
    assert at.tree == read_tree(storage)


def test_a_writer_behind_the_fence_can_not_publish(storage: MemoryStorage) -> None:
    """Even if it never looks at its lease again, the conditional put meets a tree with another number."""
    ds = lakebed.Dataset(_handle(storage))
    ds.create_tensor("x", dtype="int64")
    at = read_tree_at(storage)
    swap(storage, at, [RaiseFence("main")], RaiseFence("main").apply(at.tree))
    before = head_of(storage)
    with pytest.raises(LeaseLost, match="took over 'main'"):
        ds.flush()
    assert head_of(storage) == before
    ds.create_tensor("x", dtype="int64")
    ds.flush()
    assert "x" in lakebed.Dataset(_handle(storage)).tensors


def _handle(storage: MemoryStorage) -> Handle:
    return Handle(Session(storage))


STOPPED = """
import sys, lakebed
from lakebed import config
config.LEASE_SECONDS = 0.5
ds = lakebed.load(sys.argv[1])
ds.x.append(1)
print("ready", flush=True)
sys.stdin.readline()
try:
    ds.flush()
    print("published")
except lakebed.errors.CommitFailed as error:
    print(type(error).__name__, error)
ds.x.append(9)
ds.flush()
print("again")
"""


def test_a_stopped_writer_is_overtaken_and_hears_of_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, start: Start
) -> None:
    """SIGSTOP for longer than the lease: another process takes over, and what the first had is refused, in words."""
    monkeypatch.setattr(config, "LEASE_SECONDS", 0.5)
    path = tmp_path / "ds"
    made = lakebed.empty(path)
    made.create_tensor("x", dtype="int64")
    made.flush()
    first = start(STOPPED, path)
    assert first.stdout is not None
    assert first.stdin is not None
    assert first.stdout.readline() == "ready\n"
    first.send_signal(signal.SIGSTOP)
    with pytest.raises(LockedException):
        made.x.append(2)
    time.sleep(0.8)
    made.x.append(2)
    made.flush()
    first.send_signal(signal.SIGCONT)
    first.stdin.write("\n")
    first.stdin.flush()
    said = first.stdout.read()
    assert first.wait(PATIENCE) == 0
    assert "LeaseLost" in said
    assert "published" not in said
    assert "again" in said
    assert lakebed.load(path, read_only=True).x.numpy().ravel().tolist() == [2, 9]
    assert fences_of(read_tree(LocalStorage(path))) == {"main": 1}


HOLD = """
import sys, lakebed
ds = lakebed.load(sys.argv[1])
ds.x.append(1)
print("ready", flush=True)
sys.stdin.readline()
"""


def test_loading_says_who_writes_and_never_turns_read_only(tmp_path: Path, start: Start) -> None:
    """None warns and names the writer, False raises, and neither gives a dataset that is silently read-only."""
    path = tmp_path / "ds"
    made = lakebed.empty(path)
    made.create_tensor("x", dtype="int64")
    made.flush()
    holder = start(HOLD, path)
    assert holder.stdout is not None
    holder.stdout.readline()
    with pytest.warns(LockedWarning, match=f"process {holder.pid} "):
        ds = lakebed.load(path)
    assert not ds.read_only
    with pytest.raises(LockedException, match=f"process {holder.pid} "):
        ds.x.append(2)
    with pytest.raises(LockedException, match=f"process {holder.pid} "):
        lakebed.load(path, read_only=False)
    assert lakebed.load(path, read_only=True).read_only
    waiting = start("import sys, lakebed; lakebed.load(sys.argv[1], read_only=False, lock_timeout=30)", path)
    time.sleep(0.3)
    holder.communicate("\n")
    assert waiting.wait(PATIENCE) == 0
    assert not lakebed.load(path, read_only=False).read_only
    assert issubclass(LeaseLost, CommitFailed)
