"""Lock file of 3.x writers: `dataset_lock.lock` (format.md 14).  All numbers are little-endian.

bytes      content
6          node id, from the network card's address
8          f64 expiry, POSIX seconds; 0 once its owner has released the lock
4          process id; absent in old files
8          `lakebed:`       } only in heads that lakebed published to a store without locks of its own:
16         digest, hex   } the version's manifest, which is valid as long as this file has its digest

Deep Lake 3.9.52 reads the first 18 bytes and ignores the rest. It writes 18 bytes when it opens a head for writing, and
deletes the file at the end: a file with a digest shows that 3.9.52 has not opened the head.
"""

from __future__ import annotations

import math
import os
import re
import struct
from dataclasses import dataclass, replace

from lakebed.errors import FormatError
from lakebed.runtime.machine import node_id

LOCK_SECONDS = 300.0
"""Seconds for which 3.9.52 considers a dataset's lock valid."""

_LAYOUT = struct.Struct("<6sdI")
_OLD_SIZE = 14
_OURS = b"lakebed:"
_DIGEST = re.compile(rb"lakebed:([0-9a-f]{16})")
_FULL_SIZE = _LAYOUT.size + len(_OURS) + 16

RELEASED = 0.0
"""Expiry of a released lock."""

_WHAT = "lock file"


@dataclass(frozen=True, slots=True)
class DatasetLock:
    """Owner of a lock (node id, six bytes; process id) and the POSIX time at which it expires.

    Parameters
    ----------
    seal
        Checksum of the version's manifest; empty if the file has none.
    """

    node: bytes
    expiry: float
    pid: int
    digest: str = ""

    @classmethod
    def own(cls, now: float, seconds: float = LOCK_SECONDS, *, digest: str = "") -> DatasetLock:
        """Return the lock of this process from `now` on."""
        return cls(node_id().to_bytes(6, "little"), now + seconds, os.getpid(), digest)

    def released(self) -> DatasetLock:
        """Return the released form of this lock."""
        return replace(self, expiry=RELEASED)

    @property
    def is_released(self) -> bool:
        """Return whether its owner has released it."""
        return self.expiry == RELEASED

    @classmethod
    def from_bytes(cls, data: bytes) -> DatasetLock:
        """Parse the file.

        Raises
        ------
        FormatError
            If the file has another length, or the time is not a number.
        """
        if len(data) not in (_OLD_SIZE, _LAYOUT.size, _FULL_SIZE):
            raise FormatError(f"{_WHAT} has {len(data)} bytes, not {_LAYOUT.size} or {_FULL_SIZE}")
        node, expiry, pid = _LAYOUT.unpack(data[: _LAYOUT.size].ljust(_LAYOUT.size, b"\0"))
        if math.isnan(expiry):
            raise FormatError(f"{_WHAT} has no time of expiry")
        found = _DIGEST.fullmatch(data, _LAYOUT.size)
        if found is None and len(data) == _FULL_SIZE:
            raise FormatError(f"{_WHAT} ends with something other than a digest")
        return cls(node, expiry, pid, found[1].decode() if found else "")

    def to_bytes(self) -> bytes:
        """Return the lock file's bytes."""
        return _LAYOUT.pack(self.node, self.expiry, self.pid) + (
            _OURS + self.digest.encode() if self.digest else b""
        )


def is_live_foreign(data: bytes, now: float) -> bool:
    """Tell whether a lock file belongs to another process and has not expired at `now`.

    A file that is not a lock, as an interrupted write leaves it, is not live.
    """
    try:
        lock = DatasetLock.from_bytes(data)
    except FormatError:
        return False
    own = DatasetLock.own(now)
    return lock.expiry > now and (lock.node, lock.pid) != (own.node, own.pid)
