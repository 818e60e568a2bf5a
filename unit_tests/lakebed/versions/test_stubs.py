"""Tensors with more chunks than Deep Lake 3.9.52 can be expected to read: a stub is in place of their chunk index."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import lakebed
from lakebed.cli import main
from lakebed.copying.deepcopy import _without_stubs
from lakebed.documents.indexes import pages
from lakebed.documents.indexes.chunk_ids import STUB, ChunkIds
from lakebed.documents.version_tree import FIRST, VersionTree
from lakebed.errors import ChecksumError, CorruptError, DatasetCorruptError, FormatError, LimitError
from lakebed.maintenance.repair import repair
from lakebed.storage.local import LocalStorage
from lakebed.storage.memory import MemoryStorage
from lakebed.testing.faulty import FaultyStorage
from lakebed.versions import chunk_table, publish
from lakebed.versions.chunk_table import folder_of
from lakebed.versions.gc.collect import collect
from lakebed.versions.gc.sweep import Sweep
from lakebed.versions.opening import TREE_KEY, manifest_key
from lakebed.versions.paged import PagedTable
from unit_tests.effort import IS_SOAK
from unit_tests.lakebed.datasets import copy_of, create_on, new_memory, open_on
from unit_tests.lakebed.versions import test_crash as crash
from unit_tests.lakebed.versions import test_paged
from unit_tests.lakebed.versions.test_paged import (
    PLAIN,
    STEP,
    Program,
    head_manifest,
    lowered,
    named,
    numbers,
    rows,
    table,
    without_side_files,
)

__all__ = ["lowered"]
MOST = 20


@pytest.fixture(autouse=True)
def stubs(lowered: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some more chunks have a stub."""
    monkeypatch.setattr(chunk_table, "MOST_WHOLE", MOST)


def file(storage: MemoryStorage | LocalStorage, name: str, version: str | None = None) -> bytes | None:
    """A file of the tensor in a version, the head of main by default."""
    version = version or VersionTree.from_bytes(storage.get(TREE_KEY)).branches["main"]
    key = f"{folder_of(version)}x/{name}"
    return None if storage.stat(key) is None else storage.get(key)


def has_stub(storage: MemoryStorage | LocalStorage, version: str | None = None) -> bool:
    index = file(storage, "chunks_index/unsharded", version)
    assert index is not None
    is_stub = index.startswith(STUB)
    assert not is_stub or file(storage, "chunk_set", version) is None
    return is_stub


def without_manifests(storage: MemoryStorage) -> MemoryStorage:
    """The dataset as it is read if no manifest is valid."""
    copied = copy_of(storage)
    for key, _ in list(copied.list(manifest_key(""))):
        copied.delete(key)
    return copied


def values(storage: MemoryStorage, version: str | None = None) -> list[int]:
    return open_on(storage, version, read_only=True).x.numpy()[:, 0].tolist()  # type: ignore[no-any-return]


# -- what programs do --------------------------------------------------------------------------------------------------


class Larger(Program):
    """Random changes of a dataset, whose tensor has more and fewer chunks than a stub begins with."""

    def check(self) -> None:
        self.ds.flush()
        readers = [self.storage, without_manifests(self.storage)]
        is_beyond = len(table(self.ds)) > MOST
        if not is_beyond:
            readers.append(without_side_files(self.storage))
        elif len(self.rows):
            with pytest.raises((FormatError, DatasetCorruptError)):
                open_on(without_side_files(self.storage), read_only=True).x.numpy(aslist=True)
        for storage in readers:
            seen = open_on(storage, read_only=True)
            assert [int(row[0]) for row in seen.x.numpy(aslist=True)] == self.rows
        self.seen.add(is_beyond)

    seen: set[bool]


@pytest.mark.parametrize("seed", range(24 if IS_SOAK else 5))
def test_any_order_of_changes(seed: int) -> None:
    program = Larger(seed)
    program.seen = set()
    for _ in range(40):
        program.random.choice((*Program.STEPS, Program.extend, Program.pop))(program)
        if program.random.random() < 0.4:
            program.check()
    program.check()
    for commit, expected in program.commits.items():
        for storage in (program.storage, without_manifests(program.storage)):
            seen = open_on(storage, commit, read_only=True)
            assert [int(row[0]) for row in seen.x.numpy(aslist=True)] == expected
    assert lakebed.verify(program.storage.url).is_sound


