"""The end of a dataset that the program does not close: what it has unpublished is published all the same.

The garbage collector may come at any moment, also while this very thread is inside a lock that publishing needs. What
it finds is therefore closed by another thread; a dataset whose last reference goes, or that is open when the
interpreter ends, is closed at once.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from queue import SimpleQueue
from typing import TYPE_CHECKING

from lakebed.errors import LakebedError
from lakebed.runtime import process_hooks

if TYPE_CHECKING:
    from lakebed.session.session import Session
    from lakebed.versions.state import Snapshot

Close = Callable[[], None]


class _Closer:
    """A thread that closes what the garbage collector has found."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        # Its put may interrupt another put of the same thread; that of other queues may not.
        self._waiting: SimpleQueue[Close | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._mutex = threading.Lock()

    def start(self) -> None:
        """Have the thread ready: inside a collection it can not be started."""
        if self._thread is not None:
            return
        with self._mutex:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="lakebed-closer", daemon=True)
                try:
                    thread.start()
                except RuntimeError:
                    return  # the interpreter ends: there will be no collection
                self._thread = thread

    def close_later(self, close: Close) -> bool:
        """Close later what is found while a collection runs; tell whether one does."""
        if self._thread is None or _last_phase() != "start":
            return False
        self._waiting.put(close)
        return True

    def finish(self) -> None:
        """Close all that waits."""
        if self._thread is not None:
            self._waiting.put(None)
            self._thread.join()
            self._thread = None

    def drain(self, seconds: float | None = None) -> None:
        """Wait until all that waits now is closed, for at most so many seconds."""
        if self._thread is not None and threading.current_thread() is not self._thread:
            done = threading.Event()
            self._waiting.put(done.set)
            done.wait(seconds)

    def _run(self) -> None:
        while (close := self._waiting.get()) is not None:
            try:
                close()
            except Exception:
                import logging

                logging.getLogger(__name__).exception(
                    "rows of a dataset that nobody holds any more could not be published"
                )
            del close  # or it would hold the dataset, and its files, until the next one is closed


_closer = _Closer()


# What the collector has told last stands last. No function of Python is called for it: a Ctrl-C that came during the
# collection would be raised there, where nothing can catch it, and be lost.
_phases: OrderedDict[str, None] = OrderedDict(start=None, stop=None)


def _last_phase() -> str:
    """Return the last phase in one step: a collection between the making of an iterator and its use would break it."""
    return list(_phases)[-1]


def ready() -> None:
    """Prepare for what :func:`close_finally` may have to do: called before a dataset becomes the writer of a branch.

    One that only reads has nothing to publish, and is closed at once wherever it is found.
    """
    _closer.start()


def drain(seconds: float | None = None) -> None:
    """Wait until all that the garbage collector has found so far is closed, for at most so many seconds."""
    _closer.drain(seconds)


def close_finally(close: Close) -> None:
    """Close something that nothing refers to any more: now, or in a thread if the garbage collector has found it."""
    if not _closer.close_later(close):
        close()


def close_session(session: Session) -> None:
    """Close a session that nobody holds any more; what can not be stored is one line of the log: no caller is there.

    A fault of the library itself is raised, and shown with its traceback.
    """
    waiting = ""
    try:
        with session.mutex:
            if session.has_unpublished:
                waiting = _added(session.snapshot, session.schema())
            session.close()
    except LakebedError as error:
        import logging

        logging.getLogger(__name__).error(  # noqa: TRY400 - users need no traceback of an error that says it all
            "%s of %s, branch %r, could not be stored: %s",
            waiting or "changes",
            session.storage.url,
            session.branch,
            error,
        )


def _added(before: Snapshot, after: Snapshot) -> str:
    """Say what a version has that an earlier one has not."""
    lengths = {name: after.tensor(name).length for name in after.names()}
    known = {name: state.length for name in lengths if (state := before.find(name)) is not None}
    new = [name for name in lengths if name not in known]
    rows = max((length - known.get(name, 0) for name, length in lengths.items()), default=0)
    told = [f"{rows:,} new row{'s' if rows > 1 else ''}"] if rows > 0 else []
    if new:
        listed = ", ".join(map(repr, new[:5])) + (f" and {len(new) - 5:,} more" if len(new) > 5 else "")
        told.append(f"new tensor{'s' if len(new) > 1 else ''} {listed}")
    return " and ".join(told) or "changes"


# Called with the phase and a dictionary that is not empty, which means: to the end.
process_hooks.on_collection(_phases.move_to_end)  # type: ignore[arg-type]
process_hooks.at_exit(_closer.finish)
process_hooks.after_fork(_closer.reset)
