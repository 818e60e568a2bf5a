"""Lock file of 3.x writers: `dataset_lock.lock` (FORMAT.md 14).  All numbers are little-endian.

bytes      content
6          node id, from the network card's address
8          f64 expiry, POSIX seconds
4          process id; absent in old files
"""

from __future__ import annotations

import math
import os
import struct
import uuid
from dataclasses import dataclass

from lakebed.errors import FormatError

LOCK_SECONDS = 300.0
"""How long 3.9.52 takes a dataset's lock to be valid."""

_LAYOUT = struct.Struct("<6sdI")
_OLD_SIZE = 14
_WHAT = "lock file"


@dataclass(frozen=True, slots=True)
class DatasetLock:
    """Owner of a lock (node id, six bytes; process id) and the POSIX time at which it expires."""

    node: bytes
    expiry: float
    pid: int

    @classmethod
    def own(cls, now: float, seconds: float = LOCK_SECONDS) -> DatasetLock:
        """Lock of this process from `now` on."""
        return cls(uuid.getnode().to_bytes(6, "little"), now + seconds, os.getpid())

    @classmethod
    def from_bytes(cls, data: bytes) -> DatasetLock:
        """Parse the file.

        Raises
        ------
        FormatError
            If it has another length, or the time is no number.
        """
        if len(data) not in (_OLD_SIZE, _LAYOUT.size):
            raise FormatError(f"{_WHAT} has {len(data)} bytes, not {_LAYOUT.size}")
        node, expiry, pid = _LAYOUT.unpack(data.ljust(_LAYOUT.size, b"\0"))
        if math.isnan(expiry):
            raise FormatError(f"{_WHAT} has no time of expiry")
        return cls(node, expiry, pid)

    def to_bytes(self) -> bytes:
        """Write the file."""
        return _LAYOUT.pack(self.node, self.expiry, self.pid)


def is_live_foreign(data: bytes, now: float) -> bool:
    """Tell whether a lock file belongs to another process and has not expired at `now`.

    A file that is no lock counts as not live, as an interrupted write leaves it.
    """
    try:
        lock = DatasetLock.from_bytes(data)
    except FormatError:
        return False
    own = DatasetLock.own(now)
    return lock.expiry > now and (lock.node, lock.pid) != (own.node, own.pid)
