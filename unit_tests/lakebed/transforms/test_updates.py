"""A transform in place that hands out one row for each is an update: rows stay the ones that they were."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lakebed
from lakebed.maintenance.verify import verify
from lakebed.storage.url import open_storage
from lakebed.writing import rewriting


def _made(path: Path, count: int = 10) -> lakebed.Dataset:
    ds = lakebed.empty(str(path))
    with ds:
        ds.create_tensor("x", dtype="int64")
        ds.create_tensor("t", htype="text")
        ds.create_tensor("c", htype="class_label", class_names=["a", "b"])
        ds.create_tensor("s", htype="sequence", dtype="int64")
        ds.create_tensor("i", htype="image", sample_compression="png")
        rows = range(count)
        ds.extend(
            {
                "x": np.arange(count),
                "t": [f"r{at}" for at in rows],
                "c": np.arange(count) % 2,
                "s": [[np.arange(at % 3 + 1)] * (at % 4) for at in rows],
                "i": [None if at % 3 else np.full((2, 2, 3), at % 256, np.uint8) for at in rows],
            }
        )
    ds.commit("first")
    return ds


def _ids(ds: lakebed.Dataset, name: str) -> list[int]:
    found: Any = ds[f"_{name}_id"].numpy()
    return list(np.asarray(found).ravel().tolist())


@lakebed.compute
def _all(row: Any, out: Any) -> None:
    out.append({"x": row.x.numpy() * 10, "t": row.t.text() + "!", "c": 1 - row.c.numpy(), "i": row.i,
                "s": [*row.s.numpy(aslist=True), np.arange(2)]})  # fmt: skip


def _changes(ds: lakebed.Dataset, name: str) -> dict[str, Any]:
    found: dict[str, Any] = ds.diff(as_dict=True)["tensor"][0][name]
    return found


# On both sides of what changes a chunk at a time.
@pytest.mark.parametrize(
    ("how", "count"),
    [
        ("map", 49),
        ("map", 50),
        ("batched", 49),
        ("batched", 50),
        ("threaded", 50),
        ("processed", 10),
    ],
)
def test_rows_stay_the_ones_that_they_were(
    how: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewriting, "MANY", 50)
    ds = _made(tmp_path / "l", count)
    ids = {name: _ids(ds, name) for name in ds.tensors}
    ds.checkout("b", create=True)
    if how == "map":
        ds.map(lambda row: {"x": row["x"] * 10})
    elif how == "batched":
        ds.map(lambda rows: {"x": np.asarray(rows["x"]) * 10}, batch_size=7)
    else:
        _all().eval(ds, scheduler=how, num_workers=2, progressbar=False)
    changed = list(ds.tensors) if how in ("threaded", "processed") else ["x"]
    for name in ds.tensors:
        assert _ids(ds, name) == ids[name]
        told = _changes(ds, name)
        assert told["data_updated"] == (set(range(count)) if name in changed else set())
        assert (told["cleared"], told["data_deleted"]) == (False, set())
    ds.commit("tenfold")
    ds.checkout("main")
    ds.append({"x": 5, "t": "new", "c": 0, "s": [], "i": None})
    ds.commit("one more")
    ds.merge("b")
    assert ds.x.numpy().ravel().tolist() == [*(10 * at for at in range(count)), 5]
    if len(changed) > 1:
        assert [ds.t[at].text() for at in (0, 9, count)] == ["r0!", "r9!", "new"]
        assert [len(ds.s[at].numpy(aslist=True)) for at in (0, 1, 2, count)] == [1, 2, 3, 0]
        assert ds.i[3].numpy()[0, 0].tolist() == [3, 3, 3]
        assert ds.i[4].numpy().size == 0
        assert ds.c.numpy().ravel()[:3].tolist() == [1, 0, 1]
    assert verify(open_storage(str(tmp_path / "l")), deep=True).is_sound


def test_rows_that_were_not_committed_yet_are_added_still(tmp_path: Path) -> None:
    ds = _made(tmp_path / "l")
    ds.append({"x": 10, "t": "new", "c": 0, "s": [], "i": None})
    ds.map(lambda row: {"x": row["x"] + 1})
    told = _changes(ds, "x")
    assert (told["data_added"], told["data_updated"]) == ([10, 11], set(range(10)))


@pytest.mark.parametrize("how", ["twice and none", "fewer", "reordered by a batch of another length"])
def test_other_rows_are_new_ones(how: str, tmp_path: Path) -> None:
    """As many rows as before do not prove that each came of its own."""
    ds = _made(tmp_path / "l")
    before = _ids(ds, "x")
    if how == "twice and none":
        ds.map(lambda row: [row, row] if row["x"] % 2 else [])
    elif how == "fewer":
        ds.map(lambda row: row if row["x"] % 2 else None)
    else:
        given: list[int] = []

        def late(rows: dict[str, Any]) -> dict[str, Any]:
            given.extend(np.asarray(rows["x"]).ravel().tolist())
            count = 3 if len(given) == 4 else 4 if len(given) == 8 else 3
            return {"x": [given.pop(0) for _ in range(min(count, len(given)))]}

        ds[["x"]].map(late, batch_size=4, num_workers=0)
    assert not set(_ids(ds, "x")) & set(before)
    assert _changes(ds, "x")["cleared"]


def test_an_update_of_a_filtered_view_is_one(tmp_path: Path) -> None:
    ds = _made(tmp_path / "l")
    before = _ids(ds, "x")
    ds.filter(lambda row: row.x.numpy()[0] > 6).x[:] = [99] * 3
    assert _ids(ds, "x") == before
    assert _changes(ds, "x")["data_updated"] == {7, 8, 9}
    assert ds.x.numpy().ravel().tolist() == [*range(7), 99, 99, 99]
