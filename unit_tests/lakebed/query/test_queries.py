"""Queries as users ask them: views, results, filters, draws, versions, loaders, parameters and limits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import InvalidInputError, InvalidOperationError, QueryError, QuerySyntaxError
from lakebed.query.functions.function import forget


@pytest.fixture
def ds() -> lakebed.Dataset:
    made = lakebed.empty("mem://queried", overwrite=True)
    made.create_tensor("x", dtype="int64")
    made.create_tensor("name", htype="text")
    made.create_tensor("kind", htype="class_label", class_names=["cat", "dog"])
    made.create_tensor("box", htype="bbox")
    made.create_tensor("photo", htype="image", sample_compression="png")
    made.create_tensor("about", htype="json")
    with made:
        for i in range(12):
            made.append(
                {
                    "x": i,
                    "name": f"n{i}" if i % 5 else None,
                    "kind": i % 2,
                    "box": np.full((i % 3, 4), i, np.float32),
                    "photo": np.full((4 + i, 4, 3), i, np.uint8),
                    "about": {"n": i, "tags": ["a"] * (i % 3)},
                }
            )
    return made


def xs(view: lakebed.Dataset) -> list[int]:
    return [int(v) for v in view.x.numpy().ravel()]


# -- views -----------------------------------------------------------------------------------------------------------


def test_a_choice_of_rows_is_a_view_that_does_what_views_do(ds: lakebed.Dataset, tmp_path: Path) -> None:
    view = ds.query("SELECT * WHERE kind == 'dog' ORDER BY x DESC")
    assert isinstance(view, lakebed.Dataset)
    assert xs(view) == [11, 9, 7, 5, 3, 1]
    assert view.is_view
    assert list(view.sample_indices) == [11, 9, 7, 5, 3, 1]
    assert view[1].name.text() == "n9"
    assert [row.x.numpy().item() for row in view] == xs(view)
    assert [batch["x"].ravel().tolist() for batch in view.batches(4)] == [[11, 9, 7, 5], [3, 1]]
    assert view.to_arrow(["x"])["x"].to_pylist() == xs(view)
    assert xs(view.query("SELECT * WHERE x > 4 LIMIT 2")) == [11, 9]
    assert xs(lakebed.copy(view, tmp_path / "copy", progressbar=False)) == xs(view)
    assert xs(view[2:4]) == [7, 5]


def test_a_choice_of_columns_is_a_view_too(ds: lakebed.Dataset) -> None:
    view = ds.query("SELECT kind, x WHERE x < 3")
    assert isinstance(view, lakebed.Dataset)
    assert sorted(view.tensors) == ["kind", "x"]


def test_a_view_pickles_with_its_rows(tmp_path: Path) -> None:
    import pickle

    made = lakebed.empty(tmp_path / "ds")
    made.create_tensor("x", dtype="int64")
    made.extend({"x": range(10)})
    made.commit()
    view = made.query("SELECT * ORDER BY x DESC LIMIT 3")
    assert xs(pickle.loads(pickle.dumps(view))) == [9, 8, 7]


def test_groups_of_tensors_are_named_by_quotes_or_points() -> None:
    made = lakebed.empty("mem://grouped", overwrite=True)
    made.create_tensor("train/x", dtype="int64")
    made["train/x"].extend([1, 2, 3])
    assert len(made.query('SELECT * WHERE "train/x" > 1')) == 2
    assert len(made.query("SELECT * WHERE train.x > 1")) == 2
    assert len(made["train"].query("SELECT * WHERE x > 1")) == 2


# -- results ---------------------------------------------------------------------------------------------------------


def test_computed_columns_read_like_a_dataset(ds: lakebed.Dataset) -> None:
    found = ds.query("SELECT x * 2 AS y, name, photo[0:2, 0] AS edge WHERE x > 8")
    assert len(found) == 3
    assert found.names == ["y", "name", "edge"]
    assert found.y.numpy().ravel().tolist() == [18, 20, 22]
    assert found[0].y.numpy().tolist() == [18]
    assert found[1].to_dict()["name"] is None
    assert found["edge"][2].numpy().shape == (2, 3)
    assert found.edge.numpy().shape == (3, 2, 3)
    assert [row["y"].item() for row in found.rows()] == [18, 20, 22]
    assert [list(b) for b in found.batches(2)] == [["y", "name", "edge"]] * 2
    assert found.to_arrow()["y"].to_pylist() == [18, 20, 22]
    assert found.to_arrow()["name"].to_pylist() == ["n9", None, "n11"]
    assert found[1:].y.numpy().ravel().tolist() == [20, 22]
    assert found[[2, 0]].y.tolist() == [22, 18]
    assert found.sample_indices == [9, 10, 11]
    assert pa.table(found).num_rows == 3
    with pytest.raises(KeyError, match="did you mean 'name'"):
        found["nam"]
    with pytest.raises(IndexError):
        found[3]


def test_computed_columns_keep_their_types_in_arrow_without_rows_too() -> None:
    ds = lakebed.empty("mem://types-in-arrow", overwrite=True)
    ds.create_tensor("at", dtype="int64").info["logical_type"] = "timestamp[ms]"
    ds.create_tensor("n", dtype="int32")
    ds.extend({"at": [0, 86_400_000], "n": [1, 2]})
    for condition, count in (("n > 1", 1), ("n > 5", 0)):
        table = ds.query(f"SELECT at, n * 2 AS m WHERE {condition}").to_arrow()
        assert (table.num_rows, str(table.schema.field("at").type)) == (count, "timestamp[ms]")
        assert str(table.schema.field("m").type).startswith("int")
    latest = ds.query("SELECT max(at) AS at, n[0] AS n GROUP BY n ORDER BY n DESC").to_arrow()
    assert [str(moment) for moment in latest["at"].to_pylist()] == [
        "1970-01-02 00:00:00",
        "1970-01-01 00:00:00",
    ]


def test_a_row_that_fails_does_so_when_it_is_read(ds: lakebed.Dataset) -> None:
    found = ds.query("SELECT 10 % x AS rest")
    assert found[3].rest.numpy().tolist() == [1]
    with pytest.raises(QueryError, match="row 0") as caught:
        found.rest.numpy()
    assert caught.value.row == 0
    with pytest.raises(QueryError, match="row 0"):
        ds.query("SELECT * WHERE 10 % x == 0")


def test_a_result_can_be_stored_with_the_stored_samples_of_tensors(
    ds: lakebed.Dataset, tmp_path: Path
) -> None:
    found = ds.query("SELECT *, x / 2 AS half, about['tags'] AS tags WHERE x > 9 ORDER BY x DESC")
    made = found.materialize(tmp_path / "made")
    again = lakebed.load(tmp_path / "made")
    assert xs(again) == [11, 10]
    assert again.half.numpy().ravel().tolist() == [5.5, 5.0]
    assert again.photo[0].tobytes() == ds.photo[11].tobytes()
    assert again.kind.info["class_names"] == ["cat", "dog"]
    assert again.tags.data()["value"] == [["a", "a"], ["a"]]
    assert made.commits[0]["message"].startswith("query: SELECT")
    with pytest.raises(lakebed.errors.DatasetHandlerError):
        found.materialize(tmp_path / "made")


def test_groups_count_and_sum(ds: lakebed.Dataset) -> None:
    found = ds.query(
        "SELECT kind[0] AS kind, count(*) AS n, sum(x) AS total, max(x) AS top, count(name) AS named "
        "GROUP BY kind ORDER BY top DESC"
    )
    rows = [{k: np.asarray(v).item() for k, v in row.items()} for row in found.rows()]
    assert rows == [
        {"kind": 1, "n": 6, "total": 36, "top": 11, "named": 5},
        {"kind": 0, "n": 6, "total": 30, "top": 10, "named": 4},
    ]
    assert ds.query("SELECT count(*) AS n WHERE x > 4").n.tolist() == [7]
    having = ds.query("SELECT count(*) AS n, x % 3 AS r GROUP BY x % 3 HAVING min(x) > 0")
    assert having.n.tolist() == [4, 4]
    by_key = "SELECT x % 3 AS r, count(*) AS n GROUP BY x % 3 ORDER BY {} LIMIT 2"
    for order, first in {"r DESC": [2, 1], "r": [0, 1], "n, r DESC": [2, 1]}.items():
        assert [row["r"].flat[0] for row in ds.query(by_key.format(order)).rows()] == first
    distinct = (
        "SELECT DISTINCT kind[0] AS kind, min(x) AS low GROUP BY x / 3 ORDER BY low DESC LIMIT 2 OFFSET 1"
    )
    assert ds.query(distinct).low.tolist() == [10, 9]  # LIMIT and OFFSET count what DISTINCT leaves


# -- expressions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("x IN (1, 3, 99)", [1, 3]),
        ("x NOT IN (SELECT x WHERE x > 2)", [0, 1, 2]),
        ("EXISTS (SELECT * WHERE x > 100)", []),
        ("x > (SELECT x - 2 AS m WHERE x == 11)", [10, 11]),
        ("x BETWEEN 3 AND 5", [3, 4, 5]),
        ("name IS NULL", [0, 5, 10]),
        ("name IS NOT NULL AND x < 3", [1, 2]),
        ("name LIKE 'n1*'", [1, 11]),
        ("name ILIKE 'N%1'", [1, 11]),
        ("NOT name LIKE '*' OR x == 1", [0, 1, 5, 10]),
        ("LOWER(UPPER(name)) = 'n7'", [7]),
        ("name || '!' == 'n2!'", [2]),
        ("SUBSTR(name, 2) = '3'", [3]),
        ("STARTS_WITH(name, 'n1')", [1, 11]),
        ("LEN(name) == 3", [11]),
        ("about['n'] > 9", [10, 11]),
        ("LEN(about['tags']) == 2 AND x < 6", [2, 5]),
        ("any(about['tags'] == 'a') AND x < 3", [1, 2]),
        ("any(box[:, 0] == 4)", [4]),
        ("box[-1, 0] == 5", [5]),
        ("shape(photo)[0] > 13", [10, 11]),
        ("photo.shape[0] > 13", [10, 11]),
        ("photo.mean > 10", [11]),
        ("CASE WHEN x < 2 THEN 1 WHEN x > 10 THEN 1 ELSE 0 END == 1", [0, 1, 11]),
        ("CASE kind WHEN 'dog' THEN x ELSE 0 END > 8", [9, 11]),
        ("CAST(name AS text) = 'n4'", [4]),
        ("CAST(x AS text) = '10'", [10]),
        ("kind = 'dog' AND CAST(kind AS text) = 'dog' AND x < 2", [1]),
        ("contains(kind, 'd*') AND x < 4", [1, 3]),
        ("greatest(x, 10) > 10", [11]),
        ("coalesce(name, 'none') = 'none'", [0, 5, 10]),
        ("row_number() % 6 == 0", [0, 6]),
        ("x ^ 2 == 121", [11]),
        ("-x == -3", [3]),
        ("if(x > 5, x, 0) == 7", [7]),
        ("round(x / 3) == 4", [11]),
        ("x == 1 OR x == 3 AND kind = 'dog'", [1, 3]),
        ("true", list(range(12))),
    ],
)
def test_conditions(ds: lakebed.Dataset, condition: str, expected: list[int]) -> None:
    assert xs(ds.query(f"SELECT * WHERE {condition}")) == expected
    assert xs(ds.filter(condition)) == expected


def test_what_is_dear_is_asked_last_and_of_what_is_left(ds: lakebed.Dataset) -> None:
    told = ds.explain("SELECT * WHERE mean(photo) > 3 AND x > 2 AND shape(photo)[0] > 3")
    line = next(line for line in told.splitlines() if "where" in line)
    assert line.index("SHAPE") < line.index("AVG(photo)" if "AVG(photo)" in line else "MEAN(photo)")
    assert line.index("x > 2") < line.index("(photo) > 3")
    shapes = ds.explain("SELECT * WHERE shape(photo)[0] > 3")
    assert "photo: shape" in shapes


def test_the_example_of_the_paper_is_answered(ds: lakebed.Dataset) -> None:
    made = lakebed.empty("mem://figure", overwrite=True)
    for name, htype in (
        ("images", "image"),
        ("boxes", "bbox"),
        ("training/boxes", "bbox"),
        ("labels", "class_label"),
    ):
        more = {"sample_compression": "png"} if htype == "image" else {}
        made.create_tensor(name, htype=htype, **more)
    with made:
        for i in range(6):
            box = np.array([[150, 150, 200, 200 + i]], np.float32)
            made.append(
                {
                    "images": np.full((600, 600, 3), i, np.uint8),
                    "boxes": box,
                    "training/boxes": box + (100 if i == 2 else i),
                    "labels": i % 2,
                }
            )
    found = made.query(
        "SELECT images[100:500, 100:500, 0:2] AS crop, NORMALIZE(boxes, [100, 100, 400, 400]) AS box "
        'WHERE IOU(boxes, "training/boxes") > 0.95 ORDER BY IOU(boxes, "training/boxes") ARRANGE BY labels'
    )
    assert found.crop.numpy().shape == (2, 400, 400, 2)
    assert found.crop[0].numpy()[0, 0, 0] == 0
    assert np.allclose(found.box[0].numpy(), [[1 / 6, 1 / 6, 2 / 3, 2 / 3]])
    assert found.sample_indices == [0, 1]


def test_similarities_find_the_nearest() -> None:
    generator = np.random.default_rng(7)
    vectors = generator.normal(size=(500, 16)).astype(np.float32)
    made = lakebed.empty("mem://vectors", overwrite=True)
    made.create_tensor("v", htype="embedding", dtype="float32")
    made.create_tensor("many", dtype="float32")
    made.extend({"v": vectors, "many": [vectors[i : i + 1 + i % 3] for i in range(500)]})
    wanted = vectors[17] + 0.01
    apart = np.linalg.norm(vectors - wanted, axis=1)
    for text in ("l2_norm(v - ?)", "l2_distance(v, ?)"):
        found = made.query(f"SELECT * ORDER BY {text} LIMIT 5", parameters=[wanted])
        assert list(found.sample_indices) == np.argsort(apart)[:5].tolist()
    cosine = vectors @ wanted / np.linalg.norm(vectors, axis=1)
    found = made.query("SELECT * ORDER BY cosine_similarity(v, ?) DESC LIMIT 5", parameters=[wanted])
    assert list(found.sample_indices) == np.argsort(-cosine)[:5].tolist()
    scores = made.query("SELECT maxsim(many, ?) AS s", parameters=[vectors[:2]]).s.numpy()
    expected = [(vectors[:2] @ vectors[i : i + 1 + i % 3].T).max(axis=1).sum() for i in range(500)]
    assert np.allclose(scores, expected, atol=1e-4)


def test_dates_are_compared_with_text_and_taken_apart() -> None:
    made = lakebed.from_arrow(
        "mem://dates",
        pa.table(
            {
                "at": pa.array(
                    [np.datetime64(f"2026-01-{d:02}T12:{d:02}", "ms") for d in (1, 15, 31)],
                    pa.timestamp("ms"),
                )
            }
        ),
        overwrite=True,
    )
    assert len(made.query("SELECT * WHERE at > '2026-01-15'")) == 2
    assert len(made.query("SELECT * WHERE at BETWEEN '2026-01-15' AND '2026-01-16'")) == 1
    found = made.query(
        "SELECT EXTRACT(DAY FROM at) AS d, MONTH(at) AS m, EXTRACT(WEEK FROM at) AS w, "
        "DATE_DIFF('day', at, '2026-02-01') AS left_, CAST(at AS text) AS t"
    )
    assert found.d.tolist() == [1, 15, 31]
    assert found.m.tolist() == [1, 1, 1]
    assert found.w.tolist() == [1, 3, 5]
    assert found.left_.tolist() == [30, 16, 0]
    assert found.t.text()[1] == "2026-01-15T12:15:00"
    with pytest.raises(QueryError, match="not a date"):
        made.query("SELECT * WHERE at > 'yesterday'")


# -- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("SELECT * WHERE nmae == 'a'", "unknown_column", "did you mean 'name'"),
        ('SELECT * WHERE name == "cat"', "unknown_column", "single quotes"),
        ("SELECT * WHERE kind == 'cow'", "bad_class_name", "no class 'cow'"),
        ("SELECT * WHERE contains(kind, 'x*')", "bad_class_name", "no class"),
        ("SELECT * WHERE summ(x) > 1", "unknown_function", "did you mean 'SUM'"),
        ("SELECT * WHERE logg(x) > 1", "unknown_function", "did you mean 'LOG'"),
        ("SELECT * WHERE stddev(x) > 1", "unknown_function", "say STD"),
        ("SELECT * WHERE shape(x, x) > 1", "arity", "takes 1"),
        ("SELECT * WHERE x == 'a'", "type", "holds numbers"),
        ("SELECT * WHERE name > 3", "type", "holds text"),
        ("SELECT * WHERE x == NULL", "type", "IS NULL"),
        ("SELECT * WHERE kind LIKE 'c*'", "type", "CONTAINS"),
        ("SELECT * WHERE photo[0,0,0,0] > 1", "rank", "4 indices"),
        ("SELECT * ORDER BY photo", "type", "ORDER BY"),
        ("SELECT * GROUP BY box", "type", "key"),
        ('SELECT x + 1 AS x, x FROM "mem://nowhere"', "unknown_source", "nowhere"),
        ("SELECT * WHERE CAST(x AS colour) = 1", "type", "no type"),
        ("SELECT * UNGROUP BY SPLIT", "type", "groups"),
        ("SELECT * WHERE x == ?", "arity", "1 parameters"),
    ],
)
def test_errors_say_what_and_where(ds: lakebed.Dataset, text: str, kind: str, message: str) -> None:
    with pytest.raises(QueryError, match=message) as caught:
        ds.query(text)
    assert caught.value.kind == kind
    assert caught.value.line == 1 or kind == "arity"
    assert isinstance(caught.value, InvalidInputError)


def test_a_query_without_from_needs_a_dataset() -> None:
    with pytest.raises(QueryError, match="needs FROM"):
        lakebed.query("SELECT * WHERE x > 1")
    with pytest.raises(QuerySyntaxError):
        lakebed.query("SELEC * FROM x")


def test_nothing_is_evaluated_as_python(ds: lakebed.Dataset) -> None:
    for text in ("__import__('os').system('x')", "x.__class__", "(lambda: 1)()"):
        with pytest.raises(QueryError):
            ds.filter(text)


# -- limits ----------------------------------------------------------------------------------------------------------


def test_limits_end_a_query(ds: lakebed.Dataset) -> None:
    with pytest.raises(QueryError, match="more than the 3 allowed") as caught:
        ds.query("SELECT *", max_rows=3)
    assert caught.value.kind == "limit"
    with pytest.raises(QueryError, match="seconds"):
        ds.query("SELECT * WHERE x > 1", timeout=-1.0)
    with pytest.raises(QueryError, match="bytes"):
        ds.query("SELECT a.x AS y FROM (SELECT x) AS a CROSS JOIN (SELECT x AS z) AS b", max_memory=100)


def test_limit_stops_reading_early(ds: lakebed.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    from lakebed.query.relations import stored

    monkeypatch.setattr(stored, "_FIRST_ROWS", 2)
    monkeypatch.setattr(stored, "_GOOD_ROWS", 2)
    read: list[int] = []
    before = stored.StoredColumn.read
    monkeypatch.setattr(
        stored.StoredColumn, "read", lambda self, rows: (read.append(len(rows)), before(self, rows))[1]
    )
    assert xs(ds.query("SELECT * WHERE x >= 0 LIMIT 2")) == [0, 1]
    assert sum(read) == 2
    assert xs(ds.query("SELECT * WHERE x > 3")) == list(range(4, 12))


# -- parameters, functions of programs -------------------------------------------------------------------------------


def test_parameters_stand_for_values_only(ds: lakebed.Dataset) -> None:
    assert xs(ds.query("SELECT * WHERE x > ? AND kind == ?", parameters=[8, "dog"])) == [9, 11]
    assert xs(ds.query("SELECT * WHERE name == ?", parameters=["x' OR true --"])) == []
    assert xs(ds.query("SELECT * LIMIT ?", parameters=[2])) == [0, 1]
    with pytest.raises(QueryError, match="1 parameters"):
        ds.query("SELECT * WHERE x > ?", parameters=[1, 2])
    with pytest.raises(QueryError, match="type object"):
        ds.query("SELECT * WHERE x > ?", parameters=[object()])


def test_functions_of_programs_are_called_by_row_or_at_once(ds: lakebed.Dataset) -> None:
    calls: list[object] = []

    @lakebed.query.register("plus_one")
    def plus_one(value: np.ndarray) -> np.ndarray:
        calls.append(value.shape)
        if value[0] == 7:
            raise RuntimeError("seven")
        return value + 1

    lakebed.query.register("doubled", lambda values: values * 2, vectorised=True)
    try:
        assert xs(ds.query("SELECT * WHERE plus_one(x) == 3 AND x < 5")) == [2]
        assert calls[0] == (1,)
        with pytest.raises(QueryError, match="row 7: PLUS_ONE raised RuntimeError: seven"):
            ds.query("SELECT * WHERE plus_one(x) > 0")
        assert xs(ds.query("SELECT * WHERE Doubled(x) == 8")) == [4]
        with pytest.raises(QueryError, match="takes 1"):
            ds.query("SELECT * WHERE doubled(x, x) == 8")
        with pytest.raises(InvalidInputError, match="already"):
            lakebed.query.register("sum", plus_one)
    finally:
        forget("plus_one")
        forget("doubled")


# -- filter and sample_by --------------------------------------------------------------------------------------------


def test_filter_takes_functions_and_the_spelling_of_3_x(ds: lakebed.Dataset) -> None:
    assert xs(ds.filter(lambda row: row.x.numpy()[0] % 5 == 0, progressbar=False)) == [0, 5, 10]
    assert xs(ds.filter(lambda row: row.x.numpy()[0] > 8, num_workers=2, progressbar=False)) == [9, 10, 11]
    assert xs(ds.filter("kind == 'cat' and not x > 4 or len(box) == 2 and x > 9")) == [0, 2, 4, 11]

    @lakebed.compute
    def only(row: lakebed.Dataset, wanted: int) -> bool:
        return int(row.x.numpy()[0]) == wanted

    assert xs(ds.filter(only(7), progressbar=False)) == [7]
    ds.commit("saved views are of commits")
    ds.filter("x > 9", save_result=True, result_ds_args={"id": "few", "message": "ten and eleven"})
    assert xs(ds.load_view("few")) == [10, 11]
    assert ds.get_view("few").query == "x > 9"
    ds.query("SELECT * WHERE x < 2").save_view(id="first")
    assert xs(ds.load_view("first")) == [0, 1]
    assert ds.get_view("first").tql_query == "SELECT * WHERE x < 2"
    with pytest.raises(ZeroDivisionError):
        ds.filter(lambda row: 1 // 0, progressbar=False)


def test_draws_follow_the_weights_and_the_seed(ds: lakebed.Dataset) -> None:
    drawn = ds.sample_by("max_weight(kind == 'cat': 3, True: 1)", size=4000, seed=1)
    share = np.mean([x % 2 == 0 for x in xs(drawn)])
    assert 0.72 < share < 0.78
    assert xs(drawn) == xs(ds.sample_by("max_weight(kind == 'cat': 3, True: 1)", size=4000, seed=1))
    assert sorted(xs(ds.sample_by([1.0] * 12, replace=False))) == list(range(12))
    assert set(xs(ds.sample_by("x == 5", size=3))) == {5}
    seeded = [xs(ds.query("SELECT * SAMPLE BY x SEED 3 LIMIT 5")) for _ in range(2)]
    assert seeded[0] == seeded[1]
    with pytest.raises(QueryError, match="no row has a weight"):
        ds.sample_by("x > 100")
    with pytest.raises(InvalidInputError, match="2 weights for 12"):
        ds.sample_by([1, 2])


def test_loaders_load_what_a_query_chooses(ds: lakebed.Dataset) -> None:
    loader = ds.dataloader().query("SELECT * WHERE x > 8 ORDER BY x DESC").batch(2)
    assert [batch["x"].ravel().tolist() for batch in loader] == [[11, 10], [9]]
    drawn = ds.dataloader().sample_by("x == 3").batch(12)
    assert {x for batch in drawn for x in batch["x"].ravel().tolist()} == {3}
    with pytest.raises(InvalidOperationError, match="materialize"):
        ds.dataloader().query("SELECT x + 1 AS y")


# -- several datasets and versions -----------------------------------------------------------------------------------


def test_versions_are_named_in_from(tmp_path: Path) -> None:
    made = lakebed.empty(tmp_path / "ds")
    made.create_tensor("x", dtype="int64")
    made.extend({"x": [1, 2, 3]})
    first = made.commit()
    made.x[1] = 20
    made.extend({"x": [4]})
    second = made.commit()
    path = tmp_path / "ds"
    assert xs(lakebed.query(f'SELECT * FROM "{path}"@{first}')) == [1, 2, 3]
    assert xs(lakebed.query(f"SELECT * FROM \"{path}\" VERSION '{second}' WHERE x > 3")) == [20, 4]
    assert xs(made.query(f"SELECT * FROM DIFF('{first}', '{second}')")) == [20, 4]
    assert xs(lakebed.query(f"SELECT * FROM DIFF(\"{path}\", '{first}', '{second}') WHERE x < 10")) == [4]
    union = lakebed.query(f'SELECT x FROM "{path}"@{first} UNION ALL SELECT x FROM "{path}"@{second}')
    assert union.x.numpy().ravel().tolist() == [1, 2, 3, 1, 20, 3, 4]
    with pytest.raises(QueryError, match="at one version"):
        lakebed.query(f'SELECT * FROM "{path}"@{first} EXCEPT SELECT * FROM "{path}"@{second}')
    with pytest.raises(QueryError) as caught:
        lakebed.query(f'SELECT * FROM "{path}"@nosuch')
    assert caught.value.kind == "unknown_source"


@pytest.fixture
def shop() -> tuple[lakebed.Dataset, lakebed.Dataset]:
    people = lakebed.empty("mem://people", overwrite=True)
    people.create_tensor("id", dtype="int64")
    people.create_tensor("name", htype="text")
    people.extend({"id": [1, 2, 3], "name": ["ann", "bob", "cid"]})
    orders = lakebed.empty("mem://orders", overwrite=True)
    orders.create_tensor("person", dtype="int64")
    orders.create_tensor("what", htype="text")
    orders.extend({"person": [2, 2, 9], "what": ["tea", "bun", "jam"]})
    return people, orders


@pytest.mark.parametrize(
    ("join", "expected"),
    [
        ("JOIN", [("bob", "tea"), ("bob", "bun")]),
        ("LEFT JOIN", [("ann", None), ("bob", "tea"), ("bob", "bun"), ("cid", None)]),
        ("RIGHT JOIN", [("bob", "tea"), ("bob", "bun"), (None, "jam")]),
        ("FULL JOIN", [("ann", None), ("bob", "tea"), ("bob", "bun"), ("cid", None), (None, "jam")]),
    ],
)
def test_joins(shop: object, join: str, expected: list[tuple[str, str]]) -> None:
    found = lakebed.query(
        f'SELECT p.name, o.what FROM "mem://people" AS p {join} "mem://orders" AS o ON p.id = o.person'
    )
    assert [(row["name"], row["what"]) for row in found.rows()] == expected


def test_joins_of_three_and_other_conditions(shop: object) -> None:
    three = lakebed.query(
        'SELECT a.name, o.what, b.name AS again FROM "mem://people" a JOIN "mem://orders" o ON a.id = o.person '
        "JOIN \"mem://people\" b ON b.id = o.person WHERE o.what != 'tea'"
    )
    assert [list(row.values()) for row in three.rows()] == [["bob", "bun", "bob"]]
    cross = lakebed.query('SELECT p.name FROM "mem://people" p CROSS JOIN "mem://orders" o')
    assert len(cross) == 9
    rest = lakebed.query(
        'SELECT p.name, o.what FROM "mem://people" p JOIN "mem://orders" o ON p.id = o.person AND o.what > p.name'
    )
    assert [row["what"] for row in rest.rows()] == ["tea", "bun"]
    using = lakebed.query(
        'SELECT id, p.name FROM "mem://people" p JOIN (SELECT person AS id FROM "mem://orders") o USING (id)'
    )
    assert [np.asarray(row["id"]).item() for row in using.rows()] == [2, 2]
    with pytest.raises(QueryError, match="equality"):
        lakebed.query('SELECT p.name FROM "mem://people" p JOIN "mem://orders" o ON p.id > o.person')
    assert (
        len(lakebed.query("WITH b AS (SELECT * FROM \"mem://people\" WHERE name > 'ann') SELECT * FROM b"))
        == 2
    )


ORDERS = '(SELECT person AS id, what FROM "mem://orders")'


@pytest.mark.parametrize(
    ("columns", "join", "expected"),
    [
        ("id, p.id AS a, o.id AS b", "JOIN", [(2, 2, 2), (2, 2, 2)]),
        ("id, p.id AS a, o.id AS b", "LEFT JOIN", [(1, 1, None), (2, 2, 2), (2, 2, 2), (3, 3, None)]),
        ("id, p.id AS a, o.id AS b", "RIGHT JOIN", [(2, 2, 2), (2, 2, 2), (9, None, 9)]),
        (
            "id, p.id AS a, o.id AS b",
            "FULL JOIN",
            [(1, 1, None), (2, 2, 2), (2, 2, 2), (3, 3, None), (9, None, 9)],
        ),
        ("id, p.id AS a, o.id AS b", "NATURAL JOIN", [(2, 2, 2), (2, 2, 2)]),
        ("*", "RIGHT JOIN", [(2, "bob", "tea"), (2, "bob", "bun"), (9, None, "jam")]),
        ("p.*", "RIGHT JOIN", [(2, "bob"), (2, "bob"), (None, None)]),
        ("o.*", "NATURAL JOIN", [(2, "tea"), (2, "bun")]),
    ],
)
def test_a_column_of_using_is_named_with_and_without_its_table(
    shop: object, columns: str, join: str, expected: list[tuple[object, ...]]
) -> None:
    using = "" if join == "NATURAL JOIN" else "USING (id)"
    found = lakebed.query(f'SELECT {columns} FROM "mem://people" p {join} {ORDERS} o {using}')
    assert [tuple(_plain(value) for value in row.values()) for row in found.rows()] == expected


def test_using_goes_on_with_the_next_join(shop: object) -> None:
    three = f"""FROM "mem://people" p JOIN {ORDERS} o USING (id) LEFT JOIN (SELECT id, name AS more FROM "mem://people"
        WHERE id > 2) q USING (id)"""
    found = lakebed.query(
        f"SELECT id, p.id AS a, o.id AS b, q.id AS c, more {three} WHERE p.id = 2 AND o.id = id"
    )
    assert [tuple(map(_plain, row.values())) for row in found.rows()] == [(2, 2, 2, None, None)] * 2
    assert lakebed.query(f"SELECT * {three}").names == ["id", "name", "what", "more"]
    groups = lakebed.query(f"SELECT p.id[0] AS a, count(*) AS n {three} GROUP BY p.id")
    assert [tuple(map(_plain, row.values())) for row in groups.rows()] == [(2, 2)]
    with pytest.raises(QueryError, match="there is no column 'nothing'"):
        lakebed.query(f"SELECT p.nothing {three}")


def _plain(value: object) -> object:
    return value if value is None or isinstance(value, str) else np.asarray(value).item()


def test_random_numbers_differ_by_row_and_stay(ds: lakebed.Dataset) -> None:
    found = ds.query("SELECT random() AS r, x")
    first, again = found.r.numpy(), found.r.numpy()
    assert len(set(first.tolist())) == 12
    assert first.tolist() == again.tolist()
    assert sorted(xs(ds.query("SELECT * ORDER BY random()"))) == list(range(12))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * WHERE IF(n > 3, CAST(word AS int), 0) >= 0",
        "SELECT * WHERE n > 3 AND CAST(word AS int) > 0",
        "SELECT * WHERE CASE WHEN n < 2 THEN 1 WHEN CAST(word AS int) > 0 THEN 1 END = 1",
    ],
)
def test_errors_of_single_rows_name_the_row(text: str) -> None:
    """A part of an expression that is computed for some rows only."""
    ds = lakebed.empty("mem://rows-of-errors", overwrite=True)
    ds.create_tensor("n", dtype="int64")
    ds.create_tensor("word", htype="text")
    ds.extend({"n": range(6), "word": ["1", "2", "3", "4", "x", "6"]})
    with pytest.raises(QueryError, match=r"^row 4: 'x' is not a valid int64"):
        len(ds.query(text))
