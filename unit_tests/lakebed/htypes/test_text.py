"""Text samples (format.md 5.3)."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.codecs.block import Block
from lakebed.errors import FormatError, TensorDtypeMismatchError
from lakebed.htypes.text import decode_text, encode_text
from unit_tests.effort import examples


def texts(block: Block) -> list[str]:
    """Every sample of a block, decoded."""
    at = block.offsets().tolist()
    return [decode_text(block.data[a:b]) for a, b in itertools.pairwise(at)]


@settings(max_examples=examples(60))
@given(st.lists(st.text(max_size=8)))
def test_text_comes_back(values: list[str]) -> None:
    """Any valid Unicode is stored as UTF-8, also as a NumPy array of strings."""
    block = encode_text(values)
    assert block.shapes == (1,)
    assert bytes(block.data) == "".join(values).encode()
    assert texts(block) == values
    assert texts(encode_text(iter(values))) == values


def test_what_counts_as_text() -> None:
    """Numbers become their text as in the 3.x API, arrays of one item their item, None the empty string."""
    values = [
        "a",
        1,
        1.5,
        True,
        None,
        np.array(["b"]),
        np.array("c"),
        np.array([7]),
        np.str_("d"),
        np.int8(3),
        [],
        (),
    ]
    assert texts(encode_text(values)) == ["a", "1", "1.5", "True", "", "b", "c", "7", "d", "3", "", ""]
    assert texts(encode_text(np.array(["x", "yy"]))) == ["x", "yy"]


@pytest.mark.parametrize(
    "value", [b"a", ["a", "b"], {"a": 1}, np.array(["a", "b"]), np.zeros(0), object(), 1j]
)
def test_what_is_no_text_is_refused(value: Any) -> None:
    """3.9.52 stores the empty string for most of these: the value would be lost without a word."""
    with pytest.raises(TensorDtypeMismatchError, match="takes strings"):
        encode_text(["ok", value])


@pytest.mark.parametrize("value", ["\ud800", "a\udfff", "\ud83d\ude00"])
def test_lone_surrogates_are_refused(value: str) -> None:
    """What UTF-8 cannot hold is an error that says so."""
    with pytest.raises(TensorDtypeMismatchError, match="valid Unicode"):
        encode_text([value])


@pytest.mark.parametrize("data", [b"\xff", b"ok\xc3", b"\xed\xa0\x80"])
def test_bytes_that_are_no_utf8_are_damage(data: bytes) -> None:
    """Nothing is replaced silently when stored bytes are no text."""
    with pytest.raises(FormatError, match="UTF-8"):
        decode_text(data)
