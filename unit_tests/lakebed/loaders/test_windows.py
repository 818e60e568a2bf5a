"""Loaders of tensors whose chunk index is in pages: windows of pages, laid out when an epoch reaches them."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest

import lakebed
from lakebed.documents.indexes import pages
from lakebed.errors import InvalidInputError
from lakebed.loaders import windows
from lakebed.loaders.order import Mode
from lakebed.loaders.windows import PagedOrder, PagedSpans, paged_spans
from lakebed.storage.memory import MemoryStorage
from lakebed.versions import page_tree, publish, write_pages
from lakebed.versions.paged import PagedTable
from unit_tests.lakebed.datasets import copy_of, create_on, new_memory, open_on

PLAIN: dict[str, Any] = {"create_id_tensor": False, "create_shape_tensor": False}
ROWS = 240


@pytest.fixture(autouse=True)
def lowered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few chunks have pages, and a few pages are a window."""
    monkeypatch.setattr(publish, "PAGED_FROM", 6)
    monkeypatch.setattr(write_pages, "_MOST_LOOSE", 3)
    monkeypatch.setattr(pages, "SPREAD", 4)
    monkeypatch.setattr(pages, "MOST_ROWS", 6)
    monkeypatch.setattr(windows, "_PAGES", 3)
    monkeypatch.setattr(windows, "_LANES", 4)
    monkeypatch.setattr(windows, "_KEPT", 6)
    monkeypatch.setattr("lakebed.loaders.columns.RESIDENT_BYTES", 0)
    monkeypatch.setattr("lakebed.loaders.columns.RESIDENT_SMALL", (0, 0))


@pytest.fixture(scope="module", params=["committed", "tail"])
def storage(request: pytest.FixtureRequest) -> MemoryStorage:
    """Rows of 10 equal numbers, 5 to a chunk or so, and their numbers in another tensor."""
    with pytest.MonkeyPatch.context() as patch:
        lowered.__wrapped__(patch)  # type: ignore[attr-defined]
        found = new_memory()
        ds = create_on(found)
        ds.create_tensor("x", dtype="int64", max_chunk_size=400, **PLAIN)
        ds.create_tensor("n", dtype="int64", **PLAIN)
        numbers = np.arange(ROWS)
        ds.extend({"x": np.repeat(numbers, 10).reshape(-1, 10), "n": numbers})
        if request.param == "committed":
            ds.commit()
        ds.close()
    return found


def dataset(storage: MemoryStorage) -> lakebed.Dataset:
    ds = open_on(storage, read_only=True)
    assert isinstance(ds._session.snapshot.tensors["x"].table, PagedTable)
    return ds


def epoch(loader: lakebed.Loader) -> list[int]:
    found: list[int] = []
    for batch in loader:
        assert np.array_equal(batch["x"], np.repeat(batch["n"].reshape(-1), 10).reshape(-1, 10))
        found += batch["n"].reshape(-1).tolist()
    return found


@pytest.mark.parametrize("shuffle", [True, "chunk", False])
def test_an_epoch_has_every_row_once(storage: MemoryStorage, shuffle: Any) -> None:
    ds = dataset(storage)
    loader = lakebed.Loader(ds, batch_size=7, shuffle=shuffle, seed=3)
    assert isinstance(loader._spans(loader.table.rows()), PagedSpans)
    first, second = epoch(loader), epoch(loader)
    assert sorted(first) == sorted(second) == list(range(ROWS))
    if shuffle:
        assert first != second
        assert first != sorted(first)
    else:
        assert first == second == sorted(first)
    assert epoch(lakebed.Loader(ds, batch_size=7, shuffle=shuffle, seed=3, threads=0)) == first
    if shuffle:
        assert epoch(lakebed.Loader(ds, batch_size=7, shuffle=shuffle, seed=4)) != first


@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.parametrize("shuffle", [True, "chunk", False])
def test_ranks_share_an_epoch(storage: MemoryStorage, shuffle: Any, world: int) -> None:
    ds = dataset(storage)
    whole = epoch(lakebed.Loader(ds, batch_size=6 * world, shuffle=shuffle, seed=3))
    parts = [
        epoch(lakebed.Loader(ds, batch_size=6, shuffle=shuffle, seed=3, rank=rank, world=world, tail="keep"))
        for rank in range(world)
    ]
    assert sorted(row for part in parts for row in part) == list(range(ROWS))
    assert sorted(row for part in parts for row in part[:6]) == sorted(whole[: 6 * world])


