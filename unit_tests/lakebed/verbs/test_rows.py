"""Looking at rows and choosing some, beside pandas."""

from __future__ import annotations

import datetime as dt
import itertools
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lakebed
from lakebed.errors import InvalidInputError, QueryError, TensorDoesNotExistError
from unit_tests.lakebed.afar import Afar, made_on, opened_on
from unit_tests.lakebed.verbs.rows import ROWS

NUMBER = itertools.count()
VIEWS: list[Any] = [
    pytest.param(lambda ds: ds, id="dataset"),
    pytest.param(lambda ds: ds[::-1], id="view"),
    pytest.param(lambda ds: ds.query("SELECT name, age + 0 AS age, score, kind, vec"), id="result"),
]


def names_of(rows: Any) -> list[Any]:
    found: list[Any] = rows["name"].tolist()
    return found


def test_what_there_is(ds: lakebed.Dataset) -> None:
    assert ds.column_names == ds.columns == ["name", "age", "score", "kind", "vec"]
    assert (ds.num_rows, ds.num_columns, ds.shape, ds.is_empty) == (20, 5, (20, 5), False)
    assert ds[ds["age"] > 100].is_empty
    assert ds.dtypes["vec"] == np.float32
    assert ds.schema.names == ds.column_names
    assert ds.schema.field("kind").metadata == {b"htype": b"class_label"}
    assert str(ds.features.field("age").type) == "int64"
    result = ds.query("SELECT age * 2 AS twice, kind")
    assert (result.columns, result.shape, result.schema.names) == (
        ["twice", "kind"],
        (20, 2),
        ["twice", "kind"],
    )


@pytest.mark.parametrize("of", VIEWS)
def test_a_part_of_the_rows(ds: lakebed.Dataset, of: Any) -> None:
    rows = of(ds)
    names = names_of(rows)
    assert names_of(rows.head()) == names[:5]
    assert names_of(rows.head(3)) == names_of(rows.take(3)) == names_of(rows.limit(3)) == names[:3]
    assert (names_of(rows.tail(3)), names_of(rows.skip(17))) == (names[-3:], names[17:])
    assert (names_of(rows.head(-18)), names_of(rows.tail(-18)), rows.tail(0).num_rows) == (
        names[:2],
        names[18:],
        0,
    )
    assert rows.tail(50).num_rows == 20
    assert names_of(rows.select([3, 1])) == names_of(rows.take([3, 1])) == [names[3], names[1]]
    assert names_of(rows.select(range(2, 4))) == names_of(rows.select(np.array([2, 3]))) == names[2:4]
    assert rows.select(["age", "name"]).column_names == ["age", "name"]
    assert [name for i in range(3) for name in names_of(rows.shard(3, i))] == names
    with pytest.raises(InvalidInputError, match="no part 3 of 3"):
        rows.shard(3, 3)


@pytest.mark.parametrize("of", VIEWS)
def test_chance_has_a_seed(ds: lakebed.Dataset, of: Any) -> None:
    rows = of(ds)
    names = names_of(rows)
    shuffled = names_of(rows.shuffle(seed=1))
    assert shuffled == names_of(rows.shuffle(seed=1)) != names
    assert Counter(shuffled) == Counter(names)
    drawn = names_of(rows.sample(6, seed=2))
    assert drawn == names_of(rows.sample(6, seed=2))
    assert len(drawn) == len(set(drawn)) == 6
    assert (
        rows.sample().num_rows,
        rows.sample(frac=0.25).num_rows,
        rows.sample(30, replace=True).num_rows,
    ) == (1, 5, 30)
    lakebed.random.seed(5)
    try:
        assert names_of(rows.shuffle()) == names_of(rows.shuffle()) == names_of(rows.shuffle(seed=5))
    finally:
        lakebed.random.seed(None)
    for wrong in ({"n": 21}, {"n": -1}, {"n": 1, "frac": 0.5}):
        with pytest.raises(InvalidInputError, match="sample draws n of the 20 rows"):
            rows.sample(**wrong)


@pytest.mark.parametrize("of", VIEWS)
@pytest.mark.parametrize("descending", [False, True])
def test_missing_values_come_last_in_any_order(ds: lakebed.Dataset, of: Any, descending: bool) -> None:
    ages = of(ds).sort("age", descending=descending)["age"].tolist()
    known = sorted((row["age"] for row in ROWS if row["age"] is not None), reverse=descending)
    assert ages == [*known, None, None]


