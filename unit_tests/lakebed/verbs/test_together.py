"""Rows put together, beside pandas; and the values of columns."""

from __future__ import annotations

import datetime as dt
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lakebed
from lakebed.errors import InvalidInputError, QueryError
from unit_tests.lakebed.verbs.rows import ROWS

NUMBER = itertools.count()


def made(rows: list[dict[str, Any]]) -> lakebed.Dataset:
    return lakebed.from_rows(f"mem://together-{next(NUMBER)}", rows)


# -- one behind the other --------------------------------------------------------------------------------------------


def test_datasets_views_and_results_one_behind_the_other(ds: lakebed.Dataset, tmp_path: Path) -> None:
    other = made([{"name": "x", "age": 1}, {"name": "y", "age": 2}])
    both = ds + other
    assert both["name"].tolist() == [*(row["name"] for row in ROWS), "x", "y"]
    assert both["kind"].tolist() == [*(row["kind"] for row in ROWS), None, None]
    three = lakebed.concat([ds[:2], ds.query("SELECT name, age + 1 AS age")[:1], other])
    assert three["age"].tolist() == [0, 7, 1, 1, 2]
    assert (three + other)["name"].tolist()[-2:] == ["x", "y"]
    stored = three.materialize(tmp_path / "stored")
    assert stored["name"].tolist() == three["name"].tolist()
    twice = lakebed.concat([ds, ds])
    assert isinstance(twice, lakebed.Dataset)
    assert twice.num_rows == 40
    assert lakebed.concat([ds]) is ds
    with pytest.raises(InvalidInputError, match="at least one"):
        lakebed.concat([])
    with pytest.raises(QueryError, match="'age' holds"):
        lakebed.concat([ds, made([{"age": "old"}])])
    with pytest.raises(TypeError):
        _ = ds + 3


def pictures(compression: str, count: int, names: list[str] | None = None, **more: Any) -> lakebed.Dataset:
    """A dataset of images, boxes and labels."""
    random = np.random.default_rng(count)
    ds = lakebed.empty(f"mem://together-{next(NUMBER)}")
    ds.create_tensor("image", htype="image", sample_compression=compression)
    ds.create_tensor("box", htype="bbox", **more)
    ds.create_tensor("label", htype="class_label", class_names=names or ["a", "b"])
    ds.create_tensor("id", dtype="int64")
    ds.extend(
        {
            "image": random.integers(0, 256, (count, 8, 8, 3), dtype=np.uint8),
            "box": list(random.random((count, 2, 4), dtype=np.float32)),
            "label": np.arange(count) % 2,
            "id": np.arange(count),
        }
    )
    ds.commit()
    return ds


def raw(column: Any) -> list[bytes]:
    return [bytes(sample.tobytes()) for sample in column]


def test_stored_concatenations_keep_htypes_and_stored_samples() -> None:
    a, b = pictures("jpeg", 5), pictures("jpeg", 4, names=["b", "c"])
    b.create_tensor("mask", htype="binary_mask", sample_compression="lz4")
    b.mask.extend(np.ones((4, 8, 8, 1), np.bool_))
    b.commit()
    both = lakebed.concat([a, b])
    for rows, images in (
        (both, raw(a.image) + raw(b.image)),
        (both[3:7], raw(a.image)[3:] + raw(b.image)[:2]),
        (both[[8, 0, 6]], [raw(b.image)[3], raw(a.image)[0], raw(b.image)[1]]),
        (lakebed.concat([both, a]), raw(a.image) + raw(b.image) + raw(a.image)),
        (both.query("SELECT * WHERE id = 2"), [raw(a.image)[2], raw(b.image)[2]]),
    ):
        stored = rows.materialize(f"mem://together-{next(NUMBER)}")
        assert {name: stored[name].htype for name in stored.tensors} == {
            "image": "image",
            "box": "bbox",
            "label": "class_label",
            "id": "generic",
            "mask": "binary_mask",
        }
        assert stored.image.meta.sample_compression == "jpeg"
        assert raw(stored.image) == images
        assert (
            stored.box.numpy().tolist()
            == np.stack([rows["box"][i].numpy() for i in range(len(rows))]).tolist()
        )
        assert [row.label.data()["text"] for row in stored] == [[name] for name in rows["label"].tolist()]
        assert stored["id"].tolist() == rows["id"].tolist()
        assert [sample.numpy().size for sample in stored.mask] == [
            0 if value is None else 64 for value in rows["mask"].tolist()
        ]


