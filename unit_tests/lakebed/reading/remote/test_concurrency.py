"""Requests of a store run at the same time, within bounds; none is made twice, none is left behind."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import lakebed
from lakebed import config
from lakebed.reading.remote import prefetch
from unit_tests.effort import PATIENCE
from unit_tests.lakebed.reading.remote.remote_storage import RemoteStorage, Request, opened, twice

RNG = np.random.default_rng(9)
ROWS = 400
SAMPLES = RNG.integers(0, 256, (ROWS, 110, 100, 3), np.uint8)
CHUNK = 30 * SAMPLES[0].nbytes


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fourteen chunks of a megabyte, and as many small ones."""
    path = tmp_path_factory.mktemp("far") / "ds"
    with lakebed.empty(path) as ds:
        ds.create_tensor("x", dtype="uint8", max_chunk_size=2 * CHUNK).extend(SAMPLES)
        ds.create_tensor("y", dtype="int32", max_chunk_size=240).extend(np.arange(ROWS, dtype=np.int32))
        ds.commit("all of it")
    return path


@pytest.fixture
def storage(stored: Path) -> RemoteStorage:
    return RemoteStorage.of(stored)


def test_a_scan_reads_chunks_at_the_same_time(storage: RemoteStorage) -> None:
    """Requests are on their way together; one after the other there is never more than one."""
    ds = opened(storage)
    storage.most, storage.together = 0, 8
    with storage.chunk_requests() as requests:
        found = np.concatenate([batch["x"] for batch in ds.batches(50, ["x", "y"])])
    assert len(requests) >= 14
    assert np.array_equal(found, SAMPLES)
    assert storage.most >= 8


@pytest.mark.parametrize("limit", [1, 3])
def test_requests_are_bounded(storage: RemoteStorage, monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    """By ``config.REQUESTS``, however many threads read."""
    monkeypatch.setattr(config, "REQUESTS", limit)
    ds = opened(storage)
    storage.latency, storage.most = 0.005, 0
    with ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(lambda: ds.x.numpy()), pool.submit(lambda: ds.y.numpy())]
        futures += [pool.submit(lambda row=row: ds.x[row].numpy()) for row in range(0, ROWS, 37)]
        assert np.array_equal(futures[0].result(), SAMPLES)
        for row, future in zip(range(0, ROWS, 37), futures[2:], strict=True):
            assert np.array_equal(future.result(), SAMPLES[row])
    assert storage.most <= limit


