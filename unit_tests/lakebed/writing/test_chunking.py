"""How samples become chunk files: few small ones, none too large, bounded memory, each byte rewritten rarely."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lakebed
from lakebed.storage.base import Data, pieces
from lakebed.storage.memory import MemoryStorage
from lakebed.testing.faulty import FaultyStorage
from lakebed.writing import tensor_chunks
from lakebed.writing.draft import tensors as draft_module
from unit_tests.effort import IS_SOAK
from unit_tests.lakebed.datasets import create_on, new_memory, open_on

BARE = {"create_id_tensor": False, "create_shape_tensor": False}


class Weighing(FaultyStorage):
    """Counts the bytes of chunk files that are written."""

    def __init__(self, inner: MemoryStorage) -> None:
        super().__init__(inner)
        self.chunk_bytes = 0
        self.largest = 0

    def put_many(self, items: Iterable[tuple[str, Data]], *, durable: bool = True) -> None:
        pairs = list(items)
        for key, data in pairs:
            if "/chunks/" in key:
                size = sum(p.nbytes for p in pieces(data))
                self.chunk_bytes += size
                self.largest = max(self.largest, size)
        super().put_many(pairs, durable=durable)


def chunk_counts(ds: lakebed.Dataset) -> dict[str, int]:
    """Chunks per tensor of the version that is open."""
    return {key: len(state.table) for key, state in ds._session.snapshot.tensors.items()}


PUBLISHES = 1_000 if IS_SOAK else 400


def test_hundreds_of_small_publishes_leave_few_chunks() -> None:
    """Small tails are merged like runs of a log-structured tree: few chunks, and each byte is rewritten rarely."""
    storage = Weighing(new_memory())
    ds = create_on(storage)
    ds.create_tensor("n", **BARE)
    ds.create_tensor("t", htype="text", **BARE)
    ds.create_tensor("always empty", htype="text", **BARE)
    ds.create_tensor("ragged", **BARE)
    written = 0
    with ds:
        for i in range(PUBLISHES):
            rows = {"n": np.arange(50) + i, "t": [f"row {i}"] * 50, "always empty": [""] * 50}
            ds.extend(rows | {"ragged": [np.arange(i % 4)] * 50})
            ds.flush()
            written += 50 * (8 + 12 + 6 + 12 + 12 + 12)
    assert max(chunk_counts(ds).values()) <= 14
    assert storage.chunk_bytes < 12 * written
    seen = open_on(storage, read_only=True)
    assert np.array_equal(seen.n.numpy().reshape(-1, 50), np.arange(50) + np.arange(PUBLISHES).reshape(-1, 1))
    assert seen.t.text() == [f"row {i}" for i in range(PUBLISHES) for _ in range(50)]
    assert set(seen["always empty"].text()) == {""}
    assert len(seen.ragged[-1].numpy()) == (PUBLISHES - 1) % 4


def test_merged_tails_keep_every_kind_of_sample() -> None:
    """None, empty arrays, compressed chunks and nulls survive being moved into the next chunk."""
    for settings in ({}, {"chunk_compression": "lz4"}, {"sample_compression": "lz4"}):
        ds = create_on(new_memory())
        ds.create_tensor("a", **BARE, **settings)
        ds.create_tensor("t", htype="text", **BARE, **settings)
        samples = [None, np.zeros((0, 2), "i2"), np.ones((1, 2), "i2"), None, np.full((2, 2), 7, "i2")]
        texts = [None, "", "x", None, "longer text"]
        for sample, text in zip(samples, texts, strict=True):
            ds.extend({"a": [sample], "t": pa.array([text])})
            ds.flush()
        assert chunk_counts(ds)["a"] == 1
        shapes = [(0, 0), (0, 2), (1, 2), (0, 0), (2, 2)]
        assert [v.shape for v in ds.a.numpy(aslist=True)] == shapes
        assert ds.a[4].numpy().tolist() == [[7, 7], [7, 7]]
        assert list(ds.t.values()) == texts


def test_a_tail_joins_only_what_at_least_matches_it() -> None:
    """A tail is rewritten for as many new bytes as half its own, not for a row."""
    ds = create_on(new_memory())
    ds.create_tensor("n", **BARE)
    sizes = []
    for rows in (10_000, 1, 1, 1, 20_000):
        ds.extend({"n": np.zeros(rows)})
        ds.flush()
        sizes.append(chunk_counts(ds)["n"])
    assert sizes == [1, 2, 2, 2, 1]


@pytest.mark.parametrize("how", ["one extend", "many extends", "rows"])
def test_chunks_hold_eight_megabytes(how: str) -> None:
    """Big columns are cut at 8 MB of data, however they arrive; nothing is lost at the cuts."""
    storage = Weighing(new_memory())
    ds = create_on(storage)
    ds.create_tensor("n", dtype="int64", **BARE)
    values = np.arange(2_500_000)
    with ds:
        if how == "one extend":
            ds.extend({"n": values})
        elif how == "many extends":
            for part in np.array_split(values, 50):
                ds.extend({"n": part})
        else:
            ds.extend({"n": values[:-5]})
            for row in values[-5:]:
                ds.append({"n": row})
    assert chunk_counts(ds) == {"n": 3}
    assert storage.largest <= 8_000_100
    assert np.array_equal(open_on(storage, read_only=True).n.numpy().ravel(), values)


def test_settings_of_the_tensor_set_the_size() -> None:
    """`max_chunk_size` is twice what a chunk holds, as in 3.9.52; hidden shapes have 4 MB."""
    storage = Weighing(new_memory())
    ds = create_on(storage)
    ds.create_tensor("t", htype="text", max_chunk_size=2000, **BARE)
    ds.extend({"t": ["x" * 100] * 100})
    ds.flush()
    assert storage.largest <= 1100
    assert chunk_counts(ds)["t"] == 13
    ds.create_tensor("s", dtype="int8")
    ds.flush()
    assert ds["_s_shape"].meta.max_chunk_size == 4_000_000


def test_a_sample_above_the_limit_has_its_own_chunk() -> None:
    """One large sample is stored whole; its neighbours are not."""
    ds = create_on(new_memory())
    ds.create_tensor("a", max_chunk_size=2000, **BARE)
    ds.extend({"a": [np.zeros(10, "u1"), np.ones(5000, "u1"), np.full(10, 2, "u1")]})
    ds.flush()
    assert chunk_counts(ds)["a"] == 3
    assert [int(v[0]) for v in ds.a.numpy(aslist=True)] == [0, 1, 2]


def test_large_tails_are_not_rewritten() -> None:
    """A tail above 1 MB stays as it is, whatever is added after it."""
    storage = Weighing(new_memory())
    ds = create_on(storage)
    ds.create_tensor("n", **BARE)
    ds.extend({"n": np.zeros(300_000)})
    ds.flush()
    before = storage.chunk_bytes
    ds.extend({"n": np.zeros(250_000)})
    ds.flush()
    assert storage.chunk_bytes - before < 2_100_000
    assert chunk_counts(ds)["n"] == 2


def test_large_compressed_tails_are_not_rewritten() -> None:
    """It is what a chunk holds that counts, not what is left of it: packing it anew costs as much as a raw one."""
    ds = create_on(new_memory())
    ds.create_tensor("n", chunk_compression="lz4", **BARE)
    ds.create_tensor("t", htype="text", chunk_compression="lz4", **BARE)
    for _ in range(2):
        ds.extend({"n": np.zeros(250_000), "t": ["a text"] * 250_000})
        ds.flush()
    assert chunk_counts(ds) == {"n": 2, "t": 2}
    ds.extend({"n": np.ones(100), "t": ["b"] * 100})
    ds.extend({"n": np.ones(10), "t": ["b"] * 10})
    ds.flush()
    assert chunk_counts(ds) == {"n": 3, "t": 3}
    assert ds.n[499_999:500_002].numpy().ravel().tolist() == [0, 1, 1]


@pytest.mark.parametrize("reading", [False, True], ids=["writing", "writing and reading"])
def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch, reading: bool) -> None:
    """What waits to be published stays below a limit; the rest is in storage, unseen by others."""
    monkeypatch.setattr(draft_module, "SPILL_BYTES", 1_000_000)
    storage = new_memory()
    ds = create_on(storage)
    for name in "abc":
        ds.create_tensor(name, **BARE)
    most = 0
    with ds:
        for i in range(100):
            ds.extend({name: np.full(10_000, i) for name in "abc"})
            if reading:
                assert ds.a[-1].numpy().tolist() == [i]
            waiting = ds._session._unpublished.draft.tensors.values()
            held = sum(
                t.pending.nbytes + sum(memoryview(p).nbytes for c in t.new_chunks.values() for p in c)
                for t in waiting
            )
            most = max(most, held)
        assert len(open_on(storage, read_only=True).tensors) == 0
        assert most < 1_400_000
    seen = open_on(storage, read_only=True)
    assert np.array_equal(seen.b.numpy().ravel(), np.repeat(np.arange(100), 10_000))


def test_many_small_extends_copy_each_array_once() -> None:
    """Taking over the caller's arrays costs their size, not that of all that waits."""
    ds = create_on(new_memory())
    ds.create_tensor("n", **BARE)
    with ds:
        ds.extend({"n": np.zeros(500_000)})
        first = ds._session._unpublished.draft.tensors["n"].pending[0].data
        for _ in range(5):
            ds.extend({"n": np.ones(10)})
        assert ds._session._unpublished.draft.tensors["n"].pending[0].data is first