@pytest.mark.parametrize("rows", [slice(0, 17), slice(73, 180), slice(239, 240), slice(37, None)])
def test_runs_of_rows(storage: MemoryStorage, rows: slice) -> None:
    ds = dataset(storage)[rows]
    loader = lakebed.Loader(ds, batch_size=7, shuffle=True, seed=3)
    assert isinstance(loader._spans(loader.table.rows()), PagedSpans)
    assert sorted(epoch(loader)) == list(range(ROWS))[rows]


def test_other_selections_are_cut_as_ever(storage: MemoryStorage) -> None:
    ds = dataset(storage)
    loader = lakebed.Loader(ds[::3], batch_size=7, shuffle=True, seed=3)
    assert not isinstance(loader._spans(loader.table.rows()), PagedSpans)
    assert sorted(epoch(loader)) == list(range(0, ROWS, 3))
    assert "kind" not in loader.state_dict()
    assert sorted(epoch(lakebed.Loader(ds, batch_size=7, shuffle="exact", seed=3))) == list(range(ROWS))
    assert lakebed.Loader(ds).take([5, 239, 0])["n"].ravel().tolist() == [5, 239, 0]


@pytest.mark.parametrize("shuffle", [True, "chunk", False])
def test_a_state_goes_on_anywhere(storage: MemoryStorage, shuffle: Any) -> None:
    ds = dataset(storage)
    whole = epoch(lakebed.Loader(ds, batch_size=7, shuffle=shuffle, seed=3))
    for stop in (1, 12, 33):
        loader = lakebed.Loader(ds, batch_size=7, shuffle=shuffle, seed=3)
        seen: list[int] = []
        for batch in loader:
            seen += batch["n"].reshape(-1).tolist()
            if len(seen) == 7 * stop:
                break
        state = json.loads(json.dumps(loader.state_dict()))
        assert state["kind"] == "pages"
        other = lakebed.Loader(dataset(storage), batch_size=7, shuffle=shuffle, seed=3)
        other.load_state_dict(state)
        assert seen + epoch(other) == whole


def test_a_commit_of_the_same_rows_changes_no_state(storage: MemoryStorage) -> None:
    copied = copy_of(storage)
    ds = open_on(copied)
    loader = lakebed.Loader(ds, batch_size=7, shuffle=True, seed=3)
    state = loader.state_dict()
    ds.commit(allow_empty=True)
    other = lakebed.Loader(dataset(copied), batch_size=7, shuffle=True, seed=3)
    other.load_state_dict(state)
    ds.x.append(np.zeros(10, np.int64))
    ds.n.append(0)
    ds.flush()
    with pytest.raises(InvalidInputError, match="rows have changed"):
        lakebed.Loader(dataset(copied), batch_size=7, shuffle=True, seed=3).load_state_dict(state)


def test_a_state_of_the_older_order_goes_on_in_that_order(storage: MemoryStorage) -> None:
    ds = dataset(storage)
    older = lakebed.Loader(ds, batch_size=7, shuffle=True, seed=3)
    older._by_pages = False  # as releases did that knew no other order
    seen: list[int] = []
    for batch in older:
        seen += batch["n"].reshape(-1).tolist()
        if len(seen) == 42:
            break
    state = older.state_dict()
    assert "kind" not in state
    again = lakebed.Loader(ds, batch_size=7, shuffle=True, seed=3)
    again._by_pages = False
    whole = epoch(again)
    loader = lakebed.Loader(ds, batch_size=7, shuffle=True, seed=3)
    assert epoch(loader) != whole
    loader.load_state_dict(state)
    assert seen + epoch(loader) == whole