def test_little_is_asked_for_until_the_reader_has_to_wait(
    storage: RemoteStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first chunk does not share the line with all others; later ones do."""
    monkeypatch.setattr(prefetch, "_FIRST", 2 * CHUNK)
    ds = opened(storage)
    scan = iter(ds.batches(10, ["x"]))
    has_looked = threading.Event()

    def hold(_: Request) -> None:
        has_looked.wait(PATIENCE)

    storage.fails = hold
    with storage.chunk_requests() as requests, ThreadPoolExecutor(1) as pool:
        first = pool.submit(next, scan)
        end = time.monotonic() + PATIENCE
        while not storage.requests:
            assert time.monotonic() < end
            time.sleep(0.01)
        time.sleep(0.1)  # more could have come by now
        at_first = len(storage.requests)
        storage.together = 4
        has_looked.set()
        first.result()
        for _ in scan:
            pass
    assert 1 <= at_first <= 3
    assert len(requests) == len(ds.x._state.table)
    assert storage.most > 3


def test_threads_do_not_wait_for_each_other(storage: RemoteStorage) -> None:
    """Sixty-four threads that read a sample each take little more than one round trip."""
    ds = opened(storage)
    rows = RNG.permutation(ROWS)[:64].tolist()
    ds.x[rows[0]].numpy()
    storage.most, storage.together = 0, 16
    barrier = threading.Barrier(64)

    def read(row: int) -> bool:
        barrier.wait()
        return bool(np.array_equal(ds.x[row].numpy(), SAMPLES[row]))

    with ThreadPoolExecutor(64) as pool:
        assert all(pool.map(read, rows))
    assert storage.most >= 16


def test_rows_in_any_order_are_read_at_the_same_time(storage: RemoteStorage) -> None:
    """Sixty-four rows of fourteen chunks: one round trip, and nothing twice."""
    ds = opened(storage)
    rows = RNG.permutation(ROWS)[:64].tolist()
    storage.most, storage.together = 0, 10
    with storage.chunk_requests() as requests:
        assert np.array_equal(ds.x[rows].numpy(), SAMPLES[rows])
    assert storage.most >= 10
    assert twice(requests) == 0


def test_what_many_wait_for_is_asked_for_once(storage: RemoteStorage) -> None:
    """A small chunk, a large one, and blocks of one."""
    ds = opened(storage)
    storage.latency = 0.1
    barrier = threading.Barrier(12)

    def read(task: int) -> None:
        barrier.wait()
        if task % 3 == 0:
            assert ds.y[3].numpy() == 3
        elif task % 3 == 1:
            assert np.array_equal(ds.x[301].numpy(), SAMPLES[301])
        else:
            assert np.array_equal(ds.x[0:20].numpy(), SAMPLES[:20])

    with storage.chunk_requests() as requests, ThreadPoolExecutor(12) as pool:
        list(pool.map(read, range(12)))
    assert len(requests) == 3


@pytest.mark.parametrize("cache_bytes", [0, 2 * CHUNK])
def test_memory_is_bounded(storage: RemoteStorage, monkeypatch: pytest.MonkeyPatch, cache_bytes: int) -> None:
    """What is kept, and what is on its way or waits to be used, whatever is read in whatever order."""
    monkeypatch.setattr(config, "AHEAD_BYTES", 4 * CHUNK)
    ds = opened(storage, cache_bytes)
    source = ds._session.source
    storage.latency, storage.held = 0.002, 0
    seen = [0, 0]

    def watch() -> None:
        seen[0] = max(seen[0], source.cache.used)
        seen[1] = max(seen[1], source.remote.prefetched_bytes)

    for batch in ds.batches(16, ["x"]):
        assert len(batch["x"])
        watch()
    for row in range(ROWS):
        ds.x[row].numpy()
        watch()
    for first in range(0, ROWS, 40):
        rows = RNG.permutation(ROWS)[first : first + 40].tolist()
        assert np.array_equal(ds.x[rows].numpy(), SAMPLES[rows])
        watch()
    # A chunk, and two blocks, may stay whatever the bound; a last piece may reach beyond it.
    assert seen[0] <= cache_bytes + 2 * CHUNK
    assert seen[1] <= 4 * CHUNK + 2 * CHUNK
    assert storage.held <= 6 * CHUNK
    assert source.remote.prefetched_bytes == 0


def test_what_is_not_wanted_any_more_is_dropped(storage: RemoteStorage) -> None:
    """A scan that ends early, and a dataset that is let go, leave no request, no bytes and, soon, no thread behind."""
    ds = opened(storage)
    source = ds._session.source
    storage.latency = 0.05
    scan = iter(ds.batches(10, ["x"]))
    next(scan)
    scan.close()  # type: ignore[attr-defined]
    assert source.remote.prefetched_bytes == 0
    for row in range(5):
        ds.x[row].numpy()
    assert source.remote.prefetched_bytes > 0
    remote = source.remote
    del ds, source, scan
    gc.collect()
    assert remote.prefetched_bytes == 0
    storage.requests.clear()
    time.sleep(0.2)
    assert storage.requests == []
    end = time.monotonic() + PATIENCE
    while any(thread.name == "lakebed-reading-ahead" for thread in threading.enumerate()):
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_stream_ends_where_the_reader_goes_elsewhere(storage: RemoteStorage) -> None:
    """What was read ahead is dropped then; a new stream may begin there."""
    ds = opened(storage)
    remote = ds._session.source.remote
    for row in range(6):
        ds.x[row].numpy()
    assert remote.prefetched_bytes > 0
    assert np.array_equal(ds.x[300].numpy(), SAMPLES[300])
    assert remote.prefetched_bytes == 0
    for row in range(301, ROWS):
        assert np.array_equal(ds.x[row].numpy(), SAMPLES[row])
    assert remote.prefetched_bytes == 0


def test_a_list_of_rows_leaves_a_stream_alone(storage: RemoteStorage) -> None:
    """Who reads row after row, and now and then some others, reads nothing twice for it."""
    ds = opened(storage)
    with storage.chunk_requests() as requests:
        for row in range(100):
            assert np.array_equal(ds.x[row].numpy(), SAMPLES[row])
            if row == 50:
                assert np.array_equal(ds.x[[350, 390, 371]].numpy(), SAMPLES[[350, 390, 371]])
                assert ds._session.source.remote.prefetched_bytes > 0
    assert twice(requests) <= 3 * SAMPLES[0].nbytes * 2


@pytest.fixture
def busy(storage: RemoteStorage) -> Iterator[lakebed.Dataset]:
    """A dataset with requests under way in other threads, and one that holds a lock."""
    ds = opened(storage)
    storage.latency = 0.3
    stop = threading.Event()

    def read() -> None:
        for row in range(0, ROWS, 31):
            if not stop.is_set():
                ds.x[row].numpy()

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for row in range(4):
        ds.x[row].numpy()
    yield ds
    stop.set()
    for thread in threads:
        thread.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_reads_on(busy: lakebed.Dataset, storage: RemoteStorage) -> None:
    """It waits for no request and no lock of threads that it has not."""
    ds = busy
    is_held, is_over = threading.Event(), threading.Event()

    def hold() -> None:
        session = ds._session
        with session.mutex, session.credentials._mutex, session.source._mutex, session.source.pool._mutex:
            is_held.set()
            is_over.wait(PATIENCE)

    holder = threading.Thread(target=hold)
    holder.start()
    is_held.wait(PATIENCE)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            storage._mutex, storage.latency = threading.Condition(), 0.0
            is_same = np.array_equal(ds.x[0:60].numpy(), SAMPLES[:60])
            is_same &= all(np.array_equal(ds.x[row].numpy(), SAMPLES[row]) for row in range(4, 40))
            code = 0 if is_same else 2
        finally:
            os._exit(code)
    is_over.set()
    holder.join()
    end = time.monotonic() + PATIENCE
    while (found := os.waitpid(child, os.WNOHANG))[0] == 0:
        if time.monotonic() > end:
            os.kill(child, 9)
        time.sleep(0.02)
    assert found[1] == 0


_EXITING = """
import atexit, sys, threading
stores = []
atexit.register(lambda: print("under way:", stores[0]._now))
import numpy as np
from unit_tests.lakebed.reading.remote.remote_storage import RemoteStorage, opened, twice
storage = RemoteStorage.of(sys.argv[1])
ds = opened(storage)
storage.latency = 0.5
stores.append(storage)
scan = iter(ds.batches(10, ["x"]))
threading.Thread(target=next, args=(scan,), daemon=True).start()
for row in range(40):
    ds.y[row].numpy()
print("done")
"""


def test_the_interpreter_ends_while_requests_are_under_way(stored: Path) -> None:
    """It waits for those that were begun and makes no others."""
    root = Path(__file__).parents[4]
    ended = subprocess.run(  # noqa: PLW1510 - the code is looked at
        [sys.executable, "-c", _EXITING, str(stored)],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "done\nunder way: 0\n", "")
