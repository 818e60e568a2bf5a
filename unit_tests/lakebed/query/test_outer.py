"""Queries inside others that name columns of these."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import lakebed
from lakebed.errors import QueryError
from lakebed.query.binding import outer

PEOPLE = [
    {"id": 1, "name": "ann", "v": 1.0},
    {"id": 2, "name": "bob", "v": 2.0},
    {"id": 3, "name": None, "v": 3.0},
    {"id": 4, "name": "dan", "v": float("nan")},
]
PETS = [
    {"owner": 1, "kind": "cat", "age": 1.0, "who": "ann"},
    {"owner": 1, "kind": "dog", "age": 5.0, "who": "ann"},
    {"owner": 2, "kind": "cat", "age": 3.0, "who": "bob"},
    {"owner": 9, "kind": "cow", "age": 4.0, "who": None},
]


@pytest.fixture(params=["once", "each"])
def shop(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Two datasets; queries are taken apart where they can be, or never."""
    people = lakebed.empty("mem://people", overwrite=True)
    people.create_tensor("id", dtype="int64")
    people.create_tensor("name", htype="text")
    people.create_tensor("v", dtype="float32")
    people.extend({key: [row[key] for row in PEOPLE] for key in PEOPLE[0]})
    pets = lakebed.empty("mem://pets", overwrite=True)
    pets.create_tensor("owner", dtype="int32")
    pets.create_tensor("kind", htype="text")
    pets.create_tensor("age", dtype="float64")
    pets.create_tensor("who", htype="text")
    pets.extend({key: [row[key] for row in PETS] for key in PETS[0]})
    if request.param == "each":
        monkeypatch.setattr(outer, "separated", lambda *_, **__: None)
    yield request.param
    lakebed.delete("mem://people")
    lakebed.delete("mem://pets")


def ids(condition: str) -> list[int]:
    view = lakebed.query(f'SELECT * FROM "mem://people" AS p WHERE {condition}')
    return [int(v) for v in view.id.numpy().ravel()]


PET = 'FROM "mem://pets" AS t WHERE'


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (f"EXISTS (SELECT * {PET} t.owner = p.id)", [1, 2]),
        (f"EXISTS (SELECT * {PET} p.id = owner AND age > 2 AND kind != 'cow')", [1, 2]),
        (f"NOT EXISTS (SELECT * {PET} t.owner = p.id AND t.age > 3)", [2, 3, 4]),
        (f"EXISTS (SELECT * {PET} t.who = p.name)", [1, 2]),
        (f"EXISTS (SELECT * {PET} t.who = p.name AND t.owner = p.id)", [1, 2]),
        (f"EXISTS (SELECT * {PET} t.owner = p.id + 7)", [2]),
        (f"EXISTS (SELECT * {PET} t.owner - 7 = p.id)", [2]),
        (f"EXISTS (SELECT * {PET} t.age > p.v)", [1, 2, 3]),
        (f"EXISTS (SELECT * {PET} t.owner = p.id AND t.age > p.v)", [1, 2]),
        (f"EXISTS (SELECT * {PET} t.owner = p.id AND p.v > 1)", [2]),
        (f"EXISTS (SELECT * {PET} t.owner = id)", [1, 2]),
        (f"EXISTS (SELECT DISTINCT kind {PET} t.owner = id GROUP BY kind)", [1, 2]),
        (f"EXISTS (SELECT kind, count(*) AS n {PET} owner = id GROUP BY kind HAVING count(*) > 1)", []),
        (f"EXISTS (SELECT count(*) AS n {PET} t.owner = p.id)", [1, 2, 3, 4]),
        (f"'dog' IN (SELECT kind {PET} owner = p.id)", [1]),
        (f"v IN (SELECT age {PET} owner = id)", [1]),
        (f"v NOT IN (SELECT age {PET} owner = id)", [2, 3, 4]),
        (f"name IN (SELECT who {PET} t.age >= p.v)", [1, 2]),
        (f"2 IN (SELECT count(*) AS n {PET} t.owner = p.id)", [1]),
        (f"p.v < (SELECT max(age) AS m {PET} t.owner = p.id GROUP BY owner)", [1, 2]),
        (f"(SELECT kind {PET} t.owner = p.id AND age > 2) = 'dog'", [1]),
        (f"(SELECT kind {PET} t.owner = p.id ORDER BY age LIMIT 1) = 'cat'", [1, 2]),
        (f"(SELECT count(*) AS n {PET} t.owner = p.id) = 0", [3, 4]),
        (f"(SELECT count(*) AS n {PET} t.owner = p.id AND age > 2) = 1", [1, 2]),
        (
            "(SELECT kind FROM (SELECT * FROM \"mem://pets\" WHERE age > 2) AS t WHERE t.owner = p.id) = 'dog'",
            [1],
        ),
        (
            f"""EXISTS (SELECT * {PET} t.owner = p.id AND EXISTS
            (SELECT * FROM "mem://pets" AS u WHERE u.kind = t.kind AND u.owner > p.id))""",
            [1],
        ),
        (f"EXISTS (SELECT kind {PET} owner = p.id UNION SELECT kind {PET} age = p.v)", [1, 2, 3]),
        (f"EXISTS (WITH w AS (SELECT * {PET} age > p.v) SELECT * FROM w WHERE owner = p.id)", [1, 2]),
    ],
)
def test_conditions(shop: str, condition: str, expected: list[int]) -> None:
    assert ids(condition) == expected