def test_stored_concatenations_change_no_pixel() -> None:
    """Of files of two kinds, one kind must keep pixels; two kinds that both lose some become arrays."""
    jpeg, png, webp = (pictures(compression, 3) for compression in ("jpeg", "png", "webp"))
    for first, second, htype, compression in (
        (jpeg, png, "image", "png"),
        (png, jpeg, "image", "png"),
        (jpeg, webp, "generic", None),
    ):
        stored = lakebed.concat([first, second]).materialize(f"mem://together-{next(NUMBER)}")
        assert (stored.image.htype, stored.image.meta.sample_compression) == (htype, compression)
        assert np.array_equal(
            stored.image.numpy(), np.concatenate([first.image.numpy(), second.image.numpy()])
        )


def test_boxes_of_two_meanings_do_not_become_one_kind() -> None:
    corners = {"type": "pixel", "mode": "LTRB"}
    a, b = pictures("png", 2, coords=corners), pictures("png", 2, coords={"type": "pixel", "mode": "LTWH"})
    rows = lakebed.concat([a, b])
    stored = rows.materialize(f"mem://together-{next(NUMBER)}")
    assert stored.box.htype == "generic"
    assert stored.box.numpy().tolist() == np.stack([rows["box"][i].numpy() for i in range(4)]).tolist()
    alike = lakebed.concat([a, pictures("png", 3, coords=corners)]).materialize(
        f"mem://together-{next(NUMBER)}"
    )
    assert (alike.box.htype, alike.box.info["coords"]) == ("bbox", corners)


def test_stored_joins_keep_htypes_and_stored_samples() -> None:
    a, b = pictures("jpeg", 5), pictures("jpeg", 3)
    rows = a.query(
        'SELECT l.id, l.image, r.box FROM "a" l LEFT JOIN "b" r ON l.id = r.id', named={"a": a, "b": b}
    )
    stored = rows.materialize(f"mem://together-{next(NUMBER)}")
    assert (stored.image.htype, stored.box.htype) == ("image", "bbox")
    assert raw(stored.image) == raw(a.image)
    assert stored.box[:3].numpy().tolist() == b.box.numpy().tolist()
    assert [stored.box[i].numpy().size for i in (3, 4)] == [0, 0]


def test_classes_of_two_datasets_go_by_their_names() -> None:
    first, second = (lakebed.empty(f"mem://together-{next(NUMBER)}") for _ in range(2))
    first.create_tensor("kind", htype="class_label", class_names=["cat", "dog"]).extend(["cat", "dog"])
    second.create_tensor("kind", htype="class_label", class_names=["dog", "emu"]).extend(["dog", "emu"])
    assert (first + second)["kind"].tolist() == ["cat", "dog", "dog", "emu"]


# -- side by side ----------------------------------------------------------------------------------------------------

LEFT = [
    {"k": k, "g": g, "x": x} for x, (k, g) in enumerate([("a", 1), ("b", 1), ("a", 2), (None, 1), ("c", 3)])
]
RIGHT = [
    {"k": k, "g": g, "x": x, "y": x * x}
    for x, (k, g) in enumerate([("a", 1), ("c", 3), ("z", 1), (None, 1)], 10)
]


