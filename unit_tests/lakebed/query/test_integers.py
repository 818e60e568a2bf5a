"""Integers that meet in arithmetic: exact, or an error; the oracle is Python."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import pytest

import lakebed
from lakebed.errors import QueryError
from lakebed.query.values import integers

SIGNS: dict[str, tuple[np.ufunc, Callable[[int, int], int]]] = {
    "+": (np.add, operator.add),
    "-": (np.subtract, operator.sub),
    "*": (np.multiply, operator.mul),
}
TYPES = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


def interesting(dtype: str, chance: random.Random) -> int:
    """Return a number near an end of a type, near a power of two, or anywhere in it."""
    low, high = (0, 1) if dtype == "bool" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    near = chance.choice([low, high, 0, 1 << chance.randint(0, 63), -(1 << chance.randint(0, 63))])
    value = near + chance.randint(-2, 2) if chance.random() < 0.7 else chance.randint(int(low), int(high))
    return max(int(low), min(int(high), value))


def fits(values: list[int]) -> bool:
    """Whether there is a type of 64 bits for all of these."""
    return (min(values) >= -(2**63) and max(values) < 2**63) or (min(values) >= 0 and max(values) < 2**64)


@pytest.mark.parametrize("sign", SIGNS)
def test_results_are_those_of_python_or_an_error(sign: str) -> None:
    """All pairs of types, a few values at a time, so that narrow and wide results stand in one column and apart."""
    function, exact = SIGNS[sign]
    chance = random.Random(7)
    refused = 0
    for _ in range(3000):
        first, second = chance.choice(TYPES), chance.choice(TYPES)
        count = chance.choice([1, 1, 2, 5])
        a = [interesting(first, chance) for _ in range(count)]
        b = [interesting(second, chance) for _ in range(count)]
        wanted = [exact(x, y) for x, y in zip(a, b, strict=True)]
        try:
            found = integers.computed(function, np.array(a, first), np.array(b, second))
        except QueryError:
            assert not fits(wanted), (sign, first, second, a, b)
            refused += 1
            continue
        assert found.tolist() == wanted, (sign, first, second, a, b)
        assert found.dtype in (np.int64, np.uint64)
    assert refused > 50


def test_remainders_are_those_of_python() -> None:
    """With the sign of the divisor, whatever the types are."""
    chance = random.Random(8)
    for _ in range(3000):
        first, second = chance.choice(TYPES), chance.choice(TYPES[1:])
        a, b = interesting(first, chance), interesting(second, chance) or 3
        found = integers.remainder(np.array([a], first), np.array([b], second))
        assert found.tolist() == [a % b], (first, second, a, b)


@pytest.mark.parametrize("dtype", ["int64", "uint64", "int32", "uint8"])
def test_sums_and_products_are_those_of_python_or_an_error(dtype: str) -> None:
    """Of one sample, of rows of a matrix, and of runs."""
    chance = random.Random(9)
    for _ in range(600):
        samples = [[interesting(dtype, chance) for _ in range(3)] for _ in range(chance.choice([1, 2]))]
        flat, starts = np.array(samples, dtype).reshape(-1), np.arange(len(samples)) * 3
        for of_rows, of_runs, exact in (
            (integers.total, integers.totals, sum),
            (integers.product, integers.products, prod),
        ):
            wanted = [exact(sample) for sample in samples]
            for function, arguments in (
                (of_rows, (flat.reshape(-1, 3), 1)),
                (of_runs, (flat, starts)),
            ):
                try:
                    found = function(*arguments).tolist()
                except QueryError:
                    assert not fits(wanted)
                else:
                    assert found == wanted


@pytest.fixture(scope="module")
def ds() -> Any:
    ds = lakebed.empty("mem://integers")
    ds.create_tensor("i", dtype="int64")
    ds.create_tensor("u", dtype="uint64")
    ds.create_tensor("b", dtype="uint8")
    ds.create_tensor("s", dtype="int8")
    ds.create_tensor("many", dtype="int64")
    ds.create_tensor("js", htype="json")
    with ds:
        for row, (i, u) in enumerate(
            [(2**62 + 1, 2**63 - 3), (-5, 7), (-(2**63), 2**63 + 1), (2**63 - 1, 2**63 - 1)]
        ):
            ds.append(
                {
                    "i": np.int64(i),
                    "u": np.uint64(u),
                    "b": np.uint8(200 + row),
                    "s": np.int8(-128 + row),
                    "many": np.full(row, 2**62, np.int64),
                    "js": {"n": 2**53 + 1 + row},
                }
            )
    return ds


def values(ds: Any, text: str) -> list[Any]:
    return np.asarray(ds.query(f"SELECT {text} AS x").x.numpy()).reshape(-1).tolist()


def test_queries_do_not_round_or_wrap(ds: Any) -> None:
    """What fits int64 or uint64 is exact, and of the type that holds it."""
    assert values(ds[1:3], "i + u") == [2, 1]
    assert values(ds, "u + 1") == [2**63 - 2, 8, 2**63 + 2, 2**63]
    assert values(ds, "u - 1") == [2**63 - 4, 6, 2**63, 2**63 - 2]
    assert ds.query("SELECT u + 1 AS x").x.numpy().dtype == np.uint64
    assert values(ds, "18446744073709551615 - u") == [2**63 + 2, 2**64 - 8, 2**63 - 2, 2**63]
    assert values(ds, "b + b") == [400, 402, 404, 406]
    assert values(ds, "b - 201 * s + s") == [
        200 + 128 * 200,
        201 + 127 * 200,
        202 + 126 * 200,
        203 + 125 * 200,
    ]
    assert values(ds, "b - b * b") == [n - n * n for n in range(200, 204)]
    assert values(ds, "abs(s)") == [128, 127, 126, 125]
    assert values(ds, "-s") == [128, 127, 126, 125]
    assert values(ds, "abs(i)") == [2**62 + 1, 5, 2**63, 2**63 - 1]
    assert values(ds, "u % i") == [(2**63 - 3) % (2**62 + 1), 7 % -5, (2**63 + 1) % -(2**63), 0]
    assert values(ds, "js['n'] + 1") == [2**53 + 2 + n for n in range(4)]
    assert values(ds, "sum(many)")[:2] == [0, 2**62]


@pytest.mark.parametrize(
    "text",
    ["i + i", "i * 3", "u + u + 9223372036854775808", "i - 2", "u - i", "-u", "i * u", "prod(many + 1)"],
)
def test_what_has_more_than_64_bits_is_an_error(ds: Any, text: str) -> None:
    """As in SQL engines; it wrapped around, or was rounded."""
    with pytest.raises(QueryError, match=r"64 bits|64-bit"):
        values(ds, text)
    with pytest.raises(QueryError, match=r"64 bits|64-bit"):
        ds.query(f"SELECT * WHERE {text} > 0")


def test_a_group_that_adds_up_to_more_than_64_bits_is_an_error(ds: Any) -> None:
    """The sum of a group, and of one sample."""
    assert ds[:2].query("SELECT sum(u) AS n, sum(i) AS m GROUP BY true")[0].to_dict() == {
        "n": 2**63 + 4,
        "m": 2**62 - 4,
    }
    with pytest.raises(QueryError, match="64 bits"):
        ds.query("SELECT sum(u) AS n GROUP BY true").n.numpy()
    with pytest.raises(QueryError, match="64 bits"):
        ds.query("SELECT sum(many) AS n GROUP BY true").n.numpy()


def test_missing_values_do_not_count() -> None:
    """What stands in a column where a value is missing is no operand."""
    import pyarrow as pa

    ds = lakebed.empty("mem://missing")
    ds.create_tensor("u", dtype="uint64")
    ds.extend({"u": pa.array([2**64 - 1, None], pa.uint64())})
    assert values(ds[:1], "u - 1") == [2**64 - 2]
    assert ds.query("SELECT u - 1 AS x").x.data()["value"][0] == 2**64 - 2
    assert ds.query("SELECT u - 1 AS x").x.data()["value"][1] is None
