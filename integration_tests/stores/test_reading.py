"""Samples and scans over a real protocol: requests on the wire, many at once, and a network that fails meanwhile."""

from __future__ import annotations

import os
import threading
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import lakebed
from integration_tests.stores import servers
from integration_tests.stores.servers import Counting, Faults, Server
from lakebed import config
from lakebed.errors import StorageUnavailableError
from unit_tests.effort import PATIENCE

ROWS = 160
SAMPLES = np.random.default_rng(3).integers(0, 256, (ROWS, 110, 150, 3), np.uint8)


@pytest.fixture(scope="module")
def url(moto: Server) -> str:
    """Eight chunks of a megabyte, of images that are compressed and of some that are not, and a small one."""
    address = moto.url("reading")
    with lakebed.empty(address, creds=moto.creds) as ds:
        limit = {"max_chunk_size": 2_000_000}
        ds.create_tensor("x", dtype="uint8", **limit).extend(SAMPLES)  # type: ignore[arg-type]
        ds.create_tensor("png", htype="image", sample_compression="png", **limit)  # type: ignore[arg-type]
        ds.png.extend(SAMPLES)
        ds.create_tensor("y", dtype="int32").extend(np.arange(ROWS, dtype=np.int32))
        ds.commit("all of it")
    return address


@pytest.fixture(scope="module")
def _book(moto: Server) -> Iterator[Counting]:
    with servers.counting(moto) as book:
        yield book


@pytest.fixture
def counted(moto: Server, _book: Counting, url: str) -> tuple[lakebed.Dataset, Counting]:
    """The dataset behind a proxy that counts, and what it counted: nothing yet."""
    ds = lakebed.load(url, creds=moto.through(_book), read_only=True)
    _book.clear()
    return ds, _book


def test_a_cold_sample_is_one_ranged_request(counted: tuple[lakebed.Dataset, Counting]) -> None:
    """Of an array, of a file, and of a small chunk."""
    ds, book = counted
    for name, row in (("x", 77), ("png", 33), ("y", 5)):
        expected = row if name == "y" else SAMPLES[row]
        assert np.array_equal(np.squeeze(ds[name][row].numpy()), expected)
        (request,) = book.requests
        assert (request.method, bool(request.range)) == ("GET", name != "y")
        book.clear()


def test_a_scan_reads_every_chunk_once(counted: tuple[lakebed.Dataset, Counting]) -> None:
    """Several at the same time."""
    ds, book = counted
    found = list(ds.batches(32, ["x", "y"]))
    assert np.array_equal(np.concatenate([batch["x"] for batch in found]), SAMPLES)
    requests = book.requests
    assert len(requests) == len({request.path for request in requests}) == len(ds.x._state.table) + 1
    assert book.most_at_once >= 4


def test_sixty_four_threads_read_at_once(counted: tuple[lakebed.Dataset, Counting]) -> None:
    ds, book = counted
    barrier = threading.Barrier(64)

    def read(row: int) -> bool:
        barrier.wait()
        return bool(np.array_equal(ds.x[row].numpy(), SAMPLES[row]))

    with ThreadPoolExecutor(64) as pool:
        assert all(pool.map(read, range(0, 128, 2)))
    assert len({(request.path, request.range) for request in book.requests}) == len(book.requests)
    assert book.most_at_once > 4


@pytest.fixture
def network(moto: Server) -> Iterator[Faults]:
    with servers.faults(moto) as network:
        yield network


def test_a_bad_network_changes_nothing_of_what_is_read(
    moto: Server, network: Faults, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connections break while much is read ahead; nobody notices."""
    monkeypatch.setattr(config, "STALL_SECONDS", 0.5)
    ds = lakebed.load(url, creds=moto.through(network), read_only=True)
    network.set(reset_after=300_000, times=6, only="GET")
    assert np.array_equal(ds.x.numpy(), SAMPLES)
    assert network.hits == 6
    ds = lakebed.load(url, creds=moto.through(network), read_only=True)
    network.set(stall_after=100_000, times=3, only="GET")
    for row in range(60):
        assert np.array_equal(ds.png[row].numpy(), SAMPLES[row])


def test_a_network_that_is_gone_is_told_with_the_row(
    moto: Server, network: Faults, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What came before is read; nothing hangs, and when the network is back so are the samples."""
    monkeypatch.setattr(config, "STALL_SECONDS", 0.3)
    monkeypatch.setattr(config, "RETRY_SECONDS", 1.0)
    monkeypatch.setattr(config, "AHEAD_BYTES", 2_000_000)
    ds = lakebed.load(url, creds=moto.through(network), read_only=True)
    assert np.array_equal(ds.x[0:4].numpy(), SAMPLES[:4])

    def read() -> None:
        for row in range(ROWS):
            assert np.array_equal(ds.x[row].numpy(), SAMPLES[row])

    network.set(blackhole=True)
    began = time.monotonic()
    with pytest.raises(StorageUnavailableError, match=r"tensor 'x', row \d+") as caught:
        read()
    assert time.monotonic() - began < 50  # seconds by far, were it not for a busy machine
    assert caught.value.tensor == "x"
    assert caught.value.row is not None
    network.set()
    row = caught.value.row
    assert np.array_equal(ds.x[row].numpy(), SAMPLES[row])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_reads_on_while_its_parent_does(moto: Server, url: str) -> None:
    """With requests of its own, on threads of its own."""
    ds = lakebed.load(url, creds=moto.creds, read_only=True)
    scan = iter(ds.batches(16, ["x", "y"]))
    next(scan)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            is_same = np.array_equal(ds.x.numpy(), SAMPLES)
            is_same &= all(np.array_equal(ds.png[row].numpy(), SAMPLES[row]) for row in range(50))
            code = 0 if is_same else 2
        except BaseException:  # it must not come out of the child, and not be lost either
            traceback.print_exc()
            raise
        finally:
            os._exit(code)
    assert sum(len(batch["y"]) for batch in scan) == ROWS - 16
    end = time.monotonic() + PATIENCE
    while (found := os.waitpid(child, os.WNOHANG))[0] == 0:
        if time.monotonic() > end:
            os.kill(child, 9)
        time.sleep(0.02)
    assert found[1] == 0
