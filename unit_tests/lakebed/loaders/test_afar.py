"""Loading from a store: what is asked for, how far ahead, in how much memory, and what becomes of failed requests."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import lakebed
from lakebed.errors import StorageError
from unit_tests.lakebed.afar import Afar, made_on, opened_on

ROWS = 300
SPAN = 100_000


def pixels(row: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(row).integers(0, 255, (60 + row % 2, 60, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def store() -> Afar:
    """About 11 kB a sample, 3.3 MB, in chunks that are read by range."""
    store = Afar()
    ds = made_on(store)
    ds.create_tensor("image", htype="image", sample_compression="png", max_chunk_size=1 << 22)
    ds.create_tensor("label", dtype="int32")
    with ds:
        ds.extend({"image": [pixels(row) for row in range(ROWS)], "label": list(range(ROWS))})
    ds.commit()
    return store


@pytest.fixture(autouse=True)
def _small_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakebed.loaders.spans.SPAN_BYTES", SPAN)


@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize("shuffle", [False, "window", "chunk", "exact"])
def test_rows_come_once(store: Afar, shuffle: Any, threads: int) -> None:
    loader = lakebed.Loader(
        opened_on(store, read_only=True), 16, shuffle=shuffle, window=800_000, threads=threads
    )
    for _ in range(2):
        seen = []
        for batch in loader:
            seen += batch.rows.tolist()
            for image, row in zip(batch["image"], batch.rows.tolist(), strict=True):
                assert np.array_equal(image, pixels(row))
            assert batch["label"].ravel().tolist() == batch.rows.tolist()
        assert sorted(seen) == list(range(ROWS))


def test_each_byte_is_read_once_but_those_of_the_first_batch(store: Afar) -> None:
    ds = opened_on(store, read_only=True)
    loader = lakebed.Loader(ds, 16, shuffle=True, seed=0, window=800_000, threads=2)
    list(loader)
    stored = sum(len(ds.image[row].tobytes()) for row in range(ROWS))
    stats = loader.stats()
    assert stored <= stats["bytes_read"] < 1.15 * stored
    assert stats["requests"] < 16 + 3.3e6 / SPAN * 1.3


def test_the_first_batch_waits_for_its_own_samples_only(store: Afar) -> None:
    slow = Afar(store.objects)
    ds = opened_on(slow, read_only=True)
    held = threading.Event()
    asked = []
    plain = slow.get_range

    def get_range(key: str, start: int, length: int) -> bytes:
        asked.append(length)
        if length > 20_000:
            held.wait(30)
        return plain(key, start, length)

    loader = lakebed.Loader(ds, 16, shuffle=True, seed=0, window=800_000, threads=2, tensors=["image"])
    loader.state_dict()  # opens the dataset
    slow.get_range = get_range  # type: ignore[method-assign]
    iterator = iter(loader)
    first = next(iterator)
    assert len(first.rows) == 16
    held.set()
    rest = [row for batch in iterator for row in batch.rows]
    assert sorted([*first.rows, *rest]) == list(range(ROWS))


@pytest.mark.parametrize("stop", [1, 7])
def test_what_was_delivered_is_not_read_again(store: Afar, stop: int) -> None:
    ds = opened_on(store, read_only=True)
    whole = [batch.rows.tolist() for batch in lakebed.Loader(ds, 16, window=800_000, shuffle=True, seed=0)]
    first = lakebed.Loader(ds, 16, shuffle=True, seed=0, window=800_000)
    iterator = iter(first)
    for _ in range(stop):
        next(iterator)
    again = lakebed.Loader(opened_on(store, read_only=True), 16, shuffle=True, seed=0, window=800_000)
    again.load_state_dict(first.state_dict())
    assert [batch.rows.tolist() for batch in again] == whole[stop:]
    stats = again.stats()
    assert stats["held"] == 0


def test_memory_is_bound_with_samples_of_very_different_sizes() -> None:
    store = Afar()
    ds = made_on(store)
    ds.create_tensor("x", dtype="uint8", max_chunk_size=1 << 23, tiling_threshold=-1)
    sizes = [3_000 if row % 10 else 300_000 for row in range(400)]
    ds.x.extend([np.full(size, row % 251, np.uint8) for row, size in enumerate(sizes)])
    ds.commit()
    memory = 6_000_000
    loader = lakebed.Loader(
        opened_on(store, read_only=True), 16, shuffle=True, seed=0, memory=memory, threads=2
    )
    for batch in loader:
        for row, value in zip(batch.rows.tolist(), batch["x"], strict=True):
            assert (len(value), value[0]) == (sizes[row], row % 251)
    assert 1_000_000 < loader.stats()["peak_bytes"] <= 1.05 * memory


def _failing(store: Afar, ds: lakebed.Dataset, every: int) -> Iterator[None]:
    plain, count = store.get_range, iter(range(10**9))

    def get_range(key: str, start: int, length: int) -> bytes:
        if next(count) % every == every - 1:
            raise StorageError("the line is down")
        return plain(key, start, length)

    store.get_range = get_range  # type: ignore[method-assign]
    yield


@pytest.mark.parametrize("threads", [0, 2])
def test_a_request_that_fails_is_an_error_and_no_hang(store: Afar, threads: int) -> None:
    failing = Afar(store.objects)
    ds = opened_on(failing, read_only=True)
    loader = lakebed.Loader(ds, 16, shuffle=True, seed=0, window=800_000, threads=threads, tensors=["image"])
    loader.state_dict()
    for _ in _failing(failing, ds, 20):
        with pytest.raises(StorageError, match="the line is down"):
            list(loader)
        assert not [t for t in threading.enumerate() if t.name.startswith("lakebed-loader")]


def test_samples_that_cannot_be_read_are_left_out(store: Afar) -> None:
    failing = Afar(store.objects)
    ds = opened_on(failing, read_only=True)
    loader = lakebed.Loader(
        ds, 16, shuffle=True, seed=0, window=800_000, threads=2, tensors=["image"], on_error="skip"
    )
    loader.state_dict()
    for _ in _failing(failing, ds, 20):
        seen = [int(row) for batch in loader for row in batch.rows]
    assert len(seen) == len(set(seen)) == ROWS - loader.stats()["errors"]
    assert 1 <= loader.stats()["errors"] < 60


@pytest.mark.parametrize("world", [2, 5])
def test_few_rows_for_many_processes(world: int) -> None:
    store = Afar()
    ds = made_on(store)
    ds.create_tensor("x", dtype="uint8", max_chunk_size=1 << 23, tiling_threshold=-1)
    ds.x.extend([np.full(300_000 + row, row, np.uint8) for row in range(4)])
    ds.commit()
    found = []
    for rank in range(world):
        loader = lakebed.Loader(
            opened_on(store, read_only=True), 3, shuffle=True, seed=0, rank=rank, world=world, threads=1
        )
        batches = list(loader)
        assert all(value[0] == row for b in batches for row, value in zip(b.rows, b["x"], strict=True))
        found.append(batches)
    assert len({len(batches) for batches in found}) == 1
    real = [int(row) for batches in found for batch in batches for row in batch.rows[batch.real]]
    assert sorted(real) == [0, 1, 2, 3]


def test_tensors_in_memory_are_asked_for_beside_the_first_samples(store: Afar) -> None:
    slow = Afar(store.objects, pause=0.2)
    ds = opened_on(slow, read_only=True)
    loader = lakebed.Loader(ds, 16, shuffle=True, seed=0, window=800_000, threads=2)
    slow.forget()
    iterator = iter(loader)
    next(iterator)
    first = [request for request in slow.requests if request.begun < slow.requests[0].ended]
    assert {request.key.split("/chunks/")[0].rpartition("/")[2] for request in first} == {"image", "label"}
    iterator.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_a_tensor_in_memory_that_cannot_be_read_is_an_error(store: Afar, on_error: Any) -> None:
    failing = Afar(store.objects)
    ds = opened_on(failing, read_only=True)
    loader = lakebed.Loader(ds, 16, on_error=on_error, tensors=["image", "label"])
    plain, is_down = failing.get, [True]

    def get(key: str) -> bytes:
        if is_down[0] and "label" in key:
            raise StorageError("the line is down")
        return plain(key)

    failing.get = get  # type: ignore[method-assign]
    with pytest.raises(StorageError, match="the line is down"):
        list(loader)
    is_down[0] = False
    assert [row for batch in loader for row in batch["label"].ravel()] == list(range(ROWS))


def test_nothing_competes_with_the_first_batch(store: Afar) -> None:
    """Until its samples are here, no others are asked for; then those of all batches ahead are."""
    slow = Afar(store.objects)
    ds = opened_on(slow, read_only=True)
    loader = lakebed.Loader(ds, 16, shuffle=True, seed=0, window=800_000, threads=2, tensors=["image"])
    loader.state_dict()
    slow.forget()
    slow.pause = 1.0
    iterator = iter(loader)
    next(iterator)
    next(iterator)
    iterator.close()  # type: ignore[attr-defined]
    ended = sorted(request.ended for request in slow.requests)
    assert len([request for request in slow.requests if request.begun < ended[0]]) == 16
    assert len(slow.requests) > 18


@pytest.mark.parametrize("on_error", ["skip", "substitute"])
@pytest.mark.parametrize("size", [4, 200])
def test_a_network_that_is_gone_is_no_bad_sample(store: Afar, on_error: Any, size: int) -> None:
    """What cannot be fetched at all is not left out without end; nor is all of a few rows."""
    for rows in (ROWS, 3):
        failing = Afar(store.objects)
        ds = opened_on(failing, read_only=True)
        loader = lakebed.Loader(
            ds[:rows],
            size,
            shuffle=True,
            seed=0,
            window=800_000,
            threads=2,
            tensors=["image"],
            on_error=on_error,
        )
        loader.state_dict()
        for _ in _failing(failing, ds, 1):
            with pytest.raises(StorageError, match="the line is down") as caught:
                list(loader)
        assert caught.value.tensor == "image"
        assert caught.value.row is not None
        if rows == ROWS and on_error == "skip":
            assert "on_error='skip' is for bad samples" in caught.value.__notes__[-1]


def test_a_network_that_goes_in_the_middle_is_no_bad_sample(store: Afar) -> None:
    failing = Afar(store.objects)
    ds = opened_on(failing, read_only=True)
    loader = lakebed.Loader(
        ds, 8, window=200_000, threads=1, tensors=["image"], on_error="skip", shuffle=True, seed=0
    )
    iterator = iter(loader)
    seen = list(next(iterator).rows)
    for _ in _failing(failing, ds, 1):
        with pytest.raises(StorageError, match="the line is down"):
            seen.extend(row for batch in iterator for row in batch.rows)
    assert len(seen) < ROWS - 64


def test_a_request_that_hangs_is_made_a_second_time(store: Afar) -> None:
    """Nobody waits for the first, and what comes is the same; it is told how many there were."""
    slow = Afar(store.objects)
    ds = opened_on(slow, read_only=True)
    loader = lakebed.Loader(ds, 8, shuffle=True, seed=0, window=400_000, threads=2, tensors=["image"])
    for _ in range(2):  # what is usual is known
        list(loader)
    assert loader.stats()["hedged"] == 0
    plain, is_over, hung = slow.get_range, threading.Event(), []

    def get_range(key: str, start: int, length: int) -> bytes:
        if length > 20_000 and not hung:
            hung.append((start, length))
            is_over.wait(60)
        return plain(key, start, length)

    slow.get_range = get_range  # type: ignore[method-assign]
    slow.forget()
    try:
        seen = []
        for batch in loader:
            seen += batch.rows.tolist()
            for image, row in zip(batch["image"], batch.rows.tolist(), strict=True):
                assert np.array_equal(image, pixels(row))
    finally:
        is_over.set()
    assert sorted(seen) == list(range(ROWS))
    assert hung
    assert loader.stats()["hedged"] == 1


def test_tensors_of_a_span_are_read_at_the_same_time() -> None:
    store = Afar()
    ds = made_on(store)
    for name in ("a", "b", "c"):
        ds.create_tensor(name, dtype="uint8", max_chunk_size=1 << 23, tiling_threshold=-1)
        ds[name].extend([np.full(500_000 + row, row, np.uint8) for row in range(40)])
    ds.commit()
    far = Afar(store.objects)
    loader = lakebed.Loader(opened_on(far, read_only=True), 8, shuffle=True, seed=0, threads=2)
    loader.state_dict()
    far.forget()
    far.pause = 1.5
    iterator = iter(loader)
    batch = next(iterator)
    iterator.close()  # type: ignore[attr-defined]
    for name in ("a", "b", "c"):
        assert [value[0] for value in batch[name]] == batch.rows.tolist()
    first = min(request.ended for request in far.requests)
    assert len([request for request in far.requests if request.begun < first]) == 24


def test_what_was_asked_of_a_store_is_told(store: Afar) -> None:
    """Requests and bytes as the store sees them; a second pass over small chunks finds them in memory."""
    counted = Afar(store.objects)
    ds = opened_on(counted, read_only=True)
    loader = lakebed.Loader(ds, 16, shuffle=True, seed=0, window=800_000, threads=2)
    loader.state_dict()
    counted.forget()
    list(loader)
    stats = loader.stats()
    assert stats["requests"] == len(counted.requests)
    assert stats["retried"] == stats["hedged"] == stats["cache_hits"] == 0
    stored = sum(len(ds.image[row].tobytes()) for row in range(ROWS))
    assert stored < stats["bytes_read"] < 1.15 * stored
    assert stats["amplification"] == pytest.approx(stats["bytes_read"] / stored, rel=0.05)