@pytest.mark.parametrize("many", [1, 40], ids=["one by one", "forty at once"])
@pytest.mark.parametrize("width", [100, 10], ids=["large chunks", "small chunks"])
def test_arrays_of_varying_width_are_appended_in_a_loop(width: int, many: int) -> None:
    """Images whose width changes from row to row, and arrays without a row among them, come back as they went in."""
    ds = create_on(new_memory())
    ds.create_tensor("image", dtype="uint8", max_chunk_size=2_000_000)
    shapes = [(width, width + i % 7, 3) if i % 60 < 50 else (0, 0, 0) for i in range(300)]
    rows = [np.full(shape, i % 256, np.uint8) for i, shape in enumerate(shapes)]
    for at in range(0, 300, many):
        ds.image.append(rows[at]) if many == 1 else ds.image.extend(rows[at : at + many])
    ds.flush()
    again = open_on(ds._session.storage)
    for row, found in zip(rows, again.image.numpy(aslist=True), strict=True):
        assert np.array_equal(row, found)
    assert again.image[245].numpy()[0, 0, 0] == 245


def test_a_chunk_is_written_before_the_next_is_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is given at once, so that memory and caches hold one chunk; what is left over is the draft's own."""
    steps: list[str] = []

    class Noting(MemoryStorage):
        def put(self, key: str, data: Data) -> str:
            if "/chunks/" in key:
                steps.append("write")
            return super().put(key, data)

    packed = tensor_chunks.pack

    def noted(*given: Any, **more: Any) -> Any:
        steps.append("pack")
        return packed(*given, **more)

    monkeypatch.setattr(tensor_chunks, "pack", noted)
    ds = create_on(Noting())
    ds.create_tensor("x", dtype="uint8", max_chunk_size=200_000, **BARE)
    rows = np.arange(500, dtype=np.uint8).repeat(1000).reshape(500, 1000)
    expected = rows.copy()
    with ds:
        ds.extend({"x": rows})
        assert steps == ["pack", "write"] * 4
        rows[:] = 0
    assert np.array_equal(ds.x.numpy(), expected)
