"""Missing is missing, and empty is a value, in SELECT and in WHERE alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import duckdb
import numpy as np
import pytest

import lakebed
from unit_tests.lakebed.afar import Afar, made_on, opened_on


def rows(ds: lakebed.Dataset, where: str) -> list[int]:
    return [int(row) for row in ds.query(f"SELECT * WHERE {where}").sample_indices]


@pytest.fixture(params=[["a", "", "b"], ["a", "", None], [None, "", "b"]], ids=str)
def values(request: pytest.FixtureRequest) -> list[str | None]:
    return list(request.param)


@pytest.fixture(params=["memory", "reopened", "with statistics"])
def ds(values: list[str | None], request: pytest.FixtureRequest, tmp_path: Any) -> lakebed.Dataset:
    ds = lakebed.empty(str(tmp_path / "ds"))
    ds.create_tensor("t", htype="text")
    ds.create_tensor("a", dtype="int64")
    ds.create_tensor("j", htype="json")
    arrays = [None if v is None else np.zeros(0 if v == "" else 2, "i8") for v in values]
    ds.extend({"t": values, "a": arrays, "j": [None if v is None else {"v": v} for v in values]})
    ds.commit()
    if request.param == "memory":
        return ds
    if request.param == "with statistics":
        ds.update_statistics()
    return lakebed.load(str(tmp_path / "ds"), read_only=True)


TEXTS: dict[str, Callable[[str | None], bool]] = {
    "t IS NULL": lambda v: v is None,
    "t IS NOT NULL": lambda v: v is not None,
    "a IS NULL": lambda v: v is None,
    "a IS NOT NULL": lambda v: v is not None,
    "t = ''": lambda v: v == "",
    "t != ''": lambda v: v is not None and v != "",
    "NOT (t = '')": lambda v: v != "",
    "NOT (t != '')": lambda v: v is None or v == "",
    "t = t": lambda v: v is not None,
    "t >= ''": lambda v: v is not None,
    "t BETWEEN '' AND 'z'": lambda v: v is not None,
    "t IN ('')": lambda v: v == "",
    "t NOT IN ('')": lambda v: v != "",
    "t LIKE '*'": lambda v: v is not None,
    "t NOT LIKE '*'": lambda v: v is None,
    "t ILIKE ''": lambda v: v == "",
    "STARTS_WITH(t, '')": lambda v: v is not None,
    "ENDS_WITH(t, '')": lambda v: v is not None,
    "CONTAINS(t, '')": lambda v: v is not None,
    "CONTAINS(t, t)": lambda v: v is not None,
    "MATCHES(t, '.*')": lambda v: v is not None,
    "LEN(t) = 0": lambda v: v == "",
    "LEN(t) >= 0": lambda v: v is not None,
    "LEN(a) = 0": lambda v: v == "",
    "LOWER(t) = ''": lambda v: v == "",
    "COALESCE(t, 'none') = 'none'": lambda v: v is None,
    "j['v'] = ''": lambda v: v == "",
}


def test_conditions_tell_missing_from_empty(ds: lakebed.Dataset, values: list[str | None]) -> None:
    for where, holds in TEXTS.items():
        assert rows(ds, where) == [row for row, value in enumerate(values) if holds(value)], where


def test_tables_have_the_same_nulls(ds: lakebed.Dataset, values: list[str | None]) -> None:
    expected = [value is None for value in values]
    for table in (ds.to_arrow(), ds.query("SELECT t, a").to_arrow()):
        assert table["t"].is_null().to_pylist() == expected
        assert table["a"].is_null().to_pylist() == expected


def test_duckdb_tells_them_apart(ds: lakebed.Dataset, values: list[str | None]) -> None:
    asked = ("t IS NULL", "t = ''", "a IS NULL", "len(a) = 0")
    told = ", ".join(f"count(*) FILTER ({condition})" for condition in asked)
    nulls, empty = values.count(None), values.count("")
    assert duckdb.sql(f"SELECT {told} FROM ds").fetchall() == [(nulls, empty, nulls, empty)]


# -- functions of all values, of rows and of groups ------------------------------------------------------------------

SAMPLES: list[Any] = [[3, -5], [], None, [-2]]
# Name -> what plain NumPy has for the values of a sample; None where it has nothing.
REDUCTIONS: dict[str, Callable[[Any], Any]] = {
    "max": lambda v: max(v, default=None),
    "min": lambda v: min(v, default=None),
    "avg": lambda v: np.mean(v) if v else None,
    "mean": lambda v: np.mean(v) if v else None,
    "median": lambda v: np.median(v) if v else None,
    "std": lambda v: np.std(v) if v else None,
    "argmax": lambda v: int(np.argmax(v)) if v else None,
    "argmin": lambda v: int(np.argmin(v)) if v else None,
    "sum": sum,
    "prod": lambda v: int(np.prod(v)),
    "count": len,
}


def _plain(values: Any) -> list[Any]:
    return [None if v is None or (isinstance(v, list) and not v) else np.ravel(v)[0] for v in values]


@pytest.fixture(scope="module", params=["ragged", "scalar"])
def numbers(request: pytest.FixtureRequest) -> tuple[lakebed.Dataset, list[Any]]:
    samples = SAMPLES if request.param == "ragged" else [3, None, None, -2]
    ds = lakebed.empty(f"mem://nothing-{request.param}", overwrite=True)
    ds.create_tensor("x", dtype="int64")
    ds.create_tensor("k", htype="text")
    ds.extend({
        "x": [None if v is None else np.array(v, "i8") for v in samples],
        "k": ["a", "b", "b", "a"],
    })  # fmt: skip
    return ds, [[] if v is None else v if isinstance(v, list) else [v] for v in samples]


@pytest.mark.parametrize("name", REDUCTIONS)
def test_functions_of_nothing_have_no_value(numbers: tuple[lakebed.Dataset, list[Any]], name: str) -> None:
    ds, samples = numbers
    function = REDUCTIONS[name]
    expected = [function(list(v)) for v in samples]
    found = _plain(ds.query(f"SELECT {name}(x) AS v").to_arrow()["v"].to_pylist())
    assert found == [None if v is None else pytest.approx(v) for v in expected]
    for sign in (">=", "<"):
        kept = [i for i, v in enumerate(expected) if v is not None and (v >= 0) == (sign == ">=")]
        assert rows(ds, f"{name}(x) {sign} 0") == kept
    assert rows(ds, f"NOT ({name}(x) >= 0)") == [i for i, v in enumerate(expected) if v is None or v < 0]
    if name == "count":  # of a group: its rows that are not missing
        return
    groups = ds.query(f"SELECT k[0] AS k, {name}(x) AS v GROUP BY k").to_arrow().to_pydict()
    of_groups = [function([*samples[0], *samples[3]]), function([*samples[1], *samples[2]])]
    assert _plain(groups["v"]) == [None if v is None else pytest.approx(v) for v in of_groups]


def test_all_is_a_function_behind_select_and_in_conditions() -> None:
    ds = lakebed.empty("mem://nothing-all", overwrite=True)
    ds.create_tensor("m", dtype="int64")
    samples = np.array([[[1, 2], [3, -1]], [[1, 2], [3, 4]], [[-1, -2], [-3, -4]]])
    ds.m.extend(samples)
    for name, function in (("all", np.all), ("any", np.any)):
        for axis in (None, 0, 1):
            told = f"{name}(m > 0)" if axis is None else f"{name}(m > 0, {axis})"
            expected = [function(sample > 0, axis=axis) for sample in samples]
            found = ds.query(f"SELECT {told} AS v").to_arrow()["v"].to_pylist()
            assert found == [value.tolist() for value in expected]
            assert rows(ds, told) == [i for i, value in enumerate(expected) if value.all()]
    assert ds.query("SELECT ALL m").to_arrow()["m"].to_pylist() == samples.tolist()


@pytest.mark.parametrize(
    "settings", [{}, {"sample_compression": "lz4"}, {"chunk_compression": "lz4"}], ids=str
)
def test_missing_numbers_are_missing_in_any_order_of_the_rows(settings: dict[str, str]) -> None:
    ds = lakebed.empty("mem://")
    ds.create_tensor("x", dtype="int32", **settings)
    ds.create_tensor("kind", htype="class_label", class_names=["a", "b"], **settings)
    ds.extend({"x": [5, None, 7, None], "kind": ["a", None, "b", None]})
    for numbers in ([0, 1, 2, 3], [3, 2, 1, 0], [1, 1, 2], [2, 0]):
        view, missing = ds[numbers], [number for number in numbers if number % 2]
        for name, values in (("x", [5, None, 7, None]), ("kind", ["a", None, "b", None])):
            assert list(view.query(f"SELECT * WHERE {name} IS NULL").sample_indices) == missing
            computed = view.query(f"SELECT {name} AS y, x + 0 AS z")
            assert computed["y"].tolist() == [values[number] for number in numbers]
            (batch,) = view.batches(4, [name])
            is_gone = [value is None or np.ma.is_masked(value) for value in batch[name]]
            assert is_gone == [number in missing for number in numbers]


def test_sequences_of_arrays_are_not_missing() -> None:
    ds = lakebed.empty("mem://sequences-and-nulls", overwrite=True)
    ds.create_tensor("x", htype="sequence[generic]", dtype="int32")
    ds.x.extend([[np.arange(3, dtype="int32")] * 2, None, []])
    assert len(ds.query("SELECT * WHERE x IS NULL")) == 0
    assert len(ds.query("SELECT * WHERE x IS NOT NULL")) == 3


VALUES: dict[str, tuple[dict[str, Any], Any]] = {
    "photo": ({"htype": "image", "sample_compression": "png"}, np.zeros((4, 4, 3), np.uint8)),
    "link": (
        {"htype": "link[image]", "sample_compression": "png", "verify": False},
        lakebed.link("nowhere.png"),
    ),
    "text": ({"htype": "text"}, "a"),
    "vector": ({"htype": "embedding"}, np.ones(3)),
    "box": ({"htype": "bbox"}, np.ones((1, 4))),
    "polygon": ({"htype": "polygon"}, [np.ones((3, 2), np.float32)]),
}


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("gone", [(), (1, 3), (0, 1, 2, 3, 4)])
def test_what_is_missing_is_known_without_reading_a_value(name: str, gone: tuple[int, ...]) -> None:
    """Of all rows, of some in any order, and of rows behind the last one that is missing."""
    store = Afar()
    made = made_on(store)
    made.create_tensor(name, **VALUES[name][0])
    made.extend({name: [None if row in gone else VALUES[name][1] for row in range(6)]})
    made.commit()
    store.forget()
    ds = opened_on(store, read_only=True)
    assert rows(ds, f"{name} IS NULL") == list(gone)
    assert rows(ds, f"{name} IS NOT NULL") == [row for row in range(6) if row not in gone]
    picked = ds[[5, 3, 1, 4]]
    assert [bool(row) for row in picked.query(f"SELECT {name} IS NULL AS gone")["gone"].tolist()] == [
        row in gone for row in (5, 3, 1, 4)
    ]
    assert len(ds.dropna()) == 6 - len(gone)
    assert not [request.key for request in store.requests if f"/{name}/chunks/" in request.key]


def test_a_description_reads_no_photo() -> None:
    store = Afar()
    made = made_on(store)
    made.create_tensor("photo", htype="image", sample_compression="png")
    made.extend({"photo": np.zeros((3, 4, 4, 3), np.uint8)})
    made.commit()
    store.forget()
    told = opened_on(store, read_only=True).describe()["photo"]
    assert (told["nulls"], told["shape"]) == (0, (4, 4, 3))
    assert not [request.key for request in store.requests if "/photo/chunks/" in request.key]


def test_documents_tell_themselves_whether_they_are_missing() -> None:
    """So do single numbers, which are empty samples."""
    ds = lakebed.empty("mem://told-by-values", overwrite=True)
    ds.create_tensor("doc", htype="json").extend([{"a": 1}, None, {}])
    ds.create_tensor("number", dtype="int64").extend([1, None, 0])
    assert rows(ds, "doc IS NULL") == rows(ds, "number IS NULL") == [1]
    joined = ds.join(ds, on="number", how="left")
    assert len(joined.query("SELECT * WHERE doc IS NULL")) == 1


def test_the_first_sample_of_a_group_is_missing_where_it_is_and_empty_where_it_is() -> None:
    ds = lakebed.empty("mem://firsts")
    ds.create_tensor("k", htype="text")
    ds.create_tensor("a", dtype="int64")
    ds.extend({"k": ["x", "x", "y", "y", "z"], "a": [None, [1, 1], np.zeros(0, "i8"), None, [2, 2]]})

    found = ds.query("SELECT k[0] AS k, a[0] AS first, a[-1] AS last, a[0] IS NULL AS gone GROUP BY k")

    assert found.gone.tolist() == [True, False, False]
    assert [None if v is None else v.tolist() for v in found["first"].values()] == [None, [], [2, 2]]
    assert [None if v is None else v.tolist() for v in found["last"].values()] == [[1, 1], None, [2, 2]]
    split = ds.query("SELECT a FROM (SELECT a GROUP BY k) UNGROUP BY SPLIT")
    assert [None if v is None else v.tolist() for v in split.a.values()] == [None, [1, 1], [], None, [2, 2]]
    assert ds.query("SELECT sum(a) AS s GROUP BY k").s.tolist() == [2, 0, 4], "computed as empty"
