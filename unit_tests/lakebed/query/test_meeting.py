"""Values of two columns, where they meet: in joins, IN, EXISTS, unions, CASE and comparisons, against plain Python."""

from __future__ import annotations

import datetime as dt
import itertools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import QueryError
from lakebed.query.values import exact
from unit_tests.effort import IS_SOAK

TIMES = {
    "s": pa.timestamp("s"),
    "ms": pa.timestamp("ms"),
    "us": pa.timestamp("us"),
    "ns": pa.timestamp("ns"),
    "zone": pa.timestamp("us", tz="UTC"),
    "days": pa.date32(),
    "date64": pa.date64(),
    "text": pa.string(),
}
DAYS = [dt.date(2026, 1, 1), dt.date(2026, 2, 1), None, dt.date(2026, 4, 1), dt.date(2026, 2, 1)]

P53, P63 = 1 << 53, 1 << 63
NUMBERS: dict[str, list[Any]] = {
    "int64": [0, 1, -1, P53, P53 + 1, P53 + 2, P63 - 1, -P63, 16777217],
    "uint64": [0, 1, P53, P53 + 1, P63 - 1, P63, P63 + 1, 2 * P63 - 1, 16777216],
    "float64": [
        0.0,
        1.0,
        -1.0,
        0.5,
        0.1,
        float(P53),
        float(P53 + 2),
        float(P63),
        -float(P63),
        float("inf"),
        2e300,
    ],
    "float32": [0.0, 1.0, 0.5, float(np.float32(0.1)), float(P53), 16777216.0, float(P63)],
    "float16": [0.0, 1.0, -1.0, 0.5, 2048.0],
    "int32": [0, 1, -1, 16777217, 16777216],
    "uint8": [0, 1, 255, 2],
    "bool": [True, False, True],
}
LABELS = {
    "pets": (["cat", "dog", "cow"], [0, 1, 2, 1]),
    "farm": (["cow", "pig", "cat"], [0, 1, 2, 0]),
    "names": (None, ["dog", "cow", "", "hen"]),
}


@pytest.fixture(scope="module", autouse=True)
def datasets() -> list[lakebed.Dataset]:
    """Keep the datasets in memory, which FROM finds by their names."""
    made = []
    for name, kind in TIMES.items():
        days = [str(day) if day else None for day in DAYS] if name == "text" else DAYS
        at = pa.array(days) if name == "text" else pa.array(DAYS, pa.date32())
        if name == "ns":
            at = at.cast(pa.timestamp("s"))
        made.append(_dataset(name, pa.table({"id": range(len(DAYS)), "v": at.cast(kind)})))
    for name, values in NUMBERS.items():
        ds = lakebed.empty(f"mem://meet-{name}", overwrite=True)
        ds.create_tensor("id", dtype="int64")
        ds.create_tensor("v", dtype=name)
        ds.extend({"id": np.arange(len(values)), "v": np.array(values, name)})
        made.append(ds)
    for name, (classes, found) in LABELS.items():
        ds = lakebed.empty(f"mem://meet-{name}", overwrite=True)
        ds.create_tensor("id", dtype="int64")
        if classes is None:
            ds.create_tensor("v", htype="text")
        else:
            ds.create_tensor("v", htype="class_label", class_names=classes)
        ds.extend({"id": np.arange(len(found)), "v": found})
        made.append(ds)
    return made


def _dataset(name: str, table: pa.Table) -> lakebed.Dataset:
    return lakebed.from_arrow(f"mem://meet-{name}", table, overwrite=True)


def values(name: str) -> list[Any]:
    """Return what a dataset holds, as Python compares it."""
    if name in TIMES:
        return DAYS
    if name in NUMBERS:
        return NUMBERS[name]
    classes, found = LABELS[name]
    return list(found) if classes is None else [classes[v] for v in found]


