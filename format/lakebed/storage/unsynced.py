"""What was written to a local disk without being forced there, and what may not be there after that failed.

After a forced write has failed, the system may have dropped what was to be written and take the next one for a success.
Such files are written anew, from what they hold, if that still is what was written: checksums tell.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import xxhash

from lakebed.storage.base import Summed, pieces

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lakebed.storage.base import Buffer, Data


class Unsynced:
    """Files of one folder, by their paths."""

    def __init__(self) -> None:
        self._written: dict[str, Callable[[Buffer], bool]] = {}
        self._failed: set[str] = set()

    def wrote(self, path: str, content: Data) -> None:
        """Remember what a file holds that was not forced to disk."""
        if isinstance(content, Summed):
            self._written[path] = content.is_same
        else:
            self._written[path] = partial(_is_same, _sum(content))

    def gone(self, path: str) -> None:
        """Forget a file that is not there after all."""
        self._written.pop(path, None)

    def sync_failed(self, paths: Iterable[str]) -> None:
        """Note files that may be missing on the disk, as forcing them there has failed."""
        self._failed.update(paths)

    def has_sync_failed(self, path: str) -> bool:
        """Whether forcing a file to disk has failed, and nothing else has brought it there since."""
        return path in self._failed

    def synced(self, paths: Iterable[str]) -> None:
        """Note files that are on the disk."""
        for path in paths:
            self._failed.discard(path)
            self._written.pop(path, None)

    def holds(self, path: str, content: Buffer) -> bool:
        """Whether this is what was written to a file; true of one that is not known."""
        is_same = self._written.get(path)
        return is_same is None or is_same(content)

    def clear(self) -> None:
        """Forget all files."""
        self._written.clear()
        self._failed.clear()


def _sum(content: Data) -> int:
    state = xxhash.xxh3_64()
    for view in pieces(content):
        state.update(view)
    return state.intdigest()


def _is_same(known: int, content: Buffer) -> bool:
    return known == _sum(content)
