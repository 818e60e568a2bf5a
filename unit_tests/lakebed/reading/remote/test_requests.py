"""How many requests reading from a store takes, counted one by one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lakebed
from lakebed.documents import manifest_delta
from lakebed.documents.manifest import BLOCK
from lakebed.reading.remote.prefetch import Wanted, prefetch
from unit_tests.lakebed.reading.remote.remote_storage import RemoteStorage, created, opened, twice

RNG = np.random.default_rng(8)
PICTURES = [RNG.integers(0, 256, (90 + i % 9, 80, 3), np.uint8) for i in range(120)]
GREY = [picture[:, :, :1] for picture in PICTURES]
EVEN = np.stack([picture[:90] for picture in PICTURES])
TEXTS = [chr(97 + i % 26) * (12_000 + 37 * i) for i in range(120)]
LISTS = [[i] * 4000 for i in range(120)]
NUMBERS = np.arange(200_000)
FINE = ["x" * (i % 11) for i in range(60_000)]
VALUES = {
    "png": PICTURES,
    "grey": GREY,
    "ragged": PICTURES,
    "wide": PICTURES,
    "squeezed": PICTURES,
    "even": list(EVEN),
    "text": TEXTS,
    "list": LISTS,
    "number": list(NUMBERS.reshape(-1, 1)),
    "label": [np.array([i], np.int32) for i in range(120)],
    "fine": FINE,
}
LARGE = ["png", "grey", "ragged", "wide", "squeezed", "even", "text", "list", "number"]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of every kind of large chunk: two per tensor but of numbers, and one small chunk."""
    path = tmp_path_factory.mktemp("far") / "ds"
    with lakebed.empty(path) as ds:
        ds.create_tensor("png", htype="image", sample_compression="png", max_chunk_size=2_000_000)
        ds.create_tensor("grey", htype="image", sample_compression="png", max_chunk_size=2_000_000)
        ds.create_tensor("ragged", dtype="uint8", max_chunk_size=2_000_000)
        ds.create_tensor("wide", dtype="uint8")
        ds.create_tensor("squeezed", dtype="uint8", sample_compression="lz4", max_chunk_size=2_000_000)
        ds.create_tensor("even", dtype="uint8", max_chunk_size=2_000_000)
        ds.create_tensor("text", htype="text", max_chunk_size=2_000_000)
        ds.create_tensor("list", htype="list", max_chunk_size=2_000_000)
        ds.create_tensor("number", dtype="int64")
        ds.create_tensor("label", dtype="int32")
        ds.create_tensor("fine", htype="text")
        for name, values in VALUES.items():
            ds[name].extend(NUMBERS if name == "number" else values)
        ds.commit("all of it")
    return path


@pytest.fixture
def storage(stored: Path) -> RemoteStorage:
    return RemoteStorage.of(stored)


def value(ds: lakebed.Dataset, name: str, row: int) -> object:
    return (
        ds[name][row].text()
        if name == "text"
        else ds[name][row].list()
        if name == "list"
        else ds[name][row].numpy()
    )


def same(found: object, expected: object) -> bool:
    return bool(np.array_equal(found, expected)) if isinstance(expected, np.ndarray) else found == expected


@pytest.mark.parametrize("name", LARGE)
def test_one_cold_sample_is_one_ranged_request(storage: RemoteStorage, name: str) -> None:
    """For just its bytes where they have a checksum, else for the blocks that they lie in; and none if it is here."""
    ds = opened(storage)
    rows = (50_000, 90_001) if name == "number" else (50, 7)
    for row in rows:
        with storage.chunk_requests() as requests:
            assert same(value(ds, name, row), VALUES[name][row])
        assert len(requests) == 1
        assert requests[0].start is not None
        if name in ("number", "grey"):
            assert requests[0].start % BLOCK == 0
            assert requests[0].nbytes <= 2 * BLOCK
        else:
            assert requests[0].nbytes < BLOCK // 8 + (name == "text") * 5000
    with storage.chunk_requests() as requests:
        value(ds, name, rows[0])
    assert requests == []


def test_the_chunks_are_large(storage: RemoteStorage) -> None:
    """Or the test above would show nothing."""
    ds = opened(storage)
    sizes = {name: ds[name]._state.table.places.sizes.tolist() for name in LARGE}
    assert all(max(found) > 2 * BLOCK for found in sizes.values()), sizes


