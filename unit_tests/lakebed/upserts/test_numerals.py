"""Numbers as texts: one for each value, in the order of the values, whatever columns hold of them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lakebed.native import keys as native
from lakebed.upserts.keys import values
from lakebed.upserts.numerals import differing, floors, numbers_of, ordered, spelled
from unit_tests.effort import examples
from unit_tests.lakebed.upserts.numbers import nearby, numbers


def with_exponents_around(power: int) -> list[str]:
    signs = [(sign, up, more) for sign in ("", "-") for up in ("", "-") for more in (0, 1)]
    return [
        f"{sign}{digits}e{up}{power + more}" for sign, up, more in signs for digits in ("1", "1.5", "0.02")
    ]


def texts(*cells: str) -> pa.Array:
    return pa.array(cells, pa.string())


@settings(max_examples=examples(200))
@given(numbers, numbers)
@example("1e-5", "0.00001")
@example("-0", "0e9")
@example("1e40", "1" + "0" * 40)
def test_texts_are_equal_and_go_like_the_numbers(one: str, other: str) -> None:
    first, second = Fraction(one), Fraction(other)
    found, order = spelled(texts(one, other)).to_pylist(), ordered(texts(one, other)).to_pylist()
    assert (found[0] == found[1]) == (first == second)
    assert [Fraction(text) for text in found] == [first, second]
    assert (order[0] < order[1], order[0] == order[1]) == (first < second, first == second)
    assert spelled(texts(*found)).to_pylist() == found


def test_exponents_of_any_length_are_told_apart() -> None:
    # What is true of exponents that Python can raise to is true of all.
    far, near = with_exponents_around(10**30), with_exponents_around(300)
    known = dict(zip([*far, "1e9", "-1e9", "0", "1e-9"], [*near, "1e9", "-1e9", "0", "1e-9"], strict=True))
    found = dict(zip(known, ordered(texts(*known)).to_pylist(), strict=True))
    assert sorted(known, key=lambda text: Fraction(known[text])) == sorted(
        known, key=lambda text: found[text]
    )
    assert len(set(spelled(texts(*known)).to_pylist())) == len(set(found.values())) == len(known)
    same = [f"10e{10**30}", f"0.1e{10**30 + 2}", f"1e{10**30 + 1}", f"1e+00{10**30 + 1}"]
    assert len(set(spelled(texts(*same)).to_pylist())) == len(set(ordered(texts(*same)).to_pylist())) == 1


def test_what_is_no_number_stays_and_has_no_order() -> None:
    others = ["", "-", ".", "e5", "1e", "1e+", "1 ", "0x1", "NaN", "1.2.3", "--1", "é"]
    assert spelled(pa.array([*others, None])).to_pylist() == [*others, None]
    assert ordered(pa.array([*others, None])).null_count == len(others) + 1
    quoted = ['"1.50"', '" 2 "', r'"\u0031\u0032"', '"', '""', "3.0"]
    assert spelled(texts(*quoted), quoted=True).to_pylist() == ["1.5", "2", "12", '"', "", "3"]
    with pytest.raises(ValueError, match="texts"):
        native.numerals(values(pa.array([1])), order=False)


@settings(max_examples=examples(200))
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_cell_stands_for_the_shortest_number_that_becomes_it(number: float) -> None:
    for dtype in (np.float64, np.float32):
        with np.errstate(over="ignore"):
            cell = dtype(number)
        if np.isfinite(cell):
            (text,) = numbers_of(pa.array([cell], pa.from_numpy_dtype(dtype))).to_pylist()
            assert Fraction(text) == Fraction(str(cell))


@settings(max_examples=examples(100))
@given(
    st.lists(nearby, min_size=2, max_size=6),
    st.sampled_from([pa.float64(), pa.float32(), pa.int64(), pa.uint8()]),
)
@example(["1e23", "99999999999999991611392"], pa.float32())
def test_cells_and_texts_go_like_the_numbers(cells: list[str], kind: pa.DataType) -> None:
    held = pa.array([_cell(cell, kind) for cell in cells], kind)
    beside = spelled(texts(*cells))
    apart = set(differing(held, beside).tolist())
    beside = pa.array(
        [text if row in apart else None for row, text in enumerate(beside.to_pylist())], pa.string()
    )
    found = [
        (low is not None, low or 0, text is not None, text or "")
        for low, text in zip(floors(held, beside).to_pylist(), ordered(beside).to_pylist(), strict=True)
    ]
    for one, first in zip(cells, found, strict=True):
        for other, second in zip(cells, found, strict=True):
            assert (first < second, first == second) == (
                Fraction(one) < Fraction(other),
                Fraction(one) == Fraction(other),
            )


def _cell(text: str, kind: pa.DataType) -> float | int | None:
    """Return what a column holds of a number, null for what is beyond it."""
    if pa.types.is_floating(kind):
        with np.errstate(over="ignore"):
            cell = kind.to_pandas_dtype()(float(text))
        return float(cell) if np.isfinite(cell) else None
    number, limits = Fraction(text), np.iinfo(kind.to_pandas_dtype())
    return int(number) if number.denominator == 1 and limits.min <= number <= limits.max else None
