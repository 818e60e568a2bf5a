"""A thread that publishes rows of open datasets that have waited too long, while the program does something else.

Appended rows are published together, at the next flush, commit or close, and at the latest after
``config.MAX_UNPUBLISHED_SECONDS``: they are durable in bounded time even if the program is killed.
"""

from __future__ import annotations

import heapq
import math
import threading
import weakref
from itertools import count

from lakebed import config
from lakebed.errors import LakebedError
from lakebed.runtime import clock, process_hooks
from lakebed.runtime.failures import outcome
from lakebed.session.process import finalizer
from lakebed.session.process.open_sessions import OpenSession
from lakebed.storage import memory

# Maximum number of seconds to wait until the thread drops its reference to a dataset. The thread drops it almost at
# once, unless it waits for a lock that the caller holds.
_INSTANT = 5.0

# Seconds until the next attempt after a failure, and between checks while a `with` block holds back its rows.
_PAUSE = 1.0


class _Watch:
    """Times at which sessions are due, and the thread that publishes them.

    The thread refers to a session only while it publishes it, so a dataset that is no longer used closes at once.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._dues: weakref.WeakKeyDictionary[OpenSession, float] = weakref.WeakKeyDictionary()
        self._queue: list[tuple[float, int, weakref.ref[OpenSession]]] = []
        self._number = count()
        # Reentrant, because the garbage collector may drop a session while this thread holds the lock.
        self._mutex = threading.RLock()
        self._left = threading.Condition(self._mutex)
        self._at: str | None = None
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()

    def add(self, session: OpenSession, seconds: float) -> None:
        """Schedule a session after the given seconds, unless it is due earlier already."""
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
            return  # the interpreter is exiting, and closing the datasets publishes everything
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
        """Wait until the thread refers to no session at an address; a session without other references then closes."""
        with self._left:
            if threading.current_thread() is not self._thread:
                self._left.wait_for(lambda: self._at != url, _INSTANT)
        finalizer.drain(_INSTANT)

    def _look_after(self, found: weakref.ref[OpenSession]) -> None:
        """Publish the changes of a session if it is due, and schedule it again if any are left."""
        with self._mutex:  # `add` waits for this lock, so it schedules a session after this check
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
        error = outcome(session.flush_waiting, kind=Exception).error
        if error is not None:  # log the error, because the thread has no caller to raise it to
            import logging

            is_ours = isinstance(error, LakebedError)
            level, told = logging.WARNING if is_ours else logging.ERROR, "rows of %s wait to be published: %s"
            logging.getLogger(__name__).log(
                level, told, session.storage.url, error, exc_info=None if is_ours else error
            )
            pause = max(_PAUSE, config.MAX_UNPUBLISHED_SECONDS)
        if session.has_unpublished:
            self.add(session, pause)


_watch = _Watch()


def watch(session: OpenSession) -> None:
    """Schedule a session: its changes are published once they have waited for the maximum time."""
    _watch.add(session, config.MAX_UNPUBLISHED_SECONDS)


process_hooks.after_fork(_watch.reset)
memory.let_go.append(_watch.leave)
