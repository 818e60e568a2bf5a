"""Both storages, and one that counts calls, keep the promises of every storage."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakebed.storage.local import LocalStorage
from lakebed.storage.memory import MemoryStorage
from lakebed.testing.faulty import FaultyStorage
from lakebed.testing.schedule import Planned
from lakebed.testing.storage_conformance import StorageConformance

if TYPE_CHECKING:
    from pathlib import Path

    from lakebed.storage.base import Storage


class TestLocal(StorageConformance):
    @pytest.fixture
    def storage(self, tmp_path: Path) -> Storage:
        return LocalStorage(tmp_path / "not" / "yet" / "there")


class TestMemory(StorageConformance):
    @pytest.fixture
    def storage(self) -> Storage:
        return MemoryStorage()


class TestFaulty(StorageConformance):
    @pytest.fixture
    def storage(self) -> Storage:
        return FaultyStorage(MemoryStorage())


class TestScheduled(StorageConformance):
    """A schedule without faults changes nothing."""

    @pytest.fixture
    def storage(self, tmp_path: Path) -> Storage:
        return FaultyStorage(LocalStorage(tmp_path / "scheduled"), Planned())
