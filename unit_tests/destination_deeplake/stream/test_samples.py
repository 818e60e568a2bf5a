"""Columns as tensors take them, against plain Python row by row."""

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from destination_deeplake.stream.samples import (
    TOO_LARGE,
    Labels,
    arrays,
    change,
    links,
    scalars,
    with_changes,
)
from destination_deeplake.tensors import LINK, TensorType

ROWS = 12


def slices(rows: list[Any], kind: pa.DataType) -> list[pa.Array]:
    """Return the rows as an array of their own, and as a part of a longer one."""
    padded = pa.array([rows[0], None, *rows, None] if rows else [None, None, None], kind)
    return [pa.array(rows, kind), padded.slice(2, len(rows))]


def generic(dtype: str, shape: tuple[int, ...] | None = None, **more: Any) -> TensorType:
    kind = pa.from_numpy_dtype(np.dtype(dtype))
    for _ in shape or ():
        kind = pa.list_(kind)
    return TensorType("generic", dtype, None, kind, shape=shape, **more)


numbers = st.integers(-(2**63), 2**63 - 1) | st.integers(-70000, 70000)


@given(
    st.lists(st.none() | numbers, max_size=ROWS),
    st.sampled_from(["int8", "uint8", "int16", "uint32", "uint64"]),
)
def test_integers_beyond_their_dtype_become_null_and_are_told(rows: list[int | None], dtype: str) -> None:
    info = np.iinfo(dtype)
    fits = [row if row is None or info.min <= row <= info.max else None for row in rows]
    for array in slices(rows, pa.int64()):
        found = scalars(array, generic(dtype))
        assert found.array.to_pylist() == fits
        assert found.refused.tolist() == [
            i for i, row in enumerate(rows) if row is not None and fits[i] is None
        ]
        assert found.array.type == pa.from_numpy_dtype(np.dtype(dtype))
        found.array.validate(full=True)


@given(
    st.lists(st.none() | st.floats(), max_size=ROWS), st.sampled_from(["float32", "float16"]), st.booleans()
)
def test_floats_beyond_their_dtype_become_null_and_nulls_may_be_nan(
    rows: list[float | None], dtype: str, as_nan: bool
) -> None:
    with np.errstate(over="ignore"):
        cast = np.array([0 if row is None else row for row in rows], np.float64).astype(dtype)
    lost = [row is not None and np.isfinite(row) and np.isinf(cast[i]) for i, row in enumerate(rows)]
    fits = [None if row is None or lost[i] else float(cast[i]) for i, row in enumerate(rows)]
    if as_nan:
        fits = [np.nan if row is None else row for row in fits]
    for array in slices(rows, pa.float64()):
        found = scalars(array, generic(dtype, nulls_as_nan=as_nan))
        assert list(map(repr, map(_plain, found.array.to_pylist()))) == list(map(repr, fits))
        assert found.refused.tolist() == [i for i, is_lost in enumerate(lost) if is_lost]


def _plain(value: Any) -> float | None:
    return None if value is None else float(value)


def test_a_column_that_fits_anyway_is_not_touched() -> None:
    array = pa.array([1, None, 3], pa.int64())
    assert scalars(array, generic("int64")).array is array


cells = st.none() | st.lists(st.integers(-40000, 40000), min_size=6, max_size=6)


@given(st.lists(cells, max_size=ROWS), st.sampled_from([(6,), (2, 3), (1, 6), (3, 2, 1)]))
def test_arrays_of_one_shape_are_nested_and_those_beyond_the_dtype_become_null(
    rows: list[list[int] | None], shape: tuple[int, ...]
) -> None:
    fits = [row is not None and max(map(abs, row)) < 2**15 for row in rows]
    wanted = [np.reshape(row or [], shape).tolist() if fits[i] else None for i, row in enumerate(rows)]
    for array in slices(rows, pa.list_(pa.float32())):
        found = arrays(array, generic("int16", shape))
        found.array.validate(full=True)
        assert found.array.to_pylist() == wanted
        assert found.refused.tolist() == [i for i, row in enumerate(rows) if row is not None and not fits[i]]


boxes = st.none() | st.lists(st.lists(st.integers(-40000, 40000), min_size=4, max_size=4), max_size=3)


@given(st.lists(boxes, max_size=ROWS))
def test_arrays_of_any_number_of_rows_are_nested(rows: list[list[list[int]] | None]) -> None:
    fits = [row is not None and all(abs(side) < 2**15 for box in row for side in box) for row in rows]
    flat = [None if row is None else [side for box in row for side in box] for row in rows]
    for array in slices(flat, pa.list_(pa.float32())):
        found = arrays(array, generic("int16", (0, 4)))
        found.array.validate(full=True)
        assert found.array.to_pylist() == [row if fits[i] else None for i, row in enumerate(rows)]
        assert found.refused.tolist() == [i for i, row in enumerate(rows) if row is not None and not fits[i]]