def test_both_sides_of_the_largest_whole_index() -> None:
    for count in (MOST - 1, MOST, MOST + 1):
        storage = new_memory()
        ds = numbers(storage, count)
        assert has_stub(storage) == (count > MOST)
        first = ds.commit()
        for more in range(count, count + 3):
            ds.x.append(rows(more, more + 1)[0])
            ds.flush()
            assert has_stub(storage) == (more + 1 > MOST)
        second = ds.commit()
        while len(ds.x) > MOST - 2:
            ds.x.pop()
            ds.flush()
            assert has_stub(storage) == (len(ds.x) > MOST)
        third = ds.commit()
        ds.x.append(np.full(10, 99))
        ds.close()
        for seen in (storage, without_manifests(storage)):
            assert values(seen, first) == list(range(count))
            assert values(seen, second) == list(range(count + 3))
        # Deep Lake 3.9.52 finds the chunks in chunk sets, of which the larger versions have none.
        for seen in (storage, without_manifests(storage), without_side_files(storage)):
            assert values(seen, third) == list(range(MOST - 2))
            assert values(seen) == [*range(MOST - 2), 99]


def test_a_commit_of_rows_in_the_middle_hands_its_chunks_down() -> None:
    storage = new_memory()
    ds = numbers(storage, MOST + 5)
    ds.x[3] = np.full(10, -3)
    ds.commit()
    while len(ds.x) > MOST - 2:
        ds.x.pop()
    ds.commit()
    ds.close()
    for seen in (storage, without_manifests(storage), without_side_files(storage)):
        assert values(seen) == [-3 if n == 3 else n for n in range(MOST - 2)]


def test_nobody_takes_a_stub_for_an_empty_tensor() -> None:
    storage = new_memory()
    numbers(storage, MOST + 5).commit()
    index = file(storage, "chunks_index/unsharded")
    assert index is not None
    with pytest.raises(FormatError, match="items of 1 bytes"):  # as in earlier releases
        ChunkIds.from_bytes(index)
    for key in named(storage):
        storage.delete(key)
    for seen in (storage, without_manifests(storage)):
        ds = open_on(seen, read_only=True)
        assert len(ds.x) == MOST + 5
        with pytest.raises(lakebed.CorruptError, match="a part of the chunk index, is missing"):
            ds.x.numpy()
        with pytest.raises(lakebed.CorruptError, match=r"row 3\b.*a part of the chunk index, is missing"):
            ds.x[3].numpy()
    assert not lakebed.verify(storage.url).is_sound


@pytest.mark.parametrize("at", [*range(17), 30, 60, -1])
def test_a_damaged_stub_is_an_error(at: int) -> None:
    storage = new_memory()
    numbers(storage, MOST + 5).close()
    bare = without_manifests(storage)
    version = VersionTree.from_bytes(storage.get(TREE_KEY)).branches["main"]
    key = f"{folder_of(version)}x/chunks_index/unsharded"
    for bit in range(8) if IS_SOAK else [at % 8]:
        data = bytearray(storage.get(key))
        data[at] ^= 1 << bit
        bare.put(key, bytes(data))
        with pytest.raises((FormatError, DatasetCorruptError)):
            values(bare)
        repair(bare, apply=True)
        bare.put(key, storage.get(key))
        assert values(bare) == list(range(MOST + 5))
    for cut in (9, 40, len(data) - 1):
        bare.put(key, bytes(storage.get(key)[:cut]))
        with pytest.raises((FormatError, DatasetCorruptError)):
            values(bare)
    storage.put(key, bytes(data))
    assert values(storage) == list(range(MOST + 5))  # the manifest knows better
    repair(storage, apply=True)
    assert values(without_manifests(storage)) == list(range(MOST + 5))


