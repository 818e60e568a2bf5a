"""Several requests at the same time, on threads that live as long as the call.

A shared pool would not do: a finalizer may need it while the same thread holds the pool's lock, it does not survive a
fork, and it accepts no work when the interpreter ends. A thread costs less than any request over a network.
"""

from __future__ import annotations

import threading
from contextvars import copy_context
from typing import TYPE_CHECKING, TypeVar

from lakebed import config
from lakebed.runtime.failures import Outcome, outcome
from lakebed.storage.base import traits_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lakebed.storage.base import Storage

T = TypeVar("T")


class _Work:
    """Queue of calls for the threads of one `concurrently`."""

    def __init__(self, calls: Iterator[tuple[int, Callable[[], object]]]) -> None:
        self._calls = calls
        self._mutex = threading.Lock()
        self.outcomes: dict[int, Outcome[object]] = {}
        self._is_over = False

    def _next(self) -> tuple[int, Callable[[], object]] | None:
        """Return the next call; an error of the iterator of calls has priority over errors of calls."""
        with self._mutex:
            if self._is_over:
                return None
            found = outcome(next, self._calls, None)
            if found.error is not None:
                self._note(-1, found)
            return found.value

    def run(self) -> None:
        """Make the remaining calls until one fails."""
        while (found := self._next()) is not None:
            number, call = found
            self._note(number, outcome(call))

    def _note(self, number: int, found: Outcome[object]) -> None:
        self.outcomes[number] = found
        self._is_over |= found.error is not None


def concurrently(calls: Iterable[Callable[[], T]], *, workers: int | None = None) -> list[T]:
    """Make calls at the same time and return their results in the order of the calls.

    The calling thread takes part, so that one call needs no thread, and calls are made one by one if no thread can be
    started. After an error no further call begins, and calls under way are waited for.

    Parameters
    ----------
    calls
        Iterable from which each call is taken when its turn comes, so that later calls take no memory yet.
    workers
        Maximum number of calls under way; None is ``config.REQUESTS``.

    Raises
    ------
    BaseException
        The error of the first failed call in the given order.
    """
    waiting = list(calls) if isinstance(calls, list | tuple) else calls
    work = _Work(iter(enumerate(waiting)))
    most = max(1, workers or config.REQUESTS)
    if isinstance(waiting, list):
        most = min(most, len(waiting))
    threads = []
    for _ in range(most - 1):
        # Copy the context of the caller, because it holds the deadline.
        run = copy_context().run
        thread = threading.Thread(target=run, args=(work.run,), name="lakebed-requests", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the interpreter is exiting, or the process has too many threads
            break
        threads.append(thread)
    work.run()
    for thread in threads:
        thread.join()
    return [found.result() for _, found in sorted(work.outcomes.items())]  # type: ignore[misc]


def together(storage: Storage, calls: Sequence[Callable[[], T]]) -> list[T]:
    """Make calls that read from a storage, at the same time unless the storage is local."""
    return [call() for call in calls] if traits_of(storage).local else concurrently(calls)
