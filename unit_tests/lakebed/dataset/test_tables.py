"""A dataset as a table of Arrow, pandas, polars and DuckDB: names, nulls, files, and the shortest spellings."""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from PIL import Image

import lakebed
from lakebed.errors import InvalidInputError, InvalidOperationError, TensorDoesNotExistError
from lakebed.reading.columns.shown import Names

NUMBER = itertools.count()
BIG = 2**60 + 1
"""A float cannot hold it."""

ROWS: dict[str, list[Any]] = {
    "n": [BIG, None, 3, 4],
    "f": [0.5, None, 1.5, 2.5],
    "flag": [True, None, False, True],
    "word": ["a", None, "", "d"],
    "animal": ["cat", "dog", None, "cat"],
    "tags": [["cat", "dog"], [], None, ["dog"]],
    "when": [0, 1_000_000, None, 2_000_000],
}


@pytest.fixture
def ds() -> lakebed.Dataset:
    ds = lakebed.empty(f"mem://tables-{next(NUMBER)}")
    ds.create_tensor("n", dtype="int64")
    ds.create_tensor("f", dtype="float64")
    ds.create_tensor("flag", dtype="bool")
    ds.create_tensor("word", htype="text")
    ds.create_tensor("animal", htype="class_label", class_names=["cat", "dog"])
    ds.create_tensor("tags", htype="class_label", class_names=["cat", "dog"])
    ds.create_tensor("g/when", dtype="int64")
    ds["g/when"].info["logical_type"] = "timestamp[us]"
    ds.extend({("g/when" if name == "when" else name): values for name, values in ROWS.items()})
    return ds


def expected(rows: list[int]) -> dict[str, list[Any]]:
    found = {name: [values[row] for row in rows] for name, values in ROWS.items() if name != "when"}
    moments = [ROWS["when"][row] for row in rows]
    return found | {"g/when": pa.array(moments, pa.timestamp("us")).to_pylist()}


def test_arrow_holds_names_moments_and_nulls(ds: lakebed.Dataset) -> None:
    table = ds.to_arrow()

    table.validate(full=True)
    assert table.to_pydict() == expected([0, 1, 2, 3])
    assert table.schema.field("animal").type == pa.dictionary(pa.int32(), pa.string())
    assert table.schema.field("tags").type == pa.list_(pa.dictionary(pa.int32(), pa.string()))
    assert table.schema.field("g/when").type == pa.timestamp("us")


@pytest.mark.parametrize("rows", [[1, 2], [3, 0, 0], [2], []], ids=str)
def test_rows_are_chosen_by_indexing(ds: lakebed.Dataset, rows: list[int]) -> None:
    assert ds[rows].to_arrow().to_pydict() == expected(rows)
    assert ds[rows]["animal"].to_arrow().to_pylist() == expected(rows)["animal"]


def test_tensors_groups_and_numbers_are_chosen(ds: lakebed.Dataset) -> None:
    assert ds.to_arrow(tensors=["word", "n"]).column_names == ["word", "n"]
    assert ds.g.to_arrow().column_names == ["when"]
    assert ds.to_arrow(["animal"], labels="numbers")["animal"].to_pylist() == [0, 1, None, 0]
    assert pa.table(ds)["animal"].to_pylist() == ["cat", "dog", None, "cat"]
    with pytest.raises(TensorDoesNotExistError, match="did you mean 'animal'"):
        ds.to_arrow(["animals"])
    with pytest.raises(InvalidInputError, match="'names' or 'numbers'"):
        ds.to_pandas(labels="words")  # type: ignore[arg-type]


def test_pandas_rounds_nothing(ds: lakebed.Dataset) -> None:
    frame = ds.to_pandas()

    assert frame["n"].dtype == "Int64"
    assert frame["n"].iloc[0] == BIG
    assert frame["n"].isna().tolist() == [False, True, False, False]
    assert frame["flag"].dtype == "boolean"
    assert frame["f"].dtype == "float64"
    assert frame["animal"].cat.categories.tolist() == ["cat", "dog"]
    assert frame["animal"].isna().tolist() == [False, False, True, False]
    assert frame["g/when"].dtype.kind == "M"
    assert list(frame.columns) == list(ds.tensors)
    assert ds[2:].to_pandas()["n"].dtype == "int64"
    series = ds.animal[:2].to_pandas()
    assert (series.name, series.tolist()) == ("animal", ["cat", "dog"])


def test_polars_has_categories(ds: lakebed.Dataset) -> None:
    frame = ds.to_polars()

    assert frame["n"].to_list() == ROWS["n"]
    assert frame["animal"].dtype == pl.Categorical
    assert frame["animal"].to_list() == ROWS["animal"]
    assert ds.n.to_polars().to_list() == ROWS["n"]


