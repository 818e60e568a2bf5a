"""Arrays that are stored as they come take a shorter way to the same samples; tables and runs of chunks likewise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lakebed.chunks.pack import groups
from lakebed.codecs.block import Block
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.errors import SampleAppendError
from lakebed.versions.state import ChunkTable, NewChunk, empty_table
from lakebed.writing.encode.arrays import encode_arrays, encode_as_stored, is_as_stored
from lakebed.writing.encode.column import encode_column
from unit_tests.effort import examples

DTYPES = ("bool", "uint8", "int16", "int32", "uint64", "float16", "float32", "float64")


@st.composite
def arrays(draw: st.DrawFn) -> NDArray[Any]:
    """Arrays of any rank and byte order, some of them not contiguous or empty."""
    shape = draw(st.lists(st.integers(0, 4), min_size=1, max_size=4))
    dtype = np.dtype(draw(st.sampled_from(DTYPES))).newbyteorder(draw(st.sampled_from("<>")))
    array = np.arange(np.prod(shape)).astype(dtype).reshape(shape)
    return draw(st.sampled_from((array, array[::2], array.T, np.asfortranarray(array))))


@settings(max_examples=examples(150), deadline=None)
@given(arrays(), st.sampled_from(DTYPES), st.integers(0, 3), st.sampled_from((None, -1, 0, 8, 100)))
def test_the_short_way_gives_what_the_long_one_does(
    rows: NDArray[Any], dtype: str, rank: int, threshold: int | None
) -> None:
    """Whatever it takes; what it does not take goes the long way."""
    shape = rows.shape[1:] or (1,) if rank == 3 else (2,) * rank
    meta = TensorMeta(7, "x", "generic", dtype, min_shape=shape, max_shape=shape, tiling_threshold=threshold)
    if not is_as_stored(rows, meta):
        return
    (long,), short = encode_arrays(rows, meta), encode_as_stored(rows, meta)
    assert (bytes(short.block.data), short.meta) == (bytes(long.block.data), long.meta)
    for name in ("count", "sizes", "shapes", "buffers"):
        assert getattr(short.block, name) == getattr(long.block, name)
    # What is borrowed is copied before the call ends.
    assert not (short.owned and np.may_share_memory(np.frombuffer(short.block.data or b"-", np.uint8), rows))


def test_plain_numbers_are_taken_and_others_are_not() -> None:
    """Another dtype, rank, byte order or kind of tensor takes the long way, which casts or refuses."""
    meta = TensorMeta(1, "x", "generic", "int32", min_shape=(1,), max_shape=(1,))
    assert is_as_stored(np.zeros(5, np.int32), meta)
    assert is_as_stored(np.zeros((5, 1), np.int32), meta)
    for rows in (np.zeros(5, np.int16), np.zeros((5, 1, 1), np.int32), np.zeros(5, ">i4")):
        assert not is_as_stored(rows, meta)
    for changes in (
        {"htype": "class_label"},
        {"is_sequence": True},
        {"links": {"i": {}}},
        {"dtype": "object"},
    ):
        assert not is_as_stored(np.zeros(5, np.int32), meta.with_(**changes))
    assert not is_as_stored(np.zeros(5, np.int32), meta.with_(sample_compression="lz4"))
    assert not is_as_stored(np.zeros((1, 1), np.int32), meta.with_(tiling_threshold=1))
    with pytest.raises(SampleAppendError):
        encode_column(np.zeros((5, 1, 1), np.int32), meta, {}, "x")


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), max_size=3), max_size=4))
def test_a_table_grows_as_one_that_is_rebuilt(steps: list[list[tuple[int, int]]]) -> None:
    """Chunks of several publishes, with and without layouts, and further tiles that hold no sample of their own."""
    table, number = empty_table(), 0
    for i, step in enumerate(steps):
        added = []
        for count, words in step:
            number += 1
            count += not table.count and not added
            layout = np.arange(words, dtype=np.uint32)
            added.append(NewChunk(number, count, 100 * count, [number] * (count > 0), layout))
        folder = (f"v{i % 2}", "x")
        expected = table.rebuilt([*([(0, len(table))] if len(table) else []), *added], folder)
        table = table.extended(added, folder)
        _check_same(table, expected)


def _check_same(table: ChunkTable, expected: ChunkTable) -> None:
    assert table.ids == expected.ids
    rows = range(len(table))
    assert [table.key(row) for row in rows] == [expected.key(row) for row in rows]
    for name in ("sizes", "sums", "own"):
        found, wanted = getattr(table.places, name), getattr(expected.places, name)
        assert found.dtype == wanted.dtype
        assert found.tolist() == wanted.tolist()
    assert [table.places.layout(row).tolist() for row in rows] == [
        expected.places.layout(row).tolist() for row in rows
    ]


def test_samples_that_fit_are_one_run() -> None:
    """At the limit exactly, and not one beyond."""
    block = Block(memoryview(bytes(100)), 10, 10, (10,))
    assert groups([block], 100) == [[block]]
    assert [[one.count for one in run] for run in groups([block], 99)] == [[9], [1]]
