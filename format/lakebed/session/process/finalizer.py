"""Publishing of unpublished changes of datasets that the program does not close.

Python's garbage collector may run at any moment, even while its thread holds a lock that publishing needs. Datasets
that the collector finds are therefore closed by another thread. A dataset whose last reference is dropped, or that is
open when the interpreter exits, is closed at once.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from queue import SimpleQueue

from lakebed.runtime import process_hooks
from lakebed.runtime.failures import outcome

Close = Callable[[], None]


class _Closer:
    """A thread that closes the datasets that the garbage collector finds."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        # Use SimpleQueue: here a `put` may interrupt another `put` of the same thread, which other queues do not
        # allow.
        self._waiting: SimpleQueue[Close | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._mutex = threading.Lock()

    def start(self) -> None:
        """Start the thread in advance, because it cannot be started during a garbage collection."""
        if self._thread is not None:
            return
        with self._mutex:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="lakebed-closer", daemon=True)
                try:
                    thread.start()
                except RuntimeError:
                    return  # the interpreter is exiting and collects no more garbage
                self._thread = thread

    def close_later(self, close: Close) -> bool:
        """Queue the call if a garbage collection is running; return whether the call was queued."""
        if self._thread is None or _last_phase() != "start":
            return False
        self._waiting.put(close)
        return True

    def finish(self) -> None:
        """Close everything in the queue, and end the thread."""
        if self._thread is not None:
            self._waiting.put(None)
            self._thread.join()
            self._thread = None

    def drain(self, seconds: float | None = None) -> None:
        """Wait until everything in the queue is closed, but no longer than the given seconds."""
        if self._thread is not None and threading.current_thread() is not self._thread:
            done = threading.Event()
            self._waiting.put(done.set)
            done.wait(seconds)

    def _run(self) -> None:
        while (close := self._waiting.get()) is not None:
            error = outcome(close, kind=Exception).error
            if error is not None:  # log the error, because the thread has no caller to raise it to
                import logging

                told = "rows of a dataset without references could not be published"
                logging.getLogger(__name__).error(told, exc_info=error)
            # Otherwise these would keep the dataset and its files open until the next dataset is closed.
            del close, error


_closer = _Closer()


# The last key is the phase that the garbage collector reported last. The collector's callback is a built-in method of
# this dictionary: in a Python function, Ctrl-C during a collection would raise an error that nothing could catch.
_phases: OrderedDict[str, None] = OrderedDict(start=None, stop=None)


def _last_phase() -> str:
    """Return the last phase by one call of C code: a collection during a Python loop would invalidate its iterator."""
    return list(_phases)[-1]


def ready() -> None:
    """Prepare for :func:`close_finally`, before a dataset becomes the writer of a branch.

    A dataset that only reads has nothing to publish: closing it needs no lock, so it needs no preparation.
    """
    _closer.start()


def drain(seconds: float | None = None) -> None:
    """Wait until everything that the garbage collector has found is closed, but no longer than the given seconds."""
    _closer.drain(seconds)


def close_finally(close: Close) -> None:
    """Call ``close`` of an unreferenced dataset: now, or in the thread if the garbage collector found the dataset."""
    if not _closer.close_later(close):
        close()


# The collector calls `move_to_end(phase, info)`: `info` is a non-empty dictionary, so it counts as `last=True`, and
# the phase becomes the last key.
process_hooks.on_collection(_phases.move_to_end)  # type: ignore[arg-type]
process_hooks.at_exit(_closer.finish)
process_hooks.after_fork(_closer.reset)