def test_values_behind_select(shop: str) -> None:
    found = lakebed.query(
        f"""SELECT id, (SELECT count(*) AS n {PET} t.owner = p.id) AS n, (SELECT sum(age) AS s {PET}
        t.owner = p.id GROUP BY t.owner) AS ages, (SELECT kind {PET} t.owner = p.id AND age > 2) AS kind
        FROM "mem://people" AS p ORDER BY id DESC"""
    )
    assert found.n.tolist() == [0, 0, 1, 2]
    assert [None if v is None else v.item() for v in found.ages.values()] == [None, None, 3.0, 6.0]
    assert found.kind.values() == [None, None, "cat", "dog"]


def test_groups_are_compared_with_other_queries(shop: str) -> None:
    found = lakebed.query(
        """SELECT kind[0] AS kind FROM "mem://pets" AS t GROUP BY kind
        HAVING count(*) > (SELECT count(*) AS n FROM "mem://people" WHERE id = t.owner[0] AND v > 1.5)"""
    )
    assert found.kind.values() == ["cat", "dog", "cow"]


@pytest.mark.parametrize(
    ("condition", "kind", "message"),
    [
        (f"EXISTS (SELECT * {PET} t.owner = p.nothing)", "unknown_column", "there is no column 'nothing'"),
        (f"EXISTS (SELECT * {PET} t.nothing = p.id)", "unknown_column", "there is no column 'nothing'"),
        (f"EXISTS (SELECT * {PET} t.owner = q.id)", "unknown_column", "there is no table 'q'"),
        (f"EXISTS (SELECT * {PET} t.kind = p.id AND t.kind > 3)", "type", "cannot be compared with numbers"),
        (f"id IN (SELECT kind, age {PET} t.owner = p.id)", "arity", "one column, not 2"),
        (f"id = (SELECT kind, age {PET} t.owner = p.id)", "arity", "one column, not 2"),
        (
            f"'cat' = (SELECT kind {PET} t.owner = p.id)",
            "arity",
            "row 0: .*one row, not 1 and 2; GROUP BY true",
        ),
    ],
)
def test_errors_say_what_is_wrong(shop: str, condition: str, kind: str, message: str) -> None:
    with pytest.raises(QueryError, match=message) as caught:
        ids(condition)
    assert caught.value.kind == kind


def test_one_row_of_all_is_a_group(shop: str) -> None:
    assert ids('v > (SELECT avg(age) - 1 AS m FROM "mem://pets" GROUP BY true)') == [3]


def test_what_is_asked_of_each_value_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ds = lakebed.empty("mem://outer-many", overwrite=True)
    ds.create_tensor("x", dtype="int64")
    ds.extend({"x": np.arange(4000) % 3})
    asked: list[object] = []
    whole = outer.Inner.with_values
    monkeypatch.setattr(
        outer.Inner, "with_values", lambda self, values: asked.append(values) or whole(self, values)
    )
    text = 'SELECT * FROM "mem://outer-many" AS a WHERE EXISTS (SELECT * FROM "mem://outer-many" AS b WHERE b.x > a.x)'
    assert len(lakebed.query(text)) == 2667
    assert len(asked) == 3
    with pytest.raises(QueryError, match="ran for more than") as caught:
        lakebed.query(text, timeout=0.0)
    assert caught.value.kind == "limit"
    assert len(lakebed.query(text.replace(">", "="))) == 4000
    assert len(asked) == 3
    with pytest.raises(QueryError, match="holds more than"):
        lakebed.query(text.replace(">", "="), max_memory=100)