def test_a_stub_of_two_tensors_is_an_error() -> None:
    storage = new_memory()
    document = table(numbers(storage, MOST + 5)).document()  # type: ignore[attr-defined]
    data = STUB + pages.manifest_bytes(b"", {"x": document, "y": document})
    with pytest.raises(FormatError, match="2 tensors"):
        pages.read_stub(data)


def test_a_table_that_memory_cannot_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = new_memory()
    numbers(storage, MOST + 5)
    monkeypatch.setattr("lakebed.limits.MAX_ENCODER_BYTES", 16 * (MOST + 4))
    ds = open_on(storage, read_only=True)
    assert ds.x[MOST].numpy()[0] == MOST
    with pytest.raises(LimitError, match="chunks_index"):
        table(ds).whole()  # type: ignore[attr-defined]


def test_names_of_pages_that_memory_cannot_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = new_memory()
    tree = table(numbers(storage, MOST + 5)).tree  # type: ignore[attr-defined]
    assert tree.lists
    monkeypatch.setattr("lakebed.limits.MAX_ENCODER_BYTES", pages.ENTRY.itemsize * (len(tree.entries()) - 1))
    with pytest.raises(LimitError, match="names of pages"):
        tree.entries()


@pytest.mark.parametrize("what", ["page", "list"])
@pytest.mark.parametrize("committed", [True, False])
def test_a_lost_page_is_reported_with_its_rows(what: str, committed: bool) -> None:
    storage = new_memory()
    ds = numbers(storage, 60)
    if committed:
        ds.commit()
    ds.close()
    tree = table(ds).tree  # type: ignore[attr-defined]
    entries = tree.root.entries if what == "list" else tree.entries()
    at = tree.lists - 1 if what == "list" else 3
    first, count = int(entries["rows"][:at].sum()), int(entries["rows"][at])
    storage.delete(pages.key_of(entries[at]))
    found = [damage for damage in lakebed.verify(storage.url).damage if damage.kind == "content"]
    assert {damage.rows for damage in found} == {(first, first + count - 1)}
    assert "a part of the chunk index, is missing" in found[0].message
    before = dict(storage.list())
    report = repair(storage, apply=True)
    assert any("not repaired" in step.message and step.lost_rows == count for step in report.steps)
    assert dict(storage.list()).keys() >= before.keys()
    left = [n for n in range(60) if not first <= n < first + count]
    for reader in (storage, without_manifests(storage)):
        seen = open_on(reader, read_only=True)
        assert [seen.x[n].numpy()[0] for n in left] == left


@pytest.mark.parametrize("what", ["page", "list"])
def test_what_a_lost_page_leaves_is_backed_up_and_copied(what: str, tmp_path: Path) -> None:
    storage = new_memory()
    ds = create_on(storage)
    ds.create_tensor("x", dtype="int64", max_chunk_size=100, **PLAIN)
    ds.create_tensor("y", dtype="int64", **PLAIN)
    ds.extend({"x": rows(0, 60), "y": np.arange(60)})
    ds.commit()
    ds.close()
    tree = table(ds).tree  # type: ignore[attr-defined]
    at = tree.lists - 1
    entry = tree.root.entries[at] if what == "list" else tree.entries()[-1]
    first = int(tree.root.entries["rows"][:at].sum()) if what == "list" else 60 - int(entry["rows"])
    storage.delete(pages.key_of(entry))
    left = [n for n in range(60) if not first <= n < first + int(entry["rows"])]
    with pytest.raises(ChecksumError, match="a part of the chunk index, is missing"):
        lakebed.deepcopy(storage.url, tmp_path / "whole")
    with pytest.raises(ChecksumError, match="a part of the chunk index, is missing"):
        lakebed.backup(storage.url, tmp_path / "repository")
    lakebed.backup(storage.url, tmp_path / "repository", keep_damaged=True)
    lakebed.restore(tmp_path / "repository", tmp_path / "restored")
    seen = lakebed.load(tmp_path / "restored", read_only=True)
    assert [seen.x[n].numpy()[0] for n in left] == left
    assert lakebed.deepcopy(storage.url, tmp_path / "y", tensors=["y"]).y.numpy().ravel().tolist() == [
        *range(60)
    ]