def test_sorting_by_several_columns(ds: lakebed.Dataset) -> None:
    found = ds.sort(["kind", "score"], descending=[False, True])
    rows = [(row["kind"], row["score"]) for row in found.rows() if None not in (row["kind"], row["score"])]
    assert rows == sorted(rows, key=lambda row: (row[0], -row[1]))
    with pytest.raises(InvalidInputError, match="descending has 1 values for 2 columns"):
        ds.sort(["kind", "score"], descending=[True])
    with pytest.raises(QueryError, match="did you mean 'age'"):
        ds.sort("agee")


@pytest.mark.parametrize("of", VIEWS)
def test_two_parts(ds: lakebed.Dataset, of: Any) -> None:
    rows = of(ds)
    train, test = rows.train_test_split(0.3, seed=4)
    assert (len(train), len(test)) == (14, 6)
    assert Counter(names_of(train) + names_of(test)) == Counter(names_of(rows))
    again = rows.train_test_split(test_size=0.3, seed=4)
    assert names_of(again["train"]) == names_of(again.train) == names_of(again[0]) == names_of(train)
    assert [name for name, _ in again.items()] == again.keys() == ["train", "test"]
    assert [len(part) for part in rows.train_test_split(5, shuffle=False)] == [15, 5]
    assert names_of(rows.train_test_split(5, shuffle=False)[1]) == names_of(rows)[15:]
    assert [len(part) for part in rows.train_test_split()] == [15, 5]
    assert [len(part) for part in rows.train_test_split(2, 0.5)] == [10, 2]
    assert [len(part) for part in rows.train_test_split(train_size=0.9)] == [18, 2]
    for wrong in ((0, None), (20, None), (0.5, 0.6), (1.0, None)):
        with pytest.raises(InvalidInputError, match="20 rows cannot be split into"):
            rows.train_test_split(*wrong)


def test_parts_with_the_same_shares(ds: lakebed.Dataset) -> None:
    labels = ["a"] * 60 + ["b"] * 30 + ["c"] * 10
    many = lakebed.from_rows(f"mem://rows-{next(NUMBER)}", [{"label": label} for label in labels])
    for seed in range(5):
        train, test = many.train_test_split(0.2, seed=seed, stratify="label")
        assert test["label"].value_counts() == {"a": 12, "b": 6, "c": 2}
        assert train["label"].value_counts() == {"a": 48, "b": 24, "c": 8}
    with pytest.raises(InvalidInputError, match="omit shuffle=False"):
        ds.train_test_split(stratify="kind", shuffle=False)


def test_groups_that_stay_together() -> None:
    rows = [{"patient": f"p{i % 12}", "scan": i} for i in range(120)]
    many = lakebed.from_rows(f"mem://rows-{next(NUMBER)}", rows)
    for seed in range(5):
        train, test = many.train_test_split(0.25, seed=seed, group="patient")
        assert (len(train), len(test)) == (90, 30)
        assert not set(train["patient"].unique()) & set(test["patient"].unique())
    one = lakebed.from_rows(f"mem://rows-{next(NUMBER)}", [{"patient": "p"}] * 9)
    with pytest.raises(InvalidInputError, match="no rows are left for training"):
        one.train_test_split(group="patient")


@pytest.mark.parametrize("of", VIEWS)
def test_rows_that_repeat_or_lack_values(ds: lakebed.Dataset, of: Any) -> None:
    frame = of(ds).to_pandas()
    rows = of(ds)
    assert names_of(rows.dropna("age")) == frame.dropna(subset="age")["name"].replace({np.nan: None}).tolist()
    assert names_of(rows.dropna()) == frame.dropna()["name"].tolist()
    assert (
        names_of(rows.drop_duplicates("age"))
        == frame.drop_duplicates("age")["name"].replace({np.nan: None}).tolist()
    )
    by = ["age", "kind"]
    assert len(rows.drop_duplicates(by)) == len(frame.drop_duplicates(by))
    twice = rows[[0, 1, 0, 2, 1]]
    assert names_of(twice.drop_duplicates()) == names_of(rows)[:3]
    assert twice.drop_duplicates("vec").num_rows == 3


