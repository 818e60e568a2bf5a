"""Keys: equal exactly when their values are, in tables and filters that lose nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakebed.native import keys as native
from lakebed.native.keys import BloomFilter, KeyTable, Values
from lakebed.upserts.keys import KeyFilter, hash_keys
from unit_tests.effort import examples
from unit_tests.lakebed.upserts.cells import column, columns, key, tables


def hashed(*given: pa.Array) -> list[tuple[int, int]]:
    return [(int(a), int(b)) for a, b in hash_keys(given)]


@settings(max_examples=examples(40))
@given(tables(), st.integers(0, 9))
def test_rows_have_the_same_hash_exactly_if_they_are_the_same_key(
    table: tuple[list[pa.DataType], list[tuple[Any, ...]]], before: int
) -> None:
    kinds, rows = table
    found = hashed(*columns(kinds, rows, before))
    assert len(set(found)) == len({key(row) for row in rows})
    assert len(set(zip(found, map(key, rows), strict=True))) == len(set(found))


def test_the_hash_is_the_polynomial_that_its_docstring_names() -> None:
    modulus, points = 2**61 - 1, (12345678901234567, 2**61 - 2)

    def scattered(h: int) -> int:
        for _ in range(2):
            h = (h ^ h >> 32) * 0xD6E8FEB86659FD93 % 2**64
        return h ^ h >> 32

    def expected(words: list[int]) -> tuple[int, ...]:
        found = []
        for point in points:
            h = 1
            for word in words:
                h = (h * point + word) % modulus
            found.append(scattered(h))
        return tuple(found)

    text = "thirteen byte"
    framed = [2**32 + 13, int.from_bytes(b"thirtee", "little"), int.from_bytes(b"n byte", "little")]
    number = [2**32 + (-5) % 2**32, (-5) % 2**64 >> 32]
    given = [column(pa.string(), [text, None]), column(pa.int64(), [-5, 7]), column(pa.bool_(), [True, None])]
    hashes = native.hash_rows([Values(*_described(array)) for array in given], points)
    assert tuple(map(int, hashes[0])) == expected([*framed, *number, 3])
    assert tuple(map(int, hashes[1])) == expected([0, 2**32 + 7, 0, 0])


def _described(array: pa.Array) -> tuple[Any, ...]:
    validity, *others = array.buffers()
    layout = {pa.string(): native.LAYOUT_BYTES, pa.int64(): native.LAYOUT_INT64}.get(array.type)
    offsets, data = others if len(others) == 2 else (None, others[0])
    return native.LAYOUT_BOOL if layout is None else layout, len(array), 0, validity, offsets, data


def test_texts_of_two_columns_do_not_run_together() -> None:
    assert len(set(hashed(pa.array(["ab", "a", "", "abc"]), pa.array(["c", "bc", "abc", ""])))) == 4
    assert len(set(hashed(pa.array(["", None, "\0", "\0" * 7, "\0" * 8])))) == 5


def test_what_reads_the_same_is_the_same_key() -> None:
    assert len(set(hashed(column(pa.float64(), [0.0, -0.0])))) == 1
    assert len(set(hashed(column(pa.float64(), [float("nan"), -float("nan"), float("nan")])))) == 1
    assert hashed(pa.array([7], pa.int32())) == hashed(pa.array([7], pa.int64()))
    assert hashed(pa.array(["x"], pa.large_string())) == hashed(pa.array([b"x"]))


def test_lists_can_be_no_key() -> None:
    with pytest.raises(TypeError, match="list"):
        hash_keys([pa.array([[1]])])
    with pytest.raises(ValueError, match="column"):
        hash_keys([])
    with pytest.raises(ValueError, match="length"):
        hash_keys([pa.array([1]), pa.array([1, 2])])


@pytest.mark.parametrize(
    ("layout", "rows", "offset", "validity", "offsets", "data"),
    [
        (native.LAYOUT_INT64, 2, 0, None, None, bytes(15)),
        (native.LAYOUT_INT64, 1, 1, None, None, bytes(15)),
        (native.LAYOUT_INT64, 1, 0, None, None, None),
        (native.LAYOUT_INT64, 9, 0, b"\xff", None, bytes(72)),
        (native.LAYOUT_BOOL, 9, 0, None, None, b"\0"),
        (native.LAYOUT_BYTES, 1, 0, None, bytes(7), b""),
        (native.LAYOUT_BYTES, 1, 0, None, np.array([0, 2], np.int32), b"x"),
        (native.LAYOUT_BYTES, 1, 0, None, np.array([0, 2], np.int32), None),
        (native.LAYOUT_BYTES, 2, 0, None, np.array([0, 1, 0], np.int32), b"x"),
        (native.LAYOUT_BYTES, 1, 0, None, np.array([-1, 1], np.int32), b"x"),
        (native.LAYOUT_WIDE_BYTES, 1, 0, None, np.array([0, 2**40]), b"x"),
        (native.LAYOUT_INT64, -1, 0, None, None, bytes(8)),
        (native.LAYOUT_INT64, 1, -1, None, None, bytes(8)),
        (native.LAYOUT_INT64, 2**62, 2**62, None, None, bytes(8)),
        (99, 1, 0, None, None, bytes(8)),
    ],
)
def test_buffers_that_end_before_their_rows_are_refused(
    layout: int, rows: int, offset: int, validity: object, offsets: object, data: object
) -> None:
    with pytest.raises(ValueError, match=r"buffer|offsets|layout"):
        Values(layout, rows, offset, validity, offsets, data)


few = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2)), max_size=60)


def as_hashes(pairs: list[tuple[int, int]]) -> np.ndarray[Any, np.dtype[np.uint64]]:
    return np.array(pairs, dtype=np.uint64).reshape(-1, 2)


@given(few, few, few)
def test_a_table_numbers_keys_by_first_appearance(
    first: list[tuple[int, int]], second: list[tuple[int, int]], asked: list[tuple[int, int]]
) -> None:
    table, model = KeyTable(), {}
    for pairs in (first, second):
        for pair in pairs:
            model.setdefault(pair, len(model))
        assert table.insert(as_hashes(pairs)).tolist() == [model[pair] for pair in pairs]
    assert len(table) == len(model)
    assert table.find(as_hashes(asked)).tolist() == [model.get(pair, -1) for pair in asked]


@pytest.mark.parametrize("expected", [0, 1000])
def test_a_table_grows(expected: int) -> None:
    hashes = hash_keys([pa.array(range(5000))])
    table = KeyTable(expected)
    assert table.insert(hashes).tolist() == list(range(5000))
    assert table.find(hashes[::-1].copy()).tolist() == list(range(5000))[::-1]
    assert (table.find(hash_keys([pa.array(range(5000, 9000))])) == -1).all()
    assert table.nbytes < 5000 * 2 * 2 * (16 + 16)


def test_a_table_holds_keys_that_share_a_place_and_a_tag() -> None:
    pairs = [(5, n) for n in range(50)]
    table = KeyTable()
    assert table.insert(as_hashes(pairs)).tolist() == list(range(50))
    assert table.find(as_hashes([*reversed(pairs), (5, 99)])).tolist() == [*reversed(range(50)), -1]


def test_a_filter_never_denies_a_key_and_seldom_claims_one() -> None:
    hashes = hash_keys([pa.array(range(200_000))])
    known = BloomFilter(100_000)
    known.add(hashes[:100_000])
    found = known.may_hold(hashes)
    assert found[:100_000].all()
    assert found[100_000:].mean() < 0.005
    assert known.nbytes <= 200_100


def test_a_filter_of_keys_grows_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KeyFilter, "SMALLEST", 1000)
    hashes = hash_keys([pa.array(range(100_000))])
    known = KeyFilter()
    assert not known.may_hold(hashes).any()
    for first in range(0, 50_000, 700):
        known.add(hashes[first : first + 700])
    assert len(known) == 50_400
    assert known.may_hold(hashes)[:50_000].all()
    assert known.may_hold(hashes)[51_000:].mean() < 0.02
    assert known.nbytes < 4 * 50_000 * 2


def test_words_of_another_shape_are_refused() -> None:
    wrong = np.zeros((3, 3), dtype=np.uint64)
    for refuse in (KeyTable().insert, KeyTable().find, BloomFilter(5).add, BloomFilter(5).may_hold):
        with pytest.raises(ValueError, match="two words"):
            refuse(wrong)
