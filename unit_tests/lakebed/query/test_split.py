"""A query in tasks has the answer of one process, in values, dtypes and nulls, or is refused."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import cloudpickle
import numpy as np
import pytest

import lakebed
from lakebed.dataset.queries import Queried
from lakebed.errors import QueryError
from lakebed.query.engine.split import Split
from lakebed.query.functions.function import forget
from lakebed.query.functions.spaces import Ways, space_of
from lakebed.query.language.parameters import values_of
from lakebed.query.language.parser import parse
from lakebed.query.relations import stored
from lakebed.query.relations.relation import Relation, Stored
from lakebed.query.run import run
from lakebed.query.values.columns import rows
from lakebed.query.values.limits import Limits, Watch
from lakebed.runtime.failures import outcome
from unit_tests.effort import IS_SOAK
from unit_tests.lakebed.query import adapter
from unit_tests.lakebed.query.cases import cases, query_of


@pytest.fixture(scope="module")
def sources() -> Iterator[dict[str, Any]]:
    yield adapter.load()
    forget("double_it")
    forget("add_em")


def in_tasks(text: str, count: int, ds: Any = None, parameters: Any = ()) -> Relation:
    """Answer a query by about `count` tasks, whose answers are pickled as on the way from another process."""
    queried = Queried(ds, lakebed.Dataset)
    query = parse(text)
    watch = Watch(Limits())
    values = values_of(text, query, parameters)
    split = Split(text, query, queried.sources(), values, watch, Ways(), "ray")
    job = split.job()
    parts = [pickle.loads(cloudpickle.dumps(job.answer(*run))) for run in split.runs(count, 1 << 40)]
    return split.merged(parts)


def at_once(text: str, ds: Any = None, parameters: Any = ()) -> Relation:
    return run(text, Queried(ds, lakebed.Dataset).sources(), parameters)


def check_same(found: Relation, expected: Relation) -> None:
    """Two relations show the same in every way that users read them."""
    assert found.names == expected.names
    assert len(found) == len(expected)
    if isinstance(expected, Stored):
        assert isinstance(found, Stored)
    if expected.base_rows() is not None:
        assert np.array_equal(found.base_rows(), expected.base_rows())
    for name in expected.names:
        ours, theirs = found.whole(name), expected.whole(name)
        assert _dtypes(rows(ours)) == _dtypes(rows(theirs)), name
        for one, other in zip(rows(ours), rows(theirs), strict=True):
            assert _is_same(one, other), (name, one, other)
        info, wanted = found.infos[name], expected.infos[name]
        assert (info.kind, info.dtype, info.class_names, info.logical, info.is_key) == (
            wanted.kind, wanted.dtype, wanted.class_names, wanted.logical, wanted.is_key,
        )  # fmt: skip


def _dtypes(values: list[Any]) -> set[Any]:
    found: set[Any] = set()
    for value in values:
        if isinstance(value, list):
            found |= _dtypes(value)
        else:
            found.add(value.dtype if isinstance(value, np.ndarray | np.generic) else type(value))
    return found


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, list) or isinstance(other, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    if isinstance(one, np.ndarray | np.generic) and one.dtype.kind == "f":
        near = 32 * np.finfo(one.dtype).eps  # sums are added in another order
        return one.shape == other.shape and np.allclose(one, other, rtol=1e-15, atol=near, equal_nan=True)
    if isinstance(one, np.ndarray | np.generic):
        return one.shape == other.shape and bool((one == other).all())
    return bool(one == other)


ANSWERED = [
    case for case in cases() if case["kind"] != "error" and case["level"] in ("core", "surpass", "quirk")
]


def test_the_corpus_in_tasks(sources: dict[str, Any]) -> None:
    """In three tasks; every fourth query, in a soak each, also in one task and in one for each row."""
    taken, refused = [], []
    for case in ANSWERED:
        text = query_of(case)
        try:
            expected = at_once(text)
            for name in expected.names:
                expected.whole(name)
        except QueryError:
            continue  # some row cannot be computed
        found = outcome(in_tasks, text, 3, kind=QueryError)
        if found.error is not None:
            refused.append((case["id"], found.error))
            continue
        taken.append(case["id"])
        check_same(found.result(), expected)
        for count in (1, 50) if IS_SOAK or len(taken) % 4 == 0 else ():
            check_same(in_tasks(text, count), expected)
    for name, error in refused:
        assert isinstance(error, QueryError)
        assert error.kind == "unsupported", (name, error)
        assert "Leave engine out" in str(error)
    assert len(taken) > 230
    assert len(refused) < 60


ROWS = 60
_LABELS = ["cat", "dog", "gull"]


@pytest.fixture(scope="module")
def ds() -> lakebed.Dataset:
    """Rows in several chunks, with nulls in most columns."""
    ds = lakebed.empty("mem://split", overwrite=True)
    ds.create_tensor("label", htype="class_label", class_names=_LABELS)
    ds.create_tensor("kind", htype="text")
    ds.create_tensor("n", dtype="int32")
    ds.create_tensor("small", dtype="uint8")
    ds.create_tensor("f", dtype="float32")
    ds.create_tensor("d", dtype="float64")
    ds.create_tensor("is_new", dtype="bool")
    ds.create_tensor("v", dtype="float32")
    ds.create_tensor("about", htype="json")
    ds.create_tensor("mixed", htype="json")
    rng = np.random.default_rng(5)
    for start in range(0, ROWS, 20):
        some = range(start, start + 20)
        ds.extend(
            {
                "label": [int(rng.integers(3)) for _ in some],
                "kind": [None if i % 7 == 2 else f"k{i % 4}" for i in some],
                "n": [None if i % 5 == 1 or start == 40 else int(rng.integers(-99, 99)) for i in some],
                "small": [int(rng.integers(256)) for _ in some],
                "f": [np.nan if i == 33 else float(rng.integers(-50, 50)) / 4 for i in some],
                "d": [float(rng.normal()) for _ in some],
                "is_new": [bool(rng.integers(2)) for _ in some],
                "v": rng.normal(size=(20, 3)).astype(np.float32),
                "about": [{"of": "ab"[i % 2], "n": i} for i in some],
                "mixed": [
                    {
                        "x": i if i < 20 else f"{i}",
                        "y": [None, i / 2, [i]][i // 20],
                        "z": [i, None][i % 2] if i < 40 else "z",
                    }
                    for i in some
                ],
            }
        )
        ds.commit()
    return ds


TAKEN = [
    "SELECT count(*) AS rows_",
    "SELECT count(*) AS rows_, sum(n) AS s, avg(n) AS a, min(n) AS low, max(n) AS high WHERE n > 1000",
    "SELECT label, count(*) AS c GROUP BY label",
    "SELECT label[0] AS label, sum(n) AS s, count(n) AS c, avg(n) AS a GROUP BY label",
    "SELECT kind, avg(small) AS a, sum(small) AS s, min(small) AS x, max(small) AS y GROUP BY kind",
    "SELECT kind[0] AS kind, min(f) AS low, max(f) AS high, sum(f) AS s, mean(f) AS m GROUP BY kind",
    "SELECT label, avg(v) AS a, sum(v) AS s, count(v) AS c, max(v) AS high GROUP BY label ORDER BY a DESC",
    "SELECT any(n > 90) AS x, sum(n > 3) AS s, all(small) AS y, all_strict(is_new) AS z, label GROUP BY label",
    "SELECT kind, label, sum(n * 2 + 7) AS s GROUP BY kind, label",
    "SELECT min(kind) AS first, max(kind) AS last, label GROUP BY label",
    "SELECT prod(small % 3 + 1) AS p, label GROUP BY label, kind",
    "SELECT label GROUP BY label HAVING count(*) > 19",
    "SELECT label, count(*) AS c GROUP BY label HAVING sum(n) > 0 OR label = 'dog'",
    "SELECT label, sum(n) / count(n) AS mean, count(*) AS c GROUP BY label ORDER BY mean LIMIT 2",
    "SELECT label, count(*) AS c GROUP BY label ORDER BY count(*) DESC, label[0] LIMIT 2 OFFSET 1",
    "SELECT label[0] AS label, kind[0] AS kind, count(*) AS c GROUP BY label, kind ORDER BY label",
    "SELECT label[0] AS label, kind[0] AS kind, count(*) AS c GROUP BY label, kind ORDER BY kind, label DESC",
    "SELECT kind, count(*) AS c GROUP BY kind ORDER BY kind DESC",
    "SELECT n % 3 AS r, count(*) AS c GROUP BY n % 3",
    "SELECT n % 3 AS r, count(*) AS c GROUP BY n % 3 ORDER BY r DESC LIMIT 2",
    "SELECT count(*) AS c, max(n) AS m GROUP BY about['of']",
    "SELECT sum(n), max(f) WHERE is_new GROUP BY label",
    "SELECT CASE WHEN sum(n) > 0 THEN 'up' ELSE 'down' END AS way GROUP BY label",
    "SELECT count(*) AS c GROUP BY true",
    "SELECT * WHERE n > 3",
    "SELECT kind, n WHERE label = 'dog' ORDER BY n DESC",
    "SELECT * ORDER BY kind DESC, n LIMIT 7",
    "SELECT * ORDER BY is_new DESC LIMIT 9 OFFSET 3",
    "SELECT n + small AS x, v[0] AS first, kind WHERE small > 20 ORDER BY x NULLS FIRST LIMIT 11",
    "SELECT cosine_similarity(v, ARRAY[1, 0, 1]) AS s, label ORDER BY s DESC LIMIT 5",
    "SELECT * WHERE is_new LIMIT 4 OFFSET 2",
    "SELECT TOP 3 label, upper(kind) AS k",
    "SELECT * ORDER BY small LIMIT 20 PERCENT",
    "SELECT sum(n) + 1 AS s, CASE WHEN sum(n) > 0 THEN true ELSE false END AS x GROUP BY true",
    "SELECT sum(n) + 1 AS s GROUP BY label, 1",
    "SELECT sum(n * 1) AS whole, sum(n * 1.0) AS real GROUP BY label",
    "SELECT all_strict(n) AS x, all_strict(n + 200) AS y GROUP BY label",
    "SELECT * ORDER BY mixed['z'] LIMIT 3 OFFSET 20",
    "SELECT n + 1 AS next, count(*) AS c GROUP BY n + 1",
    "SELECT mixed['x'] AS x, mixed['y'] AS y",
    "SELECT 1 + 1 AS two, shape(v) AS s, about['n'] AS number WHERE f IS NOT NULL",
]


@pytest.mark.parametrize("count", [1, 3, 11])
@pytest.mark.parametrize("text", TAKEN)
def test_groups_and_orders_in_tasks(ds: lakebed.Dataset, text: str, count: int) -> None:
    expected = at_once(text, ds)
    assert len(expected)
    check_same(in_tasks(text, count, ds), expected)


@pytest.mark.parametrize("count", [1, 4])
def test_views_parameters_and_results(ds: lakebed.Dataset, count: int) -> None:
    """Rows of views may repeat and go backwards; the answer is read like that of one process."""
    view = ds[[5, 5, 40, 3, 59, 12, 12, 7]]
    for text, values in (
        ("SELECT n, small + ? AS x ORDER BY small DESC LIMIT 5", [7]),
        ("SELECT * WHERE small > $low", {"low": 20}),
        ("SELECT label, count(*) AS c, sum(small) AS s GROUP BY label", ()),
    ):
        check_same(in_tasks(text, count, view, values), at_once(text, view, values))
        check_same(in_tasks(text, count, ds[50:3:-2], values), at_once(text, ds[50:3:-2], values))


REFUSED = {
    "SELECT * GROUP BY label": "GROUP BY and \\*",
    "SELECT n GROUP BY label": "all values of 'n' in a group",
    "SELECT label, count(*) AS c GROUP BY label HAVING any(n > 3) AND n[0] = 1": "all values of 'n'",
    "SELECT median(n) AS m GROUP BY label": "all values of 'n'",
    "SELECT count(DISTINCT kind) AS m GROUP BY label": "distinct values",
    "SELECT avg(v, 0) AS m GROUP BY label": "along an axis",
    "SELECT sum(small * n) AS m GROUP BY label": "anything but a column",
    "SELECT max(shape(v)) AS m GROUP BY label": "anything but a column",
    "SELECT label, count(*) AS c GROUP BY label LIMIT 2": "LIMIT of the rows before GROUP BY",
    "SELECT label, count(*) AS c GROUP BY label LIMIT 0 PERCENT": "LIMIT of the rows before GROUP BY",
    "SELECT count(n > 3) AS c GROUP BY label": "COUNT of a comparison",
    "SELECT all(NOT n > 3) AS c GROUP BY label": "ALL of a comparison",
    "SELECT avg(n > 3) AS c GROUP BY label": "AVG of a comparison",
    "SELECT label, count(*) AS c GROUP BY label ORDER BY n": "all values of 'n' in a group",
    "SELECT kind, count(*) AS c GROUP BY kind, label ORDER BY kind DESC": "ORDER BY of rows before",
    "SELECT n + 1.0 AS x GROUP BY n + 1": "all values of 'n'",
    "SELECT n > 3 AS x GROUP BY n > 3": "all values of 'n'",  # NULL > 3 is false, and a group leaves nulls out
    "SELECT (n + 1)[0] AS x GROUP BY n + 1": "a part of an expression",
    "SELECT n IS NULL AS x GROUP BY n IS NULL": "all values of 'n'",
    "SELECT kind || 'x' AS x GROUP BY kind || 'x'": "all values of 'kind'",
    "SELECT count(kind || 'x') AS x GROUP BY kind": "anything but a column",
    "SELECT kind AS n, count(*) AS c GROUP BY kind ORDER BY n": "all values of 'n'",
    "SELECT sum(n) AS n GROUP BY label HAVING n > 0": "all values of 'n'",
    "SELECT label, count(*) AS c GROUP BY label ORDER BY sum(n)": "ORDER BY of rows before",
    "SELECT about['of'] AS of GROUP BY about['of']": "all values of 'about'",
    "SELECT DISTINCT kind": "DISTINCT",
    "SELECT * WHERE n > (SELECT avg(n) AS m GROUP BY true)": "another query",
    "SELECT * WHERE n IN (SELECT n WHERE n > 3)": "another query",
    "SELECT row_number() AS r": "ROW_NUMBER",
    "SELECT * SAMPLE BY small LIMIT 3": "SAMPLE BY",
    "WITH a AS (SELECT *) SELECT * FROM a": "WITH",
    "SELECT * FROM (SELECT *)": "several sources",
    "SELECT * WHERE n > 1 UNION SELECT * WHERE n < 0": "UNION",
}


@pytest.mark.parametrize("text", REFUSED)
def test_other_queries_are_refused(ds: lakebed.Dataset, text: str) -> None:
    at_once(text, ds)
    with pytest.raises(QueryError, match=REFUSED[text]) as caught:
        in_tasks(text, 2, ds)
    assert caught.value.kind == "unsupported"


def test_mistakes_are_told_before_any_task(ds: lakebed.Dataset) -> None:
    for text, kind in (("SELECT * WHERE nope > 3", "unknown_column"), ("SELECT", "syntax")):
        with pytest.raises(QueryError) as caught:
            in_tasks(text, 2, ds)
        assert caught.value.kind == kind
    with pytest.raises(QueryError, match=r"^row 1: 'k1' is not"):
        in_tasks("SELECT CAST(kind AS int) AS x WHERE n IS NULL AND kind = 'k1'", 3, ds)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT CAST(kind AS int) AS x, n LIMIT 2",
        "SELECT CAST(kind AS int) AS x LIMIT 25 PERCENT",
        "SELECT CAST(kind AS int) AS x ORDER BY n LIMIT 1 OFFSET 1",
        "SELECT CAST(kind AS int) AS x WHERE n > 0 LIMIT 1",
        "SELECT CAST(kind AS int) AS x LIMIT 3",
    ],
)
def test_rows_that_limit_leaves_out_cannot_fail(text: str) -> None:
    ds = lakebed.empty("mem://failing", overwrite=True)
    ds.create_tensor("n", dtype="int32")
    ds.create_tensor("kind", htype="text")
    for start in range(0, 8, 2):
        ds.extend({"n": [start, start + 1], "kind": ["x", "y"] if start else ["1", "2"]})
        ds.commit()
    expected = at_once(text, ds)
    for count in (1, 2, 4):
        found = in_tasks(text, count, ds)
        if text.endswith("LIMIT 3"):
            for one in (expected, found):
                with pytest.raises(QueryError, match="'x' is not a valid int64"):
                    one.whole("x")
        else:
            check_same(found, expected)


@pytest.mark.parametrize(
    "values",
    [
        [1, 2.5, None, 3, "a", "b", 2**60 + 1, 7.5],
        [True, 2, 3, 4.5, "a", None, [1, 2.5], {}],
        [1, 2, 2.5, 3.5, True, None, 4, 5],
        [1, 2, 2.5, 3.5, True, None, "a", 5],
    ],
)
def test_numbers_of_json_stay_what_they_were(values: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Integers, floats and booleans that one task, or one window of rows, finds beside those of others."""
    ds = lakebed.empty("mem://numbers", overwrite=True)
    ds.create_tensor("about", htype="json")
    ds.create_tensor("n", dtype="int64")
    for start in range(0, 8, 2):
        ds.extend({"about": [{"x": value} for value in values[start : start + 2]], "n": [start, start + 1]})
        ds.commit()
    for text in ("SELECT about['x'] AS x", "SELECT about['x'] AS x ORDER BY n DESC"):
        expected = at_once(text, ds)
        known = rows(expected.whole("x"))
        if "a" in values:
            assert [(v, type(v)) for v in sorted(known, key=repr)] == [
                (v, type(v)) for v in sorted(values, key=repr)
            ]
        for count in (1, 2, 4):
            check_same(in_tasks(text, count, ds), expected)
        with monkeypatch.context() as patch:
            for name in ("_LEAST_ROWS", "_MOST_ROWS", "_EVEN_ROWS"):
                patch.setattr(stored, name, 2)
            for count in (0, 1, 2, 4):
                check_same(in_tasks(text, count, ds) if count else at_once(text, ds), expected)


