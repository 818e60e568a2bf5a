"""JSON as the format writes it, and the values that it adds to JSON."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy
from numpy.typing import NDArray

from lakebed import limits
from lakebed.documents import info, json_style
from lakebed.errors import FormatError, InvalidInputError, LimitError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(), children, max_size=4),
    max_leaves=20,
)


def test_styles() -> None:
    """Meta files are indented and sorted, version files are one line in insertion order; both are ASCII."""
    value = {"b": [1, "ö"], "a": None}
    assert (
        json_style.dump_meta(value)
        == b'{\n    "a": null,\n    "b": [\n        1,\n        "\\u00f6"\n    ]\n}'
    )
    assert json_style.dump_compact(value) == b'{"b": [1, "\\u00f6"], "a": null}'


@given(JSON)
def test_round_trip(value: object) -> None:
    """Both styles read back as the same value."""
    assert json_style.load(json_style.dump_compact(value), "x") == value
    assert json_style.load(json_style.dump_meta(value), "x") == value


def test_reads_any_formatting() -> None:
    """Compact, with a trailing newline, with numbers that JSON has not but 3.x writes."""
    assert json_style.load(b'{"a":[1,NaN]}\n', "x")["a"][0] == 1
    assert math.isnan(json_style.load(b"NaN", "x"))
    assert json_style.load(memoryview(b"[1]"), "x") == [1]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"\xff",
        b"1" * 5000,
        b"nul",
        b"[1] x",
        b"\xef\xbb\xbf{}",
        b"{'a': 1}",
    ],
)
def test_damaged_documents(data: bytes) -> None:
    """Neither length of numbers nor encoding leads to another error."""
    with pytest.raises(FormatError, match="x is"):
        json_style.load(data, "x")


def brackets(depth: int, inside: str = "1") -> bytes:
    return ("[" * depth + inside + "]" * depth).encode()


def test_depth_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brackets count where they nest: not side by side, not in strings however they are escaped."""
    allowed = limits.MAX_JSON_DEPTH
    for fine in (
        brackets(allowed),
        b"[" + b",".join([brackets(allowed - 1)] * 3) + b"]",
        json.dumps(["[" * 1000, '\\"[[' * 1000, "\\" * 3, {"{": "]"}]).encode(),
    ):
        assert json_style.load(fine, "x") == json.loads(fine)
    for deep in (
        brackets(allowed + 1),
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'["\\\\",' + brackets(allowed) + b"]",
    ):
        with pytest.raises(LimitError, match=r"x: .*MAX_JSON_DEPTH") as caught:
            json_style.load(deep, "x")
        assert caught.value.limit == "MAX_JSON_DEPTH"
    monkeypatch.setattr(limits, "MAX_JSON_DEPTH", allowed + 1)
    json_style.load(brackets(allowed + 1), "x")


def test_what_readers_refuse_is_not_written() -> None:
    """An info that is nested too deeply is an error when it is set, not when the dataset is opened."""
    assert json_style.load(json_style.dump_meta(nested(256)), "x") == nested(256)
    # Python's own limit of recursion may come first.
    with pytest.raises((LimitError, InvalidInputError), match=r"MAX_JSON_DEPTH|nested too deeply"):
        json_style.dump_meta(nested(limits.MAX_JSON_DEPTH + 1))


def test_length_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer documents are refused before they are copied."""
    monkeypatch.setattr(limits, "MAX_JSON_BYTES", 10)
    assert json_style.load(b"[1, 2, 34]", "x") == [1, 2, 34]
    with pytest.raises(LimitError, match="MAX_JSON_BYTES"):
        json_style.load(b"[1, 2, 345]", "x")


@given(
    st.recursive(st.text('[]{}"\\', max_size=5), lambda inner: st.lists(inner, max_size=3), max_leaves=40),
    st.sampled_from([1, 2, 7, 1 << 20]),
)
def test_depth_is_that_of_the_value(value: object, piece: int) -> None:
    """The text's depth is measured as the parsed value has it."""

    def depth(value: object) -> int:
        return 1 + max(map(depth, value), default=0) if isinstance(value, list) else 0

    text = json.dumps([value] * 3).encode()  # more brackets than levels, for a closer look
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "_PIECE", piece)
        patch.setattr(limits, "MAX_JSON_DEPTH", 1 + depth(value))
        json_style.check_depth(text, "x")
        patch.setattr(limits, "MAX_JSON_DEPTH", depth(value))
        with pytest.raises(LimitError):
            json_style.check_depth(text, "x")


