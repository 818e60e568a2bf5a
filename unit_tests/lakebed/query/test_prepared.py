"""Prepared queries: read and checked once, answered for values as often as they are given."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import QueryError, QuerySyntaxError
from lakebed.query.language import parser


@pytest.fixture
def ds() -> lakebed.Dataset:
    made = lakebed.empty("mem://prepared", overwrite=True)
    made.create_tensor("x", dtype="int64")
    made.create_tensor("v", dtype="float32")
    made.create_tensor("name", htype="text")
    made.create_tensor("kind", htype="class_label", class_names=["cat", "dog"])
    made.extend(
        {
            "x": np.arange(10),
            "v": np.arange(20, dtype=np.float32).reshape(10, 2),
            "name": [f"n{i}" if i % 5 else None for i in range(10)],
            "kind": np.arange(10) % 2,
        }
    )
    return made


def xs(view: Any) -> list[int]:
    return [int(v) for v in view.x.numpy().ravel()]


def test_it_is_read_once_and_answered_often(ds: lakebed.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = ds.prepare("SELECT * WHERE kind == ? AND x > ? ORDER BY x DESC LIMIT ?")
    assert prepared.count == 3
    monkeypatch.setattr(parser, "_words", None)  # reading another query would fail
    assert xs(prepared.run("dog", 2, 2)) == [9, 7]
    assert xs(prepared.run("cat", 6, 9)) == [8]
    assert [xs(found) for found in prepared.run_many([["dog", 7, 5], ("cat", -1, 1)])] == [[9], [8]]
    assert prepared.run_many([]) == []


def test_runs_follow_the_dataset(ds: lakebed.Dataset) -> None:
    prepared = ds.prepare("SELECT x, name WHERE x >= ?")
    assert xs(prepared.run(8)) == [8, 9]
    ds.append({"x": 30, "v": np.zeros(2, np.float32), "name": "new", "kind": 0})
    assert xs(prepared.run(8)) == [8, 9, 30]
    ds.pop(9)
    assert xs(prepared.run(8)) == [8, 30]
    of_rows = ds[:3].prepare("SELECT * WHERE x >= ?")
    assert xs(of_rows.run(1)) == [1, 2]


def test_a_schema_that_changes_is_looked_up_anew(ds: lakebed.Dataset) -> None:
    prepared = ds.prepare("SELECT * WHERE name == ?")
    assert len(prepared.run("n3")) == 1
    ds.delete_tensor("name")
    with pytest.raises(QueryError, match="there is no column 'name'"):
        prepared.run("n3")
    ds.create_tensor("name", htype="class_label", class_names=["n3", "n4"])
    ds.name.extend([0, 1, 0, 1, 0, 1, 0, 1, 0, 1])
    assert xs(prepared.run("n3")) == [0, 2, 4, 6, 8]


def test_datasets_of_from_are_opened_by_each_run(tmp_path: Path) -> None:
    made = lakebed.empty(tmp_path / "ds")
    made.create_tensor("x", dtype="int64")
    made.extend({"x": [1, 2, 3]})
    made.commit()
    prepared = lakebed.query.prepare(f'SELECT * FROM "{tmp_path / "ds"}" WHERE x > ?')
    assert [xs(found) for found in prepared.run_many([[0], [2]])] == [[1, 2, 3], [3]]
    made.append({"x": 4})
    made.commit()
    assert xs(prepared.run(2)) == [3, 4]


@pytest.mark.parametrize(
    ("condition", "values", "expected"),
    [
        ("x == ?", [np.int32(3)], [3]),
        ("x > ?", [np.float64(7.5)], [8, 9]),
        ("x > ?", [np.array(7)], [8, 9]),
        ("x > ?", [True], [2, 3, 4, 5, 6, 7, 8, 9]),
        ("kind == ? AND x < 4", [np.str_("dog")], [1, 3]),
        ("name == ?", ["n3' OR true --"], []),
        ("name IN (?)", [["n3", "n4"]], [3, 4]),
        ("name IN (?)", [np.array(["n3", "n4"])], [3, 4]),
        ("kind IN (?) AND x < 3", [("cat",)], [0, 2]),
        ("x IN (?)", [[]], []),
        ("x IN (?)", [{4, 2}], [2, 4]),
        ("x IN (?, ?)", [4, 2], [2, 4]),
        ("x IN (?)", [range(2, 4)], [2, 3]),
        ("x IN (?)", [pa.array([5, 6])], [5, 6]),
        ("x NOT IN (?)", [np.arange(8)], [8, 9]),
        ("l2_norm(v - ?) < 0.5", [[6, 7]], [3]),
        ("l2_norm(v - ?) < 0.5", [np.array([6.0, 7.0])], [3]),
        ("coalesce(name, ?) == 'none'", ["none"], [0, 5]),
        ("coalesce(?, x) == 4", [None], [4]),
        ("v[?] == 9", [1], [4]),
        ("x IN (SELECT x WHERE x > ?) AND x < ?", [6, 9], [7, 8]),
        ("EXISTS (SELECT x WHERE x == ?) AND x == ?", [2, 3], [3]),
        ("x == (SELECT x + ? WHERE x == ?)", [2, 3], [5]),
    ],
)
def test_values_of_many_kinds(
    ds: lakebed.Dataset, condition: str, values: list[Any], expected: list[int]
) -> None:
    assert xs(ds.prepare(f"SELECT * WHERE {condition}").run(*values)) == expected
    assert xs(ds.query(f"SELECT * WHERE {condition}", parameters=values)) == expected


def test_dates_are_values() -> None:
    moments = np.array(["2026-01-01T10:00", "2026-02-01T10:00", "2026-03-01T10:00"], "datetime64[us]")
    made = lakebed.from_arrow(
        "mem://prepared-dates",
        pa.table({"x": [0, 1, 2], "at": moments, "text": ["2026-01-01", "b", "c"]}),
        overwrite=True,
    )
    after = made.prepare("SELECT * WHERE at > ?")
    zone = dt.timezone(dt.timedelta(hours=5))
    for value, expected in (
        (dt.datetime(2026, 2, 1, 9), [1, 2]),  # noqa: DTZ001 - a moment without a zone is one in UTC
        (dt.datetime(2026, 2, 1, 10, 0, 1, tzinfo=dt.UTC), [2]),
        (dt.datetime(2026, 2, 1, 14, tzinfo=zone), [1, 2]),
        (dt.datetime(2026, 2, 1, 15, 1, tzinfo=zone), [2]),
        (dt.date(2026, 2, 2), [2]),
        (np.datetime64("2026-02-02"), [2]),
        (np.datetime64("2026-02-01T10:00:00.000000000"), [2]),
        ("2026-02-01", [1, 2]),
    ):
        assert xs(after.run(value)) == expected, value
    assert xs(made.prepare("SELECT * WHERE text == ?").run(dt.date(2026, 1, 1))) == [0]
    with pytest.raises(QueryError, match="IS NULL"):
        after.run(np.datetime64("NaT", "us"))


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("SELECT * WHERE zz > ?", QueryError, "there is no column 'zz'"),
        ("SELECT * WHERE nope(?) > x", QueryError, "there is no function NOPE"),
        ("SELECT * WHERE name > 3 AND x == ?", QueryError, "cannot be compared with numbers"),
        ("SELECT * WHERE x IN (SELECT x, name WHERE x > ?)", QueryError, "one column, not 2"),
        ("SELECT * WHERE (SELECT x, name WHERE x > ?) == 2", QueryError, "one column, not 2"),
        ("SELECT * WHERE x > ? AND", QuerySyntaxError, "ends where an expression"),
    ],
)
def test_what_cannot_be_right_raises_at_once(
    ds: lakebed.Dataset, text: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        ds.prepare(text)


def test_wrong_values_are_told(ds: lakebed.Dataset) -> None:
    prepared = ds.prepare("SELECT * WHERE kind == ? AND x > ?")
    with pytest.raises(QueryError, match=r"2 parameters .*, and 1 values") as caught:
        prepared.run("cat")
    assert caught.value.kind == "arity"
    with pytest.raises(QueryError, match="set 1 of the values: the query has 2 parameters"):
        prepared.run_many([["cat", 1], ["cat", 1, 2]])
    with pytest.raises(QueryError, match="set 1 of the values: there is no class 'cow'"):
        prepared.run_many([["cat", 1], ["cow", 1]])
    with pytest.raises(QueryError, match="parameter 2: a query has no values of type object"):
        prepared.run("cat", object())
    with pytest.raises(QueryError, match="x holds numbers, and 'text' is text"):
        prepared.run("cat", "text")
    with pytest.raises(QueryError, match="needs a number that is the same"):
        ds.prepare("SELECT * LIMIT ?").run("many")


@pytest.mark.parametrize(
    ("condition", "values", "expected"),
    [
        ("x > $low AND x < $high", {"low": 2, "high": 5}, [3, 4]),
        ("x > $low AND x != $low + 1 AND x < $low + 4", {"low": 2}, [4, 5]),
        ("x == $a", {"$a": np.int32(3)}, [3]),
        ("name == $text", {"text": "n3' OR true --"}, []),
        ("name == $größe", {"größe": "n3"}, [3]),
        ("name IN ($some)", {"some": ["n3", "n4"]}, [3, 4]),
        ("kind == $k AND x < $most", {"most": 4, "k": "dog"}, [1, 3]),
        ("l2_norm(v - $v) < 0.5", {"v": np.array([6.0, 7.0])}, [3]),
        ("coalesce($none, x) == 4", {"none": None}, [4]),
        ("x IN (SELECT x WHERE x > $low) AND x < $high", {"high": 9, "low": 6}, [7, 8]),
        ("x == 3 -- $comment", {}, [3]),
        ("name == '$text' OR x == 2", {}, [2]),
    ],
)
def test_values_by_name(
    ds: lakebed.Dataset, condition: str, values: dict[str, Any], expected: list[int]
) -> None:
    assert xs(ds.query(f"SELECT * WHERE {condition}", parameters=values)) == expected
    prepared = ds.prepare(f"SELECT * WHERE {condition}")
    assert xs(prepared.run(values) if values else prepared.run()) == expected
    assert [xs(found) for found in prepared.run_many([values, values])] == [expected, expected]


def test_dates_go_in_by_name() -> None:
    moments = np.array(["2026-01-01", "2026-02-01"], "datetime64[ms]")
    made = lakebed.from_arrow("mem://prepared-named", pa.table({"x": [0, 1], "at": moments}), overwrite=True)
    for value in (
        dt.date(2026, 1, 2),
        dt.datetime(2026, 1, 2, tzinfo=dt.UTC),
        np.datetime64("2026-01-02"),
        "2026-01-02",
    ):
        assert xs(made.prepare("SELECT * WHERE at > $after").run(after=value)) == [1]
        assert xs(
            lakebed.query('SELECT * FROM "mem://prepared-named" WHERE at > $t', parameters={"t": value})
        ) == [1]


@pytest.mark.parametrize(
    ("text", "values", "message"),
    [
        (
            "x > $low\n AND x < $high",
            {"low": 1},
            r"no value was given for \$high \(line 2, column 10\)\n.*\n +\^",
        ),
        ("x > $low", {"lwo": 1}, r"no value was given for \$low; did you mean 'lwo'\? \(line 1, column 20\)"),
        (
            "x > $low AND x < $high",
            {"low": 1, "high": 2, "hihg": 3},
            r"no \$hihg; did you mean 'high'\? .*column 33",
        ),
        (
            "x > $low",
            {"low": 1, "other": 2},
            r"the query has no \$other; there are low \(line 1, column 20\)",
        ),
        ("x > $low", [1], r"names its values: pass parameters=\{'low': ...\}, not a list .*column 20"),
        ("x > ?", {"low": 1}, r"no \$low; its 1 parameters \(\?\) take a list"),
        ("x > 1", {"low": 1}, r"no \$low"),
        ("x > $low", {"low": object()}, r"\$low: a query has no values of type object .*column 20"),
        ("x > $low", {"low": "\ud800"}, r"\$low has half of a character"),
        ("x > $low AND x < ?", {"low": 1}, r"by \? or by \$name, not by both .*column 33"),
        ("x > ? AND x < $low", {"low": 1}, r"by \? or by \$name, not by both .*column 30"),
        ("x > $", {}, r"a name must follow \$; .*column 20"),
        ("x > $1", {}, r"a name must follow \$; .*column 20"),
        ("$x $y", {}, r"\$y stands where the end"),
    ],
)
def test_wrong_names_of_values_are_told(ds: lakebed.Dataset, text: str, values: Any, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        ds.query(f"SELECT * WHERE {text}", parameters=values)


def test_prepared_queries_know_the_names_of_their_values(ds: lakebed.Dataset) -> None:
    prepared = ds.prepare("SELECT * WHERE x > $low AND (x < $high OR x == $low) LIMIT $self")
    assert (prepared.count, prepared.names) == (3, ("low", "high", "self"))
    assert xs(prepared.run(low=1, high=4, self=1)) == [2]
    assert "x > ?" in prepared.explain()
    assert "x > 1" in prepared.explain(low=1, high=4, self=1)
    assert "rows in" in prepared.explain({"low": 1, "high": 4, "self": 2}, analyze=True)
    assert "x > 1" in ds.explain("SELECT * WHERE x > $a", {"a": 1})
    with pytest.raises(QueryError, match="in order or by their names, not both"):
        prepared.run(1, low=1)
    with pytest.raises(QueryError, match=r"set 1 of the values: no value was given for \$high"):
        prepared.run_many([{"low": 1, "high": 2, "self": 1}, {"low": 1}])
    with pytest.raises(QueryError, match=r"no value was given for \$low"):
        prepared.explain(analyze=True)
    assert ds.prepare("SELECT * WHERE x > ?").names == ()


def test_its_plan_is_told_with_values_and_without(ds: lakebed.Dataset) -> None:
    prepared = ds.prepare("SELECT * WHERE x > ? AND name == 'n3' ORDER BY x LIMIT ?")
    assert "x > ?" in prepared.explain()
    assert "limit" not in prepared.explain()
    assert "x > 4" in prepared.explain(4, 2)
    assert "rows in" in prepared.explain(4, 2, analyze=True)
    with pytest.raises(QueryError, match="2 parameters"):
        prepared.explain(4)
    with pytest.raises(QueryError, match="2 parameters"):
        prepared.explain(analyze=True)


def test_checking_reads_no_sample(ds: lakebed.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    from lakebed.query.relations.stored import StoredColumn

    text = """SELECT a.x AS x FROM "mem://prepared" AS a JOIN "mem://prepared" AS b ON a.x = b.x
        WHERE a.x > ? AND a.x IN (SELECT x WHERE x > ?) GROUP BY a.x"""
    monkeypatch.setattr(StoredColumn, "_range", lambda *_: pytest.fail("a sample is read"))
    assert ds.prepare(text).count == 2
    assert "inner join" in ds.explain(text, [1, 2])


def test_a_tensor_may_be_called_prepare() -> None:
    ds = lakebed.empty("mem://prepared-name", overwrite=True)
    ds.create_tensor("prepare", dtype="int64")
    ds.extend({"prepare": [1, 2]})
    assert ds.prepare.numpy().ravel().tolist() == [1, 2]