PAIRS = [
    *itertools.product(TIMES, TIMES),
    *itertools.product(NUMBERS, NUMBERS),
    *itertools.product(LABELS, LABELS),
]

STATEMENTS: dict[str, str] = {
    "on": "SELECT a.id AS i, b.id AS j FROM {A} JOIN {B} ON a.v = b.v",
    "on, several": "SELECT a.id AS i, b.id AS j FROM {A} JOIN {B} ON a.v = b.v AND true = true",
    "using": "SELECT a.id AS i, b.id AS j FROM {A} JOIN {B} USING (v)",
    "natural": "SELECT i, j FROM (SELECT id AS i, v FROM {A}) AS a1 NATURAL JOIN (SELECT id AS j, v FROM {B}) AS b1",
    "where": "SELECT a.id AS i, b.id AS j FROM {A} CROSS JOIN {B} WHERE a.v = b.v",
    "not": "SELECT a.id AS i, b.id AS j FROM {A} CROSS JOIN {B} WHERE NOT (a.v != b.v) AND b.v IS NOT NULL "
    "AND a.v IS NOT NULL",
    "between": "SELECT a.id AS i, b.id AS j FROM {A} CROSS JOIN {B} WHERE a.v BETWEEN b.v AND b.v",
    "in list": "SELECT a.id AS i, b.id AS j FROM {A} CROSS JOIN {B} WHERE a.v IN (b.v)",
    "case": "SELECT a.id AS i, b.id AS j FROM {A} CROSS JOIN {B} WHERE CASE a.v WHEN b.v THEN true ELSE false END",
    "nullif": "SELECT a.id AS i, b.id AS j FROM {A} CROSS JOIN {B} WHERE NULLIF(a.v, b.v) IS NULL AND a.v IS NOT NULL",
    "in select": "SELECT a.id AS i FROM {A} WHERE a.v IN (SELECT v FROM {B})",
    "in select, each": "SELECT a.id AS i FROM {A} WHERE a.v IN (SELECT b.v FROM {B} WHERE b.id >= a.id - 100)",
    "in select, once": "SELECT a.id AS i FROM {A} WHERE a.v IN (SELECT b.v FROM {B} WHERE b.id * 0 = a.id * 0)",
    "exists": "SELECT a.id AS i FROM {A} WHERE EXISTS (SELECT * FROM {B} WHERE b.v = a.v)",
    "exists, each": "SELECT a.id AS i FROM {A} WHERE EXISTS (SELECT * FROM {B} WHERE b.v = a.v AND b.id >= a.id - 100)",
}


@pytest.mark.parametrize("statement", STATEMENTS)
def test_equal_values_meet_whatever_holds_them(statement: str) -> None:
    text = STATEMENTS[statement]
    # Each pair meets in every fifth statement; in a soak in all of them.
    for left, right in PAIRS if IS_SOAK else PAIRS[list(STATEMENTS).index(statement) % 5 :: 5]:
        if statement == "between" and left != right and left in LABELS and "names" not in (left, right):
            continue  # classes of two lists have no order
        asked = text.format(A=f'"mem://meet-{left}" AS a', B=f'"mem://meet-{right}" AS b')
        found = lakebed.query(asked)
        got = [tuple(int(np.asarray(v).reshape(())) for v in row.values()) for row in found.rows()]
        met = [
            (i, j)
            for i, a in enumerate(values(left))
            for j, b in enumerate(values(right))
            if a is not None and b is not None and a == b and a != ""
        ]
        if left == right and left in ("names", "text"):  # a missing text equals the empty one in some clauses
            got = [pair for pair in got if pair[0] != 2]
        expected: list[tuple[int, ...]] = list(met)
        if len(found.tensors) == 1:
            expected = [(i,) for i in sorted({i for i, _ in met})]
        assert sorted(got) == expected, (left, right, asked)


