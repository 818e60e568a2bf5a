"""Tensors whose chunk index is in pages: what programs do, what is written, read, collected, copied, and damaged."""

from __future__ import annotations

import random
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lakebed
from lakebed.documents.indexes import pages
from lakebed.documents.manifest import PAGED
from lakebed.errors import CorruptError
from lakebed.maintenance.repair import repair
from lakebed.storage.base import StorageTraits
from lakebed.storage.local import LocalStorage
from lakebed.storage.memory import MemoryStorage
from lakebed.versions import page_tree, publish, write_pages
from lakebed.versions.chunk_table import ArrayTable, ChunkTable, NewChunk
from lakebed.versions.gc.collect import collect
from lakebed.versions.opening import manifest_key
from lakebed.versions.paged import PagedTable
from unit_tests.effort import IS_SOAK
from unit_tests.lakebed.datasets import copy_of, create_on, new_memory, open_on
from unit_tests.lakebed.versions import test_crash as crash

PLAIN: dict[str, Any] = {"create_id_tensor": False, "create_shape_tensor": False}
FROM = 6
SOAK = pytest.mark.soak
STEP = 1 if IS_SOAK else 4
"""The changes that fail: every one, or every fourth."""


@pytest.fixture(autouse=True)
def lowered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few chunks have pages, and lists of them."""
    monkeypatch.setattr(publish, "PAGED_FROM", FROM)
    monkeypatch.setattr(write_pages, "_MOST_LOOSE", 3)
    monkeypatch.setattr(page_tree, "_KEPT", 12)
    monkeypatch.setattr(page_tree, "_AT_ONCE", 5)
    monkeypatch.setattr(pages, "SPREAD", 3)
    monkeypatch.setattr(pages, "MOST_ROWS", 4)


def numbers(storage: MemoryStorage, chunks: int) -> lakebed.Dataset:
    """A dataset of rows of 10 numbers, each a chunk; row n holds n."""
    ds = create_on(storage)
    ds.create_tensor("x", dtype="int64", max_chunk_size=100, **PLAIN)
    ds.x.extend(rows(0, chunks))
    ds.flush()
    return ds


def rows(first: int, stop: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.repeat(np.arange(first, stop), 10).reshape(-1, 10)


class Counting(MemoryStorage):
    """A copy of a storage that notes what is read."""

    def __init__(self, storage: MemoryStorage) -> None:
        super().__init__(new_memory().url)
        self.reads: list[str] = []
        for key, _ in storage.list():
            self.put(key, storage.get(key))

    def get(self, key: str) -> bytes:
        self.reads.append(key)
        return super().get(key)


def table(ds: lakebed.Dataset) -> ChunkTable:
    return ds._session.snapshot.tensors["x"].table


def named(storage: MemoryStorage | LocalStorage) -> set[str]:
    """The pages and lists in a storage."""
    return {key for key, _ in storage.list(pages.FOLDER)}


def head_manifest(storage: MemoryStorage) -> bytes:
    return storage.get(manifest_key(open_on(storage, read_only=True)._session.snapshot.version_id))


def without_side_files(storage: MemoryStorage) -> MemoryStorage:
    """The dataset as Deep Lake 3.9.52 sees it."""
    copied = copy_of(storage)
    copied.delete_prefix(".lakebed/")
    return copied


# -- what programs do --------------------------------------------------------------------------------------------------


class Program:
    """Random changes of a dataset, and the rows that it should have."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.storage = new_memory()
        self.ds = create_on(self.storage)
        self.ds.create_tensor("x", dtype="int64", max_chunk_size=300, **PLAIN)
        self.rows: list[int] = []
        self.commits: dict[str, list[int]] = {}
        self.next = 0

    def append(self, count: int | None = None) -> None:
        for _ in range(self.random.choice([1, 1, 2, 12]) if count is None else count):
            self.ds.x.append(np.full(10, self.next))
            self.rows.append(self.next)
            self.next += 1

    def extend(self) -> None:
        count = self.random.choice([1, 5, 40])
        self.ds.x.extend(rows(self.next, self.next + count))
        self.rows += range(self.next, self.next + count)
        self.next += count

    def update(self) -> None:
        if self.rows:
            at = self.random.randrange(len(self.rows))
            self.ds.x[at] = np.full(10, self.next)
            self.rows[at] = self.next
            self.next += 1

    def pop(self) -> None:
        if self.rows:
            at = self.random.choice([len(self.rows) - 1, self.random.randrange(len(self.rows))])
            self.ds.pop(at)
            del self.rows[at]

    def clear(self) -> None:
        if self.random.random() < 0.1:
            self.ds.x.clear()
            self.rows = []

    def rechunk(self) -> None:
        self.ds.rechunk()

    def commit(self) -> None:
        self.commits[self.ds.commit(allow_empty=True)] = list(self.rows)

    def flush(self) -> None:
        self.ds.flush()

    def reopen(self) -> None:
        self.ds.close()
        self.ds = open_on(self.storage)

    def branch(self) -> None:
        name = f"b{self.next}-{self.random.randrange(10**6)}"
        self.ds.checkout(name, create=True)
        self.append(1)
        self.ds.commit()
        self.ds.checkout("main")
        self.ds.merge(name)
        self.rows = self.rows[:]

    def collect(self) -> None:
        self.ds.flush()
        self.ds.close()
        collect(self.storage, grace=0)
        self.ds = open_on(self.storage)

    STEPS: tuple[Callable[[Program], None], ...] = (
        *(append, append, extend, update, pop, clear, rechunk),
        *(commit, flush, flush, reopen, collect),
    )

    def check(self) -> None:
        """Readers of all kinds see the rows."""
        self.ds.flush()
        for storage in (self.storage, without_side_files(self.storage)):
            seen = open_on(storage, read_only=True)
            assert [int(row[0]) for row in seen.x.numpy(aslist=True)] == self.rows
            for at in self.random.sample(range(len(self.rows)), min(3, len(self.rows))):
                assert seen.x[at].numpy()[0] == self.rows[at]
            picked = self.random.sample(range(len(self.rows)), min(9, len(self.rows)))
            assert [int(row[0]) for row in seen.x[picked].numpy(aslist=True)] == [
                self.rows[at] for at in picked
            ]
        is_paged = len(table(self.ds)) >= FROM
        assert (head_manifest(self.storage)[:8] == PAGED) == is_paged
        assert isinstance(
            table(open_on(self.storage, read_only=True)), PagedTable if is_paged else ArrayTable
        )