@given(st.binary(max_size=60))
def test_random_bytes(data: bytes) -> None:
    """Nothing but FormatError comes out."""
    try:
        json_style.decode_custom(json_style.load(data, "x"))
        info.from_bytes(data)
    except FormatError:
        pass


def test_objects_only() -> None:
    """A document that must be an object is no list."""
    assert json_style.load_object(b"{}", "x") == {}
    with pytest.raises(FormatError, match="not a JSON object"):
        json_style.load_object(b"[]", "x")


def nested(depth: int) -> object:
    value: object = 0
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("value", [{1, 2}, object(), nested(100_000), {(1, 2): 3}, {"a": 1, 2: 3}])
def test_values_that_are_no_json(value: object) -> None:
    """The caller learns that it is the value."""
    with pytest.raises(InvalidInputError):
        json_style.dump_meta(json_style.encode_custom(value))


def test_custom_values_are_written_as_deep_lake_does() -> None:
    """format.md 1.5: base64 of C-order bytes, shape, dtype string."""
    array = np.array([[1, 2]], np.float32)
    assert json_style.encode_custom({"a": array, "b": b"\x00\x01", "c": (np.int64(3), np.bool_(True))}) == {
        "a": {"_hub_custom_type": "ndarray", "data": "AACAPwAAAEA=", "shape": [1, 2], "dtype": "<f4"},
        "b": {"_hub_custom_type": "bytes", "data": "AAE="},
        "c": [3, True],
    }
    sample = {"_hub_custom_type": "Sample", "data": "/9j/", "compression": "jpeg"}
    assert json_style.decode_custom([sample]) == [sample]


@given(st_numpy.arrays(st_numpy.scalar_dtypes(), st_numpy.array_shapes(min_dims=0, min_side=0, max_side=3)))
def test_arrays_round_trip(array: NDArray[Any]) -> None:
    """Every dtype, rank and byte order, also through an info file; the copy can be written to."""
    again = info.from_bytes(info.to_bytes({"k": [array, array.tobytes()]}))["k"]
    assert again[0].dtype == array.dtype
    assert again[0].shape == array.shape
    assert again[0].tobytes() == array.tobytes() == again[1]
    assert again[0].flags.writeable


@pytest.mark.parametrize(
    "change",
    [
        {"data": "AAA"},
        {"data": "ä"},
        {"data": 3},
        {"data": None},
        {"shape": [3]},
        {"shape": [-1]},
        {"shape": "1"},
        {"shape": [True]},
        {"shape": None},
        {"shape": [2**62, 2**62]},
        {"shape": [1] * 40},
        {"dtype": "O"},
        {"dtype": "object"},
        {"dtype": "nothing"},
        {"dtype": ["<f4"]},
        {"dtype": "<f4,<f4"},
        {"dtype": "(2,)<f4"},
        {"dtype": "S999999999"},
        {"dtype": ""},
        {"data": "", "shape": [0, 2**40, 2**40]},
        {"data": "", "shape": []},
        {"dtype": "V0"},
        {"dtype": "U0"},
    ],
)
def test_damaged_arrays(change: dict[str, object]) -> None:
    """No member is believed before it fits the others."""
    value = {"_hub_custom_type": "ndarray", "data": "AACAPwAAAEA=", "shape": [1, 2], "dtype": "<f4"}
    assert json_style.decode_custom(value).shape == (1, 2)
    with pytest.raises(FormatError):
        json_style.decode_custom({**value, **change})


def test_arrays_of_objects_are_refused() -> None:
    """They would need pickle."""
    with pytest.raises(InvalidInputError, match="list"):
        json_style.encode_custom(np.array([None, {}], object))


def test_deep_values_are_refused() -> None:
    """Decoding goes no deeper than Python does."""
    with pytest.raises(FormatError):
        json_style.decode_custom(nested(100_000))


def test_info_keeps_plain_members() -> None:
    """An info file is a dict of anything, sorted by key."""
    data = info.to_bytes({"b": 1, "a": {"x": None}})
    assert list(json.loads(data)) == ["a", "b"]
    assert info.from_bytes(data) == {"a": {"x": None}, "b": 1}
    with pytest.raises(FormatError):
        info.from_bytes(b"[]")
