"""Columns of a dataset, window by window."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import lakebed
from lakebed.upserts.windows import taken, whole, windows


def test_labels_are_numbers() -> None:
    """Keys are compared by what is stored, whatever the classes are called; a window has all columns of its rows."""
    ds = lakebed.empty("mem://windows", overwrite=True)
    ds.create_tensor("kind", htype="class_label", class_names=["a", "b"])
    ds.create_tensor("n", dtype="int64")
    ds.extend({"kind": ["b", "a", "b"], "n": np.arange(3)})
    assert whole(ds, "kind").to_pylist() == [1, 0, 1]
    [(first, columns)] = list(windows(ds, ["n", "kind"]))
    assert first == 0
    assert [columns[name].to_pylist() for name in ("n", "kind")] == [[0, 1, 2], [1, 0, 1]]
    assert [columns["n"].to_pylist() for _, columns in windows(ds, ["n"])] == [[0, 1, 2]]


def test_neighbouring_rows_are_taken_without_a_copy() -> None:
    column = pa.array(["a", "bc", "def", "g"])
    neighbours = taken({"t": column}, np.array([1, 2]))["t"]
    assert neighbours.to_pylist() == ["bc", "def"]
    assert neighbours.buffers()[2].address == column.buffers()[2].address
    for rows in ([2, 1], [0, 2, 3], [3], [1, 1], []):
        found = taken({"t": column}, np.array(rows, np.int64))["t"]
        assert found.to_pylist() == [column[row].as_py() for row in rows]
