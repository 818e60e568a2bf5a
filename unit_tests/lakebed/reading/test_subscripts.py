"""The indexing grammar against NumPy: chains of ints, slices, lists and masks, then the inside of samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lakebed
from lakebed.errors import InvalidKeyTypeError
from lakebed.reading.subscripts import Index
from unit_tests.effort import examples

SMALL = settings(max_examples=examples(80))
BOUND = st.none() | st.integers(-12, 12)
SLICES = st.builds(slice, BOUND, BOUND, st.none() | st.integers(-3, 3).filter(bool))


@st.composite
def selectors(draw: st.DrawFn, length: int) -> Any:
    """Something that selects from that many rows, in any of the forms that a user may write."""
    choices: list[st.SearchStrategy[Any]] = [
        SLICES,
        st.lists(st.booleans(), min_size=length, max_size=length),
    ]
    if length:
        row = st.integers(-length, length - 1)
        choices += [row, row.map(np.int32), row.map(np.array), st.lists(row, max_size=6)]
        choices += [st.lists(row, min_size=1).map(np.array), st.lists(row, min_size=2).map(tuple)]
    return draw(st.one_of(choices))


def written(selector: Any) -> Any:
    """The selector inside brackets: a tuple of rows would be one subscript per axis, as in NumPy."""
    return (selector,) if isinstance(selector, tuple) else selector


def picked(array: np.ndarray, selector: Any) -> np.ndarray:
    """What NumPy selects along the first axis; empty lists and tuples select nothing."""
    if isinstance(selector, list | tuple):
        kind = np.bool_ if selector and isinstance(selector[0], bool) else np.int64
        return array[np.array(selector, dtype=kind)]
    return array[selector]


@SMALL
@given(st.integers(0, 10), st.data())
def test_chains_select_what_numpy_selects(length: int, data: st.DataObject) -> None:
    """However often rows are selected from a selection, the row numbers are those of NumPy."""
    index, oracle = Index(), np.arange(length)
    for _ in range(data.draw(st.integers(0, 4))):
        selector = data.draw(selectors(len(oracle)))
        index, oracle = index[written(selector)], picked(oracle, selector)
        if oracle.ndim == 0:
            assert index.is_single
            oracle = oracle.reshape(1)
            break
        assert not index.is_single
    assert np.asarray(index.rows(length)).tolist() == oracle.tolist()


@SMALL
@given(st.data())
def test_samples_are_indexed_like_arrays(data: st.DataObject) -> None:
    """`t[rows, inside...]`, `t[rows][...]` and `t[i][inside]` read what NumPy gives for the stacked array."""
    array = np.arange(5 * 3 * 4).reshape(5, 3, 4)
    tensor = three_dimensional(array)
    row = data.draw(st.integers(-5, 4) | SLICES | st.lists(st.integers(0, 4), min_size=1, max_size=4))
    inner = [data.draw(st.integers(-3, 2) | SLICES), data.draw(st.integers(-4, 3) | SLICES)]
    depth = data.draw(st.integers(0, 2))
    subscript = (row, *inner[:depth])
    expected = array[row]
    for axis, item in enumerate(inner[:depth]):
        lead = 0 if isinstance(row, int) else 1
        dropped = sum(isinstance(i, int) for i in inner[:axis])
        expected = expected[(slice(None),) * (lead + axis - dropped) + (item,)]
    assert np.array_equal(tensor[subscript].numpy(), expected)
    if isinstance(row, int) and depth:
        assert np.array_equal(tensor[row][tuple(inner[:depth])].numpy(), expected)
        assert np.array_equal(tensor[row][inner[0]].numpy(), array[row][inner[0]])


_TENSORS: dict[str, lakebed.Tensor] = {}


def three_dimensional(array: np.ndarray) -> lakebed.Tensor:
    """One tensor for all examples."""
    if "t" not in _TENSORS:
        ds = lakebed.empty("mem://select")
        ds.create_tensor("t")
        ds.extend({"t": array})
        _TENSORS["t"] = ds.t
    return _TENSORS["t"]


@pytest.mark.parametrize(
    "item", [None, "a", 1.5, {}, {1}, b"x", True, np.array([[1]]), np.array([1.5]), object()]
)
def test_what_selects_nothing_is_refused(item: Any) -> None:
    """Keys of other kinds are an InvalidKeyTypeError, which is a TypeError."""
    with pytest.raises(InvalidKeyTypeError):
        Index()[item]
    with pytest.raises(TypeError):
        lakebed.empty("mem://select-refused")[item] if not isinstance(item, str) else Index()[item]


@pytest.mark.parametrize("inner", [None, "a", 1.5, {}])
def test_what_selects_no_part_of_a_sample_is_refused(inner: Any) -> None:
    """The same holds behind the first comma."""
    with pytest.raises(InvalidKeyTypeError):
        Index()[0, inner]


@pytest.mark.parametrize("item", [5, -6, [0, 5], [-6], np.int64(5), 2**70])
def test_rows_that_are_not_there(item: Any) -> None:
    """An int or a list beyond the rows is an IndexError; slices are cut as in Python."""
    with pytest.raises(IndexError):
        Index()[item].rows(5)
    assert list(Index()[3:99].rows(5)) == [3, 4]


def test_masks_must_be_as_long_as_what_they_select_from() -> None:
    """A mask of another length is an IndexError, also in the middle of a chain."""
    assert np.asarray(Index()[2:][[True, False, True]].rows(5)).tolist() == [2, 4]
    with pytest.raises(IndexError, match="3 booleans"):
        Index()[[True, False, True]].rows(5)


def test_ellipsis_means_everything_else() -> None:
    """A leading ellipsis keeps all rows."""
    array = np.arange(5 * 3 * 4).reshape(5, 3, 4)
    tensor = three_dimensional(array)
    assert np.array_equal(tensor[...].numpy(), array)
    assert np.array_equal(tensor[1, ...].numpy(), array[1])
    assert np.array_equal(tensor[..., 0].numpy(), array[..., 0])
    assert np.array_equal(tensor[0:2, ..., 1].numpy(), array[0:2, ..., 1])


def test_one_index_serves_tensors_of_different_lengths() -> None:
    """A chain is resolved against each tensor's own length."""
    index = Index()[::2][-1]
    assert [list(index.rows(n)) for n in (1, 4, 7)] == [[0], [2], [6]]


def test_repr_shows_the_chain() -> None:
    """Indexes print as in 3.x."""
    assert repr(Index()[0:2][1]) == "Index([1])"
    assert repr(Index()[[True, False]]) == "Index([(True, False)])"
    assert repr(Index()[3, 1:2]) == "Index([3, slice(1, 2, None)])"