def test_a_description(ds: lakebed.Dataset) -> None:
    told = ds.describe()
    assert {fact: told["age"][fact] for fact in ("rows", "nulls", "min", "max")} == {
        "rows": 20,
        "nulls": 2,
        "min": 0,
        "max": 9,
    }
    ages = [row["age"] for row in ROWS if row["age"] is not None]
    assert told["age"]["mean"] == pytest.approx(sum(ages) / len(ages))
    assert (told["kind"]["different"], told["kind"]["nulls"], told["kind"]["most"]) == (3, 1, "cat")
    assert (told["name"]["min"], told["name"]["max"], told["vec"]["shape"]) == ("n0", "n9", (3,))
    lines = str(told).splitlines()
    assert lines[0].split()[:5] == ["htype", "dtype", "rows", "nulls", "min"]
    assert [line.split()[0] for line in lines[1:]] == ds.column_names
    assert ds[3].describe() == ds[[3]].describe()
    assert ds[3].schema == ds.schema
    ds["born"] = [dt.date(2020, 1, 1 + i) for i in range(20)]
    assert ds.describe()["born"]["max"] == dt.date(2020, 1, 20)


ASKED: dict[str, tuple[Any, int]] = {
    "sorted": (lambda ds: ds.sort("age", descending=True)["age"].tolist()[0], 4),
    "grouped": (lambda ds: len(ds.groupby("kind").count()), 3),
    "picked": (lambda ds: ds[[6_000, 5, 1_500, 3_000]].to_pandas()["age"].tolist()[0], 4),
    "photos": (lambda ds: ds[[6, 0, 3, 1]][["photo"]].to_arrow().num_rows, 2),
    "described": (lambda ds: ds[["age"]].describe()["age"]["max"], 2),
}


@pytest.mark.parametrize("how", ASKED)
def test_chunks_far_away_are_asked_for_together(how: str) -> None:
    """Nobody waits for one after the other: eight chunks of numbers, four of photos."""
    store = Afar()
    made = made_on(store)
    for name in ("age", "kind"):
        made.create_tensor(name, dtype="int64", max_chunk_size=16_000)
    made.create_tensor("photo", htype="image", sample_compression="png", max_chunk_size=60_000)
    ages, noise = np.arange(8_000), np.random.default_rng(1)
    made.extend({"age": ages, "kind": ages % 3}, append_empty=True)
    for row in range(7):
        made.photo[row] = noise.integers(0, 255, (100, 150, 3), np.uint8)
    made.commit()
    ds = opened_on(store, read_only=True)
    store.pause = 0.03
    store.forget()
    ask, most = ASKED[how]
    assert ask(ds)
    assert store.rounds() <= most, [request.key for request in store.requests]


def test_a_tensor_hides_the_verb_of_its_name(ds: lakebed.Dataset) -> None:
    """Scripts of 3.x have tensors that are called so."""
    for name in ("shape", "head", "features", "columns", "select", "sample", "join", "remove", "add_column"):
        ds.create_tensor(name, dtype="int32").extend(range(20))
        assert isinstance(getattr(ds, name), lakebed.Tensor), name
    assert ds["shape"][3].numpy() == 3
    assert len(ds.tail(2)) == 2
    ds["more"] = 1
    train, _ = ds.train_test_split(0.5, seed=1)
    assert len(train.drop_duplicates("head")) == 10
    assert {"describe", "groupby", "num_rows"} <= set(dir(ds))


VALUES = st.lists(
    st.tuples(
        st.none() | st.integers(-3, 3), st.none() | st.sampled_from(["a", "b", ""]), st.none() | st.booleans()
    ),
    min_size=1,
    max_size=30,
)


