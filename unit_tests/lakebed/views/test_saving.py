"""Saving and deleting views: all or nothing, beside other savers, 3.9.52 among them, whatever fails when."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import signal
import struct
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import pytest

import lakebed
from lakebed.documents.lock import DatasetLock
from lakebed.errors import (
    CommitStateUnknown,
    DatasetViewSavingError,
    InvalidOperationError,
    LakebedError,
    LockedException,
    StorageError,
)
from lakebed.runtime import clock
from lakebed.storage.base import Storage, innermost
from lakebed.storage.below import below
from lakebed.storage.local import LocalStorage
from lakebed.testing.clock import VirtualClock
from lakebed.testing.faulty import Crash, FaultyStorage
from lakebed.versions.gc.collect import collect
from lakebed.views import catalog
from unit_tests.effort import IS_SOAK
from unit_tests.lakebed.afar import Afar
from unit_tests.lakebed.datasets import copy_of, create_on, kill, new_memory, open_on


def filled(ds: lakebed.Dataset) -> lakebed.Dataset:
    ds.create_tensor("x", dtype="int64")
    ds.create_tensor("text", htype="text")
    ds.extend({"x": np.arange(8), "text": [str(i) for i in range(8)]})
    ds.commit()
    return ds


def later() -> AbstractContextManager[object]:
    """A clock that only sleep moves, as files of now see it."""
    return clock.replaced(VirtualClock(time.time()))


def shown(storage: Storage) -> dict[str, list[int]]:
    """What a fresh reader sees of all views; every one of them has to open."""
    ds = open_on(storage, read_only=True)
    found = {}
    for entry in ds.get_views():
        view = entry.load()
        found[entry.id] = [int(n) for n in np.ravel(view.x.numpy())]
        assert view.text.numpy(aslist=True) == [str(n) for n in found[entry.id]]
    return found


def end(storage: Storage) -> None:
    """End all that a change has opened, as a kill does."""
    kill(storage)
    for folder in {key.split("/")[1] for key, _ in innermost(storage).list(".queries/")}:
        kill(below(storage, f".queries/{folder}"))


OLD = {"a": [1, 2], "b": [5, 3]}
CHANGES: dict[str, tuple[Callable[[lakebed.Dataset], object], dict[str, list[int]]]] = {
    "save": (lambda ds: ds[[7, 0]].save_view(id="c"), {**OLD, "c": [7, 0]}),
    "replace": (lambda ds: ds[[6]].save_view(id="a", overwrite=True), {**OLD, "a": [6]}),
    "copy": (
        lambda ds: ds[[4, 4]].save_view(id="c", optimize=True, verbose=False),
        {**OLD, "c": [4, 4]},
    ),
    "delete": (lambda ds: ds.delete_view("a"), {"b": [5, 3]}),
    "delete a copy": (lambda ds: ds.delete_view("b"), {"a": [1, 2]}),
    "optimize": (lambda ds: ds.get_view("a").optimize(progressbar=False), OLD),
}


@pytest.fixture(scope="module")
def stored() -> Storage:
    """A dataset with two views, one of them copied."""
    ds = filled(create_on(new_memory()))
    ds[1:3].save_view(id="a")
    ds[[5, 3]].save_view(id="b", optimize=True, verbose=False)
    ds.close()
    return ds.storage


class Named(FaultyStorage):
    """With the address of a store: the list of views is locked there as on disks."""

    @property
    def url(self) -> str:
        return f"fault://{id(self)}"


@pytest.mark.parametrize("lost_answer", [False, True])
@pytest.mark.parametrize("name", CHANGES)
def test_a_kill_at_any_write_leaves_the_old_list_or_the_new(
    stored: Storage, name: str, lost_answer: bool
) -> None:
    """And the next save works, and gets along with what the kill left: tried where the list turns, and in between.

    A lost answer at one write leaves what a refusal at the next one does: each of them is made at every fourth write,
    two apart.
    """
    change, new = CHANGES[name]
    seen = OLD
    with later():
        for step in itertools.count(0 if IS_SOAK or lost_answer else 2, 1 if IS_SOAK else 4):
            inner = copy_of(stored)
            faulty = Named(inner, fail_after=step, lost_answer=lost_answer)
            try:
                change(open_on(faulty))
                break
            except Crash:
                end(faulty)
            clock.sleep(400)  # locks of the dead have run out
            last, seen = seen, shown(inner)
            assert seen in (OLD, new), step
            if step % 8 and seen == last and not IS_SOAK:
                continue
            state = seen
            again = open_on(inner)
            again[[2, 6]].save_view(id="next")
            if name in ("save", "copy") and state == OLD:
                change(again)
                state = new
            assert shown(inner) == {**state, "next": [2, 6]}, step
            collect(inner, grace=0)
            assert shown(inner) == {**state, "next": [2, 6]}, step
    assert step >= 4
    assert shown(inner) == new


@pytest.mark.parametrize("lost_answer", [False, True])
@pytest.mark.parametrize("name", ["save", "delete", "replace"])
def test_an_error_at_any_write_is_told_or_settled(stored: Storage, name: str, lost_answer: bool) -> None:
    """A change that raises nothing is there; one whose answer was lost is looked for."""
    change, new = CHANGES[name]
    for step in range(60):
        inner = copy_of(stored)
        faulty = Once(
            inner, fail_after=step, error=lambda: StorageError("no answer"), lost_answer=lost_answer
        )
        with later():
            ds = open_on(faulty)
            try:
                change(ds)
                failed = False
            except LakebedError:
                failed = True
            assert shown(inner) in (([OLD, new]) if failed else [new]), step
        if faulty.fail_after is not None and step > faulty.changes:
            return
    raise AssertionError("more writes than there can be")


class Once(Named):
    """Fails one change only."""

    def _change(self, key: str, change: Callable[[], object]) -> object:  # type: ignore[override]
        try:
            return super()._change(key, change)  # type: ignore[arg-type]
        except StorageError:
            self.fail_after = None
            raise


def test_an_unknown_end_is_told(stored: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = copy_of(stored)
    ds = open_on(storage)
    real = storage.put_if

    def lost(key: str, data: object, etag: str | None) -> str:
        found = real(key, data, etag)  # type: ignore[arg-type]
        if key == "queries.json":
            monkeypatch.setattr(storage, "get", broken)
            raise StorageError("no answer")
        return found

    def broken(key: str) -> bytes:
        raise StorageError("no answer either")

    monkeypatch.setattr(storage, "put_if", lost)
    with pytest.raises(CommitStateUnknown, match="get_views"):
        ds[:1].save_view(id="c")


# -- beside others -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["disk", "memory", "store"])
def test_savers_do_not_lose_each_others_views(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "_CONFIRM_REMOTE", 0.02)
    storage: Storage = {"disk": LocalStorage(tmp_path / "ds"), "memory": new_memory(), "store": Afar()}[where]
    filled(create_on(storage)).close()
    errors = []

    def save(number: int) -> None:
        try:
            ds = open_on(storage)
            for i in range(3):
                ds[[number, i]].save_view(id=f"{number}-{i}")
            ds.delete_view(f"{number}-1")
        except Exception as error:  # noqa: BLE001 - whatever it is fails the test
            errors.append(error)

    threads = [threading.Thread(target=save, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    assert shown(storage) == {f"{n}-{i}": [n, i] for n in range(3) for i in (0, 2)}


def _save_many(path: str, number: int) -> None:
    ds = lakebed.load(path)
    for i in range(3):
        ds[[number, i]].save_view(id=f"{number}-{i}")


def test_processes_do_not_lose_each_others_views(tmp_path: Path) -> None:
    filled(lakebed.empty(tmp_path / "ds")).close()
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_save_many, args=(str(tmp_path / "ds"), n)) for n in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()

    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert shown(LocalStorage(tmp_path / "ds")) == {f"{n}-{i}": [n, i] for n in range(3) for i in range(3)}


def test_one_of_two_gets_an_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one hears of it, and leaves nothing."""
    ds = filled(lakebed.empty(tmp_path / "ds"))
    real = catalog.change_views

    def meanwhile(*arguments: object) -> None:
        monkeypatch.setattr("lakebed.views.save.change_views", real)
        lakebed.load(tmp_path / "ds")[:1].save_view(id="v")
        real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("lakebed.views.save.change_views", meanwhile)
    with pytest.raises(DatasetViewSavingError, match="already exists"):
        ds[2:5].save_view(id="v")

    assert shown(ds.storage) == {"v": [0]}
    assert len(list((tmp_path / "ds" / ".queries").iterdir())) == 1


