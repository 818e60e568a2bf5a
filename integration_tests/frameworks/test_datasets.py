"""Hugging Face ``datasets`` takes a dataset through Arrow, and gives one back."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakebed
from integration_tests.frameworks.lake import ROWS

datasets = pytest.importorskip("datasets")

pytestmark = [pytest.mark.frameworks, pytest.mark.filterwarnings("ignore")]


def test_to_and_from_arrow(ds: lakebed.Dataset, tmp_path: Path) -> None:
    given = datasets.Dataset(pa.table(ds[["labels", "texts", "facts"]]))
    assert (len(given), given[7]["texts"]) == (ROWS, "row 7")
    chosen = given.filter(lambda row: row["texts"].endswith("5"), load_from_cache_file=False)
    back = lakebed.empty(str(tmp_path / "back"))
    back.create_tensor("texts", htype="text")
    back.create_tensor("labels", htype="class_label", class_names=["dark", "bright"])
    table = chosen.with_format("arrow")[:]
    back.extend({"texts": table["texts"], "labels": table["labels"]})
    assert [text for batch in lakebed.Loader(back, 4) for text in batch["texts"]] == [
        f"row {n}5" for n in ["", *range(1, 10)]
    ]
    assert back.labels.numpy().ravel().tolist() == [1] * 10
