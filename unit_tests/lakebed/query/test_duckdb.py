"""SQL of DuckDB over datasets, and views of the rows that it chose."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import InvalidInputError


@pytest.fixture
def ds(tmp_path: Path) -> lakebed.Dataset:
    made = lakebed.empty(tmp_path / "ds")
    made.create_tensor("x", dtype="int64")
    made.create_tensor("name", htype="text")
    made.create_tensor("kind", htype="class_label", class_names=["cat", "dog"])
    made.create_tensor("about", htype="json")
    made.create_tensor("box", htype="bbox")
    made.create_tensor("photo", htype="image", sample_compression="png")
    for i in range(8):
        made.append(
            {
                "x": 10 * i if i != 5 else None,
                "name": f"n{i}",
                "kind": i % 2,
                "about": {"n": i},
                "box": np.zeros((i % 3, 4), np.float32),
                "photo": np.full((4 + i, 4, 3), i, np.uint8),
            }
        )
    made.commit()
    return made


def names(view: lakebed.Dataset) -> list[str]:
    return [str(v) for v in view.name.to_arrow().to_pylist()]


def test_windows_of_sql_come_back_as_a_view(ds: lakebed.Dataset) -> None:
    rows = ds.to_duckdb(row_ids=True)
    assert rows.columns == ["x", "name", "kind", "about", "row_id"]  # no files, no arrays
    best = duckdb.sql(
        "select name, row_id from rows qualify row_number() over (partition by kind order by x desc nulls last) <= 2 "
        "order by kind desc, x"
    )
    view = ds.view_of(best)
    assert isinstance(view, lakebed.Dataset)
    assert names(view) == ["n3", "n7", "n4", "n6"]
    assert list(view.sample_indices) == [3, 7, 4, 6]
    assert view[1].photo.numpy().shape == (11, 4, 3)
    assert names(view.query("SELECT * WHERE shape(photo)[0] > 8 ORDER BY x DESC")) == ["n7", "n6"]


def test_joins_give_rows_again_and_again(ds: lakebed.Dataset) -> None:
    orders = pd.DataFrame({"who": ["n2", "n7", "n2", "nobody"], "n": [3, 2, 1, 0]})
    with duckdb.connect() as connection:
        connection.register("orders", orders)
        rows = ds.to_duckdb(["name"], row_ids=True, connection=connection)
        joined = rows.query("pets", "select pets.*, n from pets join orders on who = name order by n")
        view = ds.view_of(joined)
        assert names(view) == ["n2", "n7", "n2"]
        left = rows.query("pets", "select row_id, n from orders left join pets on who = name")
        with pytest.raises(InvalidInputError, match=r"1 rows without a number.*IS NOT NULL"):
            ds.view_of(left)
        assert names(ds.view_of(left.filter("row_id is not null").order("n"))) == ["n2", "n7", "n2"]


def test_rows_are_those_of_the_whole_dataset(ds: lakebed.Dataset) -> None:
    part = ds[[6, 1, 3]]
    rows = part.to_duckdb(["x"], row_ids=True)
    assert sorted(rows.fetchall()) == [(10, 1), (30, 3), (60, 6)]
    assert names(part.view_of(rows.filter("x > 20").order("x"))) == ["n3", "n6"]
    assert names(ds[["name"]].view_of(rows.order("x"))) == ["n1", "n3", "n6"]
    assert sorted(ds[::2].to_duckdb(["x"], row_ids=True).fetchall()) == [(0, 0), (20, 2), (40, 4), (60, 6)]


def test_a_version_gives_its_own_rows(ds: lakebed.Dataset) -> None:
    ds.append(
        {"x": 90, "name": "n8", "kind": 0, "about": {}, "box": None, "photo": np.zeros((2, 2, 3), np.uint8)}
    )
    rows = ds.to_duckdb(["x"], row_ids=True)
    assert names(ds.view_of(rows.filter("x > 60").order("x desc"))) == ["n8", "n7"]
    ds.commit()
    old = lakebed.load(ds.path + "@HEAD~2")
    with pytest.raises(InvalidInputError, match="names row 8, and the dataset has 8 rows"):
        old.view_of(rows)


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"row_id": [2, 0, 2]}),
        pa.table({"row_id": [2, 0, 2]}).to_reader(),
        pa.table({"other": ["a", "b", "c"], "row_id": pa.array([2, 0, 2], pa.uint8())}),
        pd.DataFrame({"row_id": [2, 0, 2]}),
        pl.DataFrame({"row_id": [2, 0, 2]}),
    ],
    ids=lambda table: type(table).__name__,
)
def test_other_tables_name_rows_too(ds: lakebed.Dataset, table: object) -> None:
    assert names(ds.view_of(table)) == ["n2", "n0", "n2"]


def test_nothing_chosen_is_an_empty_view(ds: lakebed.Dataset) -> None:
    assert len(ds.view_of(ds.to_duckdb(row_ids=True).filter("x > 1000"))) == 0
    assert names(ds.view_of(pa.table({"n": [4]}), row_ids="n")) == ["n4"]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            pa.table({"x": [1]}),
            r"no column 'row_id' of row numbers, only x: make the relation by ds.to_duckdb\(row_ids",
        ),
        (pa.table({"row_id": ["a"]}), "holds string, not row numbers"),
        (pa.table({"row_id": [1.0]}), "holds double, not row numbers"),
        (pa.table({"row_id": [1, None]}), "1 rows without a number"),
        (pa.table({"row_id": [1, 8]}), "names row 8, and the dataset has 8 rows"),
        (pa.table({"row_id": [-1, 3]}), "names row -1"),
        (
            pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["row_id", "row_id"]),
            "several columns 'row_id'",
        ),
        ([1, 2], "not from list"),
    ],
)
def test_what_names_no_rows_is_refused(ds: lakebed.Dataset, table: object, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        ds.view_of(table)


def test_sql_without_the_column_says_how_to_get_it(ds: lakebed.Dataset) -> None:
    rows = ds.to_duckdb(["x"], row_ids=True)
    with pytest.raises(InvalidInputError, match=r"no column 'row_id'.*after SELECT"):
        ds.view_of(rows.aggregate("max(x) as x"))


def test_names_that_are_taken(ds: lakebed.Dataset) -> None:
    ds.create_tensor("row_id", dtype="int64")
    ds.row_id.extend(range(8))
    with pytest.raises(InvalidInputError, match="are both called 'row_id'"):
        ds.to_duckdb(row_ids=True).fetchall()
    assert len(ds.to_duckdb(["x"], row_ids=True).fetchall()) == 8
    named = lakebed.empty("mem://duckdb-names", overwrite=True)
    named.create_tensor("view_of", dtype="int64")
    named.extend({"view_of": [3]})
    assert named.view_of.numpy().ravel().tolist() == [3]