def test_repair_loses_no_row_of_a_head_whose_documents_are_gone() -> None:
    storage = new_memory()
    ds = numbers(storage, MOST + 5)
    ds.commit()
    ds.x.append(rows(MOST + 5, MOST + 6)[0])
    ds.close()
    head = VersionTree.from_bytes(storage.get(TREE_KEY)).branches["main"]
    gone = {key: storage.get(key) for key, _ in list(storage.list(folder_of(head))) if "/chunks/" not in key}
    for key in gone:
        storage.delete(key)
    report = repair(storage, apply=True)
    assert report.remaining
    assert VersionTree.from_bytes(storage.get(TREE_KEY)).branches["main"] == head
    for key, data in gone.items():
        storage.put(key, data)
    assert values(storage) == list(range(MOST + 6))


# -- what is written ---------------------------------------------------------------------------------------------------


def test_a_publish_writes_no_byte_for_each_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "SPREAD", 16)
    monkeypatch.setattr(pages, "MOST_ROWS", 32)
    sizes = []
    for count in (100, 800):
        storage = new_memory()
        ds = numbers(storage, count)
        ds.commit()
        before = dict(storage.list())
        ds.x.append(rows(count, count + 1)[0])
        ds.flush()
        after = {key: stat.size for key, stat in storage.list() if key not in before}
        sizes.append(sum(after.values()))
    assert sizes[1] < sizes[0] + 4000  # names of lists


@pytest.mark.parametrize("name", ["more rows", "commit", "rows after a commit", "branch with rows"])
def test_a_crash_at_any_change_leaves_the_old_or_the_new_state(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publish, "PAGED_FROM", 1)
    monkeypatch.setattr(chunk_table, "MOST_WHOLE", 0)
    crash.check_crashes(name, STEP)


@pytest.mark.parametrize(("name", "lost_answer"), [("more rows", False), ("commit", True)])
def test_a_failing_change_can_be_retried(
    name: str, lost_answer: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunk_table, "MOST_WHOLE", 0)
    crash.check_retries(name, lost_answer, STEP)


# -- other programs ----------------------------------------------------------------------------------------------------


def committed_by_another(storage: MemoryStorage) -> str:
    """Commit as Deep Lake 3.9.52 does: files are copied to a new head, the tree loses the digests."""
    tree = VersionTree.from_bytes(storage.get(TREE_KEY))
    head, new = tree.branches["main"], "f" * 40
    for key, _ in list(storage.list(folder_of(head))):
        if "/chunks/" not in key and not key.endswith(("lock", "chunk_set", "commit_diff")):
            storage.put(key.replace(head, new), storage.get(key))
    after = json.loads(tree.commit_head("main", new, "theirs", 1.0, "somebody").to_bytes())
    storage.put(TREE_KEY, json.dumps({"commits": after["commits"], "branches": after["branches"]}).encode())
    return head


@pytest.mark.parametrize("first", [MOST - 2, MOST + 5])
def test_a_commit_of_another_program_that_copies_the_stub(first: int) -> None:
    storage = new_memory()
    ds = numbers(storage, first)
    ds.commit()
    ds.x.extend(rows(first, MOST + 6))
    ds.close()
    theirs = committed_by_another(storage)
    expected = list(range(MOST + 6))
    assert values(storage) == values(storage, theirs) == expected
    collect(storage, grace=0)
    assert values(storage) == expected
    ds = open_on(storage)
    while len(ds.x) > MOST - 1:
        ds.x.pop()
    ds.commit()
    ds.close()
    collect(storage, grace=0)
    for seen in (storage, without_manifests(storage), without_side_files(storage)):
        assert values(seen) == expected[: MOST - 1]
    assert values(storage, theirs) == expected


# -- garbage, repair, copies -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("manifests", [True, False])
def test_collection_keeps_what_stubs_name(manifests: bool) -> None:
    storage = new_memory()
    ds = numbers(storage, MOST - 2)
    first = ds.commit()
    ds.x.extend(rows(MOST - 2, MOST + 10))
    second = ds.commit()
    ds.x[3] = np.full(10, -3)
    ds.flush()
    for row in range(MOST + 10, MOST + 20):
        ds.x.append(rows(row, row + 1)[0])
        ds.flush()
    ds.close()
    if not manifests:
        storage = without_manifests(storage)
    before = named(storage)
    collect(storage, grace=0)
    assert named(storage) < before
    for seen in (storage, without_manifests(storage)):
        assert values(seen, first) == list(range(MOST - 2))
        assert values(seen, second) == list(range(MOST + 10))
        assert values(seen) == [-3 if n == 3 else n for n in range(MOST + 20)]


