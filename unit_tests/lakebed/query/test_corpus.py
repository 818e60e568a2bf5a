"""The conformance cases: what is core is answered as observed, errors are errors, oddities have the right answer."""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

import lakebed
from lakebed.errors import QueryError
from lakebed.query.functions.function import forget
from lakebed.query.language.lexer import tokens
from unit_tests.lakebed.query import adapter
from unit_tests.lakebed.query.cases import cases, query_of

# Cases that the language, as it is decided, answers otherwise.
DECIDED = {
    "arith-011": "unary minus of an unsigned number is negative; it wrapped around",
    "arith-013": "sums of small integers have 64 bits, as `u + 250` has; u + u wrapped around",
    "array-041": "NONZERO numbers all values, as the reference says; the engine looked at the first column only",
    "func-037": "vectors of unequal length are an error for every row; the engine gave 0 for a zero vector",
    "group-025": "documents in groups stay documents, and empty texts texts; the engine turned them into text and null",
    "index-002": "m[0][1] is the second value of the first row, as in NumPy; the engine read m[1][0]",
    "more-005": "IN asks each value of an array",
    "more-018": "a number in a multi-index drops its axis (ext-027)",
    "order-006": "the second key orders what is equal in the first; the engine ignored it",
    "compare-035": "NOT BETWEEN (ext-007)",
    "func-005": "MEAN (ext-036)",
    "func-013": "COUNT",
    "func-014": "COUNT(*)",
    "func-020": "FLOOR, which every SQL has",
    "func-021": "LOG: to base 10, and LOG(b, x) to base b, as in PostgreSQL and DuckDB; LN is the natural one",
    "func-023": "ARGMAX, NumPy's name of ARG_MAX",
    "func-026": "NORMALIZE (ext-051)",
    "func-027": "an array literal without ARRAY",
    "gaps-019": "a missing value has a place in the order (ext-022)",
    "group-033": "ARRANGE BY (ext-048)",
    "index-008": "steps below zero (ext-024)",
    "index-017": "negative slices (ext-025)",
    "json-035": "comparisons of the items of lists (ext-017)",
    "order-012": "an item that is not there sorts as missing (ext-022)",
    "order-014": "ORDER BY an alias (ext-020)",
    "order-029": "LIMIT PERCENT (ext-045)",
    "order-038": "NULLS LAST (ext-022)",
    "set-021": "WITH (ext-054)",
}

# Cases that are errors here.
REFUSED = {"order-025": "LIMIT below 0; the engine answered no row"}


@pytest.fixture(scope="module")
def sources() -> Iterator[dict[str, Any]]:
    yield adapter.load()
    forget("double_it")
    forget("add_em")


def _asked() -> list[Any]:
    found = [
        c for c in cases() if c["level"] in ("core", "error", "surpass") and c["id"] not in DECIDED | REFUSED
    ]
    return [pytest.param(case, id=case["id"]) for case in found]


@pytest.mark.parametrize("case", _asked())
def test_the_corpus_is_answered(case: dict[str, Any], sources: dict[str, Any]) -> None:
    if case["kind"] == "error":
        with pytest.raises(QueryError) as caught:
            adapter.run(query_of(case))
        assert caught.value.kind == case["expect"]["error"]
        return
    out = adapter.run(query_of(case))
    expect = case["expect"]
    if case["kind"] == "property":
        _check_property(expect, out)
        return
    if case["kind"] == "rows":
        assert [_bare(rid) for rid in out["rid"]] == expect["rid"]
    if "len" in expect:
        assert out["len"] == expect["len"]
    for name, values in expect.get("cols", {}).items():
        found = [_bare(value) for value in out["cols"][name]]
        assert _equal(found, [_bare(value) for value in values]), (name, found)


