"""Checksums taken on the way are those of the whole file, however it comes."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

import lakebed
from lakebed import config
from lakebed.documents import manifest
from lakebed.documents.manifest import block_sums
from lakebed.storage.base import Summed
from lakebed.storage.files import disk
from lakebed.storage.local import LocalStorage
from lakebed.storage.memory import MemoryStorage
from lakebed.writing import passing_sums, tensor_chunks
from lakebed.writing.passing_sums import PassingSums
from unit_tests.lakebed.datasets import new_memory


def content(size: int) -> bytes:
    return np.random.default_rng(size).bytes(size)


@given(
    header=st.integers(1, 90),
    sizes=st.lists(st.integers(1, 300_000), max_size=6),
    cuts=st.lists(st.integers(0, 2_000_000), max_size=6),
    breaks_off=st.booleans(),
)
def test_sums_are_those_of_the_whole_file(
    header: int, sizes: list[int], cuts: list[int], breaks_off: bool
) -> None:
    """Of blocks and samples, in any parts; a write that is repeated begins anew."""
    data = content(header + sum(sizes))
    passing = PassingSums(len(data), header, sizes)
    if breaks_off:
        passing.see(0, data[: len(data) // 2])
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    for start, stop in pairwise(places):
        passing.see(start, memoryview(data)[start:stop])
    assert passing.blocks == block_sums((data,))
    ends = np.cumsum([header, *sizes]).tolist()
    assert passing.samples == [xxhash.xxh3_64_intdigest(data[start:stop]) for start, stop in pairwise(ends)]
    assert passing.is_same(data)
    assert not passing.is_same(data[:-1] + bytes([data[-1] ^ 1]))
    passing.complete(pytest.fail("was seen") for _ in range(1))


def test_what_was_not_shown_or_not_in_order_is_summed_afterwards() -> None:
    """From the pieces; nothing is the same as before that."""
    data = content(900_000)
    pieces = (data[:51], memoryview(data)[51:500_051], data[500_051:])
    for shown in ((), ((0, data[:100]),), ((5, data[5:]),), ((0, data[:9]), (20, data[20:]))):
        passing = PassingSums(len(data), 51, [500_000, len(data) - 500_051])
        for start, part in shown:
            passing.see(start, part)
        assert not passing.is_same(data)
        passing.complete(pieces)
        assert passing.blocks == block_sums(pieces)
        assert passing.samples == [xxhash.xxh3_64_intdigest(piece) for piece in pieces[1:]]


@pytest.mark.parametrize("cached", [True, False])
def test_a_folder_shows_large_files_as_it_writes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cached: bool
) -> None:
    """All bytes in order, step by step, or none of them."""
    monkeypatch.setattr(config, "OS_CACHE", cached)
    data, seen = content(3 * disk.STEP + 5), []
    shown = Summed((data[:51], data[51:]), data.__eq__, see=lambda at, part: seen.append((at, bytes(part))))
    LocalStorage(tmp_path).put_many([("a/b", shown)], durable=False)
    assert (tmp_path / "a/b").read_bytes() == data
    if cached:
        assert [at for at, _ in seen] == [0, disk.STEP, 2 * disk.STEP, 3 * disk.STEP]
        assert b"".join(part for _, part in seen) == data
    else:
        assert not seen


@pytest.mark.parametrize("where", ["folder", "memory"])
def test_extend_reads_each_byte_of_large_arrays_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """On its way to a folder; the checksums in the manifest are the same anywhere."""
    storage = LocalStorage(tmp_path / "a") if where == "folder" else new_memory()
    monkeypatch.setattr(tensor_chunks, "_numbered", lambda _: pytest.fail("summed before it was written"))
    completed = []
    real = PassingSums.complete

    def complete(passing: PassingSums, pieces: tuple[bytes, ...]) -> None:
        completed.append(passing._at == passing._nbytes)
        real(passing, pieces)

    monkeypatch.setattr(PassingSums, "complete", complete)
    rows = np.random.default_rng(1).integers(0, 256, (25, 700, 1000), dtype=np.uint8)
    address = str(tmp_path / "a") if where == "folder" else storage.url
    ds = lakebed.empty(address)
    ds.create_tensor("x", dtype="uint8", create_id_tensor=False, create_shape_tensor=False)
    ds.extend({"x": rows[:24]})
    assert completed == [where == "folder"] * 2
    monkeypatch.undo()
    ds.extend({"x": list(rows[24:])})
    ds.flush()
    assert lakebed.verify(address, deep=True).is_sound
    assert np.array_equal(lakebed.load(address).x.numpy(), rows)
    assert isinstance(storage, LocalStorage | MemoryStorage)
    assert passing_sums.BLOCK == manifest.BLOCK
