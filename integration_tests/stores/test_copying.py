"""Copies between stores: nothing passes through us that need not, killed ones go on, one place has one name."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lakebed
from integration_tests.stores import servers
from integration_tests.stores.servers import Server
from lakebed.session import copy_journal
from lakebed.storage.url import Location, open_storage
from unit_tests.effort import PATIENCE


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset with two branches, a tag and some files."""
    path = tmp_path_factory.mktemp("local") / "ds"
    ds = lakebed.empty(path)
    for number in range(2):
        ds.create_tensor(f"t{number}", dtype="uint8")
    rng = np.random.default_rng(3)
    for commit in range(3):
        with ds:
            for number in range(2):
                ds[f"t{number}"].extend(rng.integers(0, 255, (4, 30_000), dtype=np.uint8))
        ds.commit(f"commit {commit}")
    ds.create_tag("v1")
    ds.checkout("side", create=True)
    ds.t0.append(np.zeros(30_000, np.uint8))
    ds.close()
    return path


def same(one: lakebed.Dataset, other: lakebed.Dataset) -> bool:
    """Tell whether two datasets show the same commits, tags and rows."""
    assert [c["commit"] for c in one.commits] == [c["commit"] for c in other.commits]
    assert (sorted(one.branches), sorted(one.get_tags())) == (
        sorted(other.branches),
        sorted(other.get_tags()),
    )
    return all(np.array_equal(one[name].numpy(), other[name].numpy()) for name in one.tensors)


def test_there_and_back(store: Server, local: Path, tmp_path: Path) -> None:
    """From a disk to a bucket, within it, and back again: the same each time, and trusted as it was written here."""
    first, second = store.url("first"), store.url("second")
    how: Any = {"progressbar": False}
    lakebed.deepcopy(local, first, dest_creds=store.creds, **how)
    lakebed.deepcopy(first, second, src_creds=store.creds, dest_creds=store.creds, **how)
    lakebed.deepcopy(second, tmp_path / "back", src_creds=store.creds, **how)
    source = lakebed.load(local, read_only=True)
    for url, creds in ((first, store.creds), (second, store.creds), (tmp_path / "back", None)):
        for branch in ("main", "side"):
            found = lakebed.load(f"{url}@{branch}", read_only=True, creds=creds)
            source.checkout(branch)
            assert same(source, found)
            tables = [state.table for state in found._session.snapshot.tensors.values()]
            assert all(bool((table.places.sizes > 0).all()) for table in tables)
    copied = lakebed.copy(first, store.url("flat"), src_creds=store.creds, dest_creds=store.creds, **how)
    assert copied.commits == []
    assert len(copied.t0) == 12


def test_the_store_copies_within_a_bucket(moto: Server, local: Path) -> None:
    """No chunk is fetched or sent; what is fetched are documents."""
    first = moto.url("first")
    lakebed.deepcopy(local, first, dest_creds=moto.creds, progressbar=False)
    with servers.counting(moto) as book:
        creds = moto.through(book)
        lakebed.deepcopy(first, moto.url("second"), src_creds=creds, dest_creds=creds, progressbar=False)
        moved = [request for request in book.requests if "/chunks/" in request.path]
    assert moved
    assert {request.method for request in moved} == {"PUT"}
    assert all("x-amz-copy-source" in {name.lower() for name in request.headers} for request in moved)


def test_one_bucket_under_two_names(moto: Server, local: Path) -> None:
    """A place is recognised whatever its server is called; nothing is removed, and nothing left behind."""
    url = moto.url("ds")
    lakebed.deepcopy(local, url, dest_creds=moto.creds, progressbar=False)
    other = {**moto.creds, "endpoint_url": moto.creds["endpoint_url"].replace("127.0.0.1", "localhost")}
    assert other != moto.creds
    for make in (lakebed.copy, lakebed.deepcopy):
        for there in (url, url + "/", url.replace("s3://", "S3://")):
            with pytest.raises(lakebed.DatasetHandlerError, match="itself"):
                make(url, there, overwrite=True, src_creds=moto.creds, dest_creds=other, progressbar=False)
    assert len(lakebed.load(url, creds=moto.creds).t0) == 12
    storage = open_storage(Location("s3", url.removeprefix("s3://"), None, moto.creds))
    assert not [key for key, _ in storage.list(copy_journal.FOLDER)]


def test_a_killed_copy_goes_on(moto: Server, local: Path) -> None:
    """SIGKILL in the middle of sending: no dataset is there; the same command sends what is missing, and ends."""
    url = moto.url("killed")
    script = textwrap.dedent(
        """
        import sys
        import lakebed
        from lakebed import config
        from lakebed.session import copy_journal

        copy_journal._EVERY, config.REQUESTS = 0.1, 4
        lakebed.deepcopy(sys.argv[1], sys.argv[2], progressbar=False)
        """
    )
    storage = open_storage(Location("s3", url.removeprefix("s3://"), None, moto.creds))
    with servers.faults(moto) as network:
        network.set(latency=0.05)
        environment = {
            **os.environ,
            **moto.environment,
            "AWS_ENDPOINT_URL": moto.through(network)["endpoint_url"],
        }
        child = subprocess.Popen([sys.executable, "-c", script, str(local), url], env=environment)
        deadline = time.monotonic() + PATIENCE
        while sum(1 for _ in storage.list(copy_journal.FOLDER)) < 4:
            assert child.poll() is None, "it was over before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.05)
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert not lakebed.exists(url, creds=moto.creds)
    arrived = {key for key, _ in storage.list("")}
    done = {
        key
        for name, _ in storage.list(copy_journal.FOLDER)
        if name != copy_journal.HEADER
        for key in _keys(storage.get(name))
    }
    assert done <= arrived
    with servers.counting(moto) as book:
        lakebed.deepcopy(local, url, dest_creds=moto.through(book), progressbar=False)
        sent = {
            request.path.partition("killed")[2].partition("/")[2]
            for request in book.requests
            if request.method == "PUT"
        }
    assert done
    assert not {key for key in done if key in sent}
    assert same(lakebed.load(local, read_only=True), lakebed.load(url, creds=moto.creds, read_only=True))
    assert not [key for key, _ in storage.list(copy_journal.FOLDER)]


def _keys(data: bytes) -> set[str]:
    return set(copy_journal._entries(data))
