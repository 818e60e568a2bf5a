"""What a row gives is used like the value that is stored, wherever the row comes from, and is a tensor as in 3.x."""

from __future__ import annotations

import copy
import datetime as dt
import io
import itertools
import json
import math
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import lakebed
from lakebed.errors import InvalidInputError
from lakebed.reading.samples import SampleReader

NUMBER = itertools.count()


def png(level: int) -> Any:
    file = io.BytesIO()
    Image.fromarray(np.full((4, 6, 3), level, np.uint8)).save(file, "png")
    return lakebed.read(file.getvalue())


def filled(ds: lakebed.Dataset, folder: Path) -> lakebed.Dataset:
    kinds = [
        ("age", {"dtype": "int64"}),
        ("weight", {"dtype": "float64"}),
        ("ok", {"dtype": "bool"}),
        ("name", {"htype": "text"}),
        ("kind", {"htype": "class_label", "class_names": ["cat", "dog"]}),
        ("kinds", {"htype": "class_label", "class_names": ["cat", "dog"]}),
        ("other", {"htype": "class_label", "class_names": ["dog", "cat"]}),
        ("doc", {"htype": "json"}),
        ("things", {"htype": "list"}),
        ("vec", {"dtype": "float32"}),
        ("image", {"htype": "image", "sample_compression": "png"}),
        ("steps", {"htype": "sequence"}),
        ("link", {"htype": "link[image]", "sample_compression": "png"}),
        ("gone", {"dtype": "int64"}),
        ("g/x", {"dtype": "int32"}),
    ]
    for name, settings in kinds:
        ds.create_tensor(name, **settings)
    (folder / "a.png").write_bytes(bytes(png(7).buffer))
    for i in range(4):
        row = {
            "age": i,
            "weight": i / 2,
            "ok": i % 2 == 0,
            "name": f"tom{i}",
            "kind": i % 2,
            "kinds": [0, 1][: i % 3],
            "other": 0,
            "doc": {"a": i, "b": [1, 2]},
            "things": [i, "x"],
            "vec": np.arange(3, dtype=np.float32) + i,
            "image": png(i),
            "steps": [np.full(2, i), np.full(2, i + 1)],
            "link": lakebed.link(str(folder / "a.png")),
            "gone": None if i == 2 else i,
            "g/x": i,
        }
        ds.append(row)
    return ds


@pytest.fixture(scope="module")
def ds(tmp_path_factory: pytest.TempPathFactory) -> lakebed.Dataset:
    return filled(lakebed.empty(f"mem://one-row-{next(NUMBER)}"), tmp_path_factory.mktemp("linked"))


def of_loop(ds: Any, row: int, use: Callable[[Any], Any]) -> Any:
    return next(use(one) for i, one in enumerate(ds) if i == row)


def of_index(ds: Any, row: int, use: Callable[[Any], Any]) -> Any:
    return use(ds[row])


def of_view(ds: Any, row: int, use: Callable[[Any], Any]) -> Any:
    return use(ds[[0, row]][1])


def of_filter(ds: Any, row: int, use: Callable[[Any], Any]) -> Any:
    found: list[Any] = []
    ds[[row]].filter(lambda one: bool(found.append(use(one)) or True), progressbar=False)
    return found[0]


def of_compute(ds: Any, row: int, use: Callable[[Any], Any]) -> Any:
    found: list[Any] = []
    out = lakebed.empty(f"mem://one-row-{next(NUMBER)}")
    out.create_tensor("x")

    @lakebed.compute
    def function(sample_in: Any, sample_out: Any) -> None:
        found.append(use(sample_in))
        sample_out.append({"x": 1})

    function().eval(ds[[row]], out, scheduler="serial", progressbar=False)
    return found[0]


def of_map(ds: Any, row: int, use: Callable[[Any], Any]) -> Any:
    found: list[Any] = []
    out = lakebed.empty(f"mem://one-row-{next(NUMBER)}")
    out.create_tensor("x")

    def function(one: dict[str, Any]) -> dict[str, Any]:
        found.append(use(one))
        return {"x": 1}

    ds[[row]].map(function, out, scheduler="serial", progressbar=False)
    return found[0]


VIEWS = [of_loop, of_index, of_view, of_filter, of_compute]
EVERYWHERE = [*VIEWS, of_map]

