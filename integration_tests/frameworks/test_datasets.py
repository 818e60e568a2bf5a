"""Hugging Face ``datasets`` takes a dataset through Arrow, and gives one back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
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
    back.create_tensor("labels", dtype="int64")
    table = chosen.with_format("arrow")[:]
    labels = np.array(chosen["labels"]).reshape(-1, 1)
    back.extend({"texts": table["texts"], "labels": labels})
    assert [text for batch in lakebed.Loader(back, 4) for text in batch["texts"]] == [
        f"row {n}5" for n in ["", *range(1, 10)]
    ]
    assert back.labels.numpy().ravel().tolist() == [1] * 10