def test_states_of_another_order_are_refused(storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    loader = lakebed.Loader(dataset(storage), batch_size=7, shuffle=True, seed=3)
    state = loader.state_dict()
    for changes in ({"kind": None}, {"kind": "other"}, {"order": "0" * 24}, {"seed": 4}):
        changed = {**state, **changes}
        with pytest.raises(InvalidInputError, match="begin the epoch again"):
            loader.load_state_dict(changed)
    assert loader.state_dict() == state
    small = create_on(new_memory())
    small.create_tensor("x", dtype="int64", **PLAIN)
    small.x.extend(np.arange(5))
    plain = lakebed.Loader(small, batch_size=7, shuffle=True, seed=3)
    assert "kind" not in plain.state_dict()
    with pytest.raises(InvalidInputError):
        plain.load_state_dict(state)


def test_a_state_of_a_loader_that_reads_other_tensors_by_spans_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    storage = new_memory()
    ds = create_on(storage)
    ds.create_tensor("x", dtype="int64", max_chunk_size=800, **PLAIN)
    ds.create_tensor("n", dtype="int64", **PLAIN)
    numbers = np.arange(ROWS)
    ds.extend({name: np.repeat(numbers, size).reshape(ROWS, -1) for name, size in (("x", 20), ("n", 10))})
    ds.close()
    monkeypatch.setattr("lakebed.loaders.columns.RESIDENT_BYTES", 100 * ROWS)
    first, other = (
        lakebed.Loader(dataset(storage), batch_size=7, shuffle=True, seed=3, window=2000, **arguments)
        for arguments in ({}, {"decode": {"n": "bytes"}})
    )
    assert all(isinstance(one._spans(one.table.rows()), PagedSpans) for one in (first, other))
    with pytest.raises(InvalidInputError, match="begin the epoch again"):
        other.load_state_dict(first.state_dict())


@pytest.mark.parametrize("mode", ["window", "chunk", "none"])
@pytest.mark.parametrize("window", [200, 3000, 10**9])
def test_positions_blocks_and_spans_agree(storage: MemoryStorage, mode: Mode, window: int) -> None:
    ds = dataset(storage)
    reader = ds._session.reader("x", "x")
    for rows in (range(ROWS), range(51, 203)):
        spans = paged_spans([reader], rows)
        assert spans is not None
        order = PagedOrder(spans, mode=mode, seed=5, window=window)
        every = order.positions(1, 0, len(rows))
        assert sorted(every.tolist()) == list(range(len(rows)))
        scattered = np.array(random.Random(0).sample(range(len(rows)), 100))
        assert np.array_equal(order.samples(1, scattered), every[scattered])
        blocks = order.block_of(1, np.arange(len(rows)))
        ids, insides = spans.find(every)
        assert np.array_equal(spans.rows_at(every), every + rows.start)
        for span, inside, sample in zip(ids.tolist(), insides.tolist(), every.tolist(), strict=True):
            assert spans.rows_of(span)[inside] == sample + rows.start
        assert sum(len(spans.rows_of(span)) for span in set(ids.tolist())) == len(rows)
        for block in set(blocks.tolist()):
            positions = order.positions_of(1, block)
            assert np.flatnonzero(blocks == block).tolist() == list(positions)
            if mode == "window":
                which, counts = order.uses(1, block)
                found, times = np.unique(ids[list(positions)], return_counts=True)
                assert dict(zip(which.tolist(), counts.tolist(), strict=True)) == dict(
                    zip(found.tolist(), times.tolist(), strict=True)
                )
                part = order.block(1, block, rank=1, world=2)
                assert set(part.spans.tolist()) <= set(found.tolist())
            else:
                span, at = order.span_of(1, block)
                assert positions == range(at, at + len(spans.rows_of(span)))
                assert set(ids[list(positions)].tolist()) == {span}
        with pytest.raises(IndexError):
            order.samples(0, np.array([len(rows)]))


def test_memory_holds_few_pages(storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_tree, "_KEPT", 4)
    ds = dataset(storage)
    loader = lakebed.Loader(ds, batch_size=7, shuffle=True, seed=3)
    assert sorted(epoch(loader)) == list(range(ROWS))
    spans = loader._spans(loader.table.rows())
    assert isinstance(spans, PagedSpans)
    assert len(spans) > 20
    assert len(spans._cuts) <= windows._KEPT
    table = ds._session.snapshot.tensors["x"].table
    assert isinstance(table, PagedTable)
    assert table._all is None
    assert table._ids is None
