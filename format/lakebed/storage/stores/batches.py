"""Several puts at the same time, bounded in number and in bytes."""

from __future__ import annotations

import threading
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING

from lakebed import config
from lakebed.storage.base import pieces
from lakebed.storage.concurrently import concurrently

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from lakebed.storage.base import Data


class _Room:
    """Limit of the bytes under way; an object larger than the limit is sent alone."""

    def __init__(self) -> None:
        self._taken = 0
        self._keys: set[str] = set()
        self._change = threading.Condition()
        self.is_broken = False

    def enter(self, key: str, size: int) -> None:
        """Wait for room, and for an earlier put of the same key."""
        with self._change:
            self._change.wait_for(lambda: self.is_broken or self._fits(key, size))
            self._taken += size
            self._keys.add(key)

    def _fits(self, key: str, size: int) -> bool:
        has_room = not self._taken or self._taken + size <= config.UPLOAD_BYTES
        return has_room and key not in self._keys

    def leave(self, key: str, size: int, *, is_broken: bool) -> None:
        """Make room; after a failure no thread waits any more."""
        with self._change:
            self._taken -= size
            self._keys.discard(key)
            self.is_broken = self.is_broken or is_broken
            self._change.notify_all()


def put_in_parallel(put: Callable[[str, Data], object], items: Iterable[tuple[str, Data]]) -> None:
    """Put objects in no particular order; after an error no further put begins.

    Parameters
    ----------
    items
        Taken one at a time, each when its put begins.
    """
    waiting = iter(items)
    ahead = _some(waiting)
    room = _Room()

    def calls() -> Iterator[Callable[[], None]]:
        for key, data, size in chain(ahead, _sized(waiting)):
            room.enter(key, size)
            if room.is_broken:
                return
            yield partial(one, key, data, size)

    def one(key: str, data: Data, size: int) -> None:
        is_broken = True
        try:
            put(key, data)
            is_broken = False
        finally:
            room.leave(key, size, is_broken=is_broken)

    concurrently(calls(), workers=min(config.REQUESTS, max(1, len(ahead))))


def _sized(items: Iterable[tuple[str, Data]]) -> Iterator[tuple[str, Data, int]]:
    return ((key, data, sum(piece.nbytes for piece in pieces(data))) for key, data in items)


def _some(items: Iterator[tuple[str, Data]]) -> list[tuple[str, Data, int]]:
    """Take the items that may be under way at the same time; their number limits the number of threads."""
    found: list[tuple[str, Data, int]] = []
    taken = 0
    for entry in islice(_sized(items), config.REQUESTS):
        found.append(entry)
        taken += entry[2]
        if taken > config.UPLOAD_BYTES:
            break
    return found
