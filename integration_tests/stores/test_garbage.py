"""Garbage on a real store: heads go by time and in bulk, readers within the grace period keep what they read."""

from __future__ import annotations

import uuid

import pytest

import lakebed
from integration_tests.stores.servers import Server
from lakebed import config
from lakebed.runtime import clock
from lakebed.storage.base import Storage
from lakebed.storage.url import open_storage, parse
from lakebed.testing import VirtualClock
from lakebed.versions.gc.collect import collect
from lakebed.versions.gc.sweep import Sweep


def folders(storage: Storage) -> set[str]:
    return {key.split("/")[1] for key, _ in storage.list("versions/")}


def publish(ds: lakebed.Dataset, times: int, virtual: VirtualClock) -> None:
    for _ in range(times):
        ds.x.append(1)
        ds.flush()
        virtual.advance(1)


def test_what_a_writer_replaced_goes_when_its_time_has_come(
    store: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing else: what is there reads the same, before and after a full collection, and young files stay."""
    virtual = VirtualClock(clock.now())
    url = store.url("garbage")
    storage = open_storage(parse(url, creds=store.creds))
    with clock.replaced(virtual):
        ds = lakebed.empty(url, creds=store.creds)
        with ds:
            ds.create_tensor("x", dtype="int64", create_id_tensor=False, create_shape_tensor=False)
            publish(ds, 14, virtual)
            reader = lakebed.load(url, creds=store.creds, read_only=True)
            assert len(folders(storage)) == 15
            monkeypatch.setattr(config, "CACHE_BYTES", 0)
            assert reader.x.numpy().ravel().tolist() == [1] * 14
            virtual.advance(config.GRACE_SECONDS)
            publish(ds, 2, virtual)
            assert len(folders(storage)) <= 4
        orphan = f"versions/{uuid.uuid4().hex}00000000/x/chunks/12"
        storage.put(orphan, b"of a publish that is on its way, or was cut off")
        kept = {found.name for found in collect(storage, grace=0).kept}
        assert orphan.split("/")[1] in kept
        assert storage.stat(orphan) is not None
        monkeypatch.setattr("lakebed.versions.gc.sweep._UNDER_WAY", 0.0)
        sweep = Sweep(storage, grace=0)
        for _ in sweep.steps():
            pass
        assert storage.stat(orphan) is None
        assert len(folders(storage)) == 1
        assert lakebed.load(url, creds=store.creds).x.numpy().ravel().tolist() == [1] * 16
