"""Tables go out and come in again as they were: numbers, nulls, times, classes, lists, files."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakebed
from lakebed.errors import ExportError
from lakebed.exporters.core.plan import Piece, read_columns
from lakebed.exporters.tables import delimited, parquet


@pytest.fixture
def table() -> lakebed.Dataset:
    source = pa.table(
        {
            "id": pa.array([1, None, 3, 4], pa.int32()),
            "share": [0.1, None, 1e300, -0.0],
            "name": ["a,b", "", None, 'q"x\ny'],
            "ok": [True, None, False, True],
            "at": pa.array([dt.datetime(2024, 2, 3, 4, 5, 6), None, None, None], pa.timestamp("us")),  # noqa: DTZ001
            "kind": pa.array(["cat", "dog", None, "cat"]).dictionary_encode(),
            "vector": pa.array([[1.0, 2.0], None, [3.0, 4.0], [5.0, 6.0]], pa.list_(pa.float32(), 2)),
            "more": [{"a": 1}, None, {"a": 2}, {"a": 3}],
        }
    )
    return lakebed.import_from("dataframe", source, "mem://", progressbar=False).dataset


def test_parquet_there_and_back(
    table: lakebed.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "_ROWS_OF_NUMBERS", 3)
    table.create_tensor("photo", htype="image", sample_compression="png")
    table.photo.extend([np.full((2, 3, 3), 7, np.uint8), None, np.zeros((1, 1, 3), np.uint8), None])
    monkeypatch.setattr(parquet, "_ROWS", 2)
    report = lakebed.export_to("parquet", table, tmp_path / "out", workers=2, progressbar=False)
    assert (report.written, report.files) == (4, 1)
    assert pq.ParquetFile(tmp_path / "out/data.parquet").metadata.num_row_groups == 2
    again = lakebed.import_from("auto", tmp_path / "out", "mem://", progressbar=False).dataset
    assert set(again.tensors) == set(table.tensors)
    for name in ("id", "share", "name", "ok", "at", "vector"):
        assert pa.table(again)[name].to_pylist() == pa.table(table)[name].to_pylist(), name
    assert again.photo[0].tobytes() == table.photo[0].tobytes()
    assert again.photo.null_mask().tolist() == [False, True, False, True]
    assert again.kind.info["class_names"] == ["cat", "dog"]
    assert again.kind[1].data()["text"] == ["dog"]
    features = json.loads(pq.read_schema(tmp_path / "out/data.parquet").metadata[b"huggingface"])["info"][
        "features"
    ]
    assert features["photo"] == {"_type": "Image"}
    assert features["kind"] == {"names": ["cat", "dog"], "_type": "ClassLabel"}
    assert features["vector"] == {"feature": {"dtype": "float32", "_type": "Value"}, "_type": "List"}


def test_csv_there_and_back(table: lakebed.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delimited, "_ROWS", 3)
    lakebed.export_to("csv", table, tmp_path / "out", progressbar=False)
    again = lakebed.import_from(
        "csv", tmp_path / "out/data.csv", "mem://", labels=["kind"], progressbar=False
    ).dataset
    for name in ("id", "share", "name", "ok", "at"):
        assert pa.table(again)[name].to_pylist() == pa.table(table)[name].to_pylist(), name
    assert again.kind[1].data()["text"] == ["dog"]
    assert json.loads(str(again.vector[0].text())) == [1.0, 2.0]
    lakebed.export_to(
        "csv", table, tmp_path / "tabs", tensors=["id", "name"], delimiter="\t", progressbar=False
    )
    assert (tmp_path / "tabs/data.tsv").read_text().splitlines()[:3] == ["id\tname", "1\ta,b", '\t""']


def test_views_and_splits(table: lakebed.Dataset, tmp_path: Path) -> None:
    table.create_tensor("split", htype="class_label", class_names=["train", "val"])
    table.split.extend(["train", "val", "train", "val"])
    lakebed.export_to("parquet", table, tmp_path / "out", progressbar=False)
    assert pq.read_table(tmp_path / "out/train.parquet")["id"].to_pylist() == [1, 3]
    lakebed.export_to("parquet", table[1:3], tmp_path / "view", tensors=["id"], progressbar=False)
    assert pq.read_table(tmp_path / "view/train.parquet")["id"].to_pylist() == [3]
    with pytest.raises(ExportError, match="no tensor 'ids'"):
        lakebed.export_to("parquet", table, tmp_path / "x", tensors=["ids"])


def test_rows_that_can_be_read_at_the_second_try_are_written(table: lakebed.Dataset) -> None:
    """An error that does not come again, as of a network, costs no row."""
    failed = []

    def read(tensor: lakebed.Tensor, count: int, _: object) -> int:
        if count > 1 and not failed:
            failed.append(count)
            raise OSError("no answer")
        return len(tensor)

    rows = np.arange(len(table))
    found = read_columns(
        table, Piece(0, "", rows, 0), [SimpleNamespace(name=next(iter(table.tensors)))], read
    )
    assert (failed, found) == ([len(rows)], ([len(rows)], []))
