"""The order of JSON values whose type nobody knows."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakebed.upserts.json_order import sortable

numbers = st.one_of(
    st.integers(),
    st.integers(-20, 20),
    st.floats(allow_nan=False, allow_infinity=False),
    st.decimals(allow_nan=False, allow_infinity=False, places=3),
)
scalars = st.one_of(st.booleans(), numbers, st.text(st.characters(exclude_categories=["Cs"]), max_size=5))


def text_of(value: Any) -> str:
    return str(value) if isinstance(value, Decimal) else json.dumps(value)


def rank(value: Any) -> tuple[int, Any]:
    if isinstance(value, bool):
        return 0, value
    if isinstance(value, str):
        return 2, value
    return 1, Decimal(text_of(value))


@given(scalars, scalars)
def test_texts_go_like_the_values(one: Any, other: Any) -> None:
    first, second = sortable(pa.array([text_of(one), text_of(other)])).to_pylist()
    assert (first < second, first == second) == (rank(one) < rank(other), rank(one) == rank(other))


def test_numbers_that_are_longer_are_not_greater() -> None:
    values = [
        "-1e30",
        "-10",
        "-9.5",
        "-9",
        "-0.1",
        "0",
        "1e-5",
        "0.1",
        "9",
        "10",
        "1e2",
        "12345678901234567891",
        "1e999999999999999999",
        f"1e{10**30}",
    ]
    assert sortable(pa.array(values)).to_pylist() == sorted(sortable(pa.array(values)).to_pylist())
    assert sortable(pa.array(["1.0", "1", "1e0"])).to_pylist() == [sortable(pa.array(["1"]))[0].as_py()] * 3


def test_nulls_stay_and_containers_are_highest() -> None:
    column = pa.ExtensionArray.from_storage(pa.json_(), pa.array([None, "null", '"z"', "[1]", '{"a": 1}']))
    none, null, text, array, thing = sortable(column).to_pylist()
    assert (none, null) == (None, None)
    assert text < array < thing
