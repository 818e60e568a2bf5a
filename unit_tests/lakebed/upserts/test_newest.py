"""The newest row of each key: cursor, then extraction, then arrival."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.native import keys as native
from lakebed.upserts.keying import Keying
from lakebed.upserts.keys import hash_keys, values
from lakebed.upserts.newest import newest_rows
from unit_tests.effort import examples
from unit_tests.lakebed.upserts.cells import columns, ranks, tables

Table = tuple[list[pa.DataType], list[tuple[Any, ...]]]


@settings(max_examples=examples(40))
@given(tables(most=2), st.data())
def test_the_newest_row_of_each_key_stays(table: Table, data: st.DataObject) -> None:
    kinds, rows = table
    names = data.draw(st.lists(st.integers(0, 4), min_size=len(rows), max_size=len(rows)))
    model: dict[int, int] = {}
    for row, name in enumerate(names):
        if name not in model or ranks(rows[row]) >= ranks(rows[model[name]]):
            model[name] = row
    found = newest_rows(hash_keys([pa.array(names)]), columns(kinds, rows))
    assert found.tolist() == sorted(model.values())


@settings(max_examples=examples(40))
@given(tables(most=2), st.data())
def test_rows_of_two_tables_compare_as_their_values(table: Table, data: st.DataObject) -> None:
    kinds, rows = table
    numbers = st.integers(0, len(rows) - 1)
    pairs = np.array(data.draw(st.lists(st.tuples(numbers, numbers), max_size=20)), np.int64).reshape(-1, 2)
    left = [values(array) for array in columns(kinds, rows)]
    right = [values(array) for array in columns(kinds, rows, before=3)]
    found = native.not_older(left, pairs[:, 0].copy(), right, pairs[:, 1].copy())
    assert found.tolist() == [ranks(rows[i]) >= ranks(rows[j]) for i, j in pairs.tolist()]


def test_texts_go_by_code_point_and_not_by_utf_16() -> None:
    order = [pa.array(["\uffff", "\U0001f600", "z"])]
    assert newest_rows(hash_keys([pa.array([1, 1, 1])]), order).tolist() == [1]


def test_of_equal_rows_the_last_one_counts() -> None:
    assert newest_rows(hash_keys([pa.array(["a", "a", "b", "a"])]), [pa.nulls(4, pa.int64())]).tolist() == [
        2,
        3,
    ]


def test_rows_outside_of_a_table_are_refused() -> None:
    order = [values(pa.array([1, 2]))]
    with pytest.raises(ValueError, match="beyond"):
        native.newest(np.array([0, 5], np.int32), 2, order)
    with pytest.raises(ValueError, match="length"):
        native.newest(np.zeros(3, np.int32), 1, order)
    with pytest.raises(ValueError, match="beyond"):
        native.not_older(order, np.array([2]), order, np.array([0]))
    with pytest.raises(ValueError, match="layouts"):
        native.not_older(order, np.array([0]), [values(pa.array(["x"]))], np.array([0]))
    with pytest.raises(ValueError, match="columns"):
        native.not_older(order, np.array([0]), [*order, *order], np.array([0]))
    with pytest.raises(ValueError, match="incomplete"):
        native.not_older(order, np.array([0]), order, np.array([0, 1]))


def test_a_keying_survives_as_json() -> None:
    keying = Keying(("a", "b"), ("c", "d"), "e", numbers={"a": "x/a"}, called={"a": "A"}, digits=("b",))
    assert Keying.from_info(keying.to_info()) == keying
    assert keying.is_deleted({"e": pa.array([None, ""])}, 2).tolist() == [False, True]