def _check_property(expect: dict[str, Any], out: dict[str, Any]) -> None:
    assert out["len"] == expect["len"]
    rows = [_bare(rid) for rid in out["rid"]] if out["rid"] else []
    if expect.get("distinct_rows"):
        assert len(set(rows)) == len(rows)
    assert set(rows) <= set(expect.get("subset_of", rows))


def _bare(value: Any) -> Any:
    while isinstance(value, list) and len(value) == 1:
        value = value[0]
    return value


def _equal(found: Any, expected: Any) -> bool:
    if isinstance(expected, dict) and "__row_error__" in expected:
        return True  # where the engines fail, a missing value or a result of broadcasting may stand
    if expected == "nonfinite":
        return isinstance(found, float) and not math.isfinite(found)
    if isinstance(found, bool) or isinstance(expected, bool):
        return found == expected and not isinstance(found, list | str)
    if isinstance(found, int | float) and isinstance(expected, int | float):
        return math.isclose(found, expected, rel_tol=1e-4, abs_tol=1e-5)
    if isinstance(found, list) and isinstance(expected, list):
        return len(found) == len(expected) and all(map(_equal, found, expected))
    return bool(found == expected)


def test_mutated_queries_are_answered_or_raise_errors_of_queries(sources: dict[str, Any]) -> None:
    """Fuzz: whatever words are dropped, added and exchanged, nothing but a QueryError comes out."""
    chance = random.Random(38)
    queries = [words for case in cases() if (words := _words(query_of(case)))]
    known = [word for words in queries for word in words]
    answered = 0
    for _ in range(1500):
        words = list(chance.choice(queries))
        at = chance.randrange(len(words))
        if chance.randrange(2):
            words.insert(at, chance.choice(known))
        else:
            words[at] = chance.choice(known)
        with contextlib.suppress(QueryError):
            found = lakebed.query(" ".join(words), max_memory=1 << 24)
            answered += 1
            if not isinstance(found, lakebed.Dataset):
                for column in found.tensors.values():
                    column.values()
    assert answered > 50


def _words(text: str) -> list[str]:
    try:
        starts = [token.at for token in tokens(text)]
    except QueryError:
        return []
    return [text[a:b] for a, b in pairwise(starts)]


RIGHT = {
    "arith-006": {"y": [3, 4, 0, 1, 2, 3, 4, 0]},
    "func-017": {"y": [1.732051, 3.162278, 4.123106]},
    "text-004": {"rid": [0, 5, 10, 15, 20]},
    "text-026": {"rid": [2, 4, 7, 12, 14, 17, 22]},
    "det-022": {"rid": [9, 13]},
    "select-018": {"camera": ["left", "right"]},
    "select-019": {"rid": [0, 6, 12, 18]},
    "order-017": {"rid": [2, 7, 4, 9, 1, 6, 11, 3, 8, 0, 5, 10]},
    "order-013": {"rid": [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]},
    "group-031": {"rid": [9, 10, 11, 12]},
    "group-029": {"rid": [0, 1, 11, 12, 13], "exp": [0, 1, -1, 0, 1]},
}


@pytest.mark.parametrize("name", RIGHT)
def test_oddities_have_the_right_answer(name: str, sources: dict[str, Any]) -> None:
    case = next(case for case in cases() if case["id"] == name)
    out = adapter.run(query_of(case))
    for column, values in RIGHT[name].items():
        assert _equal([_bare(value) for value in out["cols"][column]], values), out["cols"][column]


@pytest.mark.parametrize("name", DECIDED)
def test_what_is_decided_otherwise_is_answered(name: str, sources: dict[str, Any]) -> None:
    case = next(case for case in cases() if case["id"] == name)
    if case["kind"] == "error":
        assert adapter.run(query_of(case))["len"] >= 0
    else:
        assert adapter.run(query_of(case))["len"] > 0


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_an_error(name: str, sources: dict[str, Any]) -> None:
    with pytest.raises(QueryError):
        adapter.run(query_of(next(case for case in cases() if case["id"] == name)))
