"""Many rows updated, removed and read at once: held against lists, with chunks of a few samples."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lakebed
from lakebed.errors import InvalidInputError, InvalidOperationError, SampleUpdateError, StorageError
from lakebed.storage.base import Data
from lakebed.storage.files import direct
from lakebed.storage.local import LocalStorage
from lakebed.testing.faulty import Crash, FaultyStorage
from lakebed.versions.state import contradiction
from lakebed.writing import diffs, rewriting
from lakebed.writing.draft import tensor
from unit_tests.effort import examples
from unit_tests.lakebed.datasets import copy_of, create_on, kill, new_memory, open_on, visible

Rows = list[dict[str, Any]]

TENSORS: dict[str, dict[str, Any]] = {
    "number": {"dtype": "int64"},
    "fraction": {"dtype": "float64", "chunk_compression": "lz4"},
    "text": {"htype": "text"},
    "document": {"htype": "json"},
    "label": {"htype": "class_label", "class_names": ["ant"]},
    "array": {"dtype": "int16"},
    "packed": {"dtype": "uint8", "sample_compression": "lz4"},
    "sequence": {"htype": "sequence[generic]", "dtype": "int32"},
}
ARROW = {"number": pa.int64(), "fraction": pa.float64(), "text": pa.string()}


@pytest.fixture(autouse=True)
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take every change of two rows for one of a great many."""
    monkeypatch.setattr(rewriting, "MANY", 2)
    monkeypatch.setattr(tensor, "_SPILL_WALK", 300)


def make(seed: int, chunk: int) -> lakebed.Dataset:
    ds = create_on(new_memory())
    for name, kind in TENSORS.items():
        ds.create_tensor(name, max_chunk_size=chunk, **kind)
    return ds


def value(rng: random.Random, name: str) -> Any:
    """A sample of a tensor; None only where it means null."""
    if (name in ARROW or name == "document") and rng.random() < 0.3:
        return None
    if name == "number":
        return rng.randrange(-5, 5)
    if name == "fraction":
        return rng.randrange(8) / 4
    if name == "text":
        return rng.choice(["", "a", "ü\n", "long " * 5])
    if name == "document":
        return rng.choice([[], {"a": 1}, "x", 7])
    if name == "label":
        return rng.choice(["ant", "bee", "cat"])
    if name == "array":
        return [rng.randrange(9) for _ in range(rng.randrange(2, 6))]  # of one they would be numbers
    if name == "packed":
        return [1] * rng.randrange(2, 30)
    return [rng.randrange(9) for _ in range(rng.randrange(4))]


def column(name: str, values: list[Any]) -> Any:
    """Values as a caller gives them."""
    if name in ARROW:
        return pa.array(values, ARROW[name])
    if name == "document":
        texts = [None if v is None else json.dumps(v) for v in values]
        return pa.ExtensionArray.from_storage(pa.json_(), pa.array(texts, pa.string()))
    if name in ("array", "packed"):
        return [np.array(v, TENSORS[name]["dtype"]) for v in values]
    return values


def columns(rows: Rows, names: Any = TENSORS) -> dict[str, Any]:
    return {name: column(name, [row[name] for row in rows]) for name in names}


def seen(ds: lakebed.Dataset) -> Rows:
    """What a dataset holds, in the form of the rows that went in."""
    found = {name: array.to_pylist() for name, array in ds.read_columns(0, len(ds)).items()}
    found["document"] = [None if v is None else json.loads(v) for v in found["document"]]
    names = ds["label"].info["class_names"]
    found["label"] = [names[v] for v in found["label"]]
    return [{name: found[name][i] for name in TENSORS} for i in range(len(ds))]


def ids(ds: lakebed.Dataset, name: str) -> list[int]:
    hidden = ds[f"_{name}_id"]
    return [int(v) for v in hidden.numpy().ravel()] if len(hidden) else []


def check(ds: lakebed.Dataset, rows: Rows, known: list[int]) -> None:
    assert seen(ds) == rows
    assert ids(ds, "text") == known
    shapes = [[int(n) for n in shape] for shape in ds["_array_shape"].numpy(aslist=True)] if rows else []
    assert shapes == [[len(row["array"])] for row in rows]


