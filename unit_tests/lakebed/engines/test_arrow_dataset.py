"""Scanners of Arrow over datasets: the rows of Arrow's own filters, and no more read than they need."""

from __future__ import annotations

import datetime as dt
import pickle
import random
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest

import lakebed
from lakebed.documents import chunk_statistics
from lakebed.engines import arrow_dataset
from lakebed.errors import InvalidInputError
from lakebed.reading.columns.shown import ShownColumn
from unit_tests import effort

ROWS = 400
START = dt.datetime(2026, 1, 1)  # noqa: DTZ001 - a column without a zone
F = pads.field


def columns(draw: random.Random) -> dict[str, list[Any]]:
    """Return columns whose values mostly ascend, so that stretches differ, with nulls, NaN and labels in runs."""
    return {
        "n": [None if draw.random() < 0.05 else i // 3 + draw.randrange(4) for i in range(ROWS)],
        "whole": [i - 200 for i in range(ROWS)],
        "x": [float("nan") if draw.random() < 0.02 else i / 7 for i in range(ROWS)],
        "label": [i // 90 for i in range(ROWS)],
        "t": [START + dt.timedelta(hours=i) for i in range(ROWS)],
        "text": [None if draw.random() < 0.1 else f"t{i % 11}" for i in range(ROWS)],
        "vector": [[float(i), -1.0] for i in range(ROWS)],
    }


def made(place: str | Path, draw: random.Random) -> lakebed.Dataset:
    values = columns(draw)
    ds = lakebed.empty(place)
    ds.create_tensor("n", dtype="int64")
    ds.create_tensor("whole", dtype="int16")
    ds.create_tensor("x", dtype="float64")
    ds.create_tensor("label", htype="class_label", class_names=["cat", "dog", "cat", "bird", "ant"])
    ds.create_tensor("t", dtype="int64")
    ds.t.info["logical_type"] = "timestamp[us]"
    ds.create_tensor("text", htype="text")
    ds.create_tensor("vector", dtype="float32")
    values["t"] = pa.array(values["t"], pa.timestamp("us"))  # type: ignore[assignment]
    for start in range(0, ROWS, 100):
        ds.extend({name: column[start : start + 100] for name, column in values.items()})
    ds.commit()
    return ds


@pytest.fixture
def pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_statistics, "PIECE", 8)


@pytest.fixture
def ds(tmp_path: Path, pieces: None) -> lakebed.Dataset:
    return made(tmp_path / "ds", random.Random(1))


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Count the rows that are read of each tensor."""
    counts: dict[str, int] = {}
    column, taken = ShownColumn.column, ShownColumn.taken

    def count(self: ShownColumn, rows: int) -> None:
        name = self.scan.reader.name
        counts[name] = counts.get(name, 0) + rows

    def counted_column(self: ShownColumn, start: int, stop: int) -> pa.Array:
        count(self, stop - start)
        return column(self, start, stop)

    def counted_taken(self: ShownColumn, rows: Any) -> pa.Array:
        count(self, len(rows))
        return taken(self, rows)

    monkeypatch.setattr(ShownColumn, "column", counted_column)
    monkeypatch.setattr(ShownColumn, "taken", counted_taken)
    return counts


def comparison(draw: random.Random) -> pads.Expression:
    """Draw a condition of one column."""
    name = draw.choice(["n", "whole", "x", "label", "t", "text"])
    value: Any = {
        "n": draw.randrange(140),
        "whole": draw.randrange(-210, 210),
        "x": draw.choice([draw.randrange(60), float("nan")]),
        "label": draw.choice(["cat", "bird", "ant", "no such"]),
        "t": pa.scalar(START + dt.timedelta(days=draw.randrange(20)), pa.timestamp("us")),
        "text": f"t{draw.randrange(12)}",
    }[name]
    kinds = [F(name) == value, F(name) != value, F(name).is_null(), F(name).is_valid()]
    if name not in ("label", "text"):
        kinds += [F(name) < value, F(name) >= value, F(name) <= value, F(name) > value]
    if name in ("n", "whole"):
        kinds += [
            F(name).isin([value, value + 9]),
            pc.add(F(name), 3) > value,
            F(name).cast("float64") > value,
        ]
    return draw.choice(kinds)


def condition(draw: random.Random, depth: int = 0) -> pads.Expression:
    if depth > 2 or draw.random() < 0.4:
        return comparison(draw)
    left, right = condition(draw, depth + 1), condition(draw, depth + 1)
    return draw.choice([left & right, left | right, ~left])


@pytest.mark.parametrize("most", [1 << 14, 7])
def test_any_filter_leaves_the_rows_that_arrow_would(
    tmp_path: Path, pieces: None, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(arrow_dataset, "_MOST_STRETCHES", most)
    draw = random.Random(effort.seed())
    ds = made(tmp_path / "ds", draw)
    ds.update_statistics()
    views: list[Any] = [ds, ds[50:300], ds[::3], ds[[7, 7, 399, 0]], ds[:0]]
    for _ in range(effort.examples(120)):
        view, where = draw.choice(views), condition(draw)
        chosen = draw.sample(["n", "x", "label", "t", "text", "vector", "whole"], draw.randrange(1, 5))
        want = view.to_arrow().filter(where).select(chosen)
        scanner = view.scanner(chosen, where, batch_size=draw.choice([1, 7, 100, 1 << 16]))
        found = scanner.to_table()
        assert found.schema.names == chosen
        for name in chosen:  # as texts: NaN equals nothing
            assert str(found[name].to_pylist()) == str(want[name].to_pylist()), (name, str(where))
        assert scanner.count_rows() == len(want), str(where)


def test_stretches_that_cannot_match_are_not_read(ds: lakebed.Dataset, reads: dict[str, int]) -> None:
    ds.query("SELECT * WHERE whole > 1000 OR n > 1000")  # collects the statistics of chunks
    reads.clear()
    assert ds.scanner(["text"], (F("whole") >= 96) & (F("whole") < 100)).to_table().num_rows == 4
    assert reads["whole"] <= 8
    assert reads["text"] <= 8
    reads.clear()
    assert ds.scanner(["text"], (F("n") > 1000) & F("vector").is_valid()).count_rows() == 0
    assert not reads


def test_numbers_that_are_not_are_in_no_stretch(tmp_path: Path, pieces: None) -> None:
    ds = lakebed.empty(tmp_path / "nan")
    ds.create_tensor("x", dtype="float64")
    ds.extend({"x": [1.0] * 12 + [float("nan")] + [1.0] * 11})
    ds.update_statistics()
    assert ds.scanner(["x"], ~(F("x") < 5)).count_rows() == 1
    assert ds.scanner(["x"], F("x") != 1).count_rows() == 1
    for nan in (float("nan"), pc.divide(pc.scalar(0.0), 0.0), pc.sqrt(pc.scalar(-1.0))):
        assert ds.scanner(["x"], ~(F("x") <= nan)).count_rows() == 24
        assert ds.scanner(["x"], (F("x") <= nan) | (F("x") >= nan)).count_rows() == 0


def test_rows_of_views_in_stretches_that_cannot_match_are_not_read(
    ds: lakebed.Dataset, reads: dict[str, int]
) -> None:
    ds.update_statistics()
    assert ds[::2].scanner(["text"], F("whole") >= 196).count_rows() == 2
    assert reads == {"whole": 4}
    assert ds[[399, 3, 398]].scanner(["whole"], F("whole") > 0).to_table()["whole"].to_pylist() == [199, 198]


def test_scans_collect_the_statistics(ds: lakebed.Dataset, reads: dict[str, int]) -> None:
    scanner = ds.scanner(["whole"], F("label") == "ant")
    first = scanner.to_table()
    assert reads["label"] == ROWS
    reads.clear()
    with lakebed.load(
        ds.path, read_only=True
    ) as fresh:  # they are kept beside the dataset, as those of queries are
        assert fresh.scanner(["whole"], F("label") == "ant").to_table() == first
    assert reads["label"] < ROWS / 4, "stretches of one label are known by now"


def test_only_what_is_asked_for_is_read(ds: lakebed.Dataset, reads: dict[str, int]) -> None:
    rows = ds.to_arrow_dataset()  # noqa: F841 - the statement names it
    assert duckdb.sql("select sum(whole) from rows").fetchall() == [(-200,)]
    assert set(reads) == {"whole"}
    reads.clear()
    relation = ds.to_duckdb()
    assert relation.columns == ["n", "whole", "x", "label", "t", "text", "vector"]
    assert relation.aggregate("count(*)").fetchall() == [(ROWS,)]
    assert not reads, "row numbers are counted"
    assert ds.scanner([], None).count_rows() == ROWS
    assert not reads


def test_rows_without_columns_are_counted(ds: lakebed.Dataset) -> None:
    rows = ds.to_arrow_dataset()
    assert rows.to_table(columns=[]).num_rows == ROWS
    assert rows.to_table(columns=[], filter=F("whole") > 195).num_rows == 4
    assert rows.scanner({"one": pc.scalar(1)}, F("whole") > 197).to_table().to_pydict() == {"one": [1, 1]}
    late = pl.scan_pyarrow_dataset(rows).filter(pl.col("whole") > 195)
    assert late.select(pl.len()).collect().item() == 4


@pytest.mark.parametrize("none", [[], np.zeros(ROWS, np.bool_), slice(0, 0)], ids=["list", "mask", "slice"])
def test_nothing_chosen_is_an_empty_table(ds: lakebed.Dataset, none: Any) -> None:
    empty = ds[["whole", "label"]][none]
    assert empty.scanner(["label"], F("whole") > 0).to_table().num_rows == 0
    assert empty.to_duckdb().fetchall() == []


def test_a_tensor_without_values_is_null(ds: lakebed.Dataset) -> None:
    ds.create_tensor("blank")
    ds.blank.extend([None] * ROWS)
    assert ds.scanner(["whole"], F("blank").is_null() & (F("whole") > 197)).to_table().num_rows == 2


def test_scattered_rows_are_not_read_ahead_of_one_another(
    ds: lakebed.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    prefetch = arrow_dataset.prefetch
    monkeypatch.setattr(arrow_dataset, "prefetch", lambda wanted: (asked.extend(wanted), prefetch(wanted))[1])
    assert ds[[0, ROWS - 1]].scanner(["text"]).to_table().num_rows == 2
    assert not asked, "the rows between them are not wanted"
    assert ds.scanner(["text"]).to_table().num_rows == ROWS
    assert asked


def test_a_limit_reads_the_first_window(monkeypatch: pytest.MonkeyPatch, reads: dict[str, int]) -> None:
    monkeypatch.setattr(arrow_dataset, "_FIRST_ROWS", 10)
    ds = made("mem://limit", random.Random(2))
    assert ds.scanner(["whole"]).head(3)["whole"].to_pylist() == [-200, -199, -198]
    assert reads["whole"] == 10


def test_engines_of_frames_push_down(ds: lakebed.Dataset, reads: dict[str, int], tmp_path: Path) -> None:
    rows = ds.to_arrow_dataset(row_ids=True)
    found = pl.scan_pyarrow_dataset(rows).filter((pl.col("whole") > 195) & (pl.col("n") > 0)).select("row_id")
    assert found.collect()["row_id"].to_list() == [396, 397, 398, 399]
    assert set(reads) == {"whole", "n"}
    pq.write_table(pa.table({"label": ["ant"], "means": ["insect"]}), tmp_path / "words.parquet")
    joined = duckdb.sql(
        f"select count(*), min(t) from rows join '{tmp_path / 'words.parquet'}' using (label) where means = 'insect'"
    )
    assert joined.fetchall() == [(40, START + dt.timedelta(days=15))]


def test_computed_columns_and_the_rest_of_the_interface(ds: lakebed.Dataset) -> None:
    computed = ds.scanner({"twice": pc.multiply(F("whole").cast("int64"), 2)}, F("whole") > 197)
    assert computed.projected_schema.names == ["twice"]
    assert computed.to_table().to_pydict() == {"twice": [396, 398]}
    rows = ds.to_arrow_dataset(["whole"])
    assert rows.take([3, 1])["whole"].to_pylist() == [-197, -199]
    late = rows.filter(F("whole") > 190).filter(F("whole") < 193)
    assert late.to_table()["whole"].to_pylist() == [191, 192]
    assert late.count_rows() == 2
    assert late.take([1])["whole"].to_pylist() == [192]
    assert pickle.loads(pickle.dumps(late)).count_rows() == 2
    assert [each.count_rows() for each in rows.get_fragments(F("whole") > 197)] == [2]
    for method in ("join", "sort_by", "replace_schema"):
        with pytest.raises(NotImplementedError, match="to_table"):
            getattr(rows, method)()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": ["nope"]}, "no column 'nope': the columns are n, whole"),
        ({"filter": F("nope") > 1}, "does not fit the columns n, whole.*nope"),
        ({"filter": F("text") > 1}, "does not fit the columns"),
        ({"batch_size": 0}, "batch_size is 0"),
    ],
)
def test_what_does_not_fit_is_told(ds: lakebed.Dataset, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        ds.scanner(**options)


def test_every_method_of_arrows_class_is_overridden() -> None:
    """Arrow's own ones would read memory that no constructor has set."""
    public = {name for name in vars(pads.Dataset) if not name.startswith("_")}
    assert public <= vars(arrow_dataset.LakeDataset).keys()


def test_mapped_chunks_of_odd_places_are_aligned(
    ds: lakebed.Dataset, capfd: pytest.CaptureFixture[str]
) -> None:
    assert ds.scanner(["x"], F("x") > 50.0).count_rows() > 0
    assert "poorly aligned" not in capfd.readouterr().err


def test_images_are_read_where_the_filter_leaves_them(tmp_path: Path, reads: dict[str, int]) -> None:
    ds = lakebed.empty(tmp_path / "photos")
    ds.create_tensor("photo", htype="image", sample_compression="png")
    ds.create_tensor("kind", dtype="int64")
    ds.extend({"photo": [np.full((3, 4, 3), i, np.uint8) for i in range(20)], "kind": range(20)})
    found = lakebed.sql("select photo from ds where kind in (3, 5)")
    assert found is not None
    assert [row[0][:4] for row in found.fetchall()] == [b"\x89PNG"] * 2
    assert reads == {"kind": 20, "photo": 2}