@pytest.mark.parametrize("how", ["inner", "left", "right", "outer"])
@pytest.mark.parametrize("on", ["k", ["k", "g"], {"k": "k"}])
def test_joins_beside_pandas(how: str, on: Any) -> None:
    pandas = pytest.importorskip("pandas")
    found = made(LEFT).join(made(RIGHT), on=on, how=how).to_arrow().to_pylist()
    # pandas pairs None with None
    left, right = (pandas.DataFrame(rows).dropna(subset="k").convert_dtypes() for rows in (LEFT, RIGHT))
    by = [on] if isinstance(on, str) else list(on)
    expected = (
        left.merge(right, on=by, how=how, suffixes=("", "_right")).astype(object).replace({pandas.NA: None})
    )
    rows = [row for row in found if row["k"] is not None]

    def told(row: dict[str, Any]) -> str:
        return repr([row[name] for name in sorted(row)])

    assert sorted(map(told, rows)) == sorted(map(told, expected.to_dict("records")))
    assert len(found) - len(rows) == {"inner": 0, "left": 1, "right": 1, "outer": 2}[how]


def test_lists_of_mixed_values_are_json_beside_others_too() -> None:
    ds = lakebed.empty(f"mem://together-{next(NUMBER)}")
    ds.create_tensor("x", htype="list")
    ds.create_tensor("id", dtype="int64")
    ds.extend({"x": [[1, "a", None, ["é"]], [2], None], "id": range(3)})
    found = ds.join(made([{"id": 0}, {"id": 1}, {"id": 2}]), on="id")
    for values in (found["x"].tolist(), [row["x"] for row in found.to_list()], ds["x"].tolist()):
        assert values == [[1, "a", None, ["é"]], [2], None]


def test_joins_by_other_names_and_of_everything() -> None:
    left, right = made(LEFT), made([{"key": "a", "w": 1.5}, {"key": "q", "w": 2.5}])
    assert left.join(right, on={"k": "key"})["w"].tolist() == [1.5, 1.5]
    assert left.join(right, on={"k": "key"}, how="outer")["k"].tolist()[-1] == "q"
    assert left.join(right, how="cross").shape == (10, 5)
    assert left.join(made(RIGHT))["x"].tolist() == []  # by all columns that both have
    assert left[:2].join(left.query("SELECT k, x * 2 AS twice"), on="k")["twice"].tolist() == [0, 4, 2]
    with pytest.raises(InvalidInputError, match="share no column: pass on="):
        left.join(right)
    with pytest.raises(InvalidInputError, match="how is one of inner, left"):
        left.join(right, on={"k": "key"}, how="sideways")


# -- groups ----------------------------------------------------------------------------------------------------------

TABLE = st.lists(
    st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(0, 2), st.none() | st.integers(-5, 5)),
    min_size=1,
    max_size=25,
)


@given(TABLE)
def test_groups_beside_pandas(rows: list[tuple[str, int, Any]]) -> None:
    pandas = pytest.importorskip("pandas")
    ds = lakebed.empty(f"mem://together-{next(NUMBER)}")
    for name, kind in (("t", {"htype": "text"}), ("n", {"dtype": "int64"}), ("v", {"dtype": "int64"})):
        ds.create_tensor(name, **kind)
    ds.extend({name: [row[i] for row in rows] for i, name in enumerate(("t", "n", "v"))})
    frame = pandas.DataFrame(rows, columns=["t", "n", "v"]).astype({"v": "Int64"})
    for by in (["t"], ["t", "n"]):
        groups = frame.groupby(by)["v"]
        found = ds.groupby(by).agg(
            {"v": ["min", "max", "sum", "mean", "count", "nunique"]}, rows="size", first=("n", "first")
        )
        for how in ("min", "max", "sum", "mean", "count", "nunique"):
            expected = [None if value is pandas.NA else value for value in getattr(groups, how)().tolist()]
            assert found[f"v_{how}"].tolist() == pytest.approx(expected), how
        assert found["rows"].tolist() == groups.size().tolist()
        assert found["first"].tolist() == frame.groupby(by)["n"].first().tolist()
        keys = [key if isinstance(key, tuple) else (key,) for key in groups.groups]
        assert list(zip(*(found[name].tolist() for name in by), strict=True)) == sorted(keys)
        parts = {
            key if isinstance(key, tuple) else (key,): list(view.sample_indices)
            for key, view in ds.groupby(by)
        }
        assert parts == {key: list(places) for key, places in zip(keys, groups.groups.values(), strict=True)}
        assert len(ds.groupby(by)) == len(keys)


