"""A lock file on a store that does not enforce conditions: written, and looked at again once others have had their say.

Two writers that find a lock free at the same moment both write theirs, and the second one replaces the first. After a
pause that is long beside one request each of them reads what is there: one finds its own lock, the other one gives way
(FORMAT.md 14, as Deep Lake 3.9.52 does it on every store).
"""

from __future__ import annotations

from lakebed import clock
from lakebed.errors import KeyNotFound, PreconditionFailed
from lakebed.storage.base import Storage, is_conditional

# What 3.9.52 waits too.
SETTLING_SECONDS = 0.5


def confirm(storage: Storage, key: str, data: bytes) -> None:
    """Make sure that a lock file is still the one that was written just now; nothing to do where conditions hold.

    Raises
    ------
    PreconditionFailed
        If another writer put his there.
    """
    if is_conditional(storage):
        return
    clock.sleep(SETTLING_SECONDS)
    try:
        found = storage.get(key)
    except KeyNotFound:
        found = b""
    if found != data:
        raise PreconditionFailed(f"{key!r} in {storage.url} was written by another writer at the same time")