@pytest.mark.parametrize("seed", range(24 if IS_SOAK else 5))
def test_any_order_of_changes(seed: int) -> None:
    program = Program(seed)
    for _ in range(30):
        program.random.choice(Program.STEPS)(program)
        if program.random.random() < 0.4:
            program.check()
    program.check()
    for commit, expected in program.commits.items():
        seen = open_on(program.storage, commit, read_only=True)
        assert [int(row[0]) for row in seen.x.numpy(aslist=True)] == expected
    assert lakebed.verify(program.storage.url).is_sound


@pytest.mark.parametrize("count", [FROM - 1, FROM, FROM + 1])
def test_both_sides_of_the_smallest_number_of_chunks(count: int) -> None:
    storage = new_memory()
    ds = numbers(storage, count)
    assert bool(named(storage)) == (count >= FROM)
    ds.x.append(rows(count, count + 1)[0])
    ds.flush()
    assert bool(named(storage)) == (count + 1 >= FROM)
    for _ in range(3):
        ds.x.pop()
    ds.flush()
    assert isinstance(table(ds), PagedTable) == (count - 2 >= FROM)
    assert open_on(storage, read_only=True).x.numpy()[:, 0].tolist() == list(range(count - 2))


def test_tiled_samples() -> None:
    storage = new_memory()
    ds = create_on(storage)
    ds.create_tensor("x", dtype="uint8", max_chunk_size=400, tiling_threshold=400, **PLAIN)
    samples = [np.full((40, 40) if n % 3 == 1 else (5, 5), n, np.uint8) for n in range(12)]
    ds.x.extend(samples)
    ds.flush()
    assert table(ds).has_tiles
    for reader in (
        ds,
        open_on(storage, read_only=True),
        open_on(without_side_files(storage), read_only=True),
    ):
        for n, sample in enumerate(samples):
            assert np.array_equal(reader.x[n].numpy(), sample)
    large = open_on(storage)
    large.x[4] = large.x[4].numpy() + 1
    large.flush()
    assert np.array_equal(open_on(storage, read_only=True).x[4].numpy(), samples[4] + 1)


