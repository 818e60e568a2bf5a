"""Tensors that are shorter than others: queries and tables give all rows of those asked for, or say which is short."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import lakebed
from lakebed.errors import InvalidInputError, QueryError


@pytest.fixture
def ds() -> lakebed.Dataset:
    """Five rows, and a tensor made after them."""
    made = lakebed.empty("mem://short-tensors", overwrite=True)
    made.create_tensor("a", dtype="int64")
    made.extend({"a": range(5)})
    made.create_tensor("b", dtype="float64")
    return made


def test_queries_see_the_rows_of_the_tensors_that_they_name(ds: lakebed.Dataset) -> None:
    """A tensor that a query does not name hides no row of those it names."""
    assert ds.query("SELECT a WHERE a > 1").a.numpy().ravel().tolist() == [2, 3, 4]
    assert ds.query("SELECT a + 1 AS c").c.numpy().ravel().tolist() == [1, 2, 3, 4, 5]
    assert ds.query("WITH w AS (SELECT a) SELECT count(*) AS n FROM w GROUP BY true").n.tolist() == [5]
    assert len(lakebed.query('SELECT x.a FROM "mem://short-tensors" AS x WHERE x.a < 2')) == 2
    assert ds.query("SELECT a ORDER BY a DESC LIMIT 1").to_arrow().to_pydict() == {"a": [4]}
    assert len(ds[["a"]].filter("a > 2")) == 2


@pytest.mark.parametrize(
    "look",
    [
        lambda ds: ds.query("SELECT *"),
        lambda ds: ds.query("SELECT a WHERE b IS NULL"),
        lambda ds: ds.query("SELECT count(*) AS n GROUP BY true"),
        lambda ds: ds.filter("a > 2"),
        lambda ds: ds.filter(lambda row: True, progressbar=False),
        lambda ds: ds.to_arrow(),
        lambda ds: ds.to_pandas(),
        lambda ds: list(ds.batches(2)),
        lambda ds: len(ds.batches(2)),
        lambda ds: list(ds.rows()),
        lambda ds: [row.a for row in ds],
        lambda ds: ds.random_split([0.5, 0.5]),
        lambda ds: lakebed.compute(lambda row, out: out.append({"a": row.a, "b": None}))().eval(
            ds, progressbar=False
        ),
        lambda ds: lakebed.export_to("csv", ds, "mem://short-exported", overwrite=True, progressbar=False),
        lambda ds: lakebed.export_to("parquet", ds, "mem://short-exported", dry_run=True),
    ],
)
def test_a_short_tensor_that_is_asked_for_is_named(ds: lakebed.Dataset, look: Callable[[Any], Any]) -> None:
    """What would lose rows is an error that names the short tensor; filled up, all rows are there."""
    with pytest.raises((InvalidInputError, QueryError), match="'b' has 0 rows and 'a' has 5"):
        look(ds)
    ds.b.extend([None] * 5)
    look(ds)
    assert len(ds.query("SELECT * WHERE b IS NULL")) == 5


def test_a_loader_says_which_tensor_is_empty(ds: lakebed.Dataset) -> None:
    with pytest.raises(InvalidInputError, match="'b' has 0 rows and 'a' has 5"):
        lakebed.Loader(ds, 2)
    assert sum(len(batch.rows) for batch in lakebed.Loader(ds, 2, tensors=["a"])) == 5
