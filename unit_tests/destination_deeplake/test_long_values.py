"""Bytes in base64, arrays of numbers, numbers of any size: the kinds beyond scalars."""

import base64
import json
import textwrap

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from destination_deeplake.columns import Column, Kind, RecordTable
from unit_tests.destination_deeplake.spellings import escaped
from unit_tests.destination_deeplake.tables import batch, fill, record
from unit_tests.effort import examples

Numbers = "float | list[Numbers]"


def cells(column: Column, *texts: str) -> tuple[list[object], list[bool]]:
    """Return values, and whether each is a null with a change."""
    target = RecordTable([column], sync_id=1, generation_id=1)
    fill(target, *(record(f'{{"f":{text}}}') for text in texts))
    taken = batch(target).columns
    taken["f"].validate(full=True)
    assert taken["f"].type == column.arrow_type
    refused = [len(json.loads(meta)["changes"]) == 1 for meta in taken["_airbyte_meta"].to_pylist()]
    return taken["f"].to_pylist(), refused


EXACT, BYTES = Column("f", Kind.EXACT), Column("f", Kind.BYTES)


@pytest.mark.parametrize(
    "digits",
    [
        "12345678901234567890123",
        "1e400",
        "-1E-400",
        "0.10",
        "-0",
        "1.000",
        "3" * 5000,
        "0.1e+5",
        "9" * 30 + ".50",
    ],
)
def test_exact_numbers_keep_their_digits(digits: str) -> None:
    assert cells(EXACT, digits, f'"{digits}"', f'" {digits} "') == ([digits] * 3, [False] * 3)


@pytest.mark.parametrize(
    "text", ['"12,5"', '"1_000"', '""', '"0x1F"', "true", "[1]", "{}", '"1 2"', '"abc"', '"\\ud800"']
)
def test_what_is_no_number_is_refused_by_exact(text: str) -> None:
    assert cells(EXACT, text, "null") == ([None, None], [True, False])


@settings(max_examples=examples(60))
@given(st.binary(max_size=60), st.booleans(), st.booleans(), st.integers(0, 4), st.integers(0, 9))
def test_bytes_come_back_from_every_spelling(
    data: bytes, urlsafe: bool, padded: bool, width: int, seed: int
) -> None:
    text = (base64.urlsafe_b64encode if urlsafe else base64.b64encode)(data).decode()
    text = text if padded else text.rstrip("=")
    text = "\r\n".join(textwrap.wrap(text, 4 * width)) if width else text
    for spelled in (json.dumps(text), json.dumps(text).replace("/", "\\/"), escaped(text, seed)):
        assert cells(BYTES, spelled) == ([data], [False])
        assert cells(BYTES, '"data:image\\/png;charset=x;base64,' + spelled[1:]) == ([data], [False])


@pytest.mark.parametrize(
    "text",
    ["QQ=", "QQ===", "QQ==QQ==", "Q", "QQQQQ", "=", "====", "Q=Q=", "QUI*", "QÜI=", "\u0100UI=", "data:,QUI=",
     "data:base64", "data:;base64;x,QUI=", "data:image/png;base64", "QQ==\x00", "\\", "\\QUI", "QU\\nI="],
)  # fmt: skip
def test_what_is_no_base64_is_refused(text: str) -> None:
    assert cells(BYTES, json.dumps(text), escaped(text, 1)) == ([None, None], [True, True])


def test_only_strings_hold_bytes() -> None:
    assert cells(BYTES, "12", "true", "[1]", "{}", "null") == ([None] * 5, [True] * 4 + [False])
    assert cells(BYTES, '""', '" "', '"data:;base64,"') == ([b""] * 3, [False] * 3)


shapes = st.lists(st.integers(1, 3), min_size=1, max_size=3).map(tuple)
doubles = st.floats(allow_nan=False, allow_infinity=False)


def shape_of(value: object) -> tuple[int, ...] | None:
    """Return the shape of nested lists; None if they have none."""
    if not isinstance(value, list):
        return () if isinstance(value, (int, float)) and not isinstance(value, bool) else None
    inner = {shape_of(item) for item in value}
    if len(inner) != 1 or None in inner:
        return (0,) if not value else None
    (found,) = inner
    return None if found is None else (len(value), *found)


arrays = st.recursive(doubles, lambda inner: st.lists(inner, max_size=3), max_leaves=12)
near = shapes.flatmap(
    lambda shape: st.lists(doubles, min_size=int(np.prod(shape)), max_size=int(np.prod(shape))).map(
        lambda items: np.array(items).reshape(shape).tolist()
    )
)


