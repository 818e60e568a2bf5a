"""Reader leases: exact knowledge of who reads, without a write."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lakebed.errors import KeyNotFound
from lakebed.storage.base import Storage, innermost, traits_of
from lakebed.storage.local import LocalStorage
from lakebed.storage.reader_locks import claimed, is_shared, share
from lakebed.testing import FaultyStorage
from unit_tests.lakebed.datasets import new_memory


@pytest.fixture(params=["local", "memory", "wrapped"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    """A storage of each kind that knows its readers, with one object."""
    found: Storage = new_memory() if request.param == "memory" else LocalStorage(tmp_path / "d")
    found.put("v/meta", b"x")
    return FaultyStorage(found) if request.param == "wrapped" else found


def test_a_lease_is_known_until_it_is_released(storage: Storage) -> None:
    """An object is shared from the first lease to the last."""
    assert traits_of(storage).reader_leases
    assert is_shared(storage, "v/meta") is False
    first, second = share(storage, "v/meta"), share(storage, "v/meta")
    assert first is not None
    assert second is not None
    first.release()
    first.release()
    assert is_shared(storage, "v/meta") is True
    second.release()
    assert is_shared(storage, "v/meta") is False


def test_a_lease_ends_when_it_is_forgotten(storage: Storage) -> None:
    """Whoever drops the lease without a word is no reader any more."""
    lease = share(storage, "v/meta")
    assert lease is not None
    del lease
    assert is_shared(storage, "v/meta") is False


def test_nobody_begins_to_read_what_is_being_removed(storage: Storage) -> None:
    """While an object is claimed, and after it is gone, there is no lease on it."""
    with claimed(storage, "v/meta") as free:
        assert free is True
        with pytest.raises(KeyNotFound):
            share(storage, "v/meta")
        storage.delete("v/meta")
    with pytest.raises(KeyNotFound):
        share(storage, "v/meta")
    with claimed(storage, "v/meta") as free:
        assert free is True


def test_what_is_read_can_not_be_claimed(storage: Storage) -> None:
    """A claim fails while somebody reads, and works afterwards."""
    lease = share(storage, "v/meta")
    assert lease is not None
    with claimed(storage, "v/meta") as free:
        assert free is False
    lease.release()
    with claimed(storage, "v/meta") as free:
        assert free is True
    again = share(storage, "v/meta")
    assert again is not None
    again.release()


def test_a_lease_needs_no_right_to_write(tmp_path: Path) -> None:
    """A file that can only be read is held all the same, and nothing is written."""
    storage = LocalStorage(tmp_path)
    storage.put("meta", b"x")
    (tmp_path / "meta").chmod(0o444)
    before = sorted(tmp_path.iterdir())
    lease = share(storage, "meta")
    assert lease is not None
    assert is_shared(storage, "meta") is not False
    assert sorted(tmp_path.iterdir()) == before
    lease.release()


READER = """
import sys, time
from lakebed.storage.local import LocalStorage
from lakebed.storage.reader_locks import share
lease = share(LocalStorage(sys.argv[1]), "meta")
print("reading", flush=True)
time.sleep(60)
"""


def test_a_reader_in_another_process_is_known_until_it_dies(tmp_path: Path) -> None:
    """The lease of a killed process ends with it."""
    storage = LocalStorage(tmp_path)
    storage.put("meta", b"x")
    with subprocess.Popen([sys.executable, "-c", READER, str(tmp_path)], stdout=subprocess.PIPE) as reader:
        assert reader.stdout is not None
        reader.stdout.readline()
        assert is_shared(storage, "meta") is True
        reader.kill()
        reader.wait()
        assert is_shared(storage, "meta") is False


def test_a_forked_child_goes_on_reading(tmp_path: Path) -> None:
    """The child has the lease, too, until it ends or releases it, which leaves the parent's alone."""
    storage = LocalStorage(tmp_path)
    storage.put("meta", b"x")
    lease = share(storage, "meta")
    assert lease is not None
    go_on, ready = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.read(go_on[0], 1)
        lease.release()
        os.write(ready[1], b"x")
        os.read(go_on[0], 1)
        os._exit(0)
    os.write(go_on[1], b"x")
    os.read(ready[0], 1)
    assert is_shared(storage, "meta") is True  # the child let go, the parent did not
    lease.release()
    assert is_shared(storage, "meta") is False
    os.write(go_on[1], b"x")
    os.waitpid(child, 0)
    for end in (*go_on, *ready):
        os.close(end)


def test_other_storages_know_no_readers(tmp_path: Path) -> None:
    """A storage of an unknown kind gives no lease, and says that nobody knows."""

    class Elsewhere:
        url = "elsewhere://"

    other: Storage = Elsewhere()  # type: ignore[assignment]
    assert innermost(other) is other
    assert not traits_of(other).reader_leases
    assert share(other, "meta") is None
    assert is_shared(other, "meta") is None
    del tmp_path
