"""Downloads under way: several threads that want the same bytes wait for one of them."""

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
    """What this process is downloading, by object and block.

    In a forked child nothing is under way: the threads that would bring it are not there.
    """

    def __init__(self) -> None:
        self._start_afresh()

    def _start_afresh(self) -> None:
        self._under_way: dict[Name, Download] = {}
        self._mutex = threading.Lock()
        self._pid = os.getpid()

    def join(self, names: Iterable[Name]) -> tuple[dict[Name, Download], dict[Name, Download]]:
        """Take over what no other thread is downloading yet.

        Returns
        -------
        tuple
            What the caller must bring, and then `finish` whatever happens; and what others bring.
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
        """Return the download that brings this now; None if there is none."""
        return self._under_way.get(name) if self._pid == os.getpid() else None

    def finish(self, mine: Mapping[Name, Download], brought: Mapping[Name, Buffer]) -> None:
        """Hand what was brought to all threads that wait; a thread that gets nothing looks for itself."""
        with self._mutex:
            for name in mine:
                self._under_way.pop(name, None)
        for name, download in mine.items():
            download.set_result(brought.get(name))