# -- one table in two forms --------------------------------------------------------------------------------------------


def test_a_table_in_pages_answers_as_one_in_arrays() -> None:
    ds = numbers(new_memory(), 23)
    ds.commit()
    ds.x.extend(rows(23, 30))
    ds.flush()
    found = table(ds)
    assert isinstance(found, PagedTable)
    found = found.extended([NewChunk(7, 3, 50, [1]), NewChunk(8, 2, 60, [2])], ("v", "x"))
    assert isinstance(found, PagedTable)
    whole = found.whole()
    assert len(found) == len(whole) == 32
    assert found.count == whole.count == 35
    for row in range(32):
        for name in ("folder", "key", "size", "samples", "first", "tiles_of"):
            assert getattr(found, name)(row) == getattr(whole, name)(row), name
        assert found.sums(row).tolist() == whole.sums(row).tolist()
        assert found.layout(row).tolist() == whole.layout(row).tolist()
    find, expected = found.finder(), whole.finder()
    for sample in range(35):
        assert find(sample) == expected(sample)
        assert found.rows_of(sample) == whole.rows_of(sample)
    for wrong in (-1, 35):
        with pytest.raises(IndexError):
            find(wrong)
        with pytest.raises(IndexError):
            found.locate(np.array([0, wrong]))
    samples = np.array([34, 0, 7, 7, 31, 30, 12])
    for mine, its in zip(found.locate(samples), whole.locate(samples), strict=True):
        assert mine.tolist() == its.tolist()
    assert [len(part) for part in found.locate(samples[:0])] == [0, 0]
    for own in (True, False):
        for version in (
            found,
            found.inherited(),
            found.owned(),
            found.keep(26),
            found.keep(25),
            found.keep(31),
        ):
            assert chunks(version, own=own) == chunks(
                version.whole() if isinstance(version, PagedTable) else version, own=own
            )
    assert found.own_count == whole.own_count == 9
    assert found.inherited().own_count == 0
    assert found.owned().own_count == 32
    assert not len(found.keep(0))
    for kept in range(1, 32):
        assert found.keep(kept).ids == whole.keep(kept).ids
    assert found.rebuilt([(3, 20)], ("v", "x")).ids == whole.rebuilt([(3, 20)], ("v", "x")).ids
    assert found.joined(whole, 5, 9).ids == whole.joined(whole, 5, 9).ids
    assert found.same_start(whole) == whole.same_start(found) == 35


def test_tables_in_pages_are_compared_by_digests() -> None:
    storage = new_memory()
    ds = numbers(storage, 300)
    first = ds.commit()
    ds.x[170] = np.zeros(10, np.int64)
    second = ds.commit()
    ds.x.extend(rows(300, 340))
    third = ds.commit()
    ds.x[170] = rows(170, 171)[0]
    ds.close()
    counting = Counting(storage)
    versions = [table(open_on(counting, ref, read_only=True)) for ref in (first, second, third, "main")]
    wholes = [one.whole() for one in versions]  # type: ignore[attr-defined]
    for i, one in enumerate(versions):
        for j, other in enumerate(versions):
            counting.reads.clear()
            assert isinstance(one, PagedTable)
            assert isinstance(other, PagedTable)
            one.tree.store._kept.clear()
            other.tree.store._kept.clear()
            expected = wholes[i].same_start(wholes[j])
            assert one.same_start(other) == expected == wholes[i].same_start(other)
            large = [key for key in counting.reads if storage.get(key)[:8] == pages.PAGE]
            assert len(large) <= (2 if expected < 300 else 0) + 2 * (one.tree.rows != other.tree.rows)
    picked = np.array([5, 339, 170, 170, 0, 200])
    for paged, whole in zip(versions[2:], wholes[2:], strict=True):
        named_by = [
            [(folders[at], number) for at, number in zip(folder_of.tolist(), ids.tolist(), strict=True)]
            for folders, folder_of, ids in (paged.identities(picked), whole.identities(picked))
        ]
        assert named_by[0] == named_by[1]
        assert [len(part) for part in paged.identities(picked[:0])] == [0, 0, 0]


