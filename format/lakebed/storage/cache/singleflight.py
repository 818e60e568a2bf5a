"""Downloads under way: threads that want the same bytes wait for one download."""

from __future__ import annotations

import os
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lakebed.storage.base import Buffer
    from lakebed.storage.cache.files import Item

Name: TypeAlias = "tuple[Item, int]"
Download: TypeAlias = "Future[Buffer | None]"


class SingleFlight:
    """Downloads of this process by object and block; a forked child, which lacks their threads, begins with none."""

    def __init__(self) -> None:
        self._start_afresh()

    def _start_afresh(self) -> None:
        self._under_way: dict[Name, Download] = {}
        self._mutex = threading.Lock()
        self._pid = os.getpid()

    def join(self, names: Iterable[Name]) -> tuple[dict[Name, Download], dict[Name, Download]]:
        """Begin the downloads that no other thread has begun; return them, and the downloads of other threads.

        Returns
        -------
        tuple
            Downloads of the caller, which must `finish` them whatever happens; and the downloads of other threads.
        """
        if self._pid != os.getpid():
            self._start_afresh()
        mine: dict[Name, Download] = {}
        others: dict[Name, Download] = {}
        with self._mutex:
            for name in names:
                found = self._under_way.get(name)
                if found is None:
                    mine[name] = self._under_way[name] = Future()
                else:
                    others[name] = found
        return mine, others

    def found(self, name: Name) -> Download | None:
        """Return the download of these bytes; None if it is not under way."""
        return self._under_way.get(name) if self._pid == os.getpid() else None

    def finish(self, mine: Mapping[Name, Download], brought: Mapping[Name, Buffer]) -> None:
        """Pass the bytes to all waiting threads; a thread that gets none downloads them itself."""
        with self._mutex:
            for name in mine:
                self._under_way.pop(name, None)
        for name, download in mine.items():
            download.set_result(brought.get(name))