@given(st.lists(st.none() | st.lists(st.integers(-9, 300), max_size=4), max_size=ROWS))
def test_arrays_of_any_length_keep_theirs(rows: list[list[int] | None]) -> None:
    fits = [row is not None and all(0 <= value < 256 for value in row) for row in rows]
    of_type = TensorType("generic", "uint8", None, pa.list_(pa.uint8()))
    for array in slices(rows, pa.list_(pa.float32())):
        found = arrays(array, of_type)
        found.array.validate(full=True)
        assert found.array.to_pylist() == [row if fits[i] else None for i, row in enumerate(rows)]


def test_missing_arrays_of_one_shape_may_be_nan() -> None:
    found = arrays(
        pa.array([[1.0, 2.0], None], pa.list_(pa.float32())), generic("float32", (2,), nulls_as_nan=True)
    )
    assert repr(found.array.to_pylist()) == "[[1.0, 2.0], [nan, nan]]"
    assert len(found.refused) == 0


@given(st.lists(st.lists(st.none() | st.sampled_from("abcdef"), max_size=6), max_size=4))
def test_labels_get_their_indices_in_order_of_arrival(batches: list[list[str | None]]) -> None:
    labels = Labels(["c"])
    of_type = TensorType("class_label", "unspecified", None, pa.uint32())
    seen = ["c"]
    for rows in batches:
        seen += [name for name in dict.fromkeys(rows) if name is not None and name not in seen]
        for array in slices(rows, pa.string()):
            found = labels.fit(array, of_type).array.to_pylist()
            assert [None if index is None else labels.names[index] for index in found] == rows
    assert labels.names == seen


def test_labels_that_are_numbers_are_indices_and_negative_ones_are_none() -> None:
    found = Labels([]).fit(
        pa.array([3, None, -1]), TensorType("class_label", "unspecified", None, pa.uint32())
    )
    assert found.array.to_pylist() == [3, None, None]
    assert found.refused.tolist() == [2]


@pytest.mark.parametrize("key", [None, "KEY"])
def test_addresses_are_links_and_nothing_else_is(key: str | None) -> None:
    good = [
        "https://e.org/a b.jpg",
        "HTTP://e.org/x?y=z",
        "s3://bucket/key",
        "gs://b/k",
        "az://c/b",
        "file:///a",
    ]
    bad = [
        "/etc/passwd",
        "",
        "javascript://x",
        "https://",
        "https:// x",
        "http://e.org/\nx",
        "x https://e.org",
    ]
    of_type = TensorType("link[image]", "unspecified", None, LINK, creds_key=key)
    for array in slices([*good, None, *bad], pa.string()):
        found = links(array, of_type)
        assert found.array.to_pylist() == [
            *({"path": url, "creds_key": key} for url in good),
            *[None] * (1 + len(bad)),
        ]
        assert found.refused.tolist() == list(range(len(good) + 1, len(good) + 1 + len(bad)))


texts = st.lists(st.sampled_from(["", '{"field":"a","change":"NULLED","reason":"X"}']), max_size=8)


@given(texts, st.lists(st.tuples(st.sets(st.integers(0, 7)), st.text()), max_size=3), st.booleans())
def test_changes_are_added_to_their_rows_and_other_rows_keep_their_text(
    before: list[str], more: list[tuple[set[int], str]], is_part: bool
) -> None:
    metas = [f'{{"sync_id":1,"changes":[{text}]}}' for text in before]
    arrays_of = slices(metas, pa.string())[is_part and bool(metas)]
    meta = pa.ExtensionArray.from_storage(pa.json_(), arrays_of)
    rows = [(np.array(sorted(i for i in hit if i < len(metas)), np.int64), name) for hit, name in more]
    found = with_changes(meta, [(hit, change(name, TOO_LARGE)) for hit, name in rows])
    assert found.type == pa.json_()
    for i, text in enumerate(found.to_pylist()):
        own = json.loads(metas[i])["changes"]
        added = [
            {"field": name, "change": "NULLED", "reason": "DESTINATION_FIELD_SIZE_LIMITATION"}
            for hit, name in rows
            if i in hit
        ]
        assert json.loads(text) == {"sync_id": 1, "changes": own + added}
        assert added or text == metas[i]


def test_a_name_with_half_a_surrogate_pair_has_a_form_in_json() -> None:
    assert json.loads(change("\ud800"))["field"] == "\ud800"