def test_a_view_that_goes_while_it_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ds = filled(lakebed.empty(tmp_path / "ds"))
    ds[2:5].save_view(id="v")
    real = catalog.change_views

    def meanwhile(*arguments: object) -> None:
        lakebed.load(tmp_path / "ds").delete_view("v")
        real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("lakebed.views.optimize.change_views", meanwhile)
    with pytest.raises(InvalidOperationError, match="was deleted or replaced"):
        ds.get_view("v").optimize(progressbar=False)
    assert [str(p) for p in (tmp_path / "ds").glob(".queries/**/*")] == []


def test_a_running_writer_is_not_disturbed(tmp_path: Path) -> None:
    """Views of an old commit are saved while another process, or dataset, writes the branch."""
    writer = filled(lakebed.empty(tmp_path / "ds"))
    commit = writer.commit_id
    with writer:
        writer.append({"x": 8, "text": "8"})
        lakebed.load(f"{tmp_path / 'ds'}@{commit}")[[1, 0]].save_view(id="v")
        writer.append({"x": 9, "text": "9"})
    writer.commit()
    assert len(writer) == 10
    assert shown(writer.storage) == {"v": [1, 0]}


# -- the lock of 3.9.52 ------------------------------------------------------------------------------------------------


def _foreign(seconds: float) -> bytes:
    return struct.pack("<6sdI", b"\1\2\3\4\5\6", clock.now() + seconds, 4242)