def test_duckdb_queries_read_anew(ds: lakebed.Dataset) -> None:
    rows = ds.to_duckdb()
    query = "select animal, count(*) from rows group by animal order by animal"

    assert rows.query("rows", query).fetchall() == [("cat", 2), ("dog", 1), (None, 1)]
    assert rows.filter("n = 3").fetchall()[0][0] == 3
    with duckdb.connect() as connection:
        assert ds.n.to_duckdb(connection=connection).fetchall()[0] == (BIG,)


def test_the_shortest_spellings(ds: lakebed.Dataset) -> None:
    plain = ds[["n", "f", "flag", "word"]]
    wanted = {name: ROWS[name] for name in ("n", "f", "flag", "word")}

    assert pa.table(plain).to_pydict() == wanted
    assert pl.DataFrame(plain).to_dict(as_series=False) == wanted
    assert pl.from_arrow(plain).struct.unnest().to_dict(as_series=False) == wanted  # type: ignore[union-attr]
    assert duckdb.sql("from plain").fetchall() == list(zip(*wanted.values(), strict=True))
    frame = pd.DataFrame(plain[["f", "word"]])
    words = [None if pd.isna(word) else word for word in frame["word"]]  # NaN of pandas 3
    assert (words, frame["f"].tolist()[0]) == (wanted["word"], wanted["f"][0])
    assert np.asarray(plain).tolist() == plain.to_list()
    with pytest.raises(TypeError, match=r"write ds\.to_pandas\(\).*ds\.batches"):
        np.asarray(plain, float)


LABELS: dict[str, list[Any]] = {
    "single, with nulls": ["cat", None, "dog", "cat", "dog"],
    "one list each": [["dog"], ["cat"], ["cat"], ["dog"], ["dog"]],
    "two each": [["dog", "cat"], ["cat", "cat"], ["dog", "dog"], ["cat", "dog"], ["dog", "dog"]],
    "two each, with nulls": [["dog", "cat"], None, ["dog", "dog"], ["cat", "dog"], None],
    "uneven": [["dog"], [], ["cat", "dog", "cat"], None, ["dog", "cat"]],
}
TOOLS: dict[str, Callable[[lakebed.Dataset], list[Any]]] = {
    "duckdb": lambda ds: [row[0] for row in duckdb.sql("from ds").fetchall()],
    "polars": lambda ds: pl.DataFrame(ds)["x"].to_list(),
    "arrow": lambda ds: pa.table(ds)["x"].to_pylist(),
    "to_duckdb": lambda ds: [row[0] for row in ds.to_duckdb().fetchall()],
    "to_polars": lambda ds: ds.to_polars()["x"].to_list(),
}


@pytest.mark.parametrize("rows", [slice(None), slice(1, None), [3, 0]], ids=str)
@pytest.mark.parametrize("kind", LABELS)
def test_labels_are_the_same_words_everywhere(kind: str, rows: Any) -> None:
    """DuckDB, polars and Arrow, by the shortest spellings and by name, show what pandas shows."""
    ds = lakebed.empty(f"mem://tables-{next(NUMBER)}")
    ds.create_tensor("x", htype="class_label", class_names=["cat", "dog"])
    ds.extend({"x": LABELS[kind]})
    chosen = range(5)[rows] if isinstance(rows, slice) else rows
    wanted = [LABELS[kind][row] for row in chosen]
    if kind == "one list each":  # as single labels are stored
        wanted = [word for (word,) in wanted]
    view = ds[rows]
    assert _plain(view) == wanted
    assert {name: tool(view) for name, tool in TOOLS.items()} == dict.fromkeys(TOOLS, wanted)


def _plain(ds: lakebed.Dataset) -> list[Any]:
    """Return what pandas shows, with lists in place of arrays and None in place of all its nulls."""
    words = [list(word) if isinstance(word, np.ndarray) else word for word in ds.to_pandas()["x"].tolist()]
    return [word if isinstance(word, list | str) else None for word in words]


def test_polars_makes_a_series_of_a_stream_as_the_page_says(ds: lakebed.Dataset) -> None:
    """docs/tables.md: a Series of structs from `pl.from_arrow`, data frames by two other spellings."""
    page = (Path(__file__).parents[3] / "docs/tables.md").read_text()
    said = "a Series of structs, as of every object that hands out an Arrow stream and is none of PyArrow's. "
    advice = "Write `pl.DataFrame(ds)` or `ds.to_polars()` for a data frame"
    assert f"| `pl.from_arrow(ds)` | {said}{advice} |" in page
    series = pl.from_arrow(ds)
    assert isinstance(series, pl.Series)
    assert isinstance(series.dtype, pl.Struct)
    reader = pa.table({"a": [1]}).to_reader()
    other = type(
        "Other", (), {"__arrow_c_stream__": lambda _, schema=None: reader.__arrow_c_stream__(schema)}
    )
    assert isinstance(pl.from_arrow(other()), pl.Series)
    frames = [pl.DataFrame(ds), ds.to_polars(), series.struct.unnest()]
    assert all(isinstance(frame, pl.DataFrame) for frame in frames)
    assert [frame.to_dict(as_series=False)["animal"] for frame in frames] == [ROWS["animal"]] * 3