@pytest.mark.parametrize("what", ["page", "list"])
@pytest.mark.parametrize("recent", [True, False])
def test_collection_without_a_page_removes_what_no_page_can_name(what: str, recent: bool) -> None:
    """Old heads go, chunks and pages stay; once the page is back, all garbage goes."""
    storage = new_memory()
    ds = numbers(storage, 60)
    ds.commit()
    for row in range(60, 70):
        ds.x.append(rows(row, row + 1)[0])
        ds.flush()
    ds.x[3] = np.full(10, -3)
    ds.close()
    whole = copy_of(storage)
    tree = table(ds).tree  # type: ignore[attr-defined]
    lost = pages.key_of(tree.root.entries[0] if what == "list" else tree.entries()[3])
    data = storage.get(lost)
    storage.delete(lost)
    before = {key for key, _ in storage.list()}
    sweep = Sweep(storage, grace=0, recent=recent)
    for _ in sweep.steps():
        pass
    gone = before - {key for key, _ in storage.list()}
    assert sweep.ended
    assert any(key.endswith("dataset_meta.json") for key in gone)
    assert not any("/chunks/" in key or key.startswith(pages.FOLDER) for key in gone)
    (kept,) = (kept for kept in sweep.report.kept if kept.what == "chunks and pages")
    assert lost in kept.why
    assert "put back" in kept.why
    storage.put(lost, data)
    collect(storage, grace=0)
    assert values(storage) == [-3 if n == 3 else n for n in range(70)]
    collect(whole, grace=0)
    assert {key for key, _ in storage.list()} == {key for key, _ in whole.list()}


def test_a_backup_of_a_view_whose_page_is_lost_names_the_page(tmp_path: Path) -> None:
    """The view is of a version outside of the tree, whose other files the backup would have as if nothing was lost."""
    storage = new_memory()
    ds = numbers(storage, 3)
    ds.commit()
    ds.checkout("side", create=True)
    ds.x.extend(rows(3, 60))
    first = ds.commit()
    lost = pages.key_of(table(ds).tree.entries()[3])  # type: ignore[attr-defined]
    ds.checkout("main")
    ds.delete_branch("side", force=True)
    ds.close()
    storage.put("queries.json", json.dumps([{"id": "v", "source-dataset-version": first}]).encode())
    assert first not in VersionTree.from_bytes(storage.get(TREE_KEY)).commits
    storage.delete(lost)
    with pytest.raises(CorruptError, match=lost):
        lakebed.backup(storage.url, tmp_path / "repository")


def test_repair_makes_lost_manifests_from_stubs() -> None:
    storage = new_memory()
    ds = numbers(storage, MOST + 5)
    first = ds.commit()
    ds.x.append(rows(MOST + 5, MOST + 6)[0])
    ds.close()
    for version in (first, VersionTree.from_bytes(storage.get(TREE_KEY)).branches["main"]):
        storage.delete(manifest_key(version))
    assert not lakebed.verify(storage.url).is_sound
    repair(storage, apply=True)
    assert lakebed.verify(storage.url).is_sound
    assert head_manifest(storage)[:8] == b"LBMANIF3"
    assert values(storage) == list(range(MOST + 6))
    assert isinstance(table(open_on(storage, first, read_only=True)), PagedTable)


@pytest.mark.parametrize("way", ["deepcopy", "copy", "backup", "pack", "some tensors"])
def test_copies(way: str, tmp_path: Path) -> None:
    test_paged.test_copies_have_pages(way, tmp_path)
    assert has_stub(LocalStorage(tmp_path / "target"))
    seen = lakebed.load(str(tmp_path / "target"), read_only=True)
    assert seen.x.numpy()[:, 0].tolist() == list(range(31))