@settings(
    max_examples=examples(12, soak=300),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(seed=st.integers(0, 2**32), chunk=st.sampled_from([64, 200, 1000, 40_000]))
def test_any_changes_leave_what_lists_say(seed: int, chunk: int) -> None:
    """Updates, removals, appends, publishes and commits in any order; earlier commits stay as they were."""
    change_at_random(seed, chunk)


def change_at_random(seed: int, chunk: int) -> None:
    rng = random.Random(seed)
    ds = make(seed, chunk)
    rows: Rows = []
    commits: dict[str, Rows] = {}
    for _ in range(rng.randrange(3, 12)):
        action = rng.choice(["extend", "update", "update", "pop", "flush", "commit", "extend"])
        known = ids(ds, "text")
        if action == "extend":
            new = [{name: value(rng, name) for name in TENSORS} for _ in range(rng.randrange(1, 40))]
            ds.extend(columns(new))
            rows = [*rows, *new]
            assert ids(ds, "text")[: len(known)] == known
            continue
        if action == "update" and rows:
            chosen = sorted(rng.sample(range(len(rows)), rng.randrange(1, len(rows) + 1)))
            names = rng.sample(sorted(TENSORS), rng.randrange(1, 5))
            new = [{name: value(rng, name) for name in names} for _ in chosen]
            ds.update_rows(np.array(chosen), columns(new, names))
            changed = dict(zip(chosen, new, strict=True))
            rows = [{**row, **changed.get(i, {})} for i, row in enumerate(rows)]
        if action == "pop" and rows:
            gone = set(rng.sample(range(len(rows)), rng.randrange(1, len(rows) + 1)))
            ds.pop_rows(sorted(gone))
            rows = [row for i, row in enumerate(rows) if i not in gone]
            known = [number for i, number in enumerate(known) if i not in gone]
        if action == "flush":
            ds.flush()
        if action == "commit":
            commits[ds.commit(allow_empty=True)] = rows
        if rng.random() < 0.5:
            check(ds, rows, known)
    ds.flush()
    assert contradiction(ds._session.snapshot) is None
    again = open_on(ds.storage)
    assert seen(again) == rows
    wanted = sorted(rng.sample(range(len(rows)), rng.randrange(len(rows) + 1)))
    taken = again.take_rows(np.array(wanted, np.int64), ["text", "number", "sequence"])
    for name, array in taken.items():
        assert array.to_pylist() == [rows[i][name] for i in wanted]
    for commit, then in commits.items():
        again.checkout(commit)
        assert seen(again) == then


def numbered(count: int, **settings: Any) -> lakebed.Dataset:
    """Numbers and texts that count up, committed."""
    ds = create_on(new_memory())
    ds.create_tensor("n", dtype="int64", **settings)
    ds.create_tensor("t", htype="text", **settings)
    ds.extend({"n": np.arange(count), "t": [str(i) for i in range(count)]})
    ds.commit("first")
    return ds


def chunk_keys(ds: lakebed.Dataset, name: str) -> list[str]:
    table = ds._session.schema().tensor(name).table
    return [table.key(row) for row in range(len(table))]


def test_metadata_and_companions_follow() -> None:
    """Extents, recorded shapes and class names are those of the new samples."""
    ds = create_on(new_memory())
    ds.create_tensor("a", dtype="int16")
    ds.create_tensor("c", htype="class_label")
    ds.extend({"a": [np.zeros(2, np.int16)] * 9, "c": ["ant"] * 9})
    ds.update_rows([1, 3, 4], {"a": [np.zeros(n, np.int16) for n in (7, 2, 1)], "c": ["bee", "ant", "cat"]})
    assert (ds["a"].shape_interval.lower, ds["a"].shape_interval.upper) == ((9, 1), (9, 7))
    assert [int(shape[0]) for shape in ds["_a_shape"].numpy()] == [2, 7, 2, 2, 1, 2, 2, 2, 2]
    assert ds["c"].info["class_names"] == ["ant", "bee", "cat"]
    assert ds["c"].numpy().ravel().tolist() == [0, 1, 0, 0, 2, 0, 0, 0, 0]


def test_only_chunks_whose_samples_change_are_rewritten() -> None:
    """Chunks that no row lies in stay, and so do those whose new samples are the old ones."""
    ds = numbered(1000, max_chunk_size=1600)
    before = {name: chunk_keys(ds, name) for name in ("n", "t")}
    assert len(before["n"]) == 10
    ds.update_rows([5, 7, 450], {"n": [-5, -7, -450], "t": ["5", "7", "450"]})
    now = chunk_keys(ds, "n")
    assert [i for i, (a, b) in enumerate(zip(before["n"], now, strict=True)) if a != b] == [0, 4]
    assert chunk_keys(ds, "t") == before["t"]


def test_what_is_rewritten_leaves_the_cache_of_the_system_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chunks that are rewritten are written past it, new ones through it; both versions read as they are."""
    uncached: list[str] = []
    real = LocalStorage.put_uncached

    def put(self: LocalStorage, items: Iterable[tuple[str, Data]]) -> None:
        found = list(items)
        uncached.extend(key for key, _ in found)
        real(self, found)

    monkeypatch.setattr(LocalStorage, "put_uncached", put)
    monkeypatch.setattr(direct, "_WORTH", 1000)
    random = np.random.default_rng(0)
    old, new = random.integers(0, 1 << 60, 3000), random.integers(0, 1 << 60, 3000)
    with lakebed.empty(tmp_path / "ds") as ds:
        ds.create_tensor("n", dtype="int64", max_chunk_size=16_000).extend(old)
        before = ds.commit()
        assert not uncached
        ds.update_rows(np.arange(0, 3000, 2), {"n": new[::2]})
        after = ds.commit()
    assert uncached
    assert np.array_equal(lakebed.load(f"{tmp_path}/ds@{before}").n.numpy().ravel(), old)
    new[1::2] = old[1::2]
    assert np.array_equal(lakebed.load(f"{tmp_path}/ds@{after}").n.numpy().ravel(), new)


def test_chunks_stay_full_however_often_texts_grow() -> None:
    """A chunk that becomes a little too large is not cut into a full one and a small one."""
    ds = numbered(2000, max_chunk_size=2000)
    before = len(chunk_keys(ds, "t"))
    rng = random.Random(3)
    for _ in range(30):
        rows = sorted(rng.sample(range(2000), 20))
        ds.update_rows(rows, {"t": ["x" * rng.randrange(8) for _ in rows]})
    assert len(chunk_keys(ds, "t")) < 1.6 * before


def test_nothing_is_changed_unless_everything_fits() -> None:
    """A value that does not fit, a row that is not there, columns of other lengths: all rows stay as they are."""
    ds = numbered(10)
    with pytest.raises(SampleUpdateError, match="tensor n"):
        ds.update_rows([1, 2, 3], {"t": ["a", "b", "c"], "n": [1, "x", 3]})
    with pytest.raises(InvalidInputError, match="3 rows, but 2 values"):
        ds.update_rows([1, 2, 3], {"t": ["a", "b"]})
    with pytest.raises(IndexError, match="row 10"):
        ds.update_rows([1, 2, 10], {"t": ["a", "b", "c"]})
    with pytest.raises(IndexError, match="row -1"):
        ds.update_rows([-1, 2], {"t": ["a", "b"]})
    for rows in ([2, 1], [1, 1], [[1, 2]], ["a", "b"]):
        with pytest.raises(InvalidInputError):
            ds.update_rows(rows, {"t": ["a", "b"]})
    with pytest.raises(IndexError):
        ds.pop_rows([1, 10])
    with pytest.raises(InvalidOperationError):
        ds[1:].read_columns(0, 1)
    assert ds.read_columns(0, 10)["t"].to_pylist() == [str(i) for i in range(10)]
    assert not ds.has_head_changes


def test_rows_that_wait_are_updated_too() -> None:
    """Rows appended just before, in the same call or one by one, are rows like others."""
    ds = numbered(10)
    ds.extend({"n": [10, 11], "t": ["10", "11"]})
    ds.append({"n": 12, "t": "12"})
    ds.update_rows([0, 10, 12], {"n": [-1, -2, -3], "t": ["a", "b", "c"]})
    ds.pop_rows([1, 11])
    assert ds.read_columns(0, 11)["n"].to_pylist() == [-1, *range(2, 10), -2, -3]


def test_few_rows_are_listed_and_many_flagged(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a version records of its updates stays small, and readers of changes look at every row then."""
    monkeypatch.setattr(diffs, "MOST_LISTED", 50)
    ds = numbered(200)
    first = ds.commit_id
    ds.update_rows(np.arange(0, 80, 2), {"n": np.zeros(40, np.int64)})
    assert ds.diff(as_dict=True)["tensor"][0]["n"]["data_updated"] == set(range(0, 80, 2))
    ds.update_rows(np.arange(1, 80, 2), {"n": np.ones(40, np.int64)})
    entry = ds.diff(as_dict=True)["tensor"][0]["n"]
    assert (entry["data_updated"], entry["data_transformed_in_place"]) == (set(), True)
    ds.n[3] = 9
    ds.commit("second")
    changed, rows = ds.n.modified_samples(first, return_indexes=True)
    assert len(changed) == len(rows) == 200


def test_flagged_updates_are_merged() -> None:
    """A branch whose updates are not listed brings them in all the same."""
    ds = numbered(200)
    ds.checkout("side", create=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(diffs, "MOST_LISTED", 10)
        ds.update_rows(np.arange(0, 100, 2), {"t": ["new"] * 50})
        ds.commit("many")
    ds.checkout("main")
    ds.n[1] = 7
    ds.commit("one")
    ds.merge("side")
    found = ds.read_columns(0, 200)
    assert found["t"].to_pylist()[:4] == ["new", "1", "new", "3"]
    assert found["n"].to_pylist()[:3] == [0, 7, 2]


def test_tiled_samples_and_images_are_updated_one_by_one() -> None:
    """What no pass over a chunk can do is done as ever."""
    ds = create_on(new_memory())
    ds.create_tensor("big", dtype="uint8", tiling_threshold=300)
    ds.create_tensor("png", htype="image", sample_compression="png")
    ds.create_tensor("pages", htype="image", chunk_compression="png")
    rng = np.random.default_rng(1)
    arrays = [rng.integers(0, 255, (20 + i, 20, 3), dtype=np.uint8) for i in range(6)]
    ds.extend({"big": arrays, "png": arrays, "pages": arrays})
    news = [a[:5] for a in arrays[:3]]
    ds.update_rows([0, 2, 5], {"big": news, "png": news, "pages": news})
    arrays[0], arrays[2], arrays[5] = news
    ds.flush()
    ds.pop_rows([1, 2, 4])
    arrays = [arrays[0], arrays[3], arrays[5]]
    ds.flush()
    again = open_on(ds.storage)
    for name in ("big", "png", "pages"):
        for i, array in enumerate(arrays):
            assert np.array_equal(again[name][i].numpy(), array)


def changed(ds: lakebed.Dataset) -> None:
    ds.update_rows(np.arange(0, 60, 2), {"n": np.full(30, -1), "t": ["new"] * 30})
    ds.pop_rows([0, 1, 50])
    ds.change_type("n", dtype="float64")
    ds.flush()


def test_whatever_fails_leaves_all_old_or_all_new_rows() -> None:
    """After every number of changes of the storage: the old rows are read or the new ones, and a retry works."""
    base = numbered(60, max_chunk_size=480)
    base.close()
    old = visible(open_on(base.storage))
    seen = []
    for budget in range(200):
        storage = copy_of(base.storage)
        error = Crash if budget % 2 else partial(StorageError, "full")
        try:
            victim = open_on(FaultyStorage(storage, fail_after=budget, error=error))
            changed(victim)
        except StorageError:
            victim._session.discard()
        except Crash:
            kill(storage)
        seen.append(visible(open_on(storage)))
        if seen[-1] != old:
            break
        if budget % 4 == 0:
            changed(open_on(storage))
    again = open_on(storage)
    assert again["n"].dtype == np.float64
    assert again.read_columns(0, 57)["t"].to_pylist()[:3] == ["new", "3", "new"]
    assert len(seen) > 8
    assert all(state == old for state in seen[:-1])


@pytest.mark.parametrize("orders", [(0, 1), (1, 0)], ids=["even first", "uneven first"])
def test_new_values_may_come_in_parts_with_and_without_nulls(orders: tuple[int, int]) -> None:
    """A column that is updated from Arrow chunks, of which one has nulls, is what the chunks say."""
    ds = create_on(new_memory())
    ds.create_tensor("number", dtype="int64")
    ds.number.extend(np.arange(40))
    parts = [[7] * 20, [None, 2] * 10]
    new = [parts[i] for i in orders]
    ds.update_rows(range(40), {"number": pa.chunked_array([pa.array(p, pa.int64()) for p in new])})
    assert pa.table(ds)["number"].to_pylist() == new[0] + new[1]
