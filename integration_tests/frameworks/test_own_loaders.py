"""A DataLoader of PyTorch that is given a dataset itself, and rows of tensors."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lakebed
from integration_tests.frameworks.lake import ROWS

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.frameworks

STACKED = ["images", "labels", "texts", "facts"]


@pytest.fixture
def untold() -> None:
    """Messages that are logged once in a process are logged again."""
    from lakebed.loaders.frameworks import samples

    samples._tell_once.cache_clear()


def loader(ds: Any, **settings: Any) -> Any:
    return torch.utils.data.DataLoader(ds, **settings)


@pytest.mark.usefixtures("untold")
def test_batches_are_stacked(ds: lakebed.Dataset, caplog: pytest.LogCaptureFixture) -> None:
    """Numbers have no axis of their own, types that PyTorch lacks are wider, and the faster way is told once."""
    lake = ds[STACKED]
    with caplog.at_level(logging.WARNING):
        batches = list(loader(lake, batch_size=40))
    assert [len(batch["labels"]) for batch in batches] == [40, 40, 17]
    first = batches[0]
    assert (first["labels"].dtype, first["labels"].shape) == (torch.int64, (40,))
    assert torch.equal(first["images"], torch.from_numpy(ds.images[:40].numpy()))
    assert first["texts"][39] == "row 39"
    assert first["facts"]["row"].tolist() == list(range(40))
    assert [record.message for record in caplog.records] == [
        "ds.pytorch(batch_size=..., shuffle=...) reads faster than torch.utils.data.DataLoader(ds)"
    ]


@pytest.mark.parametrize("start", [None, "fork", "spawn"])
def test_every_row_comes_once(ds: lakebed.Dataset, start: str | None) -> None:
    workers = {} if start is None else {"num_workers": 2, "multiprocessing_context": start}
    seen = [
        text
        for batch in loader(ds[STACKED], batch_size=8, shuffle=True, **workers)
        for text in batch["texts"]
    ]
    assert sorted(seen) == sorted(f"row {row}" for row in range(ROWS))
    assert seen[:8] != [f"row {row}" for row in range(8)]


def test_views_and_samplers(ds: lakebed.Dataset) -> None:
    view = ds[10:20][["labels", "texts"]]
    parts = torch.utils.data.random_split(view, [7, 3])
    assert sorted(text for part in parts for batch in loader(part) for text in batch["texts"]) == [
        f"row {row}" for row in range(10, 20)
    ]
    weighted = torch.utils.data.WeightedRandomSampler([0] * 9 + [1], 4)
    assert [batch["texts"] for batch in loader(view, sampler=weighted, batch_size=2)] == [["row 19"] * 2] * 2
    alone = list(loader(view, batch_size=None))
    assert [row.texts.text() for row in alone] == [f"row {row}" for row in range(10, 20)]


@pytest.mark.usefixtures("untold")
def test_what_pytorch_cannot_stack_is_told(ds: lakebed.Dataset, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(RuntimeError, match="equal size"):
        next(iter(loader(ds[["boxes"]], batch_size=4)))
    assert "samples of 'boxes' are missing or differ in shape" in caplog.text
    assert "ragged='pad'" in caplog.text
    rows = next(iter(loader(ds[["boxes"]], batch_size=4, collate_fn=list)))
    assert [len(row["boxes"]) for row in rows] == [0, 1, 2, 0]
    holes = lakebed.from_dict({"n": [np.float32(1), None]})
    with pytest.raises((TypeError, RuntimeError)):
        next(iter(loader(holes, batch_size=2)))
    assert "ds[ds['n'].notna()]" in caplog.text
    caplog.clear()
    batch = next(iter(loader(holes[holes["n"].notna()])))
    assert (batch["n"].tolist(), batch["n"].dtype, caplog.records) == ([1], torch.float32, [])


def test_rows_of_tensors(ds: lakebed.Dataset) -> None:
    rows = ds.with_format("torch")
    assert len(rows) == ROWS
    row = rows[3]
    assert (row["labels"].shape, int(row["labels"]), row["texts"]) == ((), 1, "row 3")
    assert torch.equal(row["images"], torch.from_numpy(ds.images[3].numpy()))
    assert row["boxes"].shape == (0, 4)
    for workers in (0, 2):
        batch = next(iter(loader(ds[STACKED].with_format("torch"), batch_size=5, num_workers=workers)))
        assert batch["labels"].tolist() == [0, 1, 0, 1, 0]


def test_arrays_of_the_framework_become_rows() -> None:
    boxes = torch.tensor([[1.0, 2, 3, 4]], requires_grad=True)
    ds = lakebed.from_rows([{"boxes": boxes, "n": torch.tensor(3)}, {"boxes": boxes[:0], "n": None}])
    assert ds.boxes.dtype == "float32"
    assert [len(one) for one in ds.to_numpy()["boxes"]] == [1, 0]
    assert ds.n.to_arrow().to_pylist() == [3, None]
    assert lakebed.from_dict({"x": torch.ones(3, 2)}).x.htype == "embedding"


def test_arrays_of_jax_become_rows() -> None:
    jax = pytest.importorskip("jax")
    ds = lakebed.from_dict({"x": jax.numpy.arange(3), "v": [jax.numpy.ones((2, 2))] * 3})
    assert ds.x.tolist() == [0, 1, 2]
    assert np.array_equal(ds.v.numpy(), np.ones((3, 2, 2)))


def test_results_of_queries_are_loaded(tmp_path: Path) -> None:
    ds = lakebed.empty(tmp_path / "ds")
    ds["a"] = list(range(6))
    ds["t"] = [f"x{i}" for i in range(6)]
    result = ds.query("SELECT a * 2 AS twice, t")
    batch = next(iter(torch.utils.data.DataLoader(result, batch_size=3)))
    assert batch["twice"].tolist() == [0, 2, 4]
    assert batch["t"] == ["x0", "x1", "x2"]
    groups = ds.query("SELECT a % 2 AS rest, a").groupby("rest").agg(n="size")
    assert next(iter(torch.utils.data.DataLoader(groups, batch_size=2)))["rest"].tolist() == [0, 1]
