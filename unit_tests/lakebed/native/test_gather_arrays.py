"""Many arrays back to back, compared with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lakebed.native import gather
from unit_tests.effort import examples

DTYPES = st.sampled_from(["<f4", "<i8", "|u1", "|b1", "<c8", "<M8[s]"])


@settings(max_examples=examples(80))
@given(st.data())
def test_arrays_are_put_back_to_back(data: st.DataObject) -> None:
    """Bytes, shapes and sizes are those of the arrays; None is an empty sample."""
    dtype = np.dtype(data.draw(DTYPES))
    ndim = data.draw(st.integers(1, 4))
    array = hnp.arrays(dtype, hnp.array_shapes(min_dims=ndim, max_dims=ndim, min_side=0, max_side=4))
    values: list[Any] = data.draw(st.lists(st.none() | array, min_size=1, max_size=8))
    found = gather.gather_arrays(values, dtype, ndim)
    assert found is not None
    joined, shapes, sizes = found
    assert joined.tobytes() == b"".join(b"" if v is None else v.tobytes() for v in values)
    assert shapes.tolist() == [[0] * ndim if v is None else list(v.shape) for v in values]
    assert sizes.tolist() == [0 if v is None else v.nbytes for v in values]


def test_anything_else_is_left_to_the_caller() -> None:
    """Other dtypes, ranks, layouts and kinds: nothing is copied."""
    good = np.zeros((2, 3), "f4")
    for wrong in (good.astype("f8"), good[0], good[:, ::2], good.T, good.astype(">f4"), [1.0], 5, "x", b""):
        assert gather.gather_arrays([good, wrong], good.dtype, 2) is None
    assert gather.gather_arrays([], good.dtype, 2) is None
    assert gather.gather_arrays([good], good.dtype, 0) is None


def test_arrays_stay_usable() -> None:
    """Their buffers are given back, also after a refusal: they can be resized."""
    values: list[Any] = [np.zeros(4), np.zeros(4)]
    gather.gather_arrays(values, values[0].dtype, 1)
    gather.gather_arrays([values[0], 5], values[0].dtype, 1)
    values[0].resize(8, refcheck=False)
    assert len(values[0]) == 8


@settings(max_examples=examples(80))
@given(
    st.integers(0, 2_500),
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 700)), min_size=1, max_size=6),
    st.integers(0, 130),
    st.booleans(),
)
def test_samples_of_one_size_are_copied_from_and_to_anywhere(
    size: int, places: list[tuple[int, int]], shift: int, streamed: bool
) -> None:
    """Past the cache or through it, wherever both ends lie; what is beside the target stays as it is."""
    buffers = [np.random.default_rng(n).integers(1, 255, 3_300, np.uint8) for n in range(3)]
    sources: list[Any] = [(buffers[0], buffers[1].tobytes(), memoryview(buffers[2]))[n] for n, _ in places]
    room = np.zeros(shift + len(places) * size + 70, np.uint8)
    out = room[shift : shift + len(places) * size].reshape(len(places), size)
    gather.copy_samples(sources, np.array([start for _, start in places]), out, streamed)
    for row, (n, start) in zip(out, places, strict=True):
        assert np.array_equal(row, buffers[n][start : start + size])
    assert not room[:shift].any()
    assert not room[shift + len(places) * size :].any()


@pytest.mark.parametrize(
    ("lengths", "starts", "rows"),
    [([100, 100], [0, 37], 2), ([100], [-1], 1), ([63], [0], 1), ([100], [2**63 - 1], 1), ([100], [0, 0], 2),
     ([100, 100], [0], 2), ([100, 100], [0, 0], 1)],
)  # fmt: skip
@pytest.mark.parametrize("streamed", [False, True])
def test_samples_that_leave_their_buffers_are_refused(
    lengths: list[int], starts: list[int], rows: int, streamed: bool
) -> None:
    out = np.zeros((rows, 64), np.uint8)
    with pytest.raises(ValueError, match=r"its buffer has|sources and"):
        gather.copy_samples([b"x" * n for n in lengths], np.array(starts, np.int64), out, streamed)
    assert not out.any()


def test_what_is_no_buffer_is_refused() -> None:
    out = np.zeros((2, 4), np.uint8)
    for wrong in (None, 7, np.zeros((4, 8), np.uint8)[:, ::2]):
        with pytest.raises((TypeError, BufferError, ValueError)):
            gather.copy_samples([b"four", wrong], np.zeros(2, np.int64), out, False)
    out.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        gather.copy_samples([b"four", b"four"], np.zeros(2, np.int64), out, False)


@settings(max_examples=examples(60))
@given(st.data())
def test_rows_of_several_files_are_fancy_indexing(data: st.DataObject) -> None:
    """Rows in any order come as NumPy gives them; what is not there or not verified stops the copy just before it."""
    item, block = data.draw(st.sampled_from([1, 4, 24, 700])), data.draw(st.sampled_from([8, 64, 1000]))
    counts = [data.draw(st.integers(1, 9)), *data.draw(st.lists(st.integers(0, 9), max_size=5))]
    rng = np.random.default_rng(sum(counts))
    whole = rng.integers(0, 256, (sum(counts), item), dtype=np.uint8)
    rows = np.array(
        data.draw(st.lists(st.integers(0, len(whole) - 1), min_size=1, max_size=90)), dtype=np.int64
    )
    last = np.cumsum(counts)
    sources = gather.RowSources((last - 1).astype(np.uint64), item, block)
    start = data.draw(st.integers(0, 70))
    files = [bytes(start) + part.tobytes() for part in np.split(whole, last[:-1])]
    seen = [bytearray(-(-len(file) // block)) for file in files]

    out, done, ready = np.zeros(len(rows) * item, np.uint8), 0, set()
    while (done := sources.take(rows, out, done)) < len(rows):
        chunk = int(np.searchsorted(last, rows[done], side="right"))
        first = start + item * int(rows[done] - (last[chunk] - counts[chunk]))
        blocks = range(first // block, (first + item - 1) // block + 1)
        assert not sources.has(chunk) or not all(seen[chunk][b] for b in blocks)
        assert (chunk, int(rows[done])) not in ready
        ready.add((chunk, int(rows[done])))
        if not sources.has(chunk):
            sources.put(chunk, files[chunk], start, seen[chunk])
        for number in blocks:
            seen[chunk][number] = 1
    assert np.array_equal(out.reshape(-1, item), whole[rows])


def test_rows_and_files_that_do_not_fit_are_refused() -> None:
    """Nothing is read or written beyond a buffer."""
    sources = gather.RowSources(np.array([1, 4], np.uint64), 4, 16)
    for chunk, data, start, seen in ((0, bytes(7), 0, b""), (0, bytes(8), 1, b""), (0, bytes(8), -1, b"")):
        with pytest.raises(ValueError, match="leave"):
            sources.put(chunk, data, start, seen)
    with pytest.raises(ValueError, match="blocks"):
        sources.put(1, bytes(20), 0, b"\1")
    with pytest.raises(ValueError, match="does not exist"):
        sources.put(2, bytes(20), 0, b"")
    sources.put(1, bytes(12), 0, b"")
    with pytest.raises(ValueError, match="before"):
        sources.put(1, bytes(12), 0, b"")
    out = np.zeros(8, np.uint8)
    for rows in ([5], [-1], [2, 1 << 40]):
        with pytest.raises(IndexError, match="out of range"):
            sources.take(np.array(rows, np.int64), out, 0)
    with pytest.raises(IndexError, match="short"):
        sources.take(np.array([2, 3, 4], np.int64), out, 0)
    for last, item, block in (([1, 0], 4, 16), ([1], 0, 16), ([1], 4, 0)):
        with pytest.raises(ValueError, match=r"previous|bytes"):
            gather.RowSources(np.array(last, np.uint64), item, block)
