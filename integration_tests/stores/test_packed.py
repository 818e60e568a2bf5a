"""Packed datasets in stores: opened in place, by two requests, from a bucket and from a web server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import lakebed
from integration_tests.stores import servers
from integration_tests.stores.servers import Counting, Server


@pytest.fixture(scope="module")
def book(moto: Server) -> Iterator[Counting]:
    """A proxy that counts."""
    with servers.counting(moto) as found:
        yield found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fifty commits of five tensors."""
    place = tmp_path_factory.mktemp("packed") / "d"
    ds = lakebed.empty(place)
    for name in "abcde":
        ds.create_tensor(name, dtype="int64")
    for row in range(50):
        ds.append({name: np.arange(1000) + row for name in "abcde"})
        ds.commit(f"row {row}")
    ds.close()
    return place


def test_two_requests_open_it(moto: Server, book: Counting, folder: Path) -> None:
    """However long the history; a row of a tensor is one more, and what has no name there is told."""
    url, creds = f"{moto.url('packed')}.lake", moto.through(book)
    packed = lakebed.pack(folder, url, dest_creds=creds, progressbar=False)
    assert len(packed) == 50
    book.clear()
    ds = lakebed.load(url, creds=creds)
    assert (len(ds), len(ds.commits)) == (50, 50)
    assert len(book.requests) <= 2
    book.clear()
    assert ds.a[7].numpy()[3] == 10
    assert len(book.requests) == 1
    with pytest.raises(lakebed.errors.StorageReadOnlyError):
        ds.append({name: np.arange(3) for name in "abcde"})
    with pytest.raises(lakebed.errors.DatasetExistsError):
        lakebed.pack(folder, url, dest_creds=creds, progressbar=False)
    made = lakebed.unpack(url, folder.parent / "e", src_creds=creds, progressbar=False)
    assert np.array_equal(made.c.numpy(), lakebed.load(folder).c.numpy())


def test_folders_may_have_such_names(moto: Server) -> None:
    """An address that ends like that of a file is that of a folder where there is no file."""
    ds = lakebed.empty(f"{moto.url('folder')}.lake", creds=moto.creds)
    ds.create_tensor("a", dtype="int64").extend([1, 2])
    ds.close()
    assert lakebed.load(ds.path, creds=moto.creds).a.numpy().ravel().tolist() == [1, 2]


def test_with_a_cache(moto: Server, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks are kept on this machine's disk, like those of a folder."""
    monkeypatch.setenv("LAKEBED_CACHE_DIR", str(tmp_path / "cache"))
    url = f"{moto.url('cached')}.lake"
    lakebed.pack(folder, url, dest_creds=moto.creds, progressbar=False)
    for _ in range(2):
        ds = lakebed.load(url, creds=moto.creds, local_cache_size=100)
        assert ds.b[3].numpy()[0] == 3
    assert any(path.is_file() for path in (tmp_path / "cache").rglob("*"))


def test_on_the_web(folder: Path, tmp_path: Path) -> None:
    """A web server that knows ranges is enough."""
    lakebed.pack(folder, tmp_path / "site" / "train.lake", progressbar=False)
    with servers.web(tmp_path / "site") as site:
        ds = lakebed.load(site.url("train.lake"))
        assert ds.e[9].numpy()[0] == 9