def test_a_sample_of_a_small_chunk_is_one_request(storage: RemoteStorage) -> None:
    """For the whole chunk, which is here for all others."""
    ds = opened(storage)
    with storage.chunk_requests() as requests:
        assert ds.label[77].numpy() == 77
        assert ds.label[3].numpy() == 3
    assert [(r.tensor, r.start) for r in requests] == [("label", None)]


def test_of_many_small_samples_the_whole_chunk_is_read(storage: RemoteStorage) -> None:
    """As nothing but its header says where they lie, and it is here for all others."""
    ds = opened(storage)
    with storage.chunk_requests() as requests:
        assert ds.fine[50_007].text() == FINE[50_007]
        assert ds.fine[7].text() == FINE[7]
    assert [(r.tensor, r.start) for r in requests] == [("fine", None)]
    assert requests[0].nbytes > 2 * BLOCK


@pytest.mark.parametrize("name", LARGE)
def test_all_of_a_tensor_is_one_request_per_chunk(storage: RemoteStorage, name: str) -> None:
    """As a list or an array, and by rows one after the other but for the first few."""
    ds = opened(storage)
    chunks = len(ds[name]._state.table)
    with storage.chunk_requests() as requests:
        found = ds[name].numpy(aslist=True)
    assert len(found) == len(VALUES[name])
    assert [r.start for r in requests] == [None] * chunks
    assert len({r.key for r in requests}) == chunks


@pytest.mark.parametrize("name", ["png", "ragged", "even", "text"])
def test_rows_one_after_the_other_are_streamed(storage: RemoteStorage, name: str) -> None:
    """Three samples until it is clear where this goes, the rest of their chunk, then whole chunks; nothing twice."""
    ds = opened(storage)
    with storage.chunk_requests() as requests:
        for row in range(120):
            assert same(value(ds, name, row), VALUES[name][row])
    assert len(requests) <= 3 + len(ds[name]._state.table)
    assert len([r for r in requests if r.start is None]) == len(ds[name]._state.table) - 1
    assert twice(requests) <= (0 if name != "text" else BLOCK)
    assert ds._session.source.remote.prefetched_bytes == 0


def test_batches_read_every_chunk_once(storage: RemoteStorage) -> None:
    """Of all tensors, whatever the size of a batch."""
    names = ["png", "ragged", "even", "text", "label"]
    for size in (7, 64):
        ds = opened(storage)
        chunks = sum(len(ds[name]._state.table) for name in names)
        with storage.chunk_requests() as requests:
            for first, batch in enumerate(ds.batches(size, names)):
                assert same(batch["png"][0], PICTURES[first * size])
                assert batch["text"][0] == TEXTS[first * size]
        assert len(requests) == chunks
        assert {r.start for r in requests} == {None}


def test_an_arrow_scan_reads_every_chunk_once(storage: RemoteStorage) -> None:
    ds = opened(storage)
    names = ["label", "text", "even"]
    with storage.chunk_requests() as requests:
        table = pa.table(ds[names])
    assert table["text"].to_pylist() == TEXTS
    assert len(requests) == sum(len(ds[name]._state.table) for name in names)


def test_neighbours_are_read_together(storage: RemoteStorage) -> None:
    """Two samples with little between them are one range; far apart they are two."""
    for rows, expected in (([10, 12], 1), ([1, 110], 2), (slice(20, 24), 1)):
        ds = opened(storage)
        with storage.chunk_requests() as requests:
            found = ds.wide[rows].numpy(aslist=True)
        wanted = PICTURES[rows] if isinstance(rows, slice) else [PICTURES[row] for row in rows]
        assert all(map(np.array_equal, found, wanted))
        assert len(requests) == expected, rows
        assert all(r.start is not None for r in requests)


def test_rows_in_any_order_cost_what_they_hold(storage: RemoteStorage) -> None:
    """A few of a chunk by their own ranges, most of one with the whole; the same row twice is read once."""
    rows = [5, 119, 5, 0, 30, 60, 90, 15, 45, 75, 105, 1, 118]
    ds = opened(storage)
    with storage.chunk_requests() as requests:
        found = ds.png[rows].numpy(aslist=True)
    assert all(np.array_equal(image, PICTURES[row]) for image, row in zip(found, rows, strict=True))
    assert twice(requests) == 0
    assert sum(r.nbytes for r in requests) < 2 * sum(PICTURES[row].nbytes for row in set(rows))
    for count in (30, 100, 120):
        for name in ("png", "ragged"):
            some = RNG.permutation(120)[:count].tolist()
            for chosen in (some, sorted(some)):
                ds = opened(storage)
                with storage.chunk_requests() as requests:
                    found = ds[name][chosen].numpy(aslist=True)
                assert all(
                    np.array_equal(image, PICTURES[row]) for image, row in zip(found, chosen, strict=True)
                )
                assert twice(requests) == 0
                assert sum(r.nbytes for r in requests) < 2.5 * sum(PICTURES[row].nbytes for row in some)