def test_a_merge_reads_the_pages_that_differ() -> None:
    storage = new_memory()
    ds = create_on(storage)
    ds.create_tensor("x", dtype="int64", max_chunk_size=100)
    ds.x.extend(rows(0, 200))
    ds.commit()
    ds.checkout("side", create=True)
    ds.x[150] = np.full(10, -150)
    ds.commit()
    ds.checkout("main")
    ds.x[20] = np.full(10, -20)
    ds.commit()
    ds.merge("side")
    ds.close()
    expected = [-n if n in (20, 150) else n for n in range(200)]
    assert open_on(storage, read_only=True).x.numpy()[:, 0].tolist() == expected


def chunks(found: ChunkTable, *, own: bool) -> set[tuple[tuple[str, str], int]]:
    return {(folder, number) for folder, ids in found.named(own=own) for number in ids.tolist()}


# -- what is written ---------------------------------------------------------------------------------------------------


def test_a_publish_writes_what_changed() -> None:
    storage = new_memory()
    ds = numbers(storage, 100)
    before = named(storage)
    assert len(before) > 20
    ds.commit()
    assert named(storage) == before
    for row in range(100, 110):
        before = named(storage)
        ds.x.append(rows(row, row + 1)[0])
        ds.flush()
        assert len(named(storage) - before) <= 5  # a page or two; sometimes lists
    before = named(storage)
    ds.x[50] = np.zeros(10, np.int64)
    ds.flush()
    assert len(named(storage) - before) <= 35  # ids are drawn, and with them where pages end
    large = [key for key in named(storage) - before if storage.get(key)[:8] == pages.PAGE]
    assert 1 <= len(large) <= 3


def test_a_publish_reads_the_last_page() -> None:
    storage = new_memory()
    numbers(storage, 200).commit()
    counting = Counting(storage)
    ds = open_on(counting)
    ds.x.append(rows(200, 201)[0])
    ds.flush()
    assert len([key for key in counting.reads if key.startswith(pages.FOLDER)]) == 1
    assert len([key for key in counting.reads if key.endswith("chunks_index/unsharded")]) == 1


def test_a_random_row_reads_a_page_and_a_list() -> None:
    storage = new_memory()
    numbers(storage, 200).commit()
    counting = Counting(storage)
    reads = counting.reads
    ds = open_on(counting, read_only=True)
    assert not [key for key in reads if key.startswith(pages.FOLDER)]
    assert ds.x[120].numpy()[0] == 120
    assert len([key for key in reads if key.startswith(pages.FOLDER)]) <= 2
    assert not [key for key in reads if key.endswith("chunks_index/unsharded")]
    assert ds.x.numpy()[:, 0].tolist() == list(range(200))
    assert len(table(ds).tree.store._kept) <= page_tree._KEPT  # type: ignore[attr-defined]


class Slow(Counting):
    """A storage as if behind a network, which notes how many requests are under way."""

    traits = StorageTraits()

    def __init__(self, storage: MemoryStorage) -> None:
        super().__init__(storage)
        self.now = self.most = 0
        self.mutex = threading.Lock()

    def get(self, key: str) -> bytes:
        with self.mutex:
            self.now += 1
            self.most = max(self.most, self.now)
        time.sleep(0.005)
        with self.mutex:
            self.now -= 1
        return super().get(key)


def test_a_scan_over_a_network_reads_pages_ahead() -> None:
    storage = new_memory()
    numbers(storage, 200).commit()
    far = Slow(storage)
    found = table(open_on(far, read_only=True))
    assert isinstance(found, PagedTable)
    far.reads.clear()
    far.most = 0
    assert [found.finder()(sample)[0] for sample in range(200)] == list(range(200))
    assert 3 <= far.most <= page_tree._AHEAD
    read = [key for key in far.reads if storage.get(key)[:8] == pages.PAGE]
    assert len(read) == len(found.tree.entries())  # each once
    far.reads.clear()
    alone = table(open_on(far, read_only=True))
    assert isinstance(alone, PagedTable)
    for sample in (150, 20, 90):
        assert alone.finder()(sample)[0] == sample
    assert len([key for key in far.reads if key.startswith(pages.FOLDER)]) <= 6


