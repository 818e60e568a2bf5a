"""Backups to, from and between stores: only what is new is sent, one at a time, and what comes back is equal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lakebed
from integration_tests.stores import servers
from integration_tests.stores.servers import Server
from lakebed.copying.repository import Repository
from lakebed.errors import LockedException
from lakebed.maintenance.verify import verify
from lakebed.storage.url import Location, open_storage


def fill(ds: lakebed.Dataset, commits: int, seed: int) -> None:
    """Commit rows that do not compress."""
    rng = np.random.default_rng(seed)
    for number in range(commits):
        with ds:
            ds.a.extend(rng.integers(0, 255, (4, 30_000), dtype=np.uint8))
        ds.commit(f"{seed}.{number}")


@pytest.fixture
def local(tmp_path: Path) -> Path:
    """A dataset with three commits, a branch and a tag."""
    ds = lakebed.empty(tmp_path / "ds")
    ds.create_tensor("a", dtype="uint8")
    fill(ds, 3, 1)
    ds.create_tag("v1")
    ds.checkout("side", create=True)
    ds.a.append(np.zeros(30_000, np.uint8))
    ds.close()
    return tmp_path / "ds"


def seen(url: Any, creds: Any = None) -> dict[str, Any]:
    """Every branch with its commits and rows, tags, and whether each head opens by its manifest."""
    ds = lakebed.load(url, read_only=True, creds=creds)
    found: dict[str, Any] = {"tags": sorted(ds.get_tags())}
    for branch in ds.branches:
        ds.checkout(branch)
        assert ds._session.snapshot.origin is not None
        found[branch] = ([c["commit"] for c in ds.commits], ds.a.numpy().tobytes())
    return found


def test_there_and_back(store: Server, local: Path, tmp_path: Path) -> None:
    """Disk to bucket, bucket to bucket, and back to a disk and a bucket: equal, trusted, sound."""
    how: Any = {"progressbar": False}
    first, second = store.url("backups-1"), store.url("backups-2")
    states = {}
    for number in range(2):
        with lakebed.load(local) as ds:
            fill(ds, 1, 10 + number)
        made = lakebed.backup(local, first, dest_creds=store.creds, **how)
        states[made.id] = seen(local)
    assert [point.id for point in lakebed.backups(first, creds=store.creds)] == list(states)
    for number, (id_, state) in enumerate(states.items()):
        back = store.url(f"back-{number}")
        lakebed.restore(first, back, at=id_, src_creds=store.creds, dest_creds=store.creds, **how)
        assert seen(back, store.creds) == state
        assert verify(lakebed.load(back, creds=store.creds, read_only=True).storage).is_sound
    lakebed.backup(back, second, src_creds=store.creds, dest_creds=store.creds, keep_last=1, **how)
    lakebed.restore(second, tmp_path / "back", src_creds=store.creds, **how)
    assert seen(tmp_path / "back") == states[list(states)[-1]]
    assert lakebed.verify_backups(first, creds=store.creds, progressbar=False).is_sound
    # A restored dataset is written on, and backed up to where it came from.
    with lakebed.load(back, creds=store.creds) as ds:
        fill(ds, 1, 20)
    lakebed.backup(back, first, src_creds=store.creds, dest_creds=store.creds, keep_last=1, **how)
    assert len(lakebed.backups(first, creds=store.creds)) == 1
    lakebed.restore(first, tmp_path / "last", src_creds=store.creds, **how)
    assert seen(tmp_path / "last") == seen(back, store.creds)


def test_requests_are_those_of_what_is_new(moto: Server, local: Path) -> None:
    """A backup of nothing new is a handful of requests; one of a commit sends its files."""
    how: Any = {"progressbar": False}
    url = moto.url("counted")
    lakebed.backup(local, url, dest_creds=moto.creds, **how)
    with servers.counting(moto) as book:
        creds = moto.through(book)
        lakebed.backup(local, url, dest_creds=creds, **how)
        assert len(book.requests) < 27, [(r.method, r.path) for r in book.requests]
        book.clear()
        with lakebed.load(local) as ds:
            fill(ds, 1, 3)
        made = lakebed.backup(local, url, dest_creds=creds, **how)
        sent = {r.path for r in book.requests if r.method == "PUT" and "/objects/" in r.path}
        assert len(sent) == made.added_files


def test_one_at_a_time(moto: Server, local: Path) -> None:
    """While a process of another machine may be at work, another one is refused."""
    url = moto.url("locked")
    lakebed.backup(local, url, dest_creds=moto.creds, progressbar=False)
    storage = open_storage(Location("s3", url.removeprefix("s3://"), None, moto.creds))
    with Repository(storage).running("x"), pytest.raises(LockedException, match="another backup"):
        lakebed.backup(local, url, dest_creds=moto.creds, progressbar=False)
    lakebed.backup(local, url, dest_creds=moto.creds, progressbar=False)
    assert len(lakebed.backups(url, creds=moto.creds)) == 2
