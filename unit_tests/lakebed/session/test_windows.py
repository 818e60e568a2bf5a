"""Windows of rows that others read: all rows once, cut where chunks end."""

from __future__ import annotations

import numpy as np
import pytest

import lakebed
from lakebed.session.windows import bytes_of_row, has_arrays, windows


@pytest.fixture(scope="module")
def ds() -> lakebed.Dataset:
    """Ten chunks of 100 rows in ``x``."""
    ds = lakebed.empty("mem://windows", overwrite=True)
    ds.create_tensor("x", dtype="float64", max_chunk_size=100 * 1000 * 8)
    ds.create_tensor("maybe", dtype="float64")
    ds.create_tensor("n", dtype="int64")
    ds.create_tensor("text", htype="text")
    for start in range(0, 1000, 100):
        values = np.zeros((100, 1000))
        null = [None if start == 500 else np.ones(3)] * 100
        ds.extend({"x": values, "maybe": null, "n": np.arange(100), "text": ["text"] * 100})
    return ds


@pytest.mark.parametrize("count", [1, 2, 3, 7, 10, 13, 999, 1000, 5000])
def test_every_row_is_in_one_window(ds: lakebed.Dataset, count: int) -> None:
    for view in (ds, ds[37:911], ds[::-3], ds[[5, 1, 900]], ds[:0]):
        table = view._table()
        found = windows(table, count)
        assert [row for start, stop in found for row in range(start, stop)] == list(range(len(table)))
        assert len(found) <= 2 * count


def test_windows_end_where_chunks_do(ds: lakebed.Dataset) -> None:
    table = ds._table(["x"])
    ends = set((table.state("x").table.ids.last + 1).tolist())
    assert len(ends) >= 10
    assert {stop for _, stop in windows(table, 3)[:-1]} <= ends
    assert {stop + 37 for _, stop in windows(table[37:911], 3)[:-1]} <= ends


def test_what_are_arrays_and_how_large_rows_are(ds: lakebed.Dataset) -> None:
    table = ds._table()
    assert [name for name in table.names if has_arrays(table, name)] == ["x"]
    assert 8000 < bytes_of_row(table) < 8600
