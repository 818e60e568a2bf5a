"""What goes wrong on a store is told at the row that needed it; nothing damaged is ever returned."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lakebed
from lakebed.documents.manifest import BLOCK
from lakebed.errors import ChecksumError, GetChunkError, StorageUnavailableError
from lakebed.reading.remote.prefetch import Wanted, prefetch
from lakebed.storage.base import CachingStorage, Storage, StorageTraits, is_cache
from lakebed.storage.memory import MemoryStorage
from unit_tests.lakebed.reading.remote.remote_storage import RemoteStorage, opened

RNG = np.random.default_rng(11)
ROWS = 160
SAMPLES = RNG.integers(0, 256, (ROWS, 100, 100, 3), np.uint8)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four large chunks of forty samples and a small one."""
    path = tmp_path_factory.mktemp("far") / "ds"
    with lakebed.empty(path) as ds:
        ds.create_tensor("x", dtype="uint8", max_chunk_size=2_400_000).extend(SAMPLES)
        ds.create_tensor("y", dtype="int32").extend(np.arange(ROWS, dtype=np.int32))
        ds.commit("all of it")
    return path


@pytest.fixture
def storage(stored: Path) -> RemoteStorage:
    return RemoteStorage.of(stored)


def third(ds: lakebed.Dataset) -> str:
    """Key of the chunk that holds rows 80 to 119."""
    table = ds.x._state.table
    assert table.first(2) == 80
    return str(table.key(2))


@pytest.mark.parametrize("error", [StorageUnavailableError("no answer"), GetChunkError("missing")])
def test_a_failing_request_ahead_is_told_at_its_row(storage: RemoteStorage, error: Exception) -> None:
    """With dataset, tensor and row; rows before it are read, and it can be tried again."""
    ds = opened(storage)
    key = third(ds)
    storage.latency = 0.01
    storage.fails = lambda request: error if request.key == key else None
    for row in range(80):
        assert np.array_equal(ds.x[row].numpy(), SAMPLES[row])
    with pytest.raises(type(error), match="row 80") as caught:
        ds.x[80].numpy()
    found = caught.value
    assert (found.dataset, found.tensor, found.row) == (storage.url, "x", 80)  # type: ignore[attr-defined]
    storage.fails = lambda _: None
    assert np.array_equal(ds.x[80].numpy(), SAMPLES[80])


@pytest.mark.parametrize("how", ["batches", "list", "array", "arrow", "single"])
def test_every_way_of_reading_tells_where(storage: RemoteStorage, how: str) -> None:
    """The tensor, and a row of the chunk that could not be read."""
    import pyarrow as pa

    ds = opened(storage)
    key = third(ds)
    storage.fails = lambda request: StorageUnavailableError("no answer") if request.key == key else None

    def read() -> object:
        if how == "batches":
            return list(ds.batches(32, ["x", "y"]))
        if how == "arrow":
            return pa.table(ds[["x"]])
        return ds.x[90].numpy() if how == "single" else ds.x.numpy(aslist=how == "list")

    with pytest.raises((StorageUnavailableError, OSError), match=r"tensor 'x', row (8\d|9\d|1[01]\d)"):
        read()
    assert ds._session.source.remote.prefetched_bytes == 0
    assert ds._session.source.remote._reads == {}
    storage.fails = lambda _: None
    assert len(list(ds.batches(32, ["x", "y"]))) == 5