USES: list[tuple[Callable[[Any], Any], Any]] = [
    (lambda row: int(row["age"]), 3),
    (lambda row: float(row["weight"]), 1.5),
    (lambda row: bool(row["ok"]), False),
    (lambda row: row["age"] > 2, True),
    (lambda row: row["age"] == 3, True),
    (lambda row: row["age"] != 3, False),
    (lambda row: 3 <= row["age"] < 4, True),
    (lambda row: row["age"] + 1, 4),
    (lambda row: 10 - row["age"], 7),
    (lambda row: 2 * row["age"] / 4, 1.5),
    (lambda row: (7 // row["age"], row["age"] // 2, 7 % row["age"], row["age"] % 2), (2, 1, 1, 1)),
    (lambda row: (row["age"] ** 2, 2 ** row["age"], divmod(row["age"], 2)), (9, 8, (1, 1))),
    (lambda row: (-row["age"], +row["age"], abs(row["age"] - 5)), (-3, 3, 2)),
    (lambda row: (round(row["weight"]), round(row["weight"] + 0.06, 1)), (2, 1.6)),
    (lambda row: math.sqrt(row["age"] + 1), 2.0),
    (lambda row: ["a", "b", "c", "d"][int(row["age"])], "d"),
    (lambda row: (f"{row['age']:03d}", f"{row['weight']:.2f}", f"{row['name']}"), ("003", "1.50", "tom3")),
    (lambda row: (str(row["name"]), f"{row['age']}"), ("tom3", "3")),
    (lambda row: row["age"] + row["weight"], 4.5),
    (lambda row: (row["age"] > row["weight"], row["age"] == row["g/x"], row["age"] != row["g/x"]), (True, True, False)),
    (lambda row: row["name"] == "tom3", True),
    (lambda row: (row["name"].upper(), row["name"] + "!", "om" in row["name"]), ("TOM3", "tom3!", True)),
    (lambda row: (row["kind"] == "dog", row["kind"] == "cat", row["kind"] == 1), (True, False, True)),
    (lambda row: (["x", "y"][int(row["kind"])], f"{row['kind']}", int(row["kind"])), ("y", "dog", 1)),
    (lambda row: {1: "one"}[row["kind"]], "one"),
    (lambda row: {"tom3": "found"}[row["name"]], "found"),
    (lambda row: row["doc"]["b"][1], 2),
    (lambda row: ("a" in row["doc"], row["doc"] == {"a": 3, "b": [1, 2]}), (True, True)),
    (lambda row: (row["things"] == [3, "x"], "x" in row["things"], row["things"][0] == 3), (True, True, True)),
    (lambda row: (row["vec"] > 4).tolist(), [False, False, True]),
    (lambda row: row["vec"] @ np.ones(3), 12.0),
    (lambda row: np.ones(3) @ row["vec"], 12.0),
    (lambda row: (row["vec"] + row["vec"]).tolist(), [6.0, 8.0, 10.0]),
    (lambda row: (np.arange(3) + row["vec"]).tolist(), [3.0, 5.0, 7.0]),
    (lambda row: (row["vec"].mean(), row["vec"][1] + 1, 4 in row["vec"]), (4.0, 5.0, True)),
    (lambda row: (row["image"][0:2, 0:3] > 2).shape, (2, 3, 3)),
    (lambda row: (row["image"].mean(), row["image"].T.shape, row["image"].shape), (3.0, (3, 6, 4), (4, 6, 3))),
    (lambda row: row["link"].max(), 7),
    (lambda row: (np.sqrt(row["age"] + 1), np.asarray(row["age"]).item()), (2.0, 3)),
    (lambda row: row["gone"] + 1, 4),
    (lambda row: [len(row[name]) for name in ("name", "vec", "image", "link", "steps")], [4, 3, 4, 4, 2]),
    (lambda row: [len(row[name]) for name in ("doc", "things", "kinds", "age", "kind")], [2, 2, 0, 1, 1]),
    (lambda row: [len(row[name][:2]) for name in ("vec", "image", "steps")], [2, 2, 2]),
    (lambda row: ("age" in row, "nope" in row, row.get("nope", 5), row.get("age") == 3), (True, False, 5, True)),
    (lambda row: (list(row.keys())[:2], len(row.values()), len(row.items())), (["age", "weight"], 15, 15)),
    (lambda row: {**row, "age": 9}["name"], "tom3"),
]  # fmt: skip


@pytest.mark.parametrize("way", EVERYWHERE, ids=lambda way: way.__name__)
def test_it_is_used_like_the_value(ds: lakebed.Dataset, way: Callable[..., Any]) -> None:
    found = [way(ds, 3, use) for use, _ in USES[:1]]
    for use, expected in USES:
        found = way(ds, 3, use)
        assert found == expected, (use.__code__.co_firstlineno, found)
        assert isinstance(found, np.bool_) or type(found) is not type(ds.age[0])


@pytest.mark.parametrize("way", EVERYWHERE, ids=lambda way: way.__name__)
def test_labels_have_names(ds: lakebed.Dataset, way: Callable[..., Any]) -> None:
    assert way(ds, 2, lambda row: ("dog" in row["kinds"], "cow" in row["kinds"], 1 in row["kinds"])) == (
        True,
        False,
        True,
    )
    assert way(ds, 2, lambda row: (row["kinds"] == "dog").tolist()) == [False, True]
    assert way(ds, 2, lambda row: (row["kind"] == row["other"], row["kind"] == row["kind"])) == (False, True)
    assert way(ds, 3, lambda row: (row["kind"] == row["other"], row["kind"] == int(row["other"]))) == (
        True,
        False,
    )
    assert way(ds, 2, lambda row: (row["kinds"][0] == 0, row["kind"] < "dog")) == (True, True)


@pytest.mark.parametrize("way", VIEWS, ids=lambda way: way.__name__)
def test_it_is_a_tensor_as_in_3x(ds: lakebed.Dataset, way: Callable[..., Any]) -> None:
    def use(row: Any) -> Any:
        assert isinstance(row["age"], lakebed.Tensor)
        assert (row.age.numpy().tolist(), row.age.shape, row.age.dtype) == ([3], (1,), np.int64)
        assert (row["name"].text(), row.name.data()) == ("tom3", {"value": "tom3"})
        assert row["kind"].data() == {"value": np.array([1]), "text": ["dog"]}
        assert (row.doc.dict(), row.things.list()) == ({"a": 3, "b": [1, 2]}, [3, "x"])
        assert (row["g"]["x"].numpy().tolist(), row.g.x.numpy().tolist()) == ([3], [3])
        assert (row.image.numpy().shape, bool(row.image), bool(row["kinds"])) == ((4, 6, 3), True, True)
        assert str(row["age"]) == "Tensor(key='age', index=Index([3]))" or way in (
            of_view,
            of_filter,
            of_compute,
        )
        assert str(row["age"]).startswith("Tensor(key='age', index=")
        assert type(row["age"]).__name__ == "Tensor"
        assert str(row["vec"]).startswith("Tensor(key='vec', index=")
        assert str(row["vec"][0]).startswith("Tensor(key='vec', index=")
        assert row["age"] == row["age"]  # the same selection, as in 3.x
        assert not row["vec"] == ds.vec[0]  # noqa: SIM201
        assert (np.add(row["age"], 1).shape, (row["age"] * np.float32(2)).shape) == ((1,), (1,))
        assert (row["age"] == None, row["image"] == None, row["image"] != None) == (False, False, True)  # noqa: E711
        return True

    assert way(ds, 3, use)


@pytest.mark.parametrize("way", EVERYWHERE, ids=lambda way: way.__name__)
def test_a_missing_value_compares_as_false(ds: lakebed.Dataset, way: Callable[..., Any]) -> None:
    def use(row: Any) -> Any:
        gone = row["gone"]
        found = (
            gone > 0,
            gone == 0,
            gone != 0,
            gone <= 9,
            0 < gone,  # noqa: SIM300
            0 in gone,
            gone.between(0, 9),
            gone.isin([0]),
        )
        return found, gone.isna(), gone.notna(), row["age"].isna(), bool(gone)

    assert way(ds, 2, use) == ((False,) * 8, True, False, False, False)
    assert way(ds, 2, lambda row: len(row["gone"])) == 0
    with pytest.raises(Exception, match="missing"):
        way(ds, 2, lambda row: int(row["gone"]))


@pytest.mark.parametrize("way", EVERYWHERE, ids=lambda way: way.__name__)
def test_dates_and_times_are_such(way: Callable[..., Any]) -> None:
    born, day, long = dt.datetime(2020, 1, 2, 3), dt.date(2020, 1, 2), dt.timedelta(hours=2)  # noqa: DTZ001
    row = {"born": born, "day": day, "long": long, "gone": None}
    dates = lakebed.from_rows(f"mem://one-row-{next(NUMBER)}", [row, {**row, "gone": born}])

    def use(row: Any) -> Any:
        years = row["born"].year, row["day"].year, row["long"].total_seconds()
        return years, row["born"] == born, row["day"] < day, row["gone"].isna(), row["born"] + row["long"]

    assert way(dates, 0, use) == ((2020, 2020, 7200), True, False, True, born + long)
    assert way(dates, 1, lambda row: (row["gone"] == born, row["gone"].isna())) == (True, False)


def test_what_is_missing_is_not_computed_with(ds: lakebed.Dataset) -> None:
    row = ds[2]
    for use in (
        lambda: row["gone"] + 1,
        lambda: 1 - row["gone"],
        lambda: -row["gone"],
        lambda: [0, 1][int(row["gone"])],
        lambda: row["gone"] * np.ones(1),
    ):
        with pytest.raises(InvalidInputError, match=r"'gone'.* is missing.*\.isna\(\)"):
            use()
    assert (f"{row['gone']}", row.to_dict()["gone"]) == ("None", None)


def test_null_stays_null_in_what_map_makes(ds: lakebed.Dataset) -> None:
    out = lakebed.empty(f"mem://one-row-{next(NUMBER)}")

    def function(row: dict[str, Any]) -> dict[str, Any]:
        return {"same": row["gone"], "kind": row["kind"], "half": row["weight"] / 2}

    ds.map(function, out, progressbar=False)

    for use in (lambda row: row["gone"] * 2, lambda row: np.sqrt(row["gone"])):
        with pytest.raises(lakebed.errors.TransformError, match="is missing"):
            ds.map(lambda row, use=use: {"x": use(row)}, progressbar=False)
    assert [row["same"] for row in out.rows()] == [0, 1, None, 3]
    assert out.kind.numpy().ravel().tolist() == [0, 1, 0, 1]
    assert (out.half.dtype, out.same.dtype) == (np.float64, np.int64)


def test_dictionaries_hold_plain_values(ds: lakebed.Dataset) -> None:
    row = ds[3]
    plain = row.to_dict()

    for found in (dict(row), {**row}, dict(row.items()), dict(zip(row.keys(), row.values(), strict=True))):
        assert list(found) == list(plain)
        assert [type(value) for value in found.values()] == [type(value) for value in plain.values()]
    assert (
        json.loads(json.dumps({k: v for k, v in {**row}.items() if isinstance(v, int | str)}))["kind"]
        == "dog"
    )
    assert {type(key) for key in copy.deepcopy(dict(row))} == {
        type(key) for key in pickle.loads(pickle.dumps({**row}))
    }
    assert {type(key) for key in copy.deepcopy(dict(row))} == {str}
    assert dict(row["g"]) == {"x": 3}
    assert [row[key] for key in row.keys()][:4] == [3, 1.5, False, "tom3"]  # noqa: SIM118


def test_whole_datasets_are_no_dictionaries(ds: lakebed.Dataset) -> None:
    assert not any(hasattr(ds[:2], name) for name in ("items", "get"))
    assert list(ds[:2].keys()) == list(ds.tensors)
    with pytest.raises(TypeError):
        int(ds.age)
    with pytest.raises(TypeError):
        _ = ds.age + 1


def test_a_tensor_comes_before_the_method_of_its_name() -> None:
    ds = lakebed.empty(f"mem://one-row-{next(NUMBER)}")
    for name in ("values", "items", "get"):
        ds.create_tensor(name).append(3)
    assert (ds[0].values.numpy().item(), ds[0].items + 1, ds[0].get == 3) == (3, 4, True)
    assert {**ds[0]} == {"values": 3, "items": 3, "get": 3}


def test_values_of_several_rows_are_put_together(ds: lakebed.Dataset) -> None:
    assert sum(row["age"] for row in ds) == 6
    assert max(ds, key=lambda row: row["age"])["name"] == "tom3"
    assert [str(row["name"]) for row in sorted(ds, key=lambda row: -row["age"])] == [
        "tom3",
        "tom2",
        "tom1",
        "tom0",
    ]
    assert min(row["name"] for row in ds) == "tom0"
    assert len({row["kind"] for row in ds}) == 2
    assert len(ds.filter(lambda row: row["age"] > 1 and row["kind"] == "dog", progressbar=False)) == 1
    assert len(ds.filter(lambda row: row["age"] == row["g/x"], progressbar=False)) == 4
    assert len(ds.filter(lambda row: row["ok"], progressbar=False)) == 2


def test_only_what_is_touched_is_read(ds: lakebed.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    value, values = SampleReader.value, SampleReader.values

    def one(self: SampleReader, row: int) -> Any:
        read.append(self.name)
        return value(self, row)

    def many(self: SampleReader, rows: Any) -> Iterator[Any]:
        read.append(self.name)
        return values(self, rows)

    monkeypatch.setattr(SampleReader, "value", one)
    monkeypatch.setattr(SampleReader, "values", many)
    for row in ds:
        row["image"], row["name"], row.get("doc"), row.keys()
    assert read == []
    assert [row["age"] > 1 for row in ds] == [False, False, True, True]
    assert read == ["age"] * 4
    assert len(ds.filter(lambda row: row["weight"] > 1, progressbar=False)) == 1
    assert read == ["age"] * 4 + ["weight"] * 4
    assert bool(ds[0]["image"])
    assert str(ds[0]["image"])
    assert set(read) == {"age", "weight"}


def test_what_is_written_while_one_iterates_is_read() -> None:
    ds = lakebed.empty(f"mem://one-row-{next(NUMBER)}")
    ds.create_tensor("age", dtype="int64").extend([1, 2, 3])
    found = []
    for row in ds:
        row["age"] += 10
        found.append(int(row["age"]))
    assert (found, ds.age.numpy().ravel().tolist()) == ([11, 12, 13], [11, 12, 13])


def test_rows_within_a_pipeline() -> None:
    ds = lakebed.empty(f"mem://one-row-{next(NUMBER)}")
    ds.create_tensor("x", dtype="int64").extend([1, 2])
    out = lakebed.empty(f"mem://one-row-{next(NUMBER)}")
    out.create_tensor("y", dtype="int64")

    @lakebed.compute
    def first(sample_in: Any, sample_out: Any) -> None:
        sample_out.append({"x": sample_in["x"] * 2, "name": "tom"})

    @lakebed.compute
    def second(sample_in: Any, sample_out: Any) -> None:
        assert {**sample_in}["name"] == sample_in["name"] == "tom"
        assert ("x" in sample_in, sample_in.get("nope", 4), list(sample_in.keys())) == (
            True,
            4,
            ["x", "name"],
        )
        sample_out.append({"y": sample_in["x"] + sample_in.x.numpy().item()})

    lakebed.compose([first(), second()]).eval(ds, out, scheduler="serial", progressbar=False)
    assert out.y.numpy().ravel().tolist() == [4, 8]


@pytest.mark.parametrize(
    "line",
    ["dict(row) == {'age': 3}", "row['age'] * 2 == 6", "f\"{row['age']}\" == '3'", "row['age'] in (3, 4)"],
)
def test_in_a_fresh_interpreter(line: str) -> None:
    made = "import lakebed\nds = lakebed.empty('mem://a')\nds.create_tensor('age').append(3)\nrow = ds[0]\n"
    subprocess.run([sys.executable, "-c", f"{made}assert {line}"], check=True)


def test_rows_are_filtered_by_their_lengths_and_samples_of_a_column_count_as_one(ds: lakebed.Dataset) -> None:
    assert len(ds.filter(lambda row: len(row["kinds"]) > 1, progressbar=False)) == 1
    assert [len(row["kinds"]) for row in ds] == [0, 1, 2, 0]
    assert [len(ds.kinds[i]) for i in range(4)] == [1, 1, 1, 1]
    assert [len(ds[3]["vec"][0:2]), len(ds.vec[3][0:2])] == [2, 1]


def test_pickles_as_the_tensor(tmp_path: Path) -> None:
    ds = lakebed.empty(tmp_path / "ds")
    ds.create_tensor("age", dtype="int64").append(3)
    ds.flush()
    again = pickle.loads(pickle.dumps(ds[0]["age"]))
    assert (again + 1, again.numpy().tolist()) == (4, [3])
    ds.create_tensor("name", htype="text").append("tom")
    ds.flush()
    assert [len(pickle.loads(pickle.dumps(one))) for one in (ds[0]["name"], ds.name[0])] == [3, 1]


def test_numpy_is_indexed_by_the_array_as_in_3x(ds: lakebed.Dataset) -> None:
    """An index of Python would drop the axis: ``names[ds.label[i]][0]`` would be the first letter of a name."""
    names = np.array(["cat", "dog"])
    assert names[ds.kind[1]].tolist() == ["dog"]
    assert names[ds.kind[1]][0] == "dog"