def test_labels_of_groups_have_their_names_and_come_once(ds: lakebed.Dataset) -> None:
    pandas = pytest.importorskip("pandas")
    found = ds.groupby("kind").agg({"age": "mean"}, n="size")
    assert found["kind"].tolist() == ["cat", "dog", "emu", None]
    assert str(found).splitlines()[1].split() == ["kind", "age", "n"]
    assert str(found).splitlines()[2].startswith("cat")
    assert found.to_pandas()["kind"].astype(object).replace({np.nan: None}).tolist() == [
        "cat",
        "dog",
        "emu",
        None,
    ]
    assert pandas.DataFrame(found)["n"].tolist() == found.to_dict()["n"] == [7, 6, 6, 1]
    assert found.to_list()[0] == {"kind": "cat", "age": found["age"].tolist()[0], "n": 7}
    assert found.to_numpy()["n"].tolist() == [7, 6, 6, 1]
    assert ds.groupby("kind").mean("age")["age"].tolist() == found["age"].tolist()
    assert (
        ds.groupby("kind").size()["count"].tolist()
        == ds.groupby("kind").count()["count"].tolist()
        == [7, 6, 6, 1]
    )
    stored = found.materialize(f"mem://together-{next(NUMBER)}")
    assert (stored["kind"].tolist(), stored["n"].tolist()) == (["cat", "dog", "emu", None], [7, 6, 6, 1])
    assert [row["kind"] for row in found.shown_rows()] == ["cat", "dog", "emu", None]
    plain = ds.query("SELECT kind, count(*) AS n GROUP BY kind")
    assert plain[0]["kind"].numpy().shape == (7, 1)  # the language's own answer, row by row
    assert sorted(map(str, plain["kind"].tolist())) == ["None", "cat", "dog", "emu"]
    with pytest.raises(InvalidInputError, match="not a reduction of a column"):
        ds.groupby("kind").agg({"age": "mode"})
    with pytest.raises(AttributeError, match="groups have no 'mode'"):
        ds.groupby("kind").mode("age")


def test_results_are_grouped_and_asked_again(ds: lakebed.Dataset) -> None:
    result = ds.query("SELECT age % 3 AS rest, score")
    found = result.groupby("rest").agg({"score": "max"})
    assert found["rest"].tolist()[:3] == [0, 1, 2]
    again = found.query("SELECT rest, score WHERE score > ?", parameters=[4.6])
    assert all(score > 4.6 for score in again["score"].tolist())
    paired = ds.query(
        'SELECT d.name AS name, f.score AS most FROM "d" AS d JOIN "f" AS f ON d.age = f.rest',
        named={"d": ds, "f": found},
    )
    assert set(paired["name"].tolist()) == {row["name"] for row in ROWS if row["age"] in (0, 1, 2)}


def test_a_function_that_opens_what_a_query_names(ds: lakebed.Dataset) -> None:
    """It is called once for an address, and nothing else is opened."""
    asked: list[str] = []

    def opened(address: str) -> lakebed.Dataset:
        asked.append(address)
        if address != "d@main":
            raise InvalidInputError("not this one")
        return ds

    text = 'SELECT a.name FROM "d@main" AS a JOIN "d@main" AS b ON a.age = b.age WHERE a.age = 1'
    assert len(ds.query(text, named=opened)) == sum(row["age"] == 1 for row in ROWS) ** 2
    assert asked == ["d@main"]
    for other in ('SELECT * FROM "mem://other"', "SELECT * FROM DIFF(\"mem://other\", 'a', 'b')"):
        with pytest.raises(InvalidInputError, match="not this one"):
            ds.query(other, named=opened)