@given(VALUES)
def test_verbs_beside_pandas(rows: list[tuple[Any, Any, Any]]) -> None:
    import pandas as pd

    ds = lakebed.empty(f"mem://rows-{next(NUMBER)}")
    for name, kind in (("n", {"dtype": "int64"}), ("t", {"htype": "text"}), ("b", {"dtype": "bool"})):
        ds.create_tensor(name, **kind)
    ds.extend({name: [row[i] for row in rows] for i, name in enumerate(("n", "t", "b"))})
    frame = pd.DataFrame(rows, columns=["n", "t", "b"]).astype({"n": "Int64", "t": "string", "b": "boolean"})
    frame["row"] = range(len(frame))
    for by in (["n"], ["t"], ["n", "t"], ["n", "t", "b"]):
        assert list(ds.drop_duplicates(by).sample_indices) == frame.drop_duplicates(by)["row"].tolist()
        assert list(ds.dropna(by).sample_indices) == frame.dropna(subset=by)["row"].tolist()
        ordered = frame.sort_values(by, kind="stable", na_position="last")["row"].tolist()
        assert list(ds.sort(by).sample_indices) == ordered
    for name in ("n", "t", "b"):
        assert ds[name].value_counts() == frame[name].value_counts().to_dict()
        assert ds[name].unique() == [value for value in frame[name].unique().tolist() if value is not pd.NA]
        assert ds[name].isna().numpy().tolist() == frame[name].isna().tolist()
    for name in ("min", "max", "mean", "sum"):
        expected = getattr(frame["n"], name)()
        assert getattr(ds["n"], name)() == (None if expected is pd.NA else pytest.approx(expected))


def test_columns_that_are_not_there(ds: lakebed.Dataset) -> None:
    for wrong in (
        lambda: ds.drop_duplicates("agee"),
        lambda: ds.train_test_split(stratify="agee"),
        lambda: ds.unique("agee"),
    ):
        with pytest.raises(TensorDoesNotExistError, match="'agee'"):
            wrong()


def test_as_pandas_calls_it(ds: lakebed.Dataset, capsys: pytest.CaptureFixture[str]) -> None:
    assert list(ds.sort_values("age", ascending=False).sample_indices) == list(
        ds.sort("age", descending=True).sample_indices
    )
    assert list(ds.where("age > 3").sample_indices) == list(ds.filter("age > 3").sample_indices)
    assert list(ds.where(ds["age"] > 3).sample_indices) == list(ds.filter("age > 3").sample_indices)
    ds.info()
    told = capsys.readouterr().out
    ds.summary()
    assert told == capsys.readouterr().out != ""
    ds["age"].info()
    assert "int64" in capsys.readouterr().out
    assert ds["vec"].to_numpy().shape == (20, 3)
    assert ds["score"].to_numpy().shape == (20,)
    assert np.isnan(ds["score"].to_numpy()).sum() == 1
    floats = ds["age"].astype("float32")
    assert (floats.dtype, np.isnan(floats).sum()) == (np.float32, 2)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "int64", "uint8"])
def test_functions_of_numpy_give_their_own_types(dtype: str) -> None:
    column = lakebed.from_dict({"t": np.arange(6).astype(dtype)})["t"]
    for function in (np.max, np.min, np.mean, np.std, np.sum):
        found, wanted = function(column), function(column.numpy())
        assert type(found) is type(wanted)
        assert found == pytest.approx(wanted, rel=1e-3)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_reductions_of_times_are_times(unit: str) -> None:
    """As `tolist` gives them: with their zone, and of nanoseconds those of pandas."""
    days = pd.Series(pd.to_datetime(["2024-01-01 10:00", None, "2024-01-05 12:00"])).dt.as_unit(unit)
    frame = pd.DataFrame({"at": days, "there": days.dt.tz_localize("Europe/Berlin"), "since": days - days[0]})
    ds = lakebed.from_pandas(frame)
    ds["day"] = [dt.date(2024, 1, 3), None, dt.date(2024, 1, 1)]
    for rows in (ds, ds.query("SELECT at, there, since, day")):
        for name in ("at", "there", "since"):
            for found, right in (
                (rows[name].min(), frame[name].min()),
                (rows[name].max(), frame[name].max()),
                (rows[name].mean(), frame[name].mean()),
            ):
                assert found == right
                assert str(getattr(found, "tzinfo", None)) == str(getattr(right, "tzinfo", None))
        assert rows["since"].sum() == frame["since"].sum()
        assert (rows["day"].min(), rows["day"].max()) == (dt.date(2024, 1, 1), dt.date(2024, 1, 3))
    assert np.max(ds["at"]) == np.datetime64("2024-01-05 12:00")
