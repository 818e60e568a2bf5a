"""Spark reads what a dataset holds: its types, its nulls, and only the columns and chunks that a query needs."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import os
import pickle
import shutil
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import InvalidInputError, LakebedError, QueryError

pytest.importorskip("pyspark")

from pyspark.sql.types import ByteType, LongType, StructField, StructType

import lakebed.spark

pytestmark = [pytest.mark.ray, pytest.mark.filterwarnings("ignore::FutureWarning")]

ROWS = 90
MOMENT = dt.datetime(2026, 3, 1, 12, 30, 0, 250)  # noqa: DTZ001 - as Spark returns it


def label(i: int) -> str:
    return ["cat", "dog", "gull"][i % 3]


def number(i: int) -> float:
    return math.nan if i % 9 == 4 else i / 4


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A dataset of many kinds of columns, in three commits."""
    place = str(tmp_path_factory.mktemp("spark") / "ds")
    ds = lakebed.empty(place)
    ds.create_tensor("id", dtype="int64")
    ds.create_tensor("label", htype="class_label", class_names=["cat", "dog", "gull"])
    ds.create_tensor("text", htype="text")
    ds.create_tensor("large", dtype="uint64")
    ds.create_tensor("number", dtype="float32")
    ds.create_tensor("half", dtype="float16")
    ds.create_tensor("vector", dtype="float32")
    ds.create_tensor("ragged", dtype="uint8")
    ds.create_tensor("photo", htype="image", sample_compression="png")
    ds.create_tensor("about", htype="json")
    ds.create_tensor("labels", htype="class_label", class_names=["cat", "dog", "gull"])
    for start in range(0, ROWS, 30):
        some = range(start, start + 30)
        ds.extend(
            {
                "id": [None if i % 11 == 3 else i for i in some],
                "label": [i % 3 for i in some],
                "text": [None if i % 7 == 0 else f"row {i} é" for i in some],
                "large": [2**63 + i for i in some],
                "number": [number(i) for i in some],
                "half": [i / 2 for i in some],
                "vector": np.arange(90, dtype=np.float32).reshape(30, 3),
                "ragged": [np.arange(i % 4, dtype=np.uint8) for i in some],
                "photo": [np.full((2, 3, 3), i, np.uint8) for i in some],
                "about": [{"n": i} for i in some],
                "labels": [[0, i % 3] for i in some],
            }
        )
        ds.commit()
    dates = pa.table(
        {
            "day": pa.array([None if i == 5 else dt.date(2026, 1, 1 + i % 28) for i in range(ROWS)]),
            "at": pa.array([MOMENT + dt.timedelta(days=i) for i in range(ROWS)], pa.timestamp("ns")),
            "utc": pa.array([MOMENT + dt.timedelta(days=i) for i in range(ROWS)], pa.timestamp("ms", "UTC")),
        }
    )
    for name in dates.column_names:
        ds[name] = dates[name]
    ds.commit()
    return place


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    from pyspark.sql import SparkSession

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        builder = builder.config("spark.driver.host", "127.0.0.1")
        builder = builder.config("spark.driver.bindAddress", "127.0.0.1")
        session = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
        lakebed.spark.register(session)
        yield session
        session.stop()


def test_spark_reads_every_kind_of_column(spark: Any, path: str) -> None:
    frame = spark.read.format("lakebed").option("partitions", 4).load(path)
    rows = frame.collect()
    assert len(rows) == ROWS
    ds = lakebed.load(path, read_only=True)
    for i, row in enumerate(rows):
        assert row["id"] == (None if i % 11 == 3 else i)
        assert row["label"] == label(i)
        assert row["text"] == (None if i % 7 == 0 else f"row {i} é")
        assert row["large"] == decimal.Decimal(2**63 + i)
        assert row["number"] == number(i) or math.isnan(row["number"]) == math.isnan(number(i))
        assert row["half"] == i / 2
        assert row["vector"] == np.arange(90).reshape(30, 3)[i % 30].tolist()
        assert row["ragged"] == list(range(i % 4))
        assert bytes(row["photo"]) == ds.photo[i].tobytes()
        assert row["about"] == f'{{"n": {i}}}'
        assert row["labels"] == ["cat", label(i)]
        assert row["day"] == (None if i == 5 else dt.date(2026, 1, 1 + i % 28))
        assert row["at"] == MOMENT + dt.timedelta(days=i)
    assert frame.select("utc").where("utc = timestamp'2026-03-02 12:30:00Z'").count() == 1
    narrow = spark.read.format("lakebed").schema("text string, id bigint").load(path)
    assert narrow.columns == ["text", "id"]
    assert narrow.collect()[2] == ("row 2 é", 2)
    few = spark.read.format("lakebed").option("filter", "mean(photo) < 5").load(path)
    assert few.select("large").count() == 5
    where = "number > 20 and label = 'dog' and id is not null"
    expected = [i for i in range(ROWS) if label(i) == "dog" and i % 11 != 3 and not number(i) <= 20]
    assert [row["id"] for row in frame.where(where).collect()] == expected
    sizes = {row["label"]: row["count"] for row in frame.groupBy("label").count().collect()}
    assert sizes == {"cat": 30, "dog": 30, "gull": 30}