def test_a_scan_over_a_network_reads_all_but_a_lost_page() -> None:
    storage = new_memory()
    numbers(storage, 200).commit()
    tree = table(open_on(storage, read_only=True)).tree  # type: ignore[attr-defined]
    lists = [tree.store.list(entry).entries for entry in tree.root.entries[: tree.lists]]
    at = next(number for number, entries in enumerate(lists) if len(entries) > 1)
    lost = lists[at][1]  # the page before it in the list reads it ahead
    first = int(tree.root.rows[at]) + int(lists[at]["rows"][0])
    storage.delete(pages.key_of(lost))
    found = table(open_on(Slow(storage), read_only=True))
    for sample in range(200):
        if first <= sample < first + int(lost["rows"]):
            with pytest.raises(CorruptError):
                found.finder()(sample)
        else:
            assert found.finder()(sample)[0] == sample


@pytest.mark.parametrize(
    "name",
    [
        *("more rows", "commit", "finish overwrite"),
        *(pytest.param(name, marks=SOAK) for name in ("rows after a commit", "branch with rows")),
    ],
)
def test_a_crash_at_any_change_leaves_the_old_or_the_new_state(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publish, "PAGED_FROM", 1)
    crash.check_crashes(name, STEP)


@pytest.mark.parametrize(("name", "lost_answer"), [("more rows", True), ("commit", False)])
def test_a_failing_change_can_be_retried(
    name: str, lost_answer: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publish, "PAGED_FROM", 1)
    crash.check_retries(name, lost_answer, STEP)


# -- garbage -----------------------------------------------------------------------------------------------------------


def test_collection_keeps_the_pages_of_all_versions() -> None:
    storage = new_memory()
    ds = numbers(storage, 40)
    first = ds.commit()
    for row in range(40, 60):
        ds.x.append(rows(row, row + 1)[0])
        ds.flush()
    ds.x[3] = np.full(10, -3)
    ds.close()
    before = named(storage)
    collect(storage, grace=0)
    after = named(storage)
    assert after < before
    assert open_on(storage, first, read_only=True).x.numpy()[:, 0].tolist() == list(range(40))
    now = open_on(storage, read_only=True).x.numpy()[:, 0].tolist()
    assert now == [-3 if n == 3 else n for n in range(60)]
    collect(storage, grace=0)
    assert named(storage) == after


def test_a_writer_removes_its_own_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakebed.config.GRACE_SECONDS", 0)
    storage = new_memory()
    ds = numbers(storage, 30)
    for row in range(30, 130):
        ds.x.append(rows(row, row + 1)[0])
        ds.flush()
    live: set[str] = set()
    table(ds).tree.keys(live)  # type: ignore[attr-defined]
    assert live <= named(storage)
    assert len(named(storage) - live) < 60
    assert open_on(storage, read_only=True).x.numpy()[:, 0].tolist() == list(range(130))


def test_a_writer_keeps_the_pages_of_a_commit_to_which_it_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakebed.config.GRACE_SECONDS", 0)
    monkeypatch.setattr("lakebed.versions.gc.collect._EVERY", 1)
    storage = new_memory()
    ds = numbers(storage, 60)
    commit = ds.commit()
    for _ in range(2):
        while len(ds.x) > 40:
            ds.x.pop()
        ds.flush()
        ds.reset()
        while len(ds.x) > 30:
            ds.x.pop()
        ds.flush()
    for row in range(20):
        ds.x.append(rows(row, row + 1)[0])
        ds.flush()
    assert open_on(storage, commit, read_only=True).x.numpy()[:, 0].tolist() == list(range(60))
    assert lakebed.verify(storage.url).is_sound


def test_a_reader_goes_with_its_dataset() -> None:
    """Without a cycle, the lease that keeps the files of a version ends when nobody refers to the dataset."""
    storage = new_memory()
    numbers(storage, 30)
    reader = open_on(storage, read_only=True)
    assert reader.x[20].numpy()[0] == 20
    gone = weakref.ref(reader._session.reader("x", "x"))
    del reader
    assert gone() is None