# -- values of a column ----------------------------------------------------------------------------------------------


def test_values_of_columns(ds: lakebed.Dataset) -> None:
    ages = [row["age"] for row in ROWS if row["age"] is not None]
    age = ds["age"]
    assert (age.min(), age.max(), age.sum(), age.nunique()) == (
        min(ages),
        max(ages),
        sum(ages),
        len(set(ages)),
    )
    assert age.std() == pytest.approx(np.std(ages))
    assert (np.mean(age), np.max(age)) == (pytest.approx(np.mean(ages)), max(ages))
    assert age.unique() == list(dict.fromkeys(ages))
    assert ds["kind"].value_counts() == {"cat": 7, "dog": 6, "emu": 6}
    assert ds["kind"].unique() == ["cat", "emu", "dog"]
    assert (ds["name"].min(), ds["name"].max()) == ("n0", "n9")
    assert ds["vec"].max(axis=0).tolist() == [19, 1, 0]
    assert np.sum(ds["vec"], axis=0).tolist() == [190, 20, -190]
    assert (ds["vec"].min(), ds["vec"].mean()) == (-19, pytest.approx(1 / 3))
    assert ds["vec"].astype("int64").tolist()[2] == [2, 1, -2]
    assert ds["vec"].tolist()[2] == [2, 1, -2]
    assert [ds[:0]["age"].min(), ds[:0]["age"].sum()] == [None, 0]
    with pytest.raises(InvalidInputError, match="there is no mean of texts"):
        ds["name"].mean()
    assert {"value_counts", "isna", "mean"} <= set(dir(age))


def test_sums_do_not_overflow() -> None:
    """As those of queries; floats of few bits are summed up in many."""
    ds = lakebed.empty(f"mem://together-{next(NUMBER)}")
    for dtype, values in (
        ("int64", [2**62, 2**62, 2**62 + 1, -1]),
        ("int64", [-(2**63), -(2**63), -1, 5]),
        ("uint64", [2**64 - 1, 2**64 - 1, 3, 0]),
        ("float16", [60_000.0, 60_000.0, 0.25, 60_000.0]),
        ("float32", [2.0**24, 1.0, 1.0, 1.0]),
    ):
        ds["x"] = np.array(values, dtype)
        assert ds["x"].sum() == sum(values)
        assert ds["x"].mean() == pytest.approx(sum(values) / 4)
        assert ds["x"].std() == pytest.approx(np.std(np.array(values, "float64")))
        del ds["x"]


def test_functions_of_numpy_take_the_array() -> None:
    """They ask for methods of their name: labels are numbers for them, and results are NumPy's own scalars."""
    ds = lakebed.empty(f"mem://together-{next(NUMBER)}")
    ds.create_tensor("kind", htype="class_label", class_names=["a", "b", "c"]).extend([2, 1, 2])
    ds.create_tensor("x", dtype="float32").extend(np.arange(6, dtype="float32").reshape(3, 2))
    ds.create_tensor("n", dtype="int16").extend([300, 7, 300])
    photo = ds.create_tensor("photo", htype="image", sample_compression="png")
    photo.extend([np.full((2, 2, 3), i, np.uint8) for i in (250, 251, 252)])
    for tensor in ds.tensors.values():
        array = tensor.numpy()
        for function in (np.max, np.min, np.mean, np.sum, np.std):
            found = function(tensor)
            assert isinstance(found, np.generic)
            assert found == pytest.approx(function(array))
    assert (ds["kind"].max(), type(ds["n"].sum()), ds["photo"].sum()) == ("c", int, 9036)
    empty = ds.create_tensor("empty", dtype="int64")
    assert (empty.max(), np.sum(empty)) == (None, 0)
    with pytest.raises(ValueError, match="zero-size"):
        np.max(empty)


