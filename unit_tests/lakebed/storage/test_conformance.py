"""Both storages, and one that counts calls, keep the promises of every storage."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import pytest

from lakebed.storage.base import Storage, StorageTraits, traits_of
from lakebed.storage.below import below
from lakebed.storage.cache.caching import CachedStorage
from lakebed.storage.cache.files import CacheFiles
from lakebed.storage.local import LocalStorage
from lakebed.storage.memory import MemoryStorage
from lakebed.testing.faulty import FaultyStorage
from lakebed.testing.schedule import Planned
from lakebed.testing.storage_conformance import StorageConformance

if TYPE_CHECKING:
    from pathlib import Path


class TestLocal(StorageConformance):
    @pytest.fixture
    def storage(self, tmp_path: Path) -> Storage:
        return LocalStorage(tmp_path / "not" / "yet" / "there")


class TestMemory(StorageConformance):
    @pytest.fixture
    def storage(self) -> Storage:
        return MemoryStorage()


class TestBelow(StorageConformance):
    """A folder of another storage."""

    @pytest.fixture
    def storage(self) -> Storage:
        outer = MemoryStorage()
        outer.put("folders/other", b"not of it")
        return below(outer, "folders/one")


class TestBelowLocal(StorageConformance):
    @pytest.fixture
    def storage(self, tmp_path: Path) -> Storage:
        return below(LocalStorage(tmp_path), ".queries/a/b")


class Unlabelled:
    """A storage of a third party: no traits, and nothing but the methods that all storages have."""

    def __init__(self, url: str) -> None:
        objects, self.url = MemoryStorage(), url
        for name in (*(name for name in vars(Storage) if name[0] != "_" and name != "url"),):
            setattr(self, name, getattr(objects, name))


class TestUnlabelled(StorageConformance):
    @pytest.fixture
    def storage(self) -> Storage:
        return cast("Storage", Unlabelled("elsewhere://objects"))


class TestUnlabelledCached(StorageConformance):
    """With a cache before it."""

    @pytest.fixture
    def storage(self, tmp_path: Path) -> Storage:
        origin = cast("Storage", Unlabelled("elsewhere://cached"))
        return CachedStorage(origin, CacheFiles(str(tmp_path), 1 << 20))


def test_traits_of_a_storage_without_any_are_inferred(tmp_path: Path) -> None:
    """By its url, its methods, and what it wraps: as for a store behind a network where nothing tells otherwise."""
    elsewhere, folder, memory = (Unlabelled(url) for url in ("elsewhere://x", str(tmp_path), "mem://x"))
    assert traits_of(cast("Storage", elsewhere)) == StorageTraits()
    assert traits_of(cast("Storage", folder)) == StorageTraits(
        local=True, folder=str(tmp_path), system_locks=True
    )
    assert traits_of(cast("Storage", memory)) == StorageTraits(local=True, system_locks=True)
    elsewhere.inner = LocalStorage(tmp_path)  # type: ignore[attr-defined]
    elsewhere.delete_many = elsewhere.map = lambda _: None  # type: ignore[attr-defined]
    found = traits_of(cast("Storage", elsewhere))
    assert (found.folder, found.reader_leases, found.bulk_delete, found.mappable) == (
        str(tmp_path),
        True,
        True,
        True,
    )
    assert not found.local
    assert not found.system_locks


def test_a_wrapper_promises_what_it_passes_on(tmp_path: Path) -> None:
    """Files are files below it too, but what it does not count it does not offer."""
    local = LocalStorage(tmp_path)
    assert FaultyStorage(local).traits == replace(local.traits, uncached_writes=False, early_files=False)


class TestFaulty(StorageConformance):
    @pytest.fixture
    def storage(self) -> Storage:
        return FaultyStorage(MemoryStorage())


class TestScheduled(StorageConformance):
    """A schedule without faults changes nothing."""

    @pytest.fixture
    def storage(self, tmp_path: Path) -> Storage:
        return FaultyStorage(LocalStorage(tmp_path / "scheduled"), Planned())