@pytest.mark.parametrize("sign", ["<", "<=", ">", ">=", "=", "!="])
def test_columns_have_the_order_of_python(sign: str) -> None:
    told: Callable[[Any, Any], Any] = {
        "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq, "!=": operator.ne,
    }[sign]  # fmt: skip
    pairs = [*itertools.product(NUMBERS, NUMBERS), *itertools.product(TIMES, TIMES)]
    for left, right in pairs if IS_SOAK else pairs[("<", "<=", ">", ">=", "=", "!=").index(sign) % 2 :: 2]:
        found = lakebed.query(
            f'SELECT a.id AS i, b.id AS j FROM "mem://meet-{left}" AS a CROSS JOIN "mem://meet-{right}" AS b '
            f"WHERE a.v {sign} b.v"
        )
        expected = [
            (i, j)
            for i, a in enumerate(values(left))
            for j, b in enumerate(values(right))
            if a is not None and b is not None and told(a, b)
        ]
        got = [
            (int(i), int(j)) for i, j in zip(found.i.numpy().ravel(), found.j.numpy().ravel(), strict=True)
        ]
        if (left, right) == ("text", "text"):  # a missing text equals the empty one
            got = [pair for pair in got if pair != (2, 2)]
        assert got == expected, (left, right)


@pytest.mark.parametrize("dtype", ["int64", "uint64", "float64", "float32"])
@pytest.mark.parametrize(
    "value", [P53, P53 + 1, float(P53), float(P63), P63 - 1, -P63, 16777217, 2**70, -(2**70), 0.5]
)
def test_numbers_of_a_query_are_not_rounded(dtype: str, value: Any) -> None:
    ds = lakebed.load(f"mem://meet-{dtype}")
    for sign, told in (("=", operator.eq), ("<", operator.lt), (">=", operator.ge), ("!=", operator.ne)):
        for text in (f"SELECT * WHERE v {sign} ?", f"SELECT * WHERE NOT (NOT (v {sign} ?))"):
            found = [int(i) for i in ds.query(text, parameters=[value]).id.numpy().ravel()]
            assert found == [i for i, v in enumerate(NUMBERS[dtype]) if told(v, value)], (text, value)
    found = [int(i) for i in ds.query("SELECT * WHERE v IN (?)", parameters=[[value]]).id.numpy().ravel()]
    assert found == [i for i, v in enumerate(NUMBERS[dtype]) if v == value]


def test_numbers_side_by_side_are_not_rounded() -> None:
    kinds = {name: np.array(some, name) for name, some in NUMBERS.items()}
    signs = [operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge]
    for (left, a), (right, b) in itertools.product(kinds.items(), kinds.items()):
        if "bool" in (left, right):
            continue
        for function in signs:
            if exact.may_round(a[:, None], b[None]):
                got = exact.compared(function, a[:, None], b[None])
            else:
                got = function(a[:, None], b[None])
            assert got.tolist() == [[function(x, y) for y in b.tolist()] for x in a.tolist()], (left, right)
        found, known = exact.represented(a, b.dtype)
        same = [x == y for x, y in zip(found.tolist(), a.tolist(), strict=True)]
        assert known.tolist() == same or (known <= np.array(same)).all()
        assert all(k or x not in b.tolist() for k, x in zip(known.tolist(), a.tolist(), strict=True))
    nan = np.array([np.nan])
    for function in signs:
        assert exact.compared(function, nan, np.array([P53])).tolist() == [function(np.nan, 1)]
        assert exact.compared(function, np.array([P53]), nan).tolist() == [function(1, np.nan)]


