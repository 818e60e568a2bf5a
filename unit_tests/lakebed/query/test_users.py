"""What users of SQL and of 3.x type on an ordinary day, with ordinary mistakes: the right answer, or what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lakebed
from lakebed.errors import QueryError

NAMES = ["ann", "Bob", None, "", "o'neil", "ünï"]
KINDS = ["cat", "dog", "Cow"]


def _row(i: int) -> dict[str, Any]:
    return {
        "id": i,
        "name": NAMES[i % 6],
        "kind": KINDS[i % 3],
        "score": i / 4,
        "maybe": None if i % 4 == 1 else i,
        "flag": i % 2 == 0,
        "a/b": i % 11,
        "order": i % 5,
        "größe": i % 13,
        "about": {"k": i % 4, "t": f"x{i % 3}"} if i % 5 else {},
        "tags": [f"t{i % 3}", "all"],
        "box": i % 3,
        "seq": i % 3,
        "poly": i % 2,
    }


@pytest.fixture(scope="module", params=[0, 1, 10, 70_000])
def asked(request: pytest.FixtureRequest) -> tuple[lakebed.Dataset, list[dict[str, Any]]]:
    """Return a dataset with many kinds of columns, and its rows; large ones lack what takes long to write."""
    count = request.param
    is_small = count < 1000
    ds = lakebed.empty(f"mem://users-{count}", overwrite=True)
    ds.create_tensor("id", dtype="int64")
    ds.create_tensor("name", htype="text")
    ds.create_tensor("kind", htype="class_label", class_names=KINDS)
    ds.create_tensor("score", dtype="float32")
    ds.create_tensor("maybe", dtype="int64")
    ds.create_tensor("flag", dtype="bool")
    for name in ("a/b", "order", "größe"):
        ds.create_tensor(name, dtype="int32")
    if is_small:
        ds.create_tensor("about", htype="json")
        ds.create_tensor("tags", htype="list")
        ds.create_tensor("box", htype="bbox")
        ds.create_tensor("seq", htype="sequence[generic]", dtype="int32")
        ds.create_tensor("poly", htype="polygon")
    rows = [_row(i) for i in range(count)]
    if rows:
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        columns["score"] = np.array(columns["score"], np.float32)
        columns["kind"] = np.arange(count) % 3
        if is_small:
            columns["box"] = [np.full((i % 3, 4), i, np.float32) for i in range(count)]
            columns["seq"] = [[np.array([i], np.int32)] * (i % 3) for i in range(count)]
            columns["poly"] = [[np.array([[0, 0], [1, 0], [i, 1]])] * (i % 2) for i in range(count)]
        ds.extend({name: columns[name] for name in ds.tensors})
    return ds, rows


CONDITIONS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "name = 'ann'": lambda r: r["name"] == "ann",
    "name == 'Ann'": lambda r: False,
    "name = 'o''neil';": lambda r: r["name"] == "o'neil",
    "name = 'ünï' -- a comment": lambda r: r["name"] == "ünï",
    "name IS NULL": lambda r: r["name"] is None,
    "name IS NOT NULL": lambda r: r["name"] is not None,
    "name LIKE 'a%'": lambda r: (r["name"] or "").startswith("a"),
    "name ILIKE 'b?b'": lambda r: r["name"] == "Bob",
    "name IN ('ann', NULL)": lambda r: r["name"] == "ann",
    "length(name) > 3": lambda r: len(r["name"] or "") > 3,
    "id <> 3": lambda r: r["id"] != 3,
    "NOT id = 3": lambda r: r["id"] != 3,
    "id BETWEEN 2 AND 4": lambda r: 2 <= r["id"] <= 4,
    "id NOT BETWEEN 2 AND 4": lambda r: not 2 <= r["id"] <= 4,
    "id BETWEEN 4 AND 2": lambda r: False,
    "id in (1,2,3)": lambda r: r["id"] in (1, 2, 3),
    "id > 2 and id < 5 or id = 9": lambda r: 2 < r["id"] < 5 or r["id"] == 9,
    "id % 2 = 0": lambda r: r["id"] % 2 == 0,
    "id ^ 2 = 4": lambda r: r["id"] == 2,
    "id = 1e0": lambda r: r["id"] == 1,
    "score = .25": lambda r: r["score"] == 0.25,
    "score * 2 >= id / 2": lambda r: True,
    "maybe IS NULL": lambda r: r["maybe"] is None,
    "maybe ISNULL": lambda r: r["maybe"] is None,
    "maybe > 3": lambda r: r["maybe"] is not None and r["maybe"] > 3,
    "NOT maybe > 3": lambda r: not (r["maybe"] is not None and r["maybe"] > 3),
    "coalesce(maybe, -1) = -1": lambda r: r["maybe"] is None,
    "kind = 'dog'": lambda r: r["kind"] == "dog",
    "kind = 1": lambda r: r["kind"] == "dog",
    "kind IN ('cat', 'Cow')": lambda r: r["kind"] != "dog",
    "kind != 'dog'": lambda r: r["kind"] != "dog",
    "contains(kind, 'C*')": lambda r: r["kind"] == "Cow",
    "flag": lambda r: r["flag"],
    "NOT flag": lambda r: not r["flag"],
    "flag = true": lambda r: r["flag"],
    "flag = 0": lambda r: not r["flag"],
    '"a/b" > 3': lambda r: r["a/b"] > 3,
    "a.b > 3": lambda r: r["a/b"] > 3,
    '"order" = 2': lambda r: r["order"] == 2,
    "größe > 5": lambda r: r["größe"] > 5,
    "id IN (SELECT id WHERE kind = 'dog')": lambda r: r["kind"] == "dog",
    "CASE WHEN id > 2 THEN 'big' ELSE 'small' END = 'small'": lambda r: r["id"] <= 2,
}

OF_SMALL: dict[str, Callable[[dict[str, Any]], bool]] = {
    "about['k'] = 2": lambda r: r["about"].get("k") == 2,
    "about['t'] = 'x1'": lambda r: r["about"].get("t") == "x1",
    "about['k'] IS NULL": lambda r: "k" not in r["about"],
    "contains(tags, 't1')": lambda r: "t1" in r["tags"],
    "len(box) > 1": lambda r: r["box"] > 1,
    "box.shape[0] = 2": lambda r: r["box"] == 2,
    "any(box[:, 2] > 4)": lambda r: r["box"] > 0 and r["id"] > 4,
    "len(seq) = 2": lambda r: r["seq"] == 2,
    "len(poly) = 1": lambda r: r["poly"] == 1,
}


def test_conditions_have_the_answers_of_python(asked: tuple[lakebed.Dataset, list[dict[str, Any]]]) -> None:
    ds, rows = asked
    for text, meant in (CONDITIONS if len(rows) > 1000 else CONDITIONS | OF_SMALL).items():
        found = ds.query(f"SELECT * WHERE {text}")
        expected = [row["id"] for row in rows if meant(row)]
        assert found.id.numpy().reshape(-1).tolist() == expected, text


def test_clauses_have_the_answers_of_python(asked: tuple[lakebed.Dataset, list[dict[str, Any]]]) -> None:
    ds, rows = asked
    count = len(rows)

    def ids(text: str) -> list[int]:
        return [int(i) for i in ds.query(text).id.numpy().reshape(-1)]

    whole = [row["id"] for row in rows]
    assert ids("SELECT * ORDER BY score DESC, id LIMIT 3") == whole[::-1][:3]
    assert ids("SELECT * LIMIT 5 OFFSET 2") == ids("SELECT * OFFSET 2 LIMIT 5") == whole[2:7]
    assert ids("SELECT TOP 3 *") == ids("SELECT ALL * LIMIT 3") == whole[:3]
    gone = [row["id"] for row in rows if row["maybe"] is None]
    assert (
        ids("SELECT * ORDER BY maybe NULLS FIRST LIMIT 2")
        == (gone + [i for i in whole if i not in gone[:9]])[:2]
    )
    assert ids("SELECT * EXCEPT SELECT * WHERE id > 2") == whole[:3]
    twice = ds.query("SELECT *, score * 2 AS twice ORDER BY twice DESC LIMIT 2")
    assert [float(np.ravel(v)[0]) for v in twice.twice.values()] == [
        row["score"] * 2 for row in rows[::-1][:2]
    ]
    counted = ds.query("SELECT COUNT(*) AS n WHERE id > 3").n.tolist()
    assert counted == [max(0, count - 4)]
    groups = ds.query("SELECT kind[0] AS kind, COUNT(*) AS n GROUP BY kind HAVING n > 0 ORDER BY n DESC")
    sizes = sorted((sum(row["kind"] == kind for row in rows) for kind in KINDS), reverse=True)
    assert groups.n.tolist() == [size for size in sizes if size]
    assert len(ds.query("SELECT DISTINCT kind")) == min(3, count)
    if count:
        best = ds.query("SELECT id WHERE score = (SELECT max(score) AS m GROUP BY true)")
        assert best.id.numpy().reshape(-1).tolist() == [count - 1]
    assert len(ds.query("WITH t AS (SELECT id WHERE id > 1) SELECT * FROM t LIMIT 2")) == max(
        0, min(2, count - 2)
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('SELECT * WHERE name = "ann"', r"no column 'ann'.*single quotes .*column 23"),
        ("SELECT * WHERE Name = 'ann'", r"did you mean 'name'"),
        ("SELECT * FROM dataset", r"Without FROM, ds.query\(\) reads the dataset .*column 15"),
        ("SELECT * WHERE maybe = NULL", "say IS NULL"),
        ("SELECT * WHERE maybe NOT NULL", "say IS NOT NULL .*column 26"),
        ("SELECT * WHERE maybe NOTNULL", "say IS NOT NULL"),
        ("SELECT * WHERE maybe IS None", "say NULL"),
        ("SELECT * WHERE flag IS TRUE", "say x = true"),
        ("SELECT * LIMIT 10, 5", "say LIMIT 5 OFFSET 10 .*column 18"),
        ("SELECT COUNT(*)", "AS"),
        ("SELECT COUNT(1) AS n", r"say COUNT\(\*\)"),
        ("SELECT * ORDER BY 1", "orders nothing: name a column"),
        ("SELECT score * 2 AS twice WHERE twice > 2", "computed by SELECT, after WHERE.*column 33"),
        ("SELECT kind AS k, count(*) AS n GROUP BY k", "computed by SELECT, after GROUP BY"),
        ("SELECT * WHERE order = 2", 'needs double quotes: "order"'),
        ("SELECT * WHERE kind = 'Dog'", "did you mean 'dog'"),
        ("SELECT * WHERE kind LIKE 'd%'", "CONTAINS"),
        ("SELECT * WHERE name = 'o\\'neil'", "two of them: ''"),
        ("SELECT * WHERE about.k = 2", r"about is a column: a part of a JSON value is about\['k'\]"),
        ("SELECT * WHERE about->>'k' = 2", r"x\['key'\]"),
        ("SELECT * WHERE id IN [1, 2]", "round brackets"),
        ("SELECT * WHERE id > 2 && id < 5", "write AND"),
        ("SELECT * WHERE id ** 2 = 4", r"x \^ 2"),
        ("SELECT * WHERE id // 2 = 1", "FLOOR"),
        ("SELECT * /* all */ WHERE id = 2", "comment goes from --"),
        ("SELECT * # all", "comment goes from --"),
        ("SELECT `id`", "double quotes"),
        ("SELECT id::text AS t", "CAST"),
        ("SELECT CAST(id AS varchar(10)) AS t", "no length"),
        ("SELECT row_number() OVER (ORDER BY id) AS r", "DuckDB"),
        ("SELECT * FETCH FIRST 1 ROWS ONLY", "say LIMIT"),
        ("DELETE WHERE id = 3", "only reads"),
        ("WHERE id > 3", r"begin with SELECT \*"),
        ("SHOW TABLES", "summary"),
        ("SELCT *", "did you mean SELECT"),
        ("SELECT * WHERE id = 3; SELECT * WHERE id = 4", "runs one query"),
    ],
)
def test_mistakes_are_told_with_what_to_do(text: str, message: str) -> None:
    ds = lakebed.empty("mem://users-mistakes", overwrite=True)
    for name, options in {
        "id": {"dtype": "int64"}, "name": {"htype": "text"}, "score": {"dtype": "float32"}, "maybe": {"dtype": "int64"},
        "kind": {"htype": "class_label", "class_names": KINDS}, "flag": {"dtype": "bool"}, "order": {"dtype": "int32"},
        "about": {"htype": "json"}, "tags": {"htype": "list"},
    }.items():  # fmt: skip
        ds.create_tensor(name, **options)
    with pytest.raises(QueryError, match=message) as caught:
        ds.query(text)
    assert caught.value.line == 1


def test_a_hidden_tensor_is_told_with_what_to_do() -> None:
    """Where it is named, in joins, groups and filters too; what the error advises works."""
    ds = lakebed.empty("mem://hidden")
    ds.create_tensor("a", dtype="int64").extend([1, 2, 3])
    ds.create_tensor("secret", dtype="int64", hidden=True).extend([7, 8, 9])
    other = 'FROM "mem://hidden" AS p JOIN "mem://hidden" AS q USING (a)'
    for text in ("secret > 7", "sum(secret) > 7 GROUP BY a"):
        with pytest.raises(QueryError, match=r"'secret' is a hidden tensor.*ds\[\['secret', \.\.\.\]\]"):
            ds.query(f"SELECT * WHERE {text}")
    with pytest.raises(QueryError, match="is a hidden tensor"):
        ds.query("SELECT count(*) AS n GROUP BY secret")
    with pytest.raises(QueryError, match="is a hidden tensor"):
        lakebed.query(f"SELECT p.secret {other}")
    with pytest.raises(QueryError, match="is a hidden tensor"):
        ds.filter("secret == 7")
    with pytest.raises(QueryError, match="there is no column 'secre'; there are a"):
        ds.query("SELECT secre")
    found = ds[["a", "secret"]].query("SELECT a, secret + 1 AS more WHERE secret > 7")
    assert found.to_pandas().to_dict("list") == {"a": [2, 3], "more": [9, 10]}