@settings(max_examples=examples(80))
@given(
    shapes,
    st.lists(st.one_of(arrays, near, near), min_size=1, max_size=6),
    st.sampled_from(["float32", "float64"]),
)
def test_arrays_of_one_shape_become_flat_numbers(
    shape: tuple[int, ...], rows: list[object], dtype: str
) -> None:
    column = Column("f", Kind.FLOATS, shape=shape, dtype=dtype)
    texts = [json.dumps(row, separators=(", ", ":")) for row in rows]
    wanted: list[list[float] | None] = []
    for row in rows:
        with np.errstate(over="ignore"):
            flat = np.array(row).astype(dtype).ravel() if shape_of(row) == shape else None
        wanted.append(flat.tolist() if flat is not None and np.isfinite(flat).all() else None)
    refused = [row is None for row in wanted]
    assert cells(column, *texts) == (wanted, refused)
    assert cells(column, *map(json.dumps, texts)) == (wanted, refused)


FREE = Column("f", Kind.FLOATS)


@pytest.mark.parametrize(
    "text",
    ["[1,null]", "[1,[2]]", "[[1]]", '["1"]', "[true]", "[NaN]", "1", '"1"', "{}", '"[1,2"', '"[1]2"', '"1]"', "[1e39]",
     '"[1,]"', '""', '"{1,2}"', '"[1\\u00002]"'],
)  # fmt: skip
def test_what_is_no_array_of_numbers_is_refused(text: str) -> None:
    if "NaN" in text:
        text = f'"{text}"'
    assert cells(FREE, text, "null", "[]", "[ 1 , -2.5e0\t]") == (
        [None, None, [], [1.0, -2.5]],
        [True] + [False] * 3,
    )


def test_strings_hold_arrays_as_databases_write_them() -> None:
    texts = ['"[1,2,3]"', '" [ 1, 2,\\n 3 ]\\n"', '"[1.0E+000,2e0,3]"', "[1,2,3]"]
    assert cells(FREE, *texts) == ([[1.0, 2.0, 3.0]] * 4, [False] * 4)


def test_nothing_of_a_refused_array_stays() -> None:
    column = Column("f", Kind.FLOATS, shape=(2, 2), dtype="float64")
    values, refused = cells(
        column, "[[1,2],[3,4]]", "[[1,2],[3,4],[5,6]]", "[[1,2],[3,4,5]]", "[[9,8],[7,6]]", "[[1,2]]"
    )
    assert values == [[1.0, 2.0, 3.0, 4.0], None, None, [9.0, 8.0, 7.0, 6.0], None]
    assert refused == [False, True, True, False, True]


def test_the_first_of_several_sizes_may_be_any() -> None:
    column = Column("f", Kind.FLOATS, shape=(0, 2), dtype="float64")
    values, refused = cells(
        column,
        "[]",
        "[[1,2]]",
        '"[[1,2],[3,4],[5,6]]"',
        "[[1,2],[3]]",
        "[1,2]",
        "[[]]",
        "[[1,2,3]]",
        "[[[1,2]]]",
    )
    assert values == [[], [1.0, 2.0], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], None, None, None, None, None]
    assert refused == [False, False, False, True, True, True, True, True]


def test_long_values_grow_over_many_rows() -> None:
    target = RecordTable(
        [Column("v", Kind.FLOATS, shape=(384,)), Column("b", Kind.BYTES)], sync_id=None, generation_id=1
    )
    rng = np.random.default_rng(1)
    vectors = rng.random((600, 384), np.float32)
    blobs = [rng.bytes(n * 7) for n in range(600)]
    for _ in range(2):
        lines = [
            record(json.dumps({"v": vector.tolist(), "b": base64.b64encode(blob).decode()}))
            for vector, blob in zip(vectors, blobs, strict=True)
        ]
        fill(target, *lines)
        nbytes = target.nbytes
        taken = batch(target).columns
        assert np.array_equal(taken["v"].values.to_numpy().reshape(-1, 384), vectors)
        assert taken["b"].to_pylist() == blobs
        assert nbytes == sum(buffer.size for array in taken.values() for buffer in array.buffers() if buffer)


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((), "float32"),
        ((0,), "float32"),
        ((2, 0), "float32"),
        ((2, -1), "float32"),
        ((1,) * 17, "float32"),
        (None, "int8"),
    ],
)
def test_shapes_and_dtypes_are_checked(shape: tuple[int, ...] | None, dtype: str) -> None:
    with pytest.raises(ValueError, match=r"shape|float32"):
        Column("f", Kind.FLOATS, shape=shape, dtype=dtype)


def test_a_column_knows_its_type() -> None:
    assert Column("f", Kind.FLOATS, dtype="float64").arrow_type == pa.list_(pa.float64())
    assert Column(("a", "b"), Kind.EXACT).field == "a.b"
