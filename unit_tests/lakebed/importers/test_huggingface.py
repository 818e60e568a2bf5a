"""What `save_to_disk` of Hugging Face writes, made here by hand: the package itself is asked in integration tests."""

from __future__ import annotations

import io
import json
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

import lakebed
from lakebed.errors import IngestionError, NotFoundError
from lakebed.importers.tables import huggingface


def png(value: int) -> bytes:
    """Return a small image."""
    file = io.BytesIO()
    Image.fromarray(np.full((3, 4, 3), value, np.uint8)).save(file, "png")
    return file.getvalue()


def table(first: int, count: int) -> pa.Table:
    """Return rows with features: an image, a class, texts, arrays, nulls."""
    rows = range(first, first + count)
    features = {"image": {"_type": "Image"}, "label": {"_type": "ClassLabel", "names": ["cat", "dog"]}}
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    file = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    schema = pa.schema(
        [
            ("image", file),
            ("label", pa.int64()),
            ("text", pa.string()),
            ("m", pa.list_(pa.list_(pa.float32()))),
            ("n", pa.int32()),
            ("split", pa.string()),
        ],
        metadata=metadata,
    )
    return pa.table(
        {
            "image": [{"bytes": png(row), "path": None} for row in rows],
            "label": [row % 2 for row in rows],
            "text": [f"row {row}" for row in rows],
            "m": [np.full((2, 3), row).tolist() for row in rows],
            "n": [None if row % 3 else row for row in rows],
            "split": ["of its own"] * count,
        },
        schema=schema,
    )


def save(folder: Path, *tables: pa.Table, **more: Any) -> None:
    """Write tables as `save_to_disk` does."""
    folder.mkdir(parents=True)
    names = [f"data-{number:05}-of-{len(tables):05}.arrow" for number in range(len(tables))]
    for name, one in zip(names, tables, strict=True):
        with pa.OSFile(str(folder / name), "wb") as file, pa.ipc.new_stream(file, one.schema) as stream:
            stream.write_table(one, max_chunksize=3)
    state = {"_data_files": [{"filename": name} for name in names], **more}
    (folder / "state.json").write_text(json.dumps(state))
    (folder / "dataset_info.json").write_text("{}")


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """Two splits, one of two files."""
    save(tmp_path / "s" / "train", table(0, 7), table(7, 4))
    save(tmp_path / "s" / "test", table(11, 2))
    (tmp_path / "s" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    return tmp_path / "s"


def test_splits(saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows in order, with their split; a column that is called like that has another name."""
    monkeypatch.setattr(huggingface, "_ITEM_ROWS", 3)
    report = lakebed.import_from("auto", saved, tmp_path / "d", progressbar=False)
    assert (report.format, report.written, report.skipped) == ("huggingface", 13, 0)
    ds = report.dataset
    assert ds.text.data()["value"] == [f"row {row}" for row in range(13)]
    assert {name: len(view) for name, view in ds.splits.items()} == {"train": 11, "test": 2}
    assert (ds.image.htype, ds.label.htype, ds.label.info["class_names"]) == (
        "image",
        "class_label",
        ["cat", "dog"],
    )
    assert ds.image[9].tobytes() == png(9)
    assert ds.m[4].numpy().tolist() == np.full((2, 3), 4).tolist()
    assert [value.tolist() for value in ds.n.numpy(aslist=True)][:4] == [[0], [], [], [3]]
    assert ds["split_"][0].text() == "of its own"
    only = lakebed.import_from("huggingface", saved, tmp_path / "e", split="test", progressbar=False)
    assert only.written == 2


def test_one_dataset(tmp_path: Path) -> None:
    """Without splits, there is no tensor of them beside the column of that name."""
    save(tmp_path / "s", table(0, 5))
    ds = lakebed.import_from("auto", tmp_path / "s", tmp_path / "d", progressbar=False).dataset
    assert ds.split[0].text() == "of its own"
    assert ds.splits == {}


def test_what_is_wrong_is_told(saved: Path, tmp_path: Path) -> None:
    """Files that are cut short, missing or elsewhere, other columns, states that are none."""

    def refused(words: str, kind: type[Exception] = IngestionError) -> None:
        with pytest.raises(kind, match=words):
            lakebed.import_from("huggingface", saved, tmp_path / "d", overwrite=True, progressbar=False)

    file = saved / "test" / "data-00000-of-00001.arrow"
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    refused("damaged")
    file.write_bytes(b"nothing")
    refused("not a table that Arrow knows")
    file.unlink()
    refused("missing", NotFoundError)
    state = saved / "test" / "state.json"
    for text, words in (
        ('{"_data_files": [{"filename": "../../../etc/passwd"}]}', "not below|missing"),
        ('{"_data_files": [1]}', "no files"),
        ("{}", "no files"),
        ("[]", "not a JSON object"),
        ("[" * 100_000, "not JSON"),
        ('{"_indices_data_files": [{"filename": "i"}]}', "index file"),
    ):
        state.write_text(text)
        refused(words, Exception if "below" in words else IngestionError)
    (saved / "dataset_dict.json").write_text('{"splits": [1]}')
    refused("no splits")
    (saved / "dataset_dict.json").write_text('{"splits": []}')
    refused("no splits")
    save(tmp_path / "t", table(0, 2), table(2, 2).drop_columns(["n"]))
    with pytest.raises(IngestionError, match="other columns"):
        lakebed.import_from("huggingface", tmp_path / "t", tmp_path / "d", overwrite=True, progressbar=False)
    with pytest.raises(IngestionError, match="neither an open Hugging Face dataset"):
        lakebed.import_from("huggingface", {"a": 1}, tmp_path / "d", overwrite=True, progressbar=False)
    with pytest.raises(ValueError, match="load_dataset"):
        lakebed.ingest_huggingface("squad", tmp_path / "d")


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({}, True),
        ({"progressbar": False}, False),
        ({"use_progressbar": False}, False),
        ({"progressbar": True}, True),
    ],
)
def test_the_bar_is_switched_as_in_the_other_functions(
    given: dict[str, bool], shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the name that 3.x has here, or that it has everywhere else."""
    module = import_module("lakebed.importers.ingest.ingest_tables")
    asked: list[Any] = []
    monkeypatch.setattr(module.huggingface, "recognise", lambda source: "a dataset")
    monkeypatch.setattr(module.huggingface, "plan", lambda source: SimpleNamespace(splits={}))
    monkeypatch.setattr(module, "ingested", lambda *arguments: asked.append(arguments))
    lakebed.ingest_huggingface(object(), "mem://", **given)
    assert asked[0][5] is shown
    assert asked[0][-1] == {}


def test_a_bad_row_costs_itself(tmp_path: Path) -> None:
    """An image that is none is left out and counted."""
    one = table(0, 4)
    bad = one.set_column(
        0,
        one.schema.field(0),
        pa.array(
            [{"bytes": b"x" if row == 2 else png(row), "path": None} for row in range(4)], one.schema[0].type
        ),
    ).replace_schema_metadata(one.schema.metadata)
    save(tmp_path / "s", bad)
    report = lakebed.import_from("auto", tmp_path / "s", tmp_path / "d", progressbar=False)
    assert (report.written, report.skipped) == (3, 1)
    assert report.dataset.text.data()["value"] == ["row 0", "row 1", "row 3"]
