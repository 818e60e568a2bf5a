"""A thread that publishes what waits for too long in open datasets, also while the program does something else.

Rows that were appended are published together, at the next flush, commit or close; without those after
``config.MAX_UNPUBLISHED_SECONDS``, so that what a program has appended is durable in bounded time even if it is killed.
"""

from __future__ import annotations

import heapq
import math
import threading
import weakref
from itertools import count
from typing import TYPE_CHECKING

from lakebed import config
from lakebed.errors import LakebedError
from lakebed.runtime import clock, process_hooks
from lakebed.session import finalizer
from lakebed.storage import memory

if TYPE_CHECKING:
    from lakebed.session.session import Session

# Most seconds to wait for a thread to leave a dataset: it takes an instant, unless the caller holds the lock that the
# thread wants.
_INSTANT = 5.0

# Seconds until the next attempt after one that failed, and between looks where a `with` block has the rows.
_PAUSE = 1.0


class _Watch:
    """When which session is to be looked after, and the thread that does it.

    It holds a session only while it looks after it: a dataset that is no longer used closes at once.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._dues: weakref.WeakKeyDictionary[Session, float] = weakref.WeakKeyDictionary()
        self._queue: list[tuple[float, int, weakref.ref[Session]]] = []
        self._number = count()
        self._mutex = threading.RLock()  # a collection inside of it may forget a session
        self._left = threading.Condition(self._mutex)
        self._at: str | None = None
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()

    def add(self, session: Session, seconds: float) -> None:
        """Look after a session once so many seconds have passed, unless that happens earlier anyway."""
        with self._mutex:
            due = clock.monotonic() + seconds
            if self._dues.get(session, math.inf) <= due:
                return
            self._dues[session] = due
            heapq.heappush(self._queue, (due, next(self._number), weakref.ref(session)))
            if self._thread is None:
                self._start()
            elif self._queue[0][0] == due:
                self._wake.set()

    def _start(self) -> None:
        thread = threading.Thread(target=self._run, name="lakebed-publisher", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            return  # the interpreter ends, and publishes everything
        self._thread = thread

    def _run(self) -> None:
        while True:
            with self._mutex:
                if not self._queue:
                    self._thread = None
                    return
                pause = self._queue[0][0] - clock.monotonic()
                found = heapq.heappop(self._queue)[2] if pause <= 0 else None
            if found is not None:
                self._look_after(found)
                with self._left:
                    self._at = None
                    self._left.notify_all()
            elif self._wake.wait(pause):
                self._wake.clear()

    def leave(self, url: str) -> None:
        """Wait until no thread holds a session at an address: one that nobody else held is closed and gone then."""
        with self._left:
            if threading.current_thread() is not self._thread:
                self._left.wait_for(lambda: self._at != url, _INSTANT)
        finalizer.drain(_INSTANT)

    def _look_after(self, found: weakref.ref[Session]) -> None:
        """Publish what a session has if it is time, and come back to it if it has something then."""
        with self._mutex:  # a session that begins to wait again right now is added after this
            session = found()
            if session is None:
                return
            self._at = session.storage.url
            self._dues.pop(session, None)
            left = session.seconds_left()
            if left is None:
                return
            if left > 0:
                self.add(session, left)
                return
        pause = _PAUSE
        try:
            session.flush_waiting()
        except LakebedError as error:
            import logging

            logging.getLogger(__name__).warning(
                "rows of %s wait to be published: %s", session.storage.url, error
            )
            pause = max(_PAUSE, config.MAX_UNPUBLISHED_SECONDS)
        except Exception:  # no caller could catch it
            import logging

            logging.getLogger(__name__).exception("rows of %s wait to be published", session.storage.url)
            pause = max(_PAUSE, config.MAX_UNPUBLISHED_SECONDS)
        if session.has_unpublished:
            self.add(session, pause)


_watch = _Watch()


def watch(session: Session) -> None:
    """See to it that what a session has unpublished does not wait for longer than it may."""
    _watch.add(session, config.MAX_UNPUBLISHED_SECONDS)


process_hooks.after_fork(_watch.reset)
memory.let_go.append(_watch.leave)