@pytest.mark.parametrize(
    ("left", "right"),
    # Each unit meets every second one from either side.
    [pair for pair in itertools.product(TIMES, TIMES) if "text" not in pair][:: 1 if IS_SOAK else 2],
)
def test_dates_of_two_units_make_one_column(left: str, right: str) -> None:
    a, b = f'"mem://meet-{left}"', f'"mem://meet-{right}"'
    expected = [str(day) if day else None for day in DAYS]

    def days(text: str, column: str = "v") -> list[Any]:
        found = lakebed.query(f"SELECT id, CAST(v AS text) AS {column} FROM ({text})")
        return [v and v[:10] for v in found.to_arrow()[column].to_pylist()]

    assert days(f"SELECT id, v FROM {a} UNION ALL SELECT id, v FROM {b}") == expected * 2
    different = lakebed.query(f"SELECT DISTINCT v FROM (SELECT v FROM {a} UNION ALL SELECT v FROM {b})")
    assert len(different) == 4
    both = f"FROM {a} AS a JOIN {b} AS b ON a.id = b.id"
    for expression in (
        "CASE WHEN a.id > 1 THEN a.v ELSE b.v END",
        "IF(a.id > 1, a.v, b.v)",
        "COALESCE(IF(a.id > 1, a.v, null), b.v)",
        "IFNULL(IF(a.id > 1, a.v, null), b.v)",
        "GREATEST(a.v, b.v)",
        "LEAST(a.v, b.v)",
    ):
        assert days(f"SELECT a.id AS id, {expression} AS v {both}") == expected, expression
    apart = lakebed.query(f"SELECT a.v - b.v AS apart {both} WHERE a.v IS NOT NULL")
    assert apart.apart.numpy().ravel().tolist() == [0, 0, 0, 0]
    later = lakebed.query(f"SELECT a.id AS id {both} WHERE COALESCE(a.v, b.v) > '2026-02-01'")
    assert later.id.numpy().ravel().tolist() == [3]


def test_moments_are_told_apart_to_the_nanosecond() -> None:
    moments = np.array(["2026-01-01T00:00:00.123456789", "2026-01-01T00:00:00.123456000"], "datetime64[ns]")
    ds = _dataset("fine", pa.table({"id": [0, 1], "v": moments}))
    coarse = _dataset("coarse", pa.table({"id": [0], "v": moments[1:].astype("datetime64[us]")}))
    assert len(coarse) == 1
    found = ds.query('SELECT * WHERE v IN (SELECT v FROM "mem://meet-coarse")')
    assert found.id.numpy().ravel().tolist() == [1]
    assert ds.query("SELECT * WHERE v == '2026-01-01 00:00:00.123456'").id.numpy().ravel().tolist() == [1]
    far = _dataset("far", pa.table({"id": [0], "v": pa.array([dt.date(4000, 1, 1)], pa.date32())}))
    assert len(far) == 1
    with pytest.raises(QueryError, match="nanoseconds"):
        ds.query('SELECT * WHERE v IN (SELECT v FROM "mem://meet-far")')


def test_times_of_different_kinds_do_not_meet() -> None:
    columns = {
        "at": pa.array([1, 2], pa.timestamp("s")),
        "took": pa.array([1, 2], pa.duration("ms")),
        "more": pa.array([1000, 2], pa.duration("us")),
    }
    ds = _dataset("kinds", pa.table(columns))
    with pytest.raises(QueryError, match=r"a duration and a moment .*column 19"):
        ds.query("SELECT * WHERE at = took")
    assert len(ds.query("SELECT * WHERE took = more")) == 1
    assert ds.query("SELECT took + more AS x").x.numpy().ravel().tolist() == [2000, 2002]


