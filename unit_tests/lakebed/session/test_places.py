"""Datasets that are made in place of others: removals that were cut off can be finished, and other files stay."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import lakebed
from lakebed.errors import PathNotEmptyException
from lakebed.session import places
from lakebed.storage.base import Storage
from lakebed.storage.local import LocalStorage
from lakebed.testing.faulty import Crash, FaultyStorage
from lakebed.testing.schedule import Fault, Planned
from unit_tests.lakebed.afar import Afar
from unit_tests.lakebed.datasets import create_on, new_memory, open_on

KINDS = {"memory": new_memory, "store": Afar}


def filled(storage: Storage) -> Storage:
    """A dataset with two commits, a tag and a saved view."""
    ds = create_on(storage)
    ds.create_tensor("x", dtype="int64").extend([1, 2, 3])
    ds.commit()
    ds.create_tag("first")
    ds[:2].save_view(id="v", verbose=False)
    ds.x.append(4)
    ds.commit()
    ds.close()
    return storage


def stored(kind: str, path: Path) -> Storage:
    return filled(LocalStorage(path) if kind == "disk" else KINDS[kind]())


def overwritten(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "open_storage", lambda _: storage)
    lakebed.empty("mem://any", overwrite=True).close()


@pytest.mark.parametrize("kind", ["disk", *KINDS])
@pytest.mark.parametrize("torn", [False, True])
def test_an_overwrite_that_is_cut_off_anywhere_can_be_repeated(
    kind: str, torn: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After every number of changes: the old dataset, or none; and the same call makes the new one."""
    number = 0
    while True:
        shutil.rmtree(tmp_path / "ds", ignore_errors=True)
        storage = stored(kind, tmp_path / "ds")
        faulty = FaultyStorage(storage, fail_after=number, error=Crash)
        if torn:
            faulty = FaultyStorage(
                storage,
                Planned(Fault("torn", number, ["delete_prefix"], seed=number)),
            )
        try:
            overwritten(faulty, monkeypatch)
            is_cut = False
        except Crash:
            is_cut = True
            if storage.stat("version_control_info.json") is not None:
                found = open_on(storage, read_only=True)
                assert not found.tensors or found.x.numpy().ravel().tolist() == [1, 2, 3, 4]
            overwritten(storage, monkeypatch)
        assert list(open_on(storage, read_only=True).tensors) == []
        assert not [
            key for key, _ in storage.list() if "/x/" in key or key in (places.REMOVING, "queries.json")
        ]
        if not is_cut:
            break
        number += 1
    assert number > (1 if torn else 3)


@pytest.mark.parametrize("kind", ["disk", *KINDS])
def test_a_removal_that_was_cut_off_is_finished_only_on_request(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = stored(kind, tmp_path / "ds")
    with pytest.raises(Crash):
        places.remove(FaultyStorage(storage, fail_after=2, error=Crash))
    left = {key for key, _ in storage.list()}
    monkeypatch.setattr(places, "open_storage", lambda _: storage)
    with pytest.raises(PathNotEmptyException, match="was interrupted: pass overwrite=True"):
        lakebed.empty("mem://any")
    assert {key for key, _ in storage.list()} == left
    lakebed.delete("mem://any", force=True)
    assert not list(storage.list())


@pytest.mark.parametrize("cut", [False, True])
def test_datasets_below_stay(cut: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = stored("disk", tmp_path / "ds")
    inner = stored("disk", tmp_path / "ds" / "versions" / "inner")
    before = {key: inner.get(key) for key, _ in inner.list()}
    if cut:
        with pytest.raises(Crash):
            places.remove(FaultyStorage(storage, fail_after=5, error=Crash))
    overwritten(storage, monkeypatch)
    assert {key: inner.get(key) for key, _ in inner.list()} == before
    assert storage.stat(places.REMOVING) is None


def test_other_files_are_not_taken_for_a_dataset(tmp_path: Path) -> None:
    """A folder without a dataset, or one whose history is lost, is not emptied by a call that makes a dataset."""
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_bytes(b"cat")
    with pytest.raises(PathNotEmptyException):
        lakebed.empty(tmp_path / "photos", overwrite=True)
    assert (tmp_path / "photos" / "cat.jpg").read_bytes() == b"cat"
    storage = stored("disk", tmp_path / "ds")
    (tmp_path / "ds" / "version_control_info.json").unlink()
    left = {key for key, _ in storage.list()}
    with pytest.raises(PathNotEmptyException):
        lakebed.empty(tmp_path / "ds", overwrite=True)
    assert {key for key, _ in storage.list()} == left