# -- damage ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["changed", "cut", "gone"])
def test_a_damaged_page_is_told_with_tensor_and_row(damage: str) -> None:
    storage = new_memory()
    ds = numbers(storage, 60)
    ds.commit()
    ds.close()
    entries = table(open_on(storage, read_only=True)).tree.entries()  # type: ignore[attr-defined]
    key, rows_before = pages.key_of(entries[3]), int(entries["rows"][:3].sum())
    data = storage.get(key)
    if damage == "gone":
        storage.delete(key)
    else:
        storage.put(key, data[:-9] + bytes([data[-9] ^ 1]) + data[-8:] if damage == "changed" else data[:50])
    seen = open_on(storage, read_only=True)
    assert seen.x[0].numpy()[0] == 0
    assert seen.x[59].numpy()[0] == 59
    with pytest.raises(CorruptError, match=rf"'x', row {rows_before}.*pages/"):
        seen.x[rows_before].numpy()
    assert not lakebed.verify(storage.url).is_sound
    repair(storage, apply=True)
    assert lakebed.verify(storage.url).is_sound
    assert open_on(storage, read_only=True).x.numpy()[:, 0].tolist() == list(range(60))


def test_a_damaged_index_file_is_written_again_from_the_pages() -> None:
    storage = new_memory()
    ds = numbers(storage, 20)
    ds.commit()
    key = table(ds).index.key  # type: ignore[attr-defined]
    data = storage.get(key)
    storage.put(key, data[:-1] + b"\xff")
    ds.x.append(rows(20, 21)[0])
    ds.flush()
    assert open_on(without_side_files(storage), read_only=True).x.numpy()[:, 0].tolist() == list(range(21))


def test_a_dataset_that_was_deleted() -> None:
    storage = new_memory()
    numbers(storage, 40).commit()
    seen = open_on(storage, read_only=True)
    storage.delete_prefix("")
    with pytest.raises(lakebed.DatasetNotFoundError, match="deleted after it was opened"):
        seen.x[20].numpy()


def test_what_another_program_changes_is_read_from_the_files() -> None:
    storage = new_memory()
    ds = numbers(storage, 40)
    ds.commit()
    ds.close()
    storage.delete(manifest_key(open_on(storage, read_only=True)._session.snapshot.version_id))
    seen = open_on(storage)
    assert isinstance(table(seen), ArrayTable)
    seen.x.append(rows(40, 41)[0])
    seen.flush()
    assert isinstance(table(open_on(storage, read_only=True)), PagedTable)
    assert open_on(storage, read_only=True).x.numpy()[:, 0].tolist() == list(range(41))


# -- copies ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["deepcopy", "copy", "backup", "pack", "some tensors"])
def test_copies_have_pages(way: str, tmp_path: Path) -> None:
    source, target = str(tmp_path / "source"), str(tmp_path / "target")
    ds = lakebed.empty(source)
    for name in ("x", "y"):
        ds.create_tensor(name, dtype="int64", max_chunk_size=100, **PLAIN)
    ds.extend({"x": rows(0, 30), "y": rows(0, 30)})
    first = ds.commit()
    ds.append({"x": rows(30, 31)[0], "y": rows(30, 31)[0]})
    ds.close()
    if way == "deepcopy":
        lakebed.deepcopy(source, target)
    elif way == "some tensors":
        lakebed.deepcopy(source, target, tensors=["x"])
    elif way == "pack":
        lakebed.pack(source, str(tmp_path / "packed.lake"))
        lakebed.unpack(str(tmp_path / "packed.lake"), target)
    elif way == "copy":
        lakebed.copy(source, target)
    else:
        repository = str(tmp_path / "repository")
        lakebed.backup(source, repository)
        lakebed.backup(source, repository)
        lakebed.restore(repository, target)
        assert named(LocalStorage(tmp_path / "target")) == named(LocalStorage(tmp_path / "source"))
    seen = lakebed.load(target, read_only=True)
    assert seen.x.numpy()[:, 0].tolist() == list(range(31))
    if way in ("deepcopy", "backup", "pack"):
        assert isinstance(table(seen), PagedTable)
        assert lakebed.load(f"{target}@{first}", read_only=True).x.numpy()[:, 0].tolist() == list(range(30))
    found = lakebed.verify(target).damage
    assert not [damage for damage in found if damage.kind != "manifest"]
