"""Locks on stores that ignore conditions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakebed.documents.lock import DatasetLock
from lakebed.errors import LockedException
from lakebed.runtime import clock
from lakebed.storage.base import Data, is_conditional
from lakebed.storage.memory import MemoryStorage
from lakebed.testing.clock import VirtualClock
from lakebed.versions.locks.lock_files import CONFIRM_SECONDS, _ConditionalLockFiles, confirm
from lakebed.versions.locks.marker import LockFile, lock_key, read_lock

RIVAL = DatasetLock(b"\1\2\3\4\5\6", 4e9, 77)


class Weak(MemoryStorage):
    """Takes conditional puts and does not look at the condition; a rival may write right behind."""

    traits = replace(MemoryStorage.traits, conditional=False)
    rival: bytes | None = None

    def put_if(self, key: str, data: Data, etag: str | None) -> str:
        written = self.put(key, data)
        if self.rival is not None:
            self.put(key, self.rival)
        return written


def test_the_last_one_of_two_has_the_lock() -> None:
    """Who finds another's lock after the pause gives way, though his own put was taken."""
    storage, virtual = Weak(), VirtualClock()
    storage.rival = RIVAL.to_bytes()
    with clock.replaced(virtual), pytest.raises(LockedException, match="another writer just now"):
        _ConditionalLockFiles(storage, "main").enter("head", LockFile())
    assert read_lock(storage, "head").lock == RIVAL
    assert virtual.monotonic() >= CONFIRM_SECONDS


def test_the_only_one_has_the_lock_after_a_pause() -> None:
    """It is this process's."""
    storage, virtual = Weak(), VirtualClock()
    with clock.replaced(virtual):
        guards = _ConditionalLockFiles(storage, "main")
        guards.enter("head", LockFile())
        assert guards.lost(strictly=False) == ""
        storage.put(lock_key("head"), RIVAL.to_bytes())
        assert "process 77" in guards.lost(strictly=False)
    assert virtual.monotonic() == CONFIRM_SECONDS


def test_where_conditions_hold_nobody_waits() -> None:
    """The put itself has said who won."""
    storage, virtual = MemoryStorage(), VirtualClock()
    assert is_conditional(storage)
    with clock.replaced(virtual):
        confirm(storage, "missing", b"")
    assert virtual.monotonic() == 0.0