@pytest.mark.parametrize("at", [BLOCK // 2, BLOCK + 7, 4 * BLOCK])
def test_a_damaged_block_is_never_returned(storage: RemoteStorage, at: int) -> None:
    """Whoever needs it hears of it; samples in other blocks are read."""
    ds = opened(storage)
    content = bytearray(MemoryStorage.get(storage, third(ds)))
    content[at] ^= 1
    storage.put(third(ds), bytes(content))
    begin = int(ds.x._state.table.places.sizes[2]) - 40 * SAMPLES[0].nbytes
    row = 80 + (at - begin) // SAMPLES[0].nbytes
    with pytest.raises(ChecksumError, match=f"tensor 'x', row {row}"):
        ds.x[row].numpy()
    other = 119 if row < 110 else 80
    assert np.array_equal(ds.x[other].numpy(), SAMPLES[other])
    with pytest.raises(ChecksumError, match="tensor 'x'"):
        ds.x.numpy()


def test_what_was_read_for_its_samples_does_not_pass_for_verified_blocks(storage: RemoteStorage) -> None:
    """A part of a sample, of which no checksum is known, is read with its blocks."""
    ds = opened(storage)
    reader = ds._session.reader("x", "x")
    chunk = reader.by_range(2, 1)
    assert chunk is not None
    assert chunk.layout is not None
    start, _ = chunk.layout.span(10, 11)
    content = bytearray(MemoryStorage.get(storage, chunk.key))
    content[start + 50] ^= 1
    storage.put(chunk.key, bytes(content))
    with prefetch([Wanted(reader, np.arange(82, 100))]):
        assert reader.source.remote is not None
        assert reader.source.remote.is_ranged(chunk.key)
        with pytest.raises(ChecksumError):
            reader.source.piece(chunk, start, 100)
        assert np.array_equal(reader.value(95), SAMPLES[95])


def test_a_chunk_of_another_length_is_damage(storage: RemoteStorage) -> None:
    """Shorter or longer than it was written."""
    ds = opened(storage)
    content = MemoryStorage.get(storage, third(ds))
    for wrong in (content[:-1], content + b"\0"):
        storage.put(third(ds), wrong)
        ds._session.source.clear()
        with pytest.raises(ChecksumError):
            ds.x[80:120].numpy()
    storage.put(third(ds), content[: 2 * BLOCK])
    ds._session.source.clear()
    with pytest.raises(ChecksumError, match="shorter"):
        ds.x[119].numpy()


class Cached(MemoryStorage):
    """A store behind a cache that may hold some objects wrongly.

    Attributes
    ----------
    kept
        What the cache holds.
    forgotten, asked
        Keys that it was told to forget; those that it was asked for with the question whether they are the same still.
    """

    traits = StorageTraits(local=True, system_locks=True, reader_leases=True, cache=True)

    def __init__(self, origin: RemoteStorage) -> None:
        super().__init__()
        self._origin = origin
        self._objects = origin._objects
        self.kept = MemoryStorage()
        for key, _ in origin.list():
            self.kept.put(key, MemoryStorage.get(origin, key))
        self.forgotten: list[str] = []
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return self._origin.url

    @property
    def origin(self) -> Storage:
        return self._origin

    @property
    def trusted(self) -> Storage:
        return self.kept

    def forget(self, key: str) -> None:
        self.forgotten.append(key)
        self.kept.put(key, MemoryStorage.get(self._origin, key))

    def get(self, key: str) -> bytes:
        self.asked.append(key)
        return super().get(key)


@pytest.mark.parametrize("damage", ["flipped", "short", "gone"])
@pytest.mark.parametrize("whole", [False, True])
def test_a_cache_that_is_wrong_is_told_and_passed_by(
    storage: RemoteStorage, damage: str, *, whole: bool
) -> None:
    """The block is read once more, from the store."""
    cached = Cached(storage)
    assert isinstance(cached, CachingStorage)
    assert is_cache(cached)
    ds = opened(cached)
    key = third(ds)
    content = cached.kept.get(key)
    if damage == "gone":
        cached.kept.delete(key)
    else:
        wrong = content[: BLOCK // 2] if damage == "short" else b"\1" * len(content)
        cached.kept.put(key, wrong)
    with storage.chunk_requests() as requests:
        found = ds.x[80:120].numpy() if whole else ds.x[110].numpy()
    assert np.array_equal(found, SAMPLES[80:120] if whole else SAMPLES[110])
    assert cached.forgotten == [key]
    assert len(requests) == 1


def test_damage_at_the_origin_is_told_though_there_is_a_cache(storage: RemoteStorage) -> None:
    cached = Cached(storage)
    ds = opened(cached)
    key = third(ds)
    for place in (storage, cached.kept):
        place.put(key, b"\1" * 1_200_085)
    with pytest.raises(ChecksumError, match="row 81"):
        ds.x[81].numpy()
    assert cached.forgotten == [key]


def test_a_cache_is_not_believed_about_chunks_without_checksums(storage: RemoteStorage) -> None:
    """Of heads, which 3.9.52 may rewrite, the store is read; of commits, whoever asks it whether they are the same."""
    cached = Cached(storage)
    ds = opened(cached)
    table = ds.y._state.table
    object.__setattr__(table.places, "sums", table.places.sums[:0])
    object.__setattr__(table.places, "sizes", table.places.sizes * np.uint64(0))
    cached.kept.put(table.key(0), b"wrong")
    with storage.chunk_requests() as requests:
        assert ds.y[5].numpy() == 5
    assert cached.asked[-1] == table.key(0)
    ds._session.source.clear()
    ds._session.source.heads = frozenset({table.folder(0)[0]})
    with storage.chunk_requests() as requests:
        assert ds.y[5].numpy() == 5
    assert [request.key for request in requests] == [table.key(0)]