def test_values_of_pictures_and_of_many_labels() -> None:
    ds = lakebed.empty(f"mem://together-{next(NUMBER)}")
    ds.create_tensor("photo", htype="image", sample_compression="png")
    ds.create_tensor("tags", htype="class_label", class_names=["a", "b", "c"])
    photos = [np.full((4, 5 + i, 3), 40 * i, np.uint8) for i in range(4)]
    ds.extend({"photo": [*photos, None], "tags": [["a", "b"], ["a"], [], ["c", "a"], None]})
    flat = np.concatenate([photo.ravel() for photo in photos])
    photo = ds["photo"]
    assert (photo.min(), photo.max(), photo.sum()) == (0, 120, flat.sum())
    assert (photo.mean(), photo.std()) == (pytest.approx(flat.mean()), pytest.approx(flat.std()))
    assert photo.tolist()[1] == photos[1].tolist()
    assert photo.isna().numpy().tolist() == [False] * 4 + [True]
    assert ds["tags"].value_counts() == {"a": 3, "b": 1, "c": 1}
    assert (ds["tags"].unique(), ds["tags"].tolist()[0]) == (["a", "b", "c"], ["a", "b"])


# -- results used again ----------------------------------------------------------------------------------------------

PEOPLE: list[dict[str, Any]] = [
    {"id": 1, "age": 34, "city": "Paris", "born": dt.date(1990, 5, 1), "member": True},
    {"id": 2, "age": None, "city": "Berlin", "born": dt.date(1985, 11, 23), "member": False},
    {"id": 3, "age": 28, "city": None, "born": dt.date(1996, 2, 29), "member": True},
    {"id": 4, "age": 51, "city": "Paris", "born": dt.date(1973, 7, 14), "member": None},
    {"id": 5, "age": 34, "city": "Rome", "born": None, "member": False},
    {"id": 6, "age": 19, "city": "Berlin", "born": dt.date(2005, 1, 1), "member": True},
]


def test_rows_of_results_are_what_those_of_datasets_are() -> None:
    ds = made(PEOPLE)
    pairs = ds.join(ds[["id", "born"]], on="id")
    assert pairs[0].to_dict() == {**PEOPLE[0], "born_right": PEOPLE[0]["born"]}
    assert [pairs[i].to_dict()["member"] for i in range(6)] == [row["member"] for row in PEOPLE]
    assert "1990-05-01" in repr(pairs)
    assert "7425" not in repr(pairs) + pairs._repr_html_()
    assert (pairs["member"].mean(), len(pairs[pairs["member"]])) == (0.6, 3)
    told = pairs.describe()
    assert (told["born"]["max"], told["city"]["min"], told["age"]["nulls"]) == (
        dt.date(2005, 1, 1),
        "Berlin",
        1,
    )
    assert pairs.schema.types[:-1] == ds.schema.types
    counted = ds.groupby("city").agg({"age": "mean"}, n="size")
    assert counted[0].to_dict() == {"city": "Berlin", "age": 19.0, "n": 2}
    assert counted.describe()["city"]["nulls"] == 1
    photos = made([{"id": 1, "v": [1, 2]}, {"id": 2, "v": [3]}]).join(ds, on="id")
    assert isinstance(photos[0].to_dict()["v"], np.ndarray)


@pytest.mark.parametrize("key", ["age", "born", "member", "city", "kind"])
def test_groups_of_what_is_missing_stay_missing_where_they_are_chosen(key: str) -> None:
    ds = made(PEOPLE)
    ds.add_column(
        "kind", ["cat", None, "dog", "cat", None, "dog"], htype="class_label", class_names=["cat", "dog"]
    )
    counted = ds.groupby(key).agg(n="size")
    expected = counted[key].tolist()
    assert expected[-1] is None
    for again in (counted[counted["n"] > 0], counted.sort("n"), counted.query("SELECT *")):
        assert set(again[key].tolist()) == set(expected)
    assert (counted[key].isna().sum(), len(counted.dropna(key))) == (1, len(expected) - 1)


