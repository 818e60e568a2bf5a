"""Garbage on stores: only time protects readers, a look costs nothing when nothing is due, and files go in bulk."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import lakebed
from lakebed import config
from lakebed.runtime import clock
from lakebed.storage.base import BulkStorage
from lakebed.testing import VirtualClock
from lakebed.versions.gc.collect import collect
from lakebed.versions.locks.marker import lock_key, own_lock
from unit_tests.lakebed.afar import Afar, made_on, opened_on


@pytest.fixture
def virtual() -> Iterator[VirtualClock]:
    with clock.replaced(VirtualClock(clock.now())) as _:
        yield clock._clocks[-1]  # type: ignore[misc]


def written(store: Afar) -> lakebed.Dataset:
    ds = made_on(store)
    with ds:
        for name in "abc":
            ds.create_tensor(name, dtype="int64", create_id_tensor=False, create_shape_tensor=False)
    return ds


def publish(ds: lakebed.Dataset, times: int, virtual: VirtualClock) -> None:
    for _ in range(times):
        ds.append({"a": 1, "b": 2, "c": 3})
        ds.flush()
        virtual.advance(1)


def folders(store: Afar) -> set[str]:
    return {key.split("/")[1] for key, _ in store.objects.list("versions/")}


def test_a_writer_collects_by_time_without_a_list_and_in_bulk(virtual: VirtualClock) -> None:
    """Nothing is asked before something is due; then one request removes many heads, and no more than those."""
    store = Afar()
    ds = written(store)
    publish(ds, 40, virtual)
    assert not store.methods().keys() & {"LIST", "DELETE"}
    assert len(folders(store)) == 42
    virtual.advance(config.GRACE_SECONDS)
    store.forget()
    publish(ds, 16, virtual)
    assert store.methods()["DELETE"] == 1
    assert "LIST" not in store.methods()
    assert len(folders(store)) <= 17
    assert opened_on(store).a.numpy().ravel().tolist() == [1] * 56


def test_what_is_not_due_stays(virtual: VirtualClock) -> None:
    """A reader that opened a head within the grace period reads it to its end."""
    store = Afar()
    ds = written(store)
    publish(ds, 20, virtual)
    reader = opened_on(store, read_only=True)
    publish(ds, 100, virtual)
    assert reader.a.numpy().ravel().tolist() == [1] * 20
    collect(store)
    assert reader.b.numpy().ravel().tolist() == [2] * 20


@pytest.mark.parametrize("ahead", [0.0, 86_400.0, -86_400.0])
def test_the_clock_of_the_store_says_how_old_files_are(ahead: float) -> None:
    """What nobody knows of goes when it is old by the store's own clock, whatever ours says."""
    store = Afar(ahead=ahead)
    ds = written(store)
    orphan = f"versions/{'f' * 40}/a/chunks/1234"
    store.put(orphan, b"of a publish that was cut off, or is on its way")
    collect(store, grace=0)
    assert store.objects.stat(orphan) is not None, "it is young"
    data, etag, modified = store.objects._objects[orphan]
    store.objects._objects[orphan] = (data, etag, modified - round(400 * 1e9))
    collect(store, grace=0, dry_run=True)
    assert store.objects.stat(orphan) is not None
    head = ds._session.snapshot.version_id
    before = store.objects.get(lock_key(head))
    store.put(lock_key(head), own_lock().to_bytes())
    collect(store, grace=0)
    assert store.objects.stat(orphan) is not None, "a writer is at work, and it may be his"
    store.put(lock_key(head), before)
    report = collect(store, grace=0)
    assert store.objects.stat(orphan) is None
    assert "f" * 40 in {gone.name for gone in report.removed}
    assert store.objects.stat(".lakebed/clock") is None
    assert len(opened_on(store)) == 0


def test_a_full_collection_removes_in_bulk() -> None:
    """A hundred dead heads take one request for all of their files."""
    store = Afar()
    ds = written(store)
    with ds:
        for _ in range(60):
            ds.a.extend(np.arange(3))
            ds.flush()
    store.forget()
    collect(store, grace=0)
    assert isinstance(store, BulkStorage)
    assert store.methods()["DELETE"] <= 3
    assert len(folders(store)) <= 2
    assert len(opened_on(store).a) == 180