def test_the_plan_tells_of_it_and_reads_nothing(shop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from lakebed.query.relations.stored import StoredColumn

    monkeypatch.setattr(StoredColumn, "_range", lambda *_: pytest.fail("a sample is read"))
    told = lakebed.explain(f'SELECT * FROM "mem://people" AS p WHERE EXISTS (SELECT * {PET} t.owner = p.id)')
    assert "dataset mem://pets" in told


SHAPES = {
    "exists": "EXISTS (SELECT * {from_} WHERE b.{k} = a.{l} AND b.y > {n})",
    "not exists": "NOT EXISTS (SELECT * {from_} WHERE b.{k} = a.{l} AND b.y > {n})",
    "in": "a.{l} IN (SELECT {k} {from_} WHERE b.z = a.z AND b.y > {n})",
    "count": "(SELECT count(*) AS n {from_} WHERE b.{k} = a.{l} AND b.z = a.z AND b.y > {n}) > 1",
    "max": "(SELECT max(y) AS m {from_} WHERE b.{k} = a.{l} GROUP BY {k}) > {n}",
}


@pytest.mark.parametrize("seed", range(3))
def test_random_queries_are_answered_as_python_answers_them(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    tables = [_rows(chance, size) for size in (chance.randrange(1, 30), chance.randrange(0, 30))]
    names = [f"mem://outer-{seed}-{number}" for number in range(2)]
    held = [_store(name, rows) for name, rows in zip(names, tables, strict=True)]
    assert [len(ds) for ds in held] == [len(rows) for rows in tables]
    for _ in range(12):
        shape = chance.choice(list(SHAPES))
        k, l = chance.choice([("x", "x"), ("f", "f"), ("t", "t"), ("x", "f"), ("r", "x"), ("f", "r")])  # noqa: E741
        n = chance.randrange(5)
        condition = SHAPES[shape].format(from_=f'FROM "{names[1]}" AS b', k=k, l=l, n=n)
        text = f'SELECT * FROM "{names[0]}" AS a WHERE {condition}'
        expected = [i for i, row in enumerate(tables[0]) if _expected(shape, row, tables[1], k, l, n)]
        for way in ("once", "each"):
            with monkeypatch.context() as patched:
                if way == "each":
                    patched.setattr(outer, "separated", lambda *_, **__: None)
                found = lakebed.query(text)
            assert [int(v) for v in found.id.numpy().ravel()] == expected, (way, text)


def _rows(chance: random.Random, size: int) -> list[dict[str, Any]]:
    return [
        {
            "id": number,
            "x": chance.randrange(4),
            "f": chance.choice([0.0, 1.0, 2.5, float("nan"), 3.0]),
            "t": chance.choice([None, "a", "b", "c"]),
            "r": chance.choice([None, 0, 1, 2]),
            "y": chance.randrange(6),
            "z": chance.randrange(2),
        }
        for number in range(size)
    ]


def _store(name: str, rows: list[dict[str, Any]]) -> lakebed.Dataset:
    ds = lakebed.empty(name, overwrite=True)
    for column, dtype in {
        "id": "int64",
        "x": "int32",
        "f": "float64",
        "r": "int16",
        "y": "int64",
        "z": "uint8",
    }.items():
        ds.create_tensor(column, dtype=dtype)
    ds.create_tensor("t", htype="text")
    ds.extend({column: [row[column] for row in rows] for column in ("id", "x", "f", "t", "r", "y", "z")})
    return ds


def _equal(first: Any, second: Any) -> bool:
    return first is not None and second is not None and first == second


def _expected(shape: str, row: dict[str, Any], others: list[dict[str, Any]], k: str, l: str, n: int) -> bool:  # noqa: E741
    if shape == "in":
        return any(b["z"] == row["z"] and b["y"] > n and _equal(b[k], row[l]) for b in others)
    equal = [b for b in others if _equal(b[k], row[l])]
    if shape == "count":
        return sum(b["z"] == row["z"] and b["y"] > n for b in equal) > 1
    if shape == "max":
        return bool(equal) and max(b["y"] for b in equal) > n
    return any(b["y"] > n for b in equal) == (shape == "exists")