def test_results_of_queries_are_refused(ds: lakebed.Dataset) -> None:
    with pytest.raises(QueryError, match="another query's result"):
        in_tasks("SELECT y WHERE y > 0", 2, ds.query("SELECT n + 1 AS y"))


def test_functions_of_the_program_go_to_the_tasks(ds: lakebed.Dataset) -> None:
    lakebed.query.register("thrice", lambda x: x * 3)
    lock = threading.Lock()
    lakebed.query.register("unsendable", lambda x: (lock, x)[1])  # the query does not call it
    try:
        text = "SELECT thrice(small) AS y WHERE thrice(small) > 99"
        expected = at_once(text, ds)
        split = Split(
            text, parse(text), Queried(ds, lakebed.Dataset).sources(), (), Watch(Limits()), Ways(), ""
        )
        job, runs = split.job(), split.runs(2, 1 << 40)
        functions = cloudpickle.dumps(job.functions)
        y = expected.whole("y")
    finally:
        forget("thrice")
        forget("unsendable")
    job = replace(job, functions=pickle.loads(functions))
    found = split.merged([job.answer(*run) for run in runs])
    forget("thrice")
    assert [value.tolist() for value in rows(found.whole("y"))] == [value.tolist() for value in rows(y)]


def test_averages_of_integers_are_exact(ds: lakebed.Dataset) -> None:
    """Averages of tasks, weighted by their numbers of values, would round: 49 times 1 / 49 is not 1."""
    ints = lakebed.empty("mem://averages", overwrite=True)
    ints.create_tensor("n", dtype="int64")
    ints.n.extend([1] + [0] * 97 + [48])
    text = "SELECT avg(n) AS a GROUP BY true HAVING avg(n) = 49.0 / 99"
    ints.flush()
    (found,) = rows(in_tasks(text, 99, ints).whole("a"))
    assert found == 49 / 99
    split = Split(
        text, parse(text), Queried(ints, lakebed.Dataset).sources(), (), Watch(Limits()), Ways(), ""
    )
    (found,) = rows(split.merged([split.job().answer(0, 49), split.job().answer(49, 99)]).whole("a"))
    assert found == 49 / 99


def test_large_rows_make_more_runs(ds: lakebed.Dataset) -> None:
    text = "SELECT * WHERE n > 3"
    split = Split(text, parse(text), Queried(ds, lakebed.Dataset).sources(), (), Watch(Limits()), Ways(), "")
    assert len(split.runs(1, 1 << 40)) == 1
    runs = split.runs(1, 1_000)
    assert len(runs) > 2
    assert [row for start, stop in runs for row in range(start, stop)] == list(range(ROWS))


def test_array_libraries_go_to_the_tasks() -> None:
    there = pickle.loads(pickle.dumps(space_of("numpy", None)))
    assert there.named == (None, None)
    assert there.functions is np


def test_engines_are_named(ds: lakebed.Dataset) -> None:
    assert len(ds.query("SELECT * LIMIT 2", engine="local")) == 2
    with pytest.raises(lakebed.errors.InvalidInputError, match="'local' or 'ray', not 'spark'"):
        ds.query("SELECT *", engine="spark")  # type: ignore[arg-type]
