"""json and list samples (format.md 1.5, 5.3)."""

from __future__ import annotations

import itertools
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.codecs.block import Block
from lakebed.codecs.sample import Sample
from lakebed.errors import FormatError, LimitError, TensorDtypeMismatchError
from lakebed.htypes.documents import decode_document, encode_json, encode_list, encode_tags
from unit_tests.effort import examples

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4)
VALUES = st.recursive(
    SCALARS,
    lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=3), v, max_size=3),
    max_leaves=8,
)


def stored(block: Block) -> list[bytes]:
    """The bytes of every sample."""
    at = block.offsets().tolist()
    return [bytes(block.data[a:b]) for a, b in itertools.pairwise(at)]


@settings(max_examples=examples(60))
@given(st.lists(VALUES, max_size=4))
def test_json_values_come_back(values: list[Any]) -> None:
    """Any JSON value is stored as Python's json writes it; None is an empty object, as in 3.x."""
    block = encode_json(values)
    assert stored(block) == [b"{}" if v is None else json.dumps(v).encode() for v in values]
    assert [decode_document(s) for s in stored(block)] == [{} if v is None else v for v in values]
    assert block.shapes == (1,)


@settings(max_examples=examples(60))
@given(st.lists(st.none() | st.lists(VALUES, max_size=3) | st.tuples(VALUES), max_size=4))
def test_lists_come_back(values: list[Any]) -> None:
    """A list's shape is its length; tuples are lists and None is an empty one."""
    block = encode_list(values)
    expected = [list(v or []) for v in values]
    assert [decode_document(s) for s in stored(block)] == expected
    assert block.shape_array(1).tolist() == [[len(v)] for v in expected]


def test_arrays_bytes_and_numpy_numbers_inside_json() -> None:
    """Values that JSON lacks are stored as the format's custom objects and come back with dtype and shape."""
    value = {
        "a": [np.arange(6, dtype="<i2").reshape(2, 3)],
        "b": b"\0\xff",
        "c": np.float32(1.5),
        "d": (1, np.int64(2)),
    }
    (raw,) = stored(encode_json([value]))
    text = json.loads(raw)
    assert text["a"][0] == {
        "_hub_custom_type": "ndarray",
        "data": "AAABAAIAAwAEAAUA",
        "shape": [2, 3],
        "dtype": "<i2",
    }
    assert text["b"] == {"_hub_custom_type": "bytes", "data": "AP8="}
    back = decode_document(raw)
    assert back["a"][0].dtype == np.dtype("<i2")
    assert back["a"][0].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert (back["b"], back["c"], back["d"]) == (b"\0\xff", 1.5, [1, 2])


@pytest.mark.parametrize(
    "value",
    [
        {"_hub_custom_type": "ndarray"},
        {"_hub_custom_type": "bytes", "data": 5},
        {"_hub_custom_type": "other", "data": "x"},
        [{"_hub_custom_type": "ndarray", "data": "AA==", "shape": [9], "dtype": "<i4"}],
        {"_hub_custom_type": "ndarray", "data": "", "shape": [], "dtype": "O"},
    ],
)
def test_own_data_that_looks_like_a_custom_value_is_data(value: Any) -> None:
    """A key of the user's that happens to be the format's marker does not make a row unreadable."""
    assert [decode_document(s) for s in stored(encode_json([value]))] == [value]


@pytest.mark.parametrize("value", [{1, 2}, object(), {"a": {1}}, {(1, 2): 3}, np.array([object()]), 1j])
def test_what_has_no_json_form_is_refused(value: Any) -> None:
    """Sets, objects and the like are refused by both htypes."""
    with pytest.raises(TensorDtypeMismatchError):
        encode_json([value])
    with pytest.raises(TensorDtypeMismatchError):
        encode_list([[value]])


@pytest.mark.parametrize("value", ["abc", 5, {"a": 1}, b"x", 1.5])
def test_what_is_no_list_is_refused(value: Any) -> None:
    """A list tensor takes lists, tuples, arrays and None."""
    with pytest.raises(TensorDtypeMismatchError, match="takes lists"):
        encode_list([value])


def test_arrays_are_lists_too() -> None:
    """An array in a list tensor is stored as the nested list that it is."""
    assert stored(encode_list([np.array([[1], [2]])])) == [b"[[1], [2]]"]


def test_values_that_contain_themselves_are_refused() -> None:
    """Endless nesting is an error, not a crash."""
    value: list[Any] = []
    value.append(value)
    with pytest.raises(TensorDtypeMismatchError, match="deep"):
        encode_json([value])


@pytest.mark.parametrize("data", [b"{", b"", b"\xff", b"[" * 100_000, b"nul", b"{'a': 1}"])
def test_stored_bytes_that_are_no_json_are_damage(data: bytes) -> None:
    """Truncated and badly encoded text is a FormatError, endless nesting beyond a limit."""
    with pytest.raises((FormatError, LimitError)):
        decode_document(data)


@settings(max_examples=examples(60))
@given(st.lists(st.none() | st.text(max_size=4) | st.lists(st.text(max_size=4), max_size=3), max_size=4))
def test_tags_come_back(values: list[Any]) -> None:
    """A text is a list of one; None and an empty list are a list of one null, as in 3.9.52."""
    block = encode_tags(values)
    expected = [[v] if v is None or isinstance(v, str) else v or [None] for v in values]
    assert [decode_document(s) for s in stored(block)] == expected
    assert block.shape_array(1).tolist() == [[len(v)] for v in expected]


def test_tags_take_arrays_of_text_and_tuples() -> None:
    """Both mean lists."""
    assert stored(encode_tags([np.array(["a", "b"]), ("c",), np.array("d")])) == [
        b'["a", "b"]',
        b'["c"]',
        b'["d"]',
    ]


def test_files_inside_json_stay_files() -> None:
    """A Sample keeps its bytes and its compression; one made from an array becomes an array."""
    file = Sample(buffer=b"\x89PNG and so on", compression="png")
    (raw,) = stored(encode_json([{"deep": [file], "array": Sample(array=np.arange(3, dtype="u1"))}]))
    assert json.loads(raw)["deep"][0] == {
        "_hub_custom_type": "Sample",
        "data": "iVBORyBhbmQgc28gb24=",
        "compression": "png",
    }
    back = decode_document(raw)
    assert back["array"].tolist() == [0, 1, 2]
    assert isinstance(back["deep"][0], Sample)
    assert (bytes(back["deep"][0].buffer), back["deep"][0].compression) == (b"\x89PNG and so on", "png")


def test_damaged_files_inside_json_are_plain_objects() -> None:
    """What only looks like a Sample is somebody's own data."""
    for text in (
        '{"_hub_custom_type": "Sample", "data": 5}',
        '{"_hub_custom_type": "Sample", "data": "*", "compression": "png"}',
    ):
        assert decode_document(text.encode()) == json.loads(text)


def test_a_schema_is_asked_of_every_value() -> None:
    """Values that do not have it are refused before anything is stored."""
    assert stored(encode_json([{"a": 1}, None], "Dict[str, int]")) == [b'{"a": 1}', b"{}"]
    with pytest.raises(TensorDtypeMismatchError, match="schema"):
        encode_json([{"a": 1}, {"a": "x"}], "Dict[str, int]")
    with pytest.raises(TensorDtypeMismatchError):
        encode_list([["a"]], "List[int]")