def test_first_and_last_of_groups_are_values() -> None:
    found = made(PEOPLE).groupby("city").agg({"born": ["first", "last"], "age": "first", "member": "last"})
    assert found.to_dict() == {
        "city": ["Berlin", "Paris", "Rome", None],
        "born_first": [PEOPLE[1]["born"], PEOPLE[0]["born"], None, PEOPLE[2]["born"]],
        "born_last": [PEOPLE[5]["born"], PEOPLE[3]["born"], None, PEOPLE[2]["born"]],
        "age": [None, 34, 34, 28],
        "member": [True, None, False, True],
    }


def test_groups_as_pandas_asks_for_them() -> None:
    ds = made(PEOPLE)
    assert ds.groupby("city")["age"].mean().to_dict() == ds.groupby("city").mean("age").to_dict()
    assert ds.groupby("city")[["age", "id"]].max()["id"].tolist() == [6, 4, 5, 3]
    groups = ds.groupby("city")
    for wrong, told in (
        (lambda: groups.mean(), "name the columns"),
        (lambda: groups.agg("mean"), "agg takes {column: reduction}"),
        (lambda: groups.agg({"age": np.mean}), "a function is called with each group"),
        (
            lambda: groups.agg({"age": ["min", max]}),
            "is not a reduction of a column, <built-in function max>",
        ),
        (lambda: groups.agg({"born": "mean"}), "no mean of dates and times, 'born'"),
        (lambda: ds.groupby(ds["age"] > 30), "groupby takes names of columns"),
        (lambda: ds.groupby(lambda row: row["age"]), "groupby takes names of columns"),
        (lambda: ds.groupby("city").size().filter(len), "filtered by an expression or a condition"),
        (lambda: ds.join({"id": [1]}, on="id"), "of a dataset or a result, not of dict"),
        (lambda: ds.sort(lambda row: row["age"]), "sort takes names of columns"),
        (lambda: ds.sort(ds["age"]), "sort takes names of columns"),
        (lambda: ds.train_test_split(0.5, stratify="city", group="id"), "not both"),
    ):
        with pytest.raises(InvalidInputError) as error:
            wrong()
        assert told in str(error.value)


def test_groups_of_lists_are_reduced_over_all_numbers() -> None:
    ds = made([{"k": "a", "v": [1.0, 3.0]}, {"k": "a", "v": [5.0, 7.0]}, {"k": "b", "v": [0.5, 1.5]}])
    for rows in (ds, ds.query("SELECT k, v")):
        assert rows.groupby("k").agg({"v": ["mean", "sum"]}).to_dict() == {
            "k": ["a", "b"],
            "v_mean": [4.0, 1.0],
            "v_sum": [16.0, 2.0],
        }


def test_a_column_that_both_sides_have_twice_is_not_lost() -> None:
    left, right = made([{"k": "a", "x": 1, "x_right": 2}]), made([{"k": "a", "x": 3}])
    with pytest.raises(QueryError, match="x_right"):
        left.join(right, on="k").to_dict()


def test_lists_of_dates_in_groups_are_such() -> None:
    days = [dt.date(2020, 1, 2), None, dt.date(2021, 1, 2), dt.date(2022, 1, 2)]
    times = [None, dt.timedelta(1), dt.timedelta(2), dt.timedelta(3)]
    ds = lakebed.from_rows(
        "mem://dates-in-groups",
        [{"k": k, "day": d, "t": t} for k, d, t in zip("aabb", days, times, strict=True)],
    )
    found = ds.groupby("k").agg({"day": "list", "t": ["list", "first"]})

    assert found["day"].tolist() == [days[:2], days[2:]]
    assert found.to_list()[0] == {"k": "a", "day": days[:2], "t_list": times[:2], "t_first": None}
    assert found.to_list() == [row.to_dict() for row in found]
    assert "[datetime.date(2021, 1, 2), " in repr(found)
    assert [v.tolist() for v in ds.query("SELECT day GROUP BY k").day.values()[1]] == [[18629], [18994]]