def test_the_lock_of_3_9_52_is_waited_for(tmp_path: Path) -> None:
    ds = filled(lakebed.empty(tmp_path / "ds"))
    (tmp_path / "ds" / "queries.lock").write_bytes(_foreign(0.4))
    begun = time.monotonic()
    ds[:1].save_view(id="v")

    assert time.monotonic() - begun > 0.3
    assert not (tmp_path / "ds" / "queries.lock").exists()


def test_a_lock_that_does_not_end_is_told() -> None:
    ds = filled(create_on(Afar()))
    with later():
        ds.storage.put("queries.lock", _foreign(10_000))
        with pytest.raises(LockedException, match=r"queries\.lock"):
            ds[:1].save_view(id="v")
        assert ds.get_views() == []


def test_the_lock_is_held_in_the_layout_of_3_9_52(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the list is read and replaced, and not longer."""
    ds = filled(create_on(Afar()))
    seen = []
    real = catalog.read_views

    def looked(storage: Storage) -> object:
        stat = storage.stat("queries.lock")
        seen.append(None if stat is None else storage.get("queries.lock"))
        return real(storage)

    monkeypatch.setattr(catalog, "read_views", looked)
    with later():
        ds[:1].save_view(id="v")
    *_, data = seen  # an earlier look, without the lock, counts if the module is imported by this test
    assert data is not None
    assert len(data) == 18
    assert DatasetLock.from_bytes(data).pid == os.getpid()
    assert ds.storage.stat("queries.lock") is None


def test_who_writes_over_the_lock_has_it() -> None:
    """3.9.52 does that without a condition, and looks again after a while, as we do."""
    storage = Afar()
    ds = filled(create_on(storage))
    real, waited = clock.sleep, []

    with later():

        def overwritten(seconds: float) -> None:
            if not waited:
                storage.put("queries.lock", _foreign(5))
            waited.append(seconds)
            real(seconds)

        catalog.clock.sleep, original = overwritten, catalog.clock.sleep  # type: ignore[assignment]
        try:
            ds[:1].save_view(id="v")
        finally:
            catalog.clock.sleep = original  # type: ignore[assignment]
    assert waited[0] == 0.5
    assert sum(waited) > 5
    assert [v.id for v in ds.get_views()] == ["v"]


# -- copies go on ------------------------------------------------------------------------------------------------------


def _copy_slowly(path: str) -> None:
    from lakebed.copying import materialize

    materialize._PUBLISH_BYTES = 1
    real, done = materialize._publish, []

    def published(filling: materialize._Filling) -> None:
        real(filling)
        done.append(1)
        if len(done) == 3:
            os.kill(os.getpid(), signal.SIGKILL)

    materialize._publish = published
    ds = lakebed.load(path)
    ds[::-1].save_view(id="v", optimize=True, verbose=False)


def test_a_copy_that_was_killed_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the same call, in the same folder; the view appears when it is complete."""
    monkeypatch.setattr("lakebed.session.changes.copy_samples._BATCH_BYTES", 20)
    ds = filled(lakebed.empty(tmp_path / "ds"))
    ds.close()
    process = multiprocessing.get_context("fork").Process(target=_copy_slowly, args=(str(tmp_path / "ds"),))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    ds = lakebed.load(tmp_path / "ds")
    assert ds.get_views() == []
    begun = lakebed.load(tmp_path / "ds" / ".queries" / "v", read_only=True)
    there = begun.max_len
    assert there > 0

    ds[::-1].save_view(id="v", optimize=True, verbose=False)

    assert shown(ds.storage) == {"v": [7, 6, 5, 4, 3, 2, 1, 0]}
    assert [p.name for p in (tmp_path / "ds" / ".queries").iterdir()] == ["v"]
    assert not (tmp_path / "ds" / ".queries" / "v" / ".lakebed" / "materializing.json").exists()


def test_another_copy_does_not_go_on_with_it(tmp_path: Path) -> None:
    """Of other rows under the same id."""
    ds = filled(lakebed.empty(tmp_path / "ds"))
    ds.close()
    process = multiprocessing.get_context("fork").Process(target=_copy_slowly, args=(str(tmp_path / "ds"),))
    process.start()
    process.join()
    ds = lakebed.load(tmp_path / "ds")
    ds[2:4].save_view(id="v", optimize=True, verbose=False)

    assert shown(ds.storage) == {"v": [2, 3]}


# -- collections -------------------------------------------------------------------------------------------------------


def test_collections_remove_what_no_view_refers_to() -> None:
    """Once nobody can be at work on it."""
    with later():
        ds = filled(create_on(new_memory()))
        storage = ds.storage
        ds[1:3].save_view(id="kept")
        storage.put(".queries/left/dataset_info.json", b"{}")
        storage.put(".queries/left/VDS_INDEX/chunks/1", b"x")
        stat = storage.stat(".queries/left/VDS_INDEX/chunks/1")
        assert stat is not None
        before = {key for key, _ in storage.list(".queries/kept/")}

        collect(storage, grace=0)
        assert storage.stat(".queries/left/dataset_info.json") is not None
        clock.sleep(3600)
        dry = collect(storage, grace=0, dry_run=True)
        assert storage.stat(".queries/left/dataset_info.json") is not None
        done = collect(storage, grace=0)

    assert [str(r) for r in dry.removed] == [str(r) for r in done.removed]
    assert [(r.what, r.name, r.files) for r in done.removed if r.what == "view data"] == [
        ("view data", "left", 2)
    ]
    assert not list(storage.list(".queries/left/"))
    assert {key for key, _ in storage.list(".queries/kept/")} == before
    assert shown(storage) == {"kept": [1, 2]}


def test_a_collection_without_a_sound_list_removes_nothing() -> None:
    ds = filled(create_on(new_memory()))
    ds[1:3].save_view(id="kept")
    ds.storage.put("queries.json", json.dumps([{"id": 3}]).encode())
    before = {key for key, _ in ds.storage.list(".queries/")}
    with later():
        clock.sleep(10**6)
        with pytest.raises(LakebedError):
            collect(ds.storage, grace=0)
    assert {key for key, _ in ds.storage.list(".queries/")} == before
