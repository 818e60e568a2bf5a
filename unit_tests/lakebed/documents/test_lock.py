"""The lock file of 3.x writers."""

from __future__ import annotations

import contextlib
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.documents.lock import DatasetLock, is_live_foreign
from lakebed.errors import FormatError


def test_golden_bytes() -> None:
    """The example of format.md 15.7: node id, time, pid 4615."""
    data = bytes.fromhex("010000 00fc02") + bytes.fromhex("000000000000f03f") + bytes.fromhex("07120000")
    lock = DatasetLock.from_bytes(data)
    assert lock == DatasetLock(bytes.fromhex("01000000fc02"), 1.0, 4615)
    assert lock.to_bytes() == data
    assert DatasetLock.from_bytes(data[:14]).pid == 0


def test_own_lock_is_not_foreign() -> None:
    """This process can take its own lock again."""
    lock = DatasetLock.own(1000.0)
    assert lock.pid == os.getpid()
    assert lock.expiry == 1300.0
    assert len(lock.to_bytes()) == 18
    assert not is_live_foreign(lock.to_bytes(), 1000.0)


def test_foreign_lock_is_live_until_it_expires() -> None:
    """Another process on this machine, or the same process id on another one."""
    own = DatasetLock.own(1000.0)
    for other in (DatasetLock(own.node, 1300.0, own.pid + 1), DatasetLock(b"\1\2\3\4\5\6", 1300.0, own.pid)):
        assert is_live_foreign(other.to_bytes(), 1299.0)
        assert not is_live_foreign(other.to_bytes(), 1300.0)


@pytest.mark.parametrize("size", [0, 13, 15, 17, 19, 1000])
def test_other_lengths_are_no_locks(size: int) -> None:
    """They do not stop a writer, as an interrupted write leaves them."""
    with pytest.raises(FormatError):
        DatasetLock.from_bytes(bytes(size))
    assert not is_live_foreign(bytes(size), 0.0)


@given(st.binary(min_size=18, max_size=18))
def test_random_bytes(data: bytes) -> None:
    """Nothing but FormatError comes out."""
    is_live_foreign(data, 0.0)
    with contextlib.suppress(FormatError):
        assert DatasetLock.from_bytes(data).to_bytes() == data


def test_a_lock_with_a_digest_begins_like_any_other() -> None:
    """3.9.52 reads the first 18 bytes; what is behind them says which manifest counts, and nothing else does."""
    lock = DatasetLock(b"\1\2\3\4\5\6", 1300.0, 77, "0123456789abcdef")
    data = lock.to_bytes()
    assert data[:18] == DatasetLock(lock.node, lock.expiry, lock.pid).to_bytes()
    assert data[18:] == b"lakebed:0123456789abcdef"
    assert DatasetLock.from_bytes(data) == lock
    assert is_live_foreign(data, 1299.0)
    released = lock.released()
    assert released.is_released
    assert released.digest == lock.digest
    assert not is_live_foreign(released.to_bytes(), 0.5)
    for wrong in (data[:-1], data + b"0", data[:18] + b"lakebed:0123456789ABCDEF", data[:18] + bytes(24)):
        with pytest.raises(FormatError):
            DatasetLock.from_bytes(wrong)