def test_shapes_cost_the_headers(storage: RemoteStorage) -> None:
    """One range per large chunk."""
    ds = opened(storage)
    with storage.chunk_requests() as requests:
        assert ds.ragged.shapes().tolist() == [list(picture.shape) for picture in PICTURES]
    assert len(requests) == len(ds.ragged._state.table)
    assert all(r.nbytes <= BLOCK for r in requests if r.start is not None)


@pytest.fixture
def old(storage: RemoteStorage) -> Iterator[lakebed.Dataset]:
    """The dataset with manifests in which nothing says where samples lie."""
    manifest_delta.forget()
    ds = opened(storage)
    for tensor in ds.tensors.values():
        state = tensor._state
        object.__setattr__(state.table.places, "known_layouts", None)
    yield ds
    manifest_delta.forget()


@pytest.mark.parametrize("name", LARGE)
def test_without_layouts_the_header_comes_first(
    old: lakebed.Dataset, storage: RemoteStorage, name: str
) -> None:
    """Unless all samples have one shape: then they lie where they must."""
    row = 50_000 if name == "number" else 40
    with storage.chunk_requests() as requests:
        assert same(value(old, name, row), VALUES[name][row])
    # Small samples come with the whole chunk.
    assert len(requests) == (1 if name in ("even", "number", "grey", "text", "list") else 2)
    found = old[name][[row, 3]]
    assert len(found.numpy(aslist=True)) == 2


def test_without_layouts_headers_are_read_together(old: lakebed.Dataset, storage: RemoteStorage) -> None:
    """Those of all chunks first, then the samples."""
    storage.together = 2
    with storage.chunk_requests() as requests:
        found = old.ragged[[3, 117, 60]].numpy(aslist=True)
    assert np.array_equal(found[1], PICTURES[117])
    assert len(requests) <= 2 * len(old.ragged._state.table) + 1
    assert storage.most >= 2


def test_loaders_say_what_comes(storage: RemoteStorage) -> None:
    """Inside of the context samples are read as ever, and every chunk is asked for once."""
    ds = opened(storage)
    session = ds._session
    readers = [session.reader(name, name) for name in ("even", "label")]
    with storage.chunk_requests() as requests, prefetch([Wanted(reader, range(120)) for reader in readers]):
        for row in range(120):
            assert np.array_equal(readers[0].value(row), EVEN[row])
            assert readers[1].value(row) == row
    assert len(requests) == len(ds.even._state.table) + 1


def test_what_is_not_published_yet_is_not_asked_for() -> None:
    """A writer reads its own samples from memory, beside those that are published."""
    storage = RemoteStorage()
    with created(storage) as ds:
        ds.create_tensor("x", dtype="uint8", max_chunk_size=200_000).extend(EVEN[:50])
        ds.flush()
        ds.x.extend(EVEN[50:])
        with storage.chunk_requests() as requests:
            assert np.array_equal(ds.x.numpy(), EVEN)
            assert [int(ds.x[row].numpy()[0, 0, 0]) for row in range(45, 60)] == EVEN[45:60, 0, 0, 0].tolist()
        assert len(requests) == len({r.key for r in requests})


@pytest.mark.parametrize("name", ["png", "ragged", "even"])
def test_slices_one_after_the_other_are_streamed(storage: RemoteStorage, name: str) -> None:
    """From the second on: the rest of the first chunk, then whole chunks, and nothing twice."""
    for step in (5, 17, 50):
        ds = opened(storage)
        storage.most = storage.together = 0
        chunks = len(ds[name]._state.table)
        with storage.chunk_requests() as requests:
            for first in range(0, 120, step):
                found = ds[name][first : first + step].numpy(aslist=True)
                assert all(map(same, found, VALUES[name][first : first + step]))
                storage.together = 2
        assert twice(requests) == 0
        assert len(requests) <= chunks + 1
        assert storage.most >= 2