def test_classes_of_two_lists_make_one_column() -> None:
    pets, farm, names = (f'"mem://meet-{name}"' for name in LABELS)
    found = lakebed.query(f"SELECT v FROM {pets} UNION ALL SELECT v FROM {farm}")
    assert found.v.data()["text"] == [*values("pets"), *values("farm")]
    assert found.v.class_names == ["cat", "dog", "cow", "pig"]
    assert (
        len(lakebed.query(f"SELECT DISTINCT v FROM (SELECT v FROM {pets} UNION ALL SELECT v FROM {farm})"))
        == 4
    )
    assert (
        len(
            lakebed.query(
                f"SELECT v FROM (SELECT v FROM {pets} UNION ALL SELECT v FROM {farm}) WHERE v = 'pig'"
            )
        )
        == 1
    )
    both = f"FROM {pets} AS a JOIN {farm} AS b ON a.id = b.id"
    chosen = lakebed.query(f"SELECT CASE WHEN a.id > 1 THEN a.v ELSE b.v END AS v {both}")
    assert chosen.v.data()["text"] == ["cow", "pig", "cow", "dog"]
    texts = lakebed.query(f"SELECT IF(a.id > 1, a.v, 'none') AS v {both}")
    assert texts.v.text() == ["none", "none", "cow", "dog"]
    mixed = lakebed.query(
        f"SELECT COALESCE(NULLIF(b.v, ''), a.v) AS v FROM {pets} AS a JOIN {names} AS b ON a.id = b.id"
    )
    assert mixed.v.text() == ["dog", "cow", "cow", "hen"]
    with pytest.raises(QueryError, match="no common order"):
        lakebed.query(f"SELECT a.id AS i {both} WHERE a.v < b.v")
    assert len(lakebed.query(f"SELECT * FROM {pets} WHERE v == (SELECT v FROM {names} WHERE id = 3)")) == 0
    assert len(lakebed.query(f"SELECT * FROM {pets} WHERE v == (SELECT v FROM {names} WHERE id = 0)")) == 2


def test_integers_of_two_dtypes_make_one_column() -> None:
    def united(left: str, right: str, where: str = "true") -> list[Any]:
        text = f'SELECT v FROM "mem://meet-{left}" UNION ALL SELECT v FROM "mem://meet-{right}" WHERE {where}'
        return [int(v) for v in lakebed.query(text).v.numpy().ravel()]

    small = [v for v in NUMBERS["uint64"] if v < P63]
    assert united("int64", "uint64", "v < 9000000000000000000 OR v = 9223372036854775807") == [
        *NUMBERS["int64"],
        *small,
    ]
    assert united("uint8", "uint64") == [*NUMBERS["uint8"], *NUMBERS["uint64"]]
    with pytest.raises(QueryError, match="CAST"):
        united("int64", "uint64")
    greatest = lakebed.query(
        'SELECT GREATEST(a.v, b.v) AS v FROM "mem://meet-int64" AS a JOIN "mem://meet-int64" AS b ON a.id = b.id'
    )
    assert greatest.v.numpy().ravel().tolist() == NUMBERS["int64"]


def test_texts_and_arrays_do_not_meet() -> None:
    ds = _dataset("bytes", pa.table({"b": pa.array([b"abc", b"x"]), "t": ["abc", "x"]}))
    for text in ("SELECT * WHERE b == t", "SELECT * WHERE t == b", "SELECT * WHERE t IN (b)"):
        with pytest.raises(QueryError, match="b holds numbers, and t text"):
            ds.query(text)


def test_array_literals_have_all_their_digits() -> None:
    ds = lakebed.empty("mem://meet-arrays", overwrite=True)
    ds.create_tensor("d", dtype="float64")
    ds.create_tensor("f", dtype="float32")
    ds.extend({"d": np.array([[0.1, 0.2], [0.5, 1.0]]), "f": np.array([[0.1, 0.2], [0.5, 1.0]], np.float32)})
    for text in (
        "d == ARRAY[0.1, 0.2]",
        "f == [0.1, 0.2]",
        "d IN (ARRAY[0.1, 0.2])",
        "CASE d WHEN [0.1, 0.2] THEN true END",
    ):
        assert len(ds.query(f"SELECT * WHERE {text}")) == 1, text
    assert len(ds.query("SELECT * WHERE d == ?", parameters=[[0.1, 0.2]])) == 1
    assert ds.query("SELECT f + [0.1, 0.2] AS x").x.numpy().dtype == np.float32
