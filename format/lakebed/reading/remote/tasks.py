"""Calls that run once, in the first thread that reaches them: a thread of this module, or one that needs the result.

Threads start when there is work and end after a while without. At most ``config.REQUESTS`` threads run, or more if a
store was faster with more requests at the same time. They belong to one process: a forked child starts its own. At exit
the interpreter waits for calls under way and drops the others; a thread that needs the result of a dropped call runs it
itself.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from lakebed import config
from lakebed.errors import StorageError
from lakebed.runtime import process_hooks
from lakebed.runtime.failures import Outcome, outcome
from lakebed.storage.deadline import late, remaining
from lakebed.storage.stores.traffic import widest

T_co = TypeVar("T_co", covariant=True)

# Seconds without work after which a thread ends.
_IDLE = 2.0
# Seconds that the exiting interpreter waits for calls that are under way.
_LAST = 20.0


class LazyFuture(Generic[T_co]):
    """One call and its outcome.

    Attributes
    ----------
    is_done
        Whether the call has returned a result, or raised an error.
    is_dropped
        Whether no thread needs the result any more; then a call that has not begun is not made.
    """

    __slots__ = ("_call", "_claim", "_outcome", "_waiting", "is_done", "is_dropped")

    def __init__(self, call: Callable[[], T_co]) -> None:
        self._call: Callable[[], T_co] | None = call
        self._claim = threading.Lock()
        # Create an event only when a thread waits: most calls end earlier, and creating an event costs more than all
        # other steps of a call.
        self._waiting: list[threading.Event] = []
        self._outcome: Outcome[T_co] | None = None
        self.is_done = False
        self.is_dropped = False

    def run(self) -> None:
        """Make the call unless another thread has begun it."""
        call = self._call
        if call is None or not self._claim.acquire(blocking=False):
            return
        try:
            self._outcome = outcome(call, kind=Exception)
        finally:
            self._call = None
            self.is_done = True
            for event in tuple(self._waiting):
                event.set()

    def result(self) -> T_co:
        """Return the call's result; wait for it, or make the call now.

        Raises
        ------
        Exception
            The error of the call.
        """
        self.run()
        if not self.is_done:
            event = threading.Event()
            self._waiting.append(event)
            # Check again: if the task finished before the event was registered, the event will never be set.
            if not self.is_done:
                event.wait(remaining())
            if not self.is_done:
                raise late("read", "data that another thread has requested")
        if self._outcome is None:
            raise StorageError("the thread that was reading from the storage was interrupted; read again")
        return self._outcome.result()


class _Threads:
    """The threads of this process."""

    def __init__(self) -> None:
        # Holds True for each task, and False for each thread that must end. A finalizer may interrupt a method and
        # call another method of this object; SimpleQueue and reentrant locks allow that.
        self._waiting: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._tasks: deque[LazyFuture[object]] = deque()
        self._mutex = threading.RLock()
        self._threads: set[threading.Thread] = set()
        self._open = 0  # number of submitted tasks that are not done
        self._is_closed = False

    def submit(self, task: LazyFuture[object], *, is_urgent: bool = False) -> None:
        if self._is_closed:
            return
        if is_urgent:
            self._tasks.appendleft(task)
        else:
            self._tasks.append(task)
        self._waiting.put(True)
        with self._mutex:
            self._open += 1
            if self._open > len(self._threads) and len(self._threads) < max(1, config.REQUESTS, widest()):
                self._start()

    def _start(self) -> None:
        thread = threading.Thread(target=self._work, name="lakebed-reading-ahead", daemon=True)
        self._threads.add(thread)
        try:
            thread.start()
        # No more threads can start: threads that wait for results then make the calls themselves.
        except RuntimeError:
            self._threads.discard(thread)

    def _work(self) -> None:
        while True:
            task = None
            # Empty: nothing to do for _IDLE seconds. IndexError: `close` has removed the task.
            with contextlib.suppress(queue.Empty, IndexError):
                task = self._tasks.popleft() if self._waiting.get(timeout=_IDLE) else None
            if task is None:
                with self._mutex:
                    if self._is_closed or not self._waiting.qsize():
                        self._threads.discard(threading.current_thread())
                        return
                continue
            if not task.is_dropped:
                task.run()
            with self._mutex:
                self._open -= 1
            del task  # otherwise its result stays in memory until the next task

    def close(self) -> None:
        """Drop calls that have not begun, and wait a limited time for the others."""
        self._is_closed = True
        try:
            while True:
                self._waiting.get_nowait()
                self._tasks.pop()
        except (queue.Empty, IndexError):
            pass
        with self._mutex:
            threads = list(self._threads)
        for _ in threads:
            self._waiting.put(False)
        end = time.monotonic() + _LAST
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))


_threads = _Threads()


def submit(task: LazyFuture[object], *, is_urgent: bool = False) -> None:
    """Let a free thread make a call soon; otherwise the thread that requests the result makes it.

    Parameters
    ----------
    is_urgent
        The next free thread makes this call before all waiting calls.
    """
    _threads.submit(task, is_urgent=is_urgent)


def _after_fork() -> None:
    global _threads  # noqa: PLW0603 - threads do not survive a fork
    _threads = _Threads()


def _at_exit() -> None:
    _threads.close()


process_hooks.after_fork(_after_fork)
process_hooks.at_exit(_at_exit)
