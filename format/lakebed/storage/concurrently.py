"""Several requests at the same time, on threads that live as long as the call.

There is no pool: one that is shared may be needed by a finalizer that runs while this very thread holds the pool's
lock, does not survive a fork, and takes no work any more when the interpreter ends. A thread costs less than any
request over a network.
"""

from __future__ import annotations

import threading
from contextvars import copy_context
from typing import TYPE_CHECKING, TypeVar

from lakebed import config
from lakebed.storage.base import traits_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lakebed.storage.base import Storage

T = TypeVar("T")


class _Work:
    """Calls that are taken one after the other by the threads that are free."""

    def __init__(self, calls: Iterator[tuple[int, Callable[[], object]]]) -> None:
        self._calls = calls
        self._mutex = threading.Lock()
        self.results: dict[int, object] = {}
        self.errors: dict[int, BaseException] = {}

    def _next(self) -> tuple[int, Callable[[], object]] | None:
        with self._mutex:
            if self.errors:
                return None
            try:
                return next(self._calls, None)
            except BaseException as error:  # noqa: BLE001 - of the caller's iterator; it is raised there
                self.errors[-1] = error
                return None

    def run(self) -> None:
        """Do what is left to do, until something fails."""
        while (found := self._next()) is not None:
            number, call = found
            try:
                self.results[number] = call()
            except BaseException as error:  # noqa: BLE001 - it is raised in the thread that asked
                self.errors[number] = error


def concurrently(calls: Iterable[Callable[[], T]], *, workers: int | None = None) -> list[T]:
    """Make calls at the same time and return their results in the order of the calls.

    The calling thread takes part, so that one call costs no thread, and everything is done one after the other where no
    thread can be started any more. After an error nothing further is begun; what is under way is waited for.

    Parameters
    ----------
    calls
        Taken one at a time: what a later one needs in memory is made when it is its turn.
    workers
        Calls under way at most; None is ``config.REQUESTS``.

    Raises
    ------
    BaseException
        What the first call that failed, in the order given, has raised.
    """
    waiting = list(calls) if isinstance(calls, list | tuple) else calls
    work = _Work(iter(enumerate(waiting)))
    most = max(1, workers or config.REQUESTS)
    if isinstance(waiting, list):
        most = min(most, len(waiting))
    threads = []
    for _ in range(most - 1):
        # With what the caller's context says: when it gives up.
        run = copy_context().run
        thread = threading.Thread(target=run, args=(work.run,), name="lakebed-requests", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the interpreter ends, or there are too many threads
            break
        threads.append(thread)
    work.run()
    for thread in threads:
        thread.join()
    if work.errors:
        raise work.errors[min(work.errors)]
    return [work.results[number] for number in range(len(work.results))]  # type: ignore[misc]


def together(storage: Storage, calls: Sequence[Callable[[], T]]) -> list[T]:
    """Make calls that read from a storage: at the same time where waiting for answers is most of it."""
    return [call() for call in calls] if traits_of(storage).local else concurrently(calls)
