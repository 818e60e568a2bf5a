"""What must hold between the answers of related queries, whatever the data and the query."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import lakebed
from lakebed.documents import chunk_statistics
from lakebed.query.engine.conditions import Condition
from lakebed.query.values import ordering
from unit_tests import effort
from unit_tests.lakebed.query.oracle import Row, Statements, add, made, rows_of
from unit_tests.lakebed.query.test_oracle import agree, column, none, rids

ROWS = 150


@dataclass(frozen=True)
class Data:
    """The same rows in several ways."""

    rows: list[Row]
    ds: lakebed.Dataset
    path: Path
    version: str
    popped: lakebed.Dataset
    shuffled: lakebed.Dataset


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Data]:
    with pytest.MonkeyPatch.context() as patch:
        # Pieces of a few rows, as large datasets have many.
        patch.setattr(chunk_statistics, "PIECE", 8)
        rows = sorted(rows_of(5, ROWS), key=lambda row: (int(row["s"]), int(row["k"])))
        path = tmp_path_factory.mktemp("relations") / "ds"
        ds = made(str(path), rows)
        version = ds.commit()
        popped = made("mem://relations-popped", rows)
        popped.commit()
        add(popped, rows_of(6, 10))
        for _ in range(10):
            popped.pop()
        mixed = list(rows)
        Statements(1).chance.shuffle(mixed)
        yield Data(rows, ds, path, version, popped, made("mem://relations-shuffled", mixed))


def statements(seed: int, count: int) -> Iterator[Statements]:
    say = Statements(seed)
    for _ in range(count):
        yield say


def found(ds: lakebed.Dataset, where: str, more: str = "") -> list[int]:
    return rids(ds.query(f"SELECT * WHERE {where}{more}"))


COUNT = effort.examples(40, soak=2000)


def test_and_or_and_not_are_those_of_sets(data: Data) -> None:
    everything = [int(row["rid"]) for row in data.rows]
    for say in statements(effort.seed() + 1, COUNT):
        a, b = say.condition().tql, say.condition().tql
        first, second = set(found(data.ds, a)), set(found(data.ds, b))
        assert found(data.ds, f"({a}) AND ({b})") == [n for n in everything if n in first & second]
        assert found(data.ds, f"({a}) OR ({b})") == [n for n in everything if n in first | second]
        assert found(data.ds, f"NOT ({a})") == [n for n in everything if n not in first]
        assert found(data.ds, f"CASE WHEN {a} THEN 1 ELSE 0 END == 1") == [
            n for n in everything if n in first
        ]
        parts = [f"SELECT * WHERE {a}", f"SELECT * WHERE {b}"]
        assert set(rids(data.ds.query(" INTERSECT ".join(parts)))) == first & second
        assert set(rids(data.ds.query(" UNION ".join(parts)))) == first | second
        assert set(rids(data.ds.query(" EXCEPT ".join(parts)))) == first - second


def test_the_first_rows_of_an_order_begin_the_whole_order(data: Data) -> None:
    for say in statements(effort.seed() + 2, COUNT):
        where, (order, _, _) = say.condition(1).tql, say.order()
        order = order or " ORDER BY d DESC"
        whole = found(data.ds, where, order)
        for count, skipped in ((1, 0), (5, 0), (7, 4), (ROWS, 1)):
            assert (
                found(data.ds, where, f"{order} LIMIT {count} OFFSET {skipped}")
                == whole[skipped : skipped + count]
            )
        assert sorted(whole) == sorted(found(data.ds, where))


def test_the_way_that_sorts_nothing_finds_what_sorting_finds(
    data: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("i", "s", "u", "d", "rid", "i * d", "rid % 7", "b", "f", "k", "t"):
        for down in ("", " DESC", " DESC NULLS FIRST"):
            for count in (1, 3, 10, 18):
                text = f"SELECT * ORDER BY {name}{down} LIMIT {count}"
                quick = rids(data.ds.query(text))
                with monkeypatch.context() as patch:
                    patch.setattr(ordering, "_best", lambda key, count: None)
                    assert rids(data.ds.query(text)) == quick, text


def test_statistics_change_no_answer(data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    left_out = 0
    left = Condition.left

    def counted(*given: Any) -> Any:
        nonlocal left_out
        told = left(*given)
        left_out += told is not None
        return told

    for say in statements(effort.seed() + 3, COUNT * 2):
        where, (order, _, _), (limit, _) = say.condition().tql, say.order(), say.limit()
        with monkeypatch.context() as patch:
            patch.setattr(Condition, "left", lambda self, relation: None)
            expected = found(data.ds, where, order + limit)
        with monkeypatch.context() as patch:
            patch.setattr(Condition, "left", counted)
            assert found(data.ds, where, order + limit) == expected, where
    assert left_out > COUNT // 8


def test_versions_views_and_other_histories_answer_alike(data: Data) -> None:
    half = [n for n in range(ROWS) if n % 2]
    view = data.ds[5:140][half[:60]]  # a view of a view
    of_view = [int(row["rid"]) for row in [data.rows[5:140][n] for n in half[:60]]]
    for say in statements(effort.seed() + 4, COUNT):
        where, (order, _, _), value = say.condition().tql, say.order(), say.number()
        plain = found(data.ds, where, order)
        version = rids(lakebed.query(f'SELECT * FROM "{data.path}"@{data.version} WHERE {where}{order}'))
        assert version == plain
        assert found(data.popped, where, order) == plain
        assert sorted(found(data.shuffled, where, order)) == sorted(plain)
        wanted = set(plain) & set(of_view)
        assert set(found(view, where)) == wanted
        assert found(view, where, order) == [n for n in plain if n in wanted]
        text = f"SELECT rid, {value.tql} AS x WHERE {where}"
        told = dict(zip(found(data.ds, where), column(data.ds.query(text), "x"), strict=True))
        for other in (data.popped, data.shuffled, view):
            result = other.query(text)
            agree(text, [none(v) for v in column(result, "x")], [none(told[n]) for n in rids(result)])


def test_a_query_of_a_query_is_a_query_of_both(data: Data) -> None:
    for say in statements(effort.seed() + 5, COUNT):
        a, b = say.condition(1).tql, say.condition(1).tql
        both = found(data.ds, f"({a}) AND ({b})")
        assert found(data.ds.query(f"SELECT * WHERE {a}"), b) == both
        assert rids(data.ds.query(f"SELECT * FROM (SELECT * WHERE {a}) AS q WHERE {b}")) == both
        assert rids(data.ds.query(f"WITH q AS (SELECT * WHERE {a}) SELECT * FROM q WHERE {b}")) == both
