"""Sequences: rows, items and parts of items, against lists of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lakebed
from lakebed.documents.indexes.sequence_index import SequenceIndex
from lakebed.errors import DynamicTensorNumpyError
from lakebed.reading.sequences import Spans, pick
from unit_tests.lakebed.datasets import create_on, new_memory

RAGGED = [
    [np.arange(3, dtype=np.int32), np.arange(7, dtype=np.int32)],
    [],
    [np.arange(1, dtype=np.int32)],
    [np.arange(4, dtype=np.int32) * 2, np.arange(5, dtype=np.int32), np.arange(2, dtype=np.int32)],
]
EVEN = np.arange(4 * 3 * 2 * 5, dtype=np.float32).reshape(4, 3, 2, 5)
WORDS = [["a", "bb"], [""], ["ccc", "d", "e"], []]
DOCUMENTS = [[{"a": 1}, [1, 2]], [{}], [], [{"b": [None]}]]
POLYGONS = [
    [[np.arange(6, dtype=np.float32).reshape(3, 2)], []],
    [[np.ones((2, 2), np.float32), np.zeros((4, 2), np.float32)]],
]
IMAGES = [[np.full((4, 5, 3), i * 10 + j, dtype=np.uint8) for j in range(2)] for i in range(3)]


@pytest.fixture(scope="module")
def ds() -> lakebed.Dataset:
    """Sequences of everything."""
    ds = create_on(new_memory())
    with ds:
        ds.create_tensor("ragged", htype="sequence", dtype="int32").extend(RAGGED)
        ds.create_tensor("even", htype="sequence", dtype="float32").extend(EVEN)
        ds.create_tensor("words", htype="sequence[text]").extend(WORDS)
        ds.create_tensor("documents", htype="sequence[json]").extend(DOCUMENTS)
        ds.create_tensor("polygons", htype="sequence[polygon]").extend(POLYGONS)
        ds.create_tensor("images", htype="sequence[image]", sample_compression="png").extend(IMAGES)
        ds.create_tensor("labels", htype="sequence[class_label]", class_names=["x", "y"]).extend(
            [["x", "y"], ["y", "x"]]
        )
    return ds


def equal(found: Any, expected: Any) -> bool:
    """Equal nested lists of arrays."""
    if isinstance(expected, list):
        return isinstance(found, list) and len(found) == len(expected) and all(map(equal, found, expected))
    return np.array_equal(found, expected) and np.shape(found) == np.shape(expected)


def test_rows_and_items(ds: lakebed.Dataset) -> None:
    """A row is the list of its items; an item is a sample."""
    assert len(ds.ragged) == 4
    assert equal(ds.ragged.numpy(aslist=True), RAGGED)
    assert equal(list(ds.ragged.values()), RAGGED)
    for i, row in enumerate(RAGGED):
        assert equal(ds.ragged[i].numpy(aslist=True), row)
        for j, item in enumerate(row):
            assert equal(ds.ragged[i, j].numpy(), item)
            assert equal(ds.ragged[i][j].numpy(), item)
            assert equal(ds.ragged[i, j - len(row)].numpy(), item)
            assert equal(ds.ragged[i, j, 1:].numpy(), item[1:])
            assert ds.ragged[i, j].shape == item.shape
    assert equal(ds.ragged[3, ::-2].numpy(aslist=True), RAGGED[3][::-2])
    assert equal(ds.ragged[[3, 0]].numpy(aslist=True), [RAGGED[3], RAGGED[0]])
    assert equal(ds.ragged[::2].numpy(aslist=True), RAGGED[::2])


def test_what_is_not_there(ds: lakebed.Dataset) -> None:
    """An item beyond the end of its sequence is an IndexError, not an item of the next one."""
    for index in [(0, 2), (0, -3), (1, 0), (4, 0)]:
        with pytest.raises(IndexError):
            ds.ragged[index].numpy()
    with pytest.raises(IndexError):
        ds.ragged[:, 0].numpy(aslist=True)
    assert ds.ragged[0, 2:].numpy(aslist=True) == []
    assert ds.ragged[1].numpy().shape == (0, 0)
    assert ds.ragged[1].numpy(aslist=True) == []


def test_even_sequences_are_arrays(ds: lakebed.Dataset) -> None:
    """Sequences of one length with items of one shape read like one array with two more axes."""
    subscripts: list[Any] = [
        ...,
        0,
        slice(1, 3),
        (0, 1),
        (slice(None), 0),
        (slice(None), -1, 1),
        (slice(0, 3), slice(1, 3)),
        (slice(0, 3), slice(1, 3), 0, slice(1, 4)),
        (2, slice(None), 1),
        (2, 1, 0, 3),
        (slice(None), slice(None), 1),
        (slice(None), slice(0, 1)),
        ([0, 2], [2, 0]),
    ]
    for subscript in subscripts:
        found = ds.even[subscript].numpy()
        expected = (
            EVEN[[0, 2]][:, [2, 0]]
            if isinstance(subscript, tuple) and subscript[0] == [0, 2]
            else EVEN[subscript]
        )
        assert equal(found, expected), subscript
        assert ds.even[subscript].shape == expected.shape, subscript
    assert equal(ds.even[1][1:][0][1].numpy(), EVEN[1][1:][0][1])
    assert ds.even.shapes().tolist() == [[[2, 5]] * 3] * 4


def test_shapes(ds: lakebed.Dataset) -> None:
    """The extents that differ are None; bounds include the number of items."""
    assert ds.ragged.shape == (4, None, None)
    assert ds.ragged[0].shape == (2, None)
    assert ds.ragged[0:2].shape == (2, None, None)
    assert ds.even.shape == (4, 3, 2, 5)
    assert ds.words.shape == (4, None, 1)
    assert ds.images.shape == (3, 2, 4, 5, 3)
    low, high = ds.ragged._selection.interval()
    assert (low, high) == ((4, 0, 1), (4, 3, 7))
    assert [table.tolist() for table in ds.ragged.shapes()] == [
        [list(item.shape) for item in row] for row in RAGGED
    ]


def test_ragged_ones_are_no_array(ds: lakebed.Dataset) -> None:
    for selected in (ds.ragged, ds.ragged[0], ds.ragged[0:1], ds.words):
        with pytest.raises(DynamicTensorNumpyError):
            selected.numpy()


def test_texts_and_documents(ds: lakebed.Dataset) -> None:
    """Items of text and json tensors are Python values; numpy() gives arrays of one item."""
    assert list(ds.words.values()) == WORDS
    assert list(ds.documents.values()) == DOCUMENTS
    assert ds.words[2].text() == WORDS[2]
    assert ds.words[2, 1].text() == "d"
    assert ds.documents[0, 0].dict() == {"a": 1}
    assert ds.words[0].numpy().tolist() == [["a"], ["bb"]]
    assert ds.words[2, 0].numpy().tolist() == ["ccc"]
    assert [[item.tolist() for item in row] for row in ds.words.numpy(aslist=True)] == [
        [[word] for word in row] for row in WORDS
    ]
    assert ds.documents[3, 0].numpy().tolist() == [{"b": [None]}]


def test_polygons_images_and_labels(ds: lakebed.Dataset) -> None:
    assert equal(ds.polygons.numpy(), POLYGONS)
    assert equal(ds.polygons[1, 0].numpy(), POLYGONS[1][0])
    assert equal(ds.images.numpy(), np.array(IMAGES))
    assert equal(ds.images[2].numpy(aslist=True), IMAGES[2])
    assert equal(ds.images[:, 1, 0:2].numpy(), np.array(IMAGES)[:, 1, 0:2])
    assert equal(ds.labels.numpy(), np.array([[[0], [1]], [[1], [0]]], np.uint32))


@pytest.mark.parametrize("kind", [pa.uint16(), pa.float32(), pa.uint64()], ids=str)
def test_items_from_arrow_settle_the_dtype(kind: pa.DataType) -> None:
    """A sequence without a dtype takes that of the Arrow lists, as it takes that of arrays."""
    given = [[[1, 0], [1, 1]], None, [], [[0, 1]]]
    filled = create_on(new_memory()).create_tensor("x", htype="sequence[generic]")
    filled.extend(pa.array(given, type=pa.list_(pa.list_(kind))))
    assert filled.dtype == np.dtype(kind.to_pandas_dtype())
    assert [[item.tolist() for item in row] for row in filled.numpy(aslist=True)] == [
        row or [] for row in given
    ]


@pytest.mark.parametrize("dtype", [None, "int16"])
@pytest.mark.parametrize(
    "given", [[[[]]], [[], [[], []]], [[[]], [[[1, 2]]]], [[[]], None, [[[], []]]]], ids=str
)
def test_empty_items_from_arrow_have_the_axes_of_their_type(dtype: str | None, given: list[Any]) -> None:
    """They can be read before an item with numbers comes, and do not keep one from coming."""
    tensor = create_on(new_memory()).create_tensor("x", htype="sequence[generic]", dtype=dtype)
    tensor.extend(pa.array(given, type=pa.list_(pa.list_(pa.list_(pa.int64())))))
    for found, row in zip(tensor.numpy(aslist=True), given, strict=True):
        items = [
            np.array(item, dtype or "int64").reshape(len(item), -1 if item and item[0] else 0)
            for item in row or []
        ]
        assert equal(found, items)


def test_bytes(ds: lakebed.Dataset) -> None:
    """tobytes() of a row is that of its items, back to back."""
    assert ds.ragged[0].tobytes() == b"".join(item.tobytes() for item in RAGGED[0])
    assert ds.words[0].tobytes() == b"abb"
    with pytest.raises(ValueError, match="exactly 1"):
        ds.ragged.tobytes()


def test_batches(ds: lakebed.Dataset) -> None:
    """Batches count rows; each is the list of its items."""
    for name, expected in (("ragged", RAGGED), ("words", WORDS)):
        for size in (1, 3, 10):
            rows = [row for batch in ds.batches(size, [name]) for row in batch[name]]
            assert equal(rows, expected) if name == "ragged" else rows == expected


@given(st.lists(st.integers(0, 4), max_size=12), st.lists(st.integers(0, 14), max_size=6))
def test_spans(lengths: list[int], rows: list[int]) -> None:
    """Spans of many rows are those of each; rows beyond the end have no items."""
    index = SequenceIndex.from_lengths(lengths)
    spans = Spans(index)
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(int).tolist()
    expected = [(ends[r], ends[r + 1]) if r < len(lengths) else (ends[-1], ends[-1]) for r in rows]
    assert [spans.span(row) for row in rows] == expected
    assert spans.spans(np.array(rows, dtype=np.int64)) == expected


ITEMS = st.one_of(
    st.integers(-6, 6),
    st.builds(slice, st.none() | st.integers(-6, 6), st.none() | st.integers(-6, 6)),
    st.just(...),
)


@given(st.integers(0, 5), st.lists(st.lists(ITEMS, min_size=1, max_size=1).map(tuple), max_size=3))
def test_chains_of_subscripts_pick_like_numpy(count: int, inside: list[tuple[Any, ...]]) -> None:
    """Subscripts one after another go into the items until one of them drops their axis."""
    expected: Any = np.arange(10, 10 + count)
    used = 0
    try:
        for subscript in inside:
            if expected.ndim == 0:
                break
            expected = np.asarray(expected[subscript])
            used += 1
    except IndexError:
        with pytest.raises(IndexError):
            pick(10, 10 + count, tuple(inside))
        return
    found = pick(10, 10 + count, tuple(inside))
    assert list(found.items) == np.atleast_1d(expected).tolist()
    assert found.is_single == (expected.ndim == 0)
    assert found.inside == tuple(inside[used:])
