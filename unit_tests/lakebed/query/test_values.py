"""Any value in any place of a query: an answer or an error of queries, and the right answer where numbers are large."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lakebed
from lakebed.errors import QueryError
from unit_tests.effort import IS_SOAK

VALUES = [
    "9223372036854775808", "-9223372036854775808", "9223372036854775807", "1e400", "-1e400", "1e30", "0.5", "-1", "0",
    "true", "'a'", "''", "'2026-01-31'", "null", "ARRAY[]", "ARRAY[1, 2]", "ARRAY[[1, 2], [3, 4]]",
    "ARRAY[9223372036854775807]", "[0, 0, 1, 1]", "js['b']", "?",
]  # fmt: skip
"""What stands in the place of V; the ``?`` is a dictionary."""

COLUMNS = ["b", "i", "u", "f", "t", "r", "box", "k", "js", "js['a']", "at", "m"]
"""What stands in the place of C."""

PLACES = [
    "C == V", "V <= C", "C IN (V, 1)", "C NOT IN (V)", "C BETWEEN V AND 5", "V BETWEEN C AND 5", "C + V > 1",
    "V - C > 1", "C * V > 1", "C / V > 1", "C % V > 1", "V ^ C > 1", "-(V) < C", "NOT V", "V AND C", "C || V == '1'",
    "C[V] == 1", "any(C[V:] == 1)", "C[:, V] == 1", "C['a'] == V", "C LIKE V", "V ILIKE 'a*'", "contains(C, V)",
    "V IS NULL", "clip(C, V, 3) > 1", "greatest(C, V) > 1", "coalesce(C, V) > 1", "nullif(C, V) > 1", "round(C, V) > 1",
    "sum(C, V) > 1", "any(C, V)", "arg_max(C, V) > 1", "median(V) > C", "std(V) == C",
    "CASE WHEN C > 1 THEN V ELSE C END > 2", "CASE C WHEN V THEN 1 END == 1", "if(V, C, 1) == 1",
    "CAST(V AS int) > C", "CAST(C AS int8) > V", "CAST(V AS uint8) > 1", "CAST(V AS bool)", "CAST(V AS text) == C",
    "CAST(V AS json) == C", "CAST(V AS date) > C", "CAST(C AS timestamp) == V", "abs(V) > C", "sign(V) == C",
    "trunc(V) == C", "sqrt(V) == C", "isnan(V)", "power(C, V) == 1", "mod(V, C) == 1", "len(V) == 1", "count(V) == 1",
    "sort(V) == C", "unique(V) == C", "flatten(V) == C", "nonzero(V) == C", "shape(V) == 1", "left(C, V) == 'a'",
    "right(t, V) == 'a'", "substr(t, V) == 'a'", "substr(t, 1, V) == 'a'", "concat(C, V) == 'a'",
    "replace(C, V, 'x') == 'x'", "replace(t, 'a', V) == 'x'", "split(t, V) == 'x'", "strpos(t, V) == 1",
    "starts_with(t, V)", "matches(t, V)", "upper(V) == C", "reverse(V) == C", "has_key(js, V)", "keys(V) IS NULL",
    "values(V) IS NULL", "json_type(V) == 'a'", "max_weight(C: V) > 1", "sum_weight(V: C) > 1", "data(C, V) == C",
    "dot(C, V) > 1", "cosine_similarity(V, C) > 1", "hamming_distance(C, V) > 1", "l2_norm(C - V) > 1",
    "maxsim(C, V) > 1", "iou(C, V) > 1", "normalize(C, V) > 1", "date_diff('day', C, V) > 1",
    "date_diff(V, at, at) > 1",
    "extract(year from V) > 1", "year(C) > V", "week(V) > 1", "date_trunc('month', V) > C", "date_trunc(V, at) > at",
    "date_format(at, V) == 'a'", "date(V) > C", "timestamp(V) > C", "logical_and(C, V)", "sample_info(C) == V",
    "bm25_similarity(t, V) > 1",
]  # fmt: skip

WAYS = [
    "SELECT * WHERE X",
    "SELECT i, X AS x",
    "SELECT * ORDER BY X LIMIT 3",
    "SELECT count(*) AS n GROUP BY X",
]


@pytest.fixture(scope="module")
def ds() -> lakebed.Dataset:
    made = lakebed.empty("mem://query-values", overwrite=True)
    for name, dtype in (
        ("b", "bool"),
        ("i", "int32"),
        ("u", "uint64"),
        ("f", "float32"),
        ("r", "int16"),
        ("m", "uint8"),
    ):
        made.create_tensor(name, dtype=dtype)
    made.create_tensor("t", htype="text")
    made.create_tensor("k", htype="class_label", class_names=["a", "b"])
    made.create_tensor("box", htype="bbox")
    made.create_tensor("js", htype="json")
    made.create_tensor("at", dtype="int64").info["logical_type"] = "timestamp[us]"
    made.extend([row(n) for n in range(7)])
    return made


def row(n: int) -> dict[str, Any]:
    """Return one row; in the fourth, what can be missing is."""
    is_gone = n == 3
    return {
        "b": n % 2 == 0,
        "i": n,
        "u": np.uint64(2**63 + n),
        "f": None if is_gone else np.float32(n / 2),
        "r": np.arange(n, dtype=np.int16),
        "m": np.arange(6, dtype=np.uint8).reshape(2, 3) + n,
        "t": None if is_gone else "ab"[n % 2] * n,
        "k": n % 2,
        "box": np.full((n % 3, 4), n, np.float32),
        "js": {"a": n, "b": 2**70}
        if n == 4
        else {"a": [n, "a"], "b": {"a": None}}
        if n == 5
        else {"a": n, "b": "a"},
        "at": n * 86_400_000_000,
    }


@pytest.mark.parametrize("place", PLACES)
def test_any_value_in_any_place_is_answered_or_an_error_of_queries(ds: lakebed.Dataset, place: str) -> None:
    # Each value in each place at least twice; in a soak, of each column and in each way.
    step = 1 if IS_SOAK else 5
    pairs = [(column, value) for value in VALUES for column in COLUMNS][PLACES.index(place) % step :: step]
    for number, (column, value) in enumerate(pairs):
        told = re.sub(r"\bC\b", column, re.sub(r"\bV\b", value, place))
        for way in WAYS if IS_SOAK else [WAYS[number % len(WAYS)]]:
            ask(ds, way.replace("X", told))


@pytest.mark.parametrize("literal", [2**63, -(2**63), 2**63 - 1, 256, 255, -1, 1, 0, 0.5, 1e30, -1e30])
@pytest.mark.parametrize("sign", ["==", "!=", "<", "<=", ">", ">="])
def test_a_number_of_any_size_is_compared_as_it_is(ds: lakebed.Dataset, sign: str, literal: float) -> None:
    compared: Callable[[Any, Any], Any] = {
        "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge
    }[sign]  # fmt: skip
    for name in ("b", "i", "u"):
        expected = [n for n in range(7) if compared(int(row(n)[name]), literal)]
        for text in (f"{name} {sign} {literal}", f"any({name} {sign} {literal})", f"{name} {sign} ?"):
            found = ds.query(f"SELECT * WHERE {text}", parameters=[literal] * text.count("?"))
            assert list(found.sample_indices) == expected, text


def test_arrays_of_a_query_lose_no_number(ds: lakebed.Dataset) -> None:
    assert ds.query("SELECT ARRAY[1e300, -1] AS x LIMIT 1").x.numpy().ravel().tolist() == [1e300, -1]
    assert ds.query("SELECT ARRAY[0.5, 1e400] AS x LIMIT 1").x.numpy().dtype == np.float32
    for values in ([2**64 - 1, 2**63], [2**53 + 1, -1]):
        assert ds.query("SELECT ? AS x LIMIT 1", parameters=[values]).x.numpy().ravel().tolist() == values


def test_json_of_any_depth_is_an_error_or_an_answer(ds: lakebed.Dataset) -> None:
    for depth in (10, 300, 511, 600, 10_000):
        for form in (
            "CAST('{}' AS json) == 1",
            "any(CAST('{}' AS json) == 1)",
            "CAST('{}' AS json) == js",
            "CAST('{}' AS json)",
        ):
            ask(ds, f"SELECT * WHERE {form.format('[' * depth + '1' + ']' * depth)}")
    with pytest.raises(QueryError, match="nesting") as caught:
        ds.query(f"SELECT CAST('{'[' * 600}' AS json) AS x")
    assert caught.value.kind == "limit"


def test_numbers_too_large_to_count_with_count_all_or_nothing(ds: lakebed.Dataset) -> None:
    for text, expected in (
        ("r[9223372036854775808] IS NULL", list(range(7))),
        ("left(t, 9223372036854775807) == 'aa'", [2]),
        ("right(t, 9223372036854775808) == 'aa'", [2]),
        ("substr(t, 2, 9223372036854775808) == 'a'", [2]),
        ("greatest(i, 9223372036854775807) > 5", list(range(7))),
        ("least(i, -9223372036854775808) < 0", list(range(7))),
        ("9223372036854775808 AND i", [1, 2, 3, 4, 5, 6]),
        ("sign(b) == 1", [0, 2, 4, 6]),
    ):
        assert list(ds.query(f"SELECT * WHERE {text}").sample_indices) == expected, text
    for text in (
        "replace(t, '', 'x') == 'x'",
        "replace(t, 1, 'x') == 'x'",
        "has_key(js, 1)",
        "round(f, 1.5) > 1",
    ):
        with pytest.raises(QueryError) as caught:
            ds.query(f"SELECT * WHERE {text}")
        assert caught.value.kind == "type"


def ask(ds: lakebed.Dataset, text: str) -> None:
    """Answer a query and read all of its values, or see an error of queries."""
    try:
        found = ds.query(text, parameters=[{"a": 1}] * text.count("?"))
        if not isinstance(found, lakebed.Dataset):
            for values in found.tensors.values():
                values.values()
    except QueryError as error:
        if not str(error):
            raise AssertionError(f"{text}: an error without a message") from error
    except Exception as error:
        raise AssertionError(f"{text}: {type(error).__name__}: {error}") from error