def test_files_are_their_bytes_and_links_their_addresses(tmp_path: Any) -> None:
    file = io.BytesIO()
    Image.new("RGB", (5, 4), (200, 3, 3)).save(file, "png")
    path = tmp_path / "one.png"
    path.write_bytes(file.getvalue())
    ds = lakebed.empty("mem://tables-files")
    ds.create_tensor("image", htype="image", sample_compression="png")
    ds.create_tensor("frames", htype="sequence[image]", sample_compression="png")
    ds.create_tensor("linked", htype="link[image]", sample_compression="png")
    ds.append(
        {"image": lakebed.read(path), "frames": [lakebed.read(path)] * 2, "linked": lakebed.link(str(path))}
    )
    ds.append({"image": None, "frames": [], "linked": None})

    assert ds.to_arrow().to_pydict() == {
        "image": [file.getvalue(), None],
        "frames": [[file.getvalue()] * 2, []],
        "linked": [str(path), None],
    }
    arrays = ds.image.to_arrow(files="arrays").to_pylist()
    assert np.array(arrays[0]).shape == (4, 5, 3)
    assert arrays[1] is None


def test_what_is_stored_in_tiles_says_what_to_do() -> None:
    ds = lakebed.empty("mem://tables-tiles")
    ds.create_tensor("image", htype="image", sample_compression="png", tiling_threshold=1000)
    ds.image.append(np.random.default_rng(0).integers(0, 255, (100, 100, 3), np.uint8))

    with pytest.raises(InvalidOperationError, match='files="arrays"'):
        ds.to_arrow()


@pytest.mark.parametrize("numbers", [[0, 1], [1, None, 0], [None], [], [2, 0, 7, 2]], ids=str)
@pytest.mark.parametrize("start", [0, 1])
def test_numbers_beyond_the_names_stay_to_be_seen(numbers: list[int | None], start: int) -> None:
    array = pa.array([0, *numbers], pa.uint32()).slice(1)[start:]
    words = ["b", "a", "b"]
    wanted = [None if n is None else words[n] if n < 3 else str(n) for n in numbers]

    assert Names.of(words).named(array).to_pylist() == wanted[start:]


def test_labels_without_names_are_numbers() -> None:
    ds = lakebed.empty("mem://tables-unnamed")
    ds.create_tensor("label", htype="class_label")
    ds.label.extend([3, 4])

    assert ds.to_pandas()["label"].tolist() == [3, 4]


@pytest.mark.filterwarnings("ignore::lakebed.errors.UnusualSampleWarning")
def test_each_batch_may_have_words_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakebed.reading.columns.arrow.BATCH_ROWS", 2)
    ds = lakebed.empty("mem://tables-batches")
    ds.create_tensor("label", htype="class_label", class_names=["a"])
    ds.label.extend([0, 0, 0, 9, 8, 0])

    assert ds.to_pandas()["label"].tolist() == ["a", "a", "a", "9", "8", "a"]
    assert ds.to_polars()["label"].to_list() == ["a", "a", "a", "9", "8", "a"]
    assert ds.to_duckdb().fetchall() == [("a",), ("a",), ("a",), ("9",), ("8",), ("a",)]


def test_pandas_has_one_array_for_each_sample_of_several_axes() -> None:
    """Of every shape, whole, selected and of no elements."""
    ds = lakebed.empty("mem://pandas-axes", overwrite=True)
    ds.create_tensor("even")
    ds.create_tensor("boxes", htype="bbox")
    ds.create_tensor("image", htype="image", sample_compression="png")
    ds.create_tensor("flags", dtype="bool")
    even = [np.arange(64, dtype=np.uint8).reshape(8, 8) + i for i in range(3)]
    samples = {
        "even": [*even, None],
        "boxes": [*(np.full((i, 4), i, np.float32) for i in range(3)), None],
        "image": [*(np.full((4, 5, 3), i, np.uint8) for i in range(3)), None],
        "flags": [*(np.eye(2, i + 1, dtype=bool) for i in range(3)), None],
    }
    ds.extend(samples)
    for rows in (range(4), range(1, 3), [2, 0, 3]):
        frame = ds[list(rows)].to_pandas(files="arrays")
        for name, values in samples.items():
            for found, row in zip(frame[name], rows, strict=True):
                wanted = values[row]
                if wanted is None:
                    assert found is None
                else:
                    assert found.dtype == wanted.dtype
                    assert np.array_equal(found, wanted)
    assert ds[:3].to_pandas().even[1].mean() == even[1].mean()
    assert ds.to_pandas(["boxes"]).boxes[0].shape == (0, 4)
    assert ds.image.to_pandas(files="arrays")[1].shape == (4, 5, 3)