def test_a_copy_for_deep_lake_3_reads_the_heads_of_indexes_that_are_no_stubs() -> None:
    storage, read = new_memory(), list[str]()
    ds = numbers(storage, MOST + 5)
    ds.create_tensor("short", dtype="int64", **PLAIN).extend([1, 2])
    ds.commit()
    ds.close()

    class Reads(FaultyStorage):
        def get(self, key: str) -> bytes:
            read.append(key)
            return super().get(key)

    _without_stubs(Reads(storage), VersionTree.from_bytes(storage.get(TREE_KEY)))
    assert [key for key in read if key.endswith("x/chunks_index/unsharded")]
    assert not [key for key in read if key.endswith("short/chunks_index/unsharded")]
    assert not has_stub(storage)


def test_a_copy_for_deep_lake_3(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    ds = lakebed.empty(source)
    ds.create_tensor("x", dtype="int64", max_chunk_size=100, **PLAIN)
    ds.create_tensor("y", dtype="int64", **PLAIN)
    ds.extend({"x": rows(0, 30), "y": np.arange(30)})
    first = ds.commit()
    ds.checkout("side", create=True)
    ds.x.append(rows(30, 31)[0])
    ds.close()
    result = CliRunner().invoke(main, ["cp", str(source), str(target), "--deeplake3"])
    assert result.exit_code == 0, result.output
    assert has_stub(LocalStorage(source))
    assert not has_stub(LocalStorage(target))
    assert not has_stub(LocalStorage(target), first)
    assert not [damage for damage in lakebed.verify(target).damage if damage.key != manifest_key(FIRST)]
    shutil.rmtree(target / ".lakebed")
    for version, count in ((first, 30), ("main", 30), ("side", 31)):
        seen = lakebed.load(f"{target}@{version}", read_only=True)
        assert seen.x.numpy()[:, 0].tolist() == list(range(count))
        assert seen.y.numpy().ravel().tolist() == list(range(30))
    ds = lakebed.load(target)
    ds.x.append(rows(30, 31)[0])
    ds.close()
    assert has_stub(LocalStorage(target))
    wrong = CliRunner().invoke(main, ["cp", str(source), str(tmp_path / "c"), "--deeplake3", "--flat"])
    assert wrong.exit_code != 0
    assert "history" in wrong.output


@pytest.mark.parametrize("tensors", [None, ["x"]])
def test_a_copy_for_deep_lake_3_of_a_dataset_with_garbage(tensors: list[str] | None, tmp_path: Path) -> None:
    storage = new_memory()
    ds = numbers(storage, MOST + 5)
    ds.commit()
    ds.x[3] = np.full(10, -3)
    ds.squash("all")
    ds.close()
    lakebed.deepcopy(storage.url, tmp_path / "target", tensors=tensors, deeplake3=True)
    assert not has_stub(LocalStorage(tmp_path / "target"))
    seen = lakebed.load(tmp_path / "target", read_only=True)
    assert seen.x.numpy()[:, 0].tolist() == [-3 if n == 3 else n for n in range(MOST + 5)]


def test_a_backup_of_what_another_program_committed(tmp_path: Path) -> None:
    storage = new_memory()
    ds = numbers(storage, MOST + 5)
    ds.close()
    committed_by_another(storage)
    lakebed.backup(storage.url, str(tmp_path / "repository"))
    lakebed.restore(str(tmp_path / "repository"), str(tmp_path / "target"))
    seen = lakebed.load(str(tmp_path / "target"), read_only=True)
    assert seen.x.numpy()[:, 0].tolist() == list(range(MOST + 5))


def test_merges_across_the_limit() -> None:
    storage = new_memory()
    ds = create_on(storage)
    ds.create_tensor("x", dtype="int64", max_chunk_size=100)
    ds.x.extend(rows(0, MOST - 4))
    ds.commit()
    ds.checkout("side", create=True)
    ds.x.extend(rows(MOST - 4, MOST + 8))
    ds.commit()
    ds.checkout("main")
    ds.merge("side")
    ds.close()
    assert has_stub(storage)
    for seen in (storage, without_manifests(storage)):
        assert values(seen) == list(range(MOST + 8))
