"""Hugging Face `datasets`: open, shuffled, streaming and saved ones come in as the package reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lakebed

datasets = pytest.importorskip("datasets")
pytestmark = pytest.mark.formats


@pytest.fixture(scope="module")
def made() -> Any:
    """Twenty rows with features of many kinds."""
    features = datasets.Features(
        {
            "image": datasets.Image(),
            "label": datasets.ClassLabel(names=["cat", "dog"]),
            "text": datasets.Value("string"),
            "m": datasets.Array2D((2, 3), "float32"),
            "ids": datasets.Sequence(datasets.Value("int64")),
            "boxes": [{"x": datasets.Value("float32"), "name": datasets.Value("string")}],
        }
    )
    rows = [
        {
            "image": np.full((5, 6 + row % 3, 3), row, np.uint8),
            "label": row % 2,
            "text": f"row {row}",
            "m": np.full((2, 3), row, np.float32),
            "ids": list(range(row % 4)),
            "boxes": [{"x": 1.5, "name": "n"}] * (row % 3),
        }
        for row in range(20)
    ]
    return datasets.Dataset.from_list(rows, features=features)


def check(ds: lakebed.Dataset, theirs: Any) -> None:
    """Compare all rows with what the package returns."""
    assert len(ds) == len(theirs)
    for row, wanted in enumerate(theirs):
        assert ds.text[row].text() == wanted["text"]
        assert int(ds.label[row].numpy()[0]) == wanted["label"]
        assert np.array_equal(ds.image[row].numpy(), np.asarray(wanted["image"]))
        assert np.array_equal(ds.m[row].numpy(), np.asarray(wanted["m"], np.float32))
        assert ds.ids[row].numpy().tolist() == list(wanted["ids"])
        assert ds.boxes[row].data()["value"] == wanted["boxes"]
    assert ds.label.info["class_names"] == ["cat", "dog"]


def test_open_ones(made: Any) -> None:
    """As they are, shuffled, and as a stream."""
    check(lakebed.ingest_huggingface(made, "mem://hf", use_progressbar=False), made)
    shuffled = made.shuffle(seed=1)
    check(lakebed.ingest_huggingface(shuffled, "mem://hf2", use_progressbar=False), shuffled)
    check(
        lakebed.ingest_huggingface(made.to_iterable_dataset(), "mem://hf3", use_progressbar=False), list(made)
    )


def test_splits(made: Any, tmp_path: Path) -> None:
    """A dictionary, open and saved; also with a selection, in several files."""
    both = datasets.DatasetDict(
        {"train": made.shuffle(seed=2).select(range(15)), "test": made.select([3, 4])}
    )
    ds = lakebed.ingest_huggingface(both, "mem://hf4", use_progressbar=False)
    both.save_to_disk(str(tmp_path / "s"), num_shards={"train": 3, "test": 1})
    again = lakebed.import_from("auto", tmp_path / "s", tmp_path / "d", progressbar=False).dataset
    for found in (ds, again):
        assert {name: len(view) for name, view in found.splits.items()} == {"train": 15, "test": 2}
        check(found[:15], both["train"])
        check(found[15:], both["test"])