# -- without a session: Java is not needed -----------------------------------------------------------------------


@pytest.mark.parametrize("partitions", ["x", "0", "-1", "2.5", ""])
def test_the_number_of_partitions_is_checked(path: str, partitions: str) -> None:
    lake = lakebed.spark.LakebedSource({"path": path, "partitions": partitions})
    with pytest.raises(
        InvalidInputError, match=rf"option partitions='{partitions}': give a whole number of 1 or"
    ):
        lake.reader(lake.schema())


def read(path: str, **options: str) -> list[dict[str, Any]]:
    """Return the rows that partitions hand out."""
    lake = lakebed.spark.LakebedSource({"path": path, **options})
    reader = pickle.loads(pickle.dumps(lake.reader(lake.schema())))
    parts = pickle.loads(pickle.dumps(reader.partitions()))
    return [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]


FILTERS: dict[str, Any] = {
    "id == 40": lambda i: i == 40,
    "number > 20": lambda i: number(i) > 20,
    "label in ('cat', 'gull') and shape(ragged)[0] > 1": lambda i: label(i) != "dog" and i % 4 > 1,
    "text is null": lambda i: i % 7 == 0,
    "mean(photo) < 12": lambda i: i < 12,
}


@pytest.mark.parametrize("told", FILTERS)
@pytest.mark.parametrize("partitions", ["1", "4"])
def test_filters_are_applied_by_the_tasks(path: str, told: str, partitions: str) -> None:
    expected = [i for i in range(ROWS) if FILTERS[told](i)]
    assert 0 < len(expected) < ROWS
    found = read(path, filter=told, partitions=partitions, columns="large, vector")
    assert [int(row["large"]) - 2**63 for row in found] == expected
    assert len(read(path, columns="large", partitions=partitions)) == ROWS


@pytest.mark.parametrize(("name", "kind"), [("large", LongType()), ("number", ByteType())])
def test_values_that_do_not_fit_a_schema_are_an_error(path: str, name: str, kind: Any) -> None:
    reader = lakebed.spark.LakebedSource({"path": path}).reader(StructType([StructField(name, kind)]))
    with pytest.raises(pa.ArrowInvalid, match=r"not in range|truncated"):
        list(chain.from_iterable(map(reader.read, reader.partitions())))


def test_columns_and_options(path: str) -> None:
    assert read(path, filter="id == 7", columns="text, id") == [{"text": None, "id": 7}]
    assert read(f"{path}@main", filter="id == 8", columns="id") == [{"id": 8}]
    for options in ({"path": path, "colums": "id"}, {}):
        with pytest.raises(InvalidInputError, match="its options are columns, filter, partitions, path"):
            lakebed.spark.LakebedSource(options).schema()
    with pytest.raises(LakebedError, match="nope"):
        lakebed.spark.LakebedSource({"path": path, "columns": "nope"}).schema()
    with pytest.raises(QueryError, match="there is no column 'nope'"):
        read(path, filter="nope > 3")


def test_chunks_that_cannot_match_are_not_read(tmp_path: Path) -> None:
    """Each chunk is damaged in turn: the one that holds the matching rows is missed, the others are not."""
    ds = lakebed.empty(str(tmp_path / "parts"))
    for name in ("number", "other"):
        ds.create_tensor(name, dtype="int64", max_chunk_size=32_000)
        ds[name].extend(np.arange(40_000))
    ds.flush()
    ds.update_statistics()
    missed = dict.fromkeys(("number", "other"), 0)
    for chunk in (tmp_path / "parts").glob("**/chunks/*"):
        content = chunk.read_bytes()
        chunk.write_bytes(bytes(len(content)))
        try:
            found = read(ds.path, filter="number >= 39990", columns="other", partitions="3")
            assert [row["other"] for row in found] == list(range(39_990, 40_000))
        except LakebedError:
            missed[chunk.parent.parent.name] += 1
        chunk.write_bytes(content)
    assert missed == {"number": 1, "other": 1}
