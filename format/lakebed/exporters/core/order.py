"""Pieces that several threads make, written one after the other in their order."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Order:
    """What waits for pieces before it; there are as many as the export has under way at a time."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _waiting: dict[int, Callable[[], None]] = field(default_factory=dict)
    _done: int = 0

    def write(self, number: int, write: Callable[[], None]) -> None:
        """Call ``write`` once all pieces of lower numbers are written, perhaps later and in another thread."""
        with self._lock:
            self._waiting[number] = write
            while self._done in self._waiting:
                self._waiting.pop(self._done)()
                self._done += 1
